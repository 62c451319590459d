"""Generators: what they gave each time they went on."""

from __future__ import annotations

import ast
import bisect
from collections.abc import Callable
from typing import NamedTuple

from groundbox.trace.narrate.narration import ClaimKind
from groundbox.trace.narrate.policy import Level
from groundbox.trace.narrate.telling import Telling, Where, claim
from groundbox.trace.record import schema
from groundbox.trace.run.folding import loops
from groundbox.trace.run.structure import Activation, Folded, Loop, Step


class Parts(NamedTuple):
    """What tells parts of a body."""

    step: Callable[[Step, Where], object]
    call: Callable[[Activation, Where], object]
    arguments: Callable[[Activation], object]
    fold: Callable[[Loop, Folded, Where], object]


class Generators:
    """Tells the values that generators gave, at the moments at which they gave them."""

    def __init__(self, telling: Telling, parts: Parts) -> None:
        self._telling = telling
        self._parts = parts
        self._rests: dict[int, list[int]] = {}
        for ref, record in enumerate(telling.trace.records):
            if isinstance(record, schema.Yield):
                self._rests.setdefault(record.f, []).append(ref)

    def tell(self, activation: Activation, since: int, where: Where) -> None:
        """What a generator did from its call or resumption at record `since` to its next rest."""
        telling = self._telling
        ref = self._next(activation, since)
        if where.level >= Level.SHORT and not is_unnamed(activation):
            if since == activation.first and self._telling.policy.is_whole:
                self._parts.arguments(activation)
            self._tell_steps(activation, since, where.level)
        elif where.level >= Level.SHORT and self._telling.policy.is_whole:
            end = activation.last if ref is None else ref
            for step in activation.steps():
                for call in step.calls:
                    if since < call.first <= end:
                        self._parts.call(call, where)
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
        where = Where(activation=activation, level=level, nested=self._telling.policy.least)
        folds = [(fold.record, fold, loop) for loop in loops(activation.body) for fold in loop.folds]
        folds = sorted((each for each in folds if since < each[0] <= rest), key=lambda each: each[0])
        for step in activation.steps():
            told = since < step.step and step.last <= rest and not step.yields
            kinds = ast.stmt if self._telling.policy.is_whole else ast.If | ast.Assign | ast.AugAssign
            if not told or not isinstance(step.statement, kinds):
                continue
            while folds and folds[0][0] < step.step:
                self._parts.fold(folds[0][2], folds[0][1], where)
                self._telling.draft.stop()
                del folds[0]
            self._parts.step(step, where)
        for _, fold, loop in folds:
            self._parts.fold(loop, fold, where)

    def _next(self, activation: Activation, since: int) -> int | None:
        """Its first yield after a record, if it did not end before."""
        rests = self._rests.get(activation.frame, [])
        at = bisect.bisect_right(rests, since)
        return rests[at] if at < len(rests) else None


def is_unnamed(activation: Activation) -> bool:
    """Whether it is code inside an expression: its value is told by the line that it belongs to."""
    return activation.name.rpartition(".")[2] in ("<lambda>", "<genexpr>", "<listcomp>", "<setcomp>", "<dictcomp>")
