"""Claims of a text that are about the run, as step truth counts them.

"7 > 3" is so whatever happened, and says of a run only what it stands for: that a condition compared 7 with 3. A
comparison of constants is therefore read as the values of the operands of a condition that its own sentence tells, with
the same operator, its contrary or its mirror image: "`x > 3` is true (7 > 3)", "3 < 7, so `x > 3` is true". It is borne
out where some moment of the run has these operands, and refuted where all moments are known and none has. One that
stands beside no such condition, or whose operands the record does not tell, is left out, and so is arithmetic on
constants, unless the program worked out an expression with just these values.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from groundbox.trace.claims import english
from groundbox.trace.claims.items import literal_of
from groundbox.trace.claims.model import Claim, Kind, Proof, Status, Verdict
from groundbox.trace.claims.proving import CONTRARY, MOST_TEXT
from groundbox.trace.claims.run import Run
from groundbox.trace.record.reading import Trace

_MIRRORED: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE, ast.Eq: ast.Eq, ast.NotEq: ast.NotEq,
}  # fmt: skip


class _Closed(NamedTuple):
    """A comparison of constants, and where it stands in the text."""

    node: ast.Compare
    start: int
    end: int


def about_the_run(proof: Proof, trace: Trace) -> list[Verdict]:
    """The verdicts of a text's claims about the run, with comparisons of constants held against operands.

    Args:
        proof: Of a text whose claims were read from its words.
    """
    run = Run(trace)
    read = english.read(proof.text[:MOST_TEXT], run)
    kept, closed, conditions = [], [], []
    for verdict in proof.verdicts:
        claim = verdict.claim
        if claim.subject is None or not run.is_closed(claim.subject):
            kept.append(verdict)
            if claim.kind is Kind.TEST and not claim.general:
                conditions.append(verdict)
        elif isinstance(claim.subject, ast.Compare):
            closed.append(_Closed(claim.subject, claim.start, claim.end))
        elif ast.unparse(claim.subject) in run.instances:
            kept.append(verdict)
    for item in read.items:
        if isinstance(item.node, ast.Compare) and run.is_closed(item.node):
            closed.append(_Closed(item.node, item.start, item.end))
    told = [found for each in _apart(closed) if (found := _operands(each, conditions, proof, run)) is not None]
    about = [verdict for verdict in kept if verdict.status is not Status.OFF_PROGRAM] + told
    return sorted(about, key=lambda verdict: (verdict.claim.sentence, verdict.claim.start))


def _apart(closed: Sequence[_Closed]) -> Iterator[_Closed]:
    """Each place of the text once, however often something was read there."""
    until = -1
    for each in sorted(closed, key=lambda found: (found.start, -found.end)):
        if each.start >= until:
            until = each.end
            yield each


def _operands(closed: _Closed, conditions: Sequence[Verdict], proof: Proof, run: Run) -> Verdict | None:
    """Return what the record says to a comparison as the operands of a condition of its sentence; None for nothing."""
    within = (number for number, (start, end) in enumerate(proof.sentences) if start <= closed.start < end)
    sentence = next(within, -1)
    beside = [each.claim for each in conditions if each.claim.sentence == sentence]
    refuted = False
    # The nearest condition first: it is the one that the comparison most likely stands for.
    for claim in sorted(beside, key=lambda other: max(other.start - closed.end, closed.start - other.end)):
        for condition in ast.walk(claim.subject or ast.Pass()):
            if not isinstance(condition, ast.Compare) or _is_of_working(condition, run):
                continue
            if (said := _as_operands(closed.node, condition)) is None:
                continue
            # All sides as one list, so that they are of one moment.
            sides = ast.List([condition.left, *condition.comparators], ast.Load())
            seen = run.look(sides, said, None, after=-1)
            if seen.step is not None:
                return _verdict(closed, sentence, Status.SUPPORTED, seen.step)
            refuted = refuted or (seen.whole and bool(seen.others))
    return _verdict(closed, sentence, Status.REFUTED, None) if refuted else None


def _is_of_working(condition: ast.Compare, run: Run) -> bool:
    """Tell whether it is no condition but the working of a value: "`b * 2` = 8 * 2"."""
    sides = (condition.left, *condition.comparators)
    return any(not literal_of(side)[0] and run.is_closed(side) for side in sides)


def _as_operands(closed: ast.Compare, condition: ast.Compare) -> list[object] | None:
    """The constants of a comparison in the order of a condition's operands; None where it is another comparison."""
    ones, others = [[type(op) for op in each.ops] for each in (closed, condition)]
    parts = [literal_of(side) for side in (closed.left, *closed.comparators)]
    if not all(is_literal for is_literal, _ in parts):
        return None
    values = [value for _, value in parts]
    if ones == others or (len(ones) == len(others) == 1 and CONTRARY.get(ones[0]) is others[0]):
        return values
    mirrored = [_MIRRORED.get(op) for op in reversed(ones)]
    if mirrored == others or (len(others) == 1 and mirrored == [CONTRARY.get(others[0])]):
        return values[::-1]
    return None


def _verdict(closed: _Closed, sentence: int, status: Status, step: int | None) -> Verdict:
    claim = Claim(
        kind=Kind.TEST, subject=closed.node, value=True, shown=ast.unparse(closed.node), start=closed.start,
        end=closed.end, parts=(), sentence=sentence, certain=True,
    )  # fmt: skip
    message = "" if status is Status.SUPPORTED else "no moment of the run has these operands"
    return Verdict(claim=claim, status=status, step=step, message=message)
