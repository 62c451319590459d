"""Calls of user code: with which arguments, what happened in them, what they returned; and what generators gave.

`Calls` tells a call step by step, `Outcomes` by what came of it alone, `Generators` the values that a generator gave at
the moments at which it gave them. `title` and `call_text` name a call as code, with its arguments as far as these are
short.
"""

from __future__ import annotations

import ast
import bisect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from groundbox.trace.narrate.gaps import Before, Gaps, is_given, is_now
from groundbox.trace.narrate.lambdas import Lambdas, is_lambda, is_unnamed
from groundbox.trace.narrate.narration import Claim, ClaimKind
from groundbox.trace.narrate.phrases import Phrase, listed, saying
from groundbox.trace.narrate.policy import Level, level_of
from groundbox.trace.narrate.reasons import ValueReason
from groundbox.trace.narrate.telling import Telling, Where, claim
from groundbox.trace.record import schema
from groundbox.trace.record.schema import V
from groundbox.trace.record.value import ref_of
from groundbox.trace.run.folding import loops
from groundbox.trace.run.structure import Activation, Folded, Loop, Node, Step
from groundbox.values.unknown import Unknown

MAX_ARGUMENT: Final = 24
"""Characters of an argument in a call that is written as code; a longer one goes by its name."""

Block = Callable[[Sequence[Node], Where], None]
TellStep = Callable[[Step, Where], object]
TellFold = Callable[[Loop, Folded, Where], object]


