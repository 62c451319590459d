"""Text forms of a run: for people, for models that are trained on them, and for tests.

- `annotated`: the source with values as comments, `total += x  # (4) total = 1; (6) total = 3; …; (22) total = 55`.
  The number in front counts steps of the run.
- `concise`: each line once, in the order in which lines first ran, with the states it left.
- `scratchpad`: every step with the state after it: the line that ran, and the names of its frame with their values.
- `dynamic`: one state at a time. Each block is the whole state, and takes the place of the block before: a model that
  writes the next block needs to see only this one.
- `frames`: an event in each line, between tokens of its own, with the names of its frame as JSON. It says what is about
  to happen and what the names are then; a model that reads it writes the next.
- `short`: the notation of tests, `1:a=1 2: 4:b=4`. A step is its line and what took a value in it.

The form for terminals is in `terminal.py`. What all of them say of a moment is said by `moments.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from groundbox.trace.record import schema
from groundbox.trace.run.folding import ALL, Begin, Done, Enter, Folding, Leave, Moment, Skip, hidden_spans
from groundbox.trace.show.moments import MomentTexts
from groundbox.trace.show.terminal import terminal

if TYPE_CHECKING:
    from groundbox.trace.record.reading import Trace
    from groundbox.trace.run.structure import Step

CALL: Final = "<|trace_call|>"
LINE: Final = "<|trace_line|>"
RETURN: Final = "<|trace_return|>"
YIELD: Final = "<|trace_yield|>"
RAISE: Final = "<|trace_raise|>"
SKIP: Final = "<|trace_skip|>"
CODE: Final = "<|trace_code|>"
VALUE: Final = "<|trace_value|>"
END: Final = "<|trace_end|>"
_TOKEN: Final[Mapping[type[schema.Record], str]] = {
    schema.Call: CALL,
    schema.Line: LINE,
    schema.Return: RETURN,
    schema.Yield: YIELD,
    schema.Raise: RAISE,
}
TOKENS: Final = (CALL, LINE, RETURN, YIELD, RAISE, SKIP, CODE, VALUE, END)
"""To be added to a tokenizer as special tokens."""
SAME: Final = ".."
"""Sign for a value that has not changed since the frame's last token."""
_SHORT_CHARS: Final = 1000
"""Of a value in `short`: tests compare whole values."""


def annotated(trace: Trace, *, max_chars: int = 60) -> str:
    """The source, with what each line did; of a line that ran more than three times, the first two and the last.

    Args:
        max_chars: Of one value.
    """
    texts = MomentTexts(trace, ALL, max_chars)
    notes: dict[int, list[str]] = {}
    number = 0
    for moment, line, words in _by_line(texts):
        number += isinstance(moment, Done)
        if isinstance(moment, Skip):
            words[0] = words[0].strip("… ")
        # Also without a word: a line that ran three times shows two of them and the last, whatever they did.
        notes.setdefault(line, []).append(f"({number}) {'; '.join(words)}" if words else "")
    lines = texts.structure.syntax.lines
    return "".join(_noted(text, notes.get(number, [])) for number, text in enumerate(lines, 1))


def _by_line(texts: MomentTexts) -> Iterator[tuple[Moment, int, list[str]]]:
    """The moments that say something of a line, each with the line and what it says."""
    for moment in texts.moments():
        if isinstance(moment, Enter) and moment.activation.args:
            yield moment, moment.activation.line, [texts.arguments(moment.activation)]
        elif isinstance(moment, Done):
            yield moment, moment.step.line, texts.effects(moment.step)
        elif isinstance(moment, Skip):
            yield moment, moment.gap.line, [moment.gap.text, *texts.differences(moment.gap)]
        elif isinstance(moment, Leave) and moment.activation.outcome == "return" and moment.activation.parent:
            line = getattr(texts.trace.records[moment.t], "n", moment.activation.line)
            yield moment, line, [f"returns {texts.value(moment.activation.value)}"]


def _noted(text: str, notes: Sequence[str]) -> str:
    said = [note for note in notes if note]
    if len(said) > 3:
        said = [*said[:2], "…", said[-1]]
    return f"{text}  # {'; '.join(said)}\n" if said else f"{text}\n"


