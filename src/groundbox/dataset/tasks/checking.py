"""Judges an answer: the last `Answer:` line of a reply against what a task's check says.

Every check is data, so that it travels with its row, and a trainer can use it as a reward.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from groundbox.dataset import signature
from groundbox.dataset.problem import Case, Problem
from groundbox.dataset.program_runner import Request, Runner
from groundbox.values import literals
from groundbox.values.equal import equal_as_json, identical
from groundbox.values.literals import NotALiteral
from groundbox.values.parsing import expression_of
from groundbox.values.plain_answer import plain_answer

MARK: Final = "Answer:"


ANSWER_LINE: Final = re.compile(
    r"^[^\S\n]*(?:[>#-]+[^\S\n]*)*[*_]*(?:final[^\S\n]+)?answer[*_]*[^\S\n]*:", re.MULTILINE | re.IGNORECASE
)
"""The beginning of a line with an answer: `MARK`, however it is marked in Markdown."""
_FENCED: Final = re.compile(r"\A(`{3,}|~{3,})[\w+-]*[^\S\n]*\n(.*?)\n?[^\S\n]*\1", re.DOTALL)
_OPENED: Final = re.compile(r"([*_]*)\w[\w \t]*\Z")
"""The marks before the word."""
_SPECIAL: Final = re.compile(r"(?:\s*(?:<\|\w{1,30}\|>|</s>|<eos>))+\s*\Z")
"""Tokens that end a reply, where a server does not take them off."""
_GROUPED: Final = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_NAMED: Final = re.compile(r"[A-Za-z_]\w{0,40}(?:\([^\n]{0,1000}\))?\s*(?:==?|->|→)\s*(?=\S)")
"""What a model repeats of the question: `x = 5`, `f([1]) == 3`."""
_AROUND: Final = ("**", "*", "``", "`")
"""Marks that Markdown puts around a word."""


class Parts(NamedTuple):
    """A reply: what leads to the answer, and the answer."""

    reasoning: str
    answer: str


def parts(reply: str) -> Parts:
    """A reply cut at the last line that begins with `Answer:`, or, if none does, at the last `Answer:` in it.

    An answer may hold the same word; it is a text in quotation marks then, and no line begins with it.
    """
    lines = list(ANSWER_LINE.finditer(reply))
    if lines:
        begin, at = lines[-1].span()
        head = lines[-1][0].rstrip(": \t")
        opened = "" if head.endswith(("*", "_")) else _OPENED.search(head)[1]  # type: ignore[index]
        return Parts(reply[:begin].strip(), _bare(reply[at:].strip(), opened=opened))
    begin = reply.rfind(MARK)
    if begin < 0:
        return Parts(reply.strip(), "")
    reasoning = reply[:begin].rstrip("*_")
    opened = reply[len(reasoning) : begin]
    return Parts(reasoning.strip(), _bare(reply[begin + len(MARK) :].strip(), opened=opened))


def answer_of(reply: str) -> str:
    """What stands after the last `Answer:`, without Markdown's marks, or ""."""
    return parts(reply).answer


def _bare(text: str, opened: str) -> str:
    text = _SPECIAL.sub("", text)
    if opened and text.startswith(opened):
        text = text.removeprefix(opened).strip()
    elif opened:
        text = text.removesuffix(opened).strip()
    if fenced := _FENCED.match(text):
        return fenced[2].strip("\n")
    if text.endswith(".") and text[-2:-1] in ("`", "*"):
        text = text[:-1]
    for mark in _AROUND:
        inner = text[len(mark) : -len(mark)]
        if text == f"{mark}{inner}{mark}" and inner and mark not in inner:
            text = inner.strip()
    return text


def right(check: Mapping[str, Any], answer: str) -> bool:
    """Whether an answer is right, for all checks but `call`."""
    kind, wanted = check["kind"], check["value"]
    if kind == "text":
        return _words(answer) == _words(wanted)
    return any(_is_right(kind, wanted, each) for each in _forms(answer))


