"""One fact changed: a value, an argument, a result, a truth, a name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, Final

from groundbox.trace.proof.claims import Called, Equal, Goes, Has, How, Returned, Truth
from groundbox.trace.proof.falsehoods.subject import NONE, Mutation, Subject, another, ever, held, replace, scalars_in
from groundbox.trace.proof.moments.finder import Finder
from groundbox.trace.proof.records.scene import is_called
from groundbox.trace.proof.values.bounds import Unknowable
from groundbox.trace.proof.values.evaluation import evaluate, no_names
from groundbox.trace.proof.values.likeness import same

_TRUTHS: Final = (
    ("is true", "is false"), ("is false", "is true"), ("does not hold", "holds"),
    ("holds", "fails"), ("fails", "holds"),
)  # fmt: skip


def other_values(subject: Subject) -> Iterator[Mutation]:
    """Another value of a name."""
    for claim, _ in held(subject, Has):
        assert isinstance(claim, Has)
        scalars = list(scalars_in(subject, claim))
        if claim.how is How.IS_NOT or not scalars or not isinstance(claim.value, ast.Constant):
            continue
        start, end, value = scalars[-1]
        if not same(claim.value.value, value) or subject.text[end : claim.end].strip(" `"):
            continue
        other = another(subject, value, ever(subject, claim.subject))
        if other is not NONE and ever(subject, claim.subject):
            yield Mutation(
                "value",
                replace(subject.text, start, end, other),
                f"{value!r} to {other!r} in {subject.text[claim.start : claim.end]!r}",
            )


def other_changes(subject: Subject) -> Iterator[Mutation]:
    """Another value that a name goes from or to."""
    for claim, _ in held(subject, Goes):
        assert isinstance(claim, Goes)
        scalars = list(scalars_in(subject, claim))
        if claim.subject is None or not scalars or isinstance(claim.subject, ast.Tuple):
            continue
        start, end, value = subject.random.choice(scalars)
        said = [node.value for node in claim.values if isinstance(node, ast.Constant)]
        other = another(subject, value, ever(subject, claim.subject))
        is_said = any(same(value, each) for each in said) and len(said) == len(claim.values)
        is_amount = isinstance(claim.by, ast.Constant) and same(claim.by.value, value)
        if other is not NONE and is_said and not is_amount:
            yield Mutation(
                "change",
                replace(subject.text, start, end, other),
                f"{value!r} to {other!r} in {subject.text[claim.start : claim.end]!r}",
            )


def other_arguments(subject: Subject) -> Iterator[Mutation]:
    """Another argument of a call."""
    for claim, _ in held(subject, Called):
        assert isinstance(claim, Called)
        scalars = list(scalars_in(subject, claim))
        if not scalars or not claim.arguments:
            continue
        start, end, value = subject.random.choice(scalars)
        if not any(isinstance(node, ast.Constant) and same(node.value, value) for _, node in claim.arguments):
            continue
        taken = [subject.ledger.memory.read(each, activation.first) for activation in subject.ledger.course.activations
                 if is_called(activation, claim.function) for each in activation.args.values()]  # fmt: skip
        other = another(subject, value, taken)
        if other is not NONE:
            yield Mutation(
                "argument",
                replace(subject.text, start, end, other),
                f"{value!r} to {other!r} in {subject.text[claim.start : claim.end]!r}",
            )


def other_returns(subject: Subject) -> Iterator[Mutation]:
    """Another value that a call returns or yields."""
    for claim, _ in held(subject, Returned):
        assert isinstance(claim, Returned)
        scalars = list(scalars_in(subject, claim))
        if not scalars or not isinstance(claim.value, ast.Constant) or not same(claim.value.value, scalars[-1][2]):
            continue
        start, end, value = scalars[-1]
        if subject.text[end : claim.end].strip(" `"):
            continue
        taken = [
            subject.ledger.memory.read(activation.value, activation.last)
            for activation in subject.ledger.course.returns
        ]
        taken += [
            subject.ledger.memory.read(getattr(subject.ledger.records[t], "v", None), t) for t in subject.ledger.yields
        ]
        other = another(subject, value, taken)
        if other is not NONE:
            yield Mutation(
                "return",
                replace(subject.text, start, end, other),
                f"{value!r} to {other!r} in {subject.text[claim.start : claim.end]!r}",
            )


def other_results(subject: Subject) -> Iterator[Mutation]:
    """Another result of arithmetic."""
    for claim, _ in held(subject, Equal):
        assert isinstance(claim, Equal)
        scalars = list(scalars_in(subject, claim))
        plain = [part for part in claim.parts if _worked_out(part) is not NONE]
        if not scalars or len(plain) < 2:
            continue
        start, end, value = scalars[-1]
        other = another(subject, value, [value])
        if other is NONE or not isinstance(plain[-1], ast.Constant) or not same(plain[-1].value, value):
            continue
        if same(other, _worked_out(plain[0])) or subject.text[end : claim.end].strip(" `"):
            continue
        yield Mutation(
            "arithmetic",
            replace(subject.text, start, end, other),
            f"{value!r} to {other!r} in {subject.text[claim.start : claim.end]!r}",
        )


def _worked_out(node: ast.expr) -> Any:
    try:
        return evaluate(node, no_names)
    except Unknowable:
        return NONE


def other_truths(subject: Subject) -> Iterator[Mutation]:
    """The opposite of what a test gives."""
    finder = Finder(subject.ledger)
    for claim, _ in held(subject, Truth):
        assert isinstance(claim, Truth)
        if claim.test is None:
            continue
        found = [
            finder.search.conditions.tested(claim.test, condition) for condition in subject.ledger.course.conditions
        ]
        results = {result for result in found if result is not None}
        if len(results) != 1 or claim.truth not in results:
            continue
        for old, new in _TRUTHS:
            at = subject.text.rfind(old, claim.start, claim.end + 1)
            if at >= 0 and at + len(old) >= claim.end - 1:
                yield Mutation(
                    "truth",
                    subject.text[:at] + new + subject.text[at + len(old) :],
                    f"{old} to {new} in {subject.text[claim.start : claim.end]!r}",
                )
                break


def other_names(subject: Subject) -> Iterator[Mutation]:
    """Another name for a value."""
    for claim, _ in held(subject, Has, Goes):
        assert isinstance(claim, Has | Goes)
        if not isinstance(claim.subject, ast.Name) or (isinstance(claim, Has) and claim.how is How.IS_NOT):
            continue
        value = claim.value if isinstance(claim, Has) else claim.values[-1]
        name = claim.subject.id
        others = sorted(subject.ledger.names - subject.ledger.functions - {name})
        at = subject.text.find(f"{name}`", claim.start, claim.end)
        if not others or at != claim.start or not isinstance(value, ast.Constant):
            continue
        other = subject.random.choice(others)
        taken = ever(subject, ast.Name(other))
        if not taken or any(same(value.value, each) for each in taken):
            continue
        new = subject.text[:at] + other + subject.text[at + len(name) :]
        yield Mutation("name", new, f"{name} to {other} in {subject.text[claim.start : claim.end]!r}")
