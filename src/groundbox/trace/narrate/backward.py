"""The run told from its end: from the result back to what the input had to be, and an input that is such a one.

The forward teller goes through the run and its clauses are kept one by one; they are then read in reverse.
Conditions become requirements, values become what stood before. The witness is the recorded input, which the caller
can run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, Final

from groundbox.trace.narrate.answers import answer_of, whole
from groundbox.trace.narrate.draft import Draft, sentence
from groundbox.trace.narrate.gaps import is_given
from groundbox.trace.narrate.narration import ClaimKind, Sentence, Witness
from groundbox.trace.narrate.phrases import Phrase, Voice, listed, saying
from groundbox.trace.narrate.policy import Policy
from groundbox.trace.record.reading import Trace
from groundbox.trace.run.structure import Activation
from groundbox.values.parsing import expression_of

MOST: Final = {"full": None, "normal": 14, "parts": 14, "parts, shortened": 8, "brief": 5, "outline": 2}
"""Clauses that are read back, by the name of the policy."""
_TOLD: Final = {ClaimKind.VALUE, ClaimKind.CONDITION, ClaimKind.MUTATION, ClaimKind.RETURN}


class Backward:
    """Makes the paragraphs of a backward narration out of what a forward one said."""

    def __init__(self, trace: Trace, policy: Policy, voice: Voice, entry: Activation) -> None:
        self._trace = trace
        self._policy = policy
        self._voice = voice
        self._entry = entry

    def paragraphs(self, draft: Draft) -> list[list[Sentence]]:
        """The result, what led to it in reverse, what the input had to meet, the witness, and the answer."""
        answer = answer_of(self._trace)
        result = answer.claims[0].value if answer.claims else ""
        kind = "backward.goal.raises" if self._entry.outcome == "unwind" else "backward.goal"
        goal = self._voice.say(kind, value=result)
        first = whole(sentence(goal), *answer.claims)
        required = list(self._required(draft))
        parts = [[first, *self._reversed(draft)], required, [self._witness_sentence()], [answer]]
        return [part for part in parts if part]

    def witness(self) -> Witness:
        """The recorded input."""
        entry = self._trace.header.entry
        assert entry is not None
        return Witness(call=entry.call, args=list(entry.args), kwargs=dict(entry.kwargs))

    def _reversed(self, draft: Draft) -> Iterator[Sentence]:
        # Loops, jumps and output are no steps between the input and the result.
        told = [
            (clause, kinds)
            for clause in draft.ledger
            if (kinds := {each.claim.kind for each in clause.spoken()}) & _TOLD and not self._is_left_out(clause)
        ]
        for clause, kinds in told[::-1][: MOST[self._policy.name]]:
            kind = "backward.condition" if ClaimKind.CONDITION in kinds else "backward.effect"
            said = self._voice.say(kind, clause=clause)
            yield Sentence(text=sentence(said), said=said)

    def _is_left_out(self, clause: Phrase) -> bool:
        """Calls lead forward, and the return of all is the goal itself."""
        ends = (ClaimKind.RETURN, self._entry.frame)
        made = [each.claim for each in clause.spoken()]
        return any(claim.kind is ClaimKind.CALL or (claim.kind, claim.frame) == ends for claim in made)

    def _required(self, draft: Draft) -> Iterator[Sentence]:
        """Conditions that speak of the parameters alone, which no line assigned: they hold for the input itself."""
        frame = self._entry.frame
        names = set(self._entry.args) - _assigned(self._entry)
        seen: set[str] = set()
        for clause in draft.ledger:
            for _, _, made in clause.spoken():
                if made.kind is ClaimKind.CONDITION and made.frame == frame and made.subject not in seen:
                    seen.add(made.subject)
                    # A condition with other names says something of values on the way, and not of the input alone.
                    if made.value in ("True", "False") and _names(made.subject) and _names(made.subject) <= names:
                        truth = "true" if made.value == "True" else "false"
                        said = self._voice.say("backward.required", code=f"`{made.subject}`", truth=truth)
                        yield Sentence(text=sentence(said), said=saying(said, made))

    def _witness_sentence(self) -> Sentence:
        state = self._trace.state_at(self._entry.first)
        first, frame = self._entry.first, self._entry.frame
        found = [is_given(name, state.text(value, 10_000), [first], frame) for name, value in self._entry.args.items()]
        said = self._voice.say("backward.witness" if found else "backward.no_input", values=listed(found))
        return Sentence(text=sentence(said), said=said)


def _assigned(activation: Activation) -> set[str]:
    """Names that the activation's own code may bind or whose objects it may change, going by the text alone."""
    node: Any = activation.node
    if node is None:
        return set(activation.args)
    stored = {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load)}
    changed = {
        part.value.id
        for part in ast.walk(node)
        if isinstance(part, ast.Attribute | ast.Subscript)
        and isinstance(part.value, ast.Name)
        # Reading an item changes nothing; any attribute may be a method that does.
        and not (isinstance(part, ast.Subscript) and isinstance(part.ctx, ast.Load))
    }
    return stored | changed


def _names(code: str) -> set[str]:
    try:
        tree = expression_of(code)
    except SyntaxError:
        return set()
    called = {id(part.func) for part in ast.walk(tree) if isinstance(part, ast.Call)}
    return {part.id for part in ast.walk(tree) if isinstance(part, ast.Name) and id(part) not in called}
