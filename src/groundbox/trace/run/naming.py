"""By which name a frame reaches an object: `xs`, `self.items`, `grid[0]`, `node.next`."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from groundbox.trace.record.value import kind_of, ref_of
from groundbox.trace.run.objects import Obj
from groundbox.trace.run.state import State

MOST_LOOKED_AT: Final = 2000
MOST_DEPTH: Final = 4


def name_of(state: State, frame: int, label: int) -> str:
    """The shortest way from a frame's names to an object, or `<list #4>` if none of a few steps leads there."""
    waiting: deque[tuple[str, int, int]] = deque()
    for name, value in _names(state, frame):
        ref = ref_of(value)
        if ref == label:
            return name
        if ref is not None:
            waiting.append((name, ref, 1))
    seen: set[int] = set()
    while waiting and len(seen) < MOST_LOOKED_AT:
        path, ref, depth = waiting.popleft()
        obj = state.heap.get(ref)
        if obj is None or ref in seen or depth > MOST_DEPTH:
            continue
        seen.add(ref)
        for step, part in _parts(obj):
            if part == label:
                return path + step
            waiting.append((path + step, part, depth + 1))
    obj = state.heap.get(label)
    return f"<{(obj.class_ or obj.type) if obj is not None else 'object'} #{label}>"


def _names(state: State, frame: int) -> Iterator[tuple[str, object]]:
    found = state.frames.get(frame)
    if found is not None:
        yield from state.names(frame).items()
        yield from ((name, held[0]) for name, held in found.others.items() if held is not None)
    yield from ((name, held[0]) for name, held in state.globals.items() if held is not None)
    if state.module and state.module != frame:
        yield from state.names(state.module).items()


def _parts(obj: Obj) -> Iterator[tuple[str, int]]:
    for name, value in obj.attrs.items():
        if (ref := ref_of(value)) is not None:
            yield f".{name}", ref
    for key, value in (obj.pairs or {}).values():
        if (ref := ref_of(value)) is not None and kind_of(key) == "atom":
            yield f"[{key!r}]", ref
    if obj.items is not None and obj.type in ("list", "deque"):
        for index, value in enumerate(obj.items.all() or ()):
            if (ref := ref_of(value)) is not None:
                yield f"[{index}]", ref
