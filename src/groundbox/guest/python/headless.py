"""A matplotlib backend without windows: Agg that draws once.

`plt.savefig` asks the canvas to redraw itself when idle, and plain Agg does so at
once, which draws every figure twice. A canvas that nobody looks at need not.
`plt.show()` hands each figure to `figures.show`.
"""

from __future__ import annotations

import importlib
import io
import os
from typing import Any

from . import figures

_bases: Any = importlib.import_module("matplotlib.backend_bases")
_agg: Any = importlib.import_module("matplotlib.backends.backend_agg")
_pylab_helpers: Any = importlib.import_module("matplotlib._pylab_helpers")


class FigureManager(_bases.FigureManagerBase):  # type: ignore[misc]
    """Shows a figure by giving it away and closing it."""

    def show(self) -> None:
        figures.show(self.canvas.figure)
        _pylab_helpers.Gcf.destroy(self)

    @classmethod
    def pyplot_show(cls, *, block: bool | None = None) -> None:
        """Show all figures. `block=False`, which `plt.pause` uses too, leaves them for the end."""
        if block is not False:
            for manager in _pylab_helpers.Gcf.get_all_fig_managers():
                manager.show()


class FigureCanvas(_agg.FigureCanvasAgg):  # type: ignore[misc]
    """Agg's canvas; draws only when its pixels are asked for."""

    manager_class = FigureManager

    def print_figure(self, filename: Any, *args: Any, **kwargs: Any) -> Any:
        """Save. A PNG is kept with the figure, so that showing it unchanged does not draw it once more.

        pyplot takes the canvas away when it closes a figure, so this cannot be the place to keep it.
        """
        kind = kwargs.get("format") or str(filename).rpartition(".")[2]
        if kind != "png" or not isinstance(filename, str | os.PathLike):
            return super().print_figure(filename, *args, **kwargs)
        stream = io.BytesIO()
        result = super().print_figure(stream, *args, **{**kwargs, "format": "png"})
        self.figure.groundbox_png = stream.getvalue()
        with open(filename, "wb") as file:
            file.write(self.figure.groundbox_png)
        self.figure.stale = False
        return result

    def draw_idle(self, *args: Any, **kwargs: Any) -> None:
        pass

    def start_event_loop(self, timeout: float = 0) -> None:
        """No events can come, so no time is spent waiting for them."""
