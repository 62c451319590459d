"""What a stretch of the run that is not told made of the names of a frame."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final, NamedTuple

from groundbox.trace import schema
from groundbox.trace.errors import Unknown
from groundbox.trace.narration.literals import literal
from groundbox.trace.narration.narration import Claim, ClaimKind
from groundbox.trace.narration.telling import Telling, claim
from groundbox.trace.schema import V
from groundbox.trace.structure import Iteration, Step, walk
from groundbox.trace.values import ref_of

MAX_NAMES: Final = 24
"""Names that are told after a stretch."""
MAX_PLACES: Final = 3
"""Changed items of a long list that are told one by one."""
MAX_CHARS: Final = 60
"""Characters of a value."""


_SAYS_LITTLE: Final = re.compile(r"[\[({]… .* more …")
"""A container within the container of which nothing is shown."""


class Before(NamedTuple):
    """A name's value when the stretch began: text, label, the items where all are shown, texts of attributes."""

    text: str
    label: int | None
    plain: Any
    attributes: dict[str, str]


class Said(NamedTuple):
    """A statement about a name: `` `x` is 3``, or `` `xs` has 12 items``."""

    text: str
    claim: Claim


class Gaps:
    """Compares a frame's names before and after a stretch."""

    def __init__(self, telling: Telling) -> None:
        self._telling = telling

    def look(self, frame: int, labels: Collection[int | None] | None = None) -> dict[str, Before]:
        """The names of a frame at this moment, or only those for some objects."""
        names = self._telling.state.names(frame)
        return {
            name: self._seen(value)
            for name, value in names.items()
            if not self._telling.is_code(value) and (labels is None or ref_of(value) in labels)
        }

    def after(
        self, before: dict[str, Before], frame: int, first: int, last: int, but: Collection[str] = ()
    ) -> list[Said]:
        """What is different now, after the records from `first` to `last`; names in `but` are left out."""
        said: list[Said] = []
        told: set[int] = set()
        for name, value in self._telling.state.names(frame).items():
            label = ref_of(value)
            if name in but or label in told or self._telling.is_code(value):
                continue
            now = self._seen(value)
            then = before.get(name)
            if then is not None and now.text == then.text:
                continue
            if label is not None:
                told.add(label)
            said.extend(self._changes(name, value, then, now, frame, first, last))
        return said[:MAX_NAMES]

    def _seen(self, value: V) -> Before:
        label = ref_of(value)
        plain = None
        attributes: dict[str, str] = {}
        if label is not None:
            held = self._telling.state.heap[label]
            if held.type == "object":
                attributes = {name: self._telling.text(value, 10_000) for name, value in held.attrs.items()}
            try:
                plain = self._telling.state.python_value(value)
            except Unknown:
                plain = None
        return Before(self._telling.text(value, 10_000), label, plain, attributes)

    def _changes(
        self, name: str, value: V, then: Before | None, now: Before, frame: int, first: int, last: int
    ) -> Iterator[Said]:
        """The new value, or of a long one that was changed in few places these places."""
        ref = self._last_ref(frame, name, now.label, first, last)
        known = then is not None and then.plain is not None and now.plain is not None
        if known and then is not None and then.label == now.label and len(now.text) > MAX_CHARS:
            places = list(itertools.islice(_differences(then.plain, now.plain, name), MAX_PLACES + 1))
            if 0 < len(places) <= MAX_PLACES and all(len(text) <= MAX_CHARS for _, text in places):
                for subject, text in places:
                    yield is_now(subject, text, [ref], frame)
                return
        if then is not None and then.label == now.label and now.attributes:
            yield from self._attributes(name, then, now, ref, frame)
            return
        text = self._telling.text(value, MAX_CHARS)
        size = self._size(now.label)
        if size is not None and _SAYS_LITTLE.search(text):
            counted = f"{size} item" + ("" if size == 1 else "s")
            yield Said(f"`{name}` has {counted}", claim(ClaimKind.COUNT, [ref], frame, name, str(size)))
            return
        yield is_now(name, text, [ref], frame)

    def _attributes(self, name: str, then: Before, now: Before, ref: int, frame: int) -> Iterator[Said]:
        """The attributes of an object that have changed."""
        held = self._telling.state.heap[now.label or 0]
        for attribute, text in now.attributes.items():
            if then.attributes.get(attribute) != text:
                shown = self._telling.text(held.attrs[attribute], MAX_CHARS)
                yield is_now(f"{name}.{attribute}", shown, [ref], frame)

    def _size(self, label: int | None) -> int | None:
        """How many items a list, set or dict has."""
        held = None if label is None else self._telling.state.heap[label]
        if held is None or held.type in ("object", "class"):
            return None
        return len(held.items) if held.items is not None else len(held.pairs or ()) + held.unknown_pairs

    def _last_ref(self, frame: int, name: str, label: int | None, first: int, last: int) -> int:
        for ref in range(last, first - 1, -1):
            record = self._telling.trace.records[ref]
            if isinstance(record, schema.Set) and record.f == frame and record.name == name:
                return ref
            if isinstance(record, schema.Mutate) and record.id == label:
                return ref
        return last

    def series(self, iterations: Sequence[Iteration], frame: int) -> list[tuple[str, list[str], list[int]]]:
        """Names that took exactly one short value in each of some iterations, with these values and their records.

        To be asked before the state has gone through the iterations: only atoms are told.
        """
        found: dict[str, list[tuple[str, int]]] = {}
        for iteration in iterations:
            taken: dict[str, list[tuple[str, int]]] = {}
            for ref in _sets(iteration):
                record = self._telling.trace.records[ref]
                if isinstance(record, schema.Set) and record.f == frame:
                    text = "" if isinstance(record.v, dict) else self._telling.text(record.v, 1000)
                    taken.setdefault(record.name, []).append((text, ref))
            for name, values in taken.items():
                if len(values) == 1 and values[0][0] and len(values[0][0]) <= 12:
                    found.setdefault(name, []).append(values[0])
        whole = [(name, values) for name, values in found.items() if len(values) == len(iterations)]
        return [(name, [text for text, _ in values], [ref for _, ref in values]) for name, values in whole]


