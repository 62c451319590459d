"""`groundbox run`: one program in one fresh sandbox."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from groundbox.cli import own as own_options
from groundbox.cli import program as programs
from groundbox.cli import report
from groundbox.cli.ending import Ended, ends_tidily, say
from groundbox.cli.options import Asked, naming_options, takes_engine, takes_inputs, takes_sandbox
from groundbox.cli.own import takes_own
from groundbox.cli.program import Handed, Program, takes_files
from groundbox.cli.results import Written, check_folder, write, write_file
from groundbox.cli.terminal import Screen, screens
from groundbox.cli.wording import worded
from groundbox.errors import EngineUnavailable, GroundboxError, GuestFileError
from groundbox.execution import Execution
from groundbox.remote import engine

if TYPE_CHECKING:
    from groundbox.cli.interrupts import Heed

GUEST_FAILED = 1
WE_FAILED = 3


@click.command()
@click.argument("words", metavar="[FILE|-] [-- ARGS]...", nargs=-1)
@click.option("-c", "code", metavar="CODE", help="The program itself.")
@click.option("--language", metavar="L", help="By default the one of FILE's ending or first line, or python.")
@click.option(
    "--mode",
    type=click.Choice(["cell", "script", "command"]),
    help="By default script for a FILE, and for -c and - the language's own, which is cell for Python; "
    "arguments and --stdin make a script of these. A command is what `bash -c` takes.",
)
@click.option("--stdin", metavar="F", help="Standard input of a script: a file, or - for our own.")
@takes_files
@click.option("--out", type=Path, metavar="DIR", help="Where to write the files and displays it made.")
@click.option("--trace", type=Path, metavar="F", help="Record what it does, step by step, as JSON Lines.")
@takes_own
@takes_sandbox
@takes_inputs
@takes_engine
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, and nothing else there.")
@ends_tidily
def run(
    words: tuple[str, ...],
    code: str | None,
    language: str | None,
    mode: str | None,
    stdin: str | None,
    files: tuple[str, ...],
    out: Path | None,
    trace: Path | None,
    own: tuple[str, ...],
    asked: Asked,
    *,
    no_engine: bool,
    as_json: bool,
) -> int:
    """Runs one program in a fresh sandbox and shows what happened.

    FILE is run as a script: a program with arguments, standard input and an exit code.
    With -c or - the code is a cell: its last expression is its value, and `await`, `%` and `!` work.

    Its output goes to our stdout and stderr as it comes, without control sequences on a terminal.
    All that is ours goes to stderr.

    Exits with 0 when the program did, 1 when it failed, 2 on bad usage, 3 when groundbox failed.
    """
    with naming_options():
        program = programs.find(words, code, language=language, mode=mode, stdin=stdin)
        chosen = own_options.read(own, program.language)
        databases = own_options.databases(chosen)
    handed = [programs.hand_over(each, most_bytes=asked.limits.disk_bytes) for each in files]
    if out is not None and (problem := check_folder(out)):
        raise programs.bad("--out", problem)
    if trace is not None and (complaint := _check_file(trace)):
        raise programs.bad("--trace", complaint)
    with naming_options(chosen):
        streams = None if as_json else screens()
        options = {**_options(program), **chosen, "trace": trace is not None}
        ran, ended_by = _carried_out(program, options, asked, databases, handed, streams, no_engine=no_engine)
        execution = worded(ran)
    failed = _keep_trace(execution, trace)
    written = write(execution, out) if out is not None else None
    problems = dict(written.problems) if written else {}
    if as_json:
        print(json.dumps(execution.to_dict()), flush=True)
    else:
        _tell(execution, program, written, interrupted=bool(ended_by))
        problems = {path: reason for path, reason in problems.items() if path not in execution.artifacts}
    for path, reason in problems.items():
        click.echo(f"groundbox: {path!r} is not written: {reason}", err=True)
    if ended_by:
        raise Ended(ended_by)
    if failed or (written and written.problems):
        return WE_FAILED
    return 0 if execution.ok else GUEST_FAILED


def _keep_trace(execution: Execution, path: Path | None) -> bool:
    """Write the trace, if one is wanted; whether that failed, which is told and costs nobody the result."""
    if path is None:
        return False
    try:
        write_file(path, execution.trace.dumps(), "--trace")
    except GroundboxError as error:
        say(str(error))
        return True
    return False


def _carried_out(
    program: Program,
    options: Mapping[str, Any],
    asked: Asked,
    databases: Mapping[str, Any],
    handed: Sequence[Handed],
    streams: tuple[Screen, Screen] | None,
    *,
    no_engine: bool,
) -> tuple[Execution, int]:
    """The result, by the engine in the background where that may be, and the number of the signal that came, or 0."""
    if not no_engine and engine.wanted(say):
        from groundbox.cli import warm

        if warm.can_carry_out(asked, databases):
            try:
                return warm.run(program.source, options, asked, handed, streams)
            except EngineUnavailable as error:
                if error.program_ran:
                    raise
                say(f"{error}; this program runs without it, which takes longer to start")
    from groundbox.cli.interrupts import run_heeding_signals

    return run_heeding_signals(lambda heed: _run(program, options, asked, databases, handed, heed, streams=streams))


def _options(program: Program) -> dict[str, Any]:
    return {
        "language": program.language,
        "mode": program.mode,
        "argv": program.argv,
        "stdin": program.stdin,
        "filename": program.filename,
    }


async def _run(
    program: Program,
    options: Mapping[str, Any],
    asked: Asked,
    databases: Mapping[str, Any],
    handed: Sequence[Handed],
    heed: Heed,
    *,
    streams: tuple[Screen, Screen] | None,
) -> Execution:
    from groundbox.sandbox import languages
    from groundbox.sandbox.sandbox import AsyncSandbox, expect_one_run

    profile = languages.profile_for(program.language, program.source, program.mode)
    async with AsyncSandbox(profile=profile, databases=databases, **vars(asked)) as box:
        heed.box = box
        expect_one_run(box)
        for each in handed:
            await _put(box, each)
        if streams is None:
            return await box.run_last(program.source, **options)
        async for event in box.stream(program.source, last=True, **options):
            if event.kind in ("stdout", "stderr"):
                streams[event.kind == "stderr"].guest(event.text)
            elif event.execution is not None:
                for screen in streams:
                    screen.end_guest()
                return event.execution
    raise AssertionError("a stream ends with its execution")


def _check_file(path: Path) -> str | None:
    """Why the trace cannot be written to `path`."""
    if path.is_dir():
        return f"{path} is a folder; give a file to write to"
    if not path.parent.is_dir():
        return f"there is no folder {path.parent}"
    return None


async def _put(box: Any, each: Handed) -> None:
    try:
        await box.files.put(each.host, each.guest)
    except GuestFileError as error:
        raise programs.bad("--file", str(error)) from None


def _tell(execution: Execution, program: Program, written: Written | None, *, interrupted: bool) -> None:
    """Value to stdout; failure, displays, files and summary to stderr.

    Args:
        interrupted: The failure is that someone ended the command, who needs no traceback of it.
    """
    stdout, stderr = screens()
    if execution.text is not None:
        stdout.say(execution.text)
    shown = dataclasses.replace(execution, error=None) if interrupted else execution
    for line in report.lines(shown, mode=program.mode, written=written):
        stderr.say(line)
    if written is None and (execution.displays or execution.artifacts):
        stderr.say("groundbox: --out DIR keeps these")
    stderr.say(report.summary(execution))
