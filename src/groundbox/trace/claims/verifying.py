"""Claims as data held against the record: each at its step, or looked for where none is given.

The records are gone through once, with the claims in the order of their steps. Nothing that a narrator works out of
records is used here. The run up to a record, in which subjects are worked out, is `walk.py`'s, and where control went
`course.py`'s.
"""

from __future__ import annotations

import ast
import functools
import heapq
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from groundbox.trace import schema
from groundbox.trace.claims.changes import RecordedChange, said_change
from groundbox.trace.claims.course import (
    LoopRun,
    header_of,
    header_text,
    lines_of,
    range_of,
    truth_of,
)
from groundbox.trace.claims.data import MOST_CLAIMS, MOST_CODE, ClaimData
from groundbox.trace.claims.equal import same, shown
from groundbox.trace.claims.model import Kind, Status
from groundbox.trace.claims.run import Run
from groundbox.trace.claims.told import Told, parsed_call, parsed_code, told
from groundbox.trace.claims.walk import NOWHERE, Walk, closed, is_of
from groundbox.trace.errors import Unknown
from groundbox.trace.reading import Trace
from groundbox.trace.values import ref_of

_WIDTHS: Final = (200, 120, 80, 60, 40)
"""Characters at which writers cut the text of a value."""
_TESTS: Final = re.compile(r"(true )?tests since (-?\d{1,12}): (.+)", re.DOTALL)


class Judged(NamedTuple):
    """A record's word on a claim; see `model.Verdict`."""

    status: Status
    step: int | None = None
    actual: str = ""
    message: str = ""


def verify(claims: Sequence[ClaimData], trace: Trace, run: Run, search: Callable[[ClaimData], Judged]) -> list[Judged]:
    """Hold claims against a run; the answers are in their order.

    Args:
        search: Judges a claim that names no step.
    """
    judged: list[Judged] = [_not_found("too many claims were made before it")] * len(claims)
    walk = _Judge(trace, run)
    last = len(trace.records) - 1
    located: list[tuple[int, int]] = []
    for number, claim in enumerate(claims[:MOST_CLAIMS]):
        if len(claim.subject) > MOST_CODE or len(claim.value) > MOST_CODE:
            judged[number] = _not_found(f"more than {MOST_CODE:,} characters are not read")
        elif claim.step is None:
            is_named = claim.kind is Kind.VALUE and not claim.value
            judged[number] = walk.spoken(claim) if is_named else search(claim)
        elif not 0 <= claim.step <= last:
            judged[number] = _not_found(f"there is no record {claim.step}; the last one is {last}")
        else:
            located.append((claim.step, number))
            if claim.kind in (Kind.RETURN, Kind.ANSWER):  # its arguments are those of the time of the call
                called = walk.call_of(claim.step)
                located += [] if called is None else [(called, number)]
    begun: dict[int, Judged | None] = {}
    heapq.heapify(located)
    while located:
        step, number = heapq.heappop(located)
        walk.advance(step)
        claim = claims[number]
        if step < (claim.step or 0):
            begun[number] = walk.other_call(claim)
        elif step > (claim.step or 0):
            judged[number] = walk.judged_later(claim, judged[number])
        else:
            judged[number] = begun.get(number) or walk.judged(claim)
            later = walk.later(claim, judged[number])
            if later == step:
                judged[number] = walk.judged_later(claim, judged[number])
            elif later is not None:
                heapq.heappush(located, (later, number))
    return judged


