"""What a model is asked: to turn a recorded trace into reasoning, and to mend what was proven wrong.

Two ways of asking. `paper` follows the method of Jung, Zhou and Chen (EMNLP 2025): question, input, code and raw
trace, to be retold as a step-by-step solution with the trace's own values, without code and as if no trace were
given. `grounded` asks for what the prover can check: one fact per sentence, names and values as recorded,
conditions with the values that decided them, loops summarised with their counts. It shows the trace in the
annotated form, which is shorter than the raw one and has no addresses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

STYLES: Final = ("grounded", "paper")

_PAPER: Final = """\
Below are a question, an input, a program that solves the question, and the trace of the program's execution on \
that input. Retell the execution as a step-by-step solution of the question for this input.

- Take every value from the trace; compute nothing on your own.
- Write no code.
- Write as if you worked the answer out yourself: mention neither the trace nor that one was given.
- End with the answer.

Question:
{statement}

Input:
{arguments}

Program:
```python
{source}
```

Trace:
{trace}
"""

_GROUNDED: Final = """\
A program was run and everything it did was recorded. Write the reasoning of somebody who follows the program by \
hand and arrives at its result. Every sentence will be checked against the record, so write only what it shows.

How to write:
- State one fact in a sentence: a name and the value it takes, a condition and whether it holds, a call with its \
arguments, what a call returns, how often a loop runs, what is added to or removed from a collection.
- Use the program's own names, and values as Python writes them: [1, 2], 'abc', True.
- Say why a branch is taken: "since 3 < 5, …", with the values that decided it.
- Tell the first two rounds of a loop and the last one, and how many there were; leave out what repeats.
- Do not guess what the record does not show. Do not mention the record. Write no code and no headings.
- Begin with what is given. End with one sentence that says: {result}

The question that the program answers:
{statement}

Its input:
{arguments}

The program:
```python
{source}
```

The record, as comments beside the lines:
```python
{trace}
```
"""

_REPAIR: Final = """\
Some of these sentences do not agree with what the program did:

{failed}

Write the whole reasoning again with these mended. Keep what is right. Answer with the reasoning alone.
"""

_TOO_LITTLE: Final = """\
Too little of this says what the program did in words that can be checked.

Write the whole reasoning again, and state in each sentence one fact of the run: a name and the value it takes, \
a condition and whether it holds, what a call returns. Answer with the reasoning alone.
"""


class Shown(NamedTuple):
    """What of one traced run goes into a prompt.

    Attributes:
        arguments: The call, or the standard input of a script.
        result: What came of the run, such as `double returns 6`.
    """

    statement: str
    source: str
    arguments: str
    result: str
    trace: str


def request(shown: Shown, style: str) -> str:
    """The prompt for a translation.

    Args:
        style: One of `STYLES`.
    """
    template = _PAPER if style == "paper" else _GROUNDED
    return template.format(**shown._asdict())


def repair(failed: Sequence[str]) -> str:
    """The prompt for the one repair, with each failed claim as the prover told it; without any, too little was said."""
    if not failed:
        return _TOO_LITTLE
    return _REPAIR.format(failed="\n".join(f"- {each}" for each in failed))
