"""`groundbox repl`: cells typed or piped in, one after another, on one sandbox.

A cell ends where Python's own prompt would end it: with a statement that is complete, after a blank line
where more lines could follow. A cell that starts with `%%`, and every cell of another language, ends with
a blank line.
"""

from __future__ import annotations

import ast
import codeop
import json
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any, Final

import click

from groundbox.cli import own as own_options
from groundbox.cli import report
from groundbox.cli.ending import ends_tidily
from groundbox.cli.options import Asked, check_host, naming_options, takes_sandbox
from groundbox.cli.own import takes_own
from groundbox.cli.terminal import screens
from groundbox.cli.wording import worded
from groundbox.databases.answer import DatabaseUnavailable
from groundbox.errors import InvalidArgument, SandboxLost
from groundbox.execution import Execution
from groundbox.sandbox import languages
from groundbox.sandbox.portal import Sandbox

_LEAVE: Final = frozenset({"exit", "quit", "exit()", "quit()"})
_MOST_PARSED: Final = 64 * 1024
_GUEST_FAILED: Final = 1


@click.command()
@click.option("--language", default="python", show_default=True, metavar="L", help="Of every cell.")
@takes_own
@takes_sandbox
@click.option("--json", "as_json", is_flag=True, help="One JSON object per cell on stdout, and nothing else.")
@ends_tidily
def repl(language: str, own: tuple[str, ...], asked: Asked, *, as_json: bool) -> int:
    """Runs cells on one sandbox, as they are typed or piped in; variables and files stay.

    Ctrl-C interrupts the running cell and keeps its variables; twice ends the sandbox's process.
    Ctrl-D ends. When the process is gone, the next cell runs in a fresh one with the same files.

    From a pipe there is no prompt, and the exit status is 1 when any cell failed.
    """
    typed = sys.stdin.isatty() and not as_json
    with naming_options():
        chosen = own_options.read(own, language)
        databases = own_options.databases(chosen)
    with naming_options(chosen):
        _check(language, chosen)
        session = _Session(Sandbox(databases=databases, **vars(asked)), language, chosen, as_json=as_json)
    check_host(asked)
    if typed:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job has it ignored
        limit = "any time" if asked.limits.wall_s is None else f"at most {asked.limits.wall_s:g} s"
        words = f"{language} cells in one sandbox, {limit} each; Ctrl-C interrupts, Ctrl-D ends"
        click.echo(f"groundbox: {words}", err=True)
    with session.box:
        for source in cells(_typed_line if typed else _piped_line, language):
            session.run(source)
    return 0 if typed or session.all_ok else _GUEST_FAILED


def _check(language: str, chosen: Mapping[str, Any]) -> None:
    """Refuse values of options before the first cell: with the language's own example as the program."""
    runtime = languages.find(language)
    example = runtime.SELF_TEST
    runtime.order(languages.Program(source=example.source, mode=example.mode, options=chosen))


def cells(read_line: Callable[[bool], str], language: str) -> Iterator[str]:
    """The cells that lines make up.

    Args:
        read_line: Gives the next line; told whether it goes on with a cell.
            KeyboardInterrupt drops what was begun, EOFError ends.
    """
    begun: list[str] = []
    while True:
        try:
            begun.append(read_line(bool(begun)))
        except KeyboardInterrupt:
            begun.clear()
            continue
        except EOFError:
            break
        text = "\n".join(begun)
        if not text.strip():
            begun.clear()
        elif is_complete(text, language):
            begun.clear()
            if text.strip() in _LEAVE:
                return
            yield text
    if begun:
        yield "\n".join(begun)


def is_complete(text: str, language: str = "python") -> bool:
    """Whether a cell ends here. What cannot be parsed is complete: the guest says what is wrong with it."""
    ended = not text.rpartition("\n")[2].strip()
    if language != "python" or text.lstrip().startswith("%%") or len(text) > _MOST_PARSED:
        return ended
    compiler = codeop.Compile()
    compiler.flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return _compiled(text, compiler) is not None
        except (SyntaxError, ValueError, OverflowError, MemoryError, RecursionError):
            return True


def _compiled(text: str, compiler: Callable[..., Any]) -> Any:
    command = codeop.CommandCompiler()
    command.compiler = compiler  # type: ignore[assignment]
    return command(text, "<cell>", "single")


def _piped_line(_: bool) -> str:
    data = sys.stdin.buffer.readline()
    if not data:
        raise EOFError
    return data.decode("utf-8", "replace").rstrip("\r\n")


def _typed_line(goes_on: bool) -> str:
    import readline  # noqa: F401  # gives input() its history and its editing keys

    try:
        return input("... " if goes_on else ">>> ")
    except (KeyboardInterrupt, EOFError):
        click.echo(err=True)
        raise


class _Session:
    """One sandbox and what became of its cells."""

    def __init__(self, box: Sandbox, language: str, chosen: Mapping[str, Any], *, as_json: bool) -> None:
        self.box, self._language, self._chosen, self._as_json = box, language, chosen, as_json
        self._lost = False
        self.all_ok = True

    def run(self, source: str) -> None:
        """One cell, and what came of it on our streams."""
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
            self.box.restart()
        try:
            return self._stream(source)
        except SandboxLost as error:  # it ended between two cells, so this one has not run
            click.echo(f"groundbox: {error.why}; this cell runs in a fresh process", err=True)
            self.box.restart()
            return self._stream(source)

    def _stream(self, source: str) -> Execution:
        streams = None if self._as_json else screens()
        for event in self.box.stream(source, language=self._language, **self._chosen):
            if event.execution is not None:
                for screen in streams or ():
                    screen.end_guest()
                return worded(event.execution)
            if streams and event.kind in ("stdout", "stderr"):
                streams[event.kind == "stderr"].guest(event.text)
        raise AssertionError("a stream ends with its execution")

    def _tell(self, execution: Execution) -> None:
        if self._as_json:
            print(json.dumps(execution.to_dict()), flush=True)
            return
        stdout, stderr = screens()
        if execution.text is not None:
            stdout.say(execution.text)
        for line in report.lines(execution, mode="cell"):
            stderr.say(line)
        if execution.state != "kept":
            lost = " and its variables with it" if execution.state == "lost" else ""
            stderr.say(f"groundbox: the process is gone{lost}; its files are kept")


class _Interrupts:
    """Ctrl-C during a cell: the first interrupts the guest, the second gives it up."""

    def __init__(self, box: Sandbox) -> None:
        self._box, self._count = box, 0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self._count += 1
        if self._count > 1:
            raise KeyboardInterrupt
        self._box.interrupt()
