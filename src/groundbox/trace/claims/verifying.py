"""Claims as data held against the record: each at its step, or looked for where none is given.

The records are gone through once, with the claims in the order of their steps. Nothing that a narrator works out of
records is used here. The run up to a record, in which subjects are worked out, is `walk.py`'s, and where control went
`course.py`'s.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import heapq
import re
from collections.abc import Callable, Generator, Sequence
from typing import Any, ClassVar, Final, TypeAlias

from groundbox.trace.claims.arguments import WIDTHS, CallWalk, compared, cut
from groundbox.trace.claims.changes import changed_items, said_change
from groundbox.trace.claims.course import LoopRun, header_of, header_text, lines_of, truth_of
from groundbox.trace.claims.data import MOST_CLAIMS, MOST_CODE, ClaimData
from groundbox.trace.claims.items import statements
from groundbox.trace.claims.model import Judged, Kind, Status, not_found, refuted
from groundbox.trace.claims.run import Run
from groundbox.trace.claims.told import Told, parsed_call, parsed_code, tells_by_call, told
from groundbox.trace.claims.walk import NOWHERE
from groundbox.trace.record import schema
from groundbox.trace.record.operands import range_of
from groundbox.trace.record.reading import Trace
from groundbox.trace.record.syntax import walked
from groundbox.trace.record.value import ref_of
from groundbox.values.equal import as_told
from groundbox.values.literals import shown
from groundbox.values.unknown import Unknown

Judging: TypeAlias = Generator[int, None, Judged]
"""A claim being judged: yields each record that the run has to be at for it, and returns what became of the claim."""
_OF_ARRAY: Final = re.compile(r"np\.\w+\(")
"""A number as NumPy writes one."""
_TESTS: Final = re.compile(r"(true )?tests since (-?\d{1,12}): (.+)", re.DOTALL)


def verify(claims: Sequence[ClaimData], trace: Trace, run: Run, search: Callable[[int], Judged]) -> list[Judged]:
    """Hold claims against a run; the answers are in their order.

    Args:
        search: Judges a claim that names no step, by its number.
    """
    judged: list[Judged] = [not_found("too many claims were made before it")] * len(claims)
    judge = _Judge(trace, run)
    last = len(trace.records) - 1
    # A queue by records, since a claim may be judged at up to three of them. The run is gone through once, and never
    # backward.
    waiting: list[tuple[int, int, Judging]] = []
    for number, claim in enumerate(claims[:MOST_CLAIMS]):
        if len(claim.subject) > MOST_CODE or len(claim.value) > MOST_CODE:
            judged[number] = not_found(f"more than {MOST_CODE:,} characters are not read")
        elif claim.step is None:
            is_named = claim.kind is Kind.VALUE and not claim.value
            judged[number] = judge.spoken(claim) if is_named else search(number)
        elif not 0 <= claim.step <= last:
            judged[number] = not_found(f"there is no record {claim.step}; the last one is {last}")
        else:
            judging = judge.judging(claim, claim.step)
            waiting.append((next(judging), number, judging))
    heapq.heapify(waiting)
    while waiting:
        step, number, judging = heapq.heappop(waiting)
        judge.advance(step)
        try:
            heapq.heappush(waiting, (next(judging), number, judging))
        except StopIteration as end:
            judged[number] = end.value
    return judged


def _may_differ(argument: ast.expr, target: ast.expr) -> bool:
    """Return whether an argument may be another value when its call has returned: `x = f(x)`, `y = f([])`."""
    changing = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
    names = {each.id for each in walked(target) if isinstance(each, ast.Name)}
    return any(isinstance(each, changing) or getattr(each, "id", None) in names for each in walked(argument))


class _Judge(CallWalk):
    """Holds claims against the run up to a record."""

    def judging(self, claim: ClaimData, step: int) -> Judging:
        """Judge a claim: by what was so when its call was made, by its own record, and once its line has settled."""
        called = self.call_of(step) if claim.kind in (Kind.RETURN, Kind.ANSWER) else None
        if called is not None and called < step:
            yield called
            call = self.records[called]
            # A call that is another one than is meant cannot return what is claimed.
            if claim.subject and isinstance(call, schema.Call) and (other := self.misfit(claim, call)):
                return other
        yield step
        found = self._judged(claim)
        if claim.kind is Kind.MUTATION and found.status is Status.SUPPORTED and not self._owns(claim, step):
            # What changes may get its place only afterwards.
            yield self.settled()
            is_other = not self._owns(claim, step)
            return refuted(step, f"what changes at record {step} is something else") if is_other else found
        if claim.kind is Kind.VALUE and found.status is Status.NOT_FOUND and claim.value:
            # Code that cannot be worked out may be given to a target.
            node = parsed_code(claim.subject)
            targets = self.targets_of(node) if node is not None else ()
            at = self._given_at(targets)
            if at is not None:
                yield at
                return self._given_to(claim)
        return found

    def _judged(self, claim: ClaimData) -> Judged:
        """Judge a claim by the record that was applied last."""
        if self.left <= 0:
            return not_found("too much had to be looked at for the claims before it")
        self.left -= 1
        return self._judges[claim.kind](self, claim, self.state.t, self.records[self.state.t])

    # values and conditions

    def _judge_value(self, claim: ClaimData, step: int, record: schema.Record) -> Judged:
        """An expression of the frame that goes on after the record has a value then; without one, it is spoken of."""
        node = parsed_code(claim.subject)
        if node is None:
            return not_found("its subject is no expression")
        if not claim.value:
            return self.spoken(claim)
        if tells_by_call(claim):
            return self._is_result(claim, node, step)
        said = told(claim.value)
        # `3 + 5` for `a + b`: not only the sum has to be right, each part has to.
        is_code = said.node is not None and (said.worked or not said.known)
        is_code = is_code and not isinstance(said.node, ast.Set)  # whose items have no order: `{1.0, nan}`
        fits = self.fits(node, said.node) if is_code and said.node is not None else None
        if fits:
            return Judged(Status.SUPPORTED, step)
        raw = self.raw(node)
        if raw is not NOWHERE and not said.known:
            if isinstance(raw, int | float) and _OF_ARRAY.match(claim.value):
                return not_found("an array's items are recorded as numbers, without their type")
            return self.as_shown(claim, raw)
        try:
            actual = self.evaluated(node)
        except Unknown:
            return not_found(f"`{cut(claim.subject)}` cannot be worked out at record {step}")
        # The same form with other values, whatever it comes to.
        if fits is False:
            return refuted(step, f"`{cut(claim.subject)}` is {shown(actual)} at record {step}", actual=shown(actual))
        # A stand-in for an object of the program: its text is all that can be compared.
        if not _is_plain(actual):
            return self.as_shown(claim, raw) if raw is not NOWHERE else not_found("it is no plain value")
        if not said.known:
            return not_found(f"its value is no literal; it is {shown(actual)} at record {step}")
        found = compared(claim, actual, said.value, step)
        # `[heappop(h) for _ in h]` after it has emptied `h`: what it came to is what its line gave to its target.
        if found.status is Status.REFUTED and self._has_changed_something(node):
            return not_found(f"`{cut(claim.subject)}` was worked out before record {step}")
        return found

    def _is_result(self, claim: ClaimData, node: ast.expr, step: int) -> Judged:
        """Judge that a name has what a call of its line returned: the object itself, where it is one."""
        given, (call, _) = NOWHERE, parsed_call(claim.value)
        if isinstance(call, ast.Call):
            arguments = [ast.Name("·", ast.Load()) if _may_differ(each, node) else each for each in call.args]
            with contextlib.suppress(Unknown):
                given = self.returned(ast.Call(call.func, arguments, call.keywords))
        # A call may go to what a property gives, which is recorded as another call: so nothing is refuted.
        if given is NOWHERE or self.raw(node) != given:
            return not_found(f"that `{cut(claim.value)}` returned it is not known at record {step}")
        return Judged(Status.SUPPORTED, step)

    def _has_changed_something(self, node: ast.expr) -> bool:
        """Return whether the line under way gives this expression's value away, and has changed an object by now."""
        at = self.state.t
        while at >= 0 and not isinstance(self.records[at], schema.Line | schema.Mutate):
            at -= 1
            self.left -= 1
        return at >= 0 and isinstance(self.records[at], schema.Mutate) and bool(self.targets_of(node))

    def _given_at(self, targets: Sequence[ast.expr | ast.Return]) -> int | None:
        """The record at which the line under way has given a value to targets; None if there is none to come."""
        at = self.settled()
        if targets and isinstance(targets[0], ast.Return):
            following = self.records[at + 1] if at + 1 < len(self.records) else None
            return at + 1 if isinstance(following, schema.Return) and following.f == self.frame else None
        return at if targets and at > self.state.t else None

    def _owns(self, claim: ClaimData, step: int) -> bool:
        """Return whether the object that a change is told of is, now, the one that changes at a record."""
        change, record = said_change(claim.subject), self.records[step]
        owner = self.raw(change.owner) if change is not None else NOWHERE
        return owner is not NOWHERE and isinstance(record, schema.Mutate) and ref_of(owner) == record.id

    def _given_to(self, claim: ClaimData) -> Judged:
        """Code that cannot be worked out has the value that its line has given to its target."""
        node, record = parsed_code(claim.subject), self.records[self.state.t]
        if isinstance(record, schema.Return):
            return self._is_literally(claim, record.v)
        targets = self.targets_of(node) if node is not None else ()
        held = [self.raw(target) for target in targets if isinstance(target, ast.expr)]
        found = [self._is_literally(claim, raw) for raw in held if raw is not NOWHERE]
        if not found or (len(found) > 1 and all(each.status is not Status.SUPPORTED for each in found)):
            return not_found(f"`{cut(claim.subject)}` cannot be worked out")
        return next((each for each in found if each.status is Status.SUPPORTED), found[0])

    def _is_literally(self, claim: ClaimData, raw: schema.V) -> Judged:
        """Like `is_value`; what is no literal, as workings that cannot be worked out, refutes nothing."""
        found = self.is_value(claim.value, raw)
        is_code = found.status is Status.REFUTED and not told(claim.value).known
        return not_found(f"`{cut(claim.subject)}` cannot be worked out") if is_code else found

    def spoken(self, claim: ClaimData) -> Judged:
        """Code of the program is named, and nothing said of it."""
        node = parsed_code(claim.subject)
        names = [getattr(each, "id", getattr(each, "attr", "")) for each in ast.walk(node)] if node is not None else []
        is_name = isinstance(node, ast.Name | ast.Tuple) or (node is not None and _is_dotted(node))
        if is_name and all(name in self.names for name in names if name):
            return Judged(Status.SUPPORTED)
        if node is not None and ast.unparse(node) in self.code:
            return Judged(Status.SUPPORTED)
        return not_found(f"the program has no `{cut(claim.subject)}`")

    def _judge_test(self, claim: ClaimData, step: int, record: schema.Record) -> Judged:
        """A condition comes out true, or false; or why, as a comparison with values in place of names."""
        said = told(claim.value)
        node = parsed_code(claim.subject)
        if node is None or said.node is None:
            return self._case(claim, said, step, record)
        if not said.known or said.worked:
            return self._reason(claim, node, said, step)
        if not isinstance(said.value, bool):
            return not_found("the value of a test is True or False")
        # What the record says of the test itself comes first; working it out again might run into calls.
        if (outcome := self.outcome(node)) is not None:
            return compared(claim, outcome, said.value, step)
        if (identical := self.identity(node)) is not None:
            return compared(claim, identical, said.value, step)
        try:
            return compared(claim, bool(self.evaluated(node)), said.value, step)
        except Unknown:
            return not_found(f"`{cut(claim.subject)}` cannot be worked out at record {step}")

    def _case(self, claim: ClaimData, said: Told, step: int, record: schema.Record) -> Judged:
        """`case P` matches, or does not: control went into its block next."""
        for each in self.course.statements.get(record.n, ()) if isinstance(record, schema.Line) else ():
            if isinstance(each, ast.match_case) and claim.subject == f"case {ast.unparse(each.pattern)}":
                body = lines_of(each.body)
                # The next line is the same line, whichever way it went.
                if body.start <= (each.pattern.end_lineno or 0):
                    return not_found("its block stands on its own line")
                following = self.lines.after(self.frame, step)
                return compared(claim, following is not None and following in body, said.value is True, step)
        return not_found("its subject is no expression")

    def _reason(self, claim: ClaimData, node: ast.expr, said: Told, step: int) -> Judged:
        """`3 > 1` for `xs[j] > xs[j + 1]`: true, and a part of the condition with its values."""
        assert said.node is not None
        try:
            holds = said.value if said.known else self.evaluated(said.node)
        except Unknown:
            return not_found("what it gives as its reason cannot be worked out")
        if holds is not True:
            return refuted(step, "what it gives as its reason is not so")
        is_known = True
        # A reason may be of one part of the condition: `3 > 1` for `xs and xs[0] > 1`.
        for part in ast.walk(node):
            self.left -= 1
            if isinstance(part, ast.Compare | ast.BinOp | ast.Call | ast.Subscript | ast.UnaryOp) and self.left > 0:
                fits = self.fits(part, said.node)
                if fits:
                    return Judged(Status.SUPPORTED, step)
                is_known = is_known and self.is_known(part)
        if not is_known:
            # A part that is not known might have had these values.
            return not_found(f"`{cut(claim.subject)}` cannot be worked out at record {step}")
        return refuted(step, f"`{cut(claim.subject)}` has no such part with these values at record {step}")

    # calls

    def _judge_call(self, claim: ClaimData, step: int, record: schema.Record) -> Judged:
        """A function is called with arguments."""
        if not isinstance(record, schema.Call):
            return refuted(step, "no call is made at this record")
        return self.misfit(claim, record) or Judged(Status.SUPPORTED, step)

    def _judge_return(self, claim: ClaimData, step: int, record: schema.Record) -> Judged:
        """A call gives a value; which call it is was looked at when it was made."""
        if not isinstance(record, schema.Return | schema.Yield):
            return refuted(step, "nothing is returned at this record")
        return self.is_value(claim.value, record.v) if claim.value else Judged(Status.SUPPORTED, step)

    def _judge_input(self, claim: ClaimData, step: int, record: schema.Record) -> Judged:
        """The run was given a value."""
        if not isinstance(record, schema.Call) or record.p:
            return refuted(step, "the run is given nothing at this record")
        if claim.subject and claim.subject not in record.args:
            return not_found(f"`{record.name}` has no parameter of this name")
        values = [record.args[claim.subject]] if claim.subject else list(record.args.values())
        found = [self.is_value(claim.value, value) for value in values]
        return next((each for each in found if each.status is Status.SUPPORTED), found[0] if found else not_found(""))

    def _judge_answer(self, claim: ClaimData, step: int, record: schema.Record) -> Judged:
        """The whole run gives a value: what the asked call returns, what was printed, or the exception it ends with."""
        entry = self.trace.header.entry
        if isinstance(record, schema.Raise):
            # Nothing of the outermost frames comes after it, so that it is what ended the run.
            is_last = not any(isinstance(each, schema.Raise | schema.Return) and self.parents.get(each.f, 0) == 0
                              for each in self.records[step + 1 :])  # fmt: skip
            said = self._judge_raise(ClaimData(kind=Kind.RAISE, subject=claim.value), step, record)
            return said if is_last else refuted(step, "the run does not end with this exception")
        if entry is None:
            return self._printed(claim)
        if isinstance(record, schema.Return) and record.f in self.calls:
            call = self.records[self.calls[record.f]]
            if isinstance(call, schema.Call) and call.p == 0 and call.name.split(".")[-1] == entry.call.split(".")[-1]:
                return self._judge_return(claim, step, record)
        return refuted(step, "this record is not the end of the run")

    # loops

    def _judge_iteration(self, claim: ClaimData, step: int, record: schema.Record) -> Judged:
        """An iteration of a loop begins, or is under way, with this number."""
        said = told(claim.value)
        runs = [run for run in self.course.open_runs(self.own) if self._is_loop(run, claim.subject)]
        if not runs:
            return not_found(f"record {step} is in no such loop")
        # The innermost one: the subject may be that of several.
        run = runs[-1]
        if run.unsure:
            return not_found("the iterations of this loop are not recorded")
        if isinstance(record, schema.Fold) and said.value == run.count - record.iterations + 1:
            return Judged(Status.SUPPORTED, step)  # the first of those that were folded
        if isinstance(record, schema.Fold):
            return compared(claim, run.count, said.value, step)
        line = self.lines.before(self.own, step)
        # The test of a `while` on one line is made before its line event, but for the first.
        has_begun = run.loop.inline and run.count > 0 and isinstance(run.loop.node, ast.While)
        is_header = line in run.loop.header and not has_begun
        # A header's line is before its `iteration` record, which says the number.
        begins = self.lines.begins(self.own, step, run.loop) if is_header else None
        return _of_run(run, claim, run.count if begins is None else begins, said, step)

    def _judge_count(self, claim: ClaimData, step: int, record: schema.Record) -> Judged:
        """Judge how often the loop that ended last ran, a function was called, or calls were made."""
        said = told(claim.value)
        if claim.subject.startswith("calls since "):
            return self._calls_since(claim, step, record)
        if tests := _TESTS.fullmatch(claim.subject):
            return self._tests_since(claim, step, int(tests[2]), tests[3], only_true=bool(tests[1]))
        run = self._ended(claim.subject)
        if run is not None:
            if run.unsure or not (run.count or run.exact):
                return not_found("the iterations of this loop are not recorded")
            return _of_run(run, claim, run.count, said, step)
        if claim.subject in self.functions:
            # Counted over again for each such claim.
            self.left -= step
            calls = [each for each in self.records[: step + 1] if isinstance(each, schema.Call)]
            return compared(claim, sum(each.name.split(".")[-1] == claim.subject for each in calls), said.value, step)
        if isinstance(record, schema.Fold) and claim.subject == "folded iterations":
            return compared(claim, record.iterations, said.value, step)
        return not_found("no such loop has ended, and no function is of this name")

    def _calls_since(self, claim: ClaimData, step: int, record: schema.Record) -> Judged:
        """Judge how many calls a frame has made after one record, up to this one."""
        first, _, code = claim.subject.removeprefix("calls since ").partition(": ")
        if not first.isdecimal() or len(first) > 12 or int(first) >= step:
            return not_found("it names no record to count from")
        records = self.records[int(first) + 1 : step + 1]
        self.left -= len(records)
        if code:
            return self._lambda_calls(claim, code, records, step)
        parent = getattr(record, "p", None)
        made = [r for r in records if isinstance(r, schema.Call | schema.Resume) and r.p == parent]
        # A text does not count the calls of lambdas and generator expressions.
        named = [r for r in made if not (isinstance(r, schema.Call) and r.name.endswith(">"))]
        return compared(claim, len(named), told(claim.value).value, step)

    def _lambda_calls(self, claim: ClaimData, code: str, records: Sequence[schema.Record], step: int) -> Judged:
        """Judge how many calls of a lambda there are among records."""
        node = parsed_code(code)
        if not isinstance(node, ast.Lambda):
            return not_found("it counts the calls of no lambda")
        meant = ast.unparse(node)
        made = [self.lambda_of(r) for r in records if isinstance(r, schema.Call) and r.name.endswith("<lambda>")]
        # One of them may be meant.
        if None in made:
            return not_found("which lambda of its line is called is not known")
        return compared(claim, made.count(meant), told(claim.value).value, step)

    def _tests_since(self, claim: ClaimData, step: int, since: int, code: str, *, only_true: bool) -> Judged:
        """Judge how often a frame has come to a test after a record, up to this one; or to one that came out true."""
        node = parsed_code(code)
        if since >= step:
            return not_found("it names no record to count from")
        asked = {
            statement.lineno: statement
            for row in self.course.statements.values()
            for statement in row
            if node is not None and isinstance(statement, ast.If) and ast.dump(statement.test) == ast.dump(node)
        }
        if not asked:
            return not_found("the program has no such test")
        first = self.records[max(0, since + 1)]
        if isinstance(first, schema.Line) and first.n in asked:  # another statement may ask for the same
            asked = {first.n: asked[first.n]}
        count = 0
        for at in range(max(0, since + 1), step + 1):
            record = self.records[at]
            self.left -= 1
            if isinstance(record, schema.Line) and record.f == self.own and record.n in asked:
                statement = asked[record.n]
                outcome = truth_of(statement.test, self.lines.tests(self.own, at, header_of(statement)))
                # How often it was come to is known even so.
                if outcome is None and only_true:
                    return not_found("not all of these tests are recorded")
                count += outcome is True or not only_true
        return compared(claim, count, told(claim.value).value, step)

    def _judge_exit(self, claim: ClaimData, step: int, record: schema.Record) -> Judged:
        """Judge how a loop has ended."""
        run = self._ended(claim.subject)
        if run is None:
            return not_found("no such loop has ended")
        if run.exit is None or run.unsure:
            return not_found("no record tells how this loop ended")
        return compared(claim, run.exit, told(claim.value).value, step)

    def _ended(self, subject: str) -> LoopRun | None:
        """The run of a loop that ended last, of those that the record's frame has run."""
        runs = [run for run in self.course.ended(self.own) if self._is_loop(run, subject)]
        return max(runs, key=lambda run: run.end, default=None)

    def _is_loop(self, run: LoopRun, subject: str) -> bool:
        node = run.loop.node
        return subject in ("", f"line {node.lineno}", header_text(node)) or _is_same_header(node, subject)

    # what happens to objects

    def _judge_mutation(self, claim: ClaimData, step: int, record: schema.Record) -> Judged:
        """An object is changed as a statement says; `...` in it stands for the value."""
        if not isinstance(record, schema.Mutate) or self.before is None:
            return refuted(step, "nothing is changed at this record")
        change = said_change(claim.subject)
        if change is None:
            return not_found("its subject is no change")
        found = changed_items(change, self.state, record, self.before)
        if found is None:
            return refuted(step, f"record {step} is another change", actual=record.op)
        if len(found) != 1:
            return self._are_items(claim, found, step)
        value = claim.value or (ast.unparse(change.item) if change.item is not None else "")
        # Both are said: `xs.append(x)` with the value 5. The code has to fit as well as the value.
        if change.item is not None and claim.value and (other := self._misfitting(change.item, found[0], _NO_CALL, {})):
            return other
        return self.is_value(value, found[0]) if value else Judged(Status.SUPPORTED, step)

    def _are_items(self, claim: ClaimData, found: Sequence[schema.V], step: int) -> Judged:
        """Several items came in, or went out, in whatever order."""
        said = told(claim.value)
        if said.known and isinstance(said.value, list | tuple):
            values = [self.plain(raw) for raw in found]
            if len(values) == len(said.value) and all(
                any(as_told(one, other) for other in said.value) for one in values
            ):
                return Judged(Status.SUPPORTED, step)
        # As a telling has them, where some are no literals.
        texts = [self.state.text(raw, 60) for raw in found]
        if sorted(texts) == sorted(claim.value.removeprefix("[").removesuffix("]").split(", ")) or claim.value == (
            f"[{', '.join(texts)}]"
        ):
            return Judged(Status.SUPPORTED, step)
        return refuted(step, f"it is {cut(', '.join(texts))} at record {step}")

    def _judge_output(self, claim: ClaimData, step: int, record: schema.Record) -> Judged:
        """A text is printed."""
        if not isinstance(record, schema.Out):
            return refuted(step, "nothing is printed at this record")
        if claim.subject and claim.subject != {1: "stdout", 2: "stderr"}[record.s]:
            return refuted(step, "it is written to the other stream")
        if isinstance(told(claim.value).value, int):
            return compared(claim, len(record.text) + record.elided + len(record.tail), told(claim.value).value, step)
        return self.is_value(claim.value, record.text) if not record.elided else not_found("not known whole")

    def _printed(self, claim: ClaimData) -> Judged:
        outs = [r for r in self.records if isinstance(r, schema.Out) and r.s == 1]
        if any(out.elided for out in outs):
            return not_found("the text is not known whole")
        return self.is_value(claim.value, "".join(out.text for out in outs))

    # exceptions and statements

    def _judge_raise(self, claim: ClaimData, step: int, record: schema.Record) -> Judged:
        """An exception comes up."""
        if not isinstance(record, schema.Raise):
            return refuted(step, "no exception comes up at this record")
        name, bracket, _ = claim.subject.partition("(")
        if name not in (record.type, record.type.rpartition(".")[2]):
            return refuted(step, f"the exception of record {step} is a `{cut(record.type)}`")
        if not bracket:
            return Judged(Status.SUPPORTED, step)
        # Writers cut long arguments, each at a width of its own.
        for width in (80, 100_000, *WIDTHS):
            if claim.subject == f"{name}({', '.join(self.state.text(each, width) for each in record.args)})":
                return Judged(Status.SUPPORTED, step)
        return refuted(step, "the exception of this record has other arguments")

    def _judge_catch(self, claim: ClaimData, step: int, record: schema.Record) -> Judged:
        """A handler takes over: control goes into it; False says that it does not."""
        if not isinstance(record, schema.Line):
            return refuted(step, "no handler is at this record")
        for each in self.course.statements.get(record.n, ()):
            if isinstance(each, ast.ExceptHandler):
                kind = f"except {ast.unparse(each.type)}" if each.type is not None else "except"
                if claim.subject != kind:
                    return refuted(step, f"the handler of record {step} is another one")
                told = self.lines.tests(self.own, step, header_of(each))
                goes = True if each.type is None else told.get(range_of(each.type))
                if goes is None:
                    return not_found("no record tells of this handler")
                return compared(claim, goes, claim.value != "False", step)
        return refuted(step, f"no handler is at record {step}")

    def _judge_leave(self, claim: ClaimData, step: int, record: schema.Record) -> Judged:
        """An exception leaves a function."""
        if not isinstance(record, schema.Unwind):
            return refuted(step, "no function is left by an exception at this record")
        call = self.records[self.calls[record.f]]
        assert isinstance(call, schema.Call)
        node, _ = parsed_call(claim.subject)
        function = ast.unparse(node.func if isinstance(node, ast.Call) else node) if node is not None else ""
        if not function or call.name.split(".")[-1] != function.split(".")[-1]:
            return refuted(step, f"`{cut(call.name)}` is left at record {step}")
        return Judged(Status.SUPPORTED, step)

    def _judge_statement(self, claim: ClaimData, step: int, record: schema.Record) -> Judged:
        """A statement is reached: `break`, `continue`, `return`, `del x`."""
        word, _, rest = claim.subject.partition(" ")
        if isinstance(record, schema.Del):
            fits = word == "del" and rest == record.name
            return Judged(Status.SUPPORTED, step) if fits else refuted(step, "another name is deleted here")
        if word == "line" and isinstance(record, schema.Line):
            return compared(ClaimData(kind=Kind.STATEMENT, subject="its line"), str(record.n), rest, step)
        # No record tells of these statements; the line that is come to does.
        kind = {"break": ast.Break, "continue": ast.Continue, "return": ast.Return, "pass": ast.Pass}.get(word)
        if kind is None:
            return not_found("no such statement is looked for")
        line = record.n if isinstance(record, schema.Line | schema.Return) else None
        if any(isinstance(each, kind) for each in self.course.statements.get(line or 0, ())):
            return Judged(Status.SUPPORTED, step)
        return refuted(step, f"record {step} is at no `{word}`")

    _judges: ClassVar[dict[Kind, Callable[[Any, ClaimData, int, schema.Record], Judged]]] = {
        Kind.VALUE: _judge_value,
        Kind.TEST: _judge_test,
        Kind.CALL: _judge_call,
        Kind.RETURN: _judge_return,
        Kind.INPUT: _judge_input,
        Kind.ANSWER: _judge_answer,
        Kind.ITERATION: _judge_iteration,
        Kind.COUNT: _judge_count,
        Kind.EXIT: _judge_exit,
        Kind.MUTATION: _judge_mutation,
        Kind.OUTPUT: _judge_output,
        Kind.RAISE: _judge_raise,
        Kind.CATCH: _judge_catch,
        Kind.LEAVE: _judge_leave,
        Kind.STATEMENT: _judge_statement,
    }


