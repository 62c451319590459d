"""Calls of lambdas: the first ones of a line with their arguments and results, the others as a count.

A lambda has no name to be told by, so its code stands for it. A line may call one as often as it has items, as the key
of `sorted` or the function of `map`: a few calls show what it does, and how often it was called says the rest. A lambda
that changes something, or calls a function of the program, is told each time, since later values depend on that.
"""

from __future__ import annotations

import ast
import bisect
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from groundbox.trace.narrate.gaps import is_given
from groundbox.trace.narrate.narration import Claim, ClaimKind
from groundbox.trace.narrate.phrases import Phrase, joined, listed, row, saying
from groundbox.trace.narrate.policy import Level, level_of
from groundbox.trace.narrate.reasons import ValueReason, reason_of
from groundbox.trace.narrate.telling import Telling, Where, claim
from groundbox.trace.record import schema
from groundbox.trace.record.syntax import walked
from groundbox.trace.record.value import ref_of
from groundbox.trace.run.structure import Activation, Step
from groundbox.values.unknown import Unknown

MAX_CODE: Final = 80
"""Characters of the code of a lambda that is told; a longer one is called a lambda."""
MAX_VALUE: Final = 40
"""Characters of an argument, of a result, and of the workings of a result."""
EXAMPLES: Final = 3
"""Calls that are told of those that one line makes of one lambda, when the lambda is new to the reader."""
EXAMPLES_AGAIN: Final = 2
EXAMPLES_IN_FULL: Final = 8
"""The same at the highest detail."""
_LONG: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda, ast.IfExp)
_CHANGES: Final = (schema.Set, schema.Del, schema.Mutate, schema.Out)

TellStep = Callable[[Step, Where], object]
TellWithin = Callable[[Activation, Where], object]


class Told(NamedTuple):
    """A call in words.

    Attributes:
        function: The code of the lambda, with the claim that it was called.
        arguments: What it was called with.
        outer: Names of its code that are not its own, with their values, as far as these are new to the reader.
    """

    activation: Activation
    function: Phrase
    arguments: Sequence[Phrase]
    outer: Sequence[Phrase]


class Example(NamedTuple):
    """A call with what it returned, in words."""

    call: Told
    result: Phrase


@dataclass(kw_only=True)
class Run:
    """The calls of one lambda that one step makes.

    Attributes:
        most: How many are told.
        is_new: Whether the lambda was not told before.
        told: How many were told.
        examples: Those of them that were not said yet.
        since: The record after which calls are counted, and not told.
        last: The last call that is only counted; None where none is.
    """

    most: int
    is_new: bool
    told: int = 0
    examples: list[Example] = field(default_factory=list)
    since: int = -1
    last: Activation | None = None


