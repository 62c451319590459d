"""Loops: the first iterations in full, some in a line each, the rest by their number and what they led to."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from groundbox.trace.narrate.calls import Block
from groundbox.trace.narrate.explanation import Reason
from groundbox.trace.narrate.gaps import Gaps, end_of, is_given, is_now, steps_of, target_names
from groundbox.trace.narrate.narration import Claim, ClaimKind
from groundbox.trace.narrate.phrases import Phrase, counted, joined, listed, saying
from groundbox.trace.narrate.policy import Level, level_of
from groundbox.trace.narrate.statements import Statements, StepNotes
from groundbox.trace.narrate.telling import Telling, Where, claim
from groundbox.trace.run.structure import Folded, Iteration, Loop, Step, walk

MAX_HEAD: Final = 80
"""Characters of what names a loop beside its iterations."""
MAX_TESTS: Final = 2
"""Tests whose truth is counted over iterations that are left out."""


class Stretch(NamedTuple):
    """Iterations in a row that are told in one way; SILENT ones are left out."""

    level: Level
    iterations: Sequence[Iteration]
    fold: Folded | None = None


class Loops:
    """Tells loops."""

    def __init__(self, telling: Telling, statements: Statements, block: Block) -> None:
        self._telling = telling
        self._statements = statements
        self._block = block
        self._gaps = Gaps(telling)
        self._latest: Loop | None = None

    def tell(self, loop: Loop, where: Where) -> None:
        """Tell a loop and go on to its end."""
        level = self._level(loop, where)
        if not loop.count and loop.exit == "raise" and loop.closing is not None and level != Level.SILENT:
            self._statements.tell(loop.closing, where)  # it came to no iteration, nor to its end
        elif level <= Level.RESULT or not loop.count:
            self._latest = loop if level == Level.RESULT else self._latest
            self._tell_result(loop, replace(where, level=level))
        else:
            self._latest = loop
            self._intro(loop, where)
            for stretch in self._stretches(loop, level):
                if stretch.fold is not None:
                    self.tell_fold(loop, stretch.fold, where)
                elif stretch.level == Level.SILENT:
                    self._tell_left_out(loop, stretch.iterations, where)
                else:
                    for iteration in stretch.iterations:
                        self._tell_iteration(loop, iteration, stretch.level, where)
            self._tell_exit(loop, where)

    def _level(self, loop: Loop, where: Where) -> Level:
        if where.level == Level.SILENT:
            return Level.SILENT
        policy = self._telling.policy
        seen = self._telling.seen(("loop", where.activation.name, loop.line))
        level = min(where.nested, level_of(seen, policy.full_runs, policy.short_runs, policy.least))
        # The iteration in which the function was left is part of what came of it.
        return max(level, Level.SHORT) if is_way_out(loop) and policy.last_iterations else level

    def _stretches(self, loop: Loop, level: Level) -> Iterator[Stretch]:
        """Yield which iterations are told how, folds between them."""
        levels = self._levels(loop, level)
        folds = list(loop.folds)
        row: list[Iteration] = []
        for place, iteration in enumerate(loop.iterations):
            # A fold stands behind the iteration whose number it has.
            while folds and folds[0].after < iteration.number:
                if row:
                    yield Stretch(levels[place - 1], row)
                    row = []
                yield Stretch(Level.SILENT, (), folds.pop(0))
            if row and levels[place] != levels[place - 1]:
                yield Stretch(levels[place - 1], row)
                row = []
            row.append(iteration)
        if row:
            yield Stretch(levels[-1], row)
        for fold in folds:
            yield Stretch(Level.SILENT, (), fold)

    def _levels(self, loop: Loop, level: Level) -> list[Level]:
        count = len(loop.iterations)
        policy = self._telling.policy
        if policy.full_iterations is None:
            return [Level.FULL] * count
        if policy.is_whole:
            full = min(count, policy.full_iterations) if level == Level.FULL else 0
            levels = [Level.FULL] * full + [policy.least] * (count - full)
            return [*levels[:-1], Level.FULL] if is_way_out(loop) else levels
        full = policy.full_iterations if level == Level.FULL else 0
        short = policy.short_iterations if level == Level.FULL else min(2, policy.short_iterations)
        head = [Level.FULL] * full + [Level.SHORT] * short
        last = policy.last_iterations
        # One more in a line is as short as saying that one is left out.
        if count <= len(head) + last + 1:
            levels = (head + [Level.SHORT] * (last + 1))[:count]
        else:
            levels = head + [Level.SILENT] * (count - len(head) - last) + [Level.SHORT] * last
        if is_way_out(loop) and last:
            levels[-1] = Level.FULL
        return levels

    def _intro(self, loop: Loop, where: Where) -> None:
        telling = self._telling
        first = loop.iterations[0].header if loop.iterations else loop.closing
        if first is not None:
            telling.advance(first.step)
        # A condition that waits may have led to this loop: it is told with it.
        telling.draft.stop_effects()
        if isinstance(loop.statement, ast.While):
            code = telling.code(loop.statement.test)
            if code is not None and not isinstance(loop.statement.test, ast.Constant):
                refs = [first.step] if first is not None else []
                said = claim(ClaimKind.CONDITION, refs, where.activation.frame, code[1:-1], "True")
                telling.say("while.intro", said, alone=True, code=code)
            return
        target = _target(loop)
        telling.say("for.intro", alone=True, name=target, items=self._items(loop, where.activation.frame))

    def _items(self, loop: Loop, frame: int) -> str:
        """Return what a `for` goes through: its code, and the value where that is short and says more."""
        telling = self._telling
        assert isinstance(loop.statement, ast.For | ast.AsyncFor)
        node = loop.statement.iter
        code = telling.code(node) or "its items"
        # Working a call out again might not give what it gave then.
        if isinstance(node, ast.Call) and not (isinstance(node.func, ast.Name) and node.func.id == "range"):
            return code
        text = telling.explanation(frame).literal(node, limit=telling.policy.value_chars)
        if text is None or code in (f"`{text}`", f"`{text.replace('(0, ', '(')}`"):
            return code
        # The items are those at the first time that the header ran.
        first = loop.iterations[0].header if loop.iterations else loop.closing
        refs = [first.step] if first is not None else []
        return saying(f"{code} = {text}", claim(ClaimKind.VALUE, refs, frame, ast.unparse(node), text))

    def _tell_iteration(self, loop: Loop, iteration: Iteration, level: Level, where: Where) -> None:
        draft = self._telling.draft
        full = level == Level.FULL
        nested = min(where.nested, Level.FULL if full else self._telling.policy.least)
        # The iteration that decided is told with all that led to it.
        if full and iteration is loop.iterations[-1] and is_way_out(loop):
            nested = Level.FULL
        inner = replace(where, level=level, nested=nested, number=iteration.number, depth=where.depth + 1)
        self._latest = loop
        lead = self._lead_while if isinstance(loop.statement, ast.While) else self._lead_for
        seen = lead(loop, iteration, inner)
        header = iteration.header
        marked = len(draft.ledger)
        if seen is not None and header is not None and (header.inline or loop.kind == "while"):
            self._statements.word_body(header, seen, target_names(loop.statement))
        self._block(iteration.body, inner)
        is_called = header is not None and header.inline and bool(header.calls or header.resumes)
        # A lead alone is no sentence.
        if len(draft.ledger) == marked and not is_called:
            self._telling.say("loop.did" if _did_something(iteration) else "loop.unchanged")
        if iteration is loop.iterations[-1] and is_way_out(loop):
            draft.stop_effects()
        else:
            draft.stop()

    def _lead_for(self, loop: Loop, iteration: Iteration, where: Where) -> StepNotes | None:
        """`With x = 3,`: what the loop's names stand for in this iteration."""
        telling = self._telling
        header = iteration.header
        frame = where.activation.frame
        if header is None:
            number = _number_of(loop, iteration, frame)
            telling.draft.lead(f"in iteration {iteration.number},", *number, joins_all=where.level < Level.FULL)
            return None
        if header.inline and (header.calls or header.resumes):  # its body calls before the record tells the values
            self._lead_by_number(iteration, where, "", *_number_of(loop, iteration, frame))
            return self._statements.tell(header, where, own=False)
        seen = self._statements.tell(header, where, own=False)
        names = telling.state.names(frame)
        texts = [(name, telling.text(names[name], 80)) for name in target_names(loop.statement) if name in names]
        refs = [header.step, header.last]
        values: str = listed([is_given(name, text, refs, frame) for name, text in texts])
        are: str = listed([is_now(name, text, refs, frame) for name, text in texts])
        if not texts:
            values = are = saying(f"iteration {iteration.number}", *_number_of(loop, iteration, frame))
        kind = "for.full" if where.level == Level.FULL else "for.short"
        lead = telling.voice.say(kind, values=values, values_are=are)
        telling.draft.lead(lead, joins_all=where.level < Level.FULL)
        return seen

    def _lead_by_number(self, iteration: Iteration, where: Where, reason: str, *claims: Claim) -> None:
        """`In iteration 2 (1 < 3),`."""
        telling = self._telling
        lead = telling.voice.say(
            "while.full" if where.level == Level.FULL else "while.short",
            number=str(iteration.number),
            of=" of the inner loop" if where.depth > 1 else "",
            reason=reason,
        )
        telling.draft.lead(lead, *claims, joins_all=where.level < Level.FULL)

    def _lead_while(self, loop: Loop, iteration: Iteration, where: Where) -> StepNotes | None:
        """`In iteration 2 (1 < 3),`: the number, and why the loop goes on."""
        frame = where.activation.frame
        header = iteration.header
        assert isinstance(loop.statement, ast.While)
        test = loop.statement.test
        seen = self._statements.tell(header, where, own=False) if header is not None else None
        reason = seen.reasons.reason if seen is not None else None
        claims = _number_of(loop, iteration, frame)
        refs = claims[0].refs
        code = self._telling.code(test) if header is not None and not isinstance(test, ast.Constant) else None
        if reason is not None or (code is not None and where.level == Level.FULL):
            claims.append(claim(ClaimKind.CONDITION, refs, frame, ast.unparse(test), "True", why=reason))
        shown = f" ({reason})" if reason else f" ({code} is true)" if code and where.level == Level.FULL else ""
        self._lead_by_number(iteration, where, shown, *claims)
        return seen

    def _tell_left_out(self, loop: Loop, iterations: Sequence[Iteration], where: Where) -> None:
        telling = self._telling
        frame = where.activation.frame
        steps = [step for iteration in iterations for step in steps_of(iteration)]
        text = self._numbers(loop, iterations[0].number, iterations[-1].number, where)
        refs = [steps[0].step, steps[-1].step] if steps else []
        said = claim(ClaimKind.COUNT, refs, frame, str(loop.line), str(len(iterations)))
        before = self._gaps.look(frame)
        but = target_names(loop.statement)
        # Before the state moves on, see there.
        series = self._gaps.series(iterations, frame) if len(iterations) <= telling.policy.list_values else []
        start = telling.state.t + 1
        telling.advance(end_of(steps))
        rest = self._gaps.after(before, frame, start, telling.state.t, but=[*but, *(name for name, _, _ in series)])
        rows = [
            saying(
                f"`{name}` takes the values {', '.join(values)}",
                claim(ClaimKind.VALUE, found, frame, name, ", ".join(values)),
            )
            for name, values, found in series
        ]
        rows += self._truths(iterations, frame)
        gap = telling.voice.say("loop.left_out", iterations=text)
        if rows:
            gap = joined(f"in {text}{',' if ' of ' in text else ''} ", listed(rows))
        self._say_gap(saying(gap, said), rest)

    def _numbers(self, loop: Loop, first: int, last: int, where: Where) -> str:
        """`iterations 3 to 7`, and of which loop, where another one could be meant."""
        head = _head(loop)
        is_open = self._latest is not loop or (where.depth > 0 and first == 1)
        self._latest = loop
        text = f"iteration {first}" if first == last else f"iterations {first} to {last}"
        return text + (f" of the loop {head}" if is_open and len(head) <= MAX_HEAD else "")

    def _truths(self, iterations: Sequence[Iteration], frame: int) -> list[Phrase]:
        """Return how often the tests that stand in the body itself were true."""
        found: dict[int, list[Step]] = {}
        for iteration in iterations:
            for node in iteration.body:
                if isinstance(node, Step) and isinstance(node.statement, ast.If) and node.condition is not None:
                    found.setdefault(node.line, []).append(node)
        texts: list[Phrase] = []
        for steps in list(found.values())[:MAX_TESTS]:
            assert isinstance(steps[0].statement, ast.If)
            code = self._telling.code(steps[0].statement.test, 60)
            # Only a test that each iteration came to once can be counted over them.
            if code is None or len(steps) != len(iterations):
                continue
            true = sum(step.condition is True for step in steps)
            kind = "loop.always" if true == len(steps) else "loop.sometimes" if true else "loop.never.true"
            refs = [step.step for step in steps]
            told = claim(ClaimKind.CONDITION, refs, frame, code, f"{true} of {len(steps)}")
            texts.append(saying(self._telling.voice.say(kind, code=code, count=str(true), all=str(len(steps))), told))
        return texts

    def tell_fold(self, loop: Loop, fold: Folded, where: Where) -> None:
        """Iterations that were not recorded: how many they were, and what they led to."""
        telling = self._telling
        frame = where.activation.frame
        before = self._gaps.look(frame)
        telling.advance(max((fold.record, *fold.effects)))
        rest = self._gaps.after(before, frame, fold.record, telling.state.t)
        if not fold.iterations:  # the header ran once more, and ended the loop
            for said in rest:
                telling.draft.say(said)
            return
        text = self._numbers(loop, fold.after + 1, fold.after + fold.iterations, where)
        told = claim(ClaimKind.COUNT, [fold.record], frame, str(loop.line), str(fold.iterations))
        self._say_gap(saying(telling.voice.say("loop.folded", iterations=text), told), rest)

    def _say_gap(self, gap: Phrase, rest: Sequence[Phrase]) -> None:
        telling = self._telling
        if rest:
            gap = telling.voice.say("loop.after", gap=gap, state=listed(rest))
        telling.draft.say(gap, alone=telling.draft.is_at_start)

    def _tell_exit(self, loop: Loop, where: Where) -> None:
        telling = self._telling
        closing = loop.closing
        frame = where.activation.frame
        if closing is None:
            self._tell_inline_exit(loop, where)
            return
        if loop.exit == "exhausted":
            self._statements.tell(closing, where, own=False)
            said = claim(ClaimKind.COUNT, [_over(closing)], frame, str(loop.line), str(loop.count))
            telling.say("loop.exhausted", said, alone=True, count=counted(loop.count, "iteration"))
        elif loop.exit == "false" and isinstance(loop.statement, ast.While):
            seen = self._statements.tell(closing, where, own=False)
            self._statements.word_body(closing, seen, ())
            self._say_false(loop, loop.statement.test, seen.reasons.reason, closing, frame)
        else:
            self._statements.tell(closing, where)

    def _tell_inline_exit(self, loop: Loop, where: Where) -> None:
        """The end of `while x: y()`, whose last test is part of its last iteration."""
        if loop.exit != "false" or not loop.iterations or not isinstance(loop.statement, ast.While):
            return
        last = loop.iterations[-1].header
        if last is None or not last.inline or loop.iterations[-1].number < loop.count:  # the last test is in a fold
            return
        frame = where.activation.frame
        reason = self._telling.explanation(frame).reason(loop.statement.test, False)
        if reason is not None:
            self._say_false(loop, loop.statement.test, reason, last, frame)

    def _say_false(self, loop: Loop, test: ast.expr, reason: Reason | None, header: Step, frame: int) -> None:
        """The condition of a `while` is false, and the loop over."""
        telling = self._telling
        ref, end = (header.last, header.last) if header.inline else (header.step, _over(header))
        truth = claim(ClaimKind.CONDITION, [ref], frame, ast.unparse(test), "False", why=reason)
        text = telling.condition(test, False, reason, brief=True, leads=True)
        said = claim(ClaimKind.COUNT, [end], frame, str(loop.line), str(loop.count))
        telling.say("loop.false", truth, said, alone=True, condition=text, count=counted(loop.count, "iteration"))

    def _tell_result(self, loop: Loop, where: Where) -> None:
        """Only how often it ran, and what it left."""
        telling = self._telling
        frame = where.activation.frame
        steps = list(walk([loop]))
        folds = [ref for fold in loop.folds for ref in (fold.record, *fold.effects)]
        # A fold at its end has no step, and its effects are records behind it.
        last = max([end_of(steps), *folds])
        if where.level == Level.SILENT:
            telling.advance(last)
            return
        start = min([step.step for step in steps] + folds, default=last)
        telling.advance(start)
        before = self._gaps.look(frame)
        reason = None
        if not loop.count and isinstance(loop.statement, ast.While):
            reason = telling.explanation(frame).reason(loop.statement.test, False)
        if not loop.count and loop.closing is not None and telling.policy.is_whole:
            self._statements.tell(loop.closing, where, own=False)
        telling.advance(last)
        said = claim(ClaimKind.COUNT, [start, last], frame, str(loop.line), str(loop.count))
        if reason is not None:
            assert isinstance(loop.statement, ast.While)
            truth = claim(ClaimKind.CONDITION, [start], frame, ast.unparse(loop.statement.test), "False", why=reason)
            telling.say("loop.never.while", truth, said, condition=reason)
            return
        rest = self._gaps.after(before, frame, start, last, but=target_names(loop.statement))
        runs = telling.voice.say("loop.runs", head=_head(loop), times=counted(loop.count, "time"))
        self._say_gap(saying(runs, said), rest)


