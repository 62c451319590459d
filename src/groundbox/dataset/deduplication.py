"""Near-duplicates and contamination: programs nearly the same as another of the build, or as one of a benchmark.

Theory of operation. Near-duplicates: a program becomes the set of its shingles (`shingles`), the set a MinHash
signature of 128 numbers, the signature 16 bands of 8. Programs with one band in common are candidates (Leskovec,
Rajaraman, Ullman: Mining of Massive Datasets, ch. 3). A candidate is a duplicate when the signatures agree in
`threshold` of their numbers. With 16 bands of 8, a pair of similarity 0.8 becomes a candidate with probability 0.95,
one of 0.5 with 0.06.

Contamination. Programs: the share of a benchmark program's shingles that a program contains. One common shingle
means nothing (`for i in range(len(x)):` is one), so shingles that many programs of the build or the benchmark share
are not counted, and a share decides, not a hit. Texts: the same with runs of eight words, those left out which
more than two benchmark texts have. A benchmark program of too few shingles is found only by being the same
program, because any loop would contain it.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import hashlib
import io
import keyword
import re
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from groundbox.dataset import optional_imports
from groundbox.dataset.problem import Drop
from groundbox.dataset.problems.reading import read, rows
from groundbox.dataset.problems.rows import BadRow
from groundbox.dataset.signature import tree_of
from groundbox.errors import ExtraMissing
from groundbox.trace.record.syntax import lines_of

SHINGLE: Final = 8
"""Tokens in one shingle."""
_LAYOUT: Final = frozenset({tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT})
# Keywords and builtins keep their names: `len` and `sum` are different programs, `xs` and `items` are not.
_SOFT: Final = frozenset(keyword.kwlist) | frozenset(dir(builtins))
_WORD: Final = re.compile(r"[a-z0-9]+")
_FALLBACK: Final = re.compile(r"\w+|[^\w\s]")


def normalised(source: str) -> tuple[str, ...]:
    """Tokens without comments, docstrings and layout; identifiers are numbered by first use, texts and numbers kept."""
    try:
        found = [
            (each.type, each.string)
            for each in tokenize.generate_tokens(io.StringIO(_without_docstrings(source)).readline)
            if each.type not in _LAYOUT and each.string
        ]
    # Programs for another Python, and benchmark tasks in prose, are cut by a pattern instead.
    except (tokenize.TokenError, SyntaxError, ValueError):
        found = [(tokenize.NAME if word.isidentifier() else tokenize.OP, word) for word in _FALLBACK.findall(source)]
    names: dict[str, str] = {}
    return tuple(
        names.setdefault(text, f"name{len(names)}") if kind == tokenize.NAME and text not in _SOFT else text
        for kind, text in found
    )


def shingles(tokens: tuple[str, ...]) -> frozenset[str]:
    """Every run of `SHINGLE` tokens, with the names in it numbered from its own beginning.

    Without that, one name more at the top of a program would change every shingle after it.
    """
    last = max(1, len(tokens) - SHINGLE + 1)
    return frozenset(" ".join(_renumbered(tokens[start : start + SHINGLE])) for start in range(last))


def words(text: str) -> tuple[str, ...]:
    """The words of a text, in small letters."""
    return tuple(_WORD.findall(text.lower()))


def digest(tokens: tuple[str, ...]) -> str:
    """Names a normalised program."""
    return hashlib.sha256("\x00".join(tokens).encode("utf-8", "surrogatepass")).hexdigest()


def _renumbered(tokens: tuple[str, ...]) -> list[str]:
    names: dict[str, str] = {}
    return [
        names.setdefault(each, f"name{len(names)}") if each.startswith("name") and each[4:].isdigit() else each
        for each in tokens
    ]


def _without_docstrings(source: str) -> str:
    tree = tree_of(source)
    if tree is None:
        return source
    lines = [f"{line}\n" for line in lines_of(source)]
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        first = node.body[0] if node.body else None
        alone = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
        if first is not None and alone and isinstance(first.value.value, str):  # type: ignore[attr-defined]
            _blank(lines, first)
    return "".join(lines)


def _blank(lines: list[str], node: ast.stmt) -> None:
    """Take the lines of a statement away. What is left has to be cut into tokens, not to be run."""
    for number in range(node.lineno - 1, node.end_lineno or node.lineno):
        lines[number] = "\n"


DUPLICATES: Final = "duplicates"
NEAR_DUPLICATE: Final = 0.8
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


def find_duplicates(sources: Mapping[str, str], *, threshold: float = NEAR_DUPLICATE) -> Duplicates:
    """The copies among programs.

    Args:
        sources: Program by name, in the order in which the first one stays.
    """
    rensa = optional_imports.data("rensa")
    # Two versions of the library would keep different programs from the same arguments.
    if rensa.RMinHash.ALGORITHM_VERSION != _ALGORITHM:
        raise ExtraMissing("rensa", f"with signatures of version {_ALGORITHM}")
    names = list(sources)
    normal = [normalised(source) for source in sources.values()]
    # Sorted, so that nothing that the library does with their order differs from process to process.
    hashes = rensa.RMinHash.from_token_sets([sorted(shingles(each)) for each in normal], _NUMBERS, _SEED)
    exact = [digest(each) for each in normal]
    leaders = _Leaders(len(names))
    similar: dict[int, float] = {}
    for one, other in _candidates([each.digest() for each in hashes]):
        # An estimate from 128 numbers; of equal programs it is known.
        likeness = 1.0 if exact[one] == exact[other] else hashes[one].jaccard(hashes[other])
        if likeness >= threshold:
            leaders.join(one, other)
            similar[other] = max(likeness, similar.get(other, 0.0))
    found = {number: leaders.of(number) for number in range(len(names))}
    return Duplicates(of={names[n]: (names[first], similar[n]) for n, first in found.items() if first != n})


def _candidates(signatures: Sequence[Sequence[int]]) -> Sequence[tuple[int, int]]:
    """Pairs with a band in common, the smaller number first, each pair once, in order."""
    found: set[tuple[int, int]] = set()
    for start in range(0, _NUMBERS, _ROWS):
        last: dict[tuple[int, ...], int] = {}  # of one band at a time: of a million programs that is what memory takes
        for number, signature in enumerate(signatures):
            content = tuple(signature[start : start + _ROWS])
            # A chain is enough to join a group, and pairs of a large group would be too many.
            if content in last:
                found.add((last[content], number))
            last[content] = number
    return sorted(found, key=lambda pair: (pair[1], pair[0]))


class _Leaders:
    """Groups that grow together; the smallest number leads."""

    def __init__(self, count: int) -> None:
        self._leader = list(range(count))

    def of(self, number: int) -> int:
        while self._leader[number] != number:
            self._leader[number] = self._leader[self._leader[number]]
            # Path halving (Tarjan and van Leeuwen, 1984): each step shortens the way for later ones.
            number = self._leader[number]
        return number

    def join(self, one: int, other: int) -> None:
        # The smaller number leads, so that the program that was read first stays.
        first, second = sorted((self.of(one), self.of(other)))
        self._leader[second] = first


CONTAMINATION: Final = "contamination"
CONTAINMENT: Final = 0.6
_CODE_KEYS: Final = ("code", "canonical_solution", "solution", "refcode", "source")
_TEXT_KEYS: Final = ("question_content", "statement", "prompt", "text", "problem_description", "question")
# `return a + b` is contained in every other program.
_FEWEST: Final = 20
"""Shingles; fewer say nothing by containment."""
_COMMON_SHARE: Final = 0.02
_COMMON_LEAST: Final = 5
_RARE: Final = 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class Document:
    """A task of a benchmark."""

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
        self._exact = {digest(normalised(each.code)): each.name for each in found if each.code}
        code = {each.name: shingles(normalised(each.code)) for each in found if each.code}
        text = {each.name: shingles(words(each.text)) for each in found if each.text}
        programs = (shingles(normalised(source)) for source in sources)
        self._code = _Index(code, _frequent(programs) | _frequent(code.values()))
        self._text = _Index(text, _frequent(text.values(), share=0.0, least=_RARE))

    def look_up(self, source: str, statement: str) -> Finding | None:
        """The task of which most is contained, or None."""
        normal = normalised(source)
        # Finds short benchmark programs as well, which have too few shingles for a share.
        same = self._exact.get(digest(normal))
        if same is not None:
            return Finding(document=same, kind="code", containment=1.0)
        code = self._code.best(shingles(normal))
        text = self._text.best(shingles(words(statement))) if statement else None
        found = [
            Finding(document=best[0], kind=kind, containment=best[1])
            for kind, best in (("code", code), ("text", text))
            if best is not None
        ]
        return max(found, key=lambda each: each.containment, default=None)


class _Index:
    """Which documents have a shingle, but for those that are common; shares are of what is left of a document."""

    def __init__(self, grams: Mapping[str, frozenset[str]], common: set[str]) -> None:
        self._grams = {name: each - common for name, each in grams.items()}
        self._holders: dict[str, list[str]] = {}
        for name, each in self._grams.items():
            for gram in each if len(each) >= _FEWEST else ():
                self._holders.setdefault(gram, []).append(name)

    def best(self, grams: frozenset[str]) -> tuple[str, float] | None:
        hits = Counter(name for gram in grams for name in self._holders.get(gram, ()))
        shares = [(count / len(self._grams[name]), name) for name, count in hits.items()]
        share, name = max(shares, default=(0.0, ""))
        return (name, share) if name else None


def _frequent(
    documents: Iterable[frozenset[str]], *, share: float = _COMMON_SHARE, least: int = _COMMON_LEAST
) -> set[str]:
    """Shingles that more documents have than this share of them, and than the least number."""
    count, seen = 0, Counter[str]()
    for grams in documents:
        count += 1
        seen.update(grams)
    return {gram for gram, number in seen.items() if number > max(least, int(share * count))}


def _document(path: Path, number: int, row: Any) -> Document:
    name = f"{path.name}:{number}"
    if isinstance(row, BadRow) or not isinstance(row, Mapping):
        return Document(name=name, code="", text="")
    named = next((str(row[key]) for key in ("task_id", "question_id", "id") if key in row), name)
    # HumanEval's solution is the body to the function that its prompt begins.
    code = "".join(str(row[key]) for key in ("prompt", "canonical_solution")) if "canonical_solution" in row else ""
    return Document(name=named, code=code or _first(row, _CODE_KEYS), text=_first(row, _TEXT_KEYS))


def _first(row: Mapping[str, Any], keys: Sequence[str]) -> str:
    return next((row[key] for key in keys if isinstance(row.get(key), str)), "")
