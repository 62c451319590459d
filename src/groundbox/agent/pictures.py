"""The pictures of a run as a model may be sent them: small enough, of a kind that models read, and no more than asked.

What a guest calls a picture is looked at: an endpoint refuses a whole conversation for one picture it cannot read.
"""

from __future__ import annotations

import binascii
import dataclasses
import struct
from collections.abc import Iterator
from typing import Final

from groundbox.errors import GuestFileError
from groundbox.execution import Artifact, Display, Execution

MOST_BYTES: Final = 4 * 1024 * 1024
"""Of one picture; the common endpoints refuse more than 5 MiB."""
MOST_PIXELS: Final = 8000
"""Of its longer edge, where it can be read from its header; the common endpoints refuse more."""
_BEGINNINGS: Final = {"image/png": b"\x89PNG\r\n\x1a\n", "image/jpeg": b"\xff\xd8\xff"}


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Picture:
    """One picture for a model.

    Attributes:
        name: What the observation calls it, such as `display 1` or a file's path.
    """

    name: str
    media_type: str
    data: bytes = dataclasses.field(repr=False)


def pictures_of(execution: Execution) -> tuple[list[Picture], dict[str, str]]:
    """The pictures in the order that they were shown, those in files last, and why others cannot be sent."""
    found: dict[bytes, Picture] = {}
    refused: dict[str, str] = {}
    for name, media_type, data in _candidates(execution):
        if problem := _problem(media_type, data):
            refused[name] = problem
        else:
            found.setdefault(data, Picture(name=name, media_type=media_type, data=data))
    return list(found.values()), refused


def _candidates(execution: Execution) -> Iterator[tuple[str, str, bytes]]:
    if execution.value is not None:
        yield from _of_bundle("value", Display(data=execution.value))
    for number, display in enumerate(execution.displays, 1):
        yield from _of_bundle(f"display {number}", display)
    for path, artifact in execution.artifacts.items():
        yield from _of_file(path, artifact)


def _of_bundle(name: str, display: Display) -> Iterator[tuple[str, str, bytes]]:
    if display.preview is not None:
        yield name, "image/png", display.preview
        return
    try:
        if (png := display.png) is not None:
            yield name, "image/png", png
        elif (jpeg := display.jpeg) is not None:
            yield name, "image/jpeg", jpeg
    except (binascii.Error, ValueError):
        yield name, "image/png", b""


def _of_file(path: str, artifact: Artifact) -> Iterator[tuple[str, str, bytes]]:
    if artifact.preview is not None:
        yield path, "image/png", artifact.preview
    elif artifact.media_type in _BEGINNINGS and artifact.size_bytes <= MOST_BYTES:
        try:
            yield path, artifact.media_type, artifact.read()
        except GuestFileError:
            return


def _problem(media_type: str, data: bytes) -> str:
    """Why a picture cannot be sent, or ""."""
    if not data.startswith(_BEGINNINGS[media_type]):
        return "not a picture of the kind it says"
    if len(data) > MOST_BYTES:
        return f"{len(data)} bytes, more than models take"
    if media_type == "image/png":
        if len(data) < 24:
            return "not a picture of the kind it says"
        width, height = struct.unpack(">II", data[16:24])
        if not 0 < max(width, height) <= MOST_PIXELS:
            return f"{width} × {height} pixels, more than models take"
    return ""
