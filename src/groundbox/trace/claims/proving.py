"""Each claim of a text held against the run, in the order of the text."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from groundbox.trace.claims import english, holding
from groundbox.trace.claims.data import ClaimData, ClaimsData, decode
from groundbox.trace.claims.items import Item
from groundbox.trace.claims.model import Claim, Kind, Number, Proof, Status, Verdict
from groundbox.trace.claims.run import Run, same, shown
from groundbox.trace.claims.told import told
from groundbox.trace.claims.verifying import Judged, verify
from groundbox.trace.errors import Unknown
from groundbox.trace.evaluate import evaluate
from groundbox.trace.reading import Trace

MOST_TEXT: Final = 200_000
"""Characters; what follows is not read, and its numbers are not covered."""
_MOST_LATER: Final = 5
_NUMBER: Final = re.compile(r"(?<![\w.])-?\d+(?:,\d{3})*(?:\.\d+)?(?![\w])")
_GIVEN: Final = object()
_SEARCHED: Final = (Kind.VALUE, Kind.TEST, Kind.RETURN, Kind.INPUT, Kind.ANSWER)
"""Kinds of claims that are looked for where no step is named."""


def prove(
    text: str, trace: Trace, *, answer: Any = _GIVEN, claims: ClaimsData | Mapping[str, Any] | bytes | None = None
) -> Proof:
    """Hold a text against the record of a run.

    Args:
        text: English, with or without Markdown.
        answer: The result that the text has to tell, as a plain value; by default that of the recorded run.
        claims: What the text claims, by its writer: see `data.py`. Then nothing is read from words: the claims are held
            against the record, and the text against its claims. A sentence that has none must tell nothing.

    Raises:
        BadClaims: `claims` is no document of claims.
    """
    run = Run(trace)
    if claims is not None:
        return _held(text, trace, run, decode(claims), answer)
    read = english.read(text[:MOST_TEXT], run.names, run.functions)
    judge = _Judge(run)
    verdicts = [judge.verdict(claim) for claim in read.claims]
    told = _answer(verdicts, run, answer)
    numbers = list(_numbers(text, read, verdicts, run))
    return Proof(text=text, sentences=read.sentences, verdicts=verdicts, numbers=numbers, answer=told)


def _held(text: str, trace: Trace, run: Run, document: ClaimsData, answer: Any) -> Proof:
    """A text with its claims."""
    placed, sentences = holding.placed(text, document)
    judge = _Judge(run)
    claim_of = {id(each.data): each.claim for each in placed}

    def search(data: ClaimData) -> Judged:
        found = judge.searched(claim_of[id(data)], data)
        return Judged(found.status, found.step, found.actual, found.message)

    judged = verify([each.data for each in placed], trace, run, search)
    verdicts = [
        Verdict(claim=each.claim, status=found.status, step=found.step, actual=found.actual, message=found.message)
        for each, found in zip(placed, judged, strict=True)
    ]
    numbers, words = holding.held(text, placed, verdicts, run.names, run.functions)
    return Proof(
        text=text, sentences=sentences, verdicts=verdicts, numbers=numbers, words=words,
        misplaced=holding.misplaced(document, placed), answer=_told_answer(verdicts, run, answer),
    )  # fmt: skip


class _Judge:
    """Holds claims against a run; each is looked for after the one before it."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._after = -1

    def verdict(self, claim: Claim) -> Verdict:
        """What the record says to a claim."""
        found = {
            Kind.VALUE: self._value, Kind.TEST: self._value, Kind.RETURN: self._return, Kind.INPUT: self._input,
            Kind.ANSWER: self._return,
        }[claim.kind](claim)  # fmt: skip
        if claim.general:
            return Verdict(claim=claim, status=Status.OFF_PROGRAM, step=found.step, message=found.message)
        if found.status is Status.REFUTED and not claim.certain:
            return Verdict(claim=claim, status=Status.NOT_FOUND, message=found.message)
        if found.status is Status.SUPPORTED and found.step is not None and claim.kind is not Kind.RETURN:
            self._after = max(self._after, found.step)
        return found

    def searched(self, claim: Claim, data: ClaimData) -> Verdict:
        """What the record says to a claim that is data and names no step."""
        if claim.kind not in _SEARCHED or (claim.kind in (Kind.VALUE, Kind.TEST) and claim.subject is None):
            return Verdict(claim=claim, status=Status.NOT_FOUND, message=f"a claim of kind {claim.kind} names a step")
        if not told(data.value).known:
            return Verdict(claim=claim, status=Status.NOT_FOUND, message="its value is no literal")
        return self.verdict(claim)

    def _value(self, claim: Claim) -> Verdict:
        assert claim.subject is not None
        if not _names_in(claim.subject) & self._run.names:
            return self._closed(claim)
        seen = self._run.look(claim.subject, claim.value, claim.decimals, after=self._after)
        if seen.step is not None:
            return Verdict(claim=claim, status=Status.SUPPORTED, step=seen.step)
        alike = [other for other in seen.others if _alike(other[1], claim.value)]
        if not alike or not seen.whole:  # a number said of a list is a word for something else
            return Verdict(claim=claim, status=Status.NOT_FOUND, message=f"no record tells `{claim.shown}`")
        step, actual = min(alike, key=lambda other: (other[0] <= self._after, other[0]))
        was = shown(actual)
        afterwards = [value for at, value in alike if at > step][:_MOST_LATER]
        later = dict.fromkeys(each for each in map(shown, afterwards) if each != was)
        and_later = f", later {', '.join(later)}" if later else ""
        message = f"`{claim.shown}` is {was} at record {step}{and_later}; never what the text says"
        return Verdict(claim=claim, status=Status.REFUTED, step=step, actual=was, message=message)

    def _closed(self, claim: Claim) -> Verdict:
        """An expression without names: mathematics, which the run need not have done."""
        assert claim.subject is not None
        try:
            actual = evaluate(claim.subject, _no_names)
        except Unknown:
            return Verdict(claim=claim, status=Status.NOT_FOUND, message=f"`{claim.shown}` cannot be worked out")
        if same(actual, claim.value, claim.decimals):
            return Verdict(claim=claim, status=Status.SUPPORTED)
        message = f"`{claim.shown}` comes to {shown(actual)}"
        return Verdict(claim=claim, status=Status.OFF_PROGRAM, actual=shown(actual), message=message)

    def _return(self, claim: Claim) -> Verdict:
        if isinstance(claim.subject, ast.Call):
            calls = self._run.call(claim.subject)
            if not calls:
                return Verdict(claim=claim, status=Status.NOT_FOUND, message=f"no call `{claim.shown}` is recorded")
        else:
            calls = self._run.returned
        for call in calls:
            if same(call.value, claim.value, claim.decimals):
                return Verdict(claim=claim, status=Status.SUPPORTED, step=call.step)
        try:
            actual = self._run.result
        except Unknown:
            return Verdict(claim=claim, status=Status.NOT_FOUND, message="the result is not recorded")
        if same(actual, claim.value, claim.decimals) or _printed(actual, claim.value):
            return Verdict(claim=claim, status=Status.SUPPORTED, step=self._run.last)
        given = shown(calls[-1].value if isinstance(claim.subject, ast.Call) else actual)
        message = f"what is given back is {given}"
        return Verdict(claim=claim, status=Status.REFUTED, step=self._run.last, actual=given, message=message)

    def _input(self, claim: Claim) -> Verdict:
        given = list(self._run.given.values())
        if any(same(value, claim.value, claim.decimals) for value in (*given, tuple(given))):
            return Verdict(claim=claim, status=Status.SUPPORTED, step=0)
        return Verdict(claim=claim, status=Status.NOT_FOUND, message="the run was not given this")


