"""Tellings by others, such as models: prose, or sentences with their claims; proven, complained of, and mended.

What comes in is anything: an answer is read within bounds and strictly (`written`), nothing of it is executed, and what
it claims is held against the record by `groundbox.trace.claims`, which believes records alone. Sentences that come with
claims are held to them. Prose is read by the table of wordings.
"""

from __future__ import annotations

import bisect
import dataclasses
import json
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Final, Protocol

import msgspec

from groundbox.dataset.item import Answer
from groundbox.dataset.narration import LEAST_FOR_ONE, LEFT_OUT, Proved, places, without
from groundbox.trace.claims import (
    BadClaims,
    ClaimData,
    ClaimsData,
    Kind,
    Proof,
    SentenceData,
    Status,
    Verdict,
    decode,
)
from groundbox.trace.claims import prove as hold
from groundbox.trace.claims.locating import located
from groundbox.trace.claims.model import Number
from groundbox.trace.record.reading import Trace
from groundbox.values import literals

# An answer comes from outside; each bound is checked before what it bounds is worked on.
MOST_CHARS: Final = 1_000_000
"""Of an answer that is read as claims."""
MOST_SENTENCES: Final = 1_000
MOST_CLAIMS: Final = 10_000
_OTHER: Final = "it is not one JSON object of the form that was asked for"
_END: Final = re.compile(r"""[.!?:;…]["'`)*_\]]*\Z""")
_RECORD: Final = re.compile(r" at record \d+")
_VALUE: Final = re.compile(r"""[\d`'"“”‘’\[\](){}<>=]|\b(?:True|False|None|true|false)\b""")
"""Where the words of a sentence end that can be quoted without a value of it."""
_MOST_SHOWN: Final = 300
"""Characters of what is so instead."""
_MOST_WORDS: Final = 6
_TEXT: Final = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")
_NAME: Final = re.compile(r"(?<![\w.])[A-Za-z_]\w*(?!\w|\()")
"""Names in code that are not called; words of a loop's header among them do no harm."""
_TELLS_A_VALUE: Final = frozenset((Kind.VALUE, Kind.MUTATION))
_BREAKS: Final = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]+")


