"""`groundbox repl`: cells typed or piped in, one after another, on one sandbox."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Final

import click

from groundbox.cli import own as own_options
from groundbox.cli import program as programs
from groundbox.cli import report
from groundbox.cli.cells import cells
from groundbox.cli.ending import ends_tidily
from groundbox.cli.options import Asked, check_host, naming_options, takes_engine, takes_sandbox
from groundbox.cli.own import takes_own
from groundbox.cli.program import Handed, takes_files
from groundbox.cli.prompt import PipedLines, TypedLines
from groundbox.cli.results import check_folder, write
from groundbox.cli.terminal import Screen, plain, screens
from groundbox.cli.warm import makers
from groundbox.cli.wording import worded
from groundbox.databases.answer import DatabaseUnavailable
from groundbox.errors import GroundboxError, GuestFileError, InvalidArgument, SandboxLost
from groundbox.execution import Execution
from groundbox.sandbox import languages
from groundbox.sandbox.bridge.tool import Tool
from groundbox.sandbox.bridge.tools import ToolQuotas, Tools
from groundbox.sandbox.portal import Sandbox

_ASKING: Final = ToolQuotas(calls=1_000_000, call_s=1e6, waiting_s=1e6, frames=10_000_000)
"""A person takes the time that a person takes."""
_PREPARATION: Final = """
import tools
from groundbox.guest.python.prompt import answer_input

def prepare():
    answer_input(tools.next_line)
    tools._bridge.hide()
"""
_BLANK: Final = ", ended by a blank line"
_ENDS: Final = {"python": "", "sql": ", ended by a semicolon or a blank line"}
_COMPLETION: Final = "from groundbox.guest.python.prompt import complete\n"
_MOST_LINE: Final = 2000
_MOST_WORDS: Final = 200
_GUEST_FAILED: Final = 1


@click.command()
@click.option("--language", default="python", show_default=True, metavar="L", help="Of every cell.")
@takes_files
@click.option("--out", type=Path, metavar="DIR", help="Where to write the files and displays that cells made.")
@takes_own
@takes_sandbox
@takes_engine
@click.option("--json", "as_json", is_flag=True, help="One JSON object per cell on stdout, and nothing else.")
@ends_tidily
def repl(
    language: str,
    files: tuple[str, ...],
    out: Path | None,
    own: tuple[str, ...],
    asked: Asked,
    *,
    no_engine: bool,
    as_json: bool,
) -> int:
    """Runs cells on one sandbox, as they are typed or piped in; variables and files stay.

    Ctrl-C interrupts the running cell and keeps its variables; twice ends the sandbox's process.
    Ctrl-D ends. When the process is gone, the next cell runs in a fresh one with the same files.
    Tab completes names, attributes, keys and files; `name?` tells what something is.
    A cell's `input()` takes the line that is typed, or that comes next in the pipe.

    From a pipe there is no prompt, and the exit status is 1 when any cell failed.
    """
    typed = sys.stdin.isatty() and not as_json
    language = languages.named(language)
    with naming_options():
        chosen = own_options.read(own, language)
        databases = own_options.databases(chosen)
        handed = [programs.hand_over(each, most_bytes=asked.limits.disk_bytes) for each in files]
    if out is not None and (problem := check_folder(out)):
        raise programs.bad("--out", problem)
    check_host(asked)
    with naming_options(chosen):
        _check(language, chosen)
        session = _Session(language, chosen, out=out, typed=typed, as_json=as_json)
        # A Python cell's `input()` asks this process, which the engine cannot.
        made = makers(asked, databases, no_engine=no_engine or language == "python")
        session.open(handed, made.blocking)
    if typed:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job has it ignored
        limit = "any time" if asked.limits.wall_s is None else f"at most {asked.limits.wall_s:g} s"
        each = f"{limit} each{_ENDS.get(language, _BLANK)}"
        words = f"{language} cells in one sandbox, {each}; Ctrl-C interrupts, Ctrl-D ends"
        click.echo(f"groundbox: {words}", err=True)
    with session.box:
        for source in cells(session.lines, language):
            session.run(source)
    return 0 if typed or session.all_ok else _GUEST_FAILED


def _check(language: str, chosen: Mapping[str, Any]) -> None:
    """Refuse values of options before the first cell: with the language's own example as the program."""
    runtime = languages.find(language)
    example = runtime.SELF_TEST
    runtime.order(languages.Program(source=example.source, mode=example.mode, options=chosen))