def _forms(answer: str) -> Iterator[str]:
    """An answer as it is written, then without what a model adds: a full stop, LaTeX, and prose behind the answer."""
    yield answer
    if answer.endswith("."):
        yield answer[:-1]
    if _GROUPED.fullmatch(answer.rstrip(".")):
        yield answer.rstrip(".").replace(",", "")
    if named := _NAMED.match(answer):
        yield answer[named.end() :]
    if _is_expression(answer):
        return  # a text in quotation marks is as it is written
    yield plain_answer(answer)
    yield plain_answer(answer.removesuffix("."))
    if (first := _first_part(answer)) is not None:
        yield first
        if not _is_expression(first):
            yield plain_answer(first)


def _first_part(answer: str) -> str | None:
    """The first paragraph or line of an answer that is an expression where the whole is not; None without one."""
    if _is_expression(answer):
        return None
    for end in ("\n\n", "\n"):
        first, found, _ = answer.partition(end)
        first = _bare(first.strip(), opened="")
        if found and _is_expression(plain_answer(first)):
            return first
    return None


def _is_expression(text: str) -> bool:
    try:
        expression_of(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _is_right(kind: str, wanted: str, answer: str) -> bool:
    try:
        true = literals.parse(wanted)
    except NotALiteral:
        return False
    printed: str | None = true.strip("\n") if _is_output(true) else None
    if kind == "value" and printed is not None and answer.strip("\n") == printed:
        return True  # as it was printed, without quotation marks
    try:
        given = literals.parse(answer)
    except NotALiteral:
        return False
    if kind == "lines":
        return isinstance(given, list | tuple | set) and set(map(str, given)) == set(map(str, true))
    if kind == "value" and printed is not None and isinstance(given, str):
        return given.strip("\n") == printed
    if kind == "value":
        return identical(given, true) or _close_floats(given, true)
    raise ValueError(f"{kind} is no check that can be made without running the program")


async def right_by_running(
    check: Mapping[str, Any], answer: str, *, problem: Problem, runner: Runner, cpu_s: float
) -> bool:
    """Whether an answer is right, for all checks. A `call` is run in a sandbox and has to give the wanted value."""
    if check["kind"] != "call":
        return right(check, answer)
    case = case_of(answer, problem)
    if case is None or signature.misfit(problem, case):
        return False
    request = Request(source=problem.source, entry=problem.entry, case=case, hash_seed=0, traced=False, cpu_s=cpu_s)
    ran = await runner.run(request)
    return ran.outcome == "ok" and right({"kind": "value", "value": check["value"]}, ran.answer.text)


def holds(check: Mapping[str, Any], answer: str, *, problem: Problem, case: Case) -> bool:
    """Whether a check takes the answer that was made with it.

    Args:
        case: What the trace was made with; a `call` that says the same was run already.
    """
    if check["kind"] != "call":
        return right(check, answer)
    told = case_of(answer, problem)
    return told is not None and told.key() == case.key()


def case_of(answer: str, problem: Problem) -> Case | None:
    """The input that a call tells, or None if it is none of the problem's entry with literals."""
    try:
        call = expression_of(answer if (first := _first_part(answer)) is None else first)
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == problem.entry):
            return None
        kwargs: dict[str, Any] = {}
        for keyword in call.keywords:
            value = literals.read(keyword.value)
            kwargs |= value if keyword.arg is None else {keyword.arg: value}
        return Case(number=0, args=tuple(map(literals.read, call.args)), kwargs=kwargs)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return None


def _is_output(true: Any) -> bool:
    """Return whether a value is a text of whole lines, as programs print it. Their last line break is not asked for."""
    return isinstance(true, str) and true.endswith("\n")


def _close_floats(given: Any, true: Any) -> bool:
    return isinstance(true, float) and isinstance(given, float | int) and equal_as_json(given, true)


def _words(text: str) -> str:
    return " ".join(text.split()).rstrip(".")