def concise(trace: Trace, *, max_chars: int = 60) -> str:
    """Lines with their effects:

    ```text
    1 def square_sum(n): n=3
    2 total = 0: total = 0
    4 total += x: total = 0 | total = 1 | … 7 more … | total = 45
    ```
    """
    texts = MomentTexts(trace, ALL, max_chars)
    said: dict[int, list[str]] = {}
    for moment, line, words in _by_line(texts):
        states = said.setdefault(line, [])
        # The step of the `return` has no effect of its own; what it returns takes its place.
        if isinstance(moment, Leave) and states and states[-1] == "-":
            states.pop()
        states.append("; ".join(words) or "-")
    return "".join(f"{line} {texts.source(line)}: {_states(states)}\n" for line, states in said.items())


def _states(states: list[str]) -> str:
    if all(state == "-" for state in states):
        return "ran" if len(states) == 1 else f"ran {len(states)} times"
    if len(states) > 3:
        states = [*states[:2], f"… {len(states) - 3} more …", states[-1]]
    return " | ".join(states)


def scratchpad(trace: Trace, *, folding: Folding | None = None, max_chars: int = 120) -> str:
    """Steps and states:

    ```text
    call square_sum(n=2)
    line 2: total = 0
    state: n = 2, total = 0
    …
    return 5
    ```
    """
    texts = MomentTexts(trace, folding, max_chars)
    lines: list[str] = []
    for moment in texts.moments():
        if isinstance(moment, Enter):
            lines.append(f"call {moment.activation.short_name}({texts.arguments(moment.activation)})")
        elif isinstance(moment, Done):
            step = moment.step
            lines.append(f"line {step.line}: {texts.source(step.line)}")
            lines.append(_frame_state(texts, step.frame))
            if output := texts.output(step):
                lines.append(f"output: {texts.value(output)}")
            if exception := texts.exception(step):
                lines.append(f"exception: {exception}")
        elif isinstance(moment, Skip):
            lines.append(moment.gap.text)
            # Of what was folded while recording, only the differences that it made are known.
            if moment.gap.effects:
                lines.append(_frame_state(texts, moment.gap.frame))
        elif isinstance(moment, Leave):
            left = moment.activation.outcome == "return"
            name = moment.activation.short_name
            lines.append(f"return {texts.value(moment.activation.value)}" if left else f"exception leaves {name}")
    return "".join(f"{line}\n" for line in lines)


def _frame_state(texts: MomentTexts, frame: int) -> str:
    state = ", ".join(f"{name} = {value}" for name, value in texts.names(frame).items())
    return f"state: {state}" if state else "state: no names"


def dynamic(trace: Trace, *, folding: Folding | None = None, max_chars: int = 120) -> str:
    """A block after each step: the frames that run, their names, and the line that did it; an empty line between two.

    ```text
    did: line 4: total += x
    <module>
      n = 3
    square_sum
      total = 1
      x = 1
    ```
    """
    return "\n".join(_blocks(MomentTexts(trace, folding, max_chars)))


def _blocks(texts: MomentTexts) -> Iterator[str]:
    for moment in texts.moments():
        if isinstance(moment, Done):
            lines = [f"did: line {moment.step.line}: {texts.source(moment.step.line)}"]
            if exception := texts.exception(moment.step):
                lines.append(f"exception: {exception}")
            yield _whole_state(lines, texts, moment.step.frame)
        elif isinstance(moment, Skip):
            yield _whole_state([moment.gap.text], texts, moment.gap.frame)
        elif isinstance(moment, Leave) and moment.activation.outcome == "return":
            yield f"result of {moment.activation.short_name}: {texts.value(moment.activation.value)}\n"


def _whole_state(lines: list[str], texts: MomentTexts, frame: int) -> str:
    for running in texts.state.running(texts.structure.activations[frame].thread):
        lines.append(texts.structure.activations[running].short_name)
        lines.extend(f"  {name} = {value}" for name, value in texts.names(running).items())
    return "".join(f"{line}\n" for line in lines)


