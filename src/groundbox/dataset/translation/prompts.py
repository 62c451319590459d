"""Prompts of a translation: turn a recorded trace into reasoning, mend what fails, read what somebody wrote.

Two ways of asking. `paper` follows the method of Jung, Zhou and Chen (EMNLP 2025): question, input, code and raw
trace, to be retold as a step-by-step solution with the trace's own values, without code and as if no trace were
given. `grounded` asks for what the prover can check: one fact per sentence, names and values as recorded,
conditions with the values that decided them, loops summarised with their counts. It shows the trace in the
annotated form, which is shorter than the raw one and has no addresses.

Either is asked for as prose or as sentences with their claims: JSON of `schema`, which is the part of the schema of
`groundbox.trace.claims` that a writer can fill without the numbers of records.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from groundbox.trace.claims import json_schema

STYLES: Final = ("grounded", "paper")

_PAPER: Final = """\
Below are a question, an input, a program that solves the question, and the trace of the program's execution on \
that input. Retell the execution as a step-by-step solution of the question for this input.

- Take every value from the trace; compute nothing on your own.
- Write no code.
- Write as if you worked the answer out yourself: mention neither the trace nor that one was given.
- End with the answer.
{form}
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
{form}
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

_CLAIMS: Final = """\

Answer with one JSON object and nothing else. Its "sentences" are the reasoning, each with its "text" and its "claims":
- The claims say as data what the text says. Every number, name, quoted value, and true or false of a sentence has to \
stand in one of its claims. A sentence without any of these has no claims.
- "subject" is code of the program, "value" a Python literal. Kinds of claims:
{kinds}
Such as, where another program and its record are
```python
def grow(n, top):  # (1) grow = <function grow>; (1) n=2, top=5
    while n < top:  # (2) True; (4) False
        n = n * 3  # (3) n = 6
    return n
```
the answer
{example}
"""
_KINDS: Final = """\
  value: the expression "subject" has the value "value" at that moment
  test: the condition "subject" comes out as "value", True or False
  return: the call "subject" gives "value"
  input: the program is given "value" for its parameter "subject"
  answer: the whole program gives "value"; "subject" is empty
  mutation: the change "subject" is made, such as xs.append(5), xs.pop() or d['a'] = 1
  count: the loop "subject", such as for x in xs, runs "value" times, or the function "subject" is called so often
  iteration: the round "value" of the loop "subject" begins
  exit: the loop "subject" ends; "value" is 'exhausted', 'false', 'break', 'return' or 'raise'
  call: the call "subject" is made
  output: the text "value" is printed
  raise: the exception "subject" comes up
  catch: the handler "subject", such as except ValueError, takes over"""

_EXAMPLE: Final = """\
{"sentences": [\
{"text": "We begin with n = 2 and top = 5.", "claims": [\
{"kind": "input", "subject": "n", "value": "2"}, \
{"kind": "input", "subject": "top", "value": "5"}]}, \
{"text": "Since n < top is true, n becomes n * 3 = 6.", "claims": [\
{"kind": "test", "subject": "n < top", "value": "True"}, \
{"kind": "value", "subject": "n * 3", "value": "6"}, \
{"kind": "value", "subject": "n", "value": "6"}]}, \
{"text": "Then n < top is false, and the loop has run 1 time.", "claims": [\
{"kind": "test", "subject": "n < top", "value": "False"}, \
{"kind": "count", "subject": "while n < top", "value": "1"}]}, \
{"text": "So grow returns 6.", "claims": [\
{"kind": "return", "subject": "grow(2, 5)", "value": "6"}, \
{"kind": "answer", "subject": "", "value": "6"}]}]}"""

_REPAIR: Final = """\
Some of this does not agree with what the program did. What is wrong, and what is so instead where it is known:

{failed}

Write the whole reasoning again with these mended. Keep what is right. Answer with {form} alone.
"""

_TOO_LITTLE: Final = """\
Too little of this says what the program did in words that can be checked.

Write the whole reasoning again, and state in each sentence one fact of the run: a name and the value it takes, \
a condition and whether it holds, what a call returns. Answer with {form} alone.
"""