class _Judge(Walk):
    """Holds claims against the run up to a record."""

    def other_call(self, claim: ClaimData) -> Judged | None:
        """Why the call of the record that was applied last is not the one that a claim speaks of; None if it is."""
        record = self.records[self.state.t]
        return self._misfit(claim, record) if claim.subject and isinstance(record, schema.Call) else None

    def judged(self, claim: ClaimData) -> Judged:
        """Judge a claim by the record that was applied last."""
        if self.left <= 0:
            return _not_found("too much had to be looked at for the claims before it")
        self.left -= 1
        return _JUDGES[claim.kind](self, claim)

    # values and conditions

    def _value(self, claim: ClaimData) -> Judged:
        """An expression of the frame that goes on after the record has a value then; without one, it is spoken of."""
        node = parsed_code(claim.subject)
        if node is None:
            return _not_found("its subject is no expression")
        step = self.state.t
        if not claim.value:
            return self.spoken(claim)
        said = told(claim.value)
        is_code = said.node is not None and (said.worked or not said.known)
        is_code = is_code and not isinstance(said.node, ast.Set)  # whose items have no order: `{1.0, nan}`
        fits = self.fits(node, said.node) if is_code and said.node is not None else None
        if fits:
            return Judged(Status.SUPPORTED, step)
        raw = self.raw(node)
        if raw is not NOWHERE and not said.known:
            return self._as_shown(claim, raw)
        try:
            actual = self.evaluated(node)
        except Unknown:
            return _not_found(f"`{_cut(claim.subject)}` cannot be worked out at record {step}")
        if fits is False:
            return _refuted(step, f"`{_cut(claim.subject)}` is {shown(actual)} at record {step}", actual=shown(actual))
        if not _is_plain(actual):
            return self._as_shown(claim, raw) if raw is not NOWHERE else _not_found("it is no plain value")
        return _compared(claim, actual, said.value, step) if said.known else self._as_text(claim, actual)

    def later(self, claim: ClaimData, found: Judged) -> int | None:
        """The record at which a line has changed all that it changes, if a claim is judged once more then.

        Code that cannot be worked out may be given to a target; what changes may get its place only afterwards.
        """
        if claim.kind is Kind.MUTATION and found.status is Status.SUPPORTED and not self._owns(claim, self.state.t):
            return self.settled()
        if claim.kind is not Kind.VALUE or found.status is not Status.NOT_FOUND or not claim.value:
            return None
        node = parsed_code(claim.subject)
        targets = self.targets_of(node) if node is not None else ()
        at = self.settled()
        if targets and isinstance(targets[0], ast.Return):
            following = self.records[at + 1] if at + 1 < len(self.records) else None
            return at + 1 if isinstance(following, schema.Return) and following.f == self.frame else None
        return at if targets and at > self.state.t else None

    def judged_later(self, claim: ClaimData, found: Judged) -> Judged:
        """Judge a claim about an earlier record by the one that was applied last; see `later`."""
        if claim.kind is not Kind.MUTATION:
            return self.given(claim)
        step = claim.step or 0
        return found if self._owns(claim, step) else _refuted(step, f"what changes at record {step} is something else")

    def _owns(self, claim: ClaimData, step: int) -> bool:
        """Whether the object that a change is told of is, now, the one that changes at a record."""
        change, record = said_change(claim.subject), self.records[step]
        owner = self.raw(change.owner) if change is not None else NOWHERE
        return owner is not NOWHERE and isinstance(record, schema.Mutate) and ref_of(owner) == record.id

    def given(self, claim: ClaimData) -> Judged:
        """Code that cannot be worked out has the value that its line has given to its target."""
        node, record = parsed_code(claim.subject), self.records[self.state.t]
        if isinstance(record, schema.Return):
            return self._is_literally(claim, record.v)
        targets = self.targets_of(node) if node is not None else ()
        held = [self.raw(target) for target in targets if isinstance(target, ast.expr)]
        found = [self._is_literally(claim, raw) for raw in held if raw is not NOWHERE]
        if not found or (len(found) > 1 and all(each.status is not Status.SUPPORTED for each in found)):
            return _not_found(f"`{_cut(claim.subject)}` cannot be worked out")
        return next((each for each in found if each.status is Status.SUPPORTED), found[0])

    def _is_literally(self, claim: ClaimData, raw: schema.V) -> Judged:
        """Like `_is_value`; what is no literal, as workings that cannot be worked out, refutes nothing."""
        found = self._is_value(claim.value, raw)
        is_code = found.status is Status.REFUTED and not told(claim.value).known
        return _not_found(f"`{_cut(claim.subject)}` cannot be worked out") if is_code else found

    def spoken(self, claim: ClaimData) -> Judged:
        """Code of the program is named, and nothing said of it."""
        node = parsed_code(claim.subject)
        names = [getattr(each, "id", getattr(each, "attr", "")) for each in ast.walk(node)] if node is not None else []
        is_name = isinstance(node, ast.Name | ast.Tuple) or (node is not None and _is_dotted(node))
        if is_name and all(name in self.names for name in names if name):
            return Judged(Status.SUPPORTED)
        if node is not None and ast.unparse(node) in self.code:
            return Judged(Status.SUPPORTED)
        return _not_found(f"the program has no `{_cut(claim.subject)}`")

    def _test(self, claim: ClaimData) -> Judged:
        """A condition comes out true, or false; or why, as a comparison with values in place of names."""
        step = self.state.t
        said = told(claim.value)
        node = parsed_code(claim.subject)
        if node is None or said.node is None:
            return self._case(claim, said)
        if not said.known or said.worked:
            return self._reason(claim, node, said.node)
        if not isinstance(said.value, bool):
            return _not_found("the value of a test is True or False")
        if (outcome := self.outcome(node)) is not None:
            return _compared(claim, outcome, said.value, step)
        if (identical := self.identity(node)) is not None:
            return _compared(claim, identical, said.value, step)
        try:
            return _compared(claim, bool(self.evaluated(node)), said.value, step)
        except Unknown:
            return _not_found(f"`{_cut(claim.subject)}` cannot be worked out at record {step}")

    def _goes_into(self, claim: ClaimData, body: range, header_end: int, said: bool) -> Judged:
        """Whether control went into a block next."""
        step = self.state.t
        if body.start <= header_end:
            return _not_found("its block stands on its own line")
        following = self.lines.after(self.frame, step)
        return _compared(claim, following is not None and following in body, said, step)

    def _case(self, claim: ClaimData, said: Told) -> Judged:
        """`case P` matches, or does not."""
        record = self.records[self.state.t]
        statements = self.course.statements.get(record.n, ()) if isinstance(record, schema.Line) else ()
        for each in statements:
            if isinstance(each, ast.match_case) and claim.subject == f"case {ast.unparse(each.pattern)}":
                return self._goes_into(claim, lines_of(each.body), each.pattern.end_lineno or 0, said.value is True)
        return _not_found("its subject is no expression")

    def _reason(self, claim: ClaimData, node: ast.expr, said: ast.expr) -> Judged:
        """`3 > 1` for `xs[j] > xs[j + 1]`: true, and a part of the condition with its values."""
        step = self.state.t
        value = told(claim.value)
        try:
            holds = value.value if value.known else self.evaluated(said)
        except Unknown:
            return _not_found("what it gives as its reason cannot be worked out")
        if holds is not True:
            return _refuted(step, "what it gives as its reason is not so")
        is_known = True
        for part in ast.walk(node):
            self.left -= 1
            if isinstance(part, ast.Compare | ast.BinOp | ast.Call | ast.Subscript | ast.UnaryOp) and self.left > 0:
                fits = self.fits(part, said)
                if fits:
                    return Judged(Status.SUPPORTED, step)
                is_known = is_known and self.is_known(part)
        if not is_known:
            return _not_found(f"`{_cut(claim.subject)}` cannot be worked out at record {step}")
        return _refuted(step, f"`{_cut(claim.subject)}` has no such part with these values at record {step}")

    # calls

    def _call(self, claim: ClaimData) -> Judged:
        """A function is called with arguments."""
        record = self.records[self.state.t]
        if not isinstance(record, schema.Call):
            return _refuted(self.state.t, "no call is made at this record")
        return self._misfit(claim, record) or Judged(Status.SUPPORTED, self.state.t)

    def _return(self, claim: ClaimData) -> Judged:
        """A call gives a value; which call it is was looked at when it was made."""
        record = self.records[self.state.t]
        if not isinstance(record, schema.Return | schema.Yield):
            return _refuted(self.state.t, "nothing is returned at this record")
        return self._is_value(claim.value, record.v) if claim.value else Judged(Status.SUPPORTED, self.state.t)

    def _input(self, claim: ClaimData) -> Judged:
        """The run was given a value."""
        record = self.records[self.state.t]
        if not isinstance(record, schema.Call) or record.p:
            return _refuted(self.state.t, "the run is given nothing at this record")
        if claim.subject and claim.subject not in record.args:
            return _not_found(f"`{record.name}` has no parameter of this name")
        values = [record.args[claim.subject]] if claim.subject else list(record.args.values())
        found = [self._is_value(claim.value, value) for value in values]
        return next((each for each in found if each.status is Status.SUPPORTED), found[0] if found else _not_found(""))

    def _answer(self, claim: ClaimData) -> Judged:
        """The whole run gives a value: what the asked call returns, what was printed, or the exception it ends with."""
        record, entry = self.records[self.state.t], self.trace.header.entry
        if isinstance(record, schema.Raise):
            is_last = not any(isinstance(each, schema.Raise | schema.Return) and self.parents.get(each.f, 0) == 0
                              for each in self.records[self.state.t + 1 :])  # fmt: skip
            said = self._raise(ClaimData(kind=Kind.RAISE, subject=claim.value))
            return said if is_last else _refuted(self.state.t, "the run does not end with this exception")
        if entry is None:
            return self._printed(claim)
        if isinstance(record, schema.Return) and record.f in self.calls:
            call = self.records[self.calls[record.f]]
            if isinstance(call, schema.Call) and call.p == 0 and call.name.split(".")[-1] == entry.call.split(".")[-1]:
                return self._return(claim)
        return _refuted(self.state.t, "this record is not the end of the run")

    def _misfit(self, claim: ClaimData, call: schema.Call) -> Judged | None:
        """Why a call that was made just now is not the one that a claim speaks of; None if it is."""
        (node, texts), step = parsed_call(claim.subject), self.state.t
        function = node.func if isinstance(node, ast.Call) else node
        if not isinstance(function, ast.Name | ast.Attribute):
            return _not_found("its subject is no call")
        said = function.id if isinstance(function, ast.Name) else function.attr
        owner = call.name.split(".")[:-1]
        of_class = (
            function.value.id if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) else ""
        )
        is_other = owner[-1:] != [of_class] and self.course.defines(of_class, said)
        if is_other or not is_of(call, said):
            return _refuted(step, f"record {step} is a call of `{_cut(call.name)}`")
        if not isinstance(node, ast.Call):
            return None
        if self.course.is_property(call):
            return _not_found("a property is given no arguments")
        given = dict(call.args)
        if len(node.args) + len(node.keywords) < self.course.required(call) - _has_object(call):
            return _refuted(step, f"`{_cut(call.name)}` was given more arguments")
        if owner and owner[-1] != "<locals>" and len(node.args) + len(node.keywords) < len(given):
            given.pop(next(iter(given)))  # self
        is_spread = self.course.spreads(call) or len(node.args) > len(given)
        if is_spread or any(keyword.arg not in given for keyword in node.keywords):
            return self._spread(node, given, call, texts)
        places = [*zip(given, node.args, strict=False), *((str(each.arg), each.value) for each in node.keywords)]
        found = (self._misfitting(argument, given[parameter], call, texts) for parameter, argument in places)
        return next((each for each in found if each is not None), None)

    def _spread(
        self, node: ast.Call, given: Mapping[str, schema.V], call: schema.Call, texts: Mapping[str, str]
    ) -> Judged | None:
        """Arguments that `*args` and `**options` took: each has to be among what they hold, those by place in place."""
        placed = self._by_place(node, call)
        if placed is None:
            return _refuted(self.state.t, f"`{_cut(call.name)}` was given another number of arguments")
        for argument, value in placed:
            if (misfit := self._misfitting(argument, value, call, texts)) is not None:
                return misfit
        held: list[schema.V] = []
        keys = set(given)
        for value in given.values():
            obj = self.state.heap.get(ref_of(value) or 0)
            held += value["tuple"] if isinstance(value, dict) and "tuple" in value else [value]
            held += [pair[1] for pair in obj.pairs.values()] if obj is not None and obj.pairs is not None else []
            keys |= (
                {str(pair[0]) for pair in obj.pairs.values()} if obj is not None and obj.pairs is not None else set()
            )
        if any(keyword.arg is not None and keyword.arg not in keys for keyword in node.keywords):
            return _refuted(self.state.t, f"`{_cut(call.name)}` was given no argument of this name")
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            if all(self._misfitting(argument, value, call, texts) is not None for value in held):
                return _refuted(self.state.t, f"`{_cut(call.name)}` was not given one of these arguments")
        return None

    def _by_place(self, node: ast.Call, call: schema.Call) -> list[tuple[ast.expr, schema.V]] | None:
        """Arguments with what the call has of them, as far as that is known; None if there are too many or too few."""
        takes = self.course.arguments(call)
        if takes is None or any(isinstance(each, ast.Starred) for each in node.args):
            return []
        names = [each.arg for each in (*takes.posonlyargs, *takes.args)][_has_object(call) :]
        named = {each.arg for each in (*takes.args, *takes.kwonlyargs)}
        found = [(each, call.args[name]) for name, each in zip(names, node.args, strict=False) if name in call.args]
        found += [
            (each.value, call.args[each.arg]) for each in node.keywords if each.arg in named and each.arg in call.args
        ]
        rest = call.args.get(takes.vararg.arg) if takes.vararg is not None else None
        is_named = takes.vararg is not None and any(each.arg == takes.vararg.arg for each in node.keywords)
        if isinstance(rest, dict) and "tuple" in rest and not rest.get("elided") and not is_named:
            extra = node.args[len(names) :]
            if len(extra) != len(rest["tuple"]):
                return None
            found += zip(extra, rest["tuple"], strict=True)
        return found

    def _misfitting(
        self, argument: ast.expr, given: schema.V, call: schema.Call, texts: Mapping[str, str]
    ) -> Judged | None:
        """Why an argument is not what a call was given; `...` may be anything, a name is one of the caller's."""
        if isinstance(argument, ast.Constant) and argument.value is ...:
            return None
        if isinstance(argument, ast.Name) and argument.id in texts:
            found = self._as_shown(ClaimData(kind=Kind.VALUE, value=texts[argument.id]), given)
            return None if found.status is Status.SUPPORTED else found
        if isinstance(argument, ast.Name):
            try:
                held = self.state.lookup(call.p, argument.id)
            except (KeyError, Unknown):
                if closed(argument)[0]:  # `inf`
                    found = self._is_value(argument.id, given)
                    return None if found.status is Status.SUPPORTED else found
                return None if argument.id in call.args else _not_found(f"the caller has no `{argument.id}`")
            fits = held == given or argument.id in call.args
            return None if fits else _refuted(self.state.t, f"`{argument.id}` is not what was given")
        text = ast.unparse(argument)
        if not told(text).known and (fits := self.is_given(argument, given, call.p)) is not None:
            return None if fits else _refuted(self.state.t, f"`{_cut(text)}` is not what was given")
        if not told(text).known and text in self.code:
            return None  # the program's own code, of which the value is not known
        found = self._is_value(text, given)
        return None if found.status is Status.SUPPORTED else found

    # loops

    def _iteration(self, claim: ClaimData) -> Judged:
        """An iteration of a loop begins, or is under way, with this number."""
        step, said = self.state.t, told(claim.value)
        runs = [run for run in self.course.open_runs(self.own) if self._is_loop(run, claim.subject)]
        if not runs:
            return _not_found(f"record {step} is in no such loop")
        run, record = runs[-1], self.records[step]
        if run.unsure:
            return _not_found("the iterations of this loop are not recorded")
        if isinstance(record, schema.Fold) and said.value == run.count - record.iterations + 1:
            return Judged(Status.SUPPORTED, step)  # the first of those that were folded
        if isinstance(record, schema.Fold):
            return _compared(claim, run.count, said.value, step)
        line = self.lines.before(self.own, step)
        # The test of a `while` on one line is made before its line event, but for the first.
        has_begun = run.loop.inline and run.count > 0 and isinstance(run.loop.node, ast.While)
        is_header = line in run.loop.header and not has_begun
        begins = self.lines.begins(self.own, step, run.loop) if is_header else None
        return _of_run(run, claim, run.count if begins is None else begins, said, step)

    def _count(self, claim: ClaimData) -> Judged:
        """How often the loop ran whose run ended last; how often a function was called; how many calls were made."""
        step, said = self.state.t, told(claim.value)
        if claim.subject.startswith("calls since "):
            return self._calls_since(claim, said)
        if tests := _TESTS.fullmatch(claim.subject):
            return self._tests_since(claim, said, int(tests[2]), tests[3], only_true=bool(tests[1]))
        run = self._ended(claim.subject)
        if run is not None:
            if run.unsure or not (run.count or run.exact):
                return _not_found("the iterations of this loop are not recorded")
            return _of_run(run, claim, run.count, said, step)
        if claim.subject in self.functions:
            self.left -= step
            calls = [each for each in self.records[: step + 1] if isinstance(each, schema.Call)]
            return _compared(claim, sum(each.name.split(".")[-1] == claim.subject for each in calls), said.value, step)
        fold = self.records[step]
        if isinstance(fold, schema.Fold) and claim.subject == "folded iterations":
            return _compared(claim, fold.iterations, said.value, step)
        return _not_found("no such loop has ended, and no function is of this name")

    def _calls_since(self, claim: ClaimData, said: Told) -> Judged:
        """How many calls a frame has made after one record, up to this one."""
        first = claim.subject.removeprefix("calls since ")
        if not first.isdecimal() or len(first) > 12 or int(first) >= self.state.t:
            return _not_found("it names no record to count from")
        records = [self.records[at] for at in range(int(first) + 1, self.state.t + 1)]
        self.left -= len(records)
        begun = self.records[self.state.t]
        parent = getattr(begun, "p", None)
        made = [r for r in records if isinstance(r, schema.Call | schema.Resume) and r.p == parent]
        named = [r for r in made if not (isinstance(r, schema.Call) and r.name.endswith(">"))]
        return _compared(claim, len(named), said.value, self.state.t)

    def _tests_since(self, claim: ClaimData, said: Told, since: int, code: str, *, only_true: bool) -> Judged:
        """How often a frame has come to a test after a record, up to this one; or to one that came out true."""
        node = parsed_code(code)
        if since >= self.state.t:
            return _not_found("it names no record to count from")
        asked = {
            statement.lineno: statement
            for row in self.course.statements.values()
            for statement in row
            if node is not None and isinstance(statement, ast.If) and ast.dump(statement.test) == ast.dump(node)
        }
        if not asked:
            return _not_found("the program has no such test")
        first = self.records[max(0, since + 1)]
        if isinstance(first, schema.Line) and first.n in asked:  # another statement may ask for the same
            asked = {first.n: asked[first.n]}
        count = 0
        for at in range(max(0, since + 1), self.state.t + 1):
            record = self.records[at]
            self.left -= 1
            if isinstance(record, schema.Line) and record.f == self.own and record.n in asked:
                statement = asked[record.n]
                outcome = truth_of(statement.test, self.lines.tests(self.own, at, header_of(statement)))
                if outcome is None and only_true:
                    return _not_found("not all of these tests are recorded")
                count += outcome is True or not only_true
        return _compared(claim, count, said.value, self.state.t)

    def _exit(self, claim: ClaimData) -> Judged:
        """How a loop has ended."""
        step, said = self.state.t, told(claim.value)
        run = self._ended(claim.subject)
        if run is None:
            return _not_found("no such loop has ended")
        if run.exit is None or run.unsure:
            return _not_found("no record tells how this loop ended")
        return _compared(claim, run.exit, said.value, step)

    def _ended(self, subject: str) -> LoopRun | None:
        """The run of a loop that ended last, of those that the record's frame has run."""
        runs = [run for run in self.course.ended(self.own) if self._is_loop(run, subject)]
        return max(runs, key=lambda run: run.end, default=None)

    def _is_loop(self, run: LoopRun, subject: str) -> bool:
        node = run.loop.node
        return subject in ("", f"line {node.lineno}", header_text(node)) or _is_same_header(node, subject)

    # what happens to objects

    def _mutation(self, claim: ClaimData) -> Judged:
        """An object is changed as a statement says; `...` in it stands for the value."""
        step, record, before = self.state.t, self.records[self.state.t], self.before
        if not isinstance(record, schema.Mutate) or before is None:
            return _refuted(step, "nothing is changed at this record")
        change = said_change(claim.subject)
        if change is None:
            return _not_found("its subject is no change")
        found = RecordedChange(self.state, record, before).items(change)
        if found is None:
            return _refuted(step, f"record {step} is another change", actual=record.op)
        if len(found) != 1:
            return self._are_items(claim, found)
        value = claim.value or (ast.unparse(change.item) if change.item is not None else "")
        if change.item is not None and claim.value and (other := self._misfitting(change.item, found[0], _NO_CALL, {})):
            return other
        return self._is_value(value, found[0]) if value else Judged(Status.SUPPORTED, step)

    def _are_items(self, claim: ClaimData, found: Sequence[schema.V]) -> Judged:
        """Several items came in, or went out, in whatever order."""
        said = told(claim.value)
        if said.known and isinstance(said.value, list | tuple):
            values = [self.plain(raw) for raw in found]
            if len(values) == len(said.value) and all(any(same(one, other) for other in said.value) for one in values):
                return Judged(Status.SUPPORTED, self.state.t)
        texts = [self.state.text(raw, 60) for raw in found]
        if sorted(texts) == sorted(claim.value.removeprefix("[").removesuffix("]").split(", ")) or claim.value == (
            f"[{', '.join(texts)}]"
        ):
            return Judged(Status.SUPPORTED, self.state.t)
        return _refuted(self.state.t, f"it is {_cut(', '.join(texts))} at record {self.state.t}")

    def _output(self, claim: ClaimData) -> Judged:
        """A text is printed."""
        step, record = self.state.t, self.records[self.state.t]
        if not isinstance(record, schema.Out):
            return _refuted(step, "nothing is printed at this record")
        if claim.subject and claim.subject != {1: "stdout", 2: "stderr"}[record.s]:
            return _refuted(step, "it is written to the other stream")
        if isinstance(told(claim.value).value, int):
            return _compared(claim, len(record.text) + record.elided + len(record.tail), told(claim.value).value, step)
        return self._is_value(claim.value, record.text) if not record.elided else _not_found("not known whole")

    def _printed(self, claim: ClaimData) -> Judged:
        outs = [r for r in self.records if isinstance(r, schema.Out) and r.s == 1]
        if any(out.elided for out in outs):
            return _not_found("the text is not known whole")
        return self._is_value(claim.value, "".join(out.text for out in outs))

    # exceptions and statements

    def _raise(self, claim: ClaimData) -> Judged:
        """An exception comes up."""
        step, record = self.state.t, self.records[self.state.t]
        if not isinstance(record, schema.Raise):
            return _refuted(step, "no exception comes up at this record")
        name, bracket, _ = claim.subject.partition("(")
        if name not in (record.type, record.type.rpartition(".")[2]):
            return _refuted(step, f"the exception of record {step} is a `{_cut(record.type)}`")
        if not bracket:
            return Judged(Status.SUPPORTED, step)
        for width in (80, 100_000, *_WIDTHS):
            if claim.subject == f"{name}({', '.join(self.state.text(each, width) for each in record.args)})":
                return Judged(Status.SUPPORTED, step)
        return _refuted(step, "the exception of this record has other arguments")

    def _catch(self, claim: ClaimData) -> Judged:
        """A handler takes over: control goes into it; False says that it does not."""
        step, record = self.state.t, self.records[self.state.t]
        if not isinstance(record, schema.Line):
            return _refuted(step, "no handler is at this record")
        for each in self.course.statements.get(record.n, ()):
            if isinstance(each, ast.ExceptHandler):
                kind = f"except {ast.unparse(each.type)}" if each.type is not None else "except"
                if claim.subject != kind:
                    return _refuted(step, f"the handler of record {step} is another one")
                told = self.lines.tests(self.own, step, header_of(each))
                goes = True if each.type is None else told.get(range_of(each.type))
                if goes is None:
                    return _not_found("no record tells of this handler")
                return _compared(claim, goes, claim.value != "False", step)
        return _refuted(step, f"no handler is at record {step}")

    def _leave(self, claim: ClaimData) -> Judged:
        """An exception leaves a function."""
        step, record = self.state.t, self.records[self.state.t]
        if not isinstance(record, schema.Unwind):
            return _refuted(step, "no function is left by an exception at this record")
        call = self.records[self.calls[record.f]]
        assert isinstance(call, schema.Call)
        node, _ = parsed_call(claim.subject)
        function = ast.unparse(node.func if isinstance(node, ast.Call) else node) if node is not None else ""
        if not function or call.name.split(".")[-1] != function.split(".")[-1]:
            return _refuted(step, f"`{_cut(call.name)}` is left at record {step}")
        return Judged(Status.SUPPORTED, step)

    def _statement(self, claim: ClaimData) -> Judged:
        """A statement is reached: `break`, `continue`, `return`, `del x`."""
        step, record = self.state.t, self.records[self.state.t]
        word, _, rest = claim.subject.partition(" ")
        if isinstance(record, schema.Del):
            fits = word == "del" and rest == record.name
            return Judged(Status.SUPPORTED, step) if fits else _refuted(step, "another name is deleted here")
        if word == "line" and isinstance(record, schema.Line):
            return _compared(ClaimData(kind=Kind.STATEMENT, subject="its line"), str(record.n), rest, step)
        kind = {"break": ast.Break, "continue": ast.Continue, "return": ast.Return, "pass": ast.Pass}.get(word)
        if kind is None:
            return _not_found("no such statement is looked for")
        line = record.n if isinstance(record, schema.Line | schema.Return) else None
        if any(isinstance(each, kind) for each in self.course.statements.get(line or 0, ())):
            return Judged(Status.SUPPORTED, step)
        return _refuted(step, f"record {step} is at no `{word}`")

    # values as they are written

    def _is_value(self, text: str, raw: schema.V) -> Judged:
        said = told(text)
        claim = ClaimData(kind=Kind.VALUE, value=text)
        try:
            actual = self.state.python_value(raw)
        except Unknown:
            return self._as_shown(claim, raw)
        return _compared(claim, actual, said.value, self.state.t) if said.known else self._as_shown(claim, raw)

    def _as_shown(self, claim: ClaimData, raw: schema.V) -> Judged:
        """A value that is no literal, by its text: `Account(owner='Ada')`, `[1, … 9 more …, 4]`."""
        step = self.state.t
        shown = ""
        for width in dict.fromkeys((*_WIDTHS, len(claim.value) + 8, len(claim.value), 100_000)):
            self.left -= 1 + width // 1000
            text = self.state.text(raw, width)
            shown = shown or text
            if claim.value == text:
                return Judged(Status.SUPPORTED, step)
        return _refuted(step, f"it is {_cut(shown)} at record {step}", actual=_cut(shown))

    def _as_text(self, claim: ClaimData, actual: Any) -> Judged:
        """A plain value of an expression that is told cut."""
        return _not_found(f"its value is no literal; it is {shown(actual)} at record {self.state.t}")