class Calls:
    """Tells activations."""

    def __init__(self, telling: Telling, block: Block, step: TellStep, fold: TellFold) -> None:
        """Take what tells the parts of a body.

        Args:
            block: Tells a row of steps and loops.
            step: Tells one step, as of a generator, whose loops go on over several of its values.
            fold: Tells what was folded of a loop.
        """
        self._telling = telling
        self._block = block
        self._outcomes = Outcomes(telling)
        self._generators = Generators(telling, self, step, fold)
        self.lambdas = Lambdas(telling, step, self._tell_within)
        self._titles: dict[int, str] = {}

    def tell(self, activation: Activation, where: Where) -> None:
        """Tell a call that a step made, and go on to its end."""
        level = self._level(activation, where)
        if not is_unnamed(activation):
            self.lambdas.flush()
        if activation.frame in self._telling.generators:
            self._generators.tell(activation, activation.first, where)
        elif is_lambda(activation):
            self.lambdas.tell(activation, where)
        # Of a list comprehension that is a frame of its own the calls are told: values that come later depend on them.
        elif is_unnamed(activation) and self._telling.policy.is_whole and where.level >= Level.SHORT:
            self._tell_within(activation, where)
        elif level == Level.SILENT:
            self._telling.advance(activation.last)
        elif level == Level.RESULT or activation.folded is not None:
            self._outcomes.tell(activation, where)
        else:
            self._tell_body(activation, level)
            self._come_back(activation, where)

    def _tell_within(self, activation: Activation, where: Where) -> None:
        """The calls that code within an expression makes; its own value is told by the line that it belongs to."""
        for step in activation.steps():
            for call in step.calls:
                self.tell(call, replace(where, quiet=False))
        self._telling.advance(activation.last)

    def tell_entry(self, activation: Activation) -> None:
        """Tell the call that everything is about; its result is left to the answer."""
        if activation.name != "<module>":
            self._intro(activation, "call.entry")
            self._telling.draft.stop()
        where = Where(activation=activation, level=Level.FULL, nested=Level.FULL)
        self._block(activation.body, where)
        self._finish_entry(activation, where)

    def resumed(self, ref: int, where: Where) -> None:
        """Tell what a generator gave when it went on."""
        record = self._telling.trace.records[ref]
        assert isinstance(record, schema.Resume)
        if not is_unnamed(self._telling.trace.structure.activations[record.f]):
            self.lambdas.flush()
        self._generators.tell(self._telling.trace.structure.activations[record.f], ref, where)

    def _level(self, activation: Activation, where: Where) -> Level:
        telling = self._telling
        # The state is past its beginning where a generator that was told before has made it.
        if activation.class_body or is_unnamed(activation) or telling.state.t > activation.first:
            return Level.SILENT
        if where.level == Level.SILENT or where.nested <= Level.RESULT:
            return min(where.nested, where.level)
        policy = telling.policy
        if policy.depth is not None and activation.depth > policy.depth + 1:
            telling.passes_over = True
            return Level.RESULT
        # Asked here alone, since each time that it is asked counts as one.
        seen = telling.seen(("call", activation.name))
        return min(where.nested, level_of(seen, policy.full_calls, policy.short_calls, policy.least))

    def _tell_body(self, activation: Activation, level: Level) -> None:
        self._intro(activation, "call.with")
        # What a short telling leaves out may be told in full nowhere inside it.
        nested = Level.FULL if level == Level.FULL else self._telling.policy.least
        where = Where(activation=activation, level=level, nested=nested)
        self._block(activation.body, where)
        self._finish(activation, where)

    def _come_back(self, activation: Activation, where: Where) -> None:
        """After a recursive call, say which of the calls goes on."""
        # Two calls of one function are open, and a reader may take what follows for the inner one.
        if activation.name == where.activation.name and where.activation.frame in self._titles:
            frame = where.activation.frame
            self._telling.draft.back(
                f"back in {self._titles[frame]},", claim(ClaimKind.ORDER, [activation.last], frame, "back", "")
            )

    def say_arguments(self, activation: Activation) -> None:
        """Tell what a generator is given."""
        if self._telling.state.t <= activation.first:
            self._intro(activation, "call.with")

    def _intro(self, activation: Activation, kind: str) -> None:
        telling = self._telling
        ref = activation.first
        telling.advance(ref)
        # Now, since objects among the arguments may have changed when the call returns.
        self._titles[activation.frame] = title(self._telling, activation)
        arguments = [(name, value) for name, value in arguments_of(activation) if not self._telling.is_code(value)]
        told = [(name, telling.told_text(value)) for name, value in arguments]
        # The value of an object that was told before was claimed there.
        texts = [
            f"`{name}` = {text}" if text.startswith("the same ") else is_given(name, text, [ref], activation.frame)
            for name, text in told
        ]
        name = activation.short_name
        if name.endswith(".__init__"):
            kind, name = "call.init", name.removesuffix(".__init__")
        kind = kind if arguments else "call.init.bare" if kind == "call.init" else "call.bare"
        called = claim(ClaimKind.CALL, [ref], activation.frame, activation.short_name, "")
        code = f"`{name}`"
        telling.say(kind, called, alone=True, function=code, name=code, arguments=listed(texts))

    def _finish(self, activation: Activation, where: Where) -> None:
        telling = self._telling
        telling.advance(activation.last)
        draft = telling.draft
        # A call that ends without a word needs no `back in`.
        draft.forget_back()
        if activation.outcome == "unwind":
            draft.say(f"the exception leaves {self._titles[activation.frame]}", unwound(activation))
        elif activation.outcome == "return" and self._is_worth_saying(activation):
            why = where.returning[-1].returned if where.returning else None
            draft.say(self._returned(activation, why))
        draft.stop()

    def _is_worth_saying(self, activation: Activation) -> bool:
        """Return whether the end of a call is told; that a procedure gives None is not, unless a test led to it."""
        if activation.value is not None or self._telling.policy.name == "full" or self._telling.draft.has_conditions:
            return True
        return not activation.name.endswith(".__init__") and activation.name not in self._telling.recursive

    def _returned(self, activation: Activation, why: ValueReason | None) -> Phrase:
        telling = self._telling
        # `return self.items` of a list that was told is the same list.
        value = telling.told_text(activation.value) if why and why.alias else telling.text(activation.value)
        told = claim(ClaimKind.RETURN, [activation.last], activation.frame, activation.short_name, value, why=why)
        title = self._titles[activation.frame]
        if why is not None and why.chain is not None and (why.result is None or why.result == value):
            text = telling.voice.say("return.workings", function=title, workings=why.chain, value=value)
        else:
            text = telling.voice.say("return", function=title, value=value)
        return saying(text, told)

    def _finish_entry(self, activation: Activation, where: Where) -> None:
        """The value is told by the answer; here only how it came about."""
        telling = self._telling
        telling.advance(activation.last)
        draft = telling.draft
        if activation.outcome == "return" and where.returning and activation.name != "<module>":
            why = where.returning[-1].returned
            function = f"`{activation.short_name}`"
            value = telling.text(activation.value)
            told = claim(ClaimKind.RETURN, [activation.last], activation.frame, activation.short_name, value, why=why)
            if why is not None and why.chain and not why.alias and why.result in (None, value):
                telling.say("return.entry", told, function=function, workings=why.chain, value=value)
            elif draft.has_conditions:
                telling.say("return.reached", told, function=function, value=value)
        draft.stop()