def _over(header: Step) -> int:
    """The last line of the header that a loop was left by: a condition may stand on several."""
    return header.records[-1] if header.records else header.step


def _head(loop: Loop) -> str:
    if isinstance(loop.statement, ast.While):
        return f"with the condition `{ast.unparse(loop.statement.test)}`"
    return f"over {_target(loop)}"


def _target(loop: Loop) -> str:
    if not isinstance(loop.statement, ast.For):
        return "its items"
    target = ast.unparse(loop.statement.target)
    return f"`{target[1:-1] if isinstance(loop.statement.target, ast.Tuple) and target[0] == '(' else target}`"


def is_way_out(loop: Loop) -> bool:
    """Return whether the function was left from inside the loop, so that its last iteration decided."""
    return loop.exit in ("return", "raise") and bool(loop.iterations)


def _number_of(loop: Loop, iteration: Iteration, frame: int) -> list[Claim]:
    """That an iteration is the one of this number."""
    first = iteration.header or next(walk(iteration.body), None)
    refs = [] if first is None else [first.step]
    return [claim(ClaimKind.ORDER, refs, frame, str(loop.line), str(iteration.number))]


def _did_something(iteration: Iteration) -> bool:
    return any(step.effects or step.calls or step.raised is not None for step in walk(iteration.body))