_TORN: Final = """\
This is not one JSON object of the form that was asked for. Write the whole reasoning again, as one JSON object with \
"sentences", each of them with its "text" and its "claims". Answer with the JSON alone.
"""

_READING: Final = """\
Somebody tells in numbered sentences what a program did. Say as data what each of them claims. Add nothing that a \
sentence does not say, mend nothing, and keep its values also where you doubt them. Leave out sentences that claim \
nothing.

"number" is that of the sentence. In "claims", "subject" is code of the program, "value" a Python literal. Every \
number, name, quoted value, and true or false of a sentence has to stand in one of its claims. Kinds of claims:
{kinds}

The program:
```python
{source}
```

Its input:
{arguments}

The sentences:
{sentences}
"""
KINDS: Final = tuple(line.partition(":")[0].strip() for line in _KINDS.splitlines())
"""Kinds of claims that a model is asked for; each is found without the number of a record, which it need not name."""
MOST_SENTENCES: Final = 200
MOST_CLAIMS: Final = 6
"""Of a sentence. Both keep a model that does not end from going on for ever, where the server enforces them."""


class Shown(NamedTuple):
    """Parts of a traced run that go into a prompt.

    Attributes:
        arguments: The call, or the standard input of a script.
        result: What came of the run, such as `double returns 6`.
    """

    statement: str
    source: str
    arguments: str
    result: str
    trace: str


def request(shown: Shown, style: str, *, with_claims: bool) -> str:
    """The prompt for a translation.

    Args:
        style: One of `STYLES`.
        with_claims: Ask for sentences with their claims rather than for prose.
    """
    template = _PAPER if style == "paper" else _GROUNDED
    form = _CLAIMS.format(example=_EXAMPLE, kinds=_KINDS) if with_claims else ""
    return template.format(**shown._asdict(), form=form)


def repair(failed: Sequence[str] | None, *, with_claims: bool) -> str:
    """The prompt for the one repair.

    Args:
        failed: What is wrong with which sentence, without its own values; empty where too little was said, None where
            the answer was not of the form that was asked for.
    """
    if failed is None:
        return _TORN
    form = "the JSON" if with_claims else "the reasoning"
    if not failed:
        return _TOO_LITTLE.format(form=form)
    return _REPAIR.format(failed="\n".join(f"- {each}" for each in failed), form=form)


def reading(shown: Shown, sentences: Mapping[int, str]) -> str:
    """The prompt for the claims of sentences by their numbers. The trace is not shown, so a reader mends nothing."""
    # One line each, or a sentence could look like the next number.
    told = "\n".join(f"{number}. {' '.join(text.split())}" for number, text in sentences.items())
    return _READING.format(source=shown.source, arguments=shown.arguments, sentences=told, kinds=_KINDS)


@functools.cache
def schema() -> dict[str, Any]:
    """The JSON Schema of sentences with their claims that a model is asked for."""
    return _sentences({"text": {"type": "string"}})


@functools.cache
def reading_schema() -> dict[str, Any]:
    """The JSON Schema of the claims of numbered sentences."""
    return _sentences({"number": {"type": "integer"}})


def _sentences(what: Mapping[str, Any]) -> dict[str, Any]:
    """All keys are required and no others allowed, as OpenAI's strict mode has it; no references, no descriptions."""
    known = json_schema()["$defs"]["claim"]["properties"]
    # In the order of the schema of claims, so that a new kind there changes no order here.
    kinds = [kind for kind in known["kind"]["enum"] if kind in KINDS]
    claim = _object(
        {"kind": {"enum": kinds, "type": "string"}, "subject": {"type": "string"}, "value": {"type": "string"}}
    )
    claims = {"type": "array", "maxItems": MOST_CLAIMS, "items": claim}
    sentence = _object({**what, "claims": claims})
    return _object({"sentences": {"type": "array", "minItems": 1, "maxItems": MOST_SENTENCES, "items": sentence}})


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }
