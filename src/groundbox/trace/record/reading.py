"""A trace as a value: made of what a guest wrote (`assemble`), or read from a file (`Trace.loads`).

Whatever the bytes, the result is either a trace whose every record was checked, or an InvalidTrace; only of what this
program itself wrote down is nothing more asked than that it is still the same.
What a guest wrote is never an error: reading stops at its first bad record, and the header says so.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
import weakref
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, get_args

import msgspec

from groundbox import guestjson
from groundbox.errors import WireError
from groundbox.trace.record.checking import Checker
from groundbox.trace.record.errors import InvalidTrace
from groundbox.trace.record.schema import SCHEMA, SCHEMA_1, Ended, Entry, Header, Iteration, Record, Test
from groundbox.trace.record.syntax import lines_of
from groundbox.trace.record.value import InvalidRecord

if TYPE_CHECKING:
    from groundbox.trace.query.cause import Why
    from groundbox.trace.query.difference import Difference
    from groundbox.trace.query.history import History
    from groundbox.trace.run.state import Keyframes, State
    from groundbox.trace.run.structure import Structure

SLACK_BYTES: Final = 1024 * 1024
"""Bytes that a body may have over `max_bytes`: a core notices after the record that was one too many."""
SLACK_EVENTS: Final = 10_000
"""The same over `max_events`: one event may describe 2,000 objects and change more."""
_PIECE_BYTES: Final = 1024 * 1024
"""Size of the pieces in which a body is split into lines."""
MOST_RECORD_BYTES: Final = 8 * 1024 * 1024
MEMORY_RATIO: Final = 4
"""Memory that the records of a guest's trace may take, for each byte that the trace may have."""
_LEAST_MEMORY: Final = 16 * 1024 * 1024
_LARGE_BYTES: Final = 32 * 1024
"""A longer record is decoded in slices (guestjson.py), which no record of two lines of code needs."""
_FEW_VALUES: Final = 20_000
_MOST_SLOW_BYTES: Final = 2 * 1024 * 1024
_RECORD_BYTES: Final = 48
_NUMBER_BYTES: Final = 32
_OVER: Final = "it is over the limits of the trace"
_ENDED_BY_ITSELF: Final = ("ok", "error")
_KINDS: Final[Mapping[type[Record], str]] = {kind: kind.__name__.lower() for kind in get_args(Record)}
_RECORDS: Final = msgspec.json.Decoder(Record, float_hook=float)
"""A float that is not finite is refused by values.check; msgspec's own reading of floats can be slow (guestjson.py)."""
_HEADER: Final = msgspec.json.Decoder(Header)


