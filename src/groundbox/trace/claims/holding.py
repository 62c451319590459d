"""A text held to its claims: what of its words stands in a claim, and what in none.

Held are numbers, names of the program, quoted values, and words that say that something is so or is not. Each of them
has to occur in a claim that is supported and whose quote it stands in; a sentence without claims holds none of them.
"""

from __future__ import annotations

import ast
import bisect
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

from groundbox.trace.claims.data import ClaimData, ClaimsData
from groundbox.trace.claims.items import literal_of, parsed
from groundbox.trace.claims.model import Claim, Kind, Number, Verdict
from groundbox.trace.claims.told import told

_QUOTED: Final = re.compile(r"""(?<![\w'"])[bru]?(?:'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*\")(?!\w)""")
_NUMBER: Final = re.compile(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w])")
_WORD: Final = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_CODE: Final = re.compile(r"`[^`\n]*`")
_NEGATIVE: Final = frozenset(
    {"false", "not", "never", "fails", "fail", "failed", "cannot", "nor", "neither", "isn't", "doesn't", "aren't"}
)
_POSITIVE: Final = frozenset({"true", "holds", "hold", "held", "always"})
_DENIED: Final = re.compile(r"\b(?:not|never|n't)\s+(?:\w+\s+)?$", re.I)
"""Before a word that then says the opposite: `never true`."""
_OF_CODE: Final = frozenset({"True", "False", "None", "not", "in", "is", "and", "or"})
_PARTS: Final = {"True": "positive", "False": "negative"}
_SENTENCE_END: Final = re.compile(r"[.!?](?=\s|$)|\n+")
MOST_SENTENCES: Final = 20_000


class Placed(NamedTuple):
    """A claim as data, and where it stands in the text."""

    data: ClaimData
    claim: Claim


def placed(text: str, document: ClaimsData) -> tuple[list[Placed], list[tuple[int, int]]]:
    """The claims of a document at their places in a text, and the text's sentences, claimed or not.

    Sentences are looked for in their order. Claims of a sentence that the text does not have stand at its end, and say
    nothing of it.
    """
    made: list[Placed] = []
    spans: list[tuple[int, int]] = []
    at = 0
    for sentence in document.sentences:
        start = text.find(sentence.text, at) if sentence.text.strip() else -1
        if start < 0:
            made += [_placed(data, len(text), len(text), -1) for data in sentence.claims]
            continue
        spans += _split(text, at, start)
        number, end, quote_at = len(spans), start + len(sentence.text), 0
        spans.append((start, end))
        for data in sentence.claims:
            found = _place(sentence.text, data, quote_at)
            if found < 0:
                made.append(_placed(data, end, end, number))
                continue
            quote_at = found
            stop = found + len(data.quote) if data.quote else len(sentence.text)
            made.append(_placed(data, start + found, start + stop, number))
        at = end
    spans += _split(text, at, len(text))
    return made, spans[:MOST_SENTENCES]


def _split(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """What stands between sentences that have claims, as sentences."""
    for stop in (*(found.end() for found in _SENTENCE_END.finditer(text, start, end)), end):
        piece = text[start:stop]
        if piece.strip() and any(sign.isalnum() for sign in piece):
            yield start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip())
        start = stop


def _place(text: str, data: ClaimData, at: int) -> int:
    """Where a claim's quote stands in its sentence; -1 if it does not."""
    if data.at is not None and data.at >= 0 and text.startswith(data.quote, data.at):
        return data.at if data.quote else 0
    found = text.find(data.quote, at)
    return found if found >= 0 else text.find(data.quote)


def _placed(data: ClaimData, start: int, end: int, sentence: int) -> Placed:
    claim = Claim(
        kind=data.kind, subject=parsed(data.subject) if data.subject else None, value=told(data.value).value,
        shown=data.subject, decimals=None, start=start, end=end, parts=[(start, end)], sentence=sentence,
        certain=True, general=False, step=data.step,
    )  # fmt: skip
    return Placed(data, claim)


