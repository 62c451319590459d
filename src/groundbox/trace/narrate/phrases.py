"""The wording: for every kind of statement several ways to say it, and a voice that chooses among them.

Shapes, for whoever reads the text back. Code of the program, be it a name or an expression, stands in backticks;
values are bare Python literals (or the text that `State.text` gives), numbers of iterations are bare digits.
A sentence is one to four clauses, joined by `, and`, `;`, `so` or `since`; statements follow the order of the run.

- VALUE: `` `x` becomes 3``, `` `x` is set to 3``, `` `x` is now 3``, `` `x` starts at 3``,
  `` `x` becomes `a + b` = 1 + 2 = 3`` (code, the same with recorded values, the result: all equal),
  `` `x` goes up by 5, from 3 to 8``, `` adding 5 takes `x` from 3 to 8``, `` `x` changes from 3 to 8``.
  Given values: `` `f` is called with `a` = 1 and `b` = [2]``. Several values of a name over iterations:
  `` `x` takes the values 3, 8, 15``.
- CONDITION: `` 0 <= 3, so `lo <= hi` is true``, `` as 3 > 2, `lo <= hi` fails``, `` since 3 < 5, `x` becomes 1``.
  The values come first: who reads from left to right, as a model writes, knows the outcome only from them.
  A reason is a true statement about the values at that moment: comparisons (`3 < 5`, `'a' is in ['a', 'b']`), after
  the steps that led to their sides (`7 % 2 = 1 and 1 != 0`), or `` `s` is empty``, `` `s` is not empty``,
  `` `n` is None``, `` `flag` is True``; several are joined by `and`. `=` says that both sides are equal after working
  them out. A condition that calls the program's functions is told after what these calls did.
- CALL, RETURN: `` `f(2, 3)` is called``, `` `f` is called with `a` = 2``, `` `f(2, 3)` returns 5``, `` `f` returns 5``.
- COUNT: `after 3 iterations the loop ends`, `the loop is left in iteration 3`, `iterations 3 to 8 are left out here`,
  `` in iterations 3 to 5 `x` takes the values 1, 2, 3 and `x > 2` is true 1 of 3 times; after that `y` is 4``: what
  stands after `after that`, `after which` and `and then` holds when the iterations, or the call, are over.
  Where another loop could be meant: `` iterations 3 to 8 of the loop over `x` ``, or
  `` of the loop with the condition `n > 0` ``.
- ITEMS of a comprehension: `` the items 2, 4 of [1, 2, 4] pass `x % 2 == 0` ``,
  `` `x * 2` gives 4, 8 for the items 2, 4``.
- MUTATION: `` 5 is appended to `xs`, which is now [1, 5]``, `` `xs[0]` changes from 3 to 9``, `` `d['a']` becomes 1``,
  `` 3 is added to `s` ``, `` 3 is removed from `s` ``.
- OUTPUT: `the program prints 'a\\n'`. EXCEPTION: `` `f(2)` raises ValueError('x')``, `the handler takes over`.
- ANSWER: `So main_solution returns [1, 2].`, `So main_solution raises KeyError('x').`, `So the program prints 'a\\n'.`
"""

from __future__ import annotations

import random
import string
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from groundbox.trace.narrate.narration import Claim

