"""Gaps of a telling: what a stretch of the run that is not told made of the names of a frame."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from typing import Any, Final

from groundbox.trace.narrate.literals import literal
from groundbox.trace.narrate.narration import ClaimKind
from groundbox.trace.narrate.paths import leads_to
from groundbox.trace.narrate.phrases import Phrase, counted, saying
from groundbox.trace.narrate.telling import Telling, claim
from groundbox.trace.record import schema
from groundbox.trace.record.reading import Trace
from groundbox.trace.record.schema import V
from groundbox.trace.record.value import ref_of
from groundbox.trace.run.state import State
from groundbox.trace.run.structure import Iteration, Step, walk
from groundbox.values.unknown import Unknown

MAX_NAMES: Final = 24
"""Names that are told after a stretch."""
MAX_PLACES: Final = 3
"""Changed items of a long list that are told one by one."""
MAX_CHARS: Final = 60
"""Characters of a value."""
MAX_COMPARED: Final = 10_000
"""Characters of a value by which it is compared with what it was."""


_SAYS_LITTLE: Final = re.compile(r"[\[({]… .* more …")
"""A container within the container of which nothing is shown."""


class _Seen:
    """A value at one moment, in the forms in which it is compared, each made when it is asked for."""

    def __init__(self, value: V, state: State) -> None:
        self._value = value
        self._state = state
        self.label = ref_of(value)

    @cached_property
    def text(self) -> str:
        return self._state.text(self._value, MAX_COMPARED)

    @cached_property
    def plain(self) -> tuple[Any] | tuple[()]:
        """An object as a Python value, where all of it is shown."""
        try:
            return () if self.label is None else (self._state.python_value(self._value),)
        except Unknown:
            return ()

    @cached_property
    def attributes(self) -> dict[str, str]:
        """The texts of an instance's attributes."""
        held = None if self.label is None else self._state.heap[self.label]
        attrs = held.attrs if held is not None and held.type == "object" else {}
        return {name: self._state.text(value, MAX_COMPARED) for name, value in attrs.items()}


class Before:
    """The values that names of a frame had at a moment. What objects were then is looked up where it is asked for."""

    def __init__(self, trace: Trace, t: int, names: dict[str, V]) -> None:
        self.t = t
        self.names = names
        self._trace = trace

    @cached_property
    def _state(self) -> State:
        return self._trace.state_at(self.t)

    def has(self, name: str, value: V) -> bool:
        """Return whether a name had this value or this object, which may have been another one in itself."""
        if name not in self.names:
            return False
        # The very same value: a state keeps what a record told until another one tells it anew.
        then, label = self.names[name], ref_of(value)
        return then is value or (label is not None and label == ref_of(then))

    def seen(self, name: str) -> _Seen | None:
        """Return what a name was, or None for one that had no value."""
        return _Seen(self.names[name], self._state) if name in self.names else None


