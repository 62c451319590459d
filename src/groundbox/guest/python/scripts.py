"""Scripts: programs run as `python file.py` runs them, in a process forked for it.

Standard output, exit code and traceback are those of CPython. What the interpreter does
when it ends is done here in its order, since the process leaves by `os._exit`, past the
template's own cleanup: wait for threads, call `atexit` functions, drop the program's
globals (that closes forgotten files, and runs `__del__`), flush.
"""

from __future__ import annotations

import atexit
import builtins
import contextlib
import functools
import gc
import itertools
import os
import signal
import site
import sys
import threading
import traceback
import types
from collections.abc import Callable
from os import _exit  # by this name, because programs set `os._exit` to what they like
from typing import Any, NoReturn

from . import chance, figures, interpreters, machine, viewers
from .bundles import Bundler
from .display import display_event
from .failure import failure_of
from .frames import Scene, is_beneath
from .shell import forget_shell
from .source import remember_lines
from .tracing import Tracing
from .uncaught import print_exception
from .watching import Watch

Report = Callable[[dict[str, Any]], None]

FLUSH_FAILED = 120
"""CPython's exit code when its output could not be written at the end."""


def run_script(
    source: str,
    *,
    filename: str,
    file: str = "",
    argv: list[str],
    report: Report,
    tracing: Tracing | None = None,
    watch: Watch | None = None,
) -> NoReturn:
    """Run `source` as the program of this process, then leave the process.

    Args:
        filename: As in tracebacks.
        file: As `sys.argv[0]` and `__file__`, if it is not `filename`. Need not exist, unless the program
            reads it or starts processes by `spawn`, which read it again.
        report: Receives `{"ev": "display", …}` while it runs, and `{"error": …}` at most once.
    """
    code = 1
    try:
        script = _Script(source, filename, file or filename, argv, report, tracing)
        code = script.run() if watch is None else script.run_watched(watch)
    finally:
        _exit(code & 0xFF)


class _Script:
    def __init__(
        self,
        source: str,
        filename: str,
        file: str,
        argv: list[str],
        report: Report,
        tracing: Tracing | None,
    ) -> None:
        self._tracing = tracing
        self._source = source
        self._filename = filename
        self._file = file
        self._report_from = os.getpid()
        self._report = report
        self._interrupted = False
        self._module_count = len(sys.modules)
        self._workdir = os.getcwd()
        self._become_main(argv)

    def run(self) -> int:
        """The exit code."""
        code = self._execute()
        self._show_figures()
        _guarded("threading", threading._shutdown)  # type: ignore[attr-defined]
        _guarded("atexit", atexit._run_exitfuncs)
        _guarded("the browser of plotly's pictures", viewers.end)
        _guarded("the watch over chance", chance.end)
        if self._tracing is not None:
            self._tracing.end()
        self._drop_globals()
        if not _flushed():
            code = FLUSH_FAILED
        if self._interrupted:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        return code

    def run_watched(self, watch: Watch) -> int:
        """The same, and then tell what the watch saw."""
        try:
            return self.run()
        finally:
            self._send({"observed": watch.end()})

    def _become_main(self, argv: list[str]) -> None:
        forget_shell()
        site.setquit()
        sys.__dict__.pop("ps1", None)
        sys.argv = [self._file, *argv]
        path = os.path.abspath(self._file)
        for name in {self._filename, path}:
            remember_lines(name, self._source)
        _import_first_from(os.path.dirname(path))
        self._module = types.ModuleType("__main__")
        self._module.__dict__.update(__builtins__=builtins, __file__=path, __cached__=None, __loader__=None)
        if sys.version_info < (3, 14):
            self._module.__annotations__ = {}
        self._former_main = sys.modules.get("__main__")
        sys.modules["__main__"] = self._module
        figures.install(self._show_figure)
        viewers.install(self._send)
        machine.install()
        interpreters.install()

    def _execute(self) -> int:
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # the worker has blocked it until here
            code = compile(self._source, self._filename, "exec", dont_inherit=True)
            if self._tracing is not None:
                self._tracing.begin(code, self._source)
                self._send({"core": self._tracing.core})
            exec(code, self._module.__dict__)
        except SystemExit as leaving:
            return _exit_code(leaving)
        except BaseException as exc:
            uncaught = exc
        else:
            return 0
        return self._tell(uncaught)  # out here, so that a failing excepthook has no context

    def _tell(self, exc: BaseException) -> int:
        exc.__traceback__ = self._own_part(exc.__traceback__)
        if isinstance(exc, KeyboardInterrupt):
            self._interrupted = True
        else:
            self._report_failure(exc)
        code = _print(exc)
        exc.__traceback__ = None
        return 128 + signal.SIGINT if self._interrupted else code

    def _own_part(self, tb: types.TracebackType | None) -> types.TracebackType | None:
        """The traceback from the program's first frame on."""
        while tb is not None and tb.tb_frame.f_globals is not self._module.__dict__:
            tb = tb.tb_next
        return tb

    def _report_failure(self, exc: BaseException) -> None:
        scene = Scene(
            filename=self._filename,
            files=(),
            workdir=self._workdir,
            namespace=self._module.__dict__,
        )
        try:
            self._send({"error": failure_of(exc, scene)})
        except KeyboardInterrupt:
            self._interrupted = True

    def _send(self, item: dict[str, Any]) -> None:
        """Report, unless this is a process that the program forked, or the host no longer listens."""
        if os.getpid() == self._report_from:
            try:
                self._report(item)
            except OSError:
                return

    def _show_figure(self, figure: Any) -> None:
        self._send(display_event(Bundler()(figure), None))

    def _show_figures(self) -> None:
        if os.getpid() == self._report_from:
            _guarded("the figures left open", figures.show_open)

    def _drop_globals(self) -> None:
        """As the interpreter ends: names with one underscore first, then all, then cycles."""
        namespaces = [self._module.__dict__]
        new_count = len(sys.modules) - self._module_count
        for name in list(itertools.islice(reversed(sys.modules), max(0, new_count))):
            module = sys.modules[name]
            file = getattr(module, "__file__", None)
            if isinstance(file, str) and is_beneath(os.path.abspath(file), self._workdir):
                namespaces.append(module.__dict__)
        for namespace in namespaces:
            _guarded("the end of the program", functools.partial(_clear, namespace))
        _guarded("the end of the program", gc.collect)


