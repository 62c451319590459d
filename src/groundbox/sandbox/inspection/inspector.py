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
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from groundbox.errors import GroundboxError, GuestFileError, SandboxLost
from groundbox.execution import Artifact, Artifacts, Display, Execution, Usage, Warning
from groundbox.limits import Limits, MiB
from groundbox.sandbox.inspection import kinds
from groundbox.sandbox.inspection.answer import DECODER

if TYPE_CHECKING:
    from groundbox.sandbox.sandbox import AsyncSandbox

WINDOW_EDGE: Final = 1568
"""Pixels of the longer edge; above it the narrowest of the common interfaces to models scales a picture down."""
PREVIEW_EDGE: Final = 1024
MOST_FILES: Final = 16
MOST_BYTES: Final = 32 * MiB
_ONE_FILE_S: Final = 5.0
_ALL_FILES_S: Final = 10.0
_LIMITS: Final = Limits(
    wall_s=_ONE_FILE_S,
    cpu_s=_ALL_FILES_S,
    output_bytes=64 * 1024,
    memory_bytes=1024 * MiB,
    disk_bytes=2 * MOST_BYTES,
)
_MOST_PREVIEW: Final = 4 * MiB
_PICTURES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_DISPLAYED: Final = ("image/png", "image/jpeg")
_READ_INSIDE: Final = frozenset(
    {
        "application/pdf",
        "application/json",
        "application/jsonl",
        kinds.PARQUET,
        kinds.SQLITE,
        *kinds.DOCUMENTS,
        "image/tiff",
        "text/csv",
        "text/tab-separated-values",
    }
)
_CHECKED_NAMES: Final = frozenset({"application/pdf", kinds.PARQUET, kinds.SQLITE, *kinds.DOCUMENTS, *_PICTURES})

Viewer = Callable[[Limits], "AsyncSandbox"]
"""Makes a sandbox of the same wall and environment as the program's own, with nothing of its own in it."""


class Seen(NamedTuple):
    """What was found out about one file."""

    facts: Mapping[str, Any]
    preview: bytes | None = None
    problem: str = ""


class _Task(NamedTuple):
    """A file to look at. Its bytes are read when its turn comes, so that only one is in memory."""

    name: str
    media_type: str
    read: Callable[[], bytes]


_NOTHING: Final = Seen({})


async def inspected(execution: Execution, viewer: Viewer, limits: Limits) -> Execution:
    """The execution with facts and previews of its artifacts and displays, and a warning for each broken file.

    Looking takes no more time than the run has left of `limits`, and no more of anything else than a run may take.

    A fault of ours at that loses no result; it is told as a warning.
    """
    try:
        return await _inspected(execution, viewer, limits)
    except Exception as error:
        fault = Warning(
            code="artifact.unseen",
            tier="note",
            message=f"what the files are could not be found out: {type(error).__name__}: {error}"[:500],
        )
        return dataclasses.replace(execution, warnings=(*execution.warnings, fault))


async def _inspected(execution: Execution, viewer: Viewer, limits: Limits) -> Execution:
    files = [task for artifact in execution.artifacts.values() if (task := _task(artifact)) is not None]
    shown = {number: task for number, one in enumerate(execution.displays) if (task := _large_picture(one))}
    tasks, numbers = files[:MOST_FILES], list(shown)[:MOST_FILES]
    found = await _look([*tasks, *(shown[number] for number in numbers)], viewer, *_within(limits, execution.usage))
    by_path = {task.name: seen for task, seen in zip(tasks, found, strict=False)}
    by_number = dict(zip(numbers, found[len(tasks) :], strict=False))
    seen = {path: by_path.get(path) or Seen({}, None, _misnamed(one)) for path, one in execution.artifacts.items()}
    return dataclasses.replace(
        execution,
        artifacts=Artifacts([_with(artifact, seen[path]) for path, artifact in execution.artifacts.items()]),
        displays=[
            dataclasses.replace(display, preview=by_number[number].preview) if number in by_number else display
            for number, display in enumerate(execution.displays)
        ],
        warnings=(
            *execution.warnings,
            *_warnings(execution.artifacts, seen),
            *_left_out(len(files) + len(shown) - len(found)),
        ),
    )


def _left_out(count: int) -> list[Warning]:
    if not count:
        return []
    what = "1 file or picture was" if count == 1 else f"{count} files or pictures were"
    return [
        Warning(
            code="artifact.unseen",
            tier="note",
            message=f"{what} not looked at: there were too many of them, or they took too long",
            evidence={"count": count},
        )
    ]


def _task(artifact: Artifact) -> _Task | None:
    """What there is to be found out inside of a file."""
    large = max(artifact.facts.get("width", 0), artifact.facts.get("height", 0)) > WINDOW_EDGE
    if artifact.size_bytes > MOST_BYTES or _misnamed(artifact):
        return None
    if artifact.media_type in _READ_INSIDE or (artifact.media_type in _PICTURES and large):
        return _Task(artifact.path, artifact.media_type, artifact.read)
    return None