@dataclasses.dataclass(frozen=True, eq=False)
class Trace:
    """Records of a run, in order. Equal when the bytes are.

    Attributes:
        records: The step number `t` of a record is its index here.
        core: Which core recorded it, where that is known; no part of the file.
    """

    header: Header
    records: Sequence[Record]
    core: str | None = None
    _body: bytes = dataclasses.field(default=b"", repr=False)
    _found: _Found | None = dataclasses.field(default=None, repr=False)  # held, so that others find it in _HELD

    @classmethod
    def loads(cls, data: bytes, core: str | None = None, *, own: bool = False) -> Trace:
        """Read a whole file: the header and the lines after it, all of which must be as docs/trace.md says.

        Args:
            own: `dumps` of this very program gave it, so that nothing is looked at but whether it is still the same.

        Raises:
            InvalidTrace: A line is not valid, or the header says what the lines do not.
        """
        first, _, body = data.partition(b"\n")
        header = _header(first)
        # A process of the dataset gives a trace to another one; what it has checked is not checked again.
        if own and header.sha256 == _sha256(body):
            with contextlib.suppress(msgspec.MsgspecError):  # half of a surrogate pair, which is read below
                return cls(header, _RECORDS.decode_lines(body), core, body)
        # As many records as there are bytes: no bound but that of the file.
        found = _read(body, header.source, most_bytes=len(body), most_events=len(body), most_memory_bytes=None)
        if found.problem:
            raise InvalidTrace(found.at + 2, found.problem)
        if header.schema == SCHEMA_1:
            _check_first_schema(found.records)
        _check_header(header, body, found)
        return cls(header, found.records, core, body)

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy is read from the bytes anew: what was worked out of them stays here."""
        return functools.partial(Trace.loads, own=True), (self.dumps(), self.core)

    def dumps(self) -> bytes:
        """The whole file; `loads` of it gives an equal trace."""
        return _dump(self.header) + b"\n" + self._body

    @property
    def complete(self) -> bool:
        """Return whether all that the program did is here, in full or folded."""
        return self.header.complete

    @property
    def reasons(self) -> Sequence[str]:
        """Return why it is not complete, as short sentences."""
        return self.header.reasons

    @property
    def folded(self) -> bool:
        """Return whether iterations or calls ran without records."""
        return self.header.folded

    @property
    def source(self) -> str:
        """The program."""
        return self.header.source

    @property
    def counts(self) -> Mapping[str, int]:
        """Return how many records there are of each kind."""
        return self.header.counts

    def summary(self) -> dict[str, Any]:
        """Return what an execution's JSON says of its trace."""
        header = self.header
        return {
            "schema": header.schema,
            "complete": header.complete,
            "reasons": list(header.reasons),
            "folded": header.folded,
            "counts": dict(header.counts),
            "sha256": header.sha256,
            "core": self.core,
        }

    def state_at(self, t: int) -> State:
        """Heap and frames after the records up to and with `t`; -1 is the state before the first one.

        The caller owns the state and may `apply` further records to it.
        """
        return self._keyframes.state_at(t)

    @functools.cached_property
    def _keyframes(self) -> Keyframes:
        from groundbox.trace.run.state import Keyframes

        return Keyframes(self.records)

    @functools.cached_property
    def structure(self) -> Structure:
        """Activations, steps and loops, derived once from the records and the source."""
        from groundbox.trace.run.structure import derive

        return derive(self)

    def history(self, name: str, frame: int | None = None) -> History:
        """Every value that a name took, in order; see `groundbox.trace.query.history`."""
        from groundbox.trace.query.history import history

        return history(self, name, frame)

    def why(self, line: int) -> Why:
        """Return what led to a line, or kept the program from it; see `groundbox.trace.query.cause`."""
        from groundbox.trace.query.cause import why

        return why(self, line)

    def diff(self, other: Trace) -> Difference:
        """Return where two runs part; see `groundbox.trace.query.difference`."""
        from groundbox.trace.query.difference import diff

        return diff(self, other)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Trace) and self.header == other.header and self._body == other._body

    def __hash__(self) -> int:
        return hash(self.header.sha256)

    def __len__(self) -> int:
        return len(self.records)


def assemble(
    body: bytes,
    *,
    source: str,
    filename: str,
    mode: str,
    entry: Entry | None,
    python: str,
    hash_seed: int | None,
    limits: Mapping[str, int],
    outcome: str,
    core: str | None = None,
    why: str = "",
    reasons: Sequence[str] = (),
) -> Trace:
    """A trace from what a guest wrote, which may be anything.

    Reading stops at the first record that is not valid, and keeps the ones before it.

    Args:
        body: Everything after the header: a record in each line.
        limits: With `max_events` and `max_bytes`, which bound what is read.
        outcome: What the host says how the run ended.
        why: For an outcome that is neither `ok` nor `error`, what stopped the program, as a sentence.
        reasons: What else the host knows to be missing.
    """
    most_bytes = limits.get("max_bytes", len(body)) + SLACK_BYTES
    found = _read_once(
        body,
        source,
        most_bytes=most_bytes,
        most_events=limits.get("max_events", len(body)) + SLACK_EVENTS,
        most_memory_bytes=max(_LEAST_MEMORY, MEMORY_RATIO * most_bytes),
    )
    missing = list(dict.fromkeys([*reasons, *_missing(found, outcome, why)]))
    kept = body[: found.kept_bytes]
    header = Header(
        schema=SCHEMA,
        source=source,
        source_sha256=_sha256(_utf8(source)),
        filename=filename,
        mode=mode,
        entry=entry,
        python=python,
        hash_seed=hash_seed,
        limits=dict(limits),
        outcome=outcome,
        complete=not missing,
        reasons=missing,
        folded=found.folded,
        counts=_counts(found.records),
        sha256=_sha256(kept),
    )
    return Trace(header, found.records, core, kept, found)


@dataclasses.dataclass(kw_only=True, weakref_slot=True, slots=True, eq=False)
class _Found:
    """Records that could be read. Nobody changes one that is done, since traces of the same bytes share it.

    Attributes:
        kept_bytes: How many bytes the records make, with their newlines.
        problem: Why reading stopped at record `at`; empty when all was read.
    """

    records: list[Record] = dataclasses.field(default_factory=list)
    kept_bytes: int = 0
    at: int = 0
    problem: str = ""
    ended: bool = False
    folded: bool = False
    lost: Sequence[str] = ()


