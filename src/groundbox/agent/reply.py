"""What a model's reply asks for, as steps: run, read, answer, or something that cannot be done, with the reason.

Models without tool calls write programs in fenced blocks. A block in a language that runs here and that was not run
before is a program, wherever it stands in the prose; one that was run already is a quotation. A text with a line
that begins with `Answer:` is an answer whatever it quotes.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from groundbox.agent.defusing import one_line
from groundbox.agent.messages import KEEP, READ, RUN, TRY, Call, Reply
from groundbox.check.contracts import Contract
from groundbox.endpoint.programs import Block, blocks_of, is_program
from groundbox.errors import InvalidArgument
from groundbox.sandbox.languages import named as named_here

MOST_CALLS: Final = 16
MOST_BRANCHES: Final = 8
"""Programs that may be tried side by side."""
_DIALECTS: Final = {"duckdb": "sql", "sqlite": "sql"}
_ANSWER: Final = re.compile(r"^[ \t>*_#]*(?:final )?answer[*_]*[ ]*:[*_]*[ \t]*", re.IGNORECASE | re.MULTILINE)
_PROMISE: Final = re.compile(
    r"\b(?:let me(?! know)|let's|let us|i'll|i’ll|i will|i am going to|i'm going to|i need to|we need to|"
    r"next step is to)\b",
    re.IGNORECASE,
)
_COMMENTS: Final = {"python": "#", "shell": "#", "sql": "--", "javascript": "//"}


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """Run this program; `options` are of its language, such as `database`, and `expect` is what its value has to be."""

    source: str
    language: str = "python"
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    expect: Contract | None = None
    call_id: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Try:
    """Run these programs side by side, each on a copy of the state."""

    programs: Sequence[Run]
    call_id: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Keep:
    """Go on from the state that this run left on its copy."""

    run: int
    call_id: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Read:
    """Show lines of an output, or those with a pattern."""

    handle: str
    lines: str = ""
    pattern: str = ""
    call_id: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """The model is done; `marked` when it says so by `Answer:`."""

    text: str
    marked: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Malformed:
    """Nothing can be done with it. `problem` is for the model, and says how to mend it."""

    problem: str
    call_id: str = ""


Step = Run | Try | Keep | Read | Answer | Malformed


def steps_of(
    reply: Reply,
    languages: Collection[str],
    *,
    was_run: Callable[[str, str], bool] = lambda source, language: False,
    branches: int = 1,
) -> list[Step]:
    """What a reply asks for, in order; never empty.

    Args:
        was_run: Whether a program of a language was run before.
        branches: How many programs may be tried side by side; with 1 there is no such tool.
    """
    if reply.calls:
        return [
            _of_call(call, languages, branches) if number <= MOST_CALLS else _too_many(call)
            for number, call in enumerate(reply.calls, 1)
        ]
    return _of_text(reply.text, languages, was_run)


def promises(text: str) -> bool:
    """Whether a text says what will be done, where one that says what was found is wanted."""
    ending = text.strip()[-300:]
    last = re.split(r"(?<=[.!?])\s+", ending)[-1]
    return ending.endswith(":") or bool(_PROMISE.search(last))


def named(language: str) -> str:
    """A language by the name that it has here."""
    spoken = language.strip().lower()
    return _DIALECTS.get(spoken, named_here(spoken))


def _of_text(text: str, languages: Collection[str], was_run: Callable[[str, str], bool]) -> list[Step]:
    if not text.strip():
        return [Malformed(problem=f"The reply is empty. Call {RUN} with a program, or write the answer.")]
    fenced = list(blocks_of(text))
    if answer := _ANSWER.search(_blanked(text, fenced)):
        said = text[answer.end() :].strip()
        return [
            Answer(text=said, marked=True) if said else Malformed(problem="Nothing follows `Answer:`. Write it there.")
        ]
    blocks = list(_programs(fenced, languages))
    new = [block for block in blocks if not was_run(block.source, block.language)]
    return list(new) if new else [Answer(text=text.strip())]


def _blanked(text: str, blocks: Sequence[Block]) -> str:
    """The text with blanks for its blocks, so that places in it stay what they are."""
    parts, place = [], 0
    for block in blocks:
        parts += [text[place : block.begin], " " * (block.end - block.begin)]
        place = block.end
    return "".join([*parts, text[place:]])


def _programs(blocks: Sequence[Block], languages: Collection[str]) -> Iterator[Run]:
    for block in blocks:
        language = named(block.language) if block.language else "python"
        if language not in languages or is_empty(block.text, language):
            continue
        if block.language or is_program(block.text):
            yield Run(source=block.text, language=language)


def _of_call(call: Call, languages: Collection[str], branches: int) -> Step:
    arguments = _arguments(call)
    if isinstance(arguments, Malformed):
        return arguments
    if call.name == RUN:
        return _run(arguments, languages, call.call_id)
    if call.name == READ:
        return _read(arguments, call.call_id)
    if call.name == TRY and branches > 1:
        return _try(arguments, languages, branches, call.call_id)
    if call.name == KEEP and branches > 1:
        return _keep(arguments, call.call_id)
    known = f"{RUN}, {TRY}, {KEEP} and {READ}" if branches > 1 else f"{RUN} and {READ}"
    return Malformed(
        problem=f"There is no tool of the name that was called. The tools are {known}.", call_id=call.call_id
    )


def _too_many(call: Call) -> Malformed:
    return Malformed(problem=f"Not done: one reply may hold {MOST_CALLS} calls.", call_id=call.call_id)


def _arguments(call: Call) -> Mapping[str, Any] | Malformed:
    arguments: Any = call.arguments
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except (ValueError, RecursionError) as error:
            where = f" at character {error.pos}" if isinstance(error, json.JSONDecodeError) else ""
            problem = f"The arguments of the call are not JSON{where}. Send one object, with newlines in texts as \\n."
            return Malformed(problem=problem, call_id=call.call_id)
    if not isinstance(arguments, Mapping):
        return Malformed(problem="The arguments of the call are no JSON object.", call_id=call.call_id)
    return arguments


def _run(arguments: Mapping[str, Any], languages: Collection[str], call_id: str) -> Step:
    source = arguments.get("code")
    language = arguments.get("language", "python")
    known = ", ".join(sorted(languages))
    if not isinstance(source, str):
        return Malformed(problem=f"{RUN} needs `code`, a text: the program itself.", call_id=call_id)
    if not isinstance(language, str) or named(language) not in languages:
        return Malformed(problem=f"There is no such language here. The languages are {known}.", call_id=call_id)
    database = arguments.get("database")
    if database is not None and not isinstance(database, str):
        return Malformed(problem="`database` is the name of a database, a text.", call_id=call_id)
    spoken = named(language)
    source = _unwrapped(source)
    if is_empty(source, spoken):
        return Malformed(problem="`code` holds no statement. Send the program itself.", call_id=call_id)
    try:
        expect = None if arguments.get("expect") is None else Contract.of(arguments["expect"])
    except InvalidArgument as error:
        return Malformed(problem=one_line(str(error)), call_id=call_id)
    options = {"database": database} if database else {}
    return Run(source=source, language=spoken, options=options, expect=expect, call_id=call_id)


def _try(arguments: Mapping[str, Any], languages: Collection[str], branches: int, call_id: str) -> Step:
    programs = arguments.get("programs")
    if not isinstance(programs, list) or not 2 <= len(programs) <= branches:
        problem = f"{TRY} needs `programs`, a list of 2 to {branches} texts: the programs themselves."
        return Malformed(problem=problem, call_id=call_id)
    shared = {name: value for name, value in arguments.items() if name != "programs"}
    steps: list[Run] = []
    for number, source in enumerate(programs, 1):
        step = _run({**shared, "code": source}, languages, call_id)
        if not isinstance(step, Run):
            assert isinstance(step, Malformed)
            return dataclasses.replace(step, problem=f"Program {number} of {len(programs)}: {step.problem}")
        steps.append(step)
    return Try(programs=steps, call_id=call_id)


def _keep(arguments: Mapping[str, Any], call_id: str) -> Step:
    run = arguments.get("run")
    if isinstance(run, bool) or not isinstance(run, int):
        return Malformed(problem=f"{KEEP} needs `run`, the number of a run that was tried.", call_id=call_id)
    return Keep(run=run, call_id=call_id)


def _read(arguments: Mapping[str, Any], call_id: str) -> Step:
    given = {name: arguments.get(name, "") for name in ("handle", "lines", "pattern")}
    if not given["handle"] or not all(isinstance(value, str) for value in given.values()):
        problem = f'{READ} needs `handle`, such as "1.stdout", and takes `lines`, such as "100-160", or `pattern`.'
        return Malformed(problem=problem, call_id=call_id)
    return Read(**given, call_id=call_id)


def _unwrapped(source: str) -> str:
    """A program that was put into a fence though it is an argument."""
    bare = source.strip()
    first = next(blocks_of(bare), None)
    return first.text if first is not None and (first.begin, first.end) == (0, len(bare)) else source


def is_empty(source: str, language: str) -> bool:
    """Whether a program has nothing but blanks and comments."""
    comment = _COMMENTS.get(language)
    lines = (line.strip() for line in source.splitlines())
    return not any(line and not (comment and line.startswith(comment)) for line in lines)
