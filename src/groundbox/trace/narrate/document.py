"""A narration's claims as data: each sentence with what it says, down to the values in its workings and reasons.

The narrator's own claims say of which records a clause speaks. Here each becomes one or more of the schema that
docs/proof.md describes, with the words that say it as its quote: a value that was before, the code that a value came
from, the same with values in place of names, the sides of a comparison, the number of an iteration. Nobody believes
them: they are there to be held against the record.
"""

from __future__ import annotations

import ast
import bisect
import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from groundbox.trace.narrate.explanation import Reason
from groundbox.trace.narrate.narration import Claim, ClaimKind, Narration, Sentence
from groundbox.trace.narrate.phrases import Phrase
from groundbox.trace.narrate.reasons import ValueReason
from groundbox.trace.record import schema
from groundbox.trace.record.quoting import code_spans
from groundbox.trace.record.reading import Trace
from groundbox.trace.record.syntax import KEPT_PROGRAMS, parse, walked
from groundbox.values.parsing import expression_of

SCHEMA: Final = "groundbox.claims/1"
_CODE: Final = re.compile(r"`([^`]+)`")
_ITERATIONS: Final = re.compile(r"iterations? (\d+)(?: to (\d+))?")
_SAME: Final = re.compile(r"(?:the same|is the) ([A-Za-z_]\w*)(?:\.\w+)* (?:as|that)\b")
_LINE: Final = re.compile(r"line \d+")
_CHANGES: Final = (schema.Set, schema.Del, schema.Mutate, schema.Object, schema.Out)
_ENDS: Final = (schema.Return, schema.Unwind, schema.Yield)


class Fact(NamedTuple):
    """A claim of the schema; `start` and `end` are places of its quote in the sentence."""

    kind: str
    subject: str
    value: str
    step: int | None
    start: int
    end: int


def document(narration: Narration, trace: Trace) -> dict[str, Any]:
    """The claims of a narration, sentence by sentence, as the schema of claims has them."""
    facts = _Facts(trace)
    order = {"order": "forward"} if narration.witness is None else {}  # backward ones go back
    return order | {"schema": SCHEMA, "sentences": [facts.sentence(sentence) for sentence in narration.sentences]}


class _Facts:
    """Writer of facts for the claims of one trace."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._records = trace.records
        self._frames, self._calls = _whose_turn(trace.records)
        self._tree = parse(trace.source) or ast.Module([], [])

    def sentence(self, sentence: Sentence) -> dict[str, Any]:
        """A sentence with its claims."""
        text = sentence.text
        found: list[Fact] = []
        for at, said, claim in sentence.said.spoken():
            # Of a record that is cut short a claim may have nothing to show.
            for fact in _WRITERS[claim.kind](self, claim, said) if claim.refs else ():
                found.append(fact._replace(start=fact.start + at, end=fact.end + at))
        # Last: what no claim so far has is only named.
        found += self._spoken(sentence, found)
        kept = sorted(dict.fromkeys(found), key=lambda fact: (fact.start, fact.end))
        return {"text": text, "claims": [_as_json(text, fact) for fact in kept]}

    # moments

    def _post(self, claim: Claim, ref: int | None = None) -> int:
        """The first moment from a record on at which the claim's frame goes on."""
        at = claim.refs[-1] if ref is None else ref
        turn = self._turns(claim.frame)
        place = bisect.bisect_left(turn, at)
        found = turn[place] if place < len(turn) else at
        # What a fold changed is told behind it.
        return self._settled(found) if isinstance(self._records[found], schema.Fold) else found

    def _next(self, claim: Claim, ref: int) -> int:
        """The next record of the claim's frame itself: where it has gone to."""
        own = self._own(claim.frame)
        place = bisect.bisect_right(own, self._last_of(claim, ref))
        return own[place] if place < len(own) else ref

    def _last_of(self, claim: Claim, ref: int) -> int:
        """The last record of the line at `ref`, or of all lines of a statement or a header that stands on several."""
        if self._line(claim.frame, ref) in _spread(self._tree):
            step = self._trace.structure.step_at(ref)
            if step is not None and step.frame == claim.frame:
                return max(ref, step.last)
        return ref

    def _pre(self, ref: int) -> int:
        """The moment before the first change of the line that record `ref` belongs to."""
        at = ref
        while at > 0 and isinstance(self._records[at - 1], _CHANGES):
            # Changes of a line stand in one row, before the record that follows it.
            at -= 1
        return max(0, at - 1)

    def _settled(self, ref: int) -> int:
        """The moment after the last change of the line that record `ref` belongs to."""
        at, last = ref, len(self._records) - 1
        while at < last and isinstance(self._records[at + 1], _CHANGES):
            at += 1
        return at

    def _settled_object(self, ref: int, path: str) -> int:
        """The moment after the last change of an object in a line; names that get values then come after it."""
        at = end = self._settled(ref)
        root = re.match(r"\w+", path)
        # Where the line also sets the name that the path begins with, it leads to the object only after that.
        while at > ref and isinstance(found := self._records[at], schema.Set | schema.Out):
            if isinstance(found, schema.Set) and root is not None and found.name == root[0]:
                return end
            at -= 1
        return at

    def _decided(self, claim: Claim, ref: int) -> int:
        """The moment at which a condition was known: after the calls that its line made."""
        own = self._own(claim.frame)
        last = self._last_of(claim, ref)
        place = bisect.bisect_right(own, last)
        end = own[place] if place < len(own) else len(self._records)
        # The end of the last call that the line made and that came back to this frame.
        for at in range(end - 1, ref, -1):
            if isinstance(self._records[at], _ENDS) and self._frames[at] == claim.frame:
                return at
        return ref

    @functools.cache  # noqa: B019  lives as long as one document is made
    def _turns(self, frame: int) -> list[int]:
        return [at for at, each in enumerate(self._frames) if each == frame]

    @functools.cache  # noqa: B019
    def _own(self, frame: int) -> list[int]:
        kinds = (schema.Line, schema.Return, schema.Unwind, schema.Yield, schema.Raise)
        return [at for at, r in enumerate(self._records) if isinstance(r, kinds) and r.f == frame]

    def _line(self, frame: int, ref: int) -> int:
        """The line that a frame is on at a record."""
        record = self._records[ref]
        if isinstance(record, schema.Return) and record.f == frame:
            return record.n
        for at in range(ref, -1, -1):
            record = self._records[at]
            if isinstance(record, schema.Line) and record.f == frame:
                return record.n
        return 0

    # kinds of claims

    def _value(self, claim: Claim, said: Phrase) -> Iterator[Fact]:
        name, value = claim.subject, claim.value
        # Clauses that were put together without the table of wordings have no slots.
        if "value" not in said.slots:
            yield from self._value_in_words(claim, said)
            return
        step = self._post(claim)
        yield _slot("value", name, value, step, said, "value")
        yield from self._came_about(claim, said, name)

    def _value_in_words(self, claim: Claim, said: Phrase) -> Iterator[Fact]:
        """`` `x` is 3``, `` `x` = 3``, `` `x` takes the values 1, 2, 3``, `` `x` is deleted``."""
        refs, name, value = claim.refs, claim.subject, claim.value
        if said.kind == "value.is_call.again":
            name, call, thing = (said.slots[slot][0].strip("`") for slot in ("name", "call", "thing"))
            yield self._called(claim, said)
            yield Fact("value", name, call, self._post(claim), 0, len(said))
            if thing[:1].isupper():
                yield _slot("value", thing, "", None, said, "thing")
            return
        if not value and isinstance(self._records[refs[-1]], schema.Del):
            yield Fact("statement", f"del {name}", "", refs[-1], 0, len(said))
            return
        if " takes the values " in said:
            at = said.index(" takes the values ") + len(" takes the values ")
            for text, ref in zip(value.split(", ") if len(refs) > 1 else [value], refs, strict=False):
                start = said.find(text, at)
                yield Fact("value", name, text, self._post(claim, ref), start, start + len(text))
                at = start + len(text)
            return
        yield Fact("value", name, value, self._post(claim), 0, len(said))

    def _came_about(self, claim: Claim, said: Phrase, name: str) -> Iterator[Fact]:
        """Yield what a clause says of a value besides itself: what was before, and where it came from."""
        slots, value, why = said.slots, claim.value, claim.why
        # Before the line's first change: `a, b = b, a + b` reads both as they were.
        before = self._pre(claim.refs[-1])
        if "old" in slots:
            yield _slot("value", name, slots["old"][0], before, said, "old")
        if "workings" in slots:
            yield from self._chain(*slots["workings"], value, before, _source(why))
        if "by" in slots and isinstance(why, ValueReason) and isinstance(why.node, ast.BinOp):
            text, at = slots["by"]
            # `` `xs[i]` = 5``: the code of what is added, where it is told, and its value.
            chain, _, added = text.rpartition(" = ")
            end = at + len(text)
            operand = ast.unparse(why.node.right)
            if chain:
                yield from self._chain(chain, at, added, before, operand)
            # Of a constant only the sum that it is part of can be claimed.
            if isinstance(why.node.right, ast.Constant):
                yield Fact("value", _source(why), value, before, end - len(added), end)
            else:
                yield Fact("value", operand, added, before, end - len(added), end)
        if "call" in slots:
            yield self._called(claim, said)
        if "other" in slots:
            other = slots["other"][0].strip("`")
            yield Fact("test", f"{name} is {other}", "True", self._post(claim), 0, len(said))
            yield _slot("value", other, value, self._post(claim), said, "other")

    def _chain(self, text: str, at: int, value: str, step: int, source: str) -> Iterator[Fact]:
        """`` `a + b` = 1 + 2``: code that gives a value, and the same with values in place of names.

        Args:
            source: The code as the program has it.
        """
        code = _CODE.match(text)
        rest = text[code.end() :].removeprefix(" = ") if code else text
        if code is not None:
            if self._is_written(code[1]):
                source = code[1]
            else:  # `xs[2] + 1` is told for `xs[i] + 1` of the program: both are claimed, the one of the other
                yield Fact("value", source, code[1], step, at, at + code.end())
            if value.startswith("the same "):
                yield Fact("value", source, "", None, at, at + code.end())
            else:
                yield Fact("value", source, value, step, at, at + code.end())
        if rest:
            start = at + len(text) - len(rest)
            yield Fact("value", source, rest, step, start, start + len(rest))

    def _is_written(self, code: str) -> bool:
        """Return whether an expression stands in the program."""
        try:
            return ast.unparse(expression_of(code)) in _expressions(self._tree)
        except (SyntaxError, ValueError, RecursionError):
            return code in _expressions(self._tree)

    def _called(self, claim: Claim, said: Phrase) -> Fact:
        """The call that gave a value."""
        assert isinstance(claim.why, ValueReason)
        return _slot("call", said.slots["call"][0].strip("`"), "", claim.why.called, said, "call")

    def _condition(self, claim: Claim, said: Phrase) -> Iterator[Fact]:
        subject, value = claim.subject.strip("`"), claim.value
        # Not one test but how many came out so, or what a comprehension did.
        if value not in ("True", "False") or said.startswith(f"`{claim.subject}` gives "):
            yield from self._counted(claim, said)
            return
        if subject.startswith("except"):
            yield Fact("catch", subject, value, claim.refs[0], 0, len(said))
            return
        step = self._decided(claim, claim.refs[0])
        if line := _LINE.search(said):
            yield Fact("statement", line[0], "", claim.refs[0], *line.span())
        slots = said.slots
        if subject.startswith("case "):
            yield Fact("test", subject, value, claim.refs[0], 0, len(said))
        elif "reason" in slots and "number" not in slots:
            text, at = slots["reason"]
            # The words that say how it came out: those on the longer side of the reason.
            first, last = (0, at) if at > len(said) - at - len(text) else (at + len(text), len(said))
            yield Fact("test", subject, value, step, first, last)
            yield from _reasons(claim, at, step)
        elif "number" in slots:
            text, at = slots["reason"]
            if claim.why is not None:
                yield from _reasons(claim, at + len(" ("), step)
            elif text:
                yield Fact("test", subject, value, step, at, at + len(text))
        elif "condition" in slots:  # told with what came of it
            text, at = slots["condition"]
            if claim.why is not None:
                yield from _reasons(claim, at, step)
            else:
                yield Fact("test", subject, value, step, at, at + len(text))
        elif slots:
            yield Fact("test", subject, value, step, 0, len(said))
        else:
            yield from _reasons(claim, 0, step)

    def _counted(self, claim: Claim, said: Phrase) -> Iterator[Fact]:
        """Yield how often a condition was true over iterations, or what a comprehension did with its items."""
        refs, code = claim.refs, claim.subject.strip("`")
        count, of, total = claim.value.partition(" of ")
        if not of or not count.isdigit():
            yield from self._of_items(claim, said)
            return
        last = self._next(claim, refs[-1])
        # Counted from behind the record before the first of these tests.
        since = refs[0] - 1
        if said.kind == "loop.sometimes":
            yield _slot("count", f"true tests since {since}: {code}", count, last, said, "count")
            yield _slot("count", f"tests since {since}: {code}", total, last, said, "all")
            yield Fact("count", f"true tests since {since}: {code}", count, last, 0, said.slots["count"][1])
        else:
            yield Fact("count", f"true tests since {since}: {code}", count, last, 0, len(said))
            yield Fact("test", code, str(count != "0"), self._decided(claim, refs[0]), 0, len(said))

    def _of_items(self, claim: Claim, said: Phrase) -> Iterator[Fact]:
        """``the items 2, 4 of [1, 2, 4] pass `x % 2 == 0` ``."""
        line = self._line(claim.frame, claim.refs[0])
        kinds = ast.ListComp | ast.SetComp | ast.GeneratorExp
        parts = (part for node in _statements(self._tree).get(line, ()) for part in ast.walk(node))
        holders = [part for part in parts if isinstance(part, kinds)]
        if len(holders) != 1:
            return
        holder, step = holders[0], self._decided(claim, claim.refs[0])
        changed = {
            record.name for record in self._records[step : self._settled(step) + 1] if isinstance(record, schema.Set)
        }
        if not changed & {part.id for part in ast.walk(holder) if isinstance(part, ast.Name)}:
            step = self._settled(step)  # the change is told before the items
        source = ast.unparse(holder.generators[0].iter)
        kept = ast.ListComp(elt=holder.generators[0].target, generators=holder.generators)
        code = f"`{claim.subject}`"
        row = claim.value
        if said.endswith(f" pass {code}"):
            start = len(f"{row} of ")
            items = said[start:].removesuffix(f" pass {code}")
            # A range or a tuple is compared as the list of its items.
            shown = items if items.startswith("[") else f"list({items})"
            yield Fact("value", source, items, step, start, start + len(items))
            value = shown if row == "all" else "[]" if row == "none" else f"[{row.removeprefix('the items ')}]"
            yield Fact("value", ast.unparse(kept), value, step, 0, start)
            yield Fact("value", ast.unparse(kept), value, step, len(said) - len(code), len(said))
        elif said.startswith(f"{code} gives "):
            items = said.removeprefix(f"{code} gives {row} for the items ")
            made = ast.ListComp(elt=holder.elt, generators=holder.generators)
            start = len(said) - len(items)
            yield Fact("value", ast.unparse(kept), f"[{items}]", step, start, len(said))
            yield Fact("value", ast.unparse(made), f"[{row}]", step, 0, start)

    def _call(self, claim: Claim, said: Phrase) -> Iterator[Fact]:
        name = claim.subject
        if name.startswith(("lambda", "<lambda>")):
            yield Fact("call", name, "", claim.refs[0], 0, len(said))
            return
        if said.kind == "call.made":
            call = self._records[claim.refs[0]]
            owner = next(iter(call.args), "") if isinstance(call, schema.Call) else ""
            yield _slot("value", owner, claim.value, max(0, claim.refs[-1] - 1), said, "value")
            return
        shown = name.removesuffix(".__init__") if name.endswith(".__init__") else name
        start = said.find(f"`{shown}`")
        if start < 0:  # words that name it otherwise claim no call
            return
        end = start + len(shown) + 2
        spans = ((at, after) for at, after in code_spans(said) if at >= end and said.startswith(" = ", after))
        given = [f"{said[at + 1 : after - 1]}=..." for at, after in spans]
        made = self._records[claim.refs[0]]
        if isinstance(made, schema.Call) and len(given) < len(made.args) - (
            next(iter(made.args), "") in ("self", "cls")
        ):
            given = []  # not all of them are told
        yield Fact("call", f"{shown}({', '.join(given)})" if given else shown, "", claim.refs[0], start, end)

    def _return(self, claim: Claim, said: Phrase) -> Iterator[Fact]:
        kind, slots, ref = said.kind, said.slots, claim.refs[-1]
        if kind == "return.reached":
            yield Fact("statement", "return", "", ref, 0, len(said))
            return
        for slot in ("function", "call"):
            if slot in slots:
                text, at = slots[slot]
                called = self._calls.get(claim.frame)
                yield Fact("call", text.strip("`"), "", called, at, at + len(text))
        is_shown = "value" in slots and slots["value"][0] == claim.value
        if is_shown and claim.value and not claim.value.startswith("the same "):
            yield _slot("return", claim.subject, claim.value, ref, said, "value")
        if "value" in slots and slots["value"][0].startswith("the same "):
            text, at = slots["value"]
            yield Fact("return", claim.subject, "", ref, at, at + len(text))
        elif kind == "exhausted":
            yield Fact("return", claim.subject, "", ref, 0, len(said))
        if "workings" in slots:
            yield from self._chain(*slots["workings"], claim.value, max(0, ref - 1), _source(claim.why))

    def _count(self, claim: Claim, said: Phrase) -> Iterator[Fact]:
        kind, slots, last = said.kind, said.slots, claim.refs[-1]
        if claim.subject == "calls":
            yield Fact("count", f"calls since {claim.refs[0] - 1}", claim.value, last, *_number_in(said))
        elif claim.subject.startswith("calls of "):
            code = claim.subject.removeprefix("calls of ")
            yield Fact("count", f"calls since {claim.refs[0] - 1}: {code}", claim.value, last, 0, len(said))
        elif not claim.subject.isdigit():
            yield Fact("value", f"len({claim.subject})", claim.value, self._post(claim), 0, len(said))
        elif kind not in _ENDINGS and (found := _ITERATIONS.search(said)):
            loop = f"line {claim.subject}"
            if isinstance(self._records[last], schema.Fold):
                yield Fact("count", "folded iterations", claim.value, last, *found.span())
            yield Fact("iteration", loop, found[1], claim.refs[0], *found.span(1))
            if found[2]:
                yield Fact("iteration", loop, found[2], last, *found.span(2))
        else:
            loop, step = f"line {claim.subject}", self._next(claim, last)
            # The condition stands before it, and may have digits of its own.
            if kind == "loop.never.while":
                start = said.rfind("0 times")
                yield Fact("count", loop, claim.value, step, start, start + len("0 times"))
                return
            where = "times" if "times" in slots else "count"
            span = (slots[where][1], slots[where][1] + len(slots[where][0])) if where in slots else (0, len(said))
            yield Fact("count", loop, claim.value, step, *span)
            if kind in ("loop.exhausted", "loop.false"):
                yield Fact("exit", loop, repr(kind.removeprefix("loop.")), step, *span)

    def _order(self, claim: Claim, said: Phrase) -> Iterator[Fact]:
        if claim.subject == "back":
            if code := _CODE.search(said):
                yield Fact("call", code[1], "", self._calls.get(claim.frame), *code.span())
            return
        if claim.subject in ("break", "continue"):
            yield Fact("statement", claim.subject, "", claim.refs[0], 0, len(said))
            if "number" in said.slots:
                yield _slot("iteration", "", claim.value, claim.refs[0], said, "number")
            return
        start = said.find(claim.value)
        yield Fact("iteration", f"line {claim.subject}", claim.value, claim.refs[0], start, start + len(claim.value))

    def _mutation(self, claim: Claim, said: Phrase) -> Iterator[Fact]:
        ref, path, value = claim.refs[-1], claim.subject, claim.value
        if not said.kind:
            if said.startswith("the attribute "):
                yield Fact("mutation", f"del {path}.{value}", "", ref, 0, len(said))
            else:
                yield Fact("value", path, value, self._settled_object(ref, path), 0, len(said))
            return
        kind, slots = said.kind, said.slots
        if kind.startswith(("item.", "value.")):
            yield _slot("mutation", f"{path} = ...", value, ref, said, "value")
            yield from self._came_about(claim, said, path)
            return
        index = slots["index"][0] if "index" in slots else ""
        change = _CHANGES_IN_CODE[kind].format(path=path, index=index)
        several = kind == "list.extend" or kind.endswith(".several")
        item = "items" if "items" in slots else "item"
        text, at = slots[item]
        shown = f"[{value}]" if several else value
        yield Fact("mutation", change, shown, ref, at + (0 if several else len(text) - len(value)), at + len(text))
        if claim.why is not None:
            yield from self._chain(text.removesuffix(f" = {value}"), at, value, self._pre(ref), _source(claim.why))
        if "{index}" in _CHANGES_IN_CODE[kind] and f"index {index}" in said:
            yield _slot("mutation", change, value, ref, said, "index")
        yield from self._now(said, path, ref)

    def _now(self, said: Phrase, path: str, ref: int) -> Iterator[Fact]:
        """`, which is now [1]`, ` and now has 12 items`."""
        text, at = said.slots.get("which") or said.slots["and_"]
        step = self._settled(ref)
        if " is now " in text:
            value = text.partition(" is now ")[2]
            end = at + len(text)
            yield Fact("value", path, value, step, end - len(value), end)
        elif " now has " in text:
            number = text.partition(" now has ")[2].split()[0]
            yield Fact("value", f"len({path})", number, step, at, at + len(text))

    def _output(self, claim: Claim, said: Phrase) -> Iterator[Fact]:
        if not said.kind:
            yield Fact("output", "", claim.value, claim.refs[-1], 0, len(said))
            return
        stream = "stderr" if said.kind == "output.error" else ""
        yield _slot("output", stream, claim.value, claim.refs[-1], said, "value")

    def _exception(self, claim: Claim, said: Phrase) -> Iterator[Fact]:
        ref = claim.refs[0]
        called = self._calls.get(claim.frame)
        if claim.value == "handled":
            yield Fact("catch", claim.subject.strip("`"), "True", ref, 0, len(said))
        elif claim.value == "unwound":
            title = claim.subject
            yield Fact("leave", title, "", claim.refs[-1], 0, len(said))
            for code in _CODE.finditer(said):
                yield Fact("call", code[1], "", called, *code.span())
        else:
            start = said.find(claim.value)
            yield Fact("raise", claim.value, "", ref, start, start + len(claim.value))
            if call := _CODE.match(said):
                yield Fact("call", call[1], "", called, *call.span())

    def _answer(self, claim: Claim, said: Phrase) -> Iterator[Fact]:
        value = claim.value
        name = claim.subject if claim.subject.isidentifier() else ""
        if "without printing" in said:
            yield Fact("answer", "", "''", claim.refs[-1], 0, len(said))
        elif value and value != "…":
            start = said.rfind(value)
            yield Fact("answer", name, value, claim.refs[-1], start, start + len(value))
            if name and name in said[:start] and name in self._functions:
                place = said.find(name)
                yield Fact("answer", name, value, claim.refs[-1], place, place + len(name))

    @functools.cached_property
    def _classes(self) -> frozenset[str]:
        return frozenset(node.name for node in walked(self._tree) if isinstance(node, ast.ClassDef))

    @functools.cached_property
    def _functions(self) -> frozenset[str]:
        kinds = ast.FunctionDef | ast.AsyncFunctionDef
        return frozenset(node.name for node in walked(self._tree) if isinstance(node, kinds))

    def _spoken(self, sentence: Sentence, found: Sequence[Fact]) -> Iterator[Fact]:
        """Code that a sentence only names: a loop's variable, what a loop goes through, the call that goes on."""
        text = sentence.text
        for start, end in code_spans(text):
            code = text[start + 1 : end - 1]
            if any(fact.start <= start and end <= fact.end and _names_it(fact, code) for fact in found):
                continue
            # A name that another claim of the sentence has is meant as that claim has it.
            if about := next((fact for fact in found if code in (fact.subject, _changed(fact))), None):
                yield about._replace(start=start, end=end)
            elif not code.startswith(("except", "return", "case ")):
                yield Fact("value", code, "", None, start, end)
        for same in _SAME.finditer(text):
            if same[1][0].isupper() or same[1] in self._classes:
                yield Fact("value", same[1], "", None, *same.span(1))
        for name in re.findall(r"\b\w+\b", _CODE.sub(" ", text)) if not sentence.claims or "record" in text else ():
            if name in self._functions:
                yield Fact("value", name, "", None, text.find(name), text.find(name) + len(name))