def held(
    text: str, claims: Sequence[Placed], verdicts: Sequence[Verdict], names: Collection[str], functions: Collection[str]
) -> tuple[list[Number], list[Number]]:
    """The numbers of a text, and its other words that have to stand in a claim; each covered or not."""
    spans = sorted(
        (each.claim.start, each.claim.end, number)
        for number, each in enumerate(claims)
        if verdicts[number].holds and each.claim.start < each.claim.end
    )
    starts = [start for start, _, _ in spans]
    vocabularies = [_vocabulary(each) for each in claims]
    widest = max((end - start for start, end, _ in spans), default=0)

    def covered(start: int, end: int, word: str) -> bool:
        for begin, stop, number in reversed(spans[: bisect.bisect_right(starts, start)]):
            if begin < end - widest:
                return False
            if end <= stop and word in vocabularies[number]:
                return True
        return False

    numbers: list[Number] = []
    words: list[Number] = []
    for start, end, word, is_number in tokens(text, names, functions):
        token = Number(start=start, end=end, covered=covered(start, end, word))
        (numbers if is_number else words).append(token)
    return numbers, words


def tokens(text: str, names: Collection[str], functions: Collection[str]) -> Iterator[tuple[int, int, str, bool]]:
    """What has to be covered: where it stands, its plain form, and whether it is a number."""
    code = [found.span() for found in _CODE.finditer(text)]
    starts = [start for start, _ in code]
    quoted = [found.span() for found in _QUOTED.finditer(text)]
    quoted_starts = [start for start, _ in quoted]

    def inside(spans: Sequence[tuple[int, int]], begins: Sequence[int], at: int) -> bool:
        place = bisect.bisect_right(begins, at) - 1
        return place >= 0 and at < spans[place][1]

    for start, end in quoted:
        yield start, end, _quoted(text[start:end]), False
    for found in _NUMBER.finditer(text):
        if not inside(quoted, quoted_starts, found.start()) and not _is_list_marker(text, found.start(), found.end()):
            yield found.start(), found.end(), _number(found[0]), True
    for found in _WORD.finditer(text):
        word = found[0]
        if inside(quoted, quoted_starts, found.start()):
            continue
        if inside(code, starts, found.start()):
            if word in names or word in _OF_CODE:
                yield found.start(), found.end(), f"name {word}", False
        elif word.lower() in _NEGATIVE or word.lower() in _POSITIVE:
            denied = word.lower() in _NEGATIVE or _DENIED.search(text, max(0, found.start() - 24), found.start())
            yield found.start(), found.end(), "negative" if denied else "positive", False
        elif word in names and (word in functions or not (word.isalpha() and word.islower())):
            yield found.start(), found.end(), f"name {word}", False


def _is_list_marker(text: str, start: int, end: int) -> bool:
    """Whether a number is that of a line of a list."""
    return text[end : end + 2] in (". ", ") ") and not text[text.rfind("\n", 0, start) + 1 : start].strip(" #*-")


def _quoted(text: str) -> str:
    node = parsed(text)
    literal, value = literal_of(node) if node is not None else (False, None)
    return f"text {value!r}" if literal else f"text {text}"


def _number(text: str) -> str:
    return text.replace(",", "").lstrip("0") or "0"


def _vocabulary(placed: Placed) -> frozenset[str]:
    """What a claim says, in the form that `tokens` gives."""
    data = placed.data
    found: set[str] = set()
    for code in (data.subject, data.value):
        outside = _QUOTED.sub(" ", code)
        found.update(_quoted(each[0]) for each in _QUOTED.finditer(code))
        found.update(_number(each[0]) for each in _NUMBER.finditer(outside))
        found.update(f"name {each[0]}" for each in _WORD.finditer(outside))
        if code not in ("True", "False"):  # within a longer value, they are parts of it
            found.update(_PARTS[each[0]] for each in _WORD.finditer(outside) if each[0] in _PARTS)
    found.update(_truths(placed))
    return frozenset(found)


def _truths(placed: Placed) -> set[str]:
    """Which words of truth a claim bears out: those of its value, and those of denials in its condition."""
    data = placed.data
    said = parsed(data.value) if data.kind is Kind.TEST and data.value not in ("True", "False") else None
    code = said if said is not None else placed.claim.subject
    inner = ast.walk(code) if code is not None else ()
    denies = any(isinstance(node, ast.Not | ast.NotIn | ast.IsNot | ast.NotEq) for node in inner)
    if data.kind is Kind.COUNT and data.subject.startswith("true tests"):
        return {"negative" if data.value == "0" else "positive"}
    if data.value in ("True", "False"):
        truths = {"positive" if data.value == "True" else "negative"}
        if data.kind is Kind.TEST and denies:
            truths.add("negative")
        return truths
    return {"negative"} if denies else set()
