"""The text forms by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from groundbox.trace.show.annotated import annotated
from groundbox.trace.show.concise import concise
from groundbox.trace.show.dynamic import dynamic
from groundbox.trace.show.frames import frames
from groundbox.trace.show.scratchpad import scratchpad
from groundbox.trace.show.terminal import terminal

if TYPE_CHECKING:
    from groundbox.trace.record.reading import Trace

FORMS: Final[Mapping[str, Callable[[Trace], str]]] = {
    "annotated": annotated,
    "scratchpad": scratchpad,
    "dynamic": dynamic,
    "concise": concise,
    "frames": frames,
    "terminal": terminal,
}
