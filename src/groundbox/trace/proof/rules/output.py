"""Rules for what the program gives out: what it prints, and the answer of the whole run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from groundbox.trace.proof.claims import Answer, Printed
from groundbox.trace.proof.rules.operands import acceptable, is_place
from groundbox.trace.proof.rules.reader import Draft, Rule
from groundbox.trace.proof.text.phrase import ADVERBS
from groundbox.trace.proof.values.evaluation import literal
from groundbox.trace.proof.values.things import Part

_NOTHING: Final = frozenset({"nothing", "anything"})


def prints(draft: Draft, at: int) -> bool:
    """`it prints 5`, `the program prints 'a\\n'`, `prints Fizz`, `without printing anything`."""
    phrase = draft.phrase
    if phrase.low(at + 1) in _NOTHING and (phrase.low(at + 1) == "nothing" or phrase.low(at - 1) == "without"):
        draft.add(Printed, at, at + 1, text="", whole=True)
        return True
    begin = phrase.skip(at + 1, ADVERBS | {"the", "string", "value", "text", "number", "out", "line", "word"}, 4)
    node = phrase.node(begin)
    if node is not None:
        known, value = literal(node)
        if known:
            cut = value if isinstance(value, Part) else None
            to_error = is_to_error(draft, begin + 1)
            draft.add(Printed, at, begin, text=str(value), cut=cut, again=_concludes(draft, at), to_error=to_error)
        elif is_place(node) and phrase.low(begin + 1) == "=" and (more := phrase.right(begin + 2)) is not None:
            known, value = literal(more.node)
            if known:
                draft.add(Printed, at, more.end - 1, text=str(value))
        return known
    if (
        begin < len(phrase.items)
        and phrase.low(begin + 1) in ("", ".", ",", "and", ";")
        and phrase.items[begin].kind == "word"
        and phrase.low(begin) != "and"
    ):
        draft.add(Printed, at, begin, text=phrase.sentence_text(begin))
        return True
    return False


def is_to_error(draft: Draft, at: int) -> bool:
    """Whether `to standard error` stands there."""
    words = draft.phrase.lows[at : at + 3]
    return words == ["to", "standard", "error"] or words[:2] == ["to", "stderr"]


def _concludes(draft: Draft, at: int) -> bool:
    """`So the program prints 5`: what was told is summed up."""
    return at == 3 and draft.phrase.lows[:3] == ["so", "the", "program"]


def answer(draft: Draft, at: int) -> bool:
    """`the final answer is 5`, `Answer: 5`, `Output: 5`, `so the result is 5`."""
    phrase = draft.phrase
    low = phrase.low(at)
    if (
        phrase.node(at) is not None
        and phrase.low(at + 1) not in (":",)
        and phrase.low(at - 1) not in ("final", "overall")
    ):
        return False
    if low in ("result", "output", "final", "returned") and phrase.low(at - 1) not in (
        "",
        "final",
        "the",
        "overall",
        "so",
        ".",
        "end",
    ):
        return False
    if low == "result" and phrase.low(at + 1) == "of":
        return False
    begin = phrase.skip(
        at + 1,
        ADVERBS | {"is", "answer", "result", "output", "value", ":", "=", "→", "the", "will", "be", "of", "program"},
        5,
    )
    if begin == at + 1:
        return False
    value = phrase.right(begin)
    if value is None or not acceptable(draft, value) or not literal(value.node)[0]:
        return False
    if phrase.low(begin - 1) not in ("is", ":", "=", "→", "be") and phrase.low(begin - 1) not in ("the",):
        return False
    draft.add(Answer, at, value.end - 1, value=value.node, about=value.about)
    return True


def final_arrow(draft: Draft, at: int) -> bool:
    """`→ 5` by itself in its sentence: the result."""
    phrase = draft.phrase
    node = phrase.node(1)
    if at != 0 or node is None or len(phrase.items) > 3 or not literal(node)[0]:
        return False
    draft.add(Answer, 0, 1, value=node)
    return True


RULES: Final[dict[str, Sequence[Rule]]] = {
    **dict.fromkeys(("prints", "print", "printing", "outputs", "printed"), (prints,)),
    **dict.fromkeys(("answer", "result", "output", "final"), (answer,)),
    "→": (final_arrow,),
}  # fmt: skip
