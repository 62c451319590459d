"""Generators: what they gave each time they went on."""

from __future__ import annotations

import ast
import bisect
from collections.abc import Callable

from groundbox.trace import schema
from groundbox.trace.narration.narration import ClaimKind
from groundbox.trace.narration.policy import Level
from groundbox.trace.narration.telling import Telling, Where, claim
from groundbox.trace.structure import Activation, Step


class Generators:
    """Tells the values that generators gave, at the moments at which they gave them."""

    def __init__(self, telling: Telling, tell_step: Callable[[Step, Where], object]) -> None:
        self._telling = telling
        self._tell_step = tell_step
        self._rests: dict[int, list[int]] = {}
        for ref, record in enumerate(telling.trace.records):
            if isinstance(record, schema.Yield):
                self._rests.setdefault(record.f, []).append(ref)

    def tell(self, activation: Activation, since: int, where: Where) -> None:
        """What a generator did from its call or resumption at record `since` to its next rest."""
        telling = self._telling
        if where.level >= Level.SHORT and not is_unnamed(activation):
            self._tell_steps(activation, since, where.level)
        ref = self._next(activation, since)
        if is_unnamed(activation) or where.level < Level.SHORT:
            telling.advance(ref if ref is not None else activation.last)
            return
        function = f"`{activation.short_name}`"
        if ref is None:
            telling.advance(activation.last)
            if activation.outcome == "return":
                text = telling.voice.say("exhausted", function=function)
                told = claim(ClaimKind.RETURN, [activation.last], activation.frame, activation.short_name, "")
                telling.draft.say(text, told)
            return
        telling.advance(ref)
        record = telling.trace.records[ref]
        assert isinstance(record, schema.Yield)
        value = telling.text(record.v)
        text = telling.voice.say("yield", function=function, value=value)
        telling.draft.say(text, claim(ClaimKind.RETURN, [ref], activation.frame, activation.short_name, value))

    def _tell_steps(self, activation: Activation, since: int, level: Level) -> None:
        """What its own code did until it rested, step by step: its loops go on over several rests."""
        rest = self._next(activation, since) or activation.last
        where = Where(activation=activation, level=level, nested=Level.RESULT)
        for step in activation.steps():
            told = since < step.step and step.last <= rest and not step.yields
            if told and isinstance(step.statement, ast.If | ast.Assign | ast.AugAssign):
                self._tell_step(step, where)

    def _next(self, activation: Activation, since: int) -> int | None:
        """Its first yield after a record, if it did not end before."""
        rests = self._rests.get(activation.frame, [])
        at = bisect.bisect_right(rests, since)
        return rests[at] if at < len(rests) else None


def is_unnamed(activation: Activation) -> bool:
    """Whether it is code inside an expression: its value is told by the line that it belongs to."""
    return activation.name.rpartition(".")[2] in ("<lambda>", "<genexpr>", "<listcomp>", "<setcomp>", "<dictcomp>")