class NotClaims(ValueError):
    """An answer that should be sentences with claims is none of these; the message says why, without its words."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Telling:
    """A run told by somebody else.

    Attributes:
        claims: The document of claims as JSON, whose sentences are the text; "" for prose.
        left_out: Sentences that are no longer told.
        answered: Whether a last line was taken off that gave the right answer.
    """

    text: str
    claims: str = ""
    left_out: tuple[str, ...] = ()
    answered: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Expected:
    """Result that a telling has to tell.

    Attributes:
        value: The result, as Python writes it, or what is printed; None where the result is no literal.
        printed: Whether it is what a script prints.
        fault: Type of the exception that ends the run; "" where none does.
        message: Of that exception.
        entry: The function that the exception leaves; "" for a script.
    """

    value: str | None = None
    printed: bool = False
    fault: str = ""
    message: str = ""
    entry: str = ""


class _Reading(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    number: int
    claims: Sequence[ClaimData] = ()


class _Readings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    sentences: Sequence[_Reading]


class TellingProver(Protocol):
    """Holds a telling against a trace, and against what it has to tell."""

    def __call__(self, telling: Telling, trace: Trace, expected: Expected) -> Proved: ...


def expected_of(answer: Answer, entry: str | None) -> Expected:
    """Return what a telling of a run that gave this has to tell."""
    if answer.fault is not None:
        return Expected(fault=answer.fault.type, message=answer.fault.message, entry=entry or "")
    return Expected(value=answer.stdout, printed=True) if entry is None else Expected(value=answer.text or None)


def written(text: str) -> Telling:
    """Sentences with claims of a model's answer.

    Raises:
        NotClaims: The answer is too long, is torn, or is something else.
    """
    if len(text) > MOST_CHARS:
        raise NotClaims(f"it has more than {MOST_CHARS:,} characters")
    try:
        document = decode(text)
    # Without the model's words: the message goes into prompts and reports.
    except BadClaims:
        raise NotClaims(_OTHER) from None
    # Lines and control characters would let a sentence fake the end of another one, or the answer's last line.
    sentences = [_sentence(each) for each in document.sentences if _plain(each.text)]
    if not sentences:
        raise NotClaims("it has no sentences")
    if len(sentences) > MOST_SENTENCES or sum(len(each.claims) for each in sentences) > MOST_CLAIMS:
        raise NotClaims(f"it has more than {MOST_SENTENCES:,} sentences or {MOST_CLAIMS:,} claims")
    return _telling(sentences)


def read_by(telling: Telling, spans: Sequence[tuple[int, int]], answers: Sequence[str]) -> Telling:
    """Prose with the claims that a reader found in its sentences. The reader is believed in nothing: what it left out
    is missed by numbers and names, and what it made up is refuted by the record.

    Args:
        spans: Where the sentences stand that the reader was shown, in their order, counted from 1.
        answers: Of the reader, each about some of them.

    Raises:
        NotClaims: An answer is too long, is torn, or is something else.
    """
    claims: dict[int, list[ClaimData]] = {}
    for answer in answers:
        if len(answer) > MOST_CHARS:
            raise NotClaims(f"it has more than {MOST_CHARS:,} characters")
        try:
            found = msgspec.json.decode(answer, type=_Readings)
        except (msgspec.MsgspecError, RecursionError, UnicodeError):
            raise NotClaims(_OTHER) from None
        for each in found.sentences:
            claims.setdefault(each.number, []).extend(each.claims)
    if sum(map(len, claims.values())) > MOST_CLAIMS:
        raise NotClaims(f"it has more than {MOST_CLAIMS:,} claims")
    sentences = [
        SentenceData(text=telling.text[start:end], claims=claims.get(number, []))
        for number, (start, end) in enumerate(spans, 1)
    ]
    return dataclasses.replace(telling, claims=_json(ClaimsData(sentences=sentences)))


def without_last(telling: Telling, is_answer: Callable[[str], bool]) -> Telling:
    """A telling without a last line, or sentence, that is nothing but the right answer: each row adds its own."""
    if telling.claims:
        sentences = list(decode(telling.claims).sentences)
        # A telling of nothing but the answer stays: without it nothing would be left to prove.
        if len(sentences) > 1 and is_answer(sentences[-1].text):
            return dataclasses.replace(_telling(sentences[:-1]), answered=True)
        return telling
    before, _, last = telling.text.rpartition("\n")
    if not before.strip() or not is_answer(last):
        return telling
    return dataclasses.replace(telling, text=before.rstrip(), answered=True)


def prove(telling: Telling, trace: Trace, expected: Expected) -> Proved:
    """Hold a telling against the record: `TellingProver` as it is."""
    if telling.claims:
        document = located(decode(telling.claims), trace)
        proof = hold(telling.text, trace, claims=document, **_answer(expected))
        found = _proved(proof, telling, expected)
        return _borne_out(found, document, proof, telling, trace, expected) if found.faithful else found
    proof = hold(telling.text, trace, **_answer(expected))
    return _proved(proof, telling, expected)


def mended(
    telling: Telling, proved: Proved, trace: Trace, expected: Expected, prover: TellingProver
) -> tuple[Telling, Proved] | None:
    """A telling without the sentences that fail, and its proof; None where too much would go or the rest fails, too.

    The last sentence always stays. Of sentences with claims, what is told later has to follow without those that go.
    """
    left_out: set[int] = set()
    spans, current, found = proved.sentences, telling, proved
    while not found.faithful:
        failing = places(found.sentences, found.unproven) - left_out
        left_out |= failing
        # Nothing to take away, the answer would go, or more than one sentence of five: it is no longer the model's
        # telling.
        if not failing or len(spans) - 1 in left_out or len(left_out) * LEAST_FOR_ONE > len(spans):
            return None
        if telling.claims and not _follows(decode(telling.claims), left_out):
            return None
        current = _without(telling, spans, left_out)
        found = prover(current, trace, expected)
        # Places would mean other sentences now.
        if len(found.sentences) != len(spans):  # what is left is told apart otherwise
            return (current, found) if found.faithful else None
    return current, found


def _telling(sentences: Sequence[SentenceData]) -> Telling:
    document = ClaimsData(sentences=sentences)
    return Telling(text=document.text, claims=_json(document))


def _json(document: ClaimsData) -> str:
    return json.dumps(document.to_dict(), ensure_ascii=False)


def _plain(text: str) -> str:
    """A sentence on one line."""
    return _BREAKS.sub(" ", text).strip()


def _sentence(each: SentenceData) -> SentenceData:
    """A sentence that ends as one."""
    text = _plain(each.text)
    return SentenceData(text=text if _END.search(text) else f"{text}.", claims=each.claims)


def _without(telling: Telling, spans: Sequence[tuple[int, int]], places: Collection[int]) -> Telling:
    gone = tuple(telling.text[slice(*spans[place])] for place in sorted(places))
    if telling.claims:
        kept = decode(telling.claims).sentences
        sentences = [SentenceData(text=LEFT_OUT) if place in places else each for place, each in enumerate(kept)]
        return dataclasses.replace(_telling(sentences), left_out=gone, answered=telling.answered)
    return dataclasses.replace(telling, text=without(telling.text, spans, places), left_out=gone)


def _follows(document: ClaimsData, places: Collection[int]) -> bool:
    """Tell whether no later sentence rests on names whose value stood in these ones, before it is told again."""
    unknown: set[str] = set()
    for place, sentence in enumerate(document.sentences):
        for claim in sentence.claims:
            names = set(_NAME.findall(_TEXT.sub("", claim.subject)))
            if place in places:
                unknown |= names if claim.kind in _TELLS_A_VALUE else set()
            elif claim.kind is Kind.VALUE and claim.subject.strip() in unknown:
                unknown.discard(claim.subject.strip())
            elif names & unknown:
                return False
    return True


def _answer(expected: Expected) -> dict[str, Any]:
    """The argument of `groundbox.trace.claims.prove`; none where the record alone knows the result."""
    if expected.value is None or expected.fault:
        return {}
    if expected.printed:
        return {"answer": expected.value}
    try:
        return {"answer": literals.parse(expected.value)}
    except literals.NotALiteral:
        return {}


def _borne_out(
    found: Proved, document: ClaimsData, proof: Proof, telling: Telling, trace: Trace, expected: Expected
) -> Proved:
    """A proof by the claims alone that a record bears out, with these; the others are no longer made."""
    statuses = iter(verdict.status for verdict in proof.verdicts)
    sentences = [
        msgspec.structs.replace(
            each, claims=[claim for claim in each.claims if next(statuses, None) is Status.SUPPORTED]
        )
        for each in document.sentences
    ]
    kept = ClaimsData(sentences=[each for each in sentences if each.claims])
    again = _proved(hold(telling.text, trace, claims=kept, **_answer(expected)), telling, expected)
    if not again.faithful:
        return again
    return dataclasses.replace(again, coverage=found.coverage, sentences=found.sentences, claims_data=_json(kept))


def _proved(proof: Proof, telling: Telling, expected: Expected) -> Proved:
    told = _tells(proof, telling, expected)
    complaints = list(_complaints(proof, expected, with_claims=bool(telling.claims)))
    failing = sorted({place for place, _ in complaints})
    holding = {verdict.claim.sentence for verdict in proof.verdicts if verdict.holds}
    proven = sum(verdict.holds for verdict in proof.verdicts)
    spans = tuple((start, end) for start, end in proof.sentences)
    counted = sum(telling.text[start:end] != LEFT_OUT for start, end in spans)
    failed = [_message(place, words, telling.text, spans) for place, words in complaints]
    if told is not True:
        failed.append(_untold(told, expected))
    return Proved(
        faithful=told is True and not complaints and proven > 0,
        total=len(proof.verdicts),
        proven=proven,
        coverage=round(len(holding) / counted, 4) if counted else 0.0,
        failed=tuple(dict.fromkeys(failed)),
        unproven=tuple(spans[place][0] for place in failing if place >= 0),
        sentences=spans,
        answer=told,
        refuted=proof.count(Status.REFUTED),
    )


def _tells(proof: Proof, telling: Telling, expected: Expected) -> bool | None:
    """Tell whether the result is told: True, False (another one is), or None (none is)."""
    if expected.fault:
        return True if telling.answered or any(_told_faults(proof.text, expected)) else None
    if expected.value is None or (telling.answered and proof.answer is None):
        return True
    return proof.answer


def _told_faults(text: str, expected: Expected) -> Iterator[tuple[int, int]]:
    """Where a text tells the exception that ends the run, such as `f raises ValueError('no')`."""
    if not expected.fault:
        return
    name, message, entry = (re.escape(each) for each in (expected.fault, repr(expected.message), expected.entry))
    raised = rf"(?:(?<!\w)`?{entry}`? raises `?)?" if entry else ""
    for found in re.finditer(rf"{raised}(?<!\w){name}(?:\({message},?\)|(?!\w))", text):
        yield found.span()


def _complaints(proof: Proof, expected: Expected, *, with_claims: bool) -> Iterator[tuple[int, str]]:
    """Yield what is wrong with which sentence; -1 for what stands in none."""
    starts = [start for start, _ in proof.sentences]
    faults = list(_told_faults(proof.text, expected))
    claimed = {verdict.claim.sentence for verdict in proof.verdicts} if with_claims else set()

    def sentence(at: int) -> int:
        place = bisect.bisect_right(starts, at) - 1
        return place if place >= 0 and at < proof.sentences[place][1] else -1

    def is_bare(each: Number) -> bool:
        """Tell whether nothing bears a part out; what ends the run is known where a sentence claims nothing."""
        is_fault = any(start <= each.start and each.end <= end for start, end in faults)
        return not each.covered and not (is_fault and sentence(each.start) not in claimed)

    numbers, words = ([each.start for each in parts if is_bare(each)] for parts in (proof.numbers, proof.words))
    bad = set(map(sentence, (*numbers, *words)))
    for verdict in proof.verdicts:
        place = verdict.claim.sentence
        if verdict.status is Status.REFUTED or (with_claims and verdict.status is Status.NOT_FOUND and place in bad):
            yield place, _shown(verdict)
    for place in proof.misplaced:
        yield place, "it goes back, or tells something twice"
    by = "stands in no claim of it that holds" if with_claims else "is borne out by nothing that is recorded"
    for place in sorted(set(map(sentence, numbers))):
        yield place, f"a number in it {by}"
    for place in sorted(set(map(sentence, words))):
        yield place, f"a name, a quoted value, or true or false in it {by}"


def _shown(verdict: Verdict) -> str:
    """Return what is so instead, without the text's own value and without long ones: a writer copies what it reads."""
    words = _RECORD.sub("", verdict.message.removesuffix("; never what the text says"))
    said = verdict.claim.value
    own = {repr(said), said} if isinstance(said, str) else {repr(said)}
    repeated = any(each and re.search(rf"(?<![\w.]){re.escape(each)}(?![\w.])", words) for each in own)
    if verdict.status is Status.REFUTED and (repeated or len(words) > _MOST_SHOWN):
        return "what it says of a value is not so"
    return "a claim of it cannot be found in the record" if repeated or len(words) > _MOST_SHOWN else words


def _message(place: int, words: str, text: str, spans: Sequence[tuple[int, int]]) -> str:
    if place < 0:
        return f"Between the sentences: {words}."
    begin = _VALUE.split(text[slice(*spans[place])], maxsplit=1)[0].split()[:_MOST_WORDS]
    named = f" (“{' '.join(begin)} …”)" if begin else ""
    return f"Sentence {place + 1}{named}: {words}."


def _untold(told: bool | None, expected: Expected) -> str:
    if expected.fault:
        return f"It does not say that the run ends with {expected.fault}."
    result = expected.value or ""
    shown = f": {result.strip()}" if 0 < len(result.strip()) <= _MOST_SHOWN else ""
    return f"It tells {'another' if told is False else 'no'} result; tell at the end what the run gives{shown}."
