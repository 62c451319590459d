"""A text held to its claims: what of its words stands in a claim, and what in none.

Held are numbers, names of the program, quoted values, and words that say that something is so or is not. Each of them
has to occur in a claim that is supported and whose quote it stands in; a sentence without claims holds none of them.
"""

from __future__ import annotations

import ast
import bisect
import math
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

from groundbox.trace.claims import vocabulary
from groundbox.trace.claims.data import ClaimData, ClaimsData
from groundbox.trace.claims.items import Spans, literal_of, parsed, pieces
from groundbox.trace.claims.model import PUBLISHED, Kind, Number
from groundbox.trace.claims.told import PlacedClaim, parsed_code, spoken_of, told
from groundbox.trace.claims.untold import Untold
from groundbox.trace.record.quoting import QUOTED, code_spans
from groundbox.trace.record.reading import Trace
from groundbox.trace.record.syntax import walked
from groundbox.values.numbers import GROUPED

_NUMBER: Final = re.compile(rf"(?<![\w.])(?:(?<![\w)\]])-)?{GROUPED}(?:[eE][-+]?\d+)?(?![\w])")
_MINUS: Final = re.compile(
    r"(?:[)\]'\"]|\b(?!(?:return|yield|in|is|and|or|not|if|else|case|lambda)\b)\w+)\s+$",
)
"""Before the sign of a number in code that is taken away, and not negative: `len(xs) -1`."""
_WORD: Final = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_CODE: Final = re.compile(r"`[^`\n]*`")
_NEGATIVE: Final = frozenset(
    {"false", "not", "never", "fails", "fail", "failed", "cannot", "nor", "neither", "isn't", "doesn't", "aren't"}
)
_POSITIVE: Final = frozenset({"true", "holds", "hold", "held", "always"})
_DENIED: Final = re.compile(r"\b(?:not|never|n't)\s+(?:\w+\s+)?$", re.I)
"""Before a word that then says the opposite: `never true`."""
_UNTOLD: Final = re.compile(r"not (?:told|shown|recorded)\b", re.I)
"""Says that the text passes over something, and nothing of the run."""
_OF_CALLS: Final = re.compile(r"\(| (?:returns|raises|gives|yields|ends|is called)\b", re.I)
"""After a function's name that is no common word there."""
_OF_TELLINGS: Final = re.compile(r"\b[Tt]he (?:loop|generator|program|module)$")
"""Up to the end of a word that every telling has, whatever the program calls its functions."""
_OF_CODE: Final = frozenset({"True", "False", "None", "not", "in", "is", "and", "or"})
_PARTS: Final = {"True": "positive", "False": "negative"}
_SENTENCE_END: Final = re.compile(r"[.!?](?=\s|$)|\n+")
_DENIAL: Final = re.compile(r"\bnot\b|!=")
_OUTCOME: Final = re.compile(r"\b(?:fails?|is false|do(?:es)? not hold)\b", re.I)
"""Says how a test came out, whatever the test itself denies."""
_EVENTS: Final = PUBLISHED - {Kind.COUNT, Kind.EXIT, Kind.TEST, Kind.CALL, Kind.STATEMENT}
"""Kinds whose records go forward with a text that does."""
_MOST_DIGITS: Final = 4_000
"""Of a number that Python reads."""
MOST_SENTENCES: Final = 20_000
MOST_COMPARED: Final = 5_000_000
"""Words that are compared with claims, each time that one is."""


def placed(text: str, document: ClaimsData) -> tuple[list[PlacedClaim], list[tuple[int, int]]]:
    """The claims of a document at their places in a text, and the text's sentences, claimed or not.

    Sentences are looked for in their order. Claims of a sentence that the text does not have stand at its end, and say
    nothing of it.
    """
    made: list[PlacedClaim] = []
    spans: list[tuple[int, int]] = []
    at = 0
    for sentence in document.sentences:
        # In their order, so that a sentence that stands twice is found at both places.
        start = text.find(sentence.text, at) if sentence.text.strip() else -1
        if start < 0:
            made += [_placed(data, len(text), len(text), -1) for data in sentence.claims]
            continue
        # What the document leaves out stands there as sentences without claims, which then must tell nothing.
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
    """Yield what stands between sentences that have claims, as sentences."""
    for first, last in pieces(text, _SENTENCE_END, start, end):
        if any(sign.isalnum() for sign in text[first:last]):
            yield first, last


