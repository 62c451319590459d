"""`%load_ext groundbox`: cells of a notebook that run in a sandbox, `%%sandbox`.

The cell's text goes to a sandbox that is kept under a name, never to the notebook's own interpreter. Output is shown
while the program runs, then the result; `_sandbox` holds it. The notebook's interrupt stops the guest's cell and keeps
its variables. Options that make a sandbox count when it is made; asking an existing one for others is refused.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, Final, NoReturn

from groundbox import markup
from groundbox.cli import report
from groundbox.cli.terminal import Plain
from groundbox.errors import GroundboxError, InvalidArgument
from groundbox.execution import Execution
from groundbox.limits import Limits, MiB
from groundbox.network import Network
from groundbox.sandbox.portal import Sandbox
from groundbox.unseen import visible

RESULT: Final = "_sandbox"
_DEFAULT: Final = "default"
_MAKES: Final = ("environment", "memory_mib", "allow_host", "backend", "waive")


class _Options(argparse.ArgumentParser):
    """Tells what is wrong by an exception; a notebook must not end for it."""

    def error(self, message: str) -> NoReturn:
        raise InvalidArgument(self.prog, f"{message} (`{self.prog} --help` lists what there is)")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        raise _Told


class _Told(Exception):
    """Help was asked for, and has been printed."""


class Kept:
    """One sandbox with the options that it was made with."""

    def __init__(self, made_with: Mapping[str, Any]) -> None:
        limits = Limits() if made_with["memory_mib"] is None else Limits(memory_bytes=made_with["memory_mib"] * MiB)
        self.made_with = made_with
        self.box = Sandbox(
            limits=limits,
            network=Network(allow=tuple(made_with["allow_host"])),
            environment=made_with["environment"],
            backend=made_with["backend"],
            waive=made_with["waive"],
            restart="auto",
        )


SANDBOXES: Final[dict[str, Kept]] = {}
"""Those of this notebook, by name."""


def sandbox(name: str = _DEFAULT) -> Sandbox:
    """The sandbox of the cells with this name, for its files and all else.

    Raises:
        InvalidArgument: There is none yet.
    """
    if name not in SANDBOXES:
        raise InvalidArgument("name", f"no sandbox is called {name!r}; there is: {', '.join(SANDBOXES) or 'none'}")
    return SANDBOXES[name].box


def load_ipython_extension(ipython: Any) -> None:
    """Give a shell of IPython `%%sandbox` and `%sandbox`."""
    ipython.register_magic_function(functools.partial(_cell, ipython), "cell", "sandbox")
    ipython.register_magic_function(functools.partial(_line, ipython), "line", "sandbox")


def unload_ipython_extension(ipython: Any) -> None:
    """Take them away, and close the sandboxes."""
    for kind in ("cell", "line"):
        ipython.magics_manager.magics[kind].pop("sandbox", None)
    for kept in SANDBOXES.values():
        kept.box.close()
    SANDBOXES.clear()


def _cell(ipython: Any, line: str, cell: str) -> None:
    with _complaints(ipython):
        words = shlex.split(line)
        at = words.index("--") if "--" in words else len(words)
        chosen = _CELL.parse_args(words[:at], argparse.Namespace(argv=words[at + 1 :]))
        kept = _kept(chosen)
        for source, _, target in (each.partition(":") for each in chosen.file):
            kept.box.files.put(Path(source).expanduser(), target or None)
        execution = _run(kept.box, cell, chosen)
        ipython.user_ns[RESULT] = execution
        if chosen.to:
            ipython.user_ns[chosen.to] = execution
        _show(_End(execution))
        if chosen.check:
            execution.raise_for_error()


def _line(ipython: Any, line: str) -> None:
    with _complaints(ipython):
        chosen = _LINE.parse_args(shlex.split(line))
        if chosen.close:
            sandbox(chosen.name).close()
            del SANDBOXES[chosen.name]
        elif chosen.restart:
            sandbox(chosen.name).restart()
        for name, kept in SANDBOXES.items():
            options = ", ".join(f"{key}={value}" for key, value in kept.made_with.items() if value)
            sys.stdout.write(f"{name}: {options}\n")
        if not SANDBOXES:
            sys.stdout.write("no sandbox yet; a cell that begins with %%sandbox makes one\n")


@contextlib.contextmanager
def _complaints(ipython: Any) -> Iterator[None]:
    """What we refuse is said in a line, as IPython says what is wrong with a magic."""
    from IPython.core.error import UsageError

    try:
        yield
    except _Told:
        return
    except (GroundboxError, ValueError) as error:
        raise UsageError(visible(str(error))) from None


def _kept(chosen: argparse.Namespace) -> Kept:
    """The sandbox of this name, made where there is none."""
    made_with = {name: getattr(chosen, name) for name in _MAKES}
    kept = SANDBOXES.get(chosen.name)
    if kept is not None and chosen.fresh:
        kept.box.close()
        kept = None
    if kept is None:
        kept = SANDBOXES[chosen.name] = Kept(made_with)
    asked = {name: value for name, value in made_with.items() if value != _CELL.get_default(name)}
    if other := [name for name, value in asked.items() if kept.made_with[name] != value]:
        flag = f"--{other[0].replace('_', '-')}"
        raise InvalidArgument(flag, f"the sandbox {chosen.name!r} was made otherwise; add --fresh to make it anew")
    return kept


def _run(box: Sandbox, source: str, chosen: argparse.Namespace) -> Execution:
    """Run the cell's text, and show what it prints and displays while it goes on."""
    screens = {"stdout": (sys.stdout, Plain()), "stderr": (sys.stderr, Plain())}
    own: dict[str, Any] = dict(map(_option, chosen.option))
    with _interrupting(box):
        for event in box.stream(
            source, language=chosen.language, mode=chosen.mode, argv=chosen.argv, wall_s=chosen.wall_s, **own
        ):
            if event.execution is not None:
                for stream, plain in screens.values():
                    stream.write(plain.end())
                return event.execution
            if event.display is not None:
                _show(event.display)
            elif event.kind in screens:
                stream, plain = screens[event.kind]
                stream.write(plain.feed(event.text))
                stream.flush()
    raise AssertionError("a stream ends with its execution")


def _option(written: str) -> tuple[str, Any]:
    """`NAME=VALUE`. A value that is JSON is what JSON says; any other is a text."""
    name, equals, value = written.partition("=")
    if not equals:
        raise InvalidArgument("--option", f"{written!r} is no NAME=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


@contextlib.contextmanager
def _interrupting(box: Sandbox) -> Iterator[None]:
    """The notebook's interrupt stops the guest's cell and keeps its variables; a second one gives the sandbox up."""
    count = 0

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal count
        count += 1
        if count > 1:
            raise KeyboardInterrupt
        box.interrupt()

    if threading.current_thread() is not threading.main_thread():  # which alone hears of signals
        yield
        return
    former = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)


class _End:
    """What is shown when a cell is over: all but what has been shown meanwhile."""

    def __init__(self, execution: Execution) -> None:
        self._execution = execution

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/plain": self._words(), "text/html": markup.of_execution(self._execution, streamed=True)}

    def _words(self) -> str:
        execution = self._execution
        told = [] if execution.text is None else [execution.text]
        if execution.error is not None:
            told += report.failure_lines(execution.error, shown=False)
        told += [*report.artifact_lines(execution, None), *report.notes(execution), report.summary(execution)]
        return visible("\n".join(told))


def _show(value: Any) -> None:
    from IPython.display import display

    display(value)


def _options(prog: str, description: str) -> _Options:
    parser = _Options(prog=prog, description=description, allow_abbrev=False)
    parser.add_argument("name", nargs="?", default=_DEFAULT, metavar="NAME", help="of the sandbox, kept between cells")
    return parser


def _cell_options() -> _Options:
    parser = _options("%%sandbox", "Runs the cell in a sandbox; variables and files stay in it until it is closed.")
    parser.add_argument("-l", "--language", default="python", metavar="L", help="python, sql, shell, javascript, dot")
    parser.add_argument("-m", "--mode", choices=("cell", "script", "command"), help="default: the language's first")
    parser.add_argument("--fresh", action="store_true", help="close the sandbox first, and make it anew")
    parser.add_argument("--file", action="append", default=[], metavar="HOST[:GUEST]", help="copied in; repeatable")
    parser.add_argument("--to", metavar="VARIABLE", help=f"of the notebook, which gets the result besides {RESULT}")
    parser.add_argument(
        "--option", action="append", default=[], metavar="NAME=VALUE", help="of the language; repeatable"
    )
    parser.add_argument("--check", action="store_true", help="a failure of the program is one of this cell")
    parser.add_argument("--wall-s", type=float, metavar="N", help="a shorter limit for this cell")
    made = parser.add_argument_group("options that make a sandbox")
    made.add_argument("--environment", default="default", metavar="NAME", help="the packages that it imports")
    made.add_argument("--memory-mib", type=int, metavar="N", help="of all its processes and files")
    made.add_argument("--allow-host", action="append", default=[], metavar="HOST", help="it may reach; repeatable")
    made.add_argument("--backend", default="namespaces", choices=("namespaces", "landlock", "gvisor", "bare"))
    made.add_argument("--waive", action="append", default=[], metavar="LAYER", help="to do without; repeatable")
    parser.epilog = "After `--` come the arguments of a script."
    return parser


def _line_options() -> _Options:
    parser = _options("%sandbox", "Lists the sandboxes of this notebook.")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--close", action="store_true", help="end it; its files are gone")
    what.add_argument("--restart", action="store_true", help="a fresh interpreter with the same files")
    return parser


_CELL: Final = _cell_options()
_LINE: Final = _line_options()