def _answer(verdicts: Sequence[Verdict], run: Run, answer: Any) -> bool | None:
    """Whether the last result that the text tells is the answer."""
    try:
        wanted = run.result if answer is _GIVEN else answer
    except Unknown:
        return None
    told: bool | None = None
    for verdict in verdicts:
        claim = verdict.claim
        if claim.kind in (Kind.RETURN, Kind.ANSWER) and not claim.general:
            right = same(wanted, claim.value, claim.decimals) or _printed(wanted, claim.value)
            if right or (claim.certain and claim.subject is None):
                told = right
    return told


def _told_answer(verdicts: Sequence[Verdict], run: Run, answer: Any) -> bool | None:
    """The same of claims that came as data: of those that say that they tell the answer, if there are any."""
    told = [verdict for verdict in verdicts if verdict.claim.kind is Kind.ANSWER]
    if answer is not _GIVEN or not told:
        return _answer(verdicts, run, answer)
    return {Status.SUPPORTED: True, Status.REFUTED: False}.get(told[-1].status)


def _alike(actual: Any, said: Any) -> bool:
    """Whether two values are of one kind, so that the one could have been the other."""
    if isinstance(actual, bool) or isinstance(said, bool):
        return type(actual) is type(said)
    numbers = (int, float, complex)
    return isinstance(actual, type(said)) or (isinstance(actual, numbers) and isinstance(said, numbers))


def _printed(actual: Any, said: Any) -> bool:
    return isinstance(actual, str) and not isinstance(said, str) and actual.strip() == str(said)


def _numbers(text: str, read: english.Reading, verdicts: Sequence[Verdict], run: Run) -> Iterator[Number]:
    """The numbers of a text: covered where a claim that is supported says them, or where code or a value is quoted that
    is there and of which nothing is claimed that is not so."""
    values = {(item.start, item.end): item.value for item in read.items if item.kind == "value"}
    told = [
        part
        for verdict in verdicts
        if verdict.holds
        for part in verdict.claim.parts
        # "91 is not less than 50" is so whatever happened
        if not _is_closed_test(verdict.claim, run) or values.get(part) in run.scalars
    ]
    doubtful = {part for verdict in verdicts for part in verdict.claim.parts} - set(told)
    known = [
        (item.start, item.end)
        for item in read.items
        if (item.start, item.end) not in doubtful and _is_known(item, run)
    ]  # fmt: skip
    plain = english.without_markers(text)
    for found in _NUMBER.finditer(plain):
        start, end = found.span()
        start += found[0].startswith("-") and start > 0 and plain[start - 1].isalnum()
        yield Number(
            start=start, end=end, covered=any(begin <= start and end <= stop for begin, stop in (*told, *known))
        )


def _is_closed_test(claim: Claim, run: Run) -> bool:
    return claim.kind is Kind.TEST and claim.subject is not None and not _names_in(claim.subject) & run.names


def _is_known(item: Item, run: Run) -> bool:
    """Whether a text quotes what is there: a piece of the program, or a value that the run was given or gave."""
    if item.kind == "value":
        if isinstance(item.value, int | float) or item.value is None:
            return item.value in run.constants  # others are anywhere
        return any(same(value, item.value) for value in run.values())
    if isinstance(item.node, ast.Call) and run.call(item.node):
        return True
    return item.node is not None and ast.dump(item.node) in run.fragments


def _names_in(node: ast.expr) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _no_names(name: str) -> Any:
    raise KeyError(name)