PHRASES: Final = MappingProxyType(
    {
        # a name takes a value
        "value.first": (
            "{name} starts at {value}",
            "{name} is set to {value}",
            "{name} begins as {value}",
        ),
        "value.new": ("{name} becomes {value}", "{name} is set to {value}", "{name} is now {value}"),
        "value.workings": (
            "{name} becomes {workings} = {value}",
            "{name} is set to {workings} = {value}",
            "{name} takes the value {workings} = {value}",
        ),
        "value.is_call": (
            "{name} becomes {call} = {value}",
            "{name} is set to {call} = {value}",
            "{name} is {value}, the result of {call}",
        ),
        "value.is_call.again": (
            "{name} is the {thing} that {call} returned",
            "{name} is set to the {thing} that {call} returned",
        ),
        "value.grows": (
            "adding {by} takes {name} from {old} to {value}",
            "{name} goes up by {by}, from {old} to {value}",
            "{by} is added to {name}, which goes from {old} to {value}",
        ),
        "value.falls": (
            "subtracting {by} takes {name} from {old} to {value}",
            "{name} goes down by {by}, from {old} to {value}",
        ),
        "value.changes": (
            "{name} changes from {old} to {value}",
            "{name} goes from {old} to {value}",
        ),
        "value.stays": ("{name} stays at {value}", "{name} is {value} as before", "{name} keeps the value {value}"),
        "value.deleted": ("{name} is deleted", "the name {name} is removed"),
        "value.same_object": (
            "{name} is the same {thing} as {other}, {value}",
            "now {name} is the same {thing} as {other}, {value}",
        ),
        "item.same": ("{name} stays {value}", "{name} remains {value}"),
        "item.new": ("{name} becomes {value}", "{name} is set to {value}", "{name} = {value} is entered"),
        # objects change
        "list.append": ("{item} is appended to {name}{which}", "{name} gets {item} at its end{and_}"),
        "list.extend": ("{items} are appended to {name}{which}", "{name} gets {items} at its end{and_}"),
        "list.prepend": ("{item} is put at the front of {name}{which}", "{name} gets {item} at its front{and_}"),
        "list.insert": (
            "{item} is inserted at index {index} of {name}{which}",
            "{name} gets {item} at index {index}{and_}",
        ),
        "list.pop": (
            "the last item, {item}, is removed from {name}{which}",
            "{item} is taken from the end of {name}{which}",
        ),
        "list.pop_only": (
            "the only item, {item}, is removed from {name}{which}",
            "the only item, {item}, is taken out of {name}{which}",
        ),
        "list.pop_first": (
            "the first item, {item}, is removed from {name}{which}",
            "{item} is taken from the front of {name}{which}",
        ),
        "list.pop_at": ("the item {item} at index {index} is removed from {name}{which}",),
        "set.add": ("{item} is added to {name}{which}", "{name} gains {item}{and_}"),
        "set.add.several": ("{item} are added to {name}{which}", "{name} gains {item}{and_}"),
        "set.discard": ("{item} is removed from {name}{which}", "{name} loses {item}{and_}"),
        "set.discard.several": ("{item} are removed from {name}{which}", "{name} loses {item}{and_}"),
        "dict.remove": ("the key {item} is removed from {name}{which}", "{name} loses the key {item}{and_}"),
        "dict.remove.several": ("the keys {item} are removed from {name}{which}", "{name} loses the keys {item}{and_}"),
        # one object changes more than once in a line
        "object.changes": ("{changes}, so {state}",),
        # a condition
        "condition.true.reason": (
            "{reason}, so {code} is true",
            "{reason}, so {code} holds",
            "as {reason}, {code} holds",
        ),
        "condition.false.reason": (
            "{reason}, so {code} is false",
            "{reason}, so {code} does not hold",
            "as {reason}, {code} fails",
        ),
        "condition.false.long": (
            "{reason}, so the branch is not taken",
            "as {reason}, the branch is not taken",
        ),
        "condition.true.led": ("{reason} and so {code} is true", "{reason} and so {code} holds"),
        "condition.false.led": ("{reason} and so {code} is false", "{reason} and so {code} does not hold"),
        "condition.true": ("{code} is true", "{code} holds"),
        "condition.false": ("{code} is false", "{code} does not hold"),
        # Behind a lead, as in `with x = 3, 3 > 2, so …`: a `since` there would run into the lead.
        "since.led": ("{condition}, so {effect}",),
        "since": (
            "since {condition}, {effect}",
            "as {condition}, {effect}",
            "{condition}, so {effect}",
        ),
        # calls
        "call.with": ("{function} is called with {arguments}", "{function} runs with {arguments}"),
        "globals": (
            "the module has {values}",
            "given in the module: {values}",
        ),
        "call.entry": (
            "{function} is called with {arguments}",
            "we call {function} with {arguments}",
        ),
        "call.init": (
            "a new {name} object is made with {arguments}",
            "{name} is instantiated with {arguments}",
        ),
        "call.init.bare": ("a new {name} object is made", "{name} is instantiated"),
        "call.bare": ("{function} is called", "{function} runs"),
        "call.result": ("{call} returns {value}", "{call} gives {value}"),
        "call.down": (
            "the calls go on in the same way down to {call}, which returns {value}",
            "this goes on down to {call}, which returns {value}",
        ),
        "call.leaves": ("after {call}, {state}", "{call} runs, after which {state}"),
        "call.leaves.back": ("after {call}, {state}",),
        "call.leaves.value": ("{call} returns {value}, after which {state}", "{call} gives {value}; after it {state}"),
        "call.left_out": (
            "{count} calls in this line are left out here",
            "{count} calls of this line are not told here",
        ),
        # calls of lambdas, whose code stands for a name
        "call.with.outer": (
            "{function} is called with {arguments} while {outer}",
            "{function} runs with {arguments} while {outer}",
        ),
        "call.bare.outer": ("{function} is called while {outer}",),
        "lambda.called": (
            "{function} is called with {arguments} and returns {result}",
            "{function} is called with {arguments} and gives {result}",
        ),
        "lambda.called.outer": (
            "{function} is called with {arguments} while {outer}, and returns {result}",
            "{function} is called with {arguments} while {outer}, and gives {result}",
        ),
        "lambda.called.bare": ("{function} is called and returns {result}", "{function} is called and gives {result}"),
        "lambda.called.bare.outer": (
            "{function} is called while {outer}, and returns {result}",
            "{function} is called while {outer}, and gives {result}",
        ),
        "lambda.returns": ("{function} returns {results}", "{function} gives {results}"),
        "lambda.same": ("{function} returns {results}, {count}", "{function} gives {results}, {count}"),
        "lambda.many": (
            "{function} is called {count}: it returns {results}, and so on",
            "{function} is called {count}: it gives {results}, and so on",
        ),
        "lambda.more": ("{function} is called {count}",),
        # where it is not known which lambda is called
        "lambda.returned": ("{function} returned {results}",),
        "lambda.untold": ("more calls of this line are not told here", "more calls in this line are left out here"),
        "lambda.workings": ("{workings} = {value}",),
        "lambda.value": ("{value}",),
        "yield.left_out": (
            "{count} values that it gives are left out here",
            "{count} values that it gives are not told here",
        ),
        "call.made": ("{value} is made", "this makes {value}"),
        "return": ("{function} returns {value}", "{function} gives back {value}"),
        "return.workings": (
            "{function} returns {workings} = {value}",
            "{function} gives back {workings} = {value}",
        ),
        "return.reached": ("the `return` is reached", "the function ends here"),
        "return.entry": (
            "the value to return is {workings} = {value}",
            "what is returned is {workings} = {value}",
        ),
        # from the end to the beginning
        "backward.goal": (
            "we look for an input that leads to the result {value}",
            "the result to reach is {value}",
            "given is the result {value}, and wanted is an input that leads to it",
        ),
        "backward.goal.raises": (
            "we look for an input that leads to the exception {value}",
            "the exception to reach is {value}",
        ),
        "backward.condition": (
            "this rests on an earlier test: {clause}",
            "an earlier test decided on that: {clause}",
            "it was required earlier that {clause}",
        ),
        "backward.effect": ("earlier, {clause}", "going back, earlier {clause}", "earlier still, {clause}"),
        "backward.required": (
            "so the input must make {code} {truth}",
            "hence {code} is {truth} for the input",
            "the input is one for which {code} is {truth}",
        ),
        "backward.witness": (
            "an input that meets this is {values}",
            "{values} is such an input",
            "one such input is {values}",
        ),
        "backward.no_input": ("no input is needed",),
        # generators
        "yield": ("the generator {function} gives {value}", "{function} yields {value}"),
        "exhausted.value": ("the generator {function} returns {value}", "{function} returns {value}"),
        "exhausted": ("the generator {function} is exhausted", "{function} has nothing more to give"),
        # loops
        "for.intro": (
            "the loop takes {name} from {items}",
            "{name} runs over {items}",
            "the loop goes through {items} with {name}",
        ),
        "while.intro": (
            "the loop runs as long as {code} is true",
            "the loop repeats while {code} holds",
        ),
        "loop.exhausted": (
            "the loop ends after {count}, as no items are left",
            "with no items left, the loop ends after {count}",
            "that was the last item, and the loop ends after {count}",
        ),
        "loop.false": (
            "now {condition}, so the loop ends after {count}",
            "then {condition}, which ends the loop after {count}",
        ),
        "loop.never.while": ("{condition}, so the loop runs 0 times",),
        "loop.runs": ("the loop {head} runs {times}", "the loop {head} goes round {times}"),
        "loop.left_out": (
            "{iterations} go the same way and are left out here",
            "{iterations} are left out here",
        ),
        "loop.always": ("{code} is true each time", "{code} holds each time"),
        "loop.never.true": ("{code} is false each time", "{code} is never true there"),
        "loop.sometimes": ("{code} is true {count} of {all} times", "{code} holds {count} of {all} times"),
        "loop.folded": (
            "{iterations} ran without being recorded",
            "{iterations} ran without a record",
        ),
        "loop.after": ("{gap}, after which {state}", "{gap}, and then {state}", "{gap}; after that {state}"),
        "for.full": ("with {values},", "for {values},", "when {values_are},"),
        "for.short": ("{values}:", "for {values}:"),
        "while.full": ("in iteration {number}{of}{reason},",),
        "while.short": ("iteration {number}{of}{reason}:",),
        "loop.did": ("the body runs as before", "the body runs once more"),
        "loop.unchanged": ("nothing changes", "nothing is changed"),
        "loop.break": (
            "the loop is left by a break in iteration {number}",
            "a break ends the loop in iteration {number}",
        ),
        "loop.continue": (
            "a continue skips the rest of this iteration",
            "a continue ends this iteration",
        ),
        # exceptions
        "raise.within": ("{value} is raised with {values}", "with {values} this raises {value}"),
        "raise": ("{value} is raised", "this raises {value}"),
        "handler": ("the handler {handler} takes over", "{handler} catches it"),
        # output
        "output.error": ("{value} is written to standard error", "the program writes {value} to standard error"),
        "output": ("the program prints {value}", "{value} is printed", "this prints {value}"),
    }
)
"""Every kind of statement, with its wordings; each of them carries the same claims."""