class Generators:
    """Tells the values that generators gave, at the moments at which they gave them."""

    def __init__(self, telling: Telling, calls: Calls, step: TellStep, fold: TellFold) -> None:
        self._telling = telling
        self._calls = calls
        self._step = step
        self._fold = fold
        self._rests: dict[int, list[int]] = {}
        for ref, record in enumerate(telling.trace.records):
            if isinstance(record, schema.Yield):
                self._rests.setdefault(record.f, []).append(ref)

    def tell(self, activation: Activation, since: int, where: Where) -> None:
        """Tell what a generator did from its call or resumption at record `since` to its next rest."""
        telling = self._telling
        # None where it ends without giving another value.
        ref = self._next(activation, since)
        if where.level >= Level.SHORT and not is_unnamed(activation):
            if since == activation.first and self._telling.policy.is_whole:
                self._calls.say_arguments(activation)
            self._tell_received(activation, since, activation.last if ref is None else ref)
            self._tell_steps(activation, since, where.level)
        elif where.level >= Level.SHORT and self._telling.policy.is_whole:
            end = activation.last if ref is None else ref
            # Each time that it goes on, the steps between this rest and the one before: the tree has them in one body.
            for step in activation.steps():
                if since < step.step <= end and (changes := self._changes(step)):
                    # Not the names that it gives to its items.
                    self._step(replace(step, effects=changes), where)
                    continue
                for call in step.calls:
                    if since < call.first <= end:
                        self._calls.tell(call, where)
        if is_unnamed(activation) or where.level < Level.SHORT:
            telling.advance(ref if ref is not None else activation.last)
            return
        function = f"`{activation.short_name}`"
        if ref is None:
            telling.advance(activation.last)
            if activation.outcome == "return":
                value = "" if activation.value is None else telling.text(activation.value)
                told = claim(ClaimKind.RETURN, [activation.last], activation.frame, activation.short_name, value)
                telling.say("exhausted.value" if value else "exhausted", told, function=function, value=value)
            return
        telling.advance(ref)
        record = telling.trace.records[ref]
        assert isinstance(record, schema.Yield)
        value = telling.text(record.v)
        told = claim(ClaimKind.RETURN, [ref], activation.frame, activation.short_name, value)
        telling.say("yield", told, function=function, value=value)

    def _changes(self, step: Step) -> list[int]:
        """Objects that a step changes, and what it prints."""
        records = self._telling.trace.records
        return [ref for ref in step.effects if isinstance(records[ref], schema.Mutate | schema.Out)]

    def _tell_received(self, activation: Activation, since: int, end: int) -> None:
        """Tell what names got when it went on, as `got` in `got = yield from inner()`, whose line began before."""
        telling = self._telling
        for step in activation.steps():
            for ref in step.effects if step.yields and step.step <= since else ():
                record = telling.trace.records[ref]
                if since < ref <= end and isinstance(record, schema.Set) and record.scope is None:
                    telling.advance(ref)
                    value = telling.text(record.v)
                    told = claim(ClaimKind.VALUE, [ref], record.f, record.name, value)
                    telling.say("value.new", told, name=f"`{record.name}`", value=value)

    def _tell_steps(self, activation: Activation, since: int, level: Level) -> None:
        """Tell what its own code did until it rested, step by step: its loops go on over several rests."""
        rest = self._next(activation, since) or activation.last
        where = Where(activation=activation, level=level, nested=self._telling.policy.least)
        folds = [(fold.record, fold, loop) for loop in loops(activation.body) for fold in loop.folds]
        folds = sorted((each for each in folds if since < each[0] <= rest), key=lambda each: each[0])
        for step in activation.steps():
            # The step with the `yield` is told by the value that it gives.
            told = since < step.step and step.last <= rest and not step.yields
            kinds = ast.stmt if self._telling.policy.is_whole else ast.If | ast.Assign | ast.AugAssign
            if not told or not isinstance(step.statement, kinds):
                continue
            # Folds in the order in which they happened, between the steps.
            while folds and folds[0][0] < step.step:
                self._fold(folds[0][2], folds[0][1], where)
                self._telling.draft.stop()
                del folds[0]
            self._step(step, where)
        for _, fold, loop in folds:
            self._fold(loop, fold, where)

    def _next(self, activation: Activation, since: int) -> int | None:
        """Its first yield after a record, if it did not end before."""
        rests = self._rests.get(activation.frame, [])
        at = bisect.bisect_right(rests, since)
        return rests[at] if at < len(rests) else None


