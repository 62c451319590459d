"""The text forms by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from groundbox.trace.render.annotated import annotated
from groundbox.trace.render.concise import concise
from groundbox.trace.render.dynamic import dynamic
from groundbox.trace.render.frames import frames
from groundbox.trace.render.scratchpad import scratchpad
from groundbox.trace.render.terminal import terminal

if TYPE_CHECKING:
    from groundbox.trace.reading import Trace

FORMS: Final[Mapping[str, Callable[[Trace], str]]] = {
    "annotated": annotated,
    "scratchpad": scratchpad,
    "dynamic": dynamic,
    "concise": concise,
    "frames": frames,
    "terminal": terminal,
}