class Spoken(NamedTuple):
    """A claim, the words that make it, and where in a longer text they begin."""

    at: int
    said: Phrase
    claim: Claim


class Phrase(str):
    """Words with what they claim.

    Attributes:
        kind: Of `PHRASES`; empty for words that were put together without them.
        slots: What was put in, with the places where it stands.
        claims: Made by all of its words.
        parts: Phrases that it was made of, with their places: these have claims of their own.
    """

    kind: str = ""
    slots: Mapping[str, tuple[str, int]] = MappingProxyType({})
    claims: Sequence[Claim] = ()
    parts: Sequence[tuple[Phrase, int]] = ()

    @classmethod
    def made(cls, kind: str, wording: str, slots: Mapping[str, str]) -> Phrase:
        """A wording with its slots filled."""
        text, places, parts = "", {}, []
        # As `str.format` fills them, but with the places noted: a claim is quoted by its slot.
        for literal, slot, _, _ in string.Formatter().parse(wording):
            text += literal
            if slot is not None:
                filling = slots[slot]
                places[slot] = (filling, len(text))
                if isinstance(filling, Phrase):
                    parts.append((filling, len(text)))
                text += filling
        phrase = cls(text)
        phrase.kind, phrase.slots, phrase.parts = kind, places, parts
        return phrase

    def spoken(self, at: int = 0) -> Iterator[Spoken]:
        """All claims, those of its parts behind its own.

        Args:
            at: Where it stands itself.
        """
        for claim in self.claims:
            yield Spoken(at, self, claim)
        for part, place in self.parts:
            yield from part.spoken(at + place)