_NO_CALL: Final = schema.Call(f=0, p=0, name="", n=0)


def _is_same_header(node: Any, subject: str) -> bool:
    """Whether a loop's header is this code, however it is written."""
    tree = _header(subject)
    return tree is not None and ast.dump(tree) == ast.dump(_header(header_text(node)) or ast.Pass())


@functools.lru_cache(maxsize=1024)
def _header(code: str) -> ast.stmt | None:
    if len(code) > MOST_CODE or not code.startswith(("for ", "while ")):
        return None
    try:
        return ast.parse(f"{code.removesuffix(':')}: pass").body[0]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _of_run(run: LoopRun, claim: ClaimData, actual: int, said: Told, step: int) -> Judged:
    """The number of an iteration; right after some that were not recorded, another number than ours refutes nothing."""
    found = _compared(claim, actual, said.value, step)
    is_open = actual == run.count and not run.exact
    is_refuted = is_open and found.status is Status.REFUTED
    return _not_found("not all iterations of this loop are recorded") if is_refuted else found


def _is_dotted(node: ast.expr) -> bool:
    """Whether an expression is names with dots between them, such as a class in a class."""
    return isinstance(node, ast.Name) or (isinstance(node, ast.Attribute) and _is_dotted(node.value))


def _has_object(call: schema.Call) -> bool:
    """Whether the first argument is the object or class that a method belongs to."""
    return next(iter(call.args), "") in ("self", "cls")


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


_JUDGES: Final[Mapping[Kind, Callable[[_Judge, ClaimData], Judged]]] = {
    Kind.VALUE: _Judge._value,
    Kind.TEST: _Judge._test,
    Kind.CALL: _Judge._call,
    Kind.RETURN: _Judge._return,
    Kind.INPUT: _Judge._input,
    Kind.MUTATION: _Judge._mutation,
    Kind.ITERATION: _Judge._iteration,
    Kind.COUNT: _Judge._count,
    Kind.OUTPUT: _Judge._output,
    Kind.RAISE: _Judge._raise,
    Kind.CATCH: _Judge._catch,
    Kind.LEAVE: _Judge._leave,
    Kind.EXIT: _Judge._exit,
    Kind.STATEMENT: _Judge._statement,
    Kind.ANSWER: _Judge._answer,
}
