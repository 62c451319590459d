"""`groundbox repl`: cells typed or piped in, one after another, on one sandbox."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Final

import click

from groundbox.cli import own as own_options
from groundbox.cli import program as programs
from groundbox.cli import report
from groundbox.cli.cells import Command, cells, command_in
from groundbox.cli.ending import ends_tidily
from groundbox.cli.options import Asked, check_host, naming_options, takes_engine, takes_inputs, takes_sandbox
from groundbox.cli.own import takes_own
from groundbox.cli.program import Handed, takes_files
from groundbox.cli.prompt import PipedLines, TypedLines
from groundbox.cli.results import Written, check_folder, write
from groundbox.cli.states import FIRST, Keeping, States, Told, with_warning
from groundbox.cli.terminal import Screen, plain, screens
from groundbox.cli.warm import makers
from groundbox.cli.wording import worded
from groundbox.databases.answer import DatabaseUnavailable
from groundbox.errors import GroundboxError, GuestFileError, InvalidArgument, SandboxLost
from groundbox.execution import Execution, Warning
from groundbox.sandbox import languages
from groundbox.sandbox.bridge.tool import Tool
from groundbox.sandbox.bridge.tools import ToolQuotas, Tools
from groundbox.sandbox.options import MOST_UNDO
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
_USUAL_UNDO: Final = 8
_MOST_LINE: Final = 2000
_MOST_WORDS: Final = 200
_GUEST_FAILED: Final = 1


@click.command()
@click.option("--language", default="python", show_default=True, metavar="L", help="Of every cell.")
@takes_files
@click.option("--out", type=Path, metavar="DIR", help="Where to write the files and displays that cells made.")
@click.option(
    "--undo",
    type=click.IntRange(0, MOST_UNDO),
    is_flag=False,
    flag_value=_USUAL_UNDO,
    metavar="[N]",
    help=f"Keep the states before the last N cells, by itself {_USUAL_UNDO}, for %undo and its like.",
)
@click.option("--rollback", is_flag=True, help="Take a cell that fails back by itself.")
@takes_own
@takes_sandbox
@takes_inputs
@takes_engine
@click.option("--json", "as_json", is_flag=True, help="One JSON object per cell on stdout, and nothing else.")
@ends_tidily
def repl(
    language: str,
    files: tuple[str, ...],
    out: Path | None,
    undo: int | None,
    own: tuple[str, ...],
    asked: Asked,
    *,
    rollback: bool,
    no_engine: bool,
    as_json: bool,
) -> int:
    """Runs cells on one sandbox, as they are typed or piped in; variables and files stay.

    Ctrl-C interrupts the running cell and keeps its variables; twice ends the sandbox's process.
    Ctrl-D ends. When the process is gone, the next cell runs in a fresh one with the same files.
    Tab completes names, attributes, keys and files; `name?` tells what something is.
    A cell's `input()` takes the line that is typed, or that comes next in the pipe.

    With --undo, %undo [N] takes cells back, %checkpoint [NAME] and %restore NAME keep a state and go back to it,
    %fork [NAME] and %switch NAME go on beside it; %checkpoints and %branches list them, and %drop NAME forgets one.

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
        keeping = Keeping(undo or 0, rollback) if rollback or undo is not None else None
        # A Python cell's `input()` asks this process, which the engine cannot; nor does it copy sandboxes.
        made = makers(asked, databases, no_engine=no_engine or language == "python" or keeping is not None)
        try:
            session.open(handed, made.blocking, keeping)
        except InvalidArgument as error:
            if error.argument != "branching":
                raise
            raise programs.bad("--rollback" if undo is None else "--undo", error.problem) from None
    if typed:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job has it ignored
        limit = "any time" if asked.limits.wall_s is None else f"at most {asked.limits.wall_s:g} s"
        each = f"{limit} each{_ENDS.get(language, _BLANK)}"
        back = ", %undo takes back" if undo else ""
        words = f"{language} cells in one sandbox, {each}; Ctrl-C interrupts, Ctrl-D ends{back}"
        click.echo(f"groundbox: {words}", err=True)
    try:
        for source in cells(session.lines, language):
            session.take(source)
    finally:
        session.states.close()
    return 0 if typed or session.all_ok else _GUEST_FAILED


def _check(language: str, chosen: Mapping[str, Any]) -> None:
    """Refuse values of options before the first cell: with the language's own example as the program."""
    runtime = languages.find(language)
    example = runtime.SELF_TEST
    runtime.order(languages.Program(source=example.source, mode=example.mode, options=chosen))


class _Session:
    """The sandboxes of one prompt and what became of its cells."""

    states: States

    def __init__(
        self, language: str, chosen: Mapping[str, Any], *, out: Path | None, typed: bool, as_json: bool
    ) -> None:
        self.lines: TypedLines | PipedLines = TypedLines(complete=self._complete) if typed else PipedLines()
        self._language, self._chosen, self._out, self._as_json = language, chosen, out, as_json
        self._typed = typed
        self._streams: tuple[Screen, Screen] | None = None
        self._interrupts: _Interrupts | None = None
        self._told_of_out = False
        self._count = 0
        self.all_ok = True

    def open(self, handed: Sequence[Handed], make: Callable[..., Sandbox], keeping: Keeping | None) -> None:
        """Make the sandbox and put the files in."""
        options: dict[str, Any] = {} if keeping is None else {"branching": True}
        if self._language == "python":
            options["tools"] = Tools([Tool(name="next_line", function=self._next_line)], quotas=_ASKING)
        box = make(**options)
        for each in handed:
            try:
                box.files.put(each.host, each.guest)
            except GuestFileError as error:
                box.close()
                raise programs.bad("--file", str(error)) from None
        self.states = States(box, keeping, language=self._language, make_ready=self._make_ready)

    def take(self, text: str) -> None:
        """A cell, or a command of the prompt; and what came of it on our streams."""
        command = command_in(text)
        if command is None:
            self._run(text)
        else:
            self._carry_out(command)

    def _run(self, source: str) -> None:
        self._count += 1
        execution, written, is_given_up = None, None, False
        with self._interruptible():
            try:
                execution = self._in_a_live_process(source)
            except _NotBegun:
                self.states.never_ran()
                click.echo("groundbox: interrupted before this cell began", err=True)
            except KeyboardInterrupt:
                is_given_up = True
            except (InvalidArgument, DatabaseUnavailable) as error:
                self.states.never_ran()
                click.echo(f"groundbox: {error}", err=True)
        self.all_ok = self.all_ok and execution is not None and execution.ok
        if is_given_up:
            self._give_up(source)
        if execution is not None:
            self.states.here.is_lost = execution.state != "kept"
            if self._out is not None:  # before its files may be as they were
                written = write(execution, self._out, before=f"cell-{self._count}-")
                self.all_ok = self.all_ok and not written.problems
            warning = self._after_cell(source, failed=not execution.ok)
            self._tell(execution if warning is None else with_warning(execution, warning), written)

    def _give_up(self, source: str) -> None:
        """A cell has been ended together with its process."""
        here = self.states.here
        here.is_lost = True
        warning = self._after_cell(source, failed=True)
        gone = f"the process is gone, its files are kept{self.states.way_back()}" if here.is_lost else ""
        words = "; ".join(filter(None, (gone, warning.message if warning else "")))
        click.echo(f"groundbox: given up; {words}", err=True)

    def _after_cell(self, source: str, *, failed: bool) -> Warning | None:
        """The states know of the cell, and a failed one is taken back where that was asked for."""
        with self._interruptible():
            try:
                return self.states.after_cell(source, failed=failed)
            except KeyboardInterrupt:
                self.states.here.is_lost = True
                why = "going back was given up, and the process is gone; its files are kept"
                return Warning(code="session.not_rolled_back", tier="note", message=why)

    def _carry_out(self, command: Command) -> None:
        """A command of the prompt, which a first Ctrl-C lets come to its end."""
        with self._interruptible():
            try:
                told = self.states.carry_out(command)
            except KeyboardInterrupt:
                self.states.here.is_lost = True
                told = Told(False, "given up; the process is gone, its files are kept")
        self.all_ok = self.all_ok and told.done
        if isinstance(self.lines, TypedLines):
            self.lines.place = "" if self.states.here.name == FIRST else f"{self.states.here.name} "
        if self._as_json:
            print(json.dumps(told.to_dict(command)), flush=True)
            return
        stderr = screens()[1]
        for line in told.lines():
            stderr.say(line)

    @contextlib.contextmanager
    def _interruptible(self) -> Iterator[None]:
        """Ctrl-C does what `_Interrupts` says."""
        self._interrupts = interrupts = _Interrupts(self.states.here.box)
        former = signal.signal(signal.SIGINT, interrupts)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, former)

    def _in_a_live_process(self, source: str) -> Execution:
        if self.states.here.is_lost:
            self._restart()
        try:
            return self._stream(source)
        except SandboxLost as error:  # it ended between two cells, so this one has not run
            click.echo(f"groundbox: {error.why}; this cell runs in a fresh process", err=True)
            self._restart()
            return self._stream(source)

    def _restart(self) -> None:
        here = self.states.here
        here.box.restart()
        here.is_lost = here.is_prepared = False
        here.former = ""

    def _make_ready(self) -> None:
        if self.states.here.is_lost:
            self._restart()
        self._prepare()

    def _stream(self, source: str) -> Execution:
        self._prepare()
        if words := self.states.before_cell(source):
            click.echo(f"groundbox: {words}", err=True)
        self._streams = streams = None if self._as_json else screens()
        if self._interrupts is not None:
            self._interrupts.begin()
        for event in self.states.here.box.stream(source, language=self._language, **self._chosen):
            if event.execution is not None:
                for screen in streams or ():
                    screen.end_guest()
                return worded(event.execution)
            if streams and event.kind in ("stdout", "stderr"):
                streams[event.kind == "stderr"].guest(event.text)
        raise AssertionError("a stream ends with its execution")

    def _prepare(self) -> None:
        """Let `input()` of a fresh process ask for its lines here."""
        here = self.states.here
        if not here.is_prepared and self._language == "python":
            here.box.run(_PREPARATION, mode="call", call="prepare", filename="<prompt>")
            here.is_prepared = True

    async def _next_line(self) -> str | None:
        """The line that the cell's `input()` waits for."""
        line = await self.lines.answer()
        if self._typed and self._streams is not None:
            self._streams[0].line_was_typed()
        return line

    def _complete(self, line: str, begin: int) -> list[str]:
        """What the live process says of how a line may go on, as far as it is harmless to show and to insert."""
        here = self.states.here
        of_ours = [each[begin:] for each in self.states.completions(line)]
        if self._language != "python" or here.is_lost or len(line) > _MOST_LINE or command_in(line):
            return of_ours
        with self._interruptible():
            try:
                self._prepare()
                assert self._interrupts is not None
                self._interrupts.begin()
                told = here.box.run(_COMPLETION, mode="call", call="complete", args=[line, begin], filename="<prompt>")
            except (GroundboxError, KeyboardInterrupt, _NotBegun):
                return of_ours
        here.is_lost = told.state != "kept"
        return [*of_ours, *completions(told.stdout, line[begin:])]

    def _tell(self, execution: Execution, written: Written | None) -> None:
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
            way_back = self.states.way_back()
            stderr.say(f"groundbox: the process is gone{lost}; its files are kept{way_back}")


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


class _NotBegun(Exception):
    """Ctrl-C came before the program of a cell was sent."""


class _Interrupts:
    """Ctrl-C during a cell: the first interrupts the guest, the second gives it up.

    What comes before the cell, such as keeping a state, is not interrupted by the first: it would end the process.
    """

    def __init__(self, box: Sandbox) -> None:
        self._box, self._count, self._has_begun = box, 0, False

    def begin(self) -> None:
        """From now on the guest runs a program.

        Raises:
            _NotBegun: It need not, because Ctrl-C has come.
        """
        self._has_begun = True
        if self._count:
            raise _NotBegun

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self._count += 1
        if self._count > 1:
            raise KeyboardInterrupt
        if self._has_begun:
            self._box.interrupt()