_CHANGE: Final = re.compile(
    r" = \.\.\.$|\[\.\.\.\]$|\.(append|extend|insert|pop|add|update|discard|difference_update)\([^()]*\)$"
)
_ENDINGS: Final = frozenset({"loop.exhausted", "loop.false", "loop.runs", "loop.never.while"})
_CHANGES_IN_CODE: Final = {
    "list.append": "{path}.append(...)",
    "list.extend": "{path}.extend(...)",
    "list.prepend": "{path}.insert(0, ...)",
    "list.insert": "{path}.insert({index}, ...)",
    "list.pop": "{path}.pop()",
    "list.pop_only": "{path}.pop()",
    "list.pop_first": "{path}.pop(0)",
    "list.pop_at": "{path}.pop({index})",
    "set.add": "{path}.add(...)",
    "set.add.several": "{path}.update(...)",
    "set.discard": "{path}.discard(...)",
    "set.discard.several": "{path}.difference_update(...)",
    "dict.remove": "del {path}[...]",
    "dict.remove.several": "del {path}[...]",
}
"""Changes as statements; `...` stands for the item."""
_WRITERS: Final[Mapping[ClaimKind, Callable[[_Facts, Claim, Phrase], Iterator[Fact]]]] = {
    ClaimKind.VALUE: _Facts._value,
    ClaimKind.CONDITION: _Facts._condition,
    ClaimKind.CALL: _Facts._call,
    ClaimKind.RETURN: _Facts._return,
    ClaimKind.COUNT: _Facts._count,
    ClaimKind.MUTATION: _Facts._mutation,
    ClaimKind.ORDER: _Facts._order,
    ClaimKind.OUTPUT: _Facts._output,
    ClaimKind.EXCEPTION: _Facts._exception,
    ClaimKind.ANSWER: _Facts._answer,
}


