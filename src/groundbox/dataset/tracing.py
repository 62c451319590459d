"""What the dataset keeps of a trace, and how it is packed."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from groundbox.dataset.item import Traced
from groundbox.trace.record import schema
from groundbox.trace.record.reading import Trace

Arcs: TypeAlias = frozenset[tuple[int, int]]
"""Steps from line to line within a frame; 0 stands for where a frame begins."""

_NO_DATE: Final = (1980, 1, 1, 0, 0, 0)


def summary(trace: Trace, *, stable: bool) -> Traced:
    """The facts that are kept beside an item."""
    lines = [record.n for record in trace.records if isinstance(record, schema.Line)]
    return Traced(
        sha256=trace.header.sha256,
        records=len(trace.records),
        steps=len(lines),
        folded=trace.folded,
        stable=stable,
        lines=tuple(sorted(set(lines))),
    )


def arcs_of(trace: Trace) -> Arcs:
    """The steps from line to line that a run took, as far as they are recorded."""
    found: set[tuple[int, int]] = set()
    last: dict[int, int] = {}
    for record in trace.records:
        if isinstance(record, schema.Line):
            found.add((last.get(record.f, 0), record.n))
            last[record.f] = record.n
    return frozenset(found)


def length_of(trace: Trace) -> int:
    """How many lines ran, those that were folded, too."""
    return trace.counts.get("line", 0) + sum(getattr(record, "steps", 0) for record in trace.records)


def compressed(trace: Trace) -> bytes:
    """A trace as it is kept in a packed file."""
    return zlib.compress(trace.dumps(), 6)


def packed(traces: Mapping[str, bytes]) -> bytes:
    """Compressed traces by item as one file; the same traces give the same bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for number, (name, data) in enumerate(sorted(traces.items())):
            info = zipfile.ZipInfo(f"{number}", _NO_DATE)
            info.comment = name.encode()
            archive.writestr(info, data)
    return buffer.getvalue()


def joined(files: Iterable[bytes]) -> bytes:
    """What `packed` makes of the traces of several files that it made."""
    traces: dict[str, bytes] = {}
    for file in files:
        with zipfile.ZipFile(io.BytesIO(file)) as archive:
            traces.update({info.comment.decode(): archive.read(info) for info in archive.infolist()})
    return packed(traces)


def some_of(file: bytes, names: Sequence[str]) -> list[Trace]:
    """Some traces of a file that `packed` made, by name.

    Raises:
        KeyError: One is not there.
    """
    with zipfile.ZipFile(io.BytesIO(file)) as archive:
        infos = {info.comment.decode(): info for info in archive.infolist()}
        return [Trace.loads(zlib.decompress(archive.read(infos[name])), own=True) for name in names]


def unpacked(file: bytes, wanted: frozenset[str]) -> Iterator[tuple[str, Trace]]:
    """The wanted traces of a file that `packed` made, one unpacked at a time."""
    with zipfile.ZipFile(io.BytesIO(file)) as archive:
        for info in archive.infolist():
            name = info.comment.decode()
            if name in wanted:
                yield name, Trace.loads(zlib.decompress(archive.read(info)), own=True)
