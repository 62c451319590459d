"""Contamination: problems that a benchmark holds, too. A model trained on them would be praised for its memory.

Theory of operation. Programs: the share of a benchmark program's shingles that a program contains. One common shingle
means nothing (`for i in range(len(x)):` is one), so shingles that many programs of the build or the benchmark share
are not counted, and a share decides, not a hit. Texts: the same with runs of eight words, those left out which
more than two benchmark texts have. A benchmark program of too few shingles is found only by being the same
program, because any loop would contain it.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from groundbox.dataset import tokens
from groundbox.dataset.drop import Drop
from groundbox.dataset.problems.place import BadRow
from groundbox.dataset.problems.reading import read, rows

STAGE: Final = "contamination"
THRESHOLD: Final = 0.6
_CODE_KEYS: Final = ("code", "canonical_solution", "solution", "refcode", "source")
_TEXT_KEYS: Final = ("question_content", "statement", "prompt", "text", "problem_description", "question")
_FEWEST: Final = 20
"""Shingles; fewer say nothing by containment."""
_COMMON_SHARE: Final = 0.02
_COMMON_LEAST: Final = 5
_RARE: Final = 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class Document:
    """One task of a benchmark."""

    name: str
    code: str
    text: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finding:
    """How much of a benchmark's task a problem contains.

    Attributes:
        kind: `code` or `text`.
    """

    document: str
    kind: str
    containment: float


def documents(path: Path) -> list[Document]:
    """The tasks of a benchmark file: any format of problems, or lines with code or text under a usual name."""
    found = [_document(path, number, row) for number, row in rows(path)] if path.is_file() else []
    if path.is_dir():
        problems = (each for each in read(path) if not isinstance(each, Drop))
        found = [Document(name=each.id, code=each.source, text=each.statement) for each in problems]
    return [each for each in found if each.code or each.text]


class Benchmarks:
    """The tasks of all benchmarks, to look problems up in."""

    def __init__(self, found: Sequence[Document], sources: Iterable[str]) -> None:
        """`sources` are the programs of the build, from which it is learnt which shingles are common."""
        self._code = _Index({each.name: tokens.shingles(tokens.normalised(each.code)) for each in found if each.code})
        self._exact = {tokens.digest(tokens.normalised(each.code)): each.name for each in found if each.code}
        self._text = _Index({each.name: tokens.shingles(tokens.words(each.text)) for each in found if each.text})
        self._code.forget(_common(sources) | self._code.common(_COMMON_SHARE, _COMMON_LEAST))
        self._text.forget(self._text.more_often_than(_RARE))
        self._code.seal()
        self._text.seal()

    def look_up(self, source: str, statement: str) -> Finding | None:
        """The task of which most is contained, or None."""
        normal = tokens.normalised(source)
        same = self._exact.get(tokens.digest(normal))
        if same is not None:
            return Finding(document=same, kind="code", containment=1.0)
        code = self._code.best(tokens.shingles(normal))
        text = self._text.best(tokens.shingles(tokens.words(statement))) if statement else None
        found = [
            Finding(document=best[0], kind=kind, containment=best[1])
            for kind, best in (("code", code), ("text", text))
            if best is not None
        ]
        return max(found, key=lambda each: each.containment, default=None)


class _Index:
    """Which documents have a shingle."""

    def __init__(self, grams: Mapping[str, frozenset[str]]) -> None:
        self._grams = dict(grams)
        self._holders: dict[str, list[str]] = {}

    def common(self, share: float, least: int) -> set[str]:
        return self.more_often_than(max(least, int(share * len(self._grams))))

    def more_often_than(self, count: int) -> set[str]:
        counts = Counter(gram for grams in self._grams.values() for gram in grams)
        return {gram for gram, number in counts.items() if number > count}

    def forget(self, common: set[str]) -> None:
        self._grams = {name: grams - common for name, grams in self._grams.items()}

    def seal(self) -> None:
        for name, grams in self._grams.items():
            for gram in grams if len(grams) >= _FEWEST else ():
                self._holders.setdefault(gram, []).append(name)

    def best(self, grams: frozenset[str]) -> tuple[str, float] | None:
        hits = Counter(name for gram in grams for name in self._holders.get(gram, ()))
        shares = [(count / len(self._grams[name]), name) for name, count in hits.items()]
        share, name = max(shares, default=(0.0, ""))
        return (name, share) if name else None


def _common(sources: Iterable[str]) -> set[str]:
    count, seen = 0, Counter[str]()
    for source in sources:
        count += 1
        seen.update(tokens.shingles(tokens.normalised(source)))
    most = max(_COMMON_LEAST, int(_COMMON_SHARE * count))
    return {gram for gram, number in seen.items() if number > most}


def _document(path: Path, number: int, row: Any) -> Document:
    name = f"{path.name}:{number}"
    if isinstance(row, BadRow) or not isinstance(row, Mapping):
        return Document(name=name, code="", text="")
    named = next((str(row[key]) for key in ("task_id", "question_id", "id") if key in row), name)
    code = "".join(str(row[key]) for key in ("prompt", "canonical_solution")) if "canonical_solution" in row else ""
    return Document(name=named, code=code or _first(row, _CODE_KEYS), text=_first(row, _TEXT_KEYS))


def _first(row: Mapping[str, Any], keys: Sequence[str]) -> str:
    return next((row[key] for key in keys if isinstance(row.get(key), str)), "")