def frames(trace: Trace, *, folding: Folding | None = None, max_chars: int = 120) -> str:
    """Frames, one in each line:

    ```text
    <|trace_call|>{"n":"2"}<|trace_code|>def square_sum(n):
    <|trace_line|>{"n":".."}<|trace_code|>total = 0
    <|trace_return|>{"n":"..","total":"5"}<|trace_code|>return total<|trace_value|>5
    <|trace_end|>
    ```
    """
    texts = MomentTexts(trace, folding, max_chars)
    hidden = _hidden_records(trace, folding)
    shown: dict[int, dict[str, str]] = {}
    lines: list[str] = []
    # By records and not by moments: a frame is shown before its line runs, and a moment comes after a step.
    for t, record in enumerate(trace.records):
        texts.state.apply(record)
        if t in hidden:
            lines += [f"{SKIP}{hidden[t]}"] if hidden[t] else []
        elif isinstance(record, schema.Call | schema.Line | schema.Return | schema.Yield | schema.Raise):
            names, before = texts.names(record.f), shown.get(record.f, {})
            shown[record.f] = names
            said = {name: SAME if before.get(name) == text else text for name, text in names.items()}
            state = json.dumps(said, ensure_ascii=False, separators=(",", ":"))
            lines.append(f"{_TOKEN[type(record)]}{state}{CODE}{texts.source(record.n)}{_given(texts, record)}")
    return "".join(f"{line}\n" for line in [*lines, END])


def _given(texts: MomentTexts, record: schema.Record) -> str:
    """The value that a frame gives, or the exception that it raises."""
    if isinstance(record, schema.Return | schema.Yield):
        return f"{VALUE}{texts.value(record.v)}"
    return f"{VALUE}{texts.raised(record)}" if isinstance(record, schema.Raise) else ""


def _hidden_records(trace: Trace, folding: Folding | None) -> Mapping[int, str]:
    """Records that are left out; the first of each gap with the words that stand in its place."""
    hidden: dict[int, str] = {}
    for gap in hidden_spans(trace.structure, folding):
        hidden.update(dict.fromkeys(range(gap.start, gap.last + 1), ""))
        hidden[gap.start] = gap.text
    return hidden


def short(trace: Trace) -> str:
    """A whole run in one line; nothing is folded.

    Calls stand in braces in the step that made them, `3:f(n=2){5:m=3}=3,x=3`; `!KeyError` says what was raised,
    `^4` what was yielded, `'text'` what was printed.
    """
    texts = MomentTexts(trace, ALL, _SHORT_CHARS)
    pieces: list[str] = []
    begun: set[int] = set()
    for moment in texts.moments():
        if isinstance(moment, Enter) and moment.activation.parent:
            pieces.append(f"{moment.activation.short_name}({texts.arguments(moment.activation)}){{")
        elif isinstance(moment, Begin):
            # The line's number comes before the calls that it makes, its effects after them.
            begun.add(moment.step.step)
            pieces.append(_opened(pieces, f" {moment.step.line}:"))
        elif isinstance(moment, Done):
            head = "" if moment.step.step in begun else f" {moment.step.line}:"
            pieces.append(_opened(pieces, head) + ",".join(_effects(texts, moment.step)))
        elif isinstance(moment, Skip):
            pieces.append(f" {moment.gap.text}")
        elif isinstance(moment, Leave) and moment.activation.parent:
            left = moment.activation.outcome == "return"
            pieces[-1] = pieces[-1].removesuffix(",")
            pieces.append(f"}}={texts.value(moment.activation.value)}," if left else "}!,")
    return "".join(pieces).strip().removesuffix(",")


def _opened(pieces: list[str], head: str) -> str:
    """Right after a brace there is no space."""
    return head.lstrip() if pieces and pieces[-1].endswith("{") else head


def _effects(texts: MomentTexts, step: Step) -> list[str]:
    said = [f"{name}={value}" if value is not None else f"del {name}" for name, value in texts.changes(step)]
    if output := texts.output(step):
        said.append(repr(output))
    said.extend(f"^{texts.value(getattr(texts.trace.records[t], 'v', None))}" for t in step.yields)
    if exception := texts.exception(step):
        said.append(f"!{exception}")
    return said


FORMS: Final[Mapping[str, Callable[[Trace], str]]] = {
    "annotated": annotated,
    "scratchpad": scratchpad,
    "dynamic": dynamic,
    "concise": concise,
    "frames": frames,
    "terminal": terminal,
}
"""Forms by the name that `groundbox trace --form` and datasets have for them."""
