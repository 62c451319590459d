"""From sentences to claims: finds the words that claim something and hands them to the rules."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

from groundbox.trace.proof.claims import (
    Alters,
    Called,
    Changed,
    Claim,
    Deleted,
    Denied,
    Goes,
    Grows,
    Has,
    How,
    Iterated,
    Kept,
    Printed,
    Raised,
    Returned,
    Row,
    Span,
    Truth,
    Yields,
)
from groundbox.trace.proof.text.phrase import Phrase, negation
from groundbox.trace.proof.text.vocabulary import vocabulary
from groundbox.trace.proof.values.code import names_in

_GUARDS: Final = vocabulary(
    """
    if whether until unless should would could might may expected expect wanted want suppose supposed check
    checks checking checked before otherwise instead except assume assuming hypothetically provided
    """
)
_UNGUARDED: Final = frozenset({"-", "branch", "block", "statement", "body", "condition", "clause", "part"})
_ENDS_GUARD: Final = frozenset({",", ";", ":", "→", "then", "—", "–", ".", "which", "and so", "so"})
_RECAPS: Final = frozenset(
    ["recall", "remember", "initially", "originally", "earlier", "previously", "remind", "recap"]
)
_REASONS: Final = frozenset({"since", "because", "as", "(", "where"})
_CONTAINERS: Final = (ast.List, ast.Dict, ast.Set, ast.Tuple, ast.Call)
_AFTERWARDS: Final = frozenset({("after", "that"), ("after", "which"), ("after", "it"), ("and", "then")})
_EVENTS: Final = (Alters, Called, Changed, Deleted, Goes, Grows, Has, Kept, Printed, Raised, Returned, Yields)
"""What a text can say that does not happen; what it says of a test has its truth with it."""
_BEGINS: Final = frozenset({"with", "for", "when"})
_JOINS: Final = frozenset({",", "and"})
_C = TypeVar("_C", bound=Claim)


class Draft:
    """The claims of one sentence in the making, and what a rule can ask.

    Attributes:
        used: Indexes of operands that a claim has taken.
    """

    def __init__(self, phrase: Phrase, functions: frozenset[str]) -> None:
        self.phrase = phrase
        self.functions = functions
        self.claims: list[Claim] = []
        self.used: set[int] = set()
        self.number = phrase.sentence.number
        self._guarded = _guards(phrase)
        self._recap = [low in _RECAPS for low in phrase.lows]
        if "input" in phrase.lows and phrase.node(phrase.lows.index("input")) is None:
            self._recap[0] = True  # what a program was given is told at any time
        self._later = _later(phrase)

    def guarded(self, at: int) -> bool:
        """Whether what stands there is only supposed, asked or expected."""
        return self._guarded[at] if 0 <= at < len(self._guarded) else False

    def recap(self, at: int) -> bool:
        """Whether the sentence says before `at` that it looks back."""
        return any(self._recap[: at + 1])

    def later(self, at: int) -> bool:
        """Whether it stands behind `after which` and the like, in their clause."""
        return self._later[at]

    def is_reason(self, first: int) -> bool:
        """Whether `since` or the like stands shortly before, with no comma between."""
        for at in range(first - 1, max(-1, first - 4), -1):
            if self.phrase.low(at) in (",", ";", ":", "→"):
                return False
            if self.phrase.low(at) in _REASONS:
                return True
        return False

    def add(self, kind: type[_C], first: int, last: int, **fields: Any) -> None:
        """A claim whose words are the items from `first` to `last`."""
        items = self.phrase.items
        first, last = max(0, first), min(last, len(items) - 1)
        if self.guarded(first) and self.guarded(last):
            return
        self.used.update(range(first, last + 1))
        self.claims.append(
            kind(
                start=items[first].start,
                end=items[last].end,
                sentence=self.number,
                recap=self.recap(first),
                reason=self.is_reason(first),
                later=self._later[first],
                **fields,
            )
        )

    def deny(self, told: int, *, never: bool = False) -> None:
        """The claims from index `told` on are said not to be so."""
        self.claims[told:] = [
            Denied(start=claim.start, end=claim.end, sentence=claim.sentence, of=claim, never=never)
            if isinstance(claim, _EVENTS)
            else claim
            for claim in self.claims[told:]
        ]

    def has(
        self, subject: int, value: ast.expr, end: int, how: How, *, about: bool = False, first: int | None = None
    ) -> None:
        """The operand at `subject` has a value; the claim's words end before `end`."""
        node = self.phrase.node(subject)
        if node is None or ast.dump(value) == ast.dump(node):
            return  # `x is x` says nothing
        begin = subject if first is None else first
        self.add(Has, min(begin, subject), max(end - 1, subject), subject=node, value=value, how=how, about=about)


def _later(phrase: Phrase) -> list[bool]:
    """For every item whether it stands behind `after which` and the like, in their clause."""
    found, now = [], False
    for at in range(len(phrase.items)):
        now = (now and phrase.low(at) != ";") or (phrase.low(at - 1), phrase.low(at)) in _AFTERWARDS
        found.append(now)
    return found


Rule = Callable[[Draft, int], bool]
"""Looks at the word or sign at an index, and says whether it made a claim of it."""


def _guards(phrase: Phrase) -> list[bool]:
    """For every item whether a word before it makes it a supposition."""
    guarded, now, chosen = [], False, False
    for at, low in enumerate(phrase.lows):
        chosen = now and (chosen or low == "else")
        is_over = chosen and (low == "takes" or (low == "is" and phrase.low(at + 1) in ("added", "subtracted")))
        if now and (low in _ENDS_GUARD or phrase.items[at].kind == "break" or is_over):
            now = False  # `adding 2 if True else 1 = 2 takes x from 3 to 5` supposes nothing of x
        elif low in _GUARDS and phrase.node(at) is None and not (low == "except" and phrase.items[at].code):
            now = phrase.low(at + 1) not in _UNGUARDED
        guarded.append(now)
    if phrase.low(len(phrase.items) - 1) == "?":
        return [True] * len(guarded)
    return guarded


def read(draft: Draft, rules: dict[str, Sequence[Rule]], last: Sequence[Rule]) -> Sequence[Claim]:
    """Apply the rules of every word in turn, then those for what no rule took."""
    for at, low in enumerate(draft.phrase.lows):
        told = len(draft.claims)
        for rule in rules.get(low, ()):
            if rule(draft, at):
                break
        if begin := negation(draft.phrase, at):
            draft.deny(told, never=draft.phrase.low(at - begin) == "never")
    for at, item in enumerate(draft.phrase.items):
        if item.node is not None and at not in draft.used:
            for rule in last:
                if rule(draft, at):
                    break
    claims = sorted(draft.claims, key=lambda claim: (claim.start, claim.end))
    lead = _lead(draft.phrase, claims)
    if len(lead) > 1:
        row = Row(start=lead[-1].start, end=lead[-1].end, sentence=draft.number, recap=lead[0].recap, cells=tuple(lead))
        claims.insert(len(lead), row)
    return _with_givens(claims)


def _lead(phrase: Phrase, claims: Sequence[Claim]) -> list[Has]:
    """The values with which a sentence begins, and which its names have at one moment: `with i = 2 and x = 4, ...`."""
    found: list[Has] = []
    at = 0
    for claim in claims:
        words = {item.low for item in phrase.items[at:] if item.start < claim.start}
        joins = _JOINS if found else _BEGINS
        if not isinstance(claim, Has) or claim.how is not How.IS or not words <= joins:
            break
        found.append(claim)
        at = next((n for n, item in enumerate(phrase.items) if item.start >= claim.end), len(phrase.items))
    return found if phrase.low(at) in (",", ":") else []


def _with_givens(claims: Sequence[Claim]) -> Sequence[Claim]:
    """The claims of a sentence, its conditions with the values that stand before them."""
    found: list[Claim] = []
    said: dict[str, Has] = {}
    for claim in claims:
        if isinstance(claim, Has) and isinstance(claim.subject, ast.Name) and claim.how in (How.IS, How.BECOMES):
            said[claim.subject.id] = claim
            if isinstance(claim.value, _CONTAINERS):
                del said[claim.subject.id]  # it may change before the condition without a word
        elif isinstance(claim, Goes | Grows) and isinstance(claim.subject, ast.Name):
            said.pop(claim.subject.id, None)
        elif isinstance(claim, Changed) and isinstance(claim.target, ast.Name):
            said.pop(claim.target.id, None)
        elif isinstance(claim, Iterated | Span | Returned):
            said.clear()  # a loop or a call may have changed anything
        if isinstance(claim, Truth) and claim.test is not None and not claim.reason:
            given = tuple(
                said[name] for name in sorted(names_in(claim.test)) if name in said and _stands(said[name], claim)
            )
            claim = dataclasses.replace(claim, given=(*claim.given, *given))
        found.append(claim)
    return found


def _stands(said: Has, claim: Truth) -> bool:
    """Whether a value that a sentence gave before may still be meant: what was None may be an object's name by now."""
    if not isinstance(claim.test, ast.Compare) or not isinstance(claim.test.ops[0], ast.Is):
        return True
    names_objects = not isinstance(claim.test.comparators[0], ast.Constant)
    return not (names_objects and isinstance(said.value, ast.Constant))


def cells(phrase: Phrase) -> Iterator[tuple[int, int]]:
    """The cells of a table row as runs of items."""
    begin = 1
    for at in range(1, len(phrase.items)):
        if phrase.low(at) == "|":
            yield begin, at
            begin = at + 1
    if begin < len(phrase.items):
        yield begin, len(phrase.items)