def _place(text: str, data: ClaimData, at: int) -> int:
    """Return where a claim's quote stands in its sentence; -1 if it does not."""
    if data.at is not None and data.at >= 0 and text.startswith(data.quote, data.at):
        return data.at if data.quote else 0
    found = text.find(data.quote, at)
    return found if found >= 0 else text.find(data.quote)


def _placed(data: ClaimData, start: int, end: int, sentence: int) -> PlacedClaim:
    return PlacedClaim(
        kind=data.kind, subject=parsed_code(data.subject) if data.subject else None, value=told(data.value).value,
        shown=data.subject, start=start, end=end, parts=[(start, end)], sentence=sentence, certain=True,
        step=data.step, data=data,
    )  # fmt: skip


def held(
    text: str, so: Sequence[PlacedClaim], names: Collection[str], functions: Collection[str]
) -> tuple[list[Number], list[Number]]:
    """The numbers of a text, and its other words that have to stand in a claim; each covered or not.

    Args:
        so: The claims that hold: the others bear out nothing.
    """
    found = sorted(tokens(text, names, functions))
    starts = [token.start for token in found]
    covered: set[int] = set()
    left = MOST_COMPARED
    for each in so:
        # Neither does a claim without words of its own.
        if each.start >= each.end:
            continue
        first = bisect.bisect_left(starts, each.start)
        last = bisect.bisect_left(starts, each.end)
        # Documents may have many claims of whole sentences: the work is bounded, and what is left over is not covered.
        left -= last - first
        if left < 0:
            break
        said = [place for place in range(first, last) if found[place].end <= each.end]
        covered.update(_borne_out(each, text, found, said))
    numbers = [Number(start=t.start, end=t.end, covered=n in covered) for n, t in enumerate(found) if t.is_number]
    words = [Number(start=t.start, end=t.end, covered=n in covered) for n, t in enumerate(found) if not t.is_number]
    return numbers, words


def _borne_out(each: PlacedClaim, text: str, found: Sequence[Token], said: Sequence[int]) -> Iterator[int]:
    """Yield which of the tokens in a claim's words it bears out.

    With a quote of its own, numbers and quoted values have to come in the order in which the claim has them.
    """
    data = each.data
    quote = text[each.start : each.end]
    words: set[str] | None = None
    atoms: list[str] | None = None
    at = 0
    for place in said:
        token = found[place]
        if not token.is_atom:
            words = _words(data) | _truths(each, quote) if words is None else words
            if token.form in words:
                yield place
            continue
        if atoms is None:
            is_named = not _is_worked(data) and not _is_of_lambda(data)
            atoms = _atoms(data, with_subject="`" in quote or is_named)
        if token.form in atoms[at:]:
            # With a quote of its own, words come in the claim's order: `from 3 to 5` is not borne out by 5 and then 3.
            at = atoms.index(token.form, at) + 1 if data.quote else 0
            yield place


def held_closely(
    text: str,
    sentences: Sequence[tuple[int, int]],
    claims: Sequence[PlacedClaim],
    so: Sequence[PlacedClaim],
    trace: Trace,
) -> tuple[list[Number], list[int]]:
    """A telling in the wordings of our narrator, word by word: what no claim of its sentence bears out, and claims that
    their sentence does not say; and sentences before which an update is left out."""
    work = vocabulary.Work(MOST_COMPARED)
    # A claim whose words do not say it would cover words that say something else.
    unsaid = [
        Number(start=each.start, end=each.end, covered=False)
        for each in claims
        if not work.allows(each.end - each.start) or not _is_said(each, text)
    ]
    rows: dict[int, list[PlacedClaim]] = {}
    for each in so:
        rows.setdefault(each.sentence, []).append(each)
    untold = Untold(trace)
    words: list[Number] = []
    for number, (start, end) in enumerate(sentences):
        words += vocabulary.loose(text, start, end, rows.get(number, []), untold, work)
    return [*words, *unsaid], untold.gaps(text, so)


_SAID: Final = PUBLISHED - {Kind.CALL, Kind.STATEMENT, Kind.EXIT, Kind.CATCH, Kind.LEAVE}
"""Kinds of claims whose value their words have to say."""


