"""Statements by silence: an update that is passed over, an iteration in which nothing changes, a value that stays.

`x becomes 3. x becomes 5.` is false of a run in which `x` became 4 between the two, although both sentences hold. An
update counts as left out where the one before it and the one after it are told, of the same name in the same frame or
of the same object, and no words between the two say that something is passed over.
"""

from __future__ import annotations

import bisect
import itertools
import re
from collections.abc import Sequence
from functools import cached_property
from typing import Final, NamedTuple, TypeGuard

from groundbox.trace.claims.data import ClaimData
from groundbox.trace.claims.model import Kind
from groundbox.trace.claims.told import PlacedClaim
from groundbox.trace.record import schema
from groundbox.trace.record.quoting import QUOTED
from groundbox.trace.record.reading import Trace
from groundbox.trace.record.value import ref_of
from groundbox.values.unknown import Unknown

_PASSES_OVER: Final = re.compile(
    r"\b(?:left out|iterations \d+ to \d+|ran without|not told|runs \d+ times?|goes round|down to|after which|"
    r"after that|after it|and then)\b|\b[Aa]fter `",
)
_EFFECTS: Final = (schema.Set, schema.Del, schema.Mutate, schema.Object, schema.Out, schema.Call, schema.Raise)
_ENDS: Final = (schema.Return, schema.Unwind, schema.Yield)
_STEPS: Final = frozenset({Kind.VALUE, Kind.TEST, Kind.MUTATION, Kind.ITERATION})
"""Kinds of claims by which a text goes into a call, rather than telling what came of it."""
MOST_LOOKED: Final = 5_000_000
"""Records and characters that are looked at for all sentences; beyond it nothing is said to stay as it was."""
_MOST_TEXT: Final = 1_000_000
"""Characters of a value that is compared: a shorter text leaves its middle out, where the two may differ."""
_Key = tuple[object, ...]


class _Update(NamedTuple):
    """A record that gives a name or an object another value, by its place among those of the same."""

    key: _Key
    number: int


