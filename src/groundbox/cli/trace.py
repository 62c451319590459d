"""`groundbox trace`: what a program did, step by step, as text, as a page or as a file."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, Final

import click

from groundbox.cli import program as programs
from groundbox.cli import report
from groundbox.cli.ending import Ended, ends_tidily
from groundbox.cli.interrupts import Heed, run_heeding_signals
from groundbox.cli.options import Asked, naming_options, takes_inputs, takes_sandbox
from groundbox.cli.results import write_file
from groundbox.cli.terminal import screens
from groundbox.cli.wording import worded
from groundbox.errors import GroundboxError
from groundbox.execution import Execution
from groundbox.sandbox.sandbox import AsyncSandbox
from groundbox.trace.record.errors import InvalidTrace
from groundbox.trace.record.reading import Trace
from groundbox.trace.show.forms import FORMS
from groundbox.trace.show.page import html
from groundbox.trace.show.terminal import terminal
from groundbox.trace_options import MOST_BYTES, MOST_EVENTS, TraceOptions

GUEST_FAILED: Final = 1
MADE_BEFORE: Final = ".jsonl"
_MOST_FILE: Final = 2 * MOST_BYTES
_path = click.Path(path_type=Path, dir_okay=False)
_events = click.IntRange(1, MOST_EVENTS)


@click.command()
@click.argument("program", metavar="PROGRAM")
@click.option("--call", metavar="F", help="Call this function of the program, rather than running it as a script.")
@click.option("--args", "arguments", metavar="JSON", help="Its arguments: a list by position, an object by name.")
@click.option("--html", "page", type=_path, metavar="F", help="Write a page to step through the run in a browser.")
@click.option("--json", "records", type=_path, metavar="F", help="Write the trace itself, as JSON Lines.")
@click.option(
    "--form",
    type=click.Choice(list(FORMS)),
    help="The text on stdout; by default terminal, and none when a file is written.",
)
@click.option(
    "--soft-events", type=_events, default=TraceOptions().soft_events, show_default=True,
    help="Records after which loops and calls are folded.",
)  # fmt: skip
@click.option(
    "--max-events", type=_events, default=TraceOptions().max_events, show_default=True,
    help="Records after which recording ends.",
)  # fmt: skip
@takes_sandbox
@takes_inputs
@ends_tidily
def trace(
    program: str,
    call: str | None,
    arguments: str | None,
    page: Path | None,
    records: Path | None,
    form: str | None,
    soft_events: int,
    max_events: int,
    asked: Asked,
) -> int:
    """Shows what a program did: every line, every value, every call.

    PROGRAM is a Python file, - for stdin, or a trace that was made before (.jsonl).
    Loops and recursion are folded in the text; the page unfolds them.
    What the program printed is part of the trace.

    Exits with 0 when the program did, 1 when it failed, 2 on bad usage, 3 when groundbox failed.
    """
    for option, path in (("--html", page), ("--json", records)):
        if path is not None and not path.absolute().parent.is_dir():
            raise programs.bad(option, f"there is no folder '{path.absolute().parent}'; make it first")
    execution, ended_by = None, 0
    if program.endswith(MADE_BEFORE):
        for option, value in (("--call", call), ("--args", arguments)):
            if value is not None:
                raise programs.bad(option, f"{program!r} is a trace made before; name a program to run it again")
        made = read_made(program, "PROGRAM")
    else:
        execution, ended_by = _execute(program, call, arguments, asked, soft_events=soft_events, max_events=max_events)
        made = execution.trace
        if made is None:
            raise GroundboxError("the run left no trace")
    _write(made, page, records)
    _show(made, form or (None if page or records else "terminal"))
    status = _tell(made, execution)
    if ended_by:
        raise Ended(ended_by)
    return status


def read_made(name: str, option: str) -> Trace:
    """A trace that was made before. Raises click.BadParameter, in the name of `option`, for what is none."""
    try:
        if os.path.getsize(name) > _MOST_FILE:
            raise programs.bad(option, f"{name!r} is larger than any trace, {_MOST_FILE} bytes; name another file")
        return Trace.loads(Path(name).read_bytes())
    except InvalidTrace as error:
        raise programs.bad(option, f"{name!r} is no trace that can be used: {error}; make it anew") from None
    except (OSError, ValueError) as error:
        problem = getattr(error, "strerror", None) or str(error)
        raise programs.bad(option, f"{name!r} cannot be read: {problem}") from None


def _execute(
    name: str, call: str | None, arguments: str | None, asked: Asked, *, soft_events: int, max_events: int
) -> tuple[Execution, int]:
    found = programs.find((name,), None, language="python", mode="script", stdin=None)
    if arguments is not None and call is None:
        raise programs.bad("--args", "there is nothing to pass arguments to; name a function with --call")
    options: dict[str, Any] = {"mode": "script", "filename": found.filename}
    if call is not None:
        options = {"mode": "call", "call": call, **_arguments(arguments), "filename": found.filename}
    options["trace"] = TraceOptions(soft_events=soft_events, max_events=max_events)

    async def go(heed: Heed) -> Execution:
        async with AsyncSandbox(hash_seed=0, **vars(asked)) as box:
            heed.box = box
            return worded(await box.run_last(found.source, **options))

    with naming_options():
        return run_heeding_signals(go)


def _arguments(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        given = json.loads(text)
    except ValueError as error:
        mend = "write a list such as '[1, \"a\"]' or an object such as '{\"n\": 5}'"
        raise programs.bad("--args", f"this is no JSON, {error}; {mend}") from None
    if isinstance(given, list):
        return {"args": given}
    if isinstance(given, dict):
        return {"kwargs": given}
    raise programs.bad("--args", f"must be a list or an object, not {text.strip()[:40]}; write [{text.strip()[:40]}]")


def _write(made: Trace, page: Path | None, records: Path | None) -> None:
    for option, path in (("--json", records), ("--html", page)):
        if path is None:
            continue
        content = made.dumps() if option == "--json" else html(made).encode()
        write_file(path, content, option)
        click.echo(f"groundbox: wrote {path}", err=True)


def _show(made: Trace, form: str | None) -> None:
    if form == "terminal":
        colours = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        click.echo(terminal(made, colours=colours), nl=False, color=colours)
    elif form is not None:
        screens()[0].say(FORMS[form](made).removesuffix("\n"))


def _tell(made: Trace, execution: Execution | None) -> int:
    stderr = screens()[1]
    if execution is not None and execution.error is not None:
        for line in report.failure_lines(execution.error, shown=False):
            stderr.say(line)
    if not made.complete:
        stderr.say(f"groundbox: this trace is not complete: {'; '.join(made.reasons)}")
    stderr.say(f"groundbox: {len(made)} records" + (", some loops or calls folded" if made.folded else ""))
    if execution is None:
        return 0
    stderr.say(report.summary(execution))
    return 0 if execution.ok else GUEST_FAILED
