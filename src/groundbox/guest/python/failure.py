"""What a program failed with, told for the model that wrote it.

An exception becomes the keys of `Failure`: type, message, line, traceback, locals, hints.
Telling it calls code of the program (`__str__`, `__repr__`, `dir`), which runs guarded
and on a clock: whatever that code does, a failure comes back.
"""

from __future__ import annotations

import itertools
import traceback
from collections.abc import Callable
from typing import Any, Final

from . import hints
from .failing_line import FailingLine
from .frames import Scene, Step, render, steps_of, user_step
from .peek import TooSlow, at_most, peek

MESSAGE_CHARS: Final = 4000
NAME_CHARS: Final = 200
TOLD_EXCEPTIONS: Final = 2
"""Of a chain of exceptions, so many are told: the last one and its nearest cause."""
TOLD_MEMBERS: Final = 5
LOCALS_S: Final = 0.25
HINTS_S: Final = 0.5

Failure = dict[str, Any]


def failure_of(exc: BaseException, scene: Scene) -> Failure:
    """The failure as JSON-able values. Raises nothing but KeyboardInterrupt."""
    failure = bare_failure(exc)
    parts: dict[str, Callable[[BaseException, Scene], Any]] = {
        "message": lambda exc, scene: message_of(exc),
        "line": _line,
        "traceback": _traceback,
        "locals": _locals,
        "hints": _hints,
    }
    for name, part in parts.items():
        try:
            failure[name] = part(exc, scene)
        except KeyboardInterrupt:
            raise
        except BaseException:
            continue  # the part keeps its empty form; the others still tell
    return failure


def message_of(exc: BaseException) -> str:
    """The exception's text, whatever its `__str__` does; cut with a count."""
    if isinstance(exc, SyntaxError) and isinstance(exc.msg, str):
        return str.__str__(exc.msg)
    try:
        with at_most(LOCALS_S):
            text = str.__str__(str(exc)).encode(errors="backslashreplace").decode()
    except KeyboardInterrupt:
        raise
    except BaseException as fault:
        return f"<its __str__ raised {type(fault).__name__}>"
    if len(text) > MESSAGE_CHARS:
        left_out = len(text) - MESSAGE_CHARS
        half = MESSAGE_CHARS // 2
        return f"{text[:half]}\n… {left_out} characters left out …\n{text[-half:]}"
    return text


def bare_failure(exc: BaseException) -> Failure:
    """The failure with its type alone, told without running anything of the program."""
    return {
        "type": _name(type(exc)),
        "message": "(its details could not be told)",
        "line": None,
        "traceback": "",
        "locals": {},
        "hints": [],
    }


def _line(exc: BaseException, scene: Scene) -> int | None:
    if isinstance(exc, SyntaxError) and exc.filename == scene.filename:
        return exc.lineno if type(exc.lineno) is int else None
    for step in reversed(steps_of(exc, scene)):
        if step.frame.f_code.co_filename == scene.filename:
            return step.lineno
    return None


def _traceback(exc: BaseException, scene: Scene) -> str:
    chain, dropped = _chain(exc)
    text = _one(exc, scene)
    for later, earlier in itertools.pairwise(chain):
        joint = "This caused:" if later.__cause__ is earlier else "While handling it, another happened:"
        text = f"{_one(earlier, scene)}\n\n{joint}\n\n{text}"
    if dropped:
        text = f"({dropped} earlier exception{'s' if dropped > 1 else ''} left out)\n\n{text}"
    return text


def _chain(exc: BaseException) -> tuple[list[BaseException], int]:
    """The exception, its nearest different cause, and how many more there are."""
    chain, seen, dropped = [exc], {id(exc)}, 0
    link = _cause(exc)
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        if _says_nothing_new(link, chain[-1]):
            pass
        elif len(chain) < TOLD_EXCEPTIONS:
            chain.append(link)
        else:
            dropped += 1
        link = _cause(link)
    return chain, dropped


def _cause(exc: BaseException) -> BaseException | None:
    if exc.__cause__ is not None:
        return exc.__cause__
    return None if exc.__suppress_context__ else exc.__context__


def _says_nothing_new(earlier: BaseException, later: BaseException) -> bool:
    """Whether `later` repeats the words of `earlier`, as libraries do that re-raise."""
    words = message_of(earlier)
    return words in message_of(later) if words else type(earlier) is type(later)


def _one(exc: BaseException, scene: Scene) -> str:
    steps = steps_of(exc, scene)
    head = f"Traceback (most recent call last):\n{render(steps)}" if steps else ""
    return head + _last_lines(exc, scene)


def _last_lines(exc: BaseException, scene: Scene) -> str:
    if isinstance(exc, SyntaxError):
        told = traceback.TracebackException(type(exc), exc, None)
        return "".join(told.format_exception_only()).rstrip("\n")
    message = message_of(exc)
    lines = [f"{_qualified(type(exc))}: {message}" if message else _qualified(type(exc))]
    notes = getattr(exc, "__notes__", None)
    if isinstance(notes, list):
        lines += [str.__str__(note)[:MESSAGE_CHARS] for note in notes if isinstance(note, str)]
    if isinstance(exc, BaseExceptionGroup):
        lines += _members(exc, scene)
    return "\n".join(lines)


def _members(group: BaseExceptionGroup[Any], scene: Scene) -> list[str]:
    lines = []
    for number, member in enumerate(group.exceptions[:TOLD_MEMBERS], start=1):
        told = "\n".join(f"    {line}" for line in _one(member, scene).splitlines())
        lines.append(f"  [{number}]\n{told}")
    if len(group.exceptions) > TOLD_MEMBERS:
        lines.append(f"  … {len(group.exceptions) - TOLD_MEMBERS} more exceptions")
    return lines


def _name(kind: type[BaseException]) -> str:
    """The class's own name, whatever its metaclass says, and not too much of it."""
    name: str = type.__dict__["__name__"].__get__(kind)
    return name if len(name) <= NAME_CHARS else f"{name[:NAME_CHARS]}…"


def _qualified(kind: type[BaseException]) -> str:
    builtin = kind.__module__ in ("builtins", "__main__")
    name = kind.__qualname__ if builtin else f"{kind.__module__}.{kind.__qualname__}"
    return name if len(name) <= NAME_CHARS else f"{name[:NAME_CHARS]}…"


def _locals(exc: BaseException, scene: Scene) -> dict[str, str]:
    """Values of the names on the failing line, as many as can be had in time."""
    step = user_step(steps_of(exc, scene))
    if step is None:
        return {}
    return _described(step)


def _described(step: Step) -> dict[str, str]:
    told: dict[str, str] = {}
    name = ""
    try:
        with at_most(LOCALS_S):
            for name, value in FailingLine(step).values():
                if not isinstance(value, type) and not callable(value):
                    told[name] = peek(value)
    except TooSlow:
        told[name] = f"<its repr took longer than {LOCALS_S} s>"
    return told


def _hints(exc: BaseException, scene: Scene) -> list[str]:
    try:
        with at_most(HINTS_S):
            return hints.hints_for(exc, scene)
    except TooSlow:
        return []