class Lambdas:
    """Tells calls of lambdas, step by step."""

    def __init__(self, telling: Telling, step: TellStep, within: TellWithin) -> None:
        """Take what tells the parts of a lambda.

        Args:
            step: Tells a step of one that changes something or calls functions.
            within: Tells the calls that one makes.
        """
        self._telling = telling
        self._step = step
        self._within = within
        # One for each step under way: a step of a lambda stands within that of its caller.
        self._runs: list[dict[str, Run]] = [{}]
        self._outer: dict[tuple[str, str], str] = {}

    def begin(self) -> None:
        """Begin a step."""
        self._runs.append({})

    def end(self) -> None:
        """End a step: what it called is said."""
        self.flush()
        # Of calls that are only counted, once for the step: other things may have happened between them.
        for run in self._runs.pop().values():
            if run.last is not None:
                self._say_more(run.last, run.since)

    def tell(self, activation: Activation, where: Where) -> None:
        """Tell a call, now or with the next `flush`, and go on to its end."""
        telling = self._telling
        effects = _does_something(activation, telling.trace.records)
        is_over = telling.state.t > activation.first
        if is_over or activation.outcome != "return" or (effects and not telling.policy.is_whole):
            # That it was left by an exception is told by the line that it stands in.
            self._pass(activation, where, tell=not is_over)
            return
        run = self._run(activation, where)
        if run.told >= run.most:
            if not effects and run.most:
                run.last = activation
            self._pass(activation, where, tell=effects)
        elif effects or any(step.calls for step in activation.steps()):
            run.told, run.since = run.told + 1, activation.first
            self._tell_steps(activation, where, run)
        else:
            run.told, run.since = run.told + 1, activation.first
            call = self._called(activation)
            why = self._why(activation)
            telling.advance(activation.last)
            run.examples.append(Example(call, self._result(activation, why)))

    def flush(self) -> None:
        """Say the calls that are to be told and were not said yet."""
        # In the order of the last call that is told of each, since a text goes forward.
        for run in sorted(self._runs[-1].values(), key=lambda run: run.since):
            if run.examples:
                self._say(run)

    def _run(self, activation: Activation, where: Where) -> Run:
        """The calls of this lambda in this step."""
        runs, key = self._runs[-1], f"{activation.name} {activation.line} {_code(activation)}"
        if key in runs:
            return runs[key]
        policy = self._telling.policy
        if where.level < Level.SHORT or where.nested <= Level.RESULT:
            runs[key] = Run(most=0, is_new=False)
            return runs[key]
        seen = self._telling.seen(("lambda", key))
        level = min(where.nested, level_of(seen, policy.full_calls, policy.short_calls, policy.least))
        most = EXAMPLES_IN_FULL if policy.name == "full" else EXAMPLES
        if policy.calls_in_line is not None:
            most = min(most, policy.calls_in_line - 1)
        shown = {Level.FULL: most, Level.SHORT: min(most, EXAMPLES_AGAIN)}
        runs[key] = Run(most=shown.get(level, 0), is_new=seen == 0)
        return runs[key]

    def _pass(self, activation: Activation, where: Where, *, tell: bool) -> None:
        """Go on to the end of a call that is not told itself; `tell` has what it does told."""
        if tell and self._telling.policy.is_whole and where.level >= Level.SHORT:
            self.flush()
            if activation.outcome == "return":
                for step in activation.steps():
                    self._step(step, where)
            else:
                self._within(activation, where)
        self._telling.advance(activation.last)

    def _tell_steps(self, activation: Activation, where: Where, run: Run) -> None:
        """Tell a call that changes something, or that calls functions or lambdas: what it does, and what it returns."""
        telling, draft = self._telling, self._telling.draft
        self.flush()
        call = self._called(activation)
        kind = "call.with" if call.arguments else "call.bare"
        outer = listed(call.outer)
        text = telling.voice.say(
            f"{kind}.outer" if outer else kind, function=call.function, arguments=listed(call.arguments), outer=outer
        )
        draft.say(text, because=True)
        run.is_new = False
        inner = Where(activation=activation, level=where.level, nested=where.nested)
        for step in activation.steps():
            self._step(step, inner)
        telling.advance(activation.last)
        # That what is called for its effect gives None is no news.
        if activation.value is not None:
            again = call._replace(outer=())
            self._say_examples([Example(again, self._result(activation, None))])

    def _called(self, activation: Activation) -> Told:
        """Go on to the beginning of a call, and word it."""
        telling, at = self._telling, [activation.first]
        telling.advance(activation.first)
        arguments = [
            is_given(name, telling.text(value, MAX_VALUE), at, activation.frame)
            for name, value in activation.args.items()
            if not telling.is_code(value)
        ]
        outer = [is_given(name, text, at, activation.frame) for name, text in self._new_outer(activation)]
        return Told(activation, self._function(activation), arguments, outer)

    def _function(self, activation: Activation) -> Phrase:
        """The code of the lambda, or words for it."""
        node = activation.node
        shown = None if node is None else self._telling.code(node, MAX_CODE)
        return saying(Phrase(shown or "a lambda"), _called(activation))

    def _new_outer(self, activation: Activation) -> Iterator[tuple[str, str]]:
        """Yield names that the code takes from around it, with their values now, unless both were told before."""
        telling, code = self._telling, _code(activation)
        # What a line that has the lambda in it reads was told before.
        for name in () if self._is_in_its_line(activation) else _outer_names(activation.node):
            try:
                value = telling.state.lookup(activation.frame, name)
            except (KeyError, Unknown):
                continue
            # Of an object the result tells more than all that is in it.
            if telling.is_code(value) or ref_of(value) is not None or (isinstance(value, dict) and "opaque" in value):
                continue
            text = telling.text(value, 1000)
            if len(text) <= MAX_VALUE and self._outer.get((code, name)) != text:
                self._outer[code, name] = text
                yield name, text

    def _is_in_its_line(self, activation: Activation) -> bool:
        """Return whether a lambda stands in the statement that calls it, as the key of `sorted` does."""
        frames, activations = self._telling.state.frames, self._telling.trace.structure.activations
        caller = activations.get(activation.parent)
        while caller is not None and is_unnamed(caller):
            caller = activations.get(caller.parent)
        if caller is None or caller.code is None or activation.node is None:
            return False
        place = caller.code.place(frames[caller.frame].line)
        return place is not None and activation.node in walked(place.statement)

    def _why(self, activation: Activation) -> ValueReason | None:
        """How its value comes about, where that is short."""
        node = activation.node
        # `3 > 1 = True` would say two things, and `-3 = -3` and `'a'.upper() = 'A'` hardly more than the result.
        if not isinstance(node, ast.Lambda) or not isinstance(node.body, ast.BinOp):
            return None
        if any(isinstance(part, _LONG) for part in walked(node.body)):
            return None
        why = reason_of(node.body, self._telling.explanation(activation.frame))
        return why if why.workings is not None and len(why.workings) <= MAX_VALUE else None

    def _result(self, activation: Activation, why: ValueReason | None) -> Phrase:
        telling = self._telling
        value = telling.text(activation.value, MAX_VALUE)
        if why is not None and why.result != value:
            why = None
        told = claim(ClaimKind.RETURN, [activation.last], activation.frame, _code(activation), value, why=why)
        if why is not None and why.workings is not None:
            return saying(telling.voice.say("lambda.workings", workings=why.workings, value=value), told)
        return saying(telling.voice.say("lambda.value", value=value), told)

    def _say(self, run: Run) -> None:
        """Say the calls of one lambda that are told, and how often it was called by now."""
        telling, examples, last = self._telling, run.examples, run.last
        first = examples[0].call
        if last is None:
            self._say_examples(examples, is_new=run.is_new)
        elif last.node is None:  # which calls are of this lambda is not known, and they are not counted
            self._say_examples(examples, is_new=False)
            self._say_more(last, run.since)
        else:
            count = self._counted(last, first.activation.first - 1, "")
            results = self._results(examples, last=", ")
            telling.say("lambda.many", function=first.function, count=count, results=results, alone=True)
            run.since = last.first
        run.examples, run.last, run.is_new = [], None, False

    def _say_more(self, last: Activation, since: int) -> None:
        """Say that there were more calls of a lambda, the last of them being `last`."""
        if last.node is None:
            self._telling.say("lambda.untold", alone=True)
        else:
            count = self._counted(last, since, "more ")
            self._telling.say("lambda.more", function=self._function(last), count=count, alone=True)

    def _say_examples(self, examples: Sequence[Example], *, is_new: bool = False) -> None:
        draft, say = self._telling.draft, self._telling.voice.say
        call, result = examples[0]
        results = self._results(examples)
        if call.activation.node is not None and len(examples) > 1 and results == self._results(examples[:1]):
            count = self._counted(examples[-1].call.activation, call.activation.first - 1, "")
            draft.say(say("lambda.same", function=call.function, results=results, count=count), alone=True)
            return
        is_known = call.activation.node is not None
        if len(examples) > 1 and not is_known:
            calls = saying(Phrase("calls of lambdas"), *(_called(each.call.activation) for each in examples))
            draft.say(say("lambda.returned", function=calls, results=results), alone=True)
            return
        if len(examples) > 1 or not is_new or not is_known:
            said = say("lambda.returns", function=call.function, results=results)
            if len(examples) > 1:
                draft.say(said, alone=True)
            else:
                draft.say(said, because=True)
            return
        kind = "lambda.called" if call.arguments else "lambda.called.bare"
        outer = listed(call.outer)
        text = say(
            f"{kind}.outer" if outer else kind,
            function=call.function, arguments=listed(call.arguments), outer=outer, result=result,
        )  # fmt: skip
        draft.say(text, because=True)

    def _results(self, examples: Sequence[Example], *, last: str = "") -> Phrase:
        """``3 for `r` = ('a', 3) and 1 for `r` = ('b', 1)``; what is the same for several is said once.

        Args:
            last: What stands before the last one, unless it is an `and`.
        """
        texts: dict[str, Phrase] = {}
        for call, result in examples:
            parts: list[str] = [result]
            if call.arguments:
                parts += [" for ", listed(call.arguments)]
            if call.outer:
                parts += [" while ", listed(call.outer)]
            text = joined(*parts)
            # The same words make the claims of each call.
            if (same := texts.setdefault(text, text)) is not text:
                same.parts = [*same.parts, *text.parts]
        is_plain = len(texts) < 3 and not any(" and " in text for text in texts)
        return row([*texts.values()], ", ", last or (" and " if is_plain else ", and "))

    def _counted(self, last: Activation, since: int, more: str) -> Phrase:
        """`97 more times`: how often the code of a lambda was called after a record, up to its last call."""
        code = _code(last)
        calls = self._firsts.get(code, [])
        count = bisect.bisect_right(calls, last.first) - bisect.bisect_right(calls, since)
        told = claim(ClaimKind.COUNT, [since + 1, last.first], last.parent, f"calls of {code}", str(count))
        return saying(Phrase(f"{count} {more}{'time' if count == 1 else 'times'}"), told)

    @functools.cached_property
    def _firsts(self) -> dict[str, list[int]]:
        """The calls of each code of a lambda."""
        found: dict[str, list[int]] = {}
        for activation in self._telling.trace.structure.activations.values():
            if is_lambda(activation) and activation.node is not None:
                found.setdefault(_code(activation), []).append(activation.first)
        return {code: sorted(firsts) for code, firsts in found.items()}


