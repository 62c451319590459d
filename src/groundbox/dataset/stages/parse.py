"""Parse: files to problems. Names are made unique, and an input that a problem has already is dropped."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from groundbox.dataset.drop import Drop
from groundbox.dataset.problem import Case, Problem

STAGE = "parse"


def parse(found: Iterable[Problem | Drop], *, most_cases: int | None = None) -> Iterator[Problem | Drop]:
    """The problems with names of their own and each input once, and a drop for all else.

    Args:
        most_cases: Cases beyond so many of one problem are dropped; None for no limit.
    """
    names: set[str] = set()
    for each in found:
        if isinstance(each, Drop):
            yield each
            continue
        problem = _named(each, names)
        fault = _unwritable(problem)
        if fault:
            yield from _all_dropped(problem, "bad-line", fault)
            continue
        kept, drops = _distinct(problem, most_cases)
        yield from drops
        if kept or not problem.cases:
            yield dataclasses.replace(problem, cases=tuple(kept))


def _named(problem: Problem, names: set[str]) -> Problem:
    name, count = problem.id, 1
    while name in names:
        count += 1
        name = f"{problem.id}#{count}"
    names.add(name)
    return problem if name == problem.id else dataclasses.replace(problem, id=name)


def _unwritable(problem: Problem) -> str:
    """Why the problem's texts cannot be written as UTF-8, or ""."""
    try:
        (problem.source + problem.statement + (problem.entry or "")).encode()
    except UnicodeEncodeError as error:
        return f"a text is not Unicode: {error}"
    return ""


def _all_dropped(problem: Problem, reason: str, detail: str) -> Iterator[Drop]:
    for item in [f"{problem.id}/{case.number}" for case in problem.cases] or [problem.id]:
        yield Drop(item=item, problem=problem.id, stage=STAGE, reason=reason, detail=detail)


def _distinct(problem: Problem, most_cases: int | None) -> tuple[list[Case], list[Drop]]:
    first: dict[str, Case] = {}
    kept: list[Case] = []
    drops: list[Drop] = []
    for case in problem.cases:
        earlier = first.setdefault(case.key(), case)
        if earlier is not case:
            drops.append(_dropped(problem, case, "duplicate-input", f"the same as case {earlier.number}"))
        elif most_cases is not None and len(kept) >= most_cases:
            drops.append(_dropped(problem, case, "over-the-case-limit", f"{most_cases} cases were taken"))
        else:
            kept.append(case)
    return kept, drops


def _dropped(problem: Problem, case: Case, reason: str, detail: str) -> Drop:
    return Drop(item=f"{problem.id}/{case.number}", problem=problem.id, stage=STAGE, reason=reason, detail=detail)
