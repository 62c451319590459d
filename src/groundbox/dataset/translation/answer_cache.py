"""The answers of a model in a file of JSON Lines, each under the digest of its request, so that none is paid for twice.

What is covered: a kill at any moment. An answer counts once its whole line is on the disk; a last line without
its end is cut off, and its request is sent again. Only the places of the answers are held in memory.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from groundbox.errors import InvalidArgument


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reply:
    """An answer of the model.

    Attributes:
        finish: Why it ended, as the endpoint says: `stop`, or `length` when it was cut at `max_tokens`;
            or `groundbox.endpoint.answer.TOO_LARGE`, kept like any other: it was paid for.
        cached: Whether it had been given to an earlier call.
    """

    text: str
    finish: str
    prompt_tokens: int
    completion_tokens: int
    cached: bool = False


class Cache:
    """Answers by key. Belongs to one process at a time.

    Raises:
        InvalidArgument: The file holds something else.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: IO[bytes] = path.open("a+b")
        try:
            self._places = dict(_places(self._file, path))
        except BaseException:
            self._file.close()
            raise

    def __len__(self) -> int:
        return len(self._places)

    def get(self, key: str) -> Reply | None:
        """An earlier answer, or None."""
        if key not in self._places:
            return None
        self._file.seek(self._places[key])
        line = json.loads(self._file.readline())
        del line["key"]
        return Reply(**{**line, "cached": True})

    def put(self, key: str, reply: Reply) -> None:
        """Keep an answer; it is on the disk when this returns."""
        self.write(key, reply)
        self.sync()

    def write(self, key: str, reply: Reply) -> None:
        """Keep an answer; a kill of this process no longer loses it, and after `sync` nothing does."""
        line = {"key": key, **dataclasses.asdict(reply)}
        # Opened for appending, so that writes go to the end in any case; `tell` would give the place of the last
        # reading.
        place = self._file.seek(0, os.SEEK_END)
        self._file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
        self._file.flush()
        self._places[key] = place

    def sync(self) -> None:
        """Have all that was written on the disk when this returns. May be called in another thread."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Nothing can be got or put any more."""
        self._file.close()


def digest(request: Mapping[str, Any]) -> str:
    """Of a whole request: the same question with other options is another one."""
    # Sorted keys: the order in which options were given is no part of the question.
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()


def _places(file: IO[bytes], path: Path) -> Iterator[tuple[str, int]]:
    file.seek(0)
    place = 0
    for number, line in enumerate(file, 1):
        if not line.endswith(b"\n"):
            # Only the last line can lack its end: a write that was killed.
            os.truncate(file.fileno(), place)
            return
        try:
            yield json.loads(line)["key"], place
        except (ValueError, LookupError, TypeError):
            raise InvalidArgument("cache", f"line {number} of {path} is no answer of ours; take it out") from None
        place += len(line)