class _Session:
    """One sandbox and what became of its cells."""

    box: Sandbox

    def __init__(
        self, language: str, chosen: Mapping[str, Any], *, out: Path | None, typed: bool, as_json: bool
    ) -> None:
        self.lines: TypedLines | PipedLines = TypedLines(complete=self._complete) if typed else PipedLines()
        self._language, self._chosen, self._out, self._as_json = language, chosen, out, as_json
        self._typed = typed
        self._streams: tuple[Screen, Screen] | None = None
        self._lost = self._prepared = self._told_of_out = False
        self._count = 0
        self.all_ok = True

    def open(self, handed: Sequence[Handed], make: Callable[..., Sandbox]) -> None:
        """Make the sandbox and put the files in."""
        if self._language == "python":
            self.box = make(tools=Tools([Tool(name="next_line", function=self._next_line)], quotas=_ASKING))
        else:
            self.box = make()
        for each in handed:
            try:
                self.box.files.put(each.host, each.guest)
            except GuestFileError as error:
                self.box.close()
                raise programs.bad("--file", str(error)) from None

    def run(self, source: str) -> None:
        """One cell, and what came of it on our streams."""
        self._count += 1
        former = signal.signal(signal.SIGINT, _Interrupts(self.box))
        try:
            execution = self._in_a_live_process(source)
        except KeyboardInterrupt:
            self._lost, execution = True, None
            click.echo("groundbox: given up; the process is gone, its files are kept", err=True)
        except (InvalidArgument, DatabaseUnavailable) as error:
            execution = None
            click.echo(f"groundbox: {error}", err=True)
        finally:
            signal.signal(signal.SIGINT, former)
        self.all_ok = self.all_ok and execution is not None and execution.ok
        if execution is not None:
            self._lost = execution.state != "kept"
            self._tell(execution)

    def _in_a_live_process(self, source: str) -> Execution:
        if self._lost:
            self._restart()
        try:
            return self._stream(source)
        except SandboxLost as error:  # it ended between two cells, so this one has not run
            click.echo(f"groundbox: {error.why}; this cell runs in a fresh process", err=True)
            self._restart()
            return self._stream(source)

    def _restart(self) -> None:
        self.box.restart()
        self._lost = self._prepared = False

    def _stream(self, source: str) -> Execution:
        self._prepare()
        self._streams = streams = None if self._as_json else screens()
        for event in self.box.stream(source, language=self._language, **self._chosen):
            if event.execution is not None:
                for screen in streams or ():
                    screen.end_guest()
                return worded(event.execution)
            if streams and event.kind in ("stdout", "stderr"):
                streams[event.kind == "stderr"].guest(event.text)
        raise AssertionError("a stream ends with its execution")

    def _prepare(self) -> None:
        """Let `input()` of a fresh process ask for its lines here."""
        if not self._prepared and self._language == "python":
            self.box.run(_PREPARATION, mode="call", call="prepare", filename="<prompt>")
            self._prepared = True

    async def _next_line(self) -> str | None:
        """The line that the cell's `input()` waits for."""
        line = await self.lines.answer()
        if self._typed and self._streams is not None:
            self._streams[0].line_was_typed()
        return line

    def _complete(self, line: str, begin: int) -> list[str]:
        """What the live process says of how a line may go on, as far as it is harmless to show and to insert."""
        if self._language != "python" or self._lost or len(line) > _MOST_LINE:
            return []
        former = signal.signal(signal.SIGINT, _Interrupts(self.box))
        try:
            self._prepare()
            told = self.box.run(_COMPLETION, mode="call", call="complete", args=[line, begin], filename="<prompt>")
        except (GroundboxError, KeyboardInterrupt):
            return []
        finally:
            signal.signal(signal.SIGINT, former)
        self._lost = told.state != "kept"
        return completions(told.stdout, line[begin:])

    def _tell(self, execution: Execution) -> None:
        written = None
        if self._out is not None:
            written = write(execution, self._out, before=f"cell-{self._count}-")
            self.all_ok = self.all_ok and not written.problems
        if self._as_json:
            print(json.dumps(execution.to_dict()), flush=True)
            for path, reason in (written.problems if written else {}).items():
                click.echo(f"groundbox: {path!r} is not written: {reason}", err=True)
            return
        stdout, stderr = screens()
        if execution.text is not None:
            stdout.say(execution.text)
        for line in report.lines(execution, mode="cell", written=written):
            stderr.say(line)
        if written is None and (execution.displays or execution.artifacts) and not self._told_of_out:
            self._told_of_out = True
            stderr.say("groundbox: --out DIR keeps these")
        if execution.state != "kept":
            lost = " and its variables with it" if execution.state == "lost" else ""
            stderr.say(f"groundbox: the process is gone{lost}; its files are kept")


def completions(told: str, begun: str) -> list[str]:
    """Words of a guest that go on what was begun, without any that could do something to a terminal."""
    try:
        found = json.loads(told)
    except (ValueError, RecursionError):
        return []
    if not isinstance(found, list):
        return []
    words = [word for word in found[:_MOST_WORDS] if isinstance(word, str) and len(word) <= _MOST_LINE]
    return [word for word in words if word.startswith(begun) and plain(word) == word and word.isprintable()]


class _Interrupts:
    """Ctrl-C during a cell: the first interrupts the guest, the second gives it up."""

    def __init__(self, box: Sandbox) -> None:
        self._box, self._count = box, 0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self._count += 1
        if self._count > 1:
            raise KeyboardInterrupt
        self._box.interrupt()
