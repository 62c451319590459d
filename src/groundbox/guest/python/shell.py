"""IPython's shell, kept for what plain Python does not know: magics, `!`, `?`, `get_ipython()`.

Cells are not run by it (see `cells`). It writes no history and no files, starts no
thread, prints no colours, and hands every display to our own publisher.
"""

from __future__ import annotations

import atexit
import builtins
import importlib
import sys
import types
from collections.abc import Callable
from typing import Any, ClassVar

from . import commands
from .bundles import Bundler, clean
from .display import display_event

Emit = Callable[[dict[str, Any]], None]
Execute = Callable[[str], None]


def build_shell(module: types.ModuleType, emit: Emit, execute: Execute) -> Any:
    """The one shell of this process, on the namespace of `module`, or None without IPython.

    Args:
        execute: Runs a source in the namespace and raises what it raises; for `run_cell`.
    """
    try:
        core: Any = importlib.import_module("IPython.core.interactiveshell")
    except ImportError:
        return None
    if hasattr(core, "PickleShareDB"):  # IPython 8 would make its folder now
        core.PickleShareDB = lambda root: {}
    before = set(module.__dict__)
    shell = _make_class(core.InteractiveShell, emit, execute).instance(user_module=module)
    atexit.unregister(shell.atexit_operations)
    for name in set(module.__dict__) - before - {"In", "Out", "_dh", "_ih", "_oh"}:
        del module.__dict__[name]
    builtins.__dict__["get_ipython"] = shell.get_ipython
    commands.register(shell)
    return shell


def forget_shell() -> None:
    """Make this process look as if IPython had never been used; for scripts."""
    for name in ("get_ipython", "display", "__IPYTHON__"):
        builtins.__dict__.pop(name, None)
    module: Any = sys.modules.get("IPython.core.interactiveshell")
    if module is not None and module.InteractiveShell.initialized():
        module.InteractiveShell.clear_instance()


def _make_class(base: Any, emit: Emit, execute: Execute) -> Any:
    displayhook: Any = importlib.import_module("IPython.core.displayhook")
    displaypub: Any = importlib.import_module("IPython.core.displaypub")
    text: Any = importlib.import_module("IPython.utils.text")
    formatters: Any = importlib.import_module("IPython.core.formatters")
    traitlets: Any = importlib.import_module("traitlets.config")

    class Formatter(formatters.DisplayFormatter):  # type: ignore[misc]
        """Our bundles for everyone who asks IPython for them."""

        def format(self, value: Any, include: Any = None, exclude: Any = None) -> tuple[Any, Any]:
            bundle = Bundler(self.parent)(value)
            kept = {
                mime: content
                for mime, content in bundle.items()
                if (not include or mime in include or mime == "text/plain") and mime not in (exclude or ())
            }
            return kept, {}

    class Publisher(displaypub.DisplayPublisher):  # type: ignore[misc]
        """Displays go to the host."""

        def publish(
            self,
            data: Any,
            metadata: Any = None,
            source: Any = None,
            *,
            transient: Any = None,
            update: bool = False,
            **kwargs: Any,
        ) -> None:
            display_id = (transient or {}).get("display_id")
            emit(display_event(clean(data), display_id, update=update))

        def clear_output(self, wait: bool = False) -> None:
            emit({"ev": "clear", "wait": bool(wait)})

    class Hook(displayhook.DisplayHook):  # type: ignore[misc]
        """Values of nested cells are displays."""

        def __call__(self, result: Any = None) -> None:
            if result is not None:
                emit(display_event(Bundler(self.shell)(result), None))

    class Shell(base):  # type: ignore[misc]
        """IPython's shell without what belongs to a terminal or a disk."""

        display_pub_class = Publisher
        displayhook_class = Hook
        profile_dir = types.SimpleNamespace(location="")
        _store: ClassVar[dict[str, Any]] = {}

        def init_ipython_dir(self, ipython_dir: Any) -> None:
            pass

        def init_profile_dir(self, profile_dir: Any) -> None:
            pass

        @property
        def db(self) -> dict[str, Any]:
            """What IPython would keep on disk, such as the folders that `%cd` has been in."""
            return self._store

        @db.setter
        def db(self, store: Any) -> None:
            """IPython 8 opens a store on disk here."""

        def init_virtualenv(self) -> None:
            pass

        def init_completer(self) -> None:
            self.Completer = None

        def init_prompts(self) -> None:
            pass

        def init_display_formatter(self) -> None:
            self.display_formatter = Formatter(parent=self)
            self.configurables.append(self.display_formatter)

        def init_display_pub(self) -> None:
            self.display_pub = Publisher(parent=self, shell=self)

        def init_displayhook(self) -> None:
            super().init_displayhook()
            self.displayhook = Hook(parent=self, shell=self)

        def enable_gui(self, gui: Any = None) -> None:
            pass

        def system(self, command: str) -> None:
            expanded = self.var_expand(command, depth=1)
            self.user_ns["_exit_code"] = commands.system(expanded)

        system_raw = system_piped = system

        def getoutput(self, cmd: str, split: bool = True, depth: int = 0) -> Any:
            if cmd.rstrip().endswith("&"):
                raise OSError("Background processes not supported.")  # as IPython says
            self.user_ns["_exit_code"], written = commands.read_output(self.var_expand(cmd, depth=depth + 1))
            return text.SList(written.splitlines()) if split else text.LSString(written)

        def run_cell(self, raw_cell: str, *args: Any, **kwargs: Any) -> None:
            """For magics that take a cell, such as `%%capture`. Errors are raised, not printed."""
            execute(raw_cell)

        def showtraceback(self, exc_tuple: Any = None, *args: Any, **kwargs: Any) -> None:
            """Errors of files that `%run` runs are the cell's errors."""
            exc = exc_tuple[1] if exc_tuple else sys.exc_info()[1]
            if exc is not None:
                raise exc

        showsyntaxerror = showtraceback

    config = traitlets.Config()
    config.HistoryManager.enabled = False
    config.HistoryManager.hist_file = ":memory:"
    config.InteractiveShell.colors = "nocolor"
    config.InteractiveShell.history_length = 0
    config.InteractiveShell.display_page = False

    class Configured(Shell):
        def __init__(self, **kwargs: Any) -> None:
            super().__init__(config=config, **kwargs)
            self.set_hook("show_in_pager", _print_page, 1)

    Configured.__name__ = "InteractiveShell"
    return Configured


def _print_page(shell: Any, data: Any, start: int = 0, screen_lines: int = 0, pager_cmd: Any = None) -> None:
    """Help goes to standard output."""
    print(data.get("text/plain", "") if isinstance(data, dict) else data)