def _is_said(each: PlacedClaim, text: str) -> bool:
    """Return whether the words that a claim has as its own are in its sentence, and have all of its value."""
    data = each.data
    quote = text[each.start : each.end]
    if each.sentence < 0 or not quote:
        return False
    if not data.quote or not data.value or data.kind not in _SAID or _CODE.fullmatch(quote):
        return True
    atoms = [token.form for token in sorted(tokens(quote, (), ())) if token.is_atom]
    wanted = _atoms(data, with_subject=False)
    if quote.lower() == "all of ":
        # What is gone through may be no list, and is told as it is.
        row = data.value.removeprefix("list(").removesuffix(")") if data.value.startswith("list(") else data.value
        return text.startswith(row, each.end)
    if _denies(data) and not _DENIED_THERE.search(quote):
        return False
    if quote in data.subject or (_says_subject(data, quote, atoms) and not {*atoms} & {*wanted}):
        return True
    found = iter(atoms)
    is_row = data.kind is Kind.MUTATION or " for " in data.subject  # "4 and 9 are appended"
    is_whole = is_row or data.value[:1] not in "[({" or data.value[:1] in quote
    return is_whole and all(form in found for form in wanted)


def _says_subject(data: ClaimData, quote: str, atoms: Sequence[str]) -> bool:
    """Return whether the words of a claim are those of its subject; the value stands in those of another one."""
    if not atoms:
        return data.kind is Kind.COUNT and "`" in quote
    if _is_of_lambda(data) and "`" not in quote:
        return False
    return {*atoms} <= {*_atoms(data, with_subject=True)}


_DENIED_THERE: Final = re.compile(r"\bnot\b|!=|<>")


def _denies(data: ClaimData) -> bool:
    """Return whether a test says by `not in`, `is not` or `!=` that something is not so."""
    if data.kind is not Kind.TEST or data.value == "False":
        return False
    node = parsed_code(data.subject if data.value == "True" else data.value)
    kinds = (ast.NotIn, ast.IsNot, ast.NotEq)
    return isinstance(node, ast.Compare) and any(isinstance(each, kinds) for each in node.ops)


def misplaced(document: ClaimsData, claims: Sequence[PlacedClaim]) -> list[int]:
    """Sentences of a text that says it goes forward which go back, or are told twice."""
    if document.order != "forward":
        return []
    last: float = -1
    texts: dict[int, set[str]] = {}
    steps: dict[int, float] = {}
    for each in claims:
        if each.step is not None and each.kind in _EVENTS:
            step = math.inf if each.kind is Kind.ANSWER else each.step  # nothing comes after it
            steps[each.sentence] = max(steps.get(each.sentence, -1), step)
            texts.setdefault(each.sentence, set()).add(f"{each.kind} {each.shown} {each.data.value} {each.step}")
    found = []
    before: set[str] = set()
    for number, step in sorted(steps.items()):
        # Told twice in the same words of the same record.
        if step < last or (step == last and texts[number] == before):
            found.append(number)
        last, before = max(last, step), texts[number]
    return found


class Token(NamedTuple):
    """Something that has to stand in a claim.

    Attributes:
        form: Equal for what says the same.
        is_number: It is a number.
        is_atom: It is a number or a quoted value.
    """

    start: int
    end: int
    form: str
    is_number: bool = False
    is_atom: bool = False


def tokens(text: str, names: Collection[str], functions: Collection[str]) -> Iterator[Token]:
    """Yield what of a text has to stand in a claim."""
    code = Spans(code_spans(text))
    quoted = [found.span() for found in QUOTED.finditer(text)]
    is_quoted = Spans(quoted)
    for start, end in quoted:
        yield Token(start, end, _quoted(text[start:end]), is_atom=True)
    for found in _NUMBER.finditer(text):
        if not is_quoted.hold(found.start(), found.end()) and not _is_list_marker(text, found.start(), found.end()):
            form = _number_in_code(found) if code.hold(found.start(), found.end()) else _number(found[0])
            yield Token(found.start(), found.end(), form, is_number=True, is_atom=True)
    for found in _WORD.finditer(text):
        word = found[0]
        if is_quoted.hold(found.start(), found.end()):
            continue
        if code.hold(found.start(), found.end()):
            if word in names or word in _OF_CODE:
                yield Token(found.start(), found.end(), f"name {word}")
        elif _UNTOLD.match(text, found.start()):
            continue
        # A function called `count` or `merge` is a common word, too; only `count(` or `count returns` speaks of it.
        elif (
            word in functions
            and _OF_CALLS.match(text, found.end())
            and not _OF_TELLINGS.search(text, max(0, found.start() - 5), found.end())
        ):
            yield Token(found.start(), found.end(), f"name {word}")
        elif word.lower() in _NEGATIVE or word.lower() in _POSITIVE:
            denied = word.lower() in _NEGATIVE or _DENIED.search(text, max(0, found.start() - 24), found.start())
            yield Token(found.start(), found.end(), "negative" if denied else "positive")
        elif word in names and not (word.isalpha() and word.islower()):
            yield Token(found.start(), found.end(), f"name {word}")