def _misnamed(artifact: Artifact) -> str:
    """What is wrong with a file by its first bytes, which say its media type."""
    named = kinds.kind_of(artifact.path, b"").named
    is_picture = artifact.media_type in _PICTURES
    if named in _CHECKED_NAMES and artifact.media_type != named and not (is_picture and named in _PICTURES):
        what = f"its content is {artifact.media_type}" if artifact.size_bytes else "it is empty"
        return f"{what}, and its name says {named}"
    return "it ends before its size is told" if is_picture and "width" not in artifact.facts else ""


def _large_picture(display: Display) -> _Task | None:
    for media_type in _DISPLAYED:
        content = display.data.get(media_type)
        if isinstance(content, str):
            try:
                size = kinds.size_of(media_type, base64.b64decode(content[: kinds.HEAD_BYTES]))
            except ValueError:  # a guest may show what it likes
                return None
            if size is None or max(size) <= WINDOW_EDGE:
                return None
            return _Task("", media_type, functools.partial(base64.b64decode, content))
    return None


def _within(limits: Limits, usage: Usage) -> tuple[Limits, float]:
    """Return the limits of looking at one file, and the seconds for all of them."""
    wall_s = min(_ALL_FILES_S, math.inf if limits.wall_s is None else limits.wall_s - usage.wall_s)
    cpu_s = min(_ALL_FILES_S, math.inf if limits.cpu_s is None else limits.cpu_s - (usage.cpu_s or 0.0))
    most_s = max(0.0, min(wall_s, cpu_s))
    least: dict[str, int | None] = {}
    for name in ("memory_bytes", "disk_bytes", "process_count", "file_count"):
        given = [each for each in (getattr(_LIMITS, name), getattr(limits, name)) if each is not None]
        least[name] = min(given, default=None)
    one_s = min(_ONE_FILE_S, most_s) or _ONE_FILE_S
    within = dataclasses.replace(_LIMITS, wall_s=one_s, cpu_s=most_s or _ALL_FILES_S, **least)
    return within, most_s


async def _look(tasks: Sequence[_Task], viewer: Viewer, limits: Limits, most_s: float) -> list[Seen]:
    """Each file in its turn; one that breaks the sandbox costs a new one, and takes no other file with it.

    Args:
        limits: Of the sandbox that looks.
        most_s: For all files; 0 for none.

    Returns:
        As many as there are tasks, or fewer when the time is over.
    """
    found: list[Seen] = []
    box: AsyncSandbox | None = None
    if not most_s:
        return found
    try:
        async with asyncio.timeout(most_s):
            for task in tasks:
                box = box or viewer(limits)
                kept, seen = await _look_at(task, box)
                found.append(seen)
                if not kept:
                    await box.close()
                    box = None
    except TimeoutError:
        pass
    finally:
        if box is not None:
            await box.close()
    return found


@functools.cache
def _source(media_type: str) -> str:
    script = "packages.py" if media_type in kinds.DOCUMENTS else "inside.py"
    return importlib.resources.files(__package__).joinpath(script).read_text(encoding="utf-8")


async def _look_at(task: _Task, box: AsyncSandbox) -> tuple[bool, Seen]:
    """Whether the sandbox can be used again, and what was seen."""
    name = "file" + _ending(task.name)
    try:
        await box.files.write(name, await asyncio.to_thread(task.read))
        execution = await box.run(
            _source(task.media_type), mode="script", argv=[name, task.media_type, str(PREVIEW_EDGE)]
        )
        if execution.state == "kept":
            await box.files.remove(name)
    except (SandboxLost, GuestFileError, ValueError):
        return False, _NOTHING
    return execution.state == "kept", _seen(execution)


def _seen(execution: Execution) -> Seen:
    """What the reader said, as far as it keeps to what a reader can say."""
    try:
        answer = DECODER.decode(execution.stdout.encode())
        facts = msgspec.to_builtins(answer.facts)
        msgspec.json.encode([facts, answer.problem])  # refuses half characters
    except (ValueError, RecursionError):
        return _NOTHING
    return Seen(facts, _checked_preview(execution), answer.problem[:300])


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


def _with(artifact: Artifact, seen: Seen) -> Artifact:
    """What the header told stays as it is."""
    return dataclasses.replace(artifact, facts={**seen.facts, **artifact.facts}, preview=seen.preview)


def _warnings(artifacts: Mapping[str, Artifact], seen: Mapping[str, Seen]) -> list[Warning]:
    return [
        Warning(
            code="artifact.broken",
            tier="warn",
            message=f"{path if path.isprintable() else ascii(path)} cannot be read: {found.problem}",
            evidence={"path": path, "media_type": artifacts[path].media_type},
            hint="Close the file before the run ends, or look at how it was written.",
        )
        for path, found in seen.items()
        if found.problem
    ]
