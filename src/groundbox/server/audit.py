"""The audit log: lines of JSON for every execution, appended and never changed.

A line tells who ran what by its digest, in which sandbox, and how it ended; never source, output or arguments. Words
of a guest in it are made visible and cut. The log moves to a file with its time in the name when it is large, and files
over their age are removed.

A run has a line when it begins and one when it ends. One that never ended, because the server was killed, is told as
`lost` when the next server opens the log; what goes on while the log moves to another file is begun there again.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import json
import logging
import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from groundbox.errors import GroundboxError
from groundbox.server.refusals import Refused
from groundbox.unseen import on_one_line

logger = logging.getLogger(__name__)

_MOST_CHARS: Final = 300
_RETRY_S: Final = 5.0
_ROTATED: Final = re.compile(r"-\d{8}T\d{6}(-\d+)?")
# What people put into labels and file names although they should not: tokens of well-known makers, and long secrets.
_SECRET: Final = re.compile(
    r"(?:gb_|e2b_|sk-|ghp_|gho_|xox[abp]-|AKIA)[A-Za-z0-9_-]{8,}|eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_.-]+"
)


def _unavailable() -> Refused:
    told = "the audit log cannot be written, and this server runs nothing without it; nothing was done"
    return Refused(503, "audit_unavailable", told, retry_after_s=_RETRY_S)


class AuditLog:
    """Appends to one file. Lines that a full disk takes are counted.

    Attributes:
        lost_lines: Since the log could be written last.
        lost_total: Since the server was started.
    """

    def __init__(
        self, path: Path, *, required: bool = False, most_bytes: int = 64 * 1024 * 1024, kept_days: float = 90.0
    ) -> None:
        """Args:
        path: Made if it is not there, closed to others.
        required: Whether nothing may begin whose first line cannot be written.

        Raises:
            GroundboxError: It cannot be written.
        """
        self._path, self._most_bytes, self._kept_s = path, most_bytes, kept_days * 86400
        self._descriptor: int | None = None
        self._size, self._is_torn = 0, False
        self._going_on: dict[str, Mapping[str, Any]] = {}
        self.lost_lines = self.lost_total = 0
        self._is_required = required
        try:
            self._open()
            lost = _unended(path)
        except OSError as error:
            raise GroundboxError(f"the audit log '{path}' cannot be written: {error.strerror}") from None
        for name, facts in lost.items():
            self.write("run", {**facts, "run": name, "outcome": "lost"})

    def begin(self, name: str, facts: Mapping[str, Any]) -> None:
        """Append that a run begins; `name` is unlike that of any other.

        Raises:
            Refused: 503; the log is required and cannot be written; the run must not begin.
        """
        if not self.write("begin", {**facts, "run": name}) and self._is_required:
            raise _unavailable()
        self._going_on[name] = facts

    def intend(self, event: str, facts: Mapping[str, Any]) -> None:
        """If the log is required, append that something is about to be done whose own line follows.

        Raises:
            Refused: 503; it cannot be written; nothing must be done.
        """
        if self._is_required and not self.write("intent", {**facts, "of": event}):
            raise _unavailable()

    def end(self, name: str, facts: Mapping[str, Any]) -> None:
        """Append how that run ended."""
        self._going_on.pop(name, None)
        self.write("run", {**facts, "run": name})

    def write(self, event: str, facts: Mapping[str, Any]) -> bool:
        """Append a line; in it, texts are cut, made visible and without secrets of well-known forms.

        Returns:
            False if the line was lost.
        """
        line = _line(event, facts)
        try:
            if self._descriptor is None or (self._size and self._size + len(line) > self._most_bytes):
                self._rotate()
            assert self._descriptor is not None
            self._append(self._descriptor, line)
        except OSError as error:
            self.lost_lines += 1
            self.lost_total += 1
            if self.lost_lines == 1:
                logger.error("the audit log cannot be written: %s; lines are lost until it can", error.strerror)
            self.close()
            return False
        else:
            if self.lost_lines:
                logger.warning("the audit log is written again; %d lines were lost", self.lost_lines)
                self.lost_lines = 0
            return True

    def close(self) -> None:
        """Close the file."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with contextlib.suppress(OSError):
                os.close(descriptor)

    def _append(self, descriptor: int, line: bytes) -> None:
        """Write a whole line, or none; half of one, as a full disk takes it, is ended by the next."""
        if self._is_torn:
            os.write(descriptor, b"\n")
            self._is_torn, self._size = False, self._size + 1
        written = os.write(descriptor, line)
        self._size += written
        if written < len(line):
            self._is_torn = True
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _open(self) -> None:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        self._descriptor = os.open(self._path, flags, 0o600)
        self._size = os.fstat(self._descriptor).st_size
        self._is_torn = self._size > 0 and os.pread(self._descriptor, 1, self._size - 1) != b"\n"

    def _rotate(self) -> None:
        if self._descriptor is not None:
            self.close()
            name = f"{self._path.stem}-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}"
            number, to = 0, self._path.with_name(f"{name}{self._path.suffix}")
            while to.exists():
                number, to = number + 1, self._path.with_name(f"{name}-{number + 1}{self._path.suffix}")
            self._path.rename(to)
        self._open()
        assert self._descriptor is not None
        for run, facts in self._going_on.items():
            self._append(self._descriptor, _line("begin", {**facts, "run": run}))
        for each in self._path.parent.glob(f"{glob.escape(self._path.stem)}-*{glob.escape(self._path.suffix)}"):
            rotated = _ROTATED.fullmatch(each.name[len(self._path.stem) : -len(self._path.suffix) or None])
            if rotated and time.time() - each.stat().st_mtime > self._kept_s:
                each.unlink(missing_ok=True)


def _line(event: str, facts: Mapping[str, Any]) -> bytes:
    told = {"time": _now(), "event": event, **_told(facts)}
    return json.dumps(told, default=lambda value: type(value).__name__).encode("ascii") + b"\n"


def _unended(path: Path) -> dict[str, dict[str, Any]]:
    """Facts of runs by name that a log tells the beginning of, and no end. Torn lines are passed over."""
    begun: dict[str, dict[str, Any]] = {}
    if not path.is_file():  # a device or a pipe has no past, and reading it might never end
        return begun
    with path.open("rb") as log:
        for line in log:
            try:
                told = json.loads(line)
                event, name = told.pop("event"), told.pop("run")
            except (ValueError, KeyError, AttributeError):
                continue
            if event == "begin":
                begun[str(name)] = {key: value for key, value in told.items() if key != "time"}
            else:
                begun.pop(str(name), None)
    return begun


def redacted(text: str) -> str:
    """The text without secrets of well-known forms."""
    return _SECRET.sub("[redacted]", text)


def _told(value: Any) -> Any:
    if isinstance(value, str):
        return redacted(on_one_line(value, _MOST_CHARS))
    if isinstance(value, Mapping):
        return {redacted(on_one_line(str(name), _MOST_CHARS)): _told(each) for name, each in value.items()}
    if isinstance(value, Sequence):
        return [_told(each) for each in value[:100]]
    return value


def _now() -> str:
    seconds = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds % 1 * 1000):03d}Z"
