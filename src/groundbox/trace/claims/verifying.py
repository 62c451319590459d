"""Claims as data held against the record: each at its step, or looked for where none is given.

The records are gone through once, with the claims in the order of their steps. Nothing that a narrator works out of
records is used here, and nothing of a claim is executed: subjects and values are parsed, bounded, and evaluated by the
evaluator of traces.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from groundbox.trace import schema
from groundbox.trace.claims.data import MOST_CLAIMS, MOST_CODE, ClaimData
from groundbox.trace.claims.items import literal_of, parsed
from groundbox.trace.claims.model import Kind, Status
from groundbox.trace.claims.run import same, shown
from groundbox.trace.errors import Unknown
from groundbox.trace.evaluate import evaluate, recorded
from groundbox.trace.reading import Trace
from groundbox.trace.state import State
from groundbox.trace.values import kind_of

_WIDTHS: Final = (200, 60, 40)
"""Characters at which writers cut the text of a value."""


class Judged(NamedTuple):
    """What the record says to a claim; see `model.Verdict`."""

    status: Status
    step: int | None = None
    actual: str = ""
    message: str = ""


class Told(NamedTuple):
    """A value as a claim writes it.

    Attributes:
        known: It is a literal, or an expression over literals that gives a plain value.
    """

    text: str
    known: bool
    value: Any


def told(text: str) -> Told:
    """The value that a claim writes. One that is too long is not known."""
    node = parsed(text) if len(text) <= MOST_CODE else None
    if node is None:
        return Told(text, known=False, value=None)
    literal, value = literal_of(node)
    if not literal:
        try:
            value = evaluate(node, _no_name)
        except Unknown:
            return Told(text, known=False, value=None)
    return Told(text, known=True, value=value)


def verify(
    claims: Sequence[ClaimData], trace: Trace, names: frozenset[str], search: Callable[[ClaimData], Judged]
) -> list[Judged]:
    """Hold claims against a run; the answers are in their order.

    Args:
        names: What the program calls things.
        search: Judges a claim that names no step.
    """
    judged: list[Judged] = [_not_found("too many claims were made before it")] * len(claims)
    walk = _Walk(trace, names)
    last = len(trace.records) - 1
    located: list[tuple[int, int]] = []
    for number, claim in enumerate(claims[:MOST_CLAIMS]):
        if len(claim.subject) > MOST_CODE or len(claim.value) > MOST_CODE:
            judged[number] = _not_found(f"more than {MOST_CODE:,} characters are not read")
        elif claim.step is None:
            judged[number] = search(claim)
        elif not 0 <= claim.step <= last:
            judged[number] = _not_found(f"there is no record {claim.step}; the last one is {last}")
        else:
            located.append((claim.step, number))
            if claim.kind in (Kind.RETURN, Kind.ANSWER):  # its arguments are those of the time of the call
                called = walk.call_of(claim.step)
                located += [] if called is None else [(called, number)]
    begun: dict[int, Judged | None] = {}
    for step, number in sorted(located):
        walk.advance(step)
        if step == claims[number].step:
            judged[number] = begun.get(number) or walk.judged(claims[number])
        else:
            begun[number] = walk.other_call(claims[number])
    return judged


class _Walk:
    """The run up to a record."""

    def __init__(self, trace: Trace, names: frozenset[str]) -> None:
        self._trace = trace
        self._names = names
        self._state = State()
        self._frame = 0
        self._calls = {record.f: at for at, record in enumerate(trace.records) if isinstance(record, schema.Call)}

    def advance(self, step: int) -> None:
        """Go on until record `step` has been applied."""
        while self._state.t < step:
            self._follow(self._trace.records[self._state.t + 1])

    def call_of(self, step: int) -> int | None:
        """The record of the call that record `step` belongs to."""
        return self._calls.get(getattr(self._trace.records[step], "f", 0))

    def other_call(self, claim: ClaimData) -> Judged | None:
        """Why the call of the record that was applied last is not the one that a claim speaks of; None if it is."""
        record = self._trace.records[self._state.t]
        return self._misfit(claim, record) if claim.subject and isinstance(record, schema.Call) else None

    def judged(self, claim: ClaimData) -> Judged:
        """What the record that was applied last says to a claim."""
        judge = _JUDGES.get(claim.kind)
        return judge(self, claim) if judge is not None else _not_found(f"{claim.kind} is not held against records yet")

    def _follow(self, record: schema.Record) -> None:
        self._state.apply(record)
        frame = getattr(record, "f", 0)
        if frame:
            self._frame = frame

    def _value(self, claim: ClaimData) -> Judged:
        """An expression of the frame that the record is of has a value right after it."""
        node = parsed(claim.subject)
        if node is None:
            return _not_found("its subject is no expression")
        said, step = told(claim.value), self._state.t
        raw = self._raw(node)
        if raw is not None and not said.known:
            return self._as_shown(claim, raw)
        try:
            actual = evaluate(node, recorded(self._state, self._frame, self._names))
        except Unknown:
            return _not_found(f"`{claim.subject}` cannot be worked out at record {step}")
        if not said.known:
            return _not_found("its value is no literal")
        if not _is_plain(actual):
            return self._as_shown(claim, raw) if raw is not None else _not_found("it is no plain value")
        return _compared(claim, actual, said.value, step)

    def _test(self, claim: ClaimData) -> Judged:
        """A condition comes out true, or false."""
        said = told(claim.value)
        if not said.known or not isinstance(said.value, bool):
            return _not_found("the value of a test is True or False")
        node = parsed(claim.subject)
        if node is None:
            return _not_found("its subject is no expression")
        try:
            actual = bool(evaluate(node, recorded(self._state, self._frame, self._names)))
        except Unknown:
            return _not_found(f"`{claim.subject}` cannot be worked out at record {self._state.t}")
        return _compared(claim, actual, said.value, self._state.t)

    def _call(self, claim: ClaimData) -> Judged:
        """A function is called with arguments."""
        record = self._trace.records[self._state.t]
        if not isinstance(record, schema.Call):
            return _refuted(self._state.t, "no call is made at this record")
        return self._misfit(claim, record) or Judged(Status.SUPPORTED, self._state.t)

    def _return(self, claim: ClaimData) -> Judged:
        """A call gives a value; which call it is was looked at when it was made."""
        record = self._trace.records[self._state.t]
        if not isinstance(record, schema.Return | schema.Yield):
            return _refuted(self._state.t, "nothing is returned at this record")
        return self._is_value(claim, record.v)

    def _input(self, claim: ClaimData) -> Judged:
        """The run was given a value."""
        record = self._trace.records[self._state.t]
        if not isinstance(record, schema.Call) or record.p:
            return _refuted(self._state.t, "the run is given nothing at this record")
        values = list(record.args.values()) if not claim.subject else [record.args.get(claim.subject)]
        found = [self._is_value(claim, value) for value in values]
        return next((each for each in found if each.status is Status.SUPPORTED), found[0] if found else _not_found(""))

    def _answer(self, claim: ClaimData) -> Judged:
        """The whole run gives a value: what the asked call returns, or what was printed."""
        return self._return(claim) if self._trace.header.entry is not None else self._printed(claim)

    def _output(self, claim: ClaimData) -> Judged:
        """A text is printed."""
        record = self._trace.records[self._state.t]
        if not isinstance(record, schema.Out):
            return _refuted(self._state.t, "nothing is printed at this record")
        said = told(claim.value)
        if not said.known or record.elided:
            return _not_found("the text is not known whole")
        return _compared(claim, record.text, said.value, self._state.t)

    def _printed(self, claim: ClaimData) -> Judged:
        outs = [r for r in self._trace.records[: self._state.t + 1] if isinstance(r, schema.Out) and r.s == 1]
        said = told(claim.value)
        if not said.known or any(out.elided for out in outs):
            return _not_found("the text is not known whole")
        return _compared(claim, "".join(out.text for out in outs), said.value, self._state.t)

    def _is_value(self, claim: ClaimData, raw: schema.V) -> Judged:
        said = told(claim.value)
        try:
            actual = self._state.python_value(raw)
        except Unknown:
            return self._as_shown(claim, raw)
        if not said.known:
            return self._as_shown(claim, raw)
        return _compared(claim, actual, said.value, self._state.t)

    def _as_shown(self, claim: ClaimData, raw: schema.V) -> Judged:
        """A value that is no literal, by its text: `Account(owner='Ada')`, `[1, … 9 more …, 4]`."""
        step = self._state.t
        widths = dict.fromkeys((len(claim.value), len(claim.value) + 8, *_WIDTHS, 10 * MOST_CODE))
        texts = [self._state.text(raw, width) for width in widths]
        if claim.value in texts:
            return Judged(Status.SUPPORTED, step)
        return _refuted(step, f"it is {_cut(texts[2])} at record {step}", actual=_cut(texts[2]))

    def _raw(self, node: ast.expr) -> schema.V | None:
        """The recorded value that a name, an attribute or an item is; None if it is not that plain."""
        try:
            return self._found(node)
        except (KeyError, Unknown, TypeError):
            return None

    def _found(self, node: ast.expr) -> schema.V | None:
        if isinstance(node, ast.Name):
            return self._state.lookup(self._frame, node.id)
        if not isinstance(node, ast.Attribute | ast.Subscript):
            return None
        owner = self._found(node.value)
        if owner is None or kind_of(owner) != "ref":
            return None
        obj = self._state.heap[owner["ref"]]
        if isinstance(node, ast.Attribute):
            return obj.attrs[node.attr]
        index = evaluate(node.slice, recorded(self._state, self._frame, self._names))
        if obj.pairs is not None or obj.items is None or type(index) is not int:
            return None
        item = obj.items.get(index if index >= 0 else len(obj.items) + index)
        return item[0] if item is not None else None

    def _misfit(self, claim: ClaimData, call: schema.Call) -> Judged | None:
        """Why a call that was made just now is not the one that a claim speaks of; None if it is."""
        node, step = parsed(claim.subject), self._state.t
        function = node.func if isinstance(node, ast.Call) else node
        if not isinstance(function, ast.Name | ast.Attribute):
            return _not_found("its subject is no call")
        said = function.id if isinstance(function, ast.Name) else function.attr
        *owner, name = call.name.split(".")
        if said != name and not (name == "__init__" and owner and said == owner[-1]):
            return _refuted(step, f"record {step} is a call of `{call.name}`")
        if not isinstance(node, ast.Call):
            return None
        given = dict(call.args)
        if owner and owner[-1] != "<locals>" and given and len(node.args) + len(node.keywords) < len(given):
            given.pop(next(iter(given)))  # self
        places = [*zip(given, node.args, strict=False), *((each.arg, each.value) for each in node.keywords)]
        if len(node.args) > len(given):
            return _refuted(step, f"`{call.name}` was given {len(given)} arguments")
        for parameter, argument in places:
            if parameter is None or parameter not in given:
                return _not_found("its arguments are not those of the parameters")
            found = self._is_value(
                ClaimData(kind=Kind.VALUE, subject=parameter, value=ast.unparse(argument)), given[parameter]
            )
            if found.status is not Status.SUPPORTED:
                return found
        return None


def _is_plain(value: Any) -> bool:
    return not type(value).__module__.startswith("groundbox")


def _compared(claim: ClaimData, actual: Any, said: Any, step: int) -> Judged:
    if same(actual, said, _decimals(claim.value)):
        return Judged(Status.SUPPORTED, step)
    about = f"`{_cut(claim.subject)}`" if claim.subject else "it"
    return _refuted(step, f"{about} is {shown(actual)} at record {step}", actual=shown(actual))


def _decimals(text: str) -> int | None:
    whole, point, digits = text.partition(".")
    return len(digits) if point and digits.isdigit() and whole.lstrip("-").isdigit() else None


def _refuted(step: int, message: str, *, actual: str = "") -> Judged:
    return Judged(Status.REFUTED, step, actual, message)


def _not_found(message: str) -> Judged:
    return Judged(Status.NOT_FOUND, message=message)


def _cut(text: str) -> str:
    return text if len(text) <= 120 else f"{text[:120]}…"


def _no_name(name: str) -> Any:
    raise KeyError(name)


_JUDGES: Final[Mapping[Kind, Callable[[_Walk, ClaimData], Judged]]] = {
    Kind.VALUE: _Walk._value,
    Kind.TEST: _Walk._test,
    Kind.CALL: _Walk._call,
    Kind.RETURN: _Walk._return,
    Kind.INPUT: _Walk._input,
    Kind.OUTPUT: _Walk._output,
    Kind.ANSWER: _Walk._answer,
}
