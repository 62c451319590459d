"""Options of a traced run."""

from __future__ import annotations

import dataclasses
from typing import Final

from groundbox.errors import InvalidArgument
from groundbox.suggestions import named_only

CORES: Final = ("auto", "native", "plain")
MOST_EVENTS: Final = 2_000_000
MOST_BYTES: Final = 256 * 1024 * 1024
_LEAST_BYTES: Final = 64 * 1024


@named_only
@dataclasses.dataclass(frozen=True, kw_only=True)
class TraceOptions:
    """Options of how much of a run is recorded.

    Attributes:
        soft_events: After so many records, loops and calls that have been shown twice are folded; not by `plain`.
        max_events: After so many records recording ends, and the trace is not complete.
        max_bytes: The same for the size of the trace. The memory counts as the guest's own.
        core: Which tracer: `auto` takes the native one where the environment has one, else `plain`, which is slow and
            folds nothing; with `native` nothing is run there (TracerMissing). Programs that wait for the end of objects
            are traced by `plain` in any case. `Trace.core` says which it was. What is not folded, both write alike.
    """

    soft_events: int = 20_000
    max_events: int = 200_000
    max_bytes: int = 32 * 1024 * 1024
    core: str = "auto"

    def __post_init__(self) -> None:
        if self.core not in CORES:
            raise InvalidArgument("core", f"{self.core!r} is none of {', '.join(CORES)}")
        for name, least, most in (
            ("soft_events", 1, MOST_EVENTS),
            ("max_events", 1, MOST_EVENTS),
            ("max_bytes", _LEAST_BYTES, MOST_BYTES),
        ):
            value = getattr(self, name)
            # True is an int, and nobody means 1 by it.
            if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
                raise InvalidArgument(name, f"must be from {least} to {most}, not {value!r}")
