"""What a run left, written into a folder of the host (`--out DIR`).

Paths of artifacts were checked when they were collected and are checked again here. Every step goes from
an open folder to one name in it, without following a symlink. A file is written beside and renamed into
place, so that an existing link of that name is replaced and never written through.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from groundbox.cli.terminal import one_line
from groundbox.errors import GroundboxError, GuestFileError
from groundbox.execution import BINARY_MEDIA, CHART, Execution

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_ENDINGS: Final = {
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/gif": "gif",
    "image/webp": "webp",
    "image/svg+xml": "svg",
    "application/pdf": "pdf",
    "text/html": "html",
    "text/markdown": "md",
    "text/latex": "tex",
    "application/json": "json",
}


class Written(NamedTuple):
    """What `write` did.

    Attributes:
        displays: For each display, the names of its files in the folder.
        value: The same for the value.
        artifacts: Paths of artifacts that are there now.
        problems: Path to the reason why an artifact or the file of a display is not.
    """

    displays: list[list[str]]
    value: list[str]
    artifacts: list[str]
    problems: dict[str, str]


def check_folder(path: Path) -> str:
    """Why nothing could be written into `path`, or an empty string. Makes nothing."""
    if "\0" in str(path):
        return f"{str(path)!r} holds a NUL byte; no folder can be named so"
    there = path.absolute()
    while not os.path.lexists(there):
        there = there.parent
    if not there.is_dir():
        return f"'{there}' is no folder"
    if not os.access(there, os.W_OK | os.X_OK):
        return f"'{there}' cannot be written by you"
    return ""


def write(execution: Execution, path: Path, *, before: str = "", shown: bool = True) -> Written:
    """Write artifacts, displays and a rich value into the folder `path`, which is made.

    What cannot be written is told, and the rest is written.

    Args:
        before: Begins the names of displays and of the value, so that those of several runs do not meet.
        shown: Whether displays and the value are written; artifacts are in any case.

    Raises:
        GroundboxError: The folder cannot be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise GroundboxError(f"--out: '{path}' cannot be made: {error.strerror}") from None
    try:
        return _write(execution, folder, before, shown=shown)
    finally:
        os.close(folder)


def write_file(path: Path, data: bytes, option: str) -> None:
    """Write what `option` asks for to `path`: whole, or not at all, so that a file of that name is not lost.

    Raises:
        GroundboxError: It cannot be written.
    """
    target = os.path.realpath(path)
    try:
        there = os.path.lexists(target)
        if (there and not os.path.isfile(target)) or not os.access(os.path.dirname(target), os.W_OK):
            path.write_bytes(data)  # a pipe, a device, or a file that alone may be written
            return
        folder = os.open(os.path.dirname(target), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _put(folder, os.path.basename(target), data, mode=os.stat(target).st_mode & 0o777 if there else None)
        finally:
            os.close(folder)
    except OSError as error:
        raise GroundboxError(f"{option}: '{path}' cannot be written: {error.strerror}") from None


def _write(execution: Execution, folder: int, before: str, *, shown: bool) -> Written:
    from groundbox.sandbox.workdir import check_path  # with the whole engine behind it

    done = Written([], [], [], {})
    taken = set(execution.artifacts)
    for path, artifact in execution.artifacts.items():
        if one_line(path) != path:
            done.problems[path] = "its name holds characters that would mislead whoever lists the folder"
            continue
        try:
            _put(folder, check_path("artifact", path), artifact.read())
            done.artifacts.append(path)
        except (GuestFileError, OSError) as problem:
            done.problems[path] = getattr(problem, "reason", None) or str(problem.args[-1])
    if not shown:
        return done
    put = functools.partial(_put_bundle, folder, taken=taken, problems=done.problems)
    for number, display in enumerate(execution.displays, 1):
        done.displays.append(put(f"{before}display-{number}", display.data))
    done.value.extend(put(f"{before}value", execution.value or {}, rich_only=True))
    return done


def _put_bundle(
    folder: int,
    stem: str,
    bundle: Mapping[str, Any],
    *,
    taken: set[str],
    problems: dict[str, str],
    rich_only: bool = False,
) -> list[str]:
    names = []
    for ending, data in files_of(bundle, rich_only=rich_only):
        name, again = f"{stem}.{ending}", 1
        while name in taken:
            again += 1
            name = f"{stem}-{again}.{ending}"
        taken.add(name)
        try:
            _put(folder, name, data)
            names.append(name)
        except OSError as problem:
            problems[name] = str(problem.args[-1])
    return names


def files_of(bundle: Mapping[str, Any], *, rich_only: bool = False) -> Iterator[tuple[str, bytes]]:
    """A MIME bundle as files: ending and bytes. Plain text only where nothing else is; no numbers of a figure."""
    rich = [mime for mime in bundle if mime not in ("text/plain", CHART)]
    for mime in rich or ([] if rich_only else list(bundle)):
        content = bundle[mime]
        if mime in BINARY_MEDIA and isinstance(content, str):
            yield _ENDINGS[mime], base64.b64decode(content)
        elif isinstance(content, str):
            yield _ENDINGS.get(mime, "txt"), content.encode("utf-8", "replace")
        else:
            kind = mime.removeprefix("application/").removesuffix("+json")
            ending = "json" if kind == "json" else f"{_letters(kind)}.json"
            yield ending, json.dumps(content).encode()


def _letters(kind: str) -> str:
    """`vnd.plotly.v1` as `plotly`; only letters and digits."""
    parts = [part for part in kind.split(".") if part not in ("vnd", "v1", "v2")]
    return "".join(c for c in parts[0] if c.isascii() and c.isalnum()) if parts else "other"


def _put(folder: int, path: str, data: bytes, *, mode: int | None = None) -> None:
    *parents, name = path.split("/")
    with contextlib.ExitStack() as opened:
        for parent in parents:
            with contextlib.suppress(FileExistsError):
                os.mkdir(parent, dir_fd=folder)
            folder = os.open(parent, _FOLDER, dir_fd=folder)
            opened.callback(os.close, folder)
        beside = f".groundbox-{os.urandom(8).hex()}"
        descriptor = os.open(beside, _NEW_FILE, 0o666, dir_fd=folder)
        try:
            with open(descriptor, "wb") as file:
                if mode is not None:
                    os.fchmod(descriptor, mode)
                file.write(data)
            os.replace(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            os.unlink(beside, dir_fd=folder)
            raise
