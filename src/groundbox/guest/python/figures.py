"""matplotlib's figures: shown by `plt.show()`, or at the end of the run, each once.

Nothing here imports matplotlib: a program that did not import it pays a dictionary lookup.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Any, Final

from .after_import import after_import

Emit = Callable[[Any], None]

_BACKEND: Final = f"module://{__package__}.headless"
_emit: Emit | None = None


def install(emit: Emit) -> None:
    """Make our backend matplotlib's, and give every shown figure to `emit`."""
    global _emit
    _emit = emit
    after_import("matplotlib", _choose_backend)


def show(figure: Any) -> None:
    """Called by the backend: give one figure away."""
    if _emit is not None:
        _emit(figure)


def open_figures() -> list[Any]:
    """Figures that pyplot holds, in the order of their numbers."""
    if "matplotlib.pyplot" not in sys.modules:
        return []
    helpers: Any = sys.modules["matplotlib._pylab_helpers"]
    return [manager.canvas.figure for manager in helpers.Gcf.figs.values()]


def show_open() -> None:
    """Show and close what is still open. An empty figure, as `plt.gcf()` makes, is only closed."""
    figures = open_figures()
    if not figures:
        return
    sys.modules["matplotlib.pyplot"].close("all")
    for figure in figures:
        if figure.get_children()[1:]:
            show(figure)


def is_figure(value: Any) -> bool:
    """Whether `value` is a matplotlib figure."""
    module: Any = sys.modules.get("matplotlib.figure")
    return module is not None and issubclass(type(value), module.FigureBase)


def png(figure: Any) -> bytes:
    """The figure as PNG: as it was saved, when it has not changed since; else with room for all labels."""
    saved: bytes | None = getattr(figure, "groundbox_png", None)
    if saved is not None and not figure.stale:
        return saved
    stream = io.BytesIO()
    figure.savefig(stream, format="png", bbox_inches="tight")
    return stream.getvalue()


def after_fork() -> None:
    """Drop cached fonts: each holds a descriptor whose offset all forks would share."""
    manager: Any = sys.modules.get("matplotlib.font_manager")
    if manager is not None:
        clear = getattr(getattr(manager, "_get_font", None), "cache_clear", None)
        if clear is not None:
            clear()


def _choose_backend(matplotlib: Any) -> None:
    """There is no screen, and any other non-interactive backend does less than ours.

    Programs call `matplotlib.use("Agg")`, or even `"TkAgg"`, out of habit; saving as
    PDF or SVG does not depend on it.
    """
    matplotlib.rcParams["backend"] = _BACKEND

    def use(backend: str, *, force: bool = True) -> None:
        """Accepted and without effect: figures are drawn off screen here."""

    matplotlib.use = use
    after_import("matplotlib.pyplot", _keep_backend)


def _keep_backend(pyplot: Any) -> None:
    pyplot.switch_backend(_BACKEND)
    pyplot.switch_backend = lambda newbackend: None