def is_lambda(activation: Activation) -> bool:
    """Return whether a call is of a lambda."""
    return activation.name.rpartition(".")[2] == "<lambda>"


def is_unnamed(activation: Activation) -> bool:
    """Return whether it is code inside an expression: its value is told by the line that it belongs to."""
    return activation.name.rpartition(".")[2] in ("<lambda>", "<genexpr>", "<listcomp>", "<setcomp>", "<dictcomp>")


def _called(activation: Activation) -> Claim:
    """The claim that a lambda was called."""
    code = _code(activation) or "<lambda>"
    return claim(ClaimKind.CALL, [activation.first], activation.frame, code, "")


def _code(activation: Activation) -> str:
    """The code of a lambda as Python writes it; empty where it is not certain which one it is."""
    return "" if activation.node is None else _unparsed(activation.node)


_unparsed: Final = functools.lru_cache(maxsize=256)(ast.unparse)


def _does_something(activation: Activation, records: Sequence[schema.Record]) -> bool:
    """Return whether a call changes or prints something, or calls a function of the program, also through others."""
    waiting = [activation]
    while waiting:
        for step in waiting.pop().steps():
            if any(not is_unnamed(call) for call in step.calls):
                return True
            if any(isinstance(records[ref], _CHANGES) for ref in step.effects):
                return True
            waiting += step.calls
    return False


def _outer_names(node: ast.AST | None) -> Sequence[str]:
    """The names that a lambda reads and that none of its parts binds, in their order."""
    if not isinstance(node, ast.Lambda):
        return ()
    parts = walked(node)
    bound = {part.arg for part in parts if isinstance(part, ast.arg)}
    bound |= {part.id for part in parts if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load)}
    read = [part.id for part in walked(node.body) if isinstance(part, ast.Name)]
    return [name for name in dict.fromkeys(read) if name not in bound]
