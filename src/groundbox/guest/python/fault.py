"""An exception with what the rules for hints look at, each part worked out once."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterable, Iterator
from typing import Any, Final

from .failing_line import FailingLine
from .frames import Scene, Step, steps_of, user_step

CANDIDATES: Final = 5000
LISTED: Final = 20


class Fault:
    """One failure. Nothing here is worked out before a rule asks for it."""

    def __init__(self, exc: BaseException, scene: Scene) -> None:
        self.exc = exc
        self.scene = scene

    @functools.cached_property
    def message(self) -> str:
        return str.__str__(str(self.exc))

    @functools.cached_property
    def steps(self) -> list[Step]:
        return steps_of(self.exc, self.scene)

    @functools.cached_property
    def step(self) -> Step | None:
        """The innermost frame of the program."""
        return user_step(self.steps)

    @functools.cached_property
    def line(self) -> FailingLine | None:
        return None if self.step is None else FailingLine(self.step)

    def containers(self) -> Iterator[tuple[str, Any]]:
        """What the failing line takes items of, then its other values."""
        return iter(()) if self.line is None else self.line.containers()

    def packages(self) -> set[str]:
        """Libraries that the failure went through."""
        return {step.package for step in self.steps if not step.own}

    def chain(self) -> Iterator[BaseException]:
        """The exception and all it came from, also by `reason`, as urllib and urllib3 keep it."""
        todo: list[Any] = [self.exc]
        seen: set[int] = set()
        while todo:
            link = todo.pop(0)
            if not isinstance(link, BaseException) or id(link) in seen:
                continue
            seen.add(id(link))
            yield link
            todo += [link.__cause__, link.__context__, getattr(link, "reason", None), *link.args[:2]]


def nearest(name: str, candidates: Iterable[object], count: int = 3, *, likeness: float = 0.7) -> list[str]:
    """The names most like `name`, best first; differences of case and of `_` count little.

    Args:
        likeness: 1 is the same name; names below it are left out.
    """
    names = [str.__str__(c) for c, _ in zip(candidates, range(CANDIDATES), strict=False) if isinstance(c, str)]
    folded: dict[str, list[str]] = {}
    for candidate in dict.fromkeys(names):
        if candidate != name:
            folded.setdefault(_folded(candidate), []).append(candidate)
    close = difflib.get_close_matches(_folded(name), list(folded), n=count, cutoff=likeness)
    return [original for match in close for original in folded[match]][:count]


def listing(names: Iterable[object]) -> str:
    """Up to 20 names and the number of the others."""
    known = list(names)
    more = f", … {len(known) - LISTED} more" if len(known) > LISTED else ""
    return ", ".join(_short(name) for name in known[:LISTED]) + more


def either(names: list[str]) -> str:
    """`a`, `b` or `c`."""
    quoted = [f"`{name}`" for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"


def _short(name: object) -> str:
    text = repr(name) if isinstance(name, (str, int, float, tuple)) else f"<{type(name).__name__}>"
    return text if len(text) <= 60 else text[:60] + "…"


def _folded(name: str) -> str:
    return name.casefold().replace("_", "").replace(" ", "")[:200]