@functools.lru_cache(maxsize=KEPT_PROGRAMS)
def _statements(tree: ast.Module) -> Mapping[int, list[ast.stmt]]:
    """Statements without a body by each line that they stand on."""
    found: dict[int, list[ast.stmt]] = {}
    for node in walked(tree):
        if isinstance(node, ast.stmt) and not hasattr(node, "body") and not isinstance(node, ast.Match):
            for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                found.setdefault(line, []).append(node)
    return found


@functools.lru_cache(maxsize=KEPT_PROGRAMS)
def _spread(tree: ast.Module) -> frozenset[int]:
    """The lines of statements without a body, and of headers, that stand on more than one."""
    found: set[int] = set()
    for node in walked(tree):
        if isinstance(node, ast.stmt):
            first = node.lineno
            last = (node.body[0].lineno - 1 if hasattr(node, "body") else node.end_lineno) or first
            if isinstance(node, ast.If | ast.While):
                last = node.test.end_lineno or first
            if last > first:
                found.update(range(first, last + 1))
    return frozenset(found)


@functools.lru_cache(maxsize=KEPT_PROGRAMS)
def _expressions(tree: ast.Module) -> frozenset[str]:
    return frozenset(ast.unparse(node) for node in walked(tree) if isinstance(node, ast.expr))


