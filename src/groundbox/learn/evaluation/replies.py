"""A reply of a model, which may be anything: its reasoning, its answer, or why there is none.

The answer is what stands on the last line that begins with `Answer:`. Thinking between tags is left out before. A model
that goes on after its answer with turns that it makes up ("User: …") answers somebody else's question there: what comes
after such a turn is not read. A reply that was cut has an answer only if a whole line tells it.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Final

from groundbox.dataset.tasks import checking
from groundbox.dataset.translation.answer_cache import Reply
from groundbox.endpoint.answer import TOO_LARGE, without_thinking
from groundbox.values.parsing import expression_of

MOST_ANSWER_CHARS: Final = 100_000
CUT: Final = "length"
"""How an answer ended that reached `max_tokens`, as endpoints say."""
_TURN: Final = re.compile(
    r"<\|(?:im_start|im_end|endoftext|eot_id|user|assistant)\|>|"
    r"^[*#\s]{0,10}(?:User|Human|Question|Assistant|Instruction|Problem)\b[*\s]{0,4}:",
    re.MULTILINE,
)
_FENCE: Final = re.compile(r"\A```[\w+-]*\n(.*?)\n?```", re.DOTALL)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Said:
    """An answer as it was read in a reply.

    Attributes:
        text: Without thinking, and without turns that the model made up.
        reasoning: What stands before the answer; all of `text` where there is none.
        answer: "" where there is none.
        lacks: Why there is no answer: `empty`, `no-answer`, `unfinished`, `unfinished-thinking`, `too-large`; "" where
            there is one.
        cut: Whether it ended at the limit of its length.
        whole: Without thinking only, for judges that read replies their own way; "" where thinking was not ended.
    """

    text: str
    reasoning: str
    answer: str
    lacks: str = ""
    cut: bool = False
    whole: str = ""

    @property
    def lacks_text(self) -> str:
        """Why there is nothing to read, for judges that read no `Answer:` line."""
        return "" if self.lacks == "no-answer" else self.lacks


def read(reply: Reply) -> Said:
    """Read the answer of a reply."""
    cut = reply.finish == CUT
    if reply.finish == TOO_LARGE:
        return Said(text="", reasoning="", answer="", lacks=TOO_LARGE)
    text = without_thinking(reply.text)
    if text is None:
        return Said(text="", reasoning="", answer="", lacks="unfinished-thinking", cut=cut)
    whole, text = text, _own(text)
    ends_early = len(text) < len(whole)  # what was cut off is somebody else's
    parts = checking.parts(text)
    answer = _one(parts.answer)
    if cut and not ends_early and _is_torn(text, answer):
        return Said(text=text, reasoning=parts.reasoning, answer="", lacks="unfinished", cut=True, whole=whole)
    lacks = "" if answer else "no-answer" if text.strip() else "empty"
    return Said(text=text, reasoning=parts.reasoning, answer=answer, lacks=lacks, cut=cut, whole=whole)


def _own(text: str) -> str:
    """A text up to the first turn that is made up after an answer."""
    first = checking.ANSWER_LINE.search(text)
    if first is None:
        return text
    turn = _TURN.search(text, first.end())
    return text if turn is None else text[: turn.start()].rstrip()


def _one(answer: str) -> str:
    """An answer alone: all of it where that is one expression, what is fenced, or its first line."""
    answer = answer[:MOST_ANSWER_CHARS]
    fenced = _FENCE.match(answer)
    if fenced:
        return fenced[1].strip()
    if "\n" not in answer or _is_expression(answer):
        return answer
    return checking.answer_of(f"{checking.MARK} {answer.partition(chr(10))[0]}")


def _is_expression(text: str) -> bool:
    try:
        expression_of(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _is_torn(text: str, answer: str) -> bool:
    """Tell whether a text that was cut ends before its answer does."""
    lines = list(checking.ANSWER_LINE.finditer(text))
    return not answer or not lines or "\n" not in text[lines[-1].end() :].lstrip()
