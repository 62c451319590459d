"""The workshop of a build, OUT/.shards: parts that are done, and what they were done for.

What is covered: any process may be killed at any moment. A part is there whole or not at all, its name is made
of its stage and number, and the same shard gives the same part, so that doing one twice changes nothing.
A part of several files is done when its last file is there. The manifest says which arguments and
inputs the parts belong to; a build with others does not touch them. A lock keeps two builds apart.

Parts may be kept in a second place as well (`groundbox.dataset.object_store`), from which they come back where they are
missing here.

What is not covered: somebody who edits the parts.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from groundbox.dataset import files, object_store
from groundbox.dataset.object_store import Objects
from groundbox.errors import InvalidArgument

FOLDER: Final = ".shards"
_MANIFEST: Final = "manifest.json"
_LOCK: Final = "lock"
_LAST: Final = "jsonl"
"""Suffix of the file of a part that is written last, and says that it is done."""


class Store:
    """The parts of one build. Use `opened` to get one."""

    def __init__(self, folder: Path, objects: Objects | None = None) -> None:
        self.folder = folder
        self._objects = objects

    def path(self, stage: str, number: int, suffix: str) -> Path:
        """Where a file of a part stands."""
        return self.folder / f"{stage}-{number:06d}.{suffix}"

    def read(self, stage: str, number: int, suffix: str) -> bytes:
        """A file of a part that is done."""
        return self.path(stage, number, suffix).read_bytes()

    def has(self, stage: str, number: int) -> bool:
        """Tell whether a part is done."""
        return self.path(stage, number, _LAST).exists()

    def done(self, stage: str) -> frozenset[int]:
        """Numbers of the parts that are done."""
        return frozenset(int(path.stem.rpartition("-")[2]) for path in self.folder.glob(f"{stage}-*.{_LAST}"))

    def publish(self, stage: str, number: int, part: Mapping[str, bytes]) -> None:
        """Keep a part: its files by suffix, `jsonl` last."""
        # In the order of the dict: the last file says that the part is done, and must not be there before the others.
        for suffix, data in part.items():
            files.publish(self.path(stage, number, suffix), data)

    async def keep(self, stage: str, number: int, part: Mapping[str, bytes]) -> None:
        """The same, and in the second place first, if there is one. What is there already is taken in its stead.

        Raises:
            ObjectsFailed: The second place does not take it.
            PartDamaged: What is there already is not what was written.
        """
        if self._objects is not None:
            # First there, then here: a part that is here alone would be lost with this machine, and nobody would make
            # it again.
            part = await asyncio.to_thread(self._objects.put, stage, number, part)
        self.publish(stage, number, part)

    def level(self, suffixes: Mapping[str, tuple[str, ...]]) -> None:
        """Have the parts of the second place here, and those of here there.

        Args:
            suffixes: The files of a part by stage, `jsonl` last.
        """
        if self._objects is None:
            return
        # Listed once; each `put` checks for itself that nothing is there.
        there = set(self._objects.parts())
        for stage, number in sorted(there):
            if stage in suffixes and not self.has(stage, number):
                self.publish(stage, number, self._objects.get(stage, number, suffixes[stage]))
        for stage, names in suffixes.items():
            for number in sorted(self.done(stage)):
                if (stage, number) not in there:
                    self._objects.put(stage, number, {name: self.read(stage, number, name) for name in names})

    def clear(self) -> None:
        """Remove all parts; the manifest stays."""
        if self._objects is not None:
            self._objects.clear()
        for path in self.folder.iterdir():
            # The lock is held while this runs, and the manifest says that the build is finished.
            if path.name not in (_MANIFEST, _LOCK):
                path.unlink()

    def finished(self) -> dict[str, str] | None:
        """Digests of the final files by name, once the build is done."""
        found: dict[str, str] | None = _read(self.folder / _MANIFEST).get("finished")
        return found

    def finish(self, digests: Mapping[str, str] | None) -> None:
        """Note that the build is done, or, with None, that it has to be done again."""
        manifest = _read(self.folder / _MANIFEST) | {"finished": None if digests is None else dict(digests)}
        files.publish(self.folder / _MANIFEST, _bytes(manifest))


@contextlib.contextmanager
def opened(out: Path, arguments: Mapping[str, Any], place: str | None = None) -> Iterator[Store]:
    """The store of a build in folder `out`, for this process alone.

    Args:
        arguments: All that decides what the build writes, as JSON values; digests of its inputs, too.
        place: Where parts are kept as well, as `groundbox.dataset.object_store.opened` takes it.

    Raises:
        InvalidArgument: Another build is at work there, or one with other arguments has been,
            or the folder holds something else.
    """
    folder = out / FOLDER
    _check_folder(out)
    folder.mkdir(parents=True, exist_ok=True)
    with files.locked(folder / _LOCK, InvalidArgument("out", f"another build is at work in {out}")):
        _check_manifest(out, arguments)
        if place is None:
            yield Store(folder)
            return
        with object_store.opened(place, json.loads(_bytes(arguments))) as there:
            yield Store(folder, there)


def _check_folder(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise InvalidArgument("out", f"{out} is not a folder")
    # A folder of somebody's files is never written into.
    if out.is_dir() and not (out / FOLDER).is_dir() and any(out.iterdir()):
        raise InvalidArgument("out", f"{out} is not empty, and no build of ours; name another folder")


def _check_manifest(out: Path, arguments: Mapping[str, Any]) -> None:
    path = out / FOLDER / _MANIFEST
    # Through JSON and back, so that tuples and lists compare as what was written.
    wanted = json.loads(_bytes(arguments))
    if not path.exists():
        files.publish(path, _bytes({"arguments": wanted, "finished": None}))
        return
    files.check_same(_read(path)["arguments"], wanted, "out", str(out), "folder")


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_bytes())
    return found


def _bytes(data: Mapping[str, Any]) -> bytes:
    return json.dumps(data, indent=1, sort_keys=True).encode()