class Gaps:
    """Compares a frame's names before and after a stretch.

    What no record of the stretch has touched is not looked at: most of it in a long run.
    """

    def __init__(self, telling: Telling) -> None:
        self._telling = telling

    def look(self, frame: int, labels: Collection[int | None] | None = None) -> Before:
        """The names of a frame at this moment, or only those for some objects."""
        state = self._telling.state
        names = {
            name: value
            for name, value in state.names(frame).items()
            if not self._telling.is_code(value) and (labels is None or ref_of(value) in labels)
        }
        return Before(self._telling.trace, state.t, names)

    def after(self, before: Before, frame: int, first: int, last: int, but: Collection[str] = ()) -> list[Phrase]:
        """Return what is different now, after the records from `first` to `last`; names in `but` are left out."""
        said: list[Phrase] = []
        told: set[int] = set()
        telling = self._telling
        changed = self._changed(before.t)
        for name, value in telling.state.names(frame).items():
            label = ref_of(value)
            if name in but or label in told or telling.is_code(value):
                continue
            # Most names of a long run: nothing touched what they lead to.
            if before.has(name, value) and not leads_to(self._telling.state.heap, [value], changed):
                continue
            then, now = before.seen(name), _Seen(value, telling.state)
            if then is not None and now.text == then.text:
                continue
            if label is not None:
                # Two names of one object are told once.
                told.add(label)
            said.extend(self._changes(name, value, then, now, frame, first, last))
        return said[:MAX_NAMES]

    def _changed(self, t: int) -> set[int]:
        """The labels of objects that were described or changed after record `t`."""
        records = self._telling.trace.records
        between = (records[at] for at in range(t + 1, self._telling.state.t + 1))
        return {record.id for record in between if isinstance(record, schema.Object | schema.Mutate)}

    def _changes(
        self, name: str, value: V, then: _Seen | None, now: _Seen, frame: int, first: int, last: int
    ) -> Iterator[Phrase]:
        """The new value, or of a long one that was changed in few places these places."""
        ref = self._last_ref(frame, name, now.label, first, last)
        refs = [ref] if now.label is None else [ref, last]  # what is in it may have changed later
        if then is not None and then.label == now.label and len(now.text) > MAX_CHARS and then.plain and now.plain:
            # One more than are told says that there are more.
            places = list(itertools.islice(_differences(*then.plain, *now.plain, name), MAX_PLACES + 1))
            if 0 < len(places) <= MAX_PLACES and all(len(text) <= MAX_CHARS for _, text in places):
                for subject, text in places:
                    yield is_now(subject, text, refs, frame)
                return
        if then is not None and then.label == now.label and now.attributes:
            yield from self._attributes(name, then, now, refs, frame)
            return
        text = self._telling.text(value, MAX_CHARS)
        size = self._size(now.label)
        # `[[… 9 more …], …]` shows nothing: the number of items says more.
        if size is not None and _SAYS_LITTLE.search(text):
            told = claim(ClaimKind.COUNT, [ref], frame, name, str(size))
            yield saying(f"`{name}` has {counted(size, 'item')}", told)
            return
        yield is_now(name, text, refs, frame)

    def _attributes(self, name: str, then: _Seen, now: _Seen, refs: Sequence[int], frame: int) -> Iterator[Phrase]:
        """The attributes of an object that have changed."""
        held = self._telling.state.heap[now.label or 0]
        for attribute, text in now.attributes.items():
            if then.attributes.get(attribute) != text:
                shown = self._telling.text(held.attrs[attribute], MAX_CHARS)
                yield is_now(f"{name}.{attribute}", shown, refs, frame)

    def _size(self, label: int | None) -> int | None:
        """Return how many items a list, set or dict has."""
        held = None if label is None else self._telling.state.heap[label]
        if held is None or held.type in ("object", "class") or len(held.shape or ()) > 1:
            return None
        return held.size

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
            for ref in (ref for step in steps_of(iteration) for ref in step.effects):
                record = self._telling.trace.records[ref]
                if isinstance(record, schema.Set) and record.f == frame:
                    # An object's text needs the state of its moment.
                    text = "" if isinstance(record.v, dict) else self._telling.text(record.v, 1000)
                    taken.setdefault(record.name, []).append((text, ref))
            for name, values in taken.items():
                if len(values) == 1 and values[0][0] and len(values[0][0]) <= 12:
                    found.setdefault(name, []).append(values[0])
        whole = [(name, values) for name, values in found.items() if len(values) == len(iterations)]
        return [(name, [text for text, _ in values], [ref for _, ref in values]) for name, values in whole]


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


def is_now(subject: str, value: str, refs: Sequence[int], frame: int, sign: str = "is") -> Phrase:
    """That a name or place has a value."""
    return saying(f"`{subject}` {sign} {value}", claim(ClaimKind.VALUE, refs, frame, subject, value))


def is_given(subject: str, value: str, refs: Sequence[int], frame: int) -> Phrase:
    """The same, where values are listed."""
    return is_now(subject, value, refs, frame, "=")


def _differences(old: Any, new: Any, path: str) -> Iterator[tuple[str, str]]:
    """Places in nested lists and dicts that hold something else, as code and text; the whole if the shape changed."""
    if type(old) is list and type(new) is list and len(old) == len(new):
        for place, (before, after) in enumerate(zip(old, new, strict=True)):
            # 1 == 1.0 == True, and a reader sees three values.
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
