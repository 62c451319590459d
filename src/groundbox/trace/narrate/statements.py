"""Steps in clauses: values that names took, objects that changed, output, exceptions, conditions.

A step is read at three moments. On entry come the calls that it makes. Before its first own change its expressions
are worked out, for that is when the program did so. After its last change the new values are worded.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from groundbox.trace.narrate import changes
from groundbox.trace.narrate.calls import Calls
from groundbox.trace.narrate.evaluation import Results, position
from groundbox.trace.narrate.gaps import is_given
from groundbox.trace.narrate.lambdas import is_unnamed
from groundbox.trace.narrate.narration import ClaimKind
from groundbox.trace.narrate.paths import path_to
from groundbox.trace.narrate.phrases import Phrase, listed, saying
from groundbox.trace.narrate.policy import Level
from groundbox.trace.narrate.reasons import Reasons, ValueReason, workings_of
from groundbox.trace.narrate.telling import MAX_AGAIN, Telling, Where, claim
from groundbox.trace.record import schema
from groundbox.trace.record.schema import V
from groundbox.trace.record.value import ref_of
from groundbox.trace.run.structure import Activation, Step

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda)
_MOST_NAMES = 3
_SHORT = 60


@dataclass(kw_only=True)
class StepNotes:
    """Notes of a step, taken on the way to its end.

    Attributes:
        why: How the values of its targets came about, by name or by code.
        reasons: Its condition and what it returns.
        paths: Ways to the objects that it changed, by label.
        olds: Texts of the values that its names had before.
    """

    why: dict[str, ValueReason] = field(default_factory=dict)
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

    def __init__(self, telling: Telling, calls: Calls) -> None:
        self._telling = telling
        self._calls = calls

    def tell(self, step: Step, where: Where, *, own: bool = True) -> StepNotes:
        """Tell a step as its level says, and go on to its end.

        Nothing is said of a step whose moment has passed, as may happen around generators.

        Args:
            own: Whether it is told itself, and not only the calls that it makes.
        """
        # A generator's step may have been gone past by a call that was told before it.
        ahead = self._telling.state.t > step.step
        seen = self._run(step, replace(where, level=Level.SILENT) if ahead else where)
        if own and not ahead and where.level > Level.SILENT:
            self._word(step, where, seen)
        return seen

    def _run(self, step: Step, where: Where) -> StepNotes:
        """Go through what happens in a step, in its order; calls are told on the way."""
        self._calls.lambdas.begin()
        seen = self._run_parts(step, where)
        self._calls.lambdas.end()
        return seen

    def _run_parts(self, step: Step, where: Where) -> StepNotes:
        telling = self._telling
        telling.advance(step.step)
        seen = StepNotes()
        calls: dict[int, Activation | None] = {call.first: call for call in step.calls}
        calls.update(dict.fromkeys(step.resumes))
        generators = telling.generators  # which go on after the call
        # What a line changes itself comes after its calls; what stands before that they have changed.
        last_call = max((call.last for call in step.calls if call.frame not in generators), default=-1)
        left_out = self._left_out(step, where)
        for ref in sorted((*calls, *step.effects)):
            if ref in calls:
                self._run_call(step, ref, calls[ref], where, seen, left_out)
                continue
            # One record short: what the change replaces is looked at first.
            telling.advance(ref - 1)
            if ref > last_call and isinstance(telling.trace.records[ref], schema.Set | schema.Mutate):
                self._prepare(step, seen)
            self._note(step, ref, seen)
        # Nothing of its own changed, as for the test of an `if`.
        if not seen.prepared:
            telling.advance(max(last_call, step.step))
            self._prepare(step, seen)
        telling.advance(step.last)
        return seen

    def _run_call(
        self, step: Step, ref: int, call: Activation | None, where: Where, seen: StepNotes, left_out: Sequence[int]
    ) -> None:
        """A call, or for None a generator that goes on."""
        if seen.notes and where.level > Level.SILENT:
            # Changes before a call, as of an argument that is popped, are told before it.
            self._telling.advance(ref - 1)
            self._calls.lambdas.flush()
            self._word_changes(step, seen)
            seen.notes = []
        if left_out and ref == left_out[0]:
            self._calls.lambdas.flush()
            self._say_left_out(step, left_out)
        if left_out and left_out[0] <= ref <= left_out[-1]:
            where = replace(where, level=Level.SILENT)
        if call is None:
            self._calls.resumed(ref, where)
        else:
            self._calls.tell(call, replace(where, quiet=self._says_result(step)))

    def _left_out(self, step: Step, where: Where) -> Sequence[int]:
        """Of many calls in one line, as of a key function, the first ones and the last one are told."""
        most = self._telling.policy.calls_in_line
        going_on = [ref for ref in step.resumes if not self._is_of_an_expression(ref)]
        refs = sorted([call.first for call in step.calls if not is_unnamed(call)] + going_on)
        if most is None or where.level == Level.SILENT:
            return ()
        # The first ones show what is done, the last one where it ended.
        most = most if where.level == Level.FULL else min(most, 2)
        if len(refs) <= most + 1:
            return ()
        return refs[most - 1 : -1]

    def _is_of_an_expression(self, ref: int) -> bool:
        """Return whether what goes on at a record is a generator expression: nobody calls its items."""
        record = self._telling.trace.records[ref]
        activation = self._telling.trace.structure.activations.get(getattr(record, "f", 0))
        return activation is not None and is_unnamed(activation)

    def _say_left_out(self, step: Step, refs: Sequence[int]) -> None:
        count = f"{len(refs)} more"
        records = self._telling.trace.records
        frames = {getattr(records[ref], "f", 0) if ref in step.resumes else 0 for ref in (*refs, *step.resumes[-1:])}
        is_one_generator = len(frames) == 1 and 0 not in frames  # which goes on after them: each of them gave a value
        kind = "yield.left_out" if is_one_generator else "call.left_out"
        self._telling.say(kind, claim(ClaimKind.COUNT, refs, step.frame, "calls", str(len(refs))), count=count)

    def _says_result(self, step: Step) -> bool:
        """Return whether the statement is one call, whose result is the value that it assigns or returns."""
        value = getattr(step.statement, "value", None)
        if len(step.calls) != 1 or not isinstance(value, ast.Call) or not results_of(step, self._telling.generators):
            return False
        records = self._telling.trace.records
        sets = any(isinstance(records[ref], schema.Set) for ref in step.effects)
        return sets or isinstance(step.statement, ast.Return)

    def _prepare(self, step: Step, seen: StepNotes) -> None:
        """Work out the step's expressions, at the moment at which nothing of its own has changed yet."""
        if seen.prepared:
            return
        seen.prepared = True
        telling = self._telling
        explanation = telling.explanation(step.frame, results_of(step, self._telling.generators))
        # By function and line: in each frame the same code is the same to a reader.
        first = telling.seen(("code", step.frame and telling.state.frames[step.frame].name, step.line)) == 0
        seen.why, seen.reasons = workings_of(
            step, explanation, telling.code, first=first, crowded=telling.is_disturbed(step.statement)
        )

    def _note(self, step: Step, ref: int, seen: StepNotes) -> None:
        telling = self._telling
        record = telling.trace.records[ref]
        match record:
            case schema.Mutate():
                change = changes.note(telling.state, ref, record)
                if record.id not in seen.paths and (path := self._path(step, record.id)):
                    seen.paths[record.id] = path
                telling.advance(ref)
                seen.notes.append(changes.made(telling.state, change))
            case schema.Set(name=name):
                # The state has no own name of the frame for a global or nonlocal one.
                held = telling.state.names(step.frame) if record.scope is None else {}
                if name in held:
                    seen.olds[name] = telling.text(held[name])
                seen.sets.append(ref)
            case schema.Out():
                seen.outs.append(ref)
            case schema.Del():
                seen.dels.append(ref)

    def _path(self, step: Step, label: int) -> str | None:
        telling = self._telling
        explanation = telling.explanation(step.frame, results_of(step, self._telling.generators))
        # These have no statement, but code that names what it changes.
        node = telling.trace.structure.activations[step.frame].node
        nodes = [node] if isinstance(node, ast.Lambda | ast.GeneratorExp) else expressions_of(step)
        return path_to(telling.state, step.frame, label, nodes, explanation)

    def _word(self, step: Step, where: Where, seen: StepNotes) -> None:
        telling = self._telling
        if _is_of_the_compiler(step.statement):
            return
        # That a function is defined is no news; that its name held something else before is.
        if step.part == "definition":
            self._word_values(
                step, seen, but=[name for name in telling.state.names(step.frame) if name not in seen.olds]
            )
            return
        if step.inline and isinstance(step.statement, ast.If) and step.condition is not None:
            self._word_condition(step, step.statement.test, where, seen, leads=step.condition)
        self._word_changes(step, seen)
        for detail in seen.reasons.items:
            refs = [step.step]
            telling.draft.say(detail.text, claim(ClaimKind.CONDITION, refs, step.frame, detail.subject, detail.value))
        self._word_values(step, seen)
        self._word_flow(step, where, seen)

    def word_body(self, header: Step, seen: StepNotes, targets: Sequence[str]) -> None:
        """Tell what the body of a loop did that stands on the line of its header.

        Args:
            seen: As `tell` left it.
            targets: The names that the header itself gave values to.
        """
        self._word_changes(header, seen)
        self._word_values(header, seen, but=targets)

    def _word_values(self, step: Step, seen: StepNotes, but: Sequence[str] = ()) -> None:
        """The names that took values or lost them, and the output."""
        telling = self._telling
        for ref in seen.sets:
            record = telling.trace.records[ref]
            assert isinstance(record, schema.Set)
            if record.name not in but:
                self._word_value(ref, record, seen.olds.get(record.name), seen.why.get(record.name))
        for ref in seen.outs:
            self._word_output(ref)
        for ref in seen.dels:
            record = telling.trace.records[ref]
            assert isinstance(record, schema.Del)
            told = claim(ClaimKind.VALUE, [ref], step.frame, record.name, "")
            telling.say("value.deleted", told, name=f"`{record.name}`")

    def _word_value(self, ref: int, record: schema.Set, old: str | None, why: ValueReason | None) -> None:
        """Say a `set` record.

        Args:
            old: The text of the value before, if there was one.
            why: How the new one came about, if that is known.
        """
        if self._telling.is_code(record.v) and (old is None or old.startswith("<")):
            return  # of a name that held something else it is told: `key` changes from None to a function
        telling = self._telling
        value = telling.text(record.v)
        why = None if telling.is_code(record.v) else why
        text = self._value_text(f"`{record.name}`", record.v, value, old, why)
        telling.draft.say(text, claim(ClaimKind.VALUE, [ref], record.f, record.name, value, why=why))

    def _value_text(self, name: str, held: V, value: str, old: str | None, why: ValueReason | None) -> str:
        say = self._telling.voice.say
        if why is not None:
            if why.call is not None:
                # The call has told the object at length.
                again = len(value) > MAX_AGAIN and ref_of(held) is not None
                kind = "value.is_call.again" if again else "value.is_call"
                return say(
                    kind, name=name, call=why.call, value=value, thing=self._telling.thing(held) if again else ""
                )
            if why.alias is not None and ref_of(held) is not None:
                return say(
                    "value.same_object", name=name, thing=self._telling.thing(held), other=why.alias, value=value
                )
            if why.by is not None and why.result == value and old is not None:
                return say(
                    "value.grows" if why.sign == "+" else "value.falls", name=name, old=old, value=value, by=why.by
                )
            if why.chain is not None and (why.result is None or why.result == value) and len(value) < 200:
                return say("value.workings", name=name, workings=why.chain, value=value)
        if old is None:
            return say("value.first", name=name, value=value)
        if old == value:
            return say("value.stays", name=name, value=value)
        if len(old) < 20 and len(value) < 20:
            return say("value.changes", name=name, old=old, value=value)
        return say("value.new", name=name, value=value)

    def _word_changes(self, step: Step, seen: StepNotes) -> None:
        telling = self._telling
        told: list[tuple[list[Phrase], Phrase | None]] = []
        records = telling.trace.records[step.step : seen.notes[-1].ref] if seen.notes else ()
        new = {record.id for record in records if isinstance(record, schema.Object)}
        for label, notes in _by_object(seen.notes):
            path = seen.paths.get(label) or self._path(step, label)
            # An object that nothing leads to is no object for a reader; one that only a new name leads to is told with
            # that name.
            if path is None or (label not in seen.paths and self._is_new(path, seen)):
                continue
            later = {note.label for note in seen.notes if note.ref > notes[-1].ref} - {label}
            found, whole = changes.worded(telling.voice, telling.state, notes, path, seen.why, later=later, new=new)
            state = None if whole is None else self._changed(whole, step)
            told.append(([self._changed(said, step) for said in found], state))
        # What an object is after the line comes after the changes of what is in it.
        for texts, state in sorted(told, key=lambda each: not each[0][0].kind and each[1] is None):
            if state is not None:
                text = telling.voice.say("object.changes", changes=listed(texts), state=state)
                telling.draft.say(text, alone=True)
                continue
            for text in texts:
                telling.draft.say(text)

    def _changed(self, said: changes.Change, step: Step) -> Phrase:
        """A clause about a change, with its claim."""
        made = claim(ClaimKind.MUTATION, [said.ref], step.frame, said.subject, said.value, why=said.why)
        return saying(said.text, made)

    def _is_new(self, path: str, seen: StepNotes) -> bool:
        """Return whether a way begins at a name that the step gave its value: `x` in `x, x.next = Node(1), Node(2)`.

        The value is told with the name, whole.
        """
        records = self._telling.trace.records
        root = path.partition(".")[0].partition("[")[0]
        return any(getattr(records[ref], "name", None) == root for ref in seen.sets)

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
        telling.say(kind, claim(ClaimKind.OUTPUT, [ref], 0, "", value), value=value)

    def _word_flow(self, step: Step, where: Where, seen: StepNotes) -> None:
        """Conditions, jumps and exceptions."""
        match step.statement:
            case ast.If(test=test, orelse=orelse) if step.condition is not None and not step.inline:
                self._word_condition(step, test, where, seen, leads=step.condition or bool(orelse))
            case ast.Assert(test=test) if step.condition is not None:
                self._word_condition(step, test, where, seen, leads=False)
            case ast.Break() | ast.Continue() if where.number:
                word, number = type(step.statement).__name__.lower(), str(where.number)
                said = claim(ClaimKind.ORDER, [step.step], step.frame, word, number)
                self._telling.say(f"loop.{word}", said, number=number)
            case ast.Return():
                where.returning.append(seen.reasons)
        if step.part == "except" and step.condition is not None:
            self._word_handler(step)
        if step.part == "case" and step.condition is not None:
            self._word_case(step)
        if step.raised is not None:
            self._word_exception(step)

    def _word_condition(self, step: Step, test: ast.expr, where: Where, seen: StepNotes, *, leads: bool) -> None:
        assert step.condition is not None
        reason = seen.reasons.reason
        told = self._telling.condition(test, step.condition, reason, brief=where.level < Level.FULL, leads=leads)
        said = claim(ClaimKind.CONDITION, [step.step], step.frame, ast.unparse(test), str(step.condition), why=reason)
        draft, is_reasoned = self._telling.draft, reason is not None
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
        said = claim(ClaimKind.EXCEPTION, [step.step], step.frame, kind, "handled")
        self._telling.say("handler", said, handler=kind)

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
        value = self._telling.exception(record)
        told = claim(ClaimKind.EXCEPTION, [step.raised], step.frame, "", value)
        if record.from_ is None:
            self._telling.say("raise", told, value=value)
            return
        # If it came out of a call, it was told there, unless the call is of code within the expression.
        activation = self._telling.trace.structure.activations.get(record.from_)
        if activation is None or not is_unnamed(activation):
            return
        within = self._origin(activation)
        if within is None:
            return
        values = self._values_at(*within)
        if values:
            self._telling.say("raise.within", told, value=value, values=listed(values))
        else:
            self._telling.say("raise", told, value=value)

    def _origin(self, activation: Activation) -> tuple[Activation, int] | None:
        """Where an exception came up in code within an expression, and its record; None if it came out of a call."""
        records, activations = self._telling.trace.records, self._telling.trace.structure.activations
        while True:
            raised = (ref for ref in range(activation.last, activation.first, -1) if self._is_raise(ref, activation))
            ref = next(raised, None)
            record = None if ref is None else records[ref]
            if ref is None or not isinstance(record, schema.Raise):
                return None
            if record.from_ is None:
                return activation, ref
            inner = activations.get(record.from_)
            if inner is None or not is_unnamed(inner):
                return None
            activation = inner

    def _is_raise(self, ref: int, activation: Activation) -> bool:
        record = self._telling.trace.records[ref]
        return isinstance(record, schema.Raise) and record.f == activation.frame

    def _values_at(self, activation: Activation, ref: int) -> list[Phrase]:
        """The names of code within an expression, with their values when record `ref` was made."""
        telling = self._telling
        found: dict[str, tuple[int, schema.V]] = {
            name: (activation.first, value) for name, value in activation.args.items() if name.isidentifier()
        }
        for at in range(activation.first, ref):
            record = telling.trace.records[at]
            if isinstance(record, schema.Set) and record.f == activation.frame and record.name.isidentifier():
                found[record.name] = (at, record.v)
        told = [(name, at, telling.text(value)) for name, (at, value) in found.items()]
        return [
            is_given(name, text, [at], activation.frame) for name, at, text in told[:_MOST_NAMES] if len(text) < _SHORT
        ]