# By weak reference: the traces themselves hold it, in `Trace._found`.
_HELD: Final[weakref.WeakValueDictionary[tuple[Any, ...], _Found]] = weakref.WeakValueDictionary()
"""Records of bodies of which somebody still holds a trace: a second run often gives the same bytes."""


def _read_once(body: bytes, source: str, **bounds: int) -> _Found:
    # The bounds and the source are part of it: by them the same bytes may end earlier, or not be valid.
    key = (_sha256(body), source, *sorted(bounds.items()))
    found = _HELD.get(key)
    if found is None:
        found = _HELD[key] = _read(body, source, **bounds)
    return found


def _read(body: bytes, source: str, *, most_bytes: int, most_events: int, most_memory_bytes: int | None) -> _Found:
    """
    Args:
        most_memory_bytes: None for a trace that is read from a file, which was bounded when it was made.
    """
    found = _Found()
    memory_bytes = slow_bytes = 0
    checker = Checker(max(1, len(lines_of(source))), source)
    records = found.records
    lines: list[bytes] = []
    start = before = 0
    try:
        while start < len(body):
            # In pieces, so that of a body over the limits no more is split into lines than is read.
            stop = _end_of_lines(body, start, most_bytes)
            room = most_events - len(records)
            piece = body[start : stop - 1]
            lines, before = [], len(records)
            if most_memory_bytes is not None:
                # Counted before it is decoded: records of a few bytes each take many times as much as objects.
                memory_bytes += weigh(piece)
                if memory_bytes > most_memory_bytes:
                    raise InvalidRecord(_OVER)
            # At most one more than there is room for, which then holds all the rest.
            lines = piece.split(b"\n", room)
            slow_bytes = _take(lines[:room], checker, records, slow_bytes)
            if len(lines) > room:
                raise InvalidRecord(_OVER)
            start, lines, before = stop, [], len(records)
        checker.finish()
    except InvalidRecord as error:
        found.at, found.problem = len(records), str(error)
        # `start` is where this piece begins; those of its records that were kept are kept as bytes, too.
        start += sum(len(line) + 1 for line in lines[: len(records) - before])
        group = checker.owing
        if group:
            # Descriptions that refer to one that never came would leave a label without an object.
            start = _start_of_line(body, start, group)
            del records[len(records) - group :]
    found.kept_bytes = start
    found.ended, found.folded, found.lost = checker.ended, checker.folded, checker.lost
    return found


def _end_of_lines(body: bytes, start: int, most_bytes: int) -> int:
    """Behind the last newline of a piece of the body, or behind the first one if a line is longer than that."""
    stop = body.rfind(b"\n", start, min(start + _PIECE_BYTES, most_bytes)) + 1
    # `find` gives -1 for none, so that `stop` is 0.
    stop = stop or body.find(b"\n", start, most_bytes) + 1
    if not stop:
        raise InvalidRecord(_OVER if body.find(b"\n", start) >= 0 else "it is cut short")
    if stop - start > MOST_RECORD_BYTES:
        raise InvalidRecord(f"it has more than {MOST_RECORD_BYTES} bytes")
    return stop


def weigh(piece: bytes) -> int:
    """Memory in bytes that some records take at most once they are decoded."""
    records = piece.count(b"\n") + 1
    inner = max(0, piece.count(b"{") - records) * guestjson.OBJECT_BYTES + piece.count(b"[") * guestjson.ARRAY_BYTES
    numbers = piece.count(b",") * _NUMBER_BYTES
    return records * _RECORD_BYTES + inner + numbers + len(piece) * guestjson.widest(piece)


def _take(lines: Sequence[bytes], checker: Checker, records: list[Record], slow_bytes: int) -> int:
    """Decode and check each line by itself, and keep what it says, up to the first that is not valid.

    Args:
        slow_bytes: Of earlier lines of this trace with half of a surrogate pair, which take 26 times as long.

    Returns:
        The same with those of these lines.
    """
    # `map` goes on behind a line that could not be decoded, which is looked at by itself meanwhile.
    decoded = map(_decode if max(map(len, lines)) > _LARGE_BYTES else _RECORDS.decode, lines)
    last = len(records) + len(lines)
    while len(records) < last:
        try:
            checker.take(decoded, records)
        # `records` counts what was taken, so that the line in question is the one as far from the end as are missing.
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            line = lines[len(records) - last]
            slow_bytes += len(line)
            if slow_bytes > _MOST_SLOW_BYTES and _has_surrogates(line):
                told = f"more than {_MOST_SLOW_BYTES} bytes of records have half of a surrogate pair"
                raise InvalidRecord(told) from None
            checker.take((_decode_surrogates(line, error),), records)
    return slow_bytes