def _sets(iteration: Iteration) -> Iterator[int]:
    for step in steps_of(iteration):
        yield from step.effects


def steps_of(iteration: Iteration) -> list[Step]:
    """All steps of an iteration, its header first."""
    header = [] if iteration.header is None else [iteration.header]
    return [*header, *walk(iteration.body)]


def end_of(steps: Sequence[Step]) -> int:
    """The last record of some steps and of what they called."""
    return max((step.last for step in steps), default=-1)


def target_names(statement: ast.stmt) -> list[str]:
    """The names that a `for` assigns, in their order."""
    if not isinstance(statement, ast.For | ast.AsyncFor):
        return []
    return [node.id for node in ast.walk(statement.target) if isinstance(node, ast.Name)]


def is_now(subject: str, value: str, refs: Sequence[int], frame: int) -> Said:
    """That a name or place has a value."""
    return Said(f"`{subject}` is {value}", claim(ClaimKind.VALUE, refs, frame, subject, value))


def _differences(old: Any, new: Any, path: str) -> Iterator[tuple[str, str]]:
    """Places in nested lists and dicts that hold something else, as code and text; the whole if the shape changed."""
    if type(old) is list and type(new) is list and len(old) == len(new):
        for place, (before, after) in enumerate(zip(old, new, strict=True)):
            if before != after or type(before) is not type(after):
                yield from _differences(before, after, f"{path}[{place}]")
    elif type(old) is dict and type(new) is dict and old.keys() <= new.keys():
        for key, after in new.items():
            if key not in old or old[key] != after:
                yield from _differences(old.get(key), after, f"{path}[{key!r}]")
    else:
        try:
            yield path, literal(new)
        except Unknown:
            return