def _by_object(notes: Sequence[changes.Note]) -> list[tuple[int, list[changes.Note]]]:
    """Changes by the object that they are of, in the order of the first one of each."""
    found: dict[int, list[changes.Note]] = {}
    for note in notes:
        found.setdefault(note.label, []).append(note)
    return list(found.items())


def _is_of_the_compiler(statement: ast.stmt | None) -> bool:
    """Return whether it is a `from __future__ import …`, which does nothing when it runs."""
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


def results_of(step: Step, generators: frozenset[int]) -> Results:
    """Return the calls in a step's own text that returned, as far as text and activations fit one to one.

    Args:
        generators: Frames of generators, whose calls return no value of their own.
    """
    if not step.calls:
        return {}
    found: Results = {}
    nodes = list(_calls(expressions_of(step)))
    for name in {callee(node) for node in nodes}:
        same = [node for node in nodes if callee(node) == name]
        called = [activation for activation in step.calls if _name(activation) == name]
        # As many calls in the text as were made: none was left out by `and`, `or` or `if`, and none made twice.
        if len(same) == len(called):
            for node, activation in zip(same, called, strict=True):
                if activation.outcome == "return" and activation.frame not in generators:
                    found[position(node)] = activation
    return found


def expressions_of(step: Step) -> Sequence[ast.AST]:
    """The parts of a statement that this step runs."""
    match step.statement:
        case ast.If(test=test) | ast.While(test=test):
            return [test]
        case ast.For(iter=items) | ast.AsyncFor(iter=items):
            return [items]
        case ast.With(items=managers) | ast.AsyncWith(items=managers):
            return [manager.context_expr for manager in managers]
        case ast.Match(subject=subject):
            return [subject] if step.part == "subject" else []
        case None | ast.Try() | ast.FunctionDef() | ast.ClassDef() | ast.AsyncFunctionDef():
            return []
    return [step.statement]


def callee(node: ast.Call) -> str:
    """The last part of the called name; empty where there is none."""
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def _name(activation: Activation) -> str:
    return activation.name.rpartition(".")[2]


def _calls(nodes: Sequence[ast.AST]) -> Iterator[ast.Call]:
    """Calls in the order in which they are made, those in comprehensions left out."""
    for node in nodes:
        if isinstance(node, _COMPREHENSIONS):
            continue
        # Arguments are worked out before the call that they are given to.
        yield from _calls(list(ast.iter_child_nodes(node)))
        if isinstance(node, ast.Call):
            yield node
