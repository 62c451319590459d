"""Checkpoints that are whole: each has a list of its files with their digests, written after all of them.

transformers writes a checkpoint file by file, so one that a kill or a full disk tore looks much like one that is whole.
The list is written last, and a checkpoint counts only when every file is as the list says; else the one before counts.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any, Final

from groundbox.dataset import files

LIST: Final = "groundbox-checkpoint.json"
_NAME: Final = re.compile(r"checkpoint-(\d{1,12})")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A checkpoint with all its files.

    Attributes:
        step: How many steps were done.
        facts: What was noted with it.
    """

    folder: Path
    step: int
    facts: dict[str, Any]


def seal(folder: Path, facts: dict[str, Any]) -> None:
    """Declare a checkpoint whole; its files are on the disk then.

    Raises:
        OSError: The disk is full, say; the checkpoint does not count.
    """
    digests = {}
    for path in sorted(each for each in folder.rglob("*") if each.is_file() and each.name != LIST):
        with path.open("rb") as file:
            os.fsync(file.fileno())
        digests[str(path.relative_to(folder))] = files.digest(path)
    files.publish(folder / LIST, json.dumps({"files": digests, **facts}, indent=1).encode() + b"\n")


def newest(folder: Path, *, remove: bool) -> tuple[Checkpoint | None, list[str]]:
    """The last checkpoint that is whole, and what is wrong with later ones.

    Args:
        remove: Whether later ones are removed, so that the same steps can write theirs there.
    """
    torn: list[str] = []
    for step, place in sorted(_found(folder), reverse=True):
        told = _read(place)
        wrong = "it was not written to its end" if told is None else _differs(place, told)
        if told is not None and not wrong:
            return Checkpoint(folder=place, step=step, facts=told), torn
        torn.append(f"{place.name}: {wrong}")
        if remove:
            shutil.rmtree(place)
    return None, torn


def _found(folder: Path) -> list[tuple[int, Path]]:
    if not folder.is_dir():
        return []
    named = ((_NAME.fullmatch(each.name), each) for each in folder.iterdir() if each.is_dir())
    return [(int(match[1]), each) for match, each in named if match]


def _read(place: Path) -> dict[str, Any] | None:
    try:
        told = json.loads((place / LIST).read_bytes())
    except (OSError, ValueError):
        return None
    return told if isinstance(told, dict) and isinstance(told.get("files"), dict) else None


def _differs(place: Path, told: dict[str, Any]) -> str:
    """Which file is not as the list says; "" where all are."""
    for name, digest in told["files"].items():
        try:
            same = files.digest(place / name) == digest
        except OSError:
            return f"{name} is missing"
        if not same:
            return f"{name} is not as it was written"
    return ""
