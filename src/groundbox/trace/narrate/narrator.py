"""Tells a trace in English, without a model: the same trace and seed give the same text.

The tree of activations, steps and loops is walked in the order of the run, with the state of each moment at hand.
Every clause is made from records, and keeps what it claims of which of them. How much is told is a `Policy`: what a
reader has seen run before is told in fewer words. By default nothing is passed over, so that each told value follows
from what was told before it. Where `max_chars` is too little for that, the next lower policy tells the run anew, so
that no text is cut in its middle, and the narration is not `whole`. The last sentence is always the answer.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Sequence
from typing import Final, Literal

from groundbox.trace.narrate.answers import answer_of
from groundbox.trace.narrate.backward import Backward
from groundbox.trace.narrate.calls import Calls
from groundbox.trace.narrate.draft import Draft, TooLong
from groundbox.trace.narrate.gaps import is_given
from groundbox.trace.narrate.loops import Loops, is_way_out
from groundbox.trace.narrate.narration import Narration, Sentence
from groundbox.trace.narrate.phrases import Voice, listed
from groundbox.trace.narrate.policy import LADDER, STARTS, Level, Policy
from groundbox.trace.narrate.statements import Statements
from groundbox.trace.narrate.telling import Telling, Where
from groundbox.trace.record.reading import Trace
from groundbox.trace.record.syntax import walked
from groundbox.trace.run.structure import Activation, Folded, Loop, Node, Step

MAX_GLOBALS: Final = 8
"""Values of the module that are told at the start."""
Style = Literal["prose", "steps", "backward"]
STYLES: Final[tuple[Style, ...]] = ("prose", "steps", "backward")
MOST_CHARS: Final = 100_000
"""Of a text, unless the caller says otherwise."""
LEAST_CHARS_OF_A_LINE: Final = 5
"""Of what is told of a line that runs: a telling of the whole is not begun where so much is too long."""
Detail = Literal["brief", "parts", "normal", "full"]


def narrate(
    trace: Trace,
    *,
    style: Style = "prose",
    detail: Detail = "normal",
    seed: int = 0,
    max_chars: int | None = MOST_CHARS,
) -> Narration:
    """Tell a trace.

    Args:
        style: `prose`; `steps`, one numbered sentence a line; or `backward`, from the result to the input, which needs
            a run of one function. What is told so does not follow from what was told before.
        detail: `full` tells every step at length; `normal` leaves nothing out either, and tells in a line each what a
            reader has seen run before; `parts` and `brief` pass over what repeats itself, and sum it up.
        seed: Chooses among wordings; what is claimed does not depend on it.
        max_chars: Characters of the text; None is unlimited. The detail is lowered until it fits, and `whole` of the
            narration says that something is passed over; the answer is always kept, even if it alone is longer.
    """
    if style not in STYLES:
        raise ValueError(f"style is one of {', '.join(STYLES)}, and not {style!r}")
    # From the detail asked for to ever less, each from the beginning.
    for policy in LADDER[STARTS[detail] :]:
        # Most of the time goes into tellings that turn out too long; this one would.
        if policy.is_whole and max_chars is not None and LEAST_CHARS_OF_A_LINE * _lines(trace) > max_chars:
            continue
        told = _told_within(trace, policy, style, seed, max_chars)
        if told is not None:
            return told
    return _laid_out([[answer_of(trace)]], style, "answer")


def is_told_whole(trace: Trace, *, style: Style = "prose", seed: int = 0, max_chars: int) -> bool:
    """Return whether `narrate` tells a trace whole so; no more of it is told than it takes to see that."""
    if not trace.complete or trace.folded or LEAST_CHARS_OF_A_LINE * _lines(trace) > max_chars:
        return False
    told = _told_within(trace, LADDER[STARTS["normal"]], style, seed, max_chars)
    return told is not None and told.whole


def _told_within(trace: Trace, policy: Policy, style: str, seed: int, max_chars: int | None) -> Narration | None:
    """The trace told by a policy, or None where that takes too many characters."""
    try:
        # A backward telling keeps few of the clauses of the forward one, so that its length says nothing.
        told = _told(trace, policy, style, seed, None if style == "backward" else max_chars)
    except TooLong:
        return None
    return told if max_chars is None or len(told.text) <= max_chars else None


def _lines(trace: Trace) -> int:
    return trace.counts.get("line", 0)


def _told(trace: Trace, policy: Policy, style: str, seed: int, most_chars: int | None) -> Narration:
    voice = Voice(seed)
    telling = Telling(trace=trace, policy=policy, voice=voice, draft=Draft(voice=voice, most_chars=most_chars))
    Teller(telling).tell()
    paragraphs = telling.draft.done()
    entry = entry_of(trace)
    if style == "backward":
        if entry is None or trace.header.entry is None:
            raise ValueError("only a run of one function has an input to go back to")
        # A voice of its own: the wordings do not depend on how many the forward telling has used.
        back = Backward(trace, policy, Voice(seed), entry)
        return dataclasses.replace(
            _laid_out(back.paragraphs(telling.draft), style, policy.name), witness=back.witness()
        )
    whole = policy.is_whole and trace.complete and not trace.folded and not telling.passes_over
    return dataclasses.replace(_laid_out([*paragraphs, [answer_of(trace)]], style, policy.name), whole=whole)


def _laid_out(paragraphs: Sequence[Sequence[Sentence]], style: str, detail: str) -> Narration:
    sentences = tuple(sentence for paragraph in paragraphs for sentence in paragraph)
    if style == "steps":
        text = "\n".join(f"{number}. {sentence.text}" for number, sentence in enumerate(sentences, 1))
    else:
        text = "\n\n".join(" ".join(sentence.text for sentence in paragraph) for paragraph in paragraphs)
    return Narration(text=text, sentences=sentences, answer=sentences[-1].text, detail=detail)


class Teller:
    """Walks the tree."""

    def __init__(self, telling: Telling) -> None:
        self._telling = telling
        self._calls = Calls(telling, self.block, self._step, self._fold)
        self._statements = Statements(telling, self._calls)
        self._loops = Loops(telling, self._statements, self.block)

    def tell(self) -> None:
        """Tell the whole run."""
        structure = self._telling.trace.structure
        entry = entry_of(self._telling.trace)
        for root in structure.roots:
            if root is entry:
                self._calls.tell_entry(root)
            elif root.name == "<module>":
                self._globals(root)
            else:
                # Threads, and calls that the library makes by itself, are no part of the story.
                self._telling.advance(root.last)

    def block(self, nodes: Sequence[Node], where: Where) -> None:
        """Tell a row of steps and loops."""
        for node in nodes:
            if isinstance(node, Loop):
                self._loops.tell(node, where)
                if where.level == Level.FULL and where.number == 0 and not is_way_out(node):
                    self._telling.draft.paragraph()
            else:
                self._statements.tell(node, where)

    def _step(self, step: Step, where: Where) -> None:
        self._statements.tell(step, where)

    def _fold(self, loop: Loop, fold: Folded, where: Where) -> None:
        self._loops.tell_fold(loop, fold, where)

    def _globals(self, root: Activation) -> None:
        """The module's own values that its functions read."""
        telling = self._telling
        telling.advance(root.last)
        # What no function reads is not needed to understand what they do.
        used = _read_by_functions(telling.trace.structure.syntax.tree)
        held = telling.state.names(root.frame)
        found = [(name, value) for name, value in held.items() if name in used and not self._telling.is_code(value)]
        found = [(name, value) for name, value in found if not isinstance(value, dict) or "opaque" not in value]
        if not found or root.outcome != "return":
            return
        texts = [is_given(name, telling.text(value), [root.last], root.frame) for name, value in found[:MAX_GLOBALS]]
        telling.say("globals", alone=True, values=listed(texts))


def _read_by_functions(tree: ast.Module | None) -> frozenset[str]:
    """Names that functions of a program read."""
    functions = [] if tree is None else [node for node in walked(tree) if isinstance(node, ast.FunctionDef)]
    parts = (part for function in functions for part in walked(function))
    return frozenset(part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load))


def entry_of(trace: Trace) -> Activation | None:
    """The activation that the narration is about: the called function, or the module of a script."""
    entry = trace.header.entry
    return trace.structure.root("<module>" if entry is None else entry.call)
