"""A run told to a model in plain text, and the pictures that go with it.

Frameworks put their own words around it; what a guest printed is shown without sequences for terminals, characters
that are not seen, and links that something would follow. Only the project's own loop marks it as data, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from groundbox.agent.defusing import shown
from groundbox.execution import Display, Execution, Outcome

MOST_CHARACTERS: Final = 20_000
MOST_PICTURES: Final = 4


def told(execution: Execution, *, most_characters: int = MOST_CHARACTERS) -> str:
    """What a model has to know of a run. Each of its parts is cut in the middle where it is too long, and says so."""
    return "\n".join(cut(shown(part), most_characters) for part in _parts(execution)) or "(it ran and printed nothing)"


def pictures(execution: Execution) -> list[bytes]:
    """What the run showed, as PNG, no larger than models look at."""
    found = (display.preview or display.png for display in execution.displays)
    return [png for png in found if png is not None][:MOST_PICTURES]


def cut(text: str, most: int) -> str:
    """Head and tail of a text, and how much is missing between them."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[-half:]}"


def _parts(execution: Execution) -> Iterator[str]:
    if execution.stdout.strip():
        yield execution.stdout.rstrip("\n")
    if execution.stderr.strip():
        yield f"stderr:\n{execution.stderr.rstrip()}"
    if execution.text is not None:
        yield execution.text
    yield from _failure(execution)
    if execution.displays:
        yield "(shown: " + ", ".join(_name(display) for display in execution.displays) + ")"
    if execution.artifacts:
        files = (f"{path} ({file.about or f'{file.size_bytes} bytes'})" for path, file in execution.artifacts.items())
        yield f"(files made or changed: {', '.join(files)})"
    for warning in execution.warnings:
        yield f"Warning: {warning.message}. {warning.hint}".rstrip()
    if execution.state == "lost":
        yield "(all variables are gone; files are kept, and the next program begins anew)"


def _name(display: Display) -> str:
    if display.png or display.jpeg:
        return "a picture"
    return display.text or "something without a text form"


def _failure(execution: Execution) -> Iterator[str]:
    error = execution.error
    if error is None:
        return
    if error.traceback:
        yield error.traceback.rstrip()
    if not error.traceback or execution.outcome is not Outcome.ERROR:
        yield f"{error.type}: {error.message}"
    if error.locals:
        yield "On that line: " + ", ".join(f"{name} = {value}" for name, value in error.locals.items())
    for hint in error.hints:
        yield f"Hint: {hint}"
