"""matplotlib's figures: shown by `plt.show()`, or at the end of the run, each once.

Nothing here imports matplotlib: a program that did not import it pays a dictionary lookup.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import io
import os
import sys
from collections.abc import Callable
from typing import Any, Final

from .after_import import after_import

Emit = Callable[[Any], None]

_BACKEND: Final = f"module://{__package__}.headless"
_FONT: Final = "WenQuanYi Micro Hei"
_FONT_PACKAGE: Final = "paperang_p2_fonts_cjk"
_CALLED: Final = (
    "AppleGothic",
    "Arial Unicode MS",
    "Hiragino Sans",
    "IPAexGothic",
    "Malgun Gothic",
    "Microsoft YaHei",
    "MS Gothic",
    "NanumGothic",
    "Noto Sans CJK JP",
    "Noto Sans CJK KR",
    "Noto Sans CJK SC",
    "Noto Sans CJK TC",
    "Noto Sans SC",
    "PingFang SC",
    "SimHei",
    "SimSun",
    "Source Han Sans SC",
    "STHeiti",
    "WenQuanYi Zen Hei",
    "Yu Gothic",
)
"""Fonts that programs ask for when their labels are Chinese, Japanese or Korean; one font stands for all."""
_emit: Emit | None = None


def install(emit: Emit) -> None:
    """Make our backend matplotlib's, and give every shown figure to `emit`."""
    global _emit
    _emit = emit
    after_import("matplotlib", _choose_backend)
    after_import("matplotlib.font_manager", _add_font)


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


def close_fonts() -> None:
    """Drop cached fonts: each holds a descriptor whose offset all forks would share."""
    manager: Any = sys.modules.get("matplotlib.font_manager")
    if manager is not None:
        clear = getattr(getattr(manager, "_get_font", None), "cache_clear", None)
        if clear is not None:
            clear()


def _add_font(font_manager: Any) -> None:
    """Draw what a figure's own font does not have, which is Chinese, Japanese and Korean, with one that has it.

    A font that is not there is told in a warning and drawn as boxes otherwise. What the manager finds for a text is
    a list, of which later fonts fill the gaps of earlier ones; styles and themes set the list anew, so that
    the font is appended to each answer, not to a setting.
    """
    spec = importlib.util.find_spec(_FONT_PACKAGE)
    folder = os.path.dirname(spec.origin) if spec is not None and spec.origin else ""
    path = f"{folder}/fonts/wqy-microhei.ttc"
    manager = font_manager.fontManager
    find = getattr(manager, "_find_fonts_by_props", None)
    if find is None or hasattr(find, "__wrapped__") or not os.path.isfile(path):
        return
    known = {entry.name for entry in manager.ttflist}
    if _FONT not in known:
        manager.addfont(path)
    own = next(entry for entry in manager.ttflist if entry.name == _FONT)
    manager.ttflist += [dataclasses.replace(own, name=name) for name in _CALLED if name not in known]
    last = manager.findfont(_FONT)

    @functools.wraps(find)
    def with_last(*args: Any, **options: Any) -> Any:
        found = find(*args, **options)
        return found if last in found else [*found, last]

    manager._find_fonts_by_props = with_last


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
