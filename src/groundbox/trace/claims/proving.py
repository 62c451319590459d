"""Each claim of a text held against the run, in the order of the text."""

from __future__ import annotations

import ast
import collections
import itertools
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from groundbox.trace.claims import english, holding
from groundbox.trace.claims.data import ClaimsData, decode
from groundbox.trace.claims.happened import Change
from groundbox.trace.claims.items import Item, Spans, literal_of
from groundbox.trace.claims.model import Claim, Judged, Kind, Number, Proof, Status, Verdict, not_found, refuted
from groundbox.trace.claims.run import Run
from groundbox.trace.claims.told import PlacedClaim, told
from groundbox.trace.claims.verifying import verify
from groundbox.trace.record.reading import Trace
from groundbox.values.equal import as_told, equal, frozen
from groundbox.values.evaluate import evaluate
from groundbox.values.literals import shown
from groundbox.values.numbers import GROUPED
from groundbox.values.unknown import Unknown

MOST_TEXT: Final = 200_000
"""Characters; what follows is not read, and its numbers are not covered."""
MOST_CHANGES: Final = 5_000
"""That one claim is compared with."""
_MOST_LATER: Final = 5
_MOST_AROUND: Final = 80
"""Characters in which a circumstance names what it is about."""
_NUMBER: Final = re.compile(rf"(?<![\w.])-?{GROUPED}(?![\w])")
_CODE: Final = re.compile(r"`[^`]{1,2000}`")
_LINE: Final = re.compile(r"[^\n]+")
_IN_ORDER: Final = frozenset({Kind.VALUE, Kind.TEST, Kind.CHANGE, Kind.ADD, Kind.REMOVE, Kind.STEP})
_MENTIONS: Final = frozenset({Kind.MEMBER, Kind.SIZE, Kind.INDEX, Kind.TURN, Kind.REMARK})
_OF_THE_PROGRAM: Final = re.compile(r"\b(output|answer|final|function|program|result)\b", re.I)
_OF_A_METHOD: Final = re.compile(
    r"\b(\w+)`?\s?(?:\([^()\n]*\))?`?(?:\smethod|\sfunction(?!\s\w)|(?<=\))|(?<=\)`))(?:\s(?:then|will|would|also))*\s*$"
)
_UNDER: Final = re.compile(r"\b(?:when|for|with|at|once|where) [`(]?(\w+)", re.I)
_ASKED: Final = re.compile(
    r"\b(?:if|whether|when|while|until|unless|check(?:s|ed|ing)?|test(?:s|ed|ing)?|compar\w+|conditions?|is|are|do(?:es)?|not"
    r"|no longer|never|false|fail(?:s|ed)?|evaluat\w+|as long as)\b[\s`*(:\"']*(?:(?:that|the|again|now)\b[\s`*(:]*)*$",
    re.I,
)
_DENIED: Final = re.compile(
    r"[\s`*)\]\"']*(?:[,:;|–—-]+\s*)?(?:(?:which|that|this|it)\s+)?"
    r"(?:(?:is|are|was|be|does|do|did|will|would|can|gives|returns?|evaluates?(?: to)?|→|->|=>|==?|:)\s*)*"
    r"(?:(?:also|now|indeed|clearly)\s+)?[`*]*"
    r"(?:false|no\b|not\b|\w+n.t\b|cannot|incorrect|untrue|fail|never|skip|nothing|else|exit|stop|end|done|terminat"
    r"|\?|[✗✘❌×])",
    re.I,
)
"""Around a comparison: words that ask it, or say that it does not hold."""
_FOR: Final = re.compile(r"[\s`*]*(?:\(|,? ?(?:because|since|as)\s)[\s`*]*", re.I)
_FROM: Final = re.compile(r"[\s`*)]*[,;]?\s*(?:so|thus|hence|therefore|which means|meaning)(?: that)?[\s`*,]*", re.I)
"""Between a condition and the comparison that it comes to, and the other way round."""
CONTRARY: Final = {
    ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
"""Operators of comparisons that come out the other way round."""
_GIVEN: Final = object()
_SEARCHED: Final = (Kind.VALUE, Kind.TEST, Kind.RETURN, Kind.INPUT, Kind.ANSWER)
"""Kinds of claims as data that are looked for where no step is named."""


def prove(
    text: str,
    trace: Trace,
    *,
    answer: Any = _GIVEN,
    claims: ClaimsData | Mapping[str, Any] | bytes | None = None,
    strict: bool = False,
) -> Proof:
    """Hold a text against the record of a run.

    Args:
        text: English, with or without Markdown.
        answer: The result that the text has to tell, as a plain value; by default that of the recorded run.
        claims: What the text claims, by its writer: see `data.py`. Then nothing is read from words: the claims are held
            against the record, and the text against its claims. A sentence that has none must tell nothing.
        strict: Hold a text with claims to them word by word, as one that our narrator made (`vocabulary.py`).

    Raises:
        BadClaims: `claims` is no document of claims.
    """
    run = Run(trace)
    if claims is not None:
        return _held(text, trace, run, decode(claims), answer, strict=strict)
    read = english.read(text[:MOST_TEXT], run)
    judge = _Judge(run, read.claims, text)
    verdicts = [judge.judged(claim).of(claim) for claim in read.claims]
    # A value at the very end may be the answer of a text that has no words for it.
    right = _answer(verdicts, run, answer, [item for item in read.items if item.kind == "value"][-1:])
    numbers = list(_numbers(text[:MOST_TEXT], read, verdicts, run, judge.misread))
    # They have covered their numbers by now, and count as no claims.
    verdicts = [verdict for verdict in verdicts if not _is_mention(verdict.claim)]
    return Proof(text=text, sentences=read.sentences, verdicts=verdicts, numbers=numbers, answer=right)


def _held(text: str, trace: Trace, run: Run, document: ClaimsData, answer: Any, *, strict: bool) -> Proof:
    """A text with its claims."""
    placed, sentences = holding.placed(text, document)
    judge = _Judge(run)
    judged = verify([claim.data for claim in placed], trace, run, lambda number: judge.searched(placed[number]))
    verdicts = [found.of(claim) for claim, found in zip(placed, judged, strict=True)]
    so = [claim for claim, verdict in zip(placed, verdicts, strict=True) if verdict.holds]
    numbers, words = holding.held(text, so, run.words, run.functions)
    gaps: list[int] = []
    if strict:
        loose, gaps = holding.held_closely(text, sentences, placed, so, trace)
        words = [*words, *loose]
        # A text that may go back can tell an update later.
        gaps = gaps if document.order == "forward" else []
    return Proof(
        text=text, sentences=sentences, verdicts=verdicts, numbers=numbers, words=words,
        misplaced=holding.misplaced(document, placed), gaps=gaps, answer=_answer(verdicts, run, answer),
    )  # fmt: skip


class _Judge:
    """Holds claims against a run; each is looked for after the one before it.

    Args:
        claims: All that were read from the words of a text; None for claims that came as data and say what they mean.

    Attributes:
        misread: Claims of which something else is likely to be meant than was read.
    """

    def __init__(self, run: Run, claims: Sequence[Claim] | None = None, text: str = "") -> None:
        self._run = run
        self._is_data = claims is None
        self._text = text
        self._after = -1
        self._turn_before: int | None = None
        self._sentence = -1
        self._under: dict[str, Any] = {}  # values of names under which its sentence says something
        self._last = next((claim for claim in reversed(claims or ()) if _tells_the_result(claim)), None)
        self.misread: set[int] = set()

    def judged(self, claim: Claim) -> Judged:
        """Return what the record says to a claim."""
        if claim.sentence != self._sentence:
            self._sentence, self._under = claim.sentence, {}
        found = self._judges[claim.kind](self, claim)
        if claim.kind is Kind.VALUE and isinstance(claim.subject, ast.Name):
            self._set_under(claim, claim.subject.id)
        # What is said of a case is no statement of the run; that it is so may still be seen (`Verdict.holds`).
        if claim.general:
            return Judged(Status.OFF_PROGRAM, found.step, message=found.message)
        # Words may be meant of another moment; a false red mark costs more than a missed one.
        if found.status is Status.REFUTED and not claim.certain:
            return not_found(found.message)
        if found.status is Status.SUPPORTED and found.step is not None and claim.kind in _IN_ORDER:
            # What comes next in the text is looked for from here on first.
            self._after = max(self._after, found.step)
        return found

    def searched(self, claim: PlacedClaim) -> Judged:
        """Return what the record says to a claim that is data and names no step."""
        if claim.kind not in _SEARCHED or (claim.kind in (Kind.VALUE, Kind.TEST) and claim.subject is None):
            return not_found(f"a claim of kind {claim.kind} names a step")
        if not told(claim.data.value).known:
            return not_found("its value is no literal")
        return self.judged(claim)

    def _judge_value(self, claim: Claim) -> Judged:
        assert claim.subject is not None
        if self._run.is_closed(claim.subject):
            return self._closed(claim)
        seen = self._run.look(claim.subject, claim.value, claim.decimals, after=self._after)
        if seen.step is not None:
            return Judged(Status.SUPPORTED, seen.step)
        alike = [other for other in seen.others if _alike(other[1], claim.value)]
        if not alike:  # a number said of a list is a word for something else
            self.misread.add(id(claim))
        if not alike or not seen.whole:
            return not_found(f"no record tells `{claim.shown}`")
        # The record that a reader is shown: the next one after what was told, else the first.
        step, actual = min(alike, key=lambda other: (other[0] <= self._after, other[0]))
        if claim.kind is Kind.TEST:
            return self._other_truth(claim, step)
        was = shown(actual)
        afterwards = [value for at, value in alike if at > step][:_MOST_LATER]
        later = dict.fromkeys(each for each in map(shown, afterwards) if each != was)
        and_later = f", later {', '.join(later)}" if later else ""
        message = f"`{claim.shown}` is {was} at record {step}{and_later}; never what the text says"
        return refuted(step, message, actual=was)

    def _judge_test(self, claim: Claim) -> Judged:
        """A comparison; one that stands beside "when x is 7" has to come out so at a moment with this value."""
        found = self._judge_value(claim)
        if found.status is not Status.SUPPORTED or claim.subject is None:
            return found
        names = {each.id for each in ast.walk(claim.subject) if isinstance(each, ast.Name)}
        under = {name: value for name, value in self._under.items() if name in names}
        if not under:
            return found
        # As one list, so that both are so at one moment, and not each at some.
        both = ast.List([*(ast.Name(name, ast.Load()) for name in under), claim.subject], ast.Load())
        seen = self._run.look(both, [*under.values(), claim.value], None, after=self._after)
        if seen.step is None:
            return not_found("no record shows that it comes out so with the values that its sentence gives")
        return Judged(Status.SUPPORTED, seen.step)

    def _set_under(self, claim: Claim, name: str) -> None:
        """Note the value of a name that is told as a circumstance; told as a change, it holds no more."""
        around = self._text[max(0, claim.start - 8) : claim.start + _MOST_AROUND]
        if name in _UNDER.findall(around):
            self._under[name] = claim.value
        else:
            self._under.pop(name, None)

    def _other_truth(self, claim: Claim, step: int) -> Judged:
        """A comparison that comes out otherwise, told by the value of one side."""
        subject = claim.subject
        if isinstance(subject, ast.Compare):
            if claim.value and not self._is_data and self._is_near(subject, step):
                return Judged(Status.SUPPORTED, step)
            sides = [side for side in (subject.left, *subject.comparators) if not literal_of(side)[0]]
            # The values of both sides say more than that it is false.
            were = []
            for side in sides[:2]:
                value = self._run.value_at(side, step)
                if value:
                    were.append(f"`{ast.unparse(side)}` is {shown(value[0])}")
            if were:
                message = f"{' and '.join(were)} at record {step}; it never comes out as the text says"
                return refuted(step, message, actual=" and ".join(were))
        return refuted(step, f"`{claim.shown}` never comes out as the text says, as at record {step}")

    def _is_near(self, subject: ast.Compare, step: int) -> bool:
        """Return whether the sides of an equation differ by no more than floats that were worked out otherwise."""
        if not all(isinstance(each, ast.Eq) for each in subject.ops):
            return False
        sides = [self._run.value_at(side, step) for side in (subject.left, *subject.comparators)]
        known = [side[0] for side in sides if side and isinstance(side[0], int | float)]
        return len(known) == len(sides) and all(math.isclose(known[0], each, rel_tol=1e-12) for each in known)

    def _closed(self, claim: Claim) -> Judged:
        """An expression without names: mathematics, which the run need not have done."""
        assert claim.subject is not None
        try:
            actual = evaluate(claim.subject, _no_names)
        except Unknown:
            return not_found("it cannot be worked out")
        if as_told(actual, claim.value, claim.decimals):
            return Judged(Status.SUPPORTED)
        if not _alike(actual, claim.value):
            self.misread.add(id(claim))
        message = "it comes out otherwise" if claim.kind is Kind.TEST else f"it comes to {shown(actual)}"
        # Refuted by no record: the run need not have asked for it.
        return Judged(Status.OFF_PROGRAM, actual=shown(actual), message=message)

    def _judge_return(self, claim: Claim) -> Judged:
        if isinstance(claim.subject, ast.Call):
            calls = self._run.call(claim.subject)
            if not calls:
                return not_found(f"no call of `{ast.unparse(claim.subject.func)}` like this is recorded")
        else:
            calls = self._run.happened.returned
        # Any call will do: which one is meant is rarely said.
        for call in calls:
            if as_told(call.value, claim.value, claim.decimals):
                return Judged(Status.SUPPORTED, call.step)
        if isinstance(claim.subject, ast.Call):
            was, step = shown(calls[-1].value), calls[-1].step
            if not self._run.is_recorded:
                return not_found(f"a call like this gives back {was} at record {step}; others may be missing")
            return refuted(step, f"this call gives back {was} at record {step}", actual=was)
        try:
            actual = self._run.result
        except Unknown:
            return not_found("the result is not recorded")
        if _is_result(actual, claim.value, claim.decimals):
            return Judged(Status.SUPPORTED, self._run.last)
        was, step = shown(actual), self._run.last
        is_of_the_run = self._is_data or claim is self._last
        if not is_of_the_run and self._is_of_a_method(claim):
            came = self._run.came_to(claim.value, claim.decimals, after=self._after)
            if came is not None:  # "returns" is said of methods, too
                return Judged(Status.SUPPORTED, came)
        # `if not xs: return -1` told as a case is what the program says, whether it was come to or not.
        if claim.general and claim.value in self._run.returns:
            return Judged(Status.OFF_PROGRAM)
        if not is_of_the_run or not (self._run.whole or claim.kind is Kind.ANSWER):
            return not_found(f"what is given back is {was}")
        return refuted(step, f"what is given back at record {step} is {was}", actual=was)

    def _is_of_a_method(self, claim: Claim) -> bool:
        """Return whether it is told what a method or function of Python returns: "the `find` method returns 0"."""
        before = self._text[max(0, claim.start - 60) : claim.start]
        whose = _OF_A_METHOD.search(before)
        said = self._text[claim.start : claim.end]
        names = whose is not None and whose[1] not in {"the", "this", "our", "The", "This", *self._run.functions}
        return names and not _OF_THE_PROGRAM.search(said)

    def _judge_input(self, claim: Claim) -> Judged:
        given = list(self._run.happened.given.values())
        everything: tuple[Any, ...] = (*given, tuple(given), given, dict(self._run.happened.given))
        if isinstance(claim.subject, ast.Name):  # of data; words do not say for which parameter
            everything = tuple(value for name, value in self._run.happened.given.items() if name == claim.subject.id)
        if any(as_told(value, claim.value, claim.decimals) for value in everything):
            return Judged(Status.SUPPORTED, 0)
        # In words, what a helper was given is called an input, too.
        for call in self._run.happened.returned if not self._is_data else ():
            if any(as_told(value, claim.value, claim.decimals) for value in call.arguments.values()):
                return Judged(Status.SUPPORTED, call.step)
        self.misread.add(id(claim))
        return not_found("the run was not given this")

    def _judge_change(self, claim: Claim) -> Judged:
        before, after = claim.value
        return self._changed(claim, lambda change: as_told(change.before, before) and as_told(change.after, after))

    def _judge_add(self, claim: Claim) -> Judged:
        return self._changed(claim, lambda change: _gained(change.before, change.after, claim.value))

    def _judge_remove(self, claim: Claim) -> Judged:
        return self._changed(claim, lambda change: _gained(change.after, change.before, claim.value))

    def _changed(self, claim: Claim, fits: Callable[[Change], bool]) -> Judged:
        early: int | None = None
        for change in itertools.islice(self._run.changes(claim.subject), MOST_CHANGES):
            if fits(change):
                if change.step > self._after:
                    return Judged(Status.SUPPORTED, change.step)
                early = change.step if early is None else early
        if early is not None:
            return Judged(Status.SUPPORTED, early)
        return not_found("no record shows such a change")

    def _judge_step(self, claim: Claim) -> Judged:
        step = self._run.came_to(claim.value, claim.decimals, after=self._after)
        if any(as_told(value, claim.value) for value in self._run.happened.given.values()):
            self.misread.add(id(claim))
            return not_found("the run was given this, and need not come to it")
        if step is None:
            return not_found("nothing comes to this there")
        return Judged(Status.SUPPORTED, step)

    def _judge_member(self, claim: Claim) -> Judged:
        place = claim.subject.value if isinstance(claim.subject, ast.Constant) else None
        if isinstance(place, int):
            there = self._run.holds_at(place, claim.value)
        else:
            there = _is_plain(claim.value) and claim.value in self._run.members
        return self._if(claim, there, "nothing in the run holds this")

    def _judge_pair(self, claim: Claim) -> Judged:
        return self._if(claim, self._run.has_pair(*claim.value), "no dictionary of the run maps so")

    def _judge_size(self, claim: Claim) -> Judged:
        there = type(claim.value) is int and claim.value in self._run.sizes
        return self._if(claim, there, "nothing in the run has so many parts")

    def _judge_index(self, claim: Claim) -> Judged:
        there = type(claim.value) is int and self._run.has_place(claim.value)
        return self._if(claim, there, "nothing in the run has a part there")

    def _judge_span(self, claim: Claim) -> Judged:
        first, last = claim.value
        there = self._run.goes(claim.subject, first, last)
        return self._if(claim, there, "nothing in the run goes from the one to the other")

    def _judge_rounds(self, claim: Claim) -> Judged:
        rounds = self._run.happened.rounds
        # One run of a loop first, then all runs of it together.
        counts = {len(each.starts): each for each in rounds}
        if claim.value in counts:
            starts = counts[claim.value].starts
            return Judged(Status.SUPPORTED, starts[0] if starts else None)
        totals: collections.Counter[int] = collections.Counter()
        for each in rounds:
            totals[each.line] += len(each.starts)
        if claim.value in totals.values():
            return Judged(Status.SUPPORTED)
        # Only of a single loop that ran once it is certain which one is meant.
        if len(rounds) == 1 and self._run.loops_are_known and self._run.loop_count == 1:
            count, step = len(rounds[0].starts), (*rounds[0].starts, self._run.last)[0]
            message = f"the loop has {count} iteration{'s' * (count != 1)}, the first at record {step}"
            return refuted(step, message, actual=str(count))
        return not_found("no loop of the run has so many iterations")

    def _judge_turn(self, claim: Claim) -> Judged:
        most = max((len(each.starts) for each in self._run.happened.rounds), default=0)
        there = type(claim.value) is int and 0 <= claim.value <= most
        if there and self._turn_before is not None:  # they are told in their order, or begin anew
            there = claim.value in (0, 1, self._turn_before, self._turn_before + 1)
        self._turn_before = claim.value if there else self._turn_before
        return self._if(claim, there, "no loop of the run has an iteration of this number")

    def _judge_calls(self, claim: Claim) -> Judged:
        calls = self._run.happened.calls
        name = claim.subject.id if isinstance(claim.subject, ast.Name) else None
        there = claim.value in ([calls[name]] if name else [*calls.values()])
        return self._if(claim, there, "no function is called so often")

    def _judge_raise(self, claim: Claim) -> Judged:
        for raised in self._run.happened.raised:
            if raised.type.rpartition(".")[2] == claim.value:
                return Judged(Status.SUPPORTED, raised.step)
        return not_found("no such exception is recorded")

    def _judge_remark(self, claim: Claim) -> Judged:
        return Judged(Status.OFF_PROGRAM)

    def _if(self, claim: Claim, there: bool, otherwise: str) -> Judged:
        if there:
            return Judged(Status.SUPPORTED)
        self.misread.add(id(claim))
        return not_found(otherwise)

    _judges: ClassVar[dict[Kind, Callable[[Any, Claim], Judged]]] = {
        Kind.VALUE: _judge_value,
        Kind.TEST: _judge_test,
        Kind.RETURN: _judge_return,
        Kind.ANSWER: _judge_return,
        Kind.INPUT: _judge_input,
        Kind.CHANGE: _judge_change,
        Kind.ADD: _judge_add,
        Kind.REMOVE: _judge_remove,
        Kind.STEP: _judge_step,
        Kind.MEMBER: _judge_member,
        Kind.PAIR: _judge_pair,
        Kind.SIZE: _judge_size,
        Kind.INDEX: _judge_index,
        Kind.SPAN: _judge_span,
        Kind.ROUNDS: _judge_rounds,
        Kind.TURN: _judge_turn,
        Kind.CALLS: _judge_calls,
        Kind.RAISE: _judge_raise,
        Kind.REMARK: _judge_remark,
    }


def _gained(before: Any, after: Any, value: Any) -> bool:
    """Return whether something came to hold a value, or a number grew by it."""
    numbers = (int, float)
    # A bool is an int, and does not grow.
    if isinstance(before, bool) or isinstance(after, bool):
        return False
    if isinstance(before, numbers) and isinstance(after, numbers):
        return isinstance(value, numbers) and not isinstance(value, bool) and as_told(after - before, value)
    if isinstance(before, str) and isinstance(after, str):
        return isinstance(value, str) and value != "" and after in (before + value, value + before)
    if isinstance(before, list) and isinstance(after, list) and len(after) > len(before):
        # The item itself, or a row of them that was added at the end.
        more = sum(equal(each, value) for each in after) - sum(equal(each, value) for each in before)
        return more > 0 or equal(after[len(before) :], value)
    if isinstance(before, set | dict) and isinstance(after, set | dict):
        return _is_plain(value) and value in after and value not in before
    return False


def _is_plain(value: Any) -> bool:
    return isinstance(value, int | float | str)


def _is_mention(claim: Claim) -> bool:
    """Return whether a claim only says that a value is there, of which the text says more that was not understood.

    It may cover a number, and is not told as borne out.
    """
    if claim.kind is Kind.STEP:
        return isinstance(claim.value, int | float | None) or (isinstance(claim.value, str) and len(claim.value) < 3)
    return claim.kind in _MENTIONS and not (claim.kind is Kind.MEMBER and claim.subject is not None)


def _tells_the_result(claim: Claim) -> bool:
    return claim.kind is Kind.RETURN and claim.certain and claim.subject is None and not claim.general


def _is_result(wanted: Any, said: Any, decimals: int | None) -> bool:
    is_printed = isinstance(wanted, str) and not isinstance(said, str) and wanted.strip() == str(said)
    return is_printed or as_told(wanted, said, decimals)


def _answer(verdicts: Sequence[Verdict], run: Run, answer: Any, values: Sequence[Item] = ()) -> bool | None:
    """Return whether the last result that a text tells is the answer.

    Claims that say that they tell it come first; of a text without words for it, a value at its end may.

    Args:
        values: The last value that stands in a text whose claims were read from its words.
    """
    said = [verdict for verdict in verdicts if verdict.claim.kind is Kind.ANSWER]
    if said and answer is _GIVEN:
        return {Status.SUPPORTED: True, Status.REFUTED: False}.get(said[-1].status)
    try:
        wanted = run.result if answer is _GIVEN else answer
    except Unknown:
        return _escapes(verdicts, run)
    found: bool | None = None
    for verdict in verdicts:
        claim = verdict.claim
        if claim.kind in (Kind.RETURN, Kind.ANSWER) and not claim.general:
            right = _is_result(wanted, claim.value, claim.decimals)
            # A wrong value counts as an answer only where it is surely said of the result.
            if right or (claim.certain and claim.subject is None):
                found = right
    if found is None and not isinstance(wanted, bool | None) and any(as_told(wanted, item.value) for item in values):
        return True
    return found


def _escapes(verdicts: Sequence[Verdict], run: Run) -> bool | None:
    """Of a run that an exception ended, whether the text names it last."""
    named = [verdict.claim.value for verdict in verdicts if verdict.claim.kind is Kind.RAISE]
    if run.escaped is None or not named:
        return None
    return bool(run.escaped.type.rpartition(".")[2] == named[-1])


def _alike(actual: Any, said: Any) -> bool:
    """Return whether two values are of one kind, so that the one could have been the other."""
    if isinstance(actual, bool) or isinstance(said, bool):
        return type(actual) is type(said)
    numbers = (int, float, complex)
    return isinstance(actual, type(said)) or (isinstance(actual, numbers) and isinstance(said, numbers))


def _numbers(
    text: str, read: english.Reading, verdicts: Sequence[Verdict], run: Run, misread: Collection[int]
) -> Iterator[Number]:
    """The numbers of a text: covered where a claim that is supported says them, or where code or a value is quoted that
    is there and of which nothing is claimed that is not so."""
    # These deny what stands beside them, whatever else supports their numbers.
    turned = set(_turned(read, verdicts, text, run))
    told = [
        part
        for verdict in verdicts
        if verdict.holds
        for part in verdict.claim.parts
        if part not in turned
        # "91 is not less than 50" is so whatever happened
        if not _is_closed_test(verdict.claim, run) or _is_made_of(verdict.claim.subject, run)
    ]
    # Parts of claims that were looked for and are not so: that the value occurs elsewhere does not bear them out.
    doubtful = {
        part
        for verdict in verdicts
        if not verdict.claim.general and id(verdict.claim) not in misread
        for part in verdict.claim.parts
    } - set(told)
    doubtful |= {(item.start, item.end) for item in read.items if _is_untrue(item, text, run)}
    doubtful |= turned
    known = [
        (item.start, item.end)
        for item in read.items
        if (item.start, item.end) not in doubtful and _is_known(item, run)
    ]  # fmt: skip
    quoted = [found.span() for found in _CODE.finditer(text) if run.has_code(found[0].strip("`"))]
    quoted += [read.plain.span(*line.span()) for line in _LINE.finditer(read.plain.text) if run.has_line(line[0])]
    covered = Spans([*told, *known, *quoted])
    plain = read.plain.text
    for found in _NUMBER.finditer(plain):
        start, end = found.span()
        # In `3-1` the sign is none of the number's.
        start += found[0].startswith("-") and start > 0 and plain[start - 1].isalnum()
        start, end = read.plain.span(start, end)
        yield Number(start=start, end=end, covered=covered.hold(start, end))


def _is_untrue(item: Item, text: str, run: Run) -> bool:
    """Return whether a text states a comparison of numbers that is not so, and neither asks nor denies it."""
    if _truth_of(item.node, run) is not False:
        return False
    before, after = text[max(0, item.start - _MOST_AROUND) : item.start], text[item.end : item.end + _MOST_AROUND]
    return not _ASKED.search(before) and not _DENIED.match(after)


def _turned(read: english.Reading, verdicts: Sequence[Verdict], text: str, run: Run) -> Iterator[tuple[int, int]]:
    """Comparisons of numbers that stand for a condition and deny what is said of it: "`x > 3` is false (7 > 3)"."""
    items = [(item, item.node, truth) for item in read.items if (truth := _truth_of(item.node, run)) is not None]
    for claim in (verdict.claim for verdict in verdicts if verdict.claim.kind is Kind.TEST):
        if not isinstance(claim.subject, ast.Compare) or _is_closed_test(claim, run):
            continue
        for item, node, truth in items:
            begin = item.start + text.startswith("(", item.start)
            is_after = begin > claim.end and _FOR.fullmatch(text[claim.end : begin])
            is_before = item.end <= claim.start and _FROM.fullmatch(text[item.end : claim.start])
            means = _means(node, claim.subject) if is_after or is_before else None
            if means is not None and truth != (claim.value is means):
                yield item.start, item.end


def _means(closed: ast.expr | None, condition: ast.Compare) -> bool | None:
    """Return whether a comparison with numbers is the condition (True) or its contrary (False); None for neither."""
    if not isinstance(closed, ast.Compare) or len(closed.ops) != 1 or len(condition.ops) != 1:
        return None
    one, other = type(closed.ops[0]), type(condition.ops[0])
    return True if one is other else False if CONTRARY.get(one) is other else None


def _contrary(node: ast.expr) -> ast.expr | None:
    """The comparison that comes out the other way round, or None where it is none."""
    if not isinstance(node, ast.Compare) or len(node.ops) != 1 or type(node.ops[0]) not in CONTRARY:
        return None
    return ast.Compare(node.left, [CONTRARY[type(node.ops[0])]()], node.comparators)


def _truth_of(node: ast.expr | None, run: Run) -> bool | None:
    """Return how a comparison without names comes out, or None where it is none or cannot be worked out."""
    if not isinstance(node, ast.Compare) or not run.is_closed(node):
        return None
    try:
        truth = evaluate(node, _no_names)
    except Unknown:
        return None
    return truth if isinstance(truth, bool) else None


def _is_closed_test(claim: Claim, run: Run) -> bool:
    return isinstance(claim.value, bool) and claim.subject is not None and run.is_closed(claim.subject)


def _is_made_of(node: ast.expr | None, run: Run) -> bool:
    """Return whether an expression without names is one of the program with values put in.

    Or it is made of numbers and texts that the program writes out, or that a slip would not give.
    """
    if node is None or ast.unparse(node) in run.instances:
        return True
    constants = [each.value for each in ast.walk(node) if isinstance(each, ast.Constant)]
    return all(each in run.constants or run.is_distinct(each) for each in constants)


def _is_known(item: Item, run: Run) -> bool:
    """Return whether a text quotes what is there: a piece of the program, or a value that the run had."""
    if item.kind == "value":
        if isinstance(item.value, int | float) or item.value is None:
            return item.value in run.constants or (item.value is not None and run.is_distinct(item.value))
        if isinstance(item.value, str) and item.value in run.texts:
            return True
        return frozen(item.value) in run.values
    if item.kind == "code":
        return run.has_code(item.value)
    if item.node is None:
        return False
    if isinstance(item.node, ast.Call) and (run.call(item.node) or run.has_call_like(item.node)):
        return True
    if ast.dump(item.node) in run.fragments or ast.unparse(item.node) in run.instances:
        return True
    if (contrary := _contrary(item.node)) is not None and ast.unparse(contrary) in run.instances:
        return True  # "2 <= 3" of a program that asks `x > 3`
    if not run.is_closed(item.node):
        return False
    try:
        return frozen(evaluate(item.node, _no_names)) in run.values and _is_made_of(item.node, run)
    except Unknown:
        return False


def _no_names(name: str) -> Any:
    raise KeyError(name)
