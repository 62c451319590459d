"""What one step did, in clauses: values that names took, objects that changed, output, exceptions, conditions.

A step is read at three moments. On entry come the calls that it makes. Before its first own change its expressions
are worked out, for that is when the program did so. After its last change the new values are worded.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from groundbox.trace.narrate import changes
from groundbox.trace.narrate.generators import is_unnamed
from groundbox.trace.narrate.narration import ClaimKind
from groundbox.trace.narrate.paths import path_to
from groundbox.trace.narrate.policy import Level
from groundbox.trace.narrate.reasons import Reasons, Why, workings_of
from groundbox.trace.narrate.results import expressions_of, results_of
from groundbox.trace.narrate.telling import Telling, Where, claim
from groundbox.trace.narrate.wordings import ValueClauses
from groundbox.trace.record import schema
from groundbox.trace.run.structure import Activation, Step


class Callees(Protocol):
    """Tells the calls that a step makes, up to their end."""

    def tell(self, activation: Activation, where: Where) -> None:
        """Tell one call."""

    def resumed(self, ref: int, where: Where) -> None:
        """Tell that a generator went on at record `ref`."""


@dataclass(kw_only=True)
class Moment:
    """What was seen of a step on the way to its end.

    Attributes:
        why: How the values of its targets came about, by name or by code.
        reasons: Its condition and what it returns.
        paths: Ways to the objects that it changed, by label.
        olds: Texts of the values that its names had before.
    """

    why: dict[str, Why] = field(default_factory=dict)
    reasons: Reasons = field(default_factory=Reasons)
    notes: list[changes.Note] = field(default_factory=list)
    paths: dict[int, str] = field(default_factory=dict)
    sets: list[int] = field(default_factory=list)
    olds: dict[str, str] = field(default_factory=dict)
    outs: list[int] = field(default_factory=list)
    dels: list[int] = field(default_factory=list)
    prepared: bool = False


class Statements:
    """Tells steps."""

    def __init__(self, telling: Telling, callees: Callees) -> None:
        self._telling = telling
        self._callees = callees
        self._values = ValueClauses(telling)

    def tell(self, step: Step, where: Where, *, own: bool = True) -> Moment:
        """Tell a step as its level says, and go on to its end.

        Nothing is said of a step whose moment has passed, as may happen around generators.

        Args:
            own: Whether it is told itself, and not only the calls that it makes.
        """
        ahead = self._telling.state.t > step.step
        moment = self._run(step, replace(where, level=Level.SILENT) if ahead else where)
        if own and not ahead and where.level > Level.SILENT:
            self._word(step, where, moment)
        return moment

    def skip(self, step: Step) -> None:
        """Go on to the end of a step without a word."""
        self._telling.advance(step.last)

    def _run(self, step: Step, where: Where) -> Moment:
        """Go through what happens in a step, in its order; calls are told on the way."""
        telling = self._telling
        telling.advance(step.step)
        moment = Moment()
        calls: dict[int, Activation | None] = {call.first: call for call in step.calls}
        calls.update(dict.fromkeys(step.resumes))
        generators = telling.generators  # which go on after the call
        last_call = max((call.last for call in step.calls if call.frame not in generators), default=-1)
        left_out = self._left_out(step, where)
        for ref in sorted((*calls, *step.effects)):
            if ref in calls:
                self._run_call(step, ref, calls[ref], where, moment, left_out)
                continue
            telling.advance(ref - 1)
            if ref > last_call and isinstance(telling.trace.records[ref], schema.Set | schema.Mutate):
                self._prepare(step, moment)
            self._note(step, ref, moment)
        if not moment.prepared:
            telling.advance(max(last_call, step.step))
            self._prepare(step, moment)
        telling.advance(step.last)
        return moment

    def _run_call(
        self, step: Step, ref: int, call: Activation | None, where: Where, moment: Moment, left_out: Sequence[int]
    ) -> None:
        """A call, or for None a generator that goes on."""
        if moment.notes and where.level > Level.SILENT:
            # Changes before a call, as of an argument that is popped, are told before it.
            self._telling.advance(ref - 1)
            self._word_changes(step, moment)
            moment.notes = []
        if left_out and ref == left_out[0]:
            self._say_left_out(step, left_out)
        if left_out and left_out[0] <= ref <= left_out[-1]:
            where = replace(where, level=Level.SILENT)
        if call is None:
            self._callees.resumed(ref, where)
        else:
            self._callees.tell(call, replace(where, quiet=self._says_result(step)))

    def _left_out(self, step: Step, where: Where) -> Sequence[int]:
        """Of many calls in one line, as of a key function, the first ones and the last one are told."""
        most = self._telling.policy.calls_in_line
        going_on = [ref for ref in step.resumes if not self._is_of_an_expression(ref)]
        refs = sorted([call.first for call in step.calls if not is_unnamed(call)] + going_on)
        if most is None or where.level == Level.SILENT:
            return ()
        most = most if where.level == Level.FULL else min(most, 2)
        if len(refs) <= most + 1:
            return ()
        return refs[most - 1 : -1]

    def _is_of_an_expression(self, ref: int) -> bool:
        """Whether what goes on at a record is a generator expression: nobody calls its items."""
        record = self._telling.trace.records[ref]
        activation = self._telling.trace.structure.activations.get(getattr(record, "f", 0))
        return activation is not None and is_unnamed(activation)

    def _say_left_out(self, step: Step, refs: Sequence[int]) -> None:
        count = f"{len(refs)} more"
        records = self._telling.trace.records
        frames = {getattr(records[ref], "f", 0) if ref in step.resumes else 0 for ref in (*refs, *step.resumes[-1:])}
        is_one_generator = len(frames) == 1 and 0 not in frames  # which goes on after them: each of them gave a value
        text = self._telling.voice.say("yield.left_out" if is_one_generator else "call.left_out", count=count)
        self._telling.draft.say(text, claim(ClaimKind.COUNT, refs, step.frame, "calls", str(len(refs))))

    def _says_result(self, step: Step) -> bool:
        """Whether the statement is one call, whose result is the value that it assigns or returns."""
        value = getattr(step.statement, "value", None)
        if len(step.calls) != 1 or not isinstance(value, ast.Call) or not results_of(step, self._telling.generators):
            return False
        records = self._telling.trace.records
        sets = any(isinstance(records[ref], schema.Set) for ref in step.effects)
        return sets or isinstance(step.statement, ast.Return)

    def _prepare(self, step: Step, moment: Moment) -> None:
        """Work out the step's expressions, at the moment at which nothing of its own has changed yet."""
        if moment.prepared:
            return
        moment.prepared = True
        telling = self._telling
        explanation = telling.explanation(step.frame, results_of(step, self._telling.generators))
        first = telling.seen(("code", step.frame and telling.code_name(step.frame), step.line)) == 0
        moment.why, moment.reasons = workings_of(
            step, explanation, telling.code, first=first, crowded=telling.is_disturbed(step.statement)
        )

    def _note(self, step: Step, ref: int, moment: Moment) -> None:
        telling = self._telling
        record = telling.trace.records[ref]
        match record:
            case schema.Mutate():
                change = changes.note(telling.state, ref, record)
                if record.id not in moment.paths and (path := self._path(step, record.id)):
                    moment.paths[record.id] = path
                telling.advance(ref)
                moment.notes.append(changes.made(telling.state, change))
            case schema.Set(name=name):
                held = telling.state.names(step.frame) if record.scope is None else {}
                if name in held:
                    moment.olds[name] = telling.text(held[name])
                moment.sets.append(ref)
            case schema.Out():
                moment.outs.append(ref)
            case schema.Del():
                moment.dels.append(ref)

    def _path(self, step: Step, label: int) -> str | None:
        telling = self._telling
        evaluation = telling.evaluation(step.frame, results_of(step, self._telling.generators))
        return path_to(telling.state, step.frame, label, expressions_of(step), evaluation)

    def _word(self, step: Step, where: Where, moment: Moment) -> None:
        telling = self._telling
        if _is_of_the_compiler(step.statement):
            return
        if step.part == "definition":
            self._word_values(
                step, moment, but=[name for name in telling.state.names(step.frame) if name not in moment.olds]
            )
            return
        if step.inline and isinstance(step.statement, ast.If) and step.condition is not None:
            self._word_condition(step, step.statement.test, where, moment, leads=step.condition)
        self._word_changes(step, moment)
        for detail in moment.reasons.items:
            refs = [step.step]
            telling.draft.say(detail.text, claim(ClaimKind.CONDITION, refs, step.frame, detail.code, detail.value))
        self._word_values(step, moment)
        self._word_flow(step, where, moment)

    def word_body(self, header: Step, moment: Moment, targets: Sequence[str]) -> None:
        """What the body of a loop did that stands on the line of its header.

        Args:
            moment: As `tell` left it.
            targets: The names that the header itself gave values to.
        """
        self._word_changes(header, moment)
        self._word_values(header, moment, but=targets)

    def _word_values(self, step: Step, moment: Moment, but: Sequence[str] = ()) -> None:
        """The names that took values or lost them, and the output."""
        telling = self._telling
        for ref in moment.sets:
            record = telling.trace.records[ref]
            assert isinstance(record, schema.Set)
            if record.name not in but:
                self._values.say(ref, record, moment.olds.get(record.name), moment.why.get(record.name))
        for ref in moment.outs:
            self._word_output(ref)
        for ref in moment.dels:
            record = telling.trace.records[ref]
            assert isinstance(record, schema.Del)
            text = telling.voice.say("value.deleted", name=f"`{record.name}`")
            telling.draft.say(text, claim(ClaimKind.VALUE, [ref], step.frame, record.name, ""))

    def _word_changes(self, step: Step, moment: Moment) -> None:
        telling = self._telling
        for note in moment.notes:
            path = moment.paths.get(note.label) or self._path(step, note.label)
            if path is None or (note.label not in moment.paths and self._is_new(path, moment)):
                continue
            for said in changes.worded(telling.voice, telling.state, note, path, moment.why):
                telling.draft.say(
                    said.text, claim(ClaimKind.MUTATION, [note.ref], step.frame, said.subject, said.value)
                )

    def _is_new(self, path: str, moment: Moment) -> bool:
        """Whether a way begins at a name that the step gave its value: `x` in `x, x.next = Node(1), Node(2)`.

        The value is told with the name, whole.
        """
        records = self._telling.trace.records
        root = path.partition(".")[0].partition("[")[0]
        return any(getattr(records[ref], "name", None) == root for ref in moment.sets)

    def _word_output(self, ref: int) -> None:
        telling = self._telling
        record = telling.trace.records[ref]
        assert isinstance(record, schema.Out)
        if record.elided:
            text = f"the program prints {len(record.text) + record.elided + len(record.tail)} characters"
            count = text.split()[-2]
            telling.draft.say(text, claim(ClaimKind.OUTPUT, [ref], 0, "characters", count))
            return
        value = telling.text(record.text)
        kind = "output" if record.s == 1 else "output.error"
        telling.draft.say(telling.voice.say(kind, value=value), claim(ClaimKind.OUTPUT, [ref], 0, "", value))

    def _word_flow(self, step: Step, where: Where, moment: Moment) -> None:
        """Conditions, jumps and exceptions."""
        match step.statement:
            case ast.If(test=test, orelse=orelse) if step.condition is not None and not step.inline:
                self._word_condition(step, test, where, moment, leads=step.condition or bool(orelse))
            case ast.Assert(test=test) if step.condition is not None:
                self._word_condition(step, test, where, moment, leads=False)
            case ast.Break() if where.number:
                text = self._telling.voice.say("loop.break", number=str(where.number))
                self._telling.draft.say(
                    text, claim(ClaimKind.ORDER, [step.step], step.frame, "break", str(where.number))
                )
            case ast.Continue() if where.number:
                text = self._telling.voice.say("loop.continue", number=str(where.number))
                self._telling.draft.say(
                    text, claim(ClaimKind.ORDER, [step.step], step.frame, "continue", str(where.number))
                )
            case ast.Return():
                where.returning.append(moment.reasons)
        if step.part == "except" and step.condition is not None:
            self._word_handler(step)
        if step.part == "case" and step.condition is not None:
            self._word_case(step)
        if step.raised is not None:
            self._word_exception(step)

    def _word_condition(self, step: Step, test: ast.expr, where: Where, moment: Moment, *, leads: bool) -> None:
        assert step.condition is not None
        told = self._telling.condition(
            test, step.condition, moment.reasons.reason, brief=where.level < Level.FULL, leads=leads
        )
        said = claim(ClaimKind.CONDITION, [step.step], step.frame, ast.unparse(test), str(step.condition))
        draft, is_reasoned = self._telling.draft, moment.reasons.reason is not None
        if leads:
            draft.condition(told, said)
        elif draft.has_conditions:
            draft.condition(told, said, because=is_reasoned)
            draft.end_conditions()
        else:
            draft.say(told, said, because=is_reasoned)

    def _word_handler(self, step: Step) -> None:
        assert isinstance(step.clause, ast.ExceptHandler)
        kind = f"`except {ast.unparse(step.clause.type)}`" if step.clause.type is not None else "`except`"
        if not step.condition:
            said = claim(ClaimKind.CONDITION, [step.step], step.frame, kind, "False")
            self._telling.draft.say(f"the exception does not match {kind}", said)
            return
        text = self._telling.voice.say("handler", handler=kind)
        self._telling.draft.say(text, claim(ClaimKind.EXCEPTION, [step.step], step.frame, kind, "handled"))

    def _word_case(self, step: Step) -> None:
        assert isinstance(step.clause, ast.match_case)
        pattern = f"`case {ast.unparse(step.clause.pattern)}`"
        said = claim(ClaimKind.CONDITION, [step.step], step.frame, pattern, str(step.condition))
        if step.condition:
            self._telling.draft.condition(f"{pattern} matches", said)
        else:
            self._telling.draft.say(f"{pattern} does not match", said)

    def _word_exception(self, step: Step) -> None:
        assert step.raised is not None
        record = self._telling.trace.records[step.raised]
        assert isinstance(record, schema.Raise)
        if record.from_ is not None:
            return
        value = self._telling.exception(record)
        text = self._telling.voice.say("raise", value=value)
        self._telling.draft.say(text, claim(ClaimKind.EXCEPTION, [step.raised], step.frame, "", value))


def _is_of_the_compiler(statement: ast.stmt | None) -> bool:
    """Whether it is a `from __future__ import …`, which does nothing when it runs."""
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
