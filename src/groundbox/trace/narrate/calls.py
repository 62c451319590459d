"""Calls of user code: with which arguments, what happened in them, what they returned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from groundbox.trace.narrate.generators import Generators, Parts, is_unnamed
from groundbox.trace.narrate.narration import Claim, ClaimKind
from groundbox.trace.narrate.outcomes import Outcomes, unwound
from groundbox.trace.narrate.policy import Level, level_of
from groundbox.trace.narrate.reasons import Why
from groundbox.trace.narrate.telling import Telling, Where, claim, listed
from groundbox.trace.narrate.titles import arguments_of, title
from groundbox.trace.record import schema
from groundbox.trace.run.structure import Activation, Node

Block = Callable[[Sequence[Node], Where], None]


class Calls:
    """Tells activations."""

    def __init__(self, telling: Telling, block: Block, parts: Parts) -> None:
        self._telling = telling
        self._block = block
        self._outcomes = Outcomes(telling)
        self._generators = Generators(telling, parts)
        self._titles: dict[int, str] = {}

    def tell(self, activation: Activation, where: Where) -> None:
        """Tell a call that a step made, and go on to its end."""
        level = self._level(activation, where)
        if is_unnamed(activation) and self._telling.policy.is_whole and where.level >= Level.SHORT:
            self._tell_within(activation, where)
        elif activation.frame in self._telling.generators:
            self._generators.tell(activation, activation.first, where)
        elif level == Level.SILENT:
            self._telling.advance(activation.last)
        elif level == Level.RESULT or activation.folded is not None:
            self._outcomes.tell(activation, where)
        else:
            self._tell_body(activation, level)
            self._come_back(activation, where)

    def _tell_within(self, activation: Activation, where: Where) -> None:
        """The calls that code within an expression makes; its own value is told by the line that it belongs to."""
        if activation.frame in self._telling.generators:
            self._generators.tell(activation, activation.first, where)
            return
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
        self._generators.tell(self._telling.trace.structure.activations[record.f], ref, where)

    def _level(self, activation: Activation, where: Where) -> Level:
        telling = self._telling
        if activation.class_body or is_unnamed(activation) or telling.state.t > activation.first:
            return Level.SILENT
        if where.level == Level.SILENT or where.nested <= Level.RESULT:
            return min(where.nested, where.level)
        policy = telling.policy
        if policy.depth is not None and activation.depth > policy.depth + 1:
            telling.passes_over = True
            return Level.RESULT
        seen = telling.seen(("call", activation.name))
        return min(where.nested, level_of(seen, policy.full_calls, policy.short_calls, policy.least))

    def _tell_body(self, activation: Activation, level: Level) -> None:
        self._intro(activation, "call.with")
        nested = Level.FULL if level == Level.FULL else self._telling.policy.least
        where = Where(activation=activation, level=level, nested=nested)
        self._block(activation.body, where)
        self._finish(activation, where)

    def _come_back(self, activation: Activation, where: Where) -> None:
        """After a recursive call, say which of the calls goes on."""
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
        telling.advance(activation.first)
        self._titles[activation.frame] = title(self._telling, activation)
        arguments = [(name, value) for name, value in arguments_of(activation) if not self._telling.is_code(value)]
        told = {name: telling.told_text(value) for name, value in arguments}
        texts = listed([f"`{name}` = {text}" for name, text in told.items()])
        name = activation.short_name
        claims = [claim(ClaimKind.CALL, [activation.first], activation.frame, name, "")]
        for argument, text in told.items():
            if not text.startswith("the same "):
                claims.append(claim(ClaimKind.VALUE, [activation.first], activation.frame, argument, text))
        if name.endswith(".__init__"):
            kind, name = "call.init", name.removesuffix(".__init__")
        kind = kind if arguments else "call.init.bare" if kind == "call.init" else "call.bare"
        said = telling.voice.say(kind, function=f"`{name}`", name=f"`{name}`", arguments=texts)
        telling.draft.say(said, *claims, alone=True)

    def _finish(self, activation: Activation, where: Where) -> None:
        telling = self._telling
        telling.advance(activation.last)
        draft = telling.draft
        draft.forget_back()
        if activation.outcome == "unwind":
            draft.say(f"the exception leaves {self._titles[activation.frame]}", unwound(activation))
        elif activation.outcome == "return" and self._is_worth_saying(activation):
            why = where.returning[-1].returned if where.returning else None
            draft.say(*self._returned(activation, why))
        draft.stop()

    def _is_worth_saying(self, activation: Activation) -> bool:
        """Whether its end is told: that a procedure or `__init__` gives None is not, but where a test led to it."""
        if activation.value is not None or self._telling.policy.name == "full" or self._telling.draft.has_conditions:
            return True
        return not activation.name.endswith(".__init__") and activation.name not in self._telling.recursive

    def _returned(self, activation: Activation, why: Why | None) -> tuple[str, Claim]:
        telling = self._telling
        value = telling.told_text(activation.value) if why and why.alias else telling.text(activation.value)
        told = claim(ClaimKind.RETURN, [activation.last], activation.frame, activation.short_name, value)
        title = self._titles[activation.frame]
        if why is not None and why.chain is not None and (why.result is None or why.result == value):
            text = telling.voice.say("return.workings", function=title, workings=why.chain, value=value)
        else:
            text = telling.voice.say("return", function=title, value=value)
        return text, told

    def _finish_entry(self, activation: Activation, where: Where) -> None:
        """The value is told by the answer; here only how it came about."""
        telling = self._telling
        telling.advance(activation.last)
        draft = telling.draft
        if activation.outcome == "return" and where.returning and activation.name != "<module>":
            why = where.returning[-1].returned
            function = f"`{activation.short_name}`"
            value = telling.text(activation.value)
            told = claim(ClaimKind.RETURN, [activation.last], activation.frame, activation.short_name, value)
            if why is not None and why.chain and not why.alias and why.result in (None, value):
                draft.say(telling.voice.say("return.entry", function=function, workings=why.chain, value=value), told)
            elif draft.has_conditions:
                draft.say(telling.voice.say("return.reached", function=function, value=value), told)
        draft.stop()