class Untold:
    """Events of a run that a telling passes over or denies by silence."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._records = trace.records
        self._left = MOST_LOOKED

    def is_quiet(self, step: int) -> bool:
        """Return whether the iteration under way at a record goes on to its end without any effect."""
        at = min(step, len(self._records) - 1)
        if at < 0:
            return False
        frame = self._frames[at]
        header = self._records[at]
        # A header that calls a function goes on without a line of its own.
        while not isinstance(header, schema.Line | schema.Iteration) or header.f != frame:
            at -= 1
            self._left -= 1
            if at < 0 or self._left < 0:
                return False
            header = self._records[at]
        begun = isinstance(header, schema.Iteration)
        for record in itertools.islice(self._records, step + 1, None):
            self._left -= 1
            if self._left < 0 or isinstance(record, _EFFECTS):
                return False
            if not begun and isinstance(record, schema.Iteration) and record.f == frame:
                begun = True  # what came before is its header
            elif getattr(record, "f", 0) == frame and (
                isinstance(record, _ENDS) or getattr(record, "n", 0) == header.n
            ):
                return not isinstance(record, schema.Unwind)
        return False

    def stays(self, data: ClaimData) -> bool:
        """Return whether a name had the value that it is said to have before its last update; True if none is known."""
        update = self._update(data)
        if update is None or update.key[0] != "name":
            return True
        places = self._updates[update.key]
        now = places[update.number]
        record = self._records[now]
        assert isinstance(record, schema.Set)
        if update.number:
            earlier = self._records[places[update.number - 1]]
            assert isinstance(earlier, schema.Set)
            old = earlier.v
            # Atoms, or one object under two names: what the record has tells.
            if ref_of(old) is None or ref_of(old) == ref_of(record.v):
                return bool(old == record.v)
        self._left -= len(self._records)
        if self._left < 0:
            return False
        before = self._trace.state_at(now - 1)
        if not update.number:  # the first one of a parameter changes what the call gave
            held = before.names(self._frames[now])
            if data.subject not in held:
                return False
            old = held[data.subject]
        told = before.text(old, _MOST_TEXT)
        self._left -= len(told)
        return told == self._trace.state_at(now).text(record.v, _MOST_TEXT)

    def gaps(self, text: str, claims: Sequence[PlacedClaim]) -> list[int]:
        """Sentences before which an update is left out, of a text that goes forward."""
        # Words in a printed text are the program's. The same length, since places count.
        said = QUOTED.sub(lambda quoted: "_" * len(quoted[0]), text)
        over = [each.start() for each in _PASSES_OVER.finditer(said)]
        told: dict[_Key, tuple[int, int]] = {}
        found: set[int] = set()
        # Calls of which only the result is told leave out all of their updates, and say so by that.
        inside = {self._frames[each.step] for each in claims if each.kind in _STEPS and self._is_step(each.step)}
        # A name in the condition of a loop is claimed with the value that its sentence tells further on.
        tells = {(each.sentence, each.shown, each.step) for each in claims if not _is_named_only(each.data)}
        for claim in sorted(claims, key=lambda each: (each.sentence, each.start)):
            is_told = (claim.sentence, claim.shown, claim.step) in tells
            update = None if _is_named_only(claim.data) and is_told else self._update(claim.data)
            if update is None or claim.sentence < 0:
                continue
            number, end = told.get(update.key, (update.number, claim.end))
            passed = self._updates[update.key][number + 1 : update.number]
            if claim.data.kind is Kind.VALUE and update.key[0] == "object":
                # What the object is after its line tells all that the line did.
                passed = [at for at in passed if not self._is_one_line(at, claim.step)]
            if any(self._frames[at] in inside for at in passed) and not _is_between(over, end, claim.start):
                found.add(claim.sentence)
            if update.number >= number:
                # A value that is told once more does not take the text back.
                told[update.key] = (update.number, max(end, claim.end))
        return sorted(found)

    def _is_step(self, step: int | None) -> TypeGuard[int]:
        return step is not None and 0 <= step < len(self._records)

    def _update(self, data: ClaimData) -> _Update | None:
        """The update that a claim tells, or that gave the value which it tells."""
        if not self._is_step(data.step):
            return None
        record = self._records[data.step]
        if isinstance(record, schema.Mutate) and (data.kind is Kind.MUTATION or self._tells_whole(data, record)):
            key: _Key = ("object", record.id)
        elif data.kind is Kind.VALUE and data.value and data.subject.isidentifier():
            key = ("name", self._frames[data.step], data.subject)
        elif data.kind is Kind.OUTPUT and isinstance(record, schema.Out):
            key = ("output", record.s)
        else:
            return None
        places = self._updates.get(key, [])
        number = bisect.bisect_right(places, data.step) - 1
        return _Update(key, number) if number >= 0 else None

    def _is_one_line(self, first: int, last: int | None) -> bool:
        """Return whether records are changes that one line made in one go."""
        assert last is not None
        self._left -= last - first
        changes = (schema.Set, schema.Del, schema.Mutate, schema.Object, schema.Out)
        between = itertools.islice(self._records, first, last + 1)
        return self._left >= 0 and all(isinstance(record, changes) for record in between)

    def _tells_whole(self, data: ClaimData, record: schema.Mutate) -> bool:
        """Return whether a claim tells a change by what the object is then, as of a list that was sorted."""
        assert data.step is not None
        if data.kind is not Kind.VALUE or not data.value:
            return False
        state = self._trace.state_at(data.step)
        if data.subject.isidentifier():
            try:
                return ref_of(state.lookup(self._frames[data.step], data.subject)) == record.id
            except (KeyError, Unknown):
                return False
        return state.text({"ref": record.id}, len(data.value) + 1) == data.value

    @cached_property
    def _updates(self) -> dict[_Key, list[int]]:
        found: dict[_Key, list[int]] = {}
        for at, record in enumerate(self._records):
            key: _Key | None = None
            if isinstance(record, schema.Set) and record.scope is None:
                key = ("name", record.f, record.name)
            elif isinstance(record, schema.Mutate):
                key = ("object", record.id)
            elif isinstance(record, schema.Out):
                key = ("output", record.s)
            if key is not None:
                found.setdefault(key, []).append(at)
        return found

    @cached_property
    def _frames(self) -> list[int]:
        """The frame that goes on after each record."""
        frames: list[int] = []
        parents: dict[int, int] = {}
        current = 0
        for record in self._records:
            if isinstance(record, schema.Call | schema.Resume):
                parents[record.f] = record.p
                current = record.f
            elif isinstance(record, _ENDS):
                current = parents.get(record.f, 0) or record.f
            else:
                current = getattr(record, "f", 0) or current
            frames.append(current)
        return frames


def _is_named_only(data: ClaimData) -> bool:
    """Return whether the words of a claim are its subject alone, and tell no value."""
    return data.quote.strip("`") == data.subject


def _is_between(places: Sequence[int], start: int, end: int) -> bool:
    at = bisect.bisect_left(places, start)
    return at < len(places) and places[at] < end
