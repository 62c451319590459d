"""Looks at what a run left: facts and previews of its artifacts and displays.

Headers of pictures are read on the host. All else is read by libraries that a hostile file may break, so that it
happens in a sandbox of its own, which the program never ran in: it holds the file and nothing else, and what it says
is bounded and checked like anything that a guest says.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
import functools
import importlib.resources
import json
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from groundbox.errors import GroundboxError, GuestFileError, SandboxLost
from groundbox.execution import Artifact, Artifacts, Display, Execution, Warning
from groundbox.limits import Limits, MiB
from groundbox.sandbox.inspection import kinds

if TYPE_CHECKING:
    from groundbox.sandbox.sandbox import AsyncSandbox

WINDOW_EDGE: Final = 1568
"""Pixels of the longer edge; above it the narrowest of the common interfaces to models scales a picture down."""
PREVIEW_EDGE: Final = 1024
MOST_FILES: Final = 16
MOST_BYTES: Final = 64 * MiB
_ONE_FILE_S: Final = 5.0
_ALL_FILES_S: Final = 10.0
_LIMITS: Final = Limits(wall_s=_ONE_FILE_S, cpu_s=_ALL_FILES_S, memory_bytes=1024 * MiB, disk_bytes=2 * MOST_BYTES)
_READ_AT_ONCE_BYTES: Final = 2 * MiB
_MOST_ANSWER: Final = 64 * 1024
_MOST_PREVIEW: Final = 4 * MiB
_PICTURES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_DISPLAYED: Final = ("image/png", "image/jpeg")
_READ_INSIDE: Final = frozenset(
    {
        "application/pdf",
        "application/json",
        "application/jsonl",
        kinds.PARQUET,
        kinds.XLSX,
        kinds.SQLITE,
        "image/tiff",
        "text/csv",
        "text/tab-separated-values",
    }
)
_CHECKED_NAMES: Final = frozenset({"application/pdf", kinds.PARQUET, kinds.XLSX, kinds.SQLITE, *_PICTURES})

Viewer = Callable[[Limits], "AsyncSandbox"]
"""Makes a sandbox of the same wall and environment as the program's own, with nothing of its own in it."""


class Seen(NamedTuple):
    """What was found out about one file."""

    facts: Mapping[str, Any]
    preview: bytes | None = None
    problem: str = ""


class _Task(NamedTuple):
    name: str
    media_type: str
    data: bytes


_NOTHING: Final = Seen({})


async def inspected(execution: Execution, viewer: Viewer) -> Execution:
    """The execution with facts and previews of its artifacts and displays, and a warning for each broken file.

    A fault of ours at that loses no result; it is told as a warning.
    """
    try:
        return await _inspected(execution, viewer)
    except Exception as error:
        fault = Warning(
            code="artifact.unseen",
            tier="note",
            message=f"what the files are could not be found out: {type(error).__name__}: {error}"[:500],
        )
        return dataclasses.replace(execution, warnings=[*execution.warnings, fault])


async def _inspected(execution: Execution, viewer: Viewer) -> Execution:
    """In a thread when there is much to read, so that other sandboxes do not wait."""
    if sum(artifact.size_bytes for artifact in execution.artifacts.values()) < _READ_AT_ONCE_BYTES:
        seen, tasks = _by_headers(execution.artifacts)
    else:
        seen, tasks = await asyncio.to_thread(_by_headers, execution.artifacts)
    shown = {
        _display_name(number): task
        for number, display in enumerate(execution.displays)
        if (task := _large_picture(display, _display_name(number))) is not None
    }
    found: dict[str, Seen] = {}
    if tasks or shown:
        found = await _look([*tasks, *list(shown.values())[:MOST_FILES]], viewer)
    for task in tasks:
        if task.name in found:
            seen[task.name] = _joined(seen[task.name], found[task.name])
    displays = [
        dataclasses.replace(display, preview=found[_display_name(number)].preview)
        if _display_name(number) in found and _display_name(number) in shown
        else display
        for number, display in enumerate(execution.displays)
    ]
    return dataclasses.replace(
        execution,
        artifacts=Artifacts([_with(artifact, seen[path]) for path, artifact in execution.artifacts.items()]),
        displays=displays,
        warnings=[*execution.warnings, *_warnings(execution.artifacts, seen)],
    )


def _display_name(number: int) -> str:
    """No path of an artifact begins so."""
    return f"/display-{number}"


def _by_headers(artifacts: Mapping[str, Artifact]) -> tuple[dict[str, Seen], list[_Task]]:
    """What the first bytes of each tell, and what has to be looked at inside."""
    tasks: list[_Task] = []
    return {path: _by_header(artifact, tasks) for path, artifact in artifacts.items()}, tasks


