"""Cells: programs typed into a live namespace, one after the other.

A cell is parsed and executed here, directly; IPython's own `run_cell` costs ten times
as much. Its shell is asked only for text that is not Python.

SIGINT: while the program runs, Python's own handler (or the one that the program set)
raises KeyboardInterrupt; while we work, SIGINT is ignored. What was in force before
`run` is in force after it.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` wraps it in enums: pages that every fork would copy
import builtins
import contextlib
import os
import sys
import threading
import types
from _thread import get_ident  # programs replace that of `threading`, as gevent does
from collections.abc import Callable, Mapping, Sequence
from os import getpid  # by this name, because programs set `os.getpid` to what they like
from typing import Any, Final, NamedTuple

from . import chance, figures, interpreters, machine, orphans, viewers
from .bundles import Bundler
from .calls import LOST, Program, answer_of, with_data
from .cell_loop import CellLoop
from .commands import take_failures, with_pip_magic
from .display import display_event, make_display
from .failure import bare_failure, failure_of
from .frames import Scene
from .reseed import prepare, reseed, reseed_launched
from .shell import build_shell
from .source import CellCode, Sources, teach_inspect
from .tracing import Tracing, recorded

KEPT_VALUES: Final = 16
"""`Out` and `_1`, `_2`… hold so many values, lest memory fill with what nobody asks for again."""

_COROUTINE: Final = 0x80  # inspect.CO_COROUTINE
_NOTHING: Final = object()
_MAIN_THREAD: Final = threading.main_thread().ident
"""A fork leaves its number as it is; that is asked six times for each cell."""


class _Space(NamedTuple):
    """Variables that no cell has at the moment, and what goes with them."""

    module: types.ModuleType
    last: Any
    folder: str


class CellRunner:
    """Keeps the namespace of one live sandbox and runs cells in it.

    Made in the template, before any fork. Until `emit` is set, displays are dropped.

    Attributes:
        emit: Receives `{"ev": "display", "data": bundle}` and `{"ev": "clear"}`.
        workdir: Directory whose Python files are the program's own. None: the current one.
        environment_packages: Import name to the environments that have it; for hints.
    """

    def __init__(self, *, ipython: bool) -> None:
        self.emit: Callable[[dict[str, Any]], None] = lambda event: None
        self.workdir: str | None = None
        self.environment_packages: Mapping[str, Sequence[str]] = {}
        self._sources = Sources()
        self._loop = CellLoop()
        self._last: Any = _NOTHING
        self._process = 0
        self._sigint: Any = _signal.default_int_handler
        self._spaces: dict[str | None, _Space] = {}
        self._entered: str | None = None
        self._module = _new_main()
        self._namespace = self._module.__dict__
        self._host_main = sys.modules.get("__main__")  # its globals are cleared if it is dropped
        sys.modules["__main__"] = self._module
        self._shell = build_shell(self._module, self._emit, self._execute) if ipython else None
        self._bundle = Bundler(self._shell)
        if self._shell is None:
            builtins.__dict__["display"] = make_display(self._bundle, self._emit)
        builtins.__dict__["exit"] = builtins.__dict__["quit"] = _leave
        teach_inspect(self._sources)
        figures.install(self._show_figure)
        viewers.install(self._emit)
        machine.install()
        interpreters.install()
        orphans.install()
        self._start_namespace()

    def warm_up(self) -> None:
        """Run what programs commonly run, then forget it. Prints nothing; leaves SIGINT as it was."""
        from .warmth import cells_for_warmth

        emit, handler = self.emit, _signal.getsignal(_signal.SIGINT)
        self.emit = lambda event: None
        streams = sys.stdout, sys.stderr
        with open(os.devnull, "w") as nowhere:
            sys.stdout = sys.stderr = nowhere
            try:
                for source in cells_for_warmth(ipython=self._shell is not None):
                    self.run(source)
            finally:
                sys.stdout, sys.stderr = streams
                self.emit = emit
                _signal.signal(_signal.SIGINT, handler)
        self.forget()
        figures.close_fonts()  # in a fork their descriptors are closed already, and may be other files' by now

    def after_fork(self) -> None:
        """Give this child randomness and descriptors of its own, and the prompt's import path."""
        if sys.path[:1] != [""]:
            sys.path.insert(0, "")
        chance.unwatched(reseed)
        figures.close_fonts()

    def prepare_launch(self) -> None:
        """In a template: the last thing before its memory is settled."""
        self.after_fork()
        prepare()

    def after_launch(self) -> None:
        """`after_fork` where a template made this process, and no guest code has run."""
        reseed_launched()

    def let_go_of_loop(self) -> None:
        """Close the loop of top-level awaits, unless something waits on it; the next await makes another one."""
        self._loop.close()

    @property
    def namespace(self) -> dict[str, Any]:
        """The variables of cells."""
        return self._namespace

    def enter(self, name: str | None) -> None:
        """Let the next cells have the variables of this name, new ones for a new name; None for those of the beginning.

        With the variables go `__main__`, by which functions are pickled, and the current folder.
        """
        if name == self._entered:
            return
        self._spaces[self._entered] = _Space(self._module, self._last, _current_directory())
        space = self._spaces.pop(name, None)
        is_new = space is None
        if space is None:
            space = _Space(_new_main(), _NOTHING, self.workdir or _current_directory())
        self._entered, self._module, self._last = name, space.module, space.last
        self._namespace = space.module.__dict__
        sys.modules["__main__"] = self._module
        if is_new:
            self._start_namespace()
        if self._shell is not None:
            self._shell.user_module, self._shell.user_ns = self._module, self._namespace
            self._namespace.setdefault("_dh", [space.folder])  # where %cd keeps its history
        with contextlib.suppress(OSError):
            os.chdir(space.folder)

    def run_call(self, order: Mapping[str, Any], tracing: Tracing | None = None) -> dict[str, Any]:
        """Run a program as a module of its own and call one of its functions; returns as `run` does."""
        return self._guard(lambda: self._attempt_call(order, tracing))

    def run_calls(self, order: Mapping[str, Any], tell: Callable[[int, Mapping[str, Any]], Any]) -> dict[str, Any]:
        """Make many calls of one function, each in a module made anew; returns as `run` does.

        Args:
            tell: Given what came of a call and its number; gives the next one, or None.
        """
        return self._guard(lambda: self._attempt_calls(order, tell))

    def run(self, source: str, tracing: Tracing | None = None) -> dict[str, Any]:
        """Run one cell. Whatever the program does short of ending the process, this returns.

        Returns:
            `ok`, `value` (MIME bundle or None), `error` (keys of `Failure`, or None), `interrupted`.
        """
        return self._guard(lambda: self._attempt(source, tracing))

    def _guard(self, attempt: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        before = _ignore_interrupts()
        take_failures()
        try:
            try:
                result = attempt()
            finally:
                _ignore_interrupts()
            failed = take_failures()
            return {**result, "failed_commands": failed} if failed else result
        except KeyboardInterrupt:
            return _result(interrupted=True)
        except BaseException as exc:  # the program has broken what we stand on, such as builtins
            return _result(error=bare_failure(exc))
        finally:
            _restore_interrupts(before)

    def _attempt(self, source: str, tracing: Tracing | None) -> dict[str, Any]:
        def work() -> dict[str, Any] | None:
            cell = self._compiled(source, whole=tracing is not None)
            if tracing is None:
                return self._finish(self._run_code(cell))
            with recorded(tracing, cell.statements, source):
                result = self._run_code(cell)
            return self._finish(result)

        return self._outcome(work, f"<cell {self._sources.count + 1}>", self._namespace)

    def _attempt_call(self, order: Mapping[str, Any], tracing: Tracing | None) -> dict[str, Any]:
        program = Program(order)

        def work() -> dict[str, Any]:
            code = program.compiled()
            with recorded(tracing, code, program.source):
                result = program.run(code)
            return with_data(self._finish(result), result)

        return self._outcome(work, program.filename, program.module.__dict__)

    def _attempt_calls(self, order: Mapping[str, Any], tell: Callable[[int, Mapping[str, Any]], Any]) -> dict[str, Any]:
        program = Program({**order, "args": [], "kwargs": {}})
        code = None

        def compiled() -> None:
            nonlocal code
            code = program.compiled()

        failed = self._outcome(compiled, program.filename, program.module.__dict__)
        if code is None:
            return failed
        case, number = order["case"], 0
        while case is not None:
            case, number = tell(number, self._answer(code, {**order, **case})), number + 1
        return _result()

    def _answer(self, code: types.CodeType, order: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            try:
                self._allow_interrupts()
                return answer_of(code, order)
            finally:
                self._disallow_interrupts()
        except KeyboardInterrupt:
            return LOST
        finally:
            flush_output()

    def _outcome(
        self, work: Callable[[], dict[str, Any] | None], filename: str, namespace: dict[str, Any]
    ) -> dict[str, Any]:
        """Do the work; where it fails, tell it of a program with this name and these variables."""
        self._process = getpid()
        try:
            try:
                self._allow_interrupts()
                value = work()
            finally:
                self._disallow_interrupts()
            return _result(value=value)
        except KeyboardInterrupt as exc:
            where = {**self._failure(exc, filename, namespace), "message": "the run was interrupted", "hints": []}
            return _result(error=where, interrupted=True)
        except SystemExit as leaving:
            left_well = leaving.code is None or leaving.code == 0
            return _result(error=None if left_well else self._failure(leaving, filename, namespace))
        except BaseException as exc:
            return _result(error=self._failure(exc, filename, namespace))
        finally:
            self._end_cell()

    def _compiled(self, source: str, *, whole: bool = False) -> CellCode:
        entered = self._namespace.get("In")
        if isinstance(entered, list):
            entered.append(source)
        return self._sources.compile(source, self._transform, whole=whole, shows=self._shows())

    def _run_code(self, cell: CellCode) -> Any:
        if cell.whole:
            return self._run_whole(cell)
        self._namespace.pop("__warningregistry__", None)  # each cell warns anew
        self._fire("pre_execute")
        self._loop.be_current()
        if cell.singles:
            hook, sys.displayhook = sys.displayhook, self._show_value
            try:
                result = self._run_parts(cell)
            finally:
                if sys.displayhook == self._show_value:
                    sys.displayhook = hook
        else:
            result = self._run_parts(cell)
        return result if cell.value is not None and cell.shown else None

    def _run_parts(self, cell: CellCode) -> Any:
        if cell.in_loop:
            return self._loop.run(self._run_parts_in_loop(cell))
        result = None
        for code in cell.parts:
            result = eval(code, self._namespace)
            if code.co_flags & _COROUTINE:
                result = self._loop.run(result)
        return result

    async def _run_parts_in_loop(self, cell: CellCode) -> Any:
        result = None
        for code in cell.parts:
            result = eval(code, self._namespace)
            if code.co_flags & _COROUTINE:
                result = await result
        return result

    def _show_value(self, value: Any) -> None:
        """Show the value of an expression that is not the last of its cell."""
        if value is not None:
            self._emit(display_event(self._bundle(value), None))

    def _run_whole(self, cell: CellCode) -> Any:
        before = self._namespace.get("_", _NOTHING)
        self._run_code(cell._replace(whole=False))
        result = self._namespace.pop("_", None)
        if before is not _NOTHING:
            self._namespace["_"] = before
        return result if cell.shown else None

    def _execute(self, source: str) -> None:
        """Run a cell inside another; its value becomes a display."""
        result = self._run_code(self._sources.compile(source, self._transform, shows=self._shows()))
        if result is not None:
            self._emit(display_event(self._bundle(result), None))

    def _shows(self) -> str:
        """Which values a cell shows, which programs set as in IPython."""
        return "last_expr" if self._shell is None else str(self._shell.ast_node_interactivity)

    def _transform(self, source: str) -> str:
        if self._shell is None:
            return source
        stripped = source.lstrip("\n\r")
        blank_lines = source[: len(source) - len(stripped)]
        transformed: str = self._shell.transform_cell(with_pip_magic(source))
        if transformed.rstrip("\n") == stripped.rstrip("\n"):
            return source
        return blank_lines + transformed

    def _finish(self, result: Any) -> dict[str, Any] | None:
        """Show open figures, keep the value under `_`, and make its bundle."""
        is_open_figure = figures.is_figure(result) and any(result is f for f in figures.open_figures())
        self._show_open()
        if result is None:
            return None
        self._keep(result)
        if is_open_figure:
            return {"text/plain": repr(result)}  # the picture has just been shown
        return self._bundle(result) or None

    def _keep(self, result: Any) -> None:
        namespace, number = self._namespace, self._sources.count
        kept = namespace.get("Out")
        if not isinstance(kept, dict):
            return
        if namespace.get("_", self._last) is self._last:
            namespace["___"], namespace["__"] = namespace.get("__", ""), namespace.get("_", "")
            namespace["_"] = self._last = result
        kept[number] = namespace[f"_{number}"] = result
        while len(kept) > KEPT_VALUES:
            oldest = next(iter(kept))
            del kept[oldest]
            namespace.pop(f"_{oldest}", None)

    def _failure(self, exc: BaseException, filename: str, namespace: dict[str, Any]) -> dict[str, Any]:
        self._sources.restore_lines()
        scene = Scene(
            filename=filename,
            files=self._sources,
            workdir=self.workdir or _current_directory(),
            namespace=namespace,
            environment_packages=self.environment_packages,
        )
        try:
            return failure_of(exc, scene)
        except BaseException:
            return bare_failure(exc)
        finally:
            exc.__traceback__ = None  # it holds every local of the failed frames

    def _show_open(self) -> None:
        if getpid() == self._process:  # a child that the cell forked has its parent's figures open, too
            figures.show_open()

    def _show_figure(self, figure: Any) -> None:
        self._emit(display_event(self._bundle(figure), None))

    def _end_cell(self) -> None:
        """After a failure, show what was drawn so far; nothing here adds a second error."""
        try:
            self._show_open()
            self._fire("post_execute")
        except BaseException:
            pass  # the cell's own outcome stands
        viewers.end()
        flush_output()

    def _emit(self, event: dict[str, Any]) -> None:
        self.emit(event)

    def _fire(self, event: str) -> None:
        """Tell libraries that asked IPython to be told."""
        if self._shell is not None and self._shell.events.callbacks[event]:
            self._shell.events.trigger(event)

    def _allow_interrupts(self) -> None:
        if _in_main_thread():
            _signal.signal(_signal.SIGINT, self._sigint)

    def _disallow_interrupts(self) -> None:
        if _in_main_thread():
            self._sigint = _signal.getsignal(_signal.SIGINT)
            _ignore_interrupts()

    def _start_namespace(self) -> None:
        self._namespace.update({"In": [""], "Out": {}})
        self._last = _NOTHING

    def forget(self) -> None:
        """Back to the first cell."""
        fresh = _new_main()
        keep = {name: self._namespace[name] for name in ("_dh",) if name in self._namespace}
        self._namespace.clear()
        self._namespace.update(fresh.__dict__)
        self._namespace.update(keep)
        self._sources.forget()
        self._sigint = _signal.default_int_handler
        self._start_namespace()


def flush_output() -> None:
    """Flush both streams, whatever the program has put in their place."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            continue


def _result(
    *,
    value: dict[str, Any] | None = None,
    error: dict[str, Any] | None = None,
    interrupted: bool = False,
) -> dict[str, Any]:
    ok = error is None and not interrupted
    return {"ok": ok, "value": value, "error": error, "interrupted": interrupted}


def _new_main() -> types.ModuleType:
    """A `__main__` as Python makes it for a prompt: without a file."""
    module = types.ModuleType("__main__")
    module.__dict__["__builtins__"] = builtins
    return module


def _leave(code: object = None) -> None:
    """`exit()` and `quit()`: end the cell. Python's own would close standard input, too."""
    raise SystemExit(code)


def _in_main_thread() -> bool:
    return get_ident() == _MAIN_THREAD


def _ignore_interrupts() -> Any:
    """Ignore SIGINT, even if one arrives meanwhile; the handler that was in force."""
    if not _in_main_thread():
        return None
    before = _signal.getsignal(_signal.SIGINT)
    while True:
        try:
            _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
            return before
        except KeyboardInterrupt:
            continue


def _restore_interrupts(before: Any) -> None:
    if before is not None and _in_main_thread():
        _signal.signal(_signal.SIGINT, before)


def _current_directory() -> str:
    try:
        return os.getcwd()
    except OSError:
        return os.sep