def _import_first_from(directory: str) -> None:
    """As for `python file.py`; the prompt's own entry, the current directory, goes."""
    if sys.path[:1] in ([""], [directory]):
        del sys.path[0]
    sys.path.insert(0, directory)


def _clear(namespace: dict[str, Any]) -> None:
    for private in (True, False):
        for name in list(namespace):
            if name != "__builtins__" and (name[:1] == "_" and name[1:2] != "_") is private:
                namespace[name] = None


def _exit_code(leaving: SystemExit) -> int:
    """As CPython: None is 0, an int is itself, anything else is printed and 1."""
    code = leaving.code
    if code is None:
        return 0
    if isinstance(code, int):
        return int(code) if -(1 << 31) <= code < (1 << 31) else 255
    _flush(sys.stdout)
    try:
        print(code, file=sys.stderr)
    except Exception:
        pass  # there is nowhere left to say it
    return 1


def _print(exc: BaseException) -> int:
    """Print an uncaught exception by the program's `sys.excepthook`, or as Python does."""
    _flush(sys.stdout)
    hook = sys.excepthook
    try:
        if hook is sys.__excepthook__:
            print_exception(exc)
        else:
            hook(type(exc), exc, exc.__traceback__)
    except SystemExit as leaving:
        return _exit_code(leaving)
    except BaseException as fault:
        print("Error in sys.excepthook:", file=sys.__stderr__)
        its_own = fault.__traceback__.tb_next if fault.__traceback__ else None
        traceback.print_exception(type(fault), fault, its_own, file=sys.__stderr__)
        print("\nOriginal exception was:", file=sys.__stderr__)
        traceback.print_exception(exc, file=sys.__stderr__)
    return 1


def _guarded(what: str, action: Callable[[], object]) -> None:
    """Do one thing of the end; its failure is printed and stops nothing."""
    try:
        action()
    except BaseException:
        try:
            print(f"Exception ignored in: {what}", file=sys.stderr)
            traceback.print_exc()
        except Exception:
            return


def _flushed() -> bool:
    ok = _flush(sys.stdout)
    _flush(sys.stderr)
    return ok


def _flush(stream: Any) -> bool:
    """Whether the stream took everything. A closed stream or None has nothing to lose."""
    try:
        if stream is not None and not stream.closed:
            stream.flush()
    except Exception as fault:
        if stream is sys.stdout:  # as the interpreter tells it when it ends
            complaint = "".join(traceback.format_exception_only(fault))
            with contextlib.suppress(Exception):
                where = "on flushing sys.stdout:" if sys.version_info >= (3, 13) else f"in: {stream!r}"
                sys.stderr.write(f"Exception ignored {where}\n{complaint}")
        return False
    return True