def _by_header(artifact: Artifact, tasks: list[_Task]) -> Seen:
    """What the first bytes tell; adds a task where that is not all."""
    wanted = artifact.media_type in _PICTURES or artifact.media_type in _READ_INSIDE
    named = kinds.kind_of(artifact.path, b"").named
    if not (wanted or named in _CHECKED_NAMES) or artifact.size_bytes > MOST_BYTES or len(tasks) == MOST_FILES:
        return _NOTHING
    try:
        data = artifact.read()
    except GroundboxError:
        return _NOTHING
    kind = kinds.kind_of(artifact.path, data[: kinds.HEAD_BYTES])
    if kind.named in _CHECKED_NAMES and (kind.media_type not in _PICTURES or kind.named not in _PICTURES):
        what = "it is empty" if not data else f"its content is {kind.media_type}"
        return Seen({}, problem=f"{what}, and its name says {kind.named}")
    if kind.media_type in _READ_INSIDE:
        tasks.append(_Task(artifact.path, kind.media_type, data))
        return _NOTHING
    if kind.media_type not in _PICTURES:
        return _NOTHING
    size = kinds.size_of(kind.media_type, data[: kinds.HEAD_BYTES])
    if size is None:
        return Seen({}, problem="it ends before its size is told")
    if max(size) > WINDOW_EDGE:
        tasks.append(_Task(artifact.path, kind.media_type, data))
    return Seen({"width": size.width, "height": size.height})


def _large_picture(display: Display, name: str) -> _Task | None:
    for media_type in _DISPLAYED:
        content = display.data.get(media_type)
        if isinstance(content, str):
            try:
                data = base64.b64decode(content)
            except ValueError:  # a guest may show what it likes
                return None
            size = kinds.size_of(media_type, data[: kinds.HEAD_BYTES])
            return _Task(name, media_type, data) if size is not None and max(size) > WINDOW_EDGE else None
    return None


async def _look(tasks: Sequence[_Task], viewer: Viewer) -> dict[str, Seen]:
    """Each file in its turn; one that breaks the sandbox costs a new one, and takes no other file with it."""
    found: dict[str, Seen] = {}
    until = time.monotonic() + _ALL_FILES_S
    source = _source()
    box: AsyncSandbox | None = None
    try:
        for task in tasks:
            if time.monotonic() > until:
                break
            box = box or viewer(_LIMITS)
            try:
                found[task.name] = await _look_at(task, box, source)
            except (SandboxLost, GuestFileError):
                await box.close()
                box = None
    finally:
        if box is not None:
            await box.close()
    return found


@functools.cache
def _source() -> str:
    return importlib.resources.files(__package__).joinpath("inside.py").read_text(encoding="utf-8")


async def _look_at(task: _Task, box: AsyncSandbox, source: str) -> Seen:
    name = "file" + _ending(task.name)
    await box.files.write(name, task.data)
    execution = await box.run(source, mode="script", argv=[name, task.media_type, str(PREVIEW_EDGE)])
    try:
        answer = json.loads(execution.stdout[:_MOST_ANSWER])
        facts, problem = dict(answer["facts"]), str(answer.get("problem", ""))[:300]
    except (ValueError, KeyError, TypeError, RecursionError):
        return _NOTHING
    finally:
        if execution.state == "kept":
            await box.files.remove(name)
    return Seen(MappingProxyType(facts), _checked_preview(execution), problem)


def _ending(name: str) -> str:
    ending = name[name.rfind(".") :] if "." in name else ""
    return ending if ending[1:].isascii() and ending[1:].isalnum() and len(ending) <= 10 else ""


def _checked_preview(execution: Execution) -> bytes | None:
    artifact = execution.artifacts.get("preview.png")
    if artifact is None or artifact.size_bytes > _MOST_PREVIEW:
        return None
    with contextlib.suppress(GroundboxError):
        data = artifact.read()
        size = kinds.size_of("image/png", data)
        if kinds.kind_of("", data).media_type == "image/png" and size is not None and max(size) <= PREVIEW_EDGE:
            return data
    return None


def _joined(header: Seen, inside: Seen) -> Seen:
    """What the header told stays as it is; the rest is the viewer's."""
    return Seen({**inside.facts, **header.facts}, inside.preview, inside.problem)


def _with(artifact: Artifact, seen: Seen) -> Artifact:
    if seen is _NOTHING:
        return artifact
    return dataclasses.replace(artifact, facts=dict(seen.facts), preview=seen.preview)


def _warnings(artifacts: Mapping[str, Artifact], seen: Mapping[str, Seen]) -> list[Warning]:
    return [
        Warning(
            code="artifact.broken",
            tier="warn",
            message=f"{path} cannot be read: {found.problem}",
            evidence={"path": path, "media_type": artifacts[path].media_type},
            hint="Close the file before the run ends, or look at how it was written.",
        )
        for path, found in seen.items()
        if found.problem
    ]
