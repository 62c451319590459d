"""The last sentence: what the run gave."""

from __future__ import annotations

from groundbox.trace.narrate.narration import Claim, ClaimKind, Sentence
from groundbox.trace.narrate.phrases import saying
from groundbox.trace.narrate.telling import claim
from groundbox.trace.record import schema
from groundbox.trace.record.reading import Trace
from groundbox.trace.run.structure import Activation

MAX_ANSWER = 100_000
"""Characters: answers are shown whole, as far as the trace has them."""


def answer_of(trace: Trace) -> Sentence:
    """`So main_solution returns [1, 2].`, or what it raised, or what the script printed."""
    entry = trace.header.entry
    if entry is None:
        return _printed(trace)
    root, module = trace.structure.root(entry.call), trace.structure.root("<module>")
    if root is None and module is not None and module.outcome == "unwind":
        return _raised(trace, module, "the program")
    # The program may have bound the name to something of the library, as by `main = sorted`.
    if root is None and module is not None and entry.call in trace.state_at(module.last).names(module.frame):
        told = claim(ClaimKind.ANSWER, [module.last], module.frame, entry.call, "")
        text = f"The record holds nothing of {entry.call}, which is no code of the program."
        if trace.structure.syntax.has_code(entry.call):
            # Its arguments were none that it takes, or it is a generator that nobody has asked for anything.
            text = f"The record holds no call of {entry.call}."
        return whole(text, told)
    if root is None or root.outcome == "open":
        return _unfinished(trace, entry.call)
    state = trace.state_at(root.last)
    if root.outcome == "return":
        value = state.text(root.value, MAX_ANSWER)
        told = claim(ClaimKind.ANSWER, [root.last], root.frame, entry.call, value)
        return whole(f"So {entry.call} returns {value}.", told)
    return _raised(trace, root, entry.call)


def _raised(trace: Trace, root: Activation, who: str) -> Sentence:
    state = trace.state_at(root.last)
    raised = (
        (ref, record)
        for ref, record in enumerate(trace.records)
        if isinstance(record, schema.Raise) and record.f == root.frame
    )
    # The last one that came up in it: it was on its way out.
    ref, record = max(raised, default=(root.last, None), key=lambda each: each[0])
    if record is None:  # a trace is its program's claim, and may leave that out
        told = claim(ClaimKind.ANSWER, [ref], root.frame, who, "")
        return whole(f"So {who} ends with an exception of which the record holds nothing.", told)
    value = f"{record.type}({', '.join(state.text(argument, MAX_ANSWER) for argument in record.args)})"
    return whole(f"So {who} raises {value}.", claim(ClaimKind.ANSWER, [ref], root.frame, who, value))


def _unfinished(trace: Trace, call: str) -> Sentence:
    last = len(trace.records) - 1
    told = claim(ClaimKind.ANSWER, [last] if last >= 0 else [], 0, call, "")
    return whole(f"The record ends before {call} returns.", told)


def _printed(trace: Trace) -> Sentence:
    module = trace.structure.root("<module>")
    if module is None or module.outcome == "open":
        return _unfinished(trace, "the program")
    if module.outcome == "unwind":
        return _raised(trace, module, "the program")
    refs = [ref for ref, record in enumerate(trace.records) if isinstance(record, schema.Out) and record.s == 1]
    records = [trace.records[ref] for ref in refs]
    text = "".join(record.text for record in records if isinstance(record, schema.Out))
    if not refs:
        told = claim(ClaimKind.ANSWER, [module.last], module.frame, "", "")
        return whole("So the program ends without printing anything.", told)
    if any(isinstance(record, schema.Out) and record.elided for record in records):
        told = claim(ClaimKind.ANSWER, [module.last], module.frame, "", "…")
        return whole("So the program ends, and its output is too long to be shown.", told)
    return whole(f"So the program prints {text!r}.", claim(ClaimKind.ANSWER, refs, 0, "", repr(text)))


def whole(text: str, *claims: Claim) -> Sentence:
    """A sentence that makes claims with all of its words."""
    return Sentence(text=text, said=saying(text, *claims))