def _decode(line: bytes) -> Record:
    """Decode a line of any length, without holding the interpreter's lock for long."""
    record: Record
    if len(line) <= _LARGE_BYTES:
        record = _RECORDS.decode(line)
        return record
    if guestjson.has_more_values(line, guestjson.MOST_VALUES):
        raise msgspec.ValidationError(f"it holds more than {guestjson.MOST_VALUES} values")
    try:
        record = msgspec.convert(guestjson.decode(line), Record)
    except guestjson.TooDeep:
        raise RecursionError from None
    except WireError as error:
        raise msgspec.DecodeError(str(error)) from None
    return record


def _start_of_line(body: bytes, end: int, back: int) -> int:
    """Return where the line begins that stands `back` lines before `end`."""
    for _ in range(back):
        end = body.rfind(b"\n", 0, end - 1) + 1
    return end


def _decode_surrogates(line: bytes, error: Exception) -> Record:
    """Decode a line that msgspec refuses; the one valid reason is a lone surrogate in a string."""
    # A str of Python may hold half of a surrogate pair, and JSON has an escape for it; msgspec makes no str of it.
    if not _has_surrogates(line):
        raise InvalidRecord(_plain(error)) from None
    if guestjson.has_more_values(line, _FEW_VALUES):
        raise InvalidRecord(f"it holds more than {_FEW_VALUES} values, and half of a surrogate pair")
    try:
        record: Record = msgspec.convert(json.loads(line, parse_constant=_no_constant), Record)
        return record
    except (ValueError, RecursionError, msgspec.MsgspecError) as second:
        raise InvalidRecord(_plain(second)) from None


def _has_surrogates(line: bytes) -> bool:
    return b"\\ud" in line or b"\\uD" in line


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _plain(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, UnicodeError):
        return "it is not UTF-8"
    # The message may quote the guest's text.
    return f"{error}"[:300].encode("utf-8", "replace").decode()


def _missing(found: _Found, outcome: str, why: str) -> list[str]:
    missing = list(found.lost)
    if found.problem:
        missing.append(f"record {found.at}: {found.problem}")
    if outcome not in _ENDED_BY_ITSELF:
        missing.append(f"{outcome}: {why or 'the program was stopped'}")
    # Said only where nothing else says why.
    if not missing and not found.ended:
        missing.append("the records have no end")
    return missing


def _header(line: bytes) -> Header:
    try:
        header = _HEADER.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        header = _header_with_surrogates(line, error)
    if header.schema not in (SCHEMA, SCHEMA_1):
        raise InvalidTrace(1, f"schema is {header.schema[:60]!r}, and {SCHEMA_1!r} and {SCHEMA!r} can be read")
    if header.source_sha256 != _sha256(_utf8(header.source)):
        raise InvalidTrace(1, "source_sha256 is not that of the source")
    return header


def _header_with_surrogates(line: bytes, error: Exception) -> Header:
    try:
        return msgspec.convert(json.loads(line, parse_constant=_no_constant), Header)
    except (ValueError, RecursionError, msgspec.MsgspecError):
        raise InvalidTrace(1, f"this is no header of a trace: {_plain(error)}") from None


def _check_first_schema(records: Sequence[Record]) -> None:
    for place, record in enumerate(records):
        if isinstance(record, (Test, Iteration, Ended)):
            raise InvalidTrace(place + 2, f"{SCHEMA_1} has no record {_KINDS[type(record)]!r}")


def _check_header(header: Header, body: bytes, found: _Found) -> None:
    missing = bool(found.lost) or not found.ended or header.outcome not in _ENDED_BY_ITSELF
    facts = {
        "sha256": header.sha256 == _sha256(body),
        "counts": header.counts == _counts(found.records),
        "folded": header.folded == found.folded,
        # A header may say of a whole trace that it is not complete: the host knows what the records do not.
        "complete": not (header.complete and missing),
        "reasons": header.complete == (not header.reasons),
    }
    for name, true in facts.items():
        if not true:
            raise InvalidTrace(1, f"{name} is not what the lines say")


def _counts(records: Sequence[Record]) -> dict[str, int]:
    counts = Counter(map(type, records))
    return {_KINDS[kind]: counts[kind] for kind in sorted(counts, key=_KINDS.__getitem__)}


def _dump(header: Header) -> bytes:
    # By `json`, which writes half of a surrogate pair as an escape; msgspec refuses it.
    plain = {"k": "header", **msgspec.to_builtins(header)}
    return json.dumps(plain, ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode()


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