class Outcomes:
    """Tells calls by their results."""

    def __init__(self, telling: Telling) -> None:
        self._telling = telling
        self._gaps = Gaps(telling)

    def tell(self, activation: Activation, where: Where) -> None:
        """Go to the end of a call, and tell what came of it."""
        telling = self._telling
        telling.advance(activation.first)
        call = call_text(self._telling, activation)
        frame = where.activation.frame
        # Looked at before the state goes on: what its caller can see changed is the difference.
        touched, names = self._touched(activation)
        before = self._gaps.look(frame, touched)
        outer = {name: self._outer(frame, name) for name in names}
        # Moves the state on to the innermost call, whose value is told at that moment.
        descent = self._descent(activation) if activation.outcome == "return" else None
        telling.advance(activation.last)
        if activation.outcome == "unwind":
            self._say_exception(activation, call)
        elif activation.name.endswith(".__init__"):
            self._tell_made(activation)
        elif activation.outcome == "return":
            self._say_result(activation, call, before, where, outer, descent)

    def _say_exception(self, activation: Activation, call: str) -> None:
        """The exception that left a call: the last that came up in it, or came into it."""
        records = self._telling.trace.records
        for ref in range(activation.last, activation.first, -1):
            record = records[ref]
            if isinstance(record, schema.Raise) and record.f == activation.frame:
                value = self._telling.exception(record)
                told = claim(
                    ClaimKind.EXCEPTION, [ref, activation.last], activation.frame, activation.short_name, value
                )
                self._telling.draft.say(f"{call} raises {value}", told)
                return
        self._telling.draft.say(f"{call} raises an exception", unwound(activation))

    def _say_result(
        self,
        activation: Activation,
        call: str,
        before: Before,
        where: Where,
        outer: dict[str, str | None],
        descent: Phrase | None,
    ) -> None:
        """Say what a call returned, and what it changed that its caller can see.

        Args:
            before: The caller's objects when it began.
            outer: Names of enclosing functions or of the module that it set, with what they were.
            descent: How far down a recursion went.
        """
        if descent is not None:
            self._telling.draft.say(descent)
        changed = self._changed(activation, before, where.activation.frame, outer)
        # The line that called says what it returned.
        if where.quiet and not changed and descent is None:
            return
        telling = self._telling
        value = telling.text(activation.value)
        refs = [activation.first, activation.last]
        told = claim(ClaimKind.RETURN, refs, activation.frame, activation.short_name, value)
        text = telling.voice.say("call.result", call=call, value=value)
        if changed:
            text = telling.voice.say(_leaving(activation, descent), call=call, value=value, state=listed(changed))
        telling.draft.say(text, told)

    def _changed(
        self, activation: Activation, before: Before, frame: int, outer: dict[str, str | None]
    ) -> list[Phrase]:
        # Names that were not looked at before would all be new.
        others = [name for name in self._telling.state.names(frame) if name not in before.names]
        changed = self._gaps.after(before, frame, activation.first, activation.last, but=others)
        return changed + self._outer_changes(frame, outer, activation)

    def _touched(self, activation: Activation) -> tuple[set[int | None], list[str]]:
        """Objects that were given to a call or changed in it, and names of others that it set."""
        touched: set[int | None] = {ref_of(value) for value in activation.args.values()} - {None}
        names: dict[str, None] = {}
        for record in self._telling.trace.records[activation.first : activation.last + 1]:
            if isinstance(record, schema.Mutate):
                touched.add(record.id)
            # Set in the call, and no name of its own: `global` or `nonlocal`.
            elif isinstance(record, schema.Set) and record.scope is not None:
                names[record.name] = None
        return touched, list(names)

    def _outer(self, frame: int, name: str) -> str | None:
        """Return what a name means to a frame, if it is known."""
        try:
            return self._telling.text(self._telling.state.lookup(frame, name), 60)
        except (KeyError, Unknown):
            return None

    def _outer_changes(self, frame: int, outer: dict[str, str | None], activation: Activation) -> list[Phrase]:
        said = []
        for name, before in outer.items():
            now = self._outer(frame, name)
            if now is not None and now != before:
                said.append(is_now(name, now, [activation.last], frame))
        return said

    def _descent(self, activation: Activation) -> Phrase | None:
        """Return how far down a recursion goes that is not told, and what its base case gives at that moment."""
        telling = self._telling
        leaf = _leaf(activation)
        if leaf is None or leaf.outcome != "return":
            return None
        telling.advance(leaf.last)
        value = telling.text(leaf.value)
        text = telling.voice.say("call.down", call=call_text(self._telling, leaf, past=True), value=value)
        refs = [leaf.first, leaf.last]
        return saying(text, claim(ClaimKind.RETURN, refs, leaf.frame, leaf.short_name, value))

    def _tell_made(self, activation: Activation) -> None:
        telling = self._telling
        made = next(iter(activation.args.values()), None)
        if ref_of(made) is None:
            return
        text = telling.text(made, 80)
        told = claim(ClaimKind.CALL, [activation.first, activation.last], activation.frame, activation.short_name, text)
        telling.say("call.made", told, value=text)


