"""Second formulations: several programs for one question, and whether they agree.

Programs that were written apart and come to one answer are more likely right than one alone, and where they differ
something is to be looked at. Each runs in a fresh sandbox with the same files.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final

from groundbox.check.equality import (
    Difference,
    table_difference,
    table_of,
    text_difference,
    value_difference,
)
from groundbox.errors import InvalidArgument
from groundbox.execution import Execution, Warning
from groundbox.sandbox.portal import PORTAL, run_async
from groundbox.values.equal import REL_TOL

TIER: Final = "note"
MOST_CANDIDATES: Final = 20


@dataclasses.dataclass(frozen=True, kw_only=True)
class Candidate:
    """A program that answers the question.

    Attributes:
        options: Arguments of `run` for it alone, such as `mode`, `stdin` or `dialect`.
    """

    source: str
    language: str = "python"
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Agreement:
    """Who agrees with whom. Candidates go by their numbers, from 0.

    Attributes:
        groups: Candidates with the same answer, the largest group first; each is in one, unless it failed.
        winner: The first candidate of the group that is larger than every other, of two members at least, or of the
            only candidate that there is; None where there is no such group.
        failed: Candidates that did not end well.
        executions: What came of each.
        warnings: `formulation.disagree`, when there is more than one answer.
    """

    groups: Sequence[Sequence[int]]
    winner: int | None
    failed: Sequence[int]
    executions: Sequence[Execution]
    warnings: Sequence[Warning]


def compare_candidates(candidates: Sequence[Candidate | str], **options: Any) -> Agreement:
    """See compare_candidates_async."""
    return PORTAL.call(compare_candidates_async(candidates, **options))


async def compare_candidates_async(
    candidates: Sequence[Candidate | str],
    *,
    files: Mapping[str, bytes | str] | None = None,
    ordered: bool = False,
    rel_tol: float = REL_TOL,
    **sandbox: Any,
) -> Agreement:
    """Run every candidate, group those with the same answer, and vote.

    The answer is the table that a candidate has as its value, else the value, else what it printed. A value is
    compared with what another printed, if that one has no value. Names of columns do not count, nor does their order.

    Args:
        candidates: Two or more; a text is a program in Python.
        files: Path in the workdir to content, the same for all.
        ordered: Whether the order of a table's rows, and of printed lines, counts.
        rel_tol: By how much numbers may differ, as a share of the larger one.
        sandbox: Arguments of AsyncSandbox, such as `limits`.

    Raises:
        InvalidArgument: There are fewer than two candidates, or more than 20, or one cannot be run at all.
    """
    asked = [Candidate(source=each) if isinstance(each, str) else each for each in candidates]
    if not 2 <= len(asked) <= MOST_CANDIDATES:
        raise InvalidArgument("candidates", f"must be 2 to {MOST_CANDIDATES} programs, not {len(asked)}")
    if not 0 <= rel_tol < 1:
        raise InvalidArgument("rel_tol", f"must be from 0 to below 1, not {rel_tol!r}")
    executions = [
        await run_async(
            each.source,
            engine="own",
            language=each.language,
            files=dict(files or {}),
            **{**sandbox, **dict(each.options)},
        )
        for each in asked
    ]
    return agreement(executions, ordered=ordered, rel_tol=rel_tol)


def agreement(executions: Sequence[Execution], *, ordered: bool = False, rel_tol: float = REL_TOL) -> Agreement:
    """Who agrees, of runs that were made already."""
    groups: list[list[int]] = []
    failed = []
    for number, execution in enumerate(executions):
        if not execution.ok:
            failed.append(number)
            continue
        # Compared with the first of each group: with a tolerance, being alike is not transitive, and the order of
        # candidates has to decide the same way each time.
        for group in groups:
            if difference_of(executions[group[0]], execution, ordered=ordered, rel_tol=rel_tol) is None:
                group.append(number)
                break
        else:
            groups.append([number])
    # Sorted by the first member where sizes are equal, so that the same answers make the same groups.
    groups.sort(key=lambda group: (-len(group), group[0]))
    tied = len(groups) > 1 and len(groups[0]) == len(groups[1])
    return Agreement(
        groups=groups,
        winner=None if tied or not groups else groups[0][0],
        failed=failed,
        executions=list(executions),
        warnings=_disagreement(executions, groups, ordered=ordered, rel_tol=rel_tol),
    )


def difference_of(one: Execution, other: Execution, *, ordered: bool, rel_tol: float = REL_TOL) -> Difference | None:
    """The first difference of two answers, or None when they are the same."""
    tables = table_of(one), table_of(other)
    if tables[0] is not None and tables[1] is not None:
        return table_difference(tables[0], tables[1], ordered=ordered, rel_tol=rel_tol)
    # A value and a printed number may be one answer: `42` and `print(42)`.
    if one.text is not None or other.text is not None:
        answers = [each.text if each.text is not None else each.stdout.strip() for each in (one, other)]
        return value_difference(*answers, rel_tol=rel_tol)
    return text_difference(one.stdout, other.stdout, ordered=ordered, rel_tol=rel_tol)


def _disagreement(
    executions: Sequence[Execution], groups: Sequence[Sequence[int]], *, ordered: bool, rel_tol: float
) -> Sequence[Warning]:
    if len(groups) < 2:
        return ()
    pairs = [
        (found, one[0], other[0])
        for place, one in enumerate(groups)
        for other in groups[place + 1 :]
        if (found := difference_of(executions[one[0]], executions[other[0]], ordered=ordered, rel_tol=rel_tol))
    ]
    if not pairs:
        return ()
    # Of all pairs, the one that differs least shows best where the readings part.
    smallest, one, other = min(pairs, key=lambda pair: pair[0].count)
    sizes = ", ".join(str(len(group)) for group in groups)
    return (
        Warning(
            code="formulation.disagree",
            tier=TIER,
            message=f"{len(groups)} different answers (candidates with each: {sizes}); candidates {one} and {other} "
            f"differ least: {smallest.words}",
            evidence={"groups": [list(group) for group in groups], "pair": [one, other], "differing": smallest.count},
            hint="Look at that difference: one of the two reads the question, or the data, in another way.",
        ),
    )