_NO_CALL: Final = schema.Call(f=0, p=0, name="", n=0)


def _is_same_header(node: Any, subject: str) -> bool:
    """Return whether a loop's header is this code, however it is written."""
    tree = _header(subject)
    return tree is not None and ast.dump(tree) == ast.dump(_header(header_text(node)) or ast.Pass())


@functools.lru_cache(maxsize=1024)
def _header(code: str) -> ast.stmt | None:
    if len(code) > MOST_CODE or not code.startswith(("for ", "while ")):
        return None
    body = statements(f"{code.removesuffix(':')}: pass")
    return None if body is None else body[0]


def _of_run(run: LoopRun, claim: ClaimData, actual: int, said: Told, step: int) -> Judged:
    """The number of an iteration; right after some that were not recorded, another number than ours refutes nothing."""
    found = compared(claim, actual, said.value, step)
    is_open = actual == run.count and not run.exact
    is_refuted = is_open and found.status is Status.REFUTED
    return not_found("not all iterations of this loop are recorded") if is_refuted else found


def _is_dotted(node: ast.expr) -> bool:
    """Return whether an expression is names with dots between them, such as a class in a class."""
    return isinstance(node, ast.Name) or (isinstance(node, ast.Attribute) and _is_dotted(node.value))


def _is_plain(value: Any) -> bool:
    return not type(value).__module__.startswith("groundbox")