def _leaving(activation: Activation, descent: Phrase | None) -> str:
    """Return how to word what a call changed. One that was gone down already does not run now."""
    if activation.value is not None:
        return "call.leaves.value"
    return "call.leaves" if descent is None else "call.leaves.back"


def _leaf(activation: Activation) -> Activation | None:
    """Return where the chain of calls of a function by itself ends, if there is one and it is a long one."""
    at, length = activation, 0
    while True:
        inner = next((call for step in at.steps() for call in step.calls if call.name == activation.name), None)
        if inner is None:
            break
        at, length = inner, length + 1
    # One call of itself is told by its result.
    return at if length > 1 else None


def unwound(activation: Activation) -> Claim:
    """The claim that an exception left a call."""
    return claim(ClaimKind.EXCEPTION, [activation.last], activation.frame, activation.short_name, "unwound")


def arguments_of(activation: Activation) -> Sequence[tuple[str, V]]:
    """Parameters with their values, but the object that a method belongs to."""
    items = list(activation.args.items())
    # By custom alone: the object before the dot is no argument that the caller writes.
    return items[1:] if items and items[0][0] in ("self", "cls") else items


def title(telling: Telling, activation: Activation) -> str:
    """Return how a call is named when it returns: with its arguments where several of the same function are open.

    Objects go by the names of the parameters, since they may have changed by then.
    """
    if activation.name not in telling.recursive:
        return f"`{activation.short_name}`"
    return _written(
        telling,
        activation,
        lambda name, value: name or "..." if ref_of(value) is not None else _argument(telling, activation, value),
    )


def call_text(telling: Telling, activation: Activation, *, past: bool = False) -> str:
    """The call as code: short arguments by their values, others by the caller's names for them.

    Args:
        past: Whether the call lies behind, so that objects may have changed since.
    """
    items = arguments_of(activation)
    # A method without arguments is told by its object, where that is short.
    if not items and activation.args and not past:
        owner = telling.text(next(iter(activation.args.values())), 1000)
        if len(owner) <= MAX_ARGUMENT:
            return f"`{activation.short_name}({owner})`"
    return _written(
        telling,
        activation,
        lambda _, value: "..." if past and ref_of(value) is not None else _argument(telling, activation, value),
    )


def _written(telling: Telling, activation: Activation, write: Callable[[str, V], str]) -> str:
    """A call as code: the arguments of `*args` one by one, those of `**options` by their names.

    Args:
        write: The text of a value; without a name for one of many.
    """
    function = activation.node.args if isinstance(activation.node, ast.FunctionDef) else None
    spread, options = (getattr(each, "arg", "") for each in (function.vararg, function.kwarg)) if function else ("", "")
    # Behind `*args` a parameter is given by name alone.
    keywords = {each.arg for each in function.kwonlyargs} if function and spread else set()
    texts: list[str] = []
    for name, value in arguments_of(activation):
        if name == spread and isinstance(value, dict) and "tuple" in value:
            texts += [write("", each) for each in value["tuple"]] + (["..."] if value.get("elided") else [])
        elif name == options:
            texts += _options(telling, value, write)
        else:
            texts.append(f"{name}={write('', value)}" if name in keywords else write(name, value))
    # Those by name last, as Python demands; `sorted` keeps the order of equals.
    return f"`{activation.short_name}({', '.join(sorted(texts, key=_is_by_name))})`"


def _is_by_name(text: str) -> bool:
    return text.partition("=")[0].isidentifier() and "=" in text


def _options(telling: Telling, value: V, write: Callable[[str, V], str]) -> list[str]:
    held = telling.state.heap.get(ref_of(value) or 0)
    pairs = list(held.pairs.values()) if held is not None and held.pairs is not None else []
    if held is None or held.unknown_pairs or not all(isinstance(key, str) and key.isidentifier() for key, _ in pairs):
        return ["..."]
    return [f"{key}={write('', each)}" for key, each in pairs]


def _argument(telling: Telling, activation: Activation, value: V) -> str:
    text = telling.text(value, 1000)
    if len(text) <= MAX_ARGUMENT and "`" not in text:
        return text
    # A long object goes by the caller's name for it.
    label = ref_of(value)
    names = telling.state.names(activation.parent) if label is not None else {}
    return next((name for name, held in names.items() if ref_of(held) == label), "...")