def _is_list_marker(text: str, start: int, end: int) -> bool:
    """Return whether a number is that of a line of a list."""
    return text[end : end + 2] in (". ", ") ") and not text[text.rfind("\n", 0, start) + 1 : start].strip(" #*-")


def _quoted(text: str) -> str:
    node = parsed(text)
    literal, value = literal_of(node) if node is not None else (False, None)
    if literal or node is None:
        return f"text {value!r}" if literal else f"text {text}"
    return f"text {ast.unparse(node)}"


def _number(text: str) -> str:
    """A number in one form for each way to write it: `1e-07` and `0.0000001`, `1,000` and `1000`."""
    digits = text.replace(",", "")
    if "." in digits or "e" in digits.lower():
        return repr(float(digits))
    return str(int(digits)) if len(digits) < _MOST_DIGITS else digits


def _number_in_code(found: re.Match[str]) -> str:
    """The number, without the sign of a subtraction."""
    text, start = found.string, found.start()
    is_taken_away = found[0].startswith("-") and _MINUS.search(text[max(0, start - 40) : start])
    return _number(found[0][1:] if is_taken_away else found[0])


def _words(data: ClaimData) -> set[str]:
    """The names in a claim, and the words of truth that are parts of a longer value."""
    found: set[str] = set()
    for code in (spoken_of(data), data.value):
        words = [each[0] for each in _WORD.finditer(QUOTED.sub(" ", code))]
        found.update(f"name {word}" for word in words)
        if code not in ("True", "False"):
            found.update(_PARTS[word] for word in words if word in _PARTS)
    return found


def _atoms(data: ClaimData, *, with_subject: bool) -> list[str]:
    """The numbers and quoted values of a claim, in its order."""
    found: list[str] = []
    for code in (spoken_of(data), data.value) if with_subject else (data.value,):
        quoted = [each.span() for each in QUOTED.finditer(code)]
        places = [(start, _quoted(code[start:end])) for start, end in quoted]
        places += [
            (each.start(), _number_in_code(each))
            for each in _NUMBER.finditer(code)
            if not any(start <= each.start() < end for start, end in quoted)
        ]
        found += [form for _, form in sorted(places)]
    return found


def _is_worked(data: ClaimData) -> bool:
    """Return whether the value of a claim says more than the subject: workings, or a reason."""
    if data.kind not in (Kind.VALUE, Kind.TEST):
        return False
    said = told(data.value)
    return said.worked or (said.node is not None and not said.known)


def _is_of_lambda(data: ClaimData) -> bool:
    """Return whether a claim is about a lambda: the numbers in its code are none of its arguments and results."""
    return spoken_of(data).startswith("lambda")


def _truths(claim: PlacedClaim, quote: str) -> set[str]:
    """Return which words of truth a claim bears out: those of its value, and those of denials in its condition."""
    data = claim.data
    if data.kind is Kind.COUNT and data.subject.startswith("true tests"):
        return {"negative" if data.value == "0" else "positive"}
    code = " ".join(quote[start:end] for start, end in code_spans(quote))
    said = told(data.value).node if data.kind is Kind.TEST and data.value not in ("True", "False") else None
    node = said if said is not None else claim.subject
    inner = walked(node) if node is not None else ()
    denies = any(isinstance(each, ast.Not | ast.NotIn | ast.IsNot | ast.NotEq) for each in inner)
    # Where the code itself stands in the quote, its `not` is told by it.
    denies = denies and not _DENIAL.search(code) and not _OUTCOME.search(quote)
    if data.value in ("True", "False"):
        truths = {"positive" if data.value == "True" else "negative"}
        return truths | {"negative"} if data.kind is Kind.TEST and denies else truths
    return {"negative"} if denies else set()
