"""Checks a narration against a trace, claim by claim. See docs/proof.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from groundbox.trace import schema
from groundbox.trace.proof.alignment import Placed, align
from groundbox.trace.proof.claims import Answer, AtLine, Claim, Kind, Returned
from groundbox.trace.proof.explaining import Explainer
from groundbox.trace.proof.gaps import Gap, settled
from groundbox.trace.proof.grammar import Reading, claims_of
from groundbox.trace.proof.moments.finder import Finder
from groundbox.trace.proof.records.ledger import Exhausted, Ledger
from groundbox.trace.proof.values.likeness import listed, said_value, same
from groundbox.trace.proof.verdicts import Proof, Status, Told, Verdict
from groundbox.trace.reading import Trace

MOST_TEXT: Final = 1_000_000
_WORK_PER_CLAIM: Final = 3000
_TOO_MUCH: Final = "it would take too much work"


def prove(text: str, trace: Trace, *, answer: Any = None) -> Proof:
    """Check every claim of a text.

    Args:
        text: English, with or without Markdown, tables, code spans.
        answer: The run's result as a plain (JSON) value. When it is given, a text that does not tell it is not
            faithful.
    """
    ledger = Ledger(trace)
    reading = claims_of(text[:MOST_TEXT], ledger.names, ledger.functions)
    finder = Finder(ledger)
    ledger.budget += _WORK_PER_CLAIM * len(reading.claims)
    try:
        placed: Sequence[Placed] = align(reading.claims, finder)
    except Exhausted:
        placed = [Placed(None, 0, _TOO_MUCH)] * len(reading.claims)
    placed, missing = settled(reading.claims, placed, finder, text)
    verdicts = _verdicts(text, reading.claims, placed, missing, finder)
    return _proof(reading, verdicts, placed, ledger, answer)


def _verdicts(
    text: str, claims: Sequence[Claim], placed: Sequence[Placed], missing: Mapping[int, Gap], finder: Finder
) -> list[Verdict]:
    explainer = Explainer(finder.ledger, finder)
    verdicts = []
    for index, (claim, place) in enumerate(zip(claims, placed, strict=True)):
        status, step, actual, message = _judge(claim, place, explainer)
        if status is Status.SUPPORTED and index in missing:
            status, message = Status.UNSUPPORTED, missing[index].message
        if status is Status.SUPPORTED and isinstance(claim, AtLine):
            status, message = _line_verdict(index, claims, placed, finder.ledger)
        quote = text[claim.start : claim.end]
        message = f"“{quote}”: {message}" if message else ""
        verdicts.append(Verdict(kind=claim.kind, quote=quote, start=claim.start, end=claim.end, sentence=claim.sentence,
                                status=status, step=step, actual=actual, message=message))  # fmt: skip
    return verdicts


def _judge(claim: Claim, place: Placed, explainer: Explainer) -> tuple[Status, int | None, str, str]:
    if place.hit is not None:
        return Status.SUPPORTED, place.hit.step if place.hit.step >= 0 else None, "", ""
    if place.reason:
        return Status.UNCHECKABLE, None, "", ""
    try:
        found = explainer.explain(claim, place.low)
    except Exhausted:
        found = None
    if found is None:
        return Status.UNSUPPORTED, None, "", "nothing in the run says so at this point"
    if found.folded:
        return Status.UNCHECKABLE, found.step, "", ""
    status = Status.SUPPORTED if found.holds else Status.CONTRADICTED if found.actual else Status.UNSUPPORTED
    return status, found.step, found.actual, found.message


def _line_verdict(index: int, claims: Sequence[Claim], placed: Sequence[Placed], ledger: Ledger) -> tuple[Status, str]:
    """A line is right if something that its sentence tells happened there."""
    claim = claims[index]
    assert isinstance(claim, AtLine)
    lines = set()
    for other, place in zip(claims, placed, strict=True):
        if (
            other.sentence == claim.sentence
            and not isinstance(other, AtLine)
            and place.hit is not None
            and place.hit.step >= 0
        ):
            lines.add(ledger.course.line_of(place.hit.step))
    if not lines or claim.line in lines:
        return Status.SUPPORTED, ""
    told = ", ".join(str(line) for line in sorted(line for line in lines if line is not None))
    return Status.CONTRADICTED, f"this happens in line {told}"


def _proof(
    reading: Reading, verdicts: Sequence[Verdict], placed: Sequence[Placed], ledger: Ledger, answer: Any
) -> Proof:
    checkable = [verdict for verdict in verdicts if verdict.status is not Status.UNCHECKABLE]
    supported = [verdict for verdict in checkable if verdict.status is Status.SUPPORTED]
    counts: dict[int, int] = {}
    for verdict in checkable:
        counts[verdict.sentence] = counts.get(verdict.sentence, 0) + 1
    told = [Told(start=s.start, end=s.end, claims=counts.get(s.number, 0)) for s in reading.sentences]
    failed = [verdict.message for verdict in verdicts if verdict.status in (Status.CONTRADICTED, Status.UNSUPPORTED)]
    if any(place.reason == _TOO_MUCH for place in placed):
        failed.append("the text claims more than can be checked")
    given = _answer(reading.claims, verdicts, ledger, answer)
    if answer is not None and given is not True:
        failed.append(
            "the text does not tell the result of the run"
            if given is None
            else "the text tells another result than the run's"
        )
    return Proof(
        sentences=told,
        verdicts=verdicts,
        faithful=not failed and bool(supported) and given is not False,
        faithfulness=len(supported) / len(checkable) if checkable else 0.0,
        sentence_coverage=sum(sentence.claims > 0 for sentence in told) / len(told) if told else 0.0,
        event_coverage=_event_coverage(supported, ledger),
        answer=given,
        failed=failed,
    )


def _answer(claims: Sequence[Claim], verdicts: Sequence[Verdict], ledger: Ledger, answer: Any) -> bool | None:
    """Whether the text gives the answer. The last claim that gives one counts."""
    entry = ledger.entry
    name = entry.short_name if entry is not None else None
    given: bool | None = None
    for claim, verdict in zip(claims, verdicts, strict=True):
        is_return = (
            isinstance(claim, Returned)
            and entry is not None
            and ((claim.function == name and not _is_inner(claim)) or verdict.step == entry.last)
        )
        if isinstance(claim, Answer) or is_return or (entry is None and verdict.kind is Kind.OUTPUT):
            if verdict.status is Status.UNCHECKABLE:
                continue
            right = verdict.status is Status.SUPPORTED
            if right and answer is not None and isinstance(claim, Answer | Returned) and claim.value is not None:
                known, said = said_value(claim.value)
                right = known and (same(said, answer) or same(listed(said), listed(answer)))
            given = right
    return given


def _is_inner(claim: Returned) -> bool:
    """Whether a return is of a recursive call with other arguments."""
    return claim.arguments is not None and len(claim.arguments) > 0


_EVENTS: Final = (schema.Call, schema.Set, schema.Mutate, schema.Return, schema.Yield, schema.Raise, schema.Out)


def _event_coverage(supported: Sequence[Verdict], ledger: Ledger) -> float:
    events = {
        t for t, record in enumerate(ledger.records) if isinstance(record, _EVENTS) and not _is_definition(record)
    }
    events |= set(ledger.course.condition_times)
    told = {verdict.step for verdict in supported if verdict.step is not None}
    return len(events & told) / len(events) if events else 1.0


def _is_definition(record: Any) -> bool:
    """The module's call and return, and names that take a function or class: nobody tells these."""
    value = getattr(record, "v", None)
    return getattr(record, "name", "") == "<module>" or (
        isinstance(value, dict) and bool({"function", "class", "module"} & value.keys())
    )