def saying(text: str, *claims: Claim) -> Phrase:
    """A text that makes claims."""
    phrase = text if isinstance(text, Phrase) else Phrase(text)
    if claims:
        phrase.claims = (*phrase.claims, *claims)
    return phrase


def joined(*texts: str) -> Phrase:
    """Texts one behind the other."""
    parts, length = [], 0
    for text in texts:
        if isinstance(text, Phrase):
            parts.append((text, length))
        length += len(text)
    phrase = Phrase("".join(texts))
    phrase.parts = parts
    return phrase


def row(texts: Sequence[str], between: str, last: str) -> Phrase:
    """Texts with words between them: `last` before the last one, and `between` before the others."""
    separators = ["", *[between] * (len(texts) - 2), last][: len(texts)]
    return joined(*(part for pair in zip(separators, texts, strict=True) for part in pair))


def listed(texts: Sequence[str]) -> Phrase:
    """`a`, `a and b`, `a, b, and c`."""
    return row(texts, ", ", " and " if len(texts) < 3 else ", and ")


def counted(count: int, unit: str) -> str:
    """`1 time`, `2 times`."""
    return f"{count} {unit}" if count == 1 else f"{count} {unit}s"


class Voice:
    """Chooses wordings: by the seed, and never the same one twice in a row where there are others.

    Two voices with the same seed make the same choices in the same order.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(f"narration {seed}")
        self._last: dict[str, list[int]] = {}

    def say(self, kind: str, **slots: str) -> Phrase:
        """The statement in one of its wordings."""
        return Phrase.made(kind, self.choose(kind, PHRASES[kind]), slots)

    def choose(self, kind: str, wordings: tuple[str, ...]) -> str:
        """Choose a wording other than those that were lately chosen for this kind."""
        lately = self._last.setdefault(kind, [])
        fresh = [number for number in range(len(wordings)) if number not in lately]
        number = self._random.choice(fresh)
        lately.append(number)
        # So that at least two are fresh where there are three or more, and one where there are two.
        del lately[: max(0, len(lately) - max(1, len(wordings) - 2))]
        # The only one may come again at once.
        if len(wordings) == 1:
            lately.clear()
        return wordings[number]