def _as_json(text: str, fact: Fact) -> dict[str, Any]:
    made: dict[str, Any] = {"kind": fact.kind, "subject": fact.subject, "value": fact.value}
    if fact.step is not None:
        made["step"] = fact.step
    if fact.start or fact.end < len(text):
        made |= {"quote": text[fact.start : fact.end], "at": fact.start}
    return made


def _source(why: ValueReason | Reason | None) -> str:
    """The code that a value came from, as the program has it."""
    return ast.unparse(why.node) if isinstance(why, ValueReason) and why.node is not None else ""


def _reasons(claim: Claim, at: int, step: int) -> Iterator[Fact]:
    """`7 % 2 = 1 and 1 != 0`: each part, as the condition's own with values in place of names."""
    for ground in claim.why.grounds if isinstance(claim.why, Reason) else ():
        for kind, subject, value in ground.says:
            yield Fact(kind, subject or claim.subject.strip("`"), value, step, at, at + len(ground.text))
        at += len(f"{ground.text} and ")


def _slot(kind: str, subject: str, value: str, step: int | None, said: Phrase, slot: str) -> Fact:
    """A fact whose words are those of a slot."""
    text, at = said.slots[slot]
    return Fact(kind, subject, value, step, at, at + len(text))


def _names_it(fact: Fact, code: str) -> bool:
    """Return whether a fact has the names of a piece of code."""
    names = set(re.findall(r"[A-Za-z_]\w*", code))
    return names <= set(re.findall(r"[A-Za-z_]\w*", f"{fact.subject} {fact.value}"))


def _changed(fact: Fact) -> str:
    """The place that a change of the form `xs[0] = ...` or `xs.append(...)` changes."""
    if fact.kind != "mutation":
        return ""
    return _CHANGE.sub("", fact.subject).removeprefix("del ")


def _number_in(said: str) -> tuple[int, int]:
    found = re.search(r"\d+", said)
    return found.span() if found else (0, len(said))


def _whose_turn(records: Sequence[schema.Record]) -> tuple[list[int], dict[int, int]]:
    """The frame that goes on after each record, and the record of each frame's call."""
    frames: list[int] = []
    calls: dict[int, int] = {}
    parents: dict[int, int] = {}
    current = 0
    for at, record in enumerate(records):
        if isinstance(record, schema.Call | schema.Resume):
            parents[record.f] = record.p
            if isinstance(record, schema.Call):
                calls[record.f] = at
            current = record.f
        elif isinstance(record, _ENDS):
            # The caller goes on; of the outermost frame nobody does.
            current = parents.get(record.f, 0) or record.f
        else:
            current = getattr(record, "f", 0) or current
        frames.append(current)
    return frames, calls
