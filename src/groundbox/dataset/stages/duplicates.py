"""Duplicates: programs that are the same but for names, comments and layout, or nearly so; the first one stays.

Theory of operation. A program becomes the set of its shingles (`groundbox.dataset.tokens`), the set a MinHash
signature of 128 numbers, the signature 16 bands of 8. Programs with one band in common are candidates (Leskovec,
Rajaraman, Ullman: Mining of Massive Datasets, ch. 3); DuckDB groups the bands, on disk when they are many. A candidate
is a duplicate when the signatures agree in `threshold` of their numbers. With 16 bands of 8, a pair of
similarity 0.8 becomes a candidate with probability 0.95, one of 0.5 with 0.06.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from groundbox.dataset import extra, tokens
from groundbox.errors import ExtraMissing

STAGE: Final = "duplicates"
THRESHOLD: Final = 0.8
_NUMBERS: Final = 128
_BANDS: Final = 16
_ROWS: Final = _NUMBERS // _BANDS
_SEED: Final = 42
_ALGORITHM: Final = 2
"""Of rensa's signatures; another version would find other duplicates."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Duplicates:
    """Which programs are copies.

    Attributes:
        of: Name of a copy to the name of the program that stays, with their similarity.
    """

    of: Mapping[str, tuple[str, float]]

    @property
    def sizes(self) -> list[int]:
        """How many programs are alike, for each group of more than one, the largest first."""
        groups: dict[str, int] = defaultdict(lambda: 1)
        for kept, _ in self.of.values():
            groups[kept] += 1
        return sorted(groups.values(), reverse=True)


def find(sources: Mapping[str, str], *, threshold: float = THRESHOLD) -> Duplicates:
    """The copies among programs.

    Args:
        sources: Program by name, in the order in which the first one stays.
    """
    rensa = extra.rensa()
    if rensa.RMinHash.ALGORITHM_VERSION != _ALGORITHM:
        raise ExtraMissing("rensa", f"with signatures of version {_ALGORITHM}")
    names = list(sources)
    normal = [tokens.normalised(source) for source in sources.values()]
    hashes = rensa.RMinHash.from_token_sets([sorted(tokens.shingles(each)) for each in normal], _NUMBERS, _SEED)
    exact = [tokens.digest(each) for each in normal]
    leaders = _Leaders(len(names))
    similar: dict[int, float] = {}
    for one, other in _candidates([each.digest() for each in hashes]):
        likeness = 1.0 if exact[one] == exact[other] else hashes[one].jaccard(hashes[other])
        if likeness >= threshold:
            leaders.join(one, other)
            similar[other] = max(likeness, similar.get(other, 0.0))
    found = {number: leaders.of(number) for number in range(len(names))}
    return Duplicates(of={names[n]: (names[first], similar[n]) for n, first in found.items() if first != n})


def _candidates(signatures: Sequence[Sequence[int]]) -> Iterator[tuple[int, int]]:
    """Pairs with a band in common, the smaller number first, each pair once, in order."""
    if not signatures:
        return
    duckdb, pyarrow = extra.duckdb(), extra.pyarrow()
    bands = pyarrow.table(_bands(signatures))
    connection = duckdb.connect()
    try:
        connection.register("bands", bands)
        # A chain is enough to join a group, and pairs of a large group would be too many.
        rows = connection.execute(
            "SELECT DISTINCT earlier, number FROM (SELECT number, lag(number) OVER "
            "(PARTITION BY band, content ORDER BY number) AS earlier FROM bands) "
            "WHERE earlier IS NOT NULL ORDER BY number, earlier"
        ).fetchall()
    finally:
        connection.close()
    yield from rows


def _bands(signatures: Sequence[Sequence[int]]) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {"number": [], "band": [], "content": []}
    for number, signature in enumerate(signatures):
        for band in range(_BANDS):
            columns["number"].append(number)
            columns["band"].append(band)
            columns["content"].append(repr(signature[band * _ROWS : (band + 1) * _ROWS]))
    return columns


class _Leaders:
    """Groups that grow together; the smallest number leads."""

    def __init__(self, count: int) -> None:
        self._leader = list(range(count))

    def of(self, number: int) -> int:
        while self._leader[number] != number:
            self._leader[number] = self._leader[self._leader[number]]
            number = self._leader[number]
        return number

    def join(self, one: int, other: int) -> None:
        first, second = sorted((self.of(one), self.of(other)))
        self._leader[second] = first
