"""An execution in words, for people. Pure functions; what they return still holds the guest's own text."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from typing import Any

from groundbox.cli.results import Written, files_of
from groundbox.cli.terminal import bytes_text, one_line, seconds_text
from groundbox.execution import Artifact, Execution, Failure


def failure_lines(error: Failure, *, shown: bool) -> Iterator[str]:
    """What failed and how to mend it.

    Args:
        shown: Whether the traceback has been seen already, as a script's own stderr.
    """
    if not (shown and error.traceback):
        yield error.traceback or f"{error.type}: {error.message}"
        if error.traceback and error.type not in error.traceback:
            yield f"{error.type}: {error.message}"
    if error.locals:
        yield "where"
        for name, value in error.locals.items():
            yield f"    {one_line(name)} = {value}"
    for hint in error.hints:
        yield f"hint: {hint}"


def display_lines(execution: Execution, written: Written | None) -> Iterator[str]:
    """Each display: its text form, its other forms with their sizes, and the files that hold them now."""
    for number, display in enumerate(execution.displays, 1):
        text = display.text
        words = ", ".join(display.data) if text is None else text
        yield _indented(f"display {number}: ", words) + _forms(display.data)
        if written and written.displays[number - 1]:
            yield f"    in {', '.join(written.displays[number - 1])}"
    if written and written.value:
        yield f"value in {', '.join(written.value)}"


def artifact_lines(execution: Execution, written: Written | None) -> Iterator[str]:
    """The files that the run made or changed, as a table."""
    artifacts = list(execution.artifacts.values())
    if not artifacts:
        return
    yield "files"
    width = min(60, max(len(a.path) for a in artifacts))
    for artifact in artifacts:
        yield _row(artifact, width) + _problem(artifact.path, written)


def lines(execution: Execution, *, mode: str, written: Written | None = None) -> Iterator[str]:
    """All that is told besides the output, the value and the summary."""
    if execution.error is not None:
        yield from failure_lines(execution.error, shown=mode == "script")
    yield from display_lines(execution, written)
    yield from artifact_lines(execution, written)
    yield from notes(execution)


def summary(execution: Execution) -> str:
    """Return outcome, time, memory and start on one line, and whether the guest alone told the outcome."""
    usage = execution.usage
    parts = [seconds_text(usage.wall_s)]
    if usage.cpu_s is not None:
        parts.append(f"cpu {seconds_text(usage.cpu_s)}")
    if usage.peak_memory_bytes is not None:
        parts.append(f"memory {bytes_text(usage.peak_memory_bytes)}")
    if usage.start_s:
        parts.append(f"{'warm' if usage.warm else 'cold'} start {seconds_text(usage.start_s)}")
    if execution.trust == "guest":
        parts.append("trust guest")
    return f"groundbox: {_end(execution)}, " + ", ".join(parts)


def notes(execution: Execution) -> Iterator[str]:
    """What is missing from the result, and which layers of the wall did not stand."""
    for what in ("displays", "artifacts"):
        count = execution.dropped_bytes.get(what, 0)
        if count:
            yield f"groundbox: {count} {what} left out"
    for warning in execution.warnings:
        yield f"{warning.tier}: {one_line(warning.message)}" + (
            f"\n    {one_line(warning.hint)}" if warning.hint else ""
        )
    if execution.isolation.missing:
        yield f"groundbox: run without {', '.join(execution.isolation.missing)}"
    if execution.isolation.backend == "bare":
        yield "groundbox: run without any wall (backend bare)"


def _end(execution: Execution) -> str:
    outcome = execution.outcome.value
    if execution.exit_signal is not None:
        try:
            return f"{outcome} ({signal.Signals(execution.exit_signal).name})"
        except ValueError:
            return f"{outcome} (signal {execution.exit_signal})"
    if not execution.ok and execution.exit_code is not None and execution.exit_code != 1:
        return f"{outcome} (exit code {execution.exit_code})"
    return outcome


def _forms(bundle: Mapping[str, Any]) -> str:
    forms = [f"{ending}, {bytes_text(len(data))}" for ending, data in files_of(bundle, rich_only=True)]
    return f"  ({'; '.join(forms)})" if forms else ""


def _row(artifact: Artifact, width: int) -> str:
    size = bytes_text(artifact.size_bytes)
    about = f", {one_line(artifact.about)}" if artifact.about else ""
    return f"    {one_line(artifact.path):<{width}}  {size:>8}  {one_line(artifact.media_type)}{about}"


def _problem(path: str, written: Written | None) -> str:
    return f"  NOT WRITTEN: {one_line(written.problems[path])}" if written and path in written.problems else ""


def _indented(head: str, text: str) -> str:
    first, *rest = text.split("\n")
    return "\n".join([head + first, *("    " + line for line in rest)])
