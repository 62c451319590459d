"""Libraries whose `show()` opens a window or a browser: here it makes a display.

matplotlib is in `figures`; these are plotly and Pillow.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any, Final

from .after_import import after_import
from .bundles import Bundler
from .display import display_event

Emit = Callable[[dict[str, Any]], None]


def install(emit: Emit) -> None:
    """Adapt both libraries, each when it is imported."""
    bundle = Bundler()

    def adapt_plotly(renderers_module: Any) -> None:
        class Displays(renderers_module.ExternalRenderer):  # type: ignore[misc]
            def render(self, fig: Any) -> None:
                objects: Any = importlib.import_module("plotly.graph_objects")
                figure = objects.Figure(fig, skip_invalid=True)
                emit(display_event(bundle(figure), None))

        renderers_module.renderers["display"] = Displays()
        renderers_module.renderers.default = "display"

    def adapt_pillow(image_show: Any) -> None:
        class Displays(image_show.Viewer):  # type: ignore[misc]
            def show(self, image: Any, **options: Any) -> int:
                emit(display_event(bundle(image), None))
                return 1

        image_show.register(Displays(), 0)

    after_import("plotly.io._renderers", adapt_plotly)
    after_import("plotly.io._kaleido", _adapt_kaleido)
    after_import("PIL.ImageShow", adapt_pillow)


def end() -> None:
    """End what was started to draw pictures; called when a run ends."""
    charts = sys.modules.get(_CHARTS)
    if charts is not None:
        charts.end_browser()


_CHARTS: Final = f"{__package__}.charts"


def _adapt_kaleido(module: Any) -> None:
    charts: Any = importlib.import_module(_CHARTS)
    charts.adapt(module)
