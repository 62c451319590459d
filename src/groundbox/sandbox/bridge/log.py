"""The log of tool calls: one line of JSON for each, to be read by people and to be answered from in a replay.

A row has `sandbox` (an id), `seq` (in the order in which its calls came), `run`, `tool`, `args` (redacted),
`args_sha256` (of the real ones as canonical JSON), `outcome`, `answer`, `wall_s`, `sent_bytes`, `received_bytes`, and
`since`, the first call that had not ended when this one came.
A tool that may change something has a row with the outcome `begun` before it starts, so that a replay of a log whose
writer was killed knows what it does not know. The last row of a `seq` counts.
A log may hold calls of several sandboxes, also of earlier processes; a replay is of one of them.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from groundbox.errors import InvalidArgument

UNFINISHED: Final = frozenset({"pending", "expired", "cancelled"})
"""Outcomes of calls that got no answer: a replay makes them anew."""


class ToolLog:
    """Rows in memory, or in a file that is only ever added to."""

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        """Args:
        path: Made with mode 0600 if it is not there; None to keep the rows in `rows`.
        """
        self.rows: list[dict[str, Any]] = []
        self._path = path

    def add(self, row: Mapping[str, Any]) -> None:
        """Write one row.

        Raises:
            OSError: It could not be written. The run is then ended: what is not told must not happen.
        """
        if self._path is None:
            self.rows.append({name: dict(part) if isinstance(part, Written) else part for name, part in row.items()})
            return
        line = b"{" + b",".join(_dumped(name) + b":" + _dumped(part) for name, part in row.items()) + b"}\n"
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if os.write(descriptor, line) != len(line):
                raise OSError("the row was written in part only")
        finally:
            os.close(descriptor)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> ToolLog:
        """The log in a file, with its rows in memory.

        Raises:
            InvalidArgument: It is no log.
        """
        log = cls()
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                try:
                    log.rows.append(checked(json.loads(line)))
                except ValueError as error:
                    raise InvalidArgument("log", f"{os.fspath(path)}:{number}: no row of a log: {error}") from None
        return log

    def __iter__(self) -> Iterator[dict[str, Any]]:
        if self._path is not None:
            return iter(ToolLog.read(self._path).rows)
        return iter(self.rows)


def checked(row: Any) -> dict[str, Any]:
    """Raises:
    ValueError: It lacks what a replay needs.
    """
    needed = {"sandbox": str, "seq": int, "tool": str, "args_sha256": str, "outcome": str, "since": int}
    for name, kind in needed.items():
        if not isinstance(row, dict) or not isinstance(row.get(name), kind):
            raise ValueError(f"{name} is missing")
    return row  # type: ignore[no-any-return]


class Written(dict[str, Any]):
    """An object that was written as JSON already, beside the event loop. It must not be changed.

    Attributes:
        json: In ASCII.
    """

    json: bytes

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Written:
        """Write it, as canonical JSON."""
        return cls.ready(content, _dumped(content, sort=True))

    @classmethod
    def slowly(cls, content: Mapping[str, Any]) -> Written:
        """The same in Python, which lets other threads have their turn."""
        return cls.ready(content, "".join(_CANONICAL.iterencode(content)).encode("ascii"))

    @classmethod
    def ready(cls, content: Mapping[str, Any], json: bytes) -> Written:
        """What somebody else has written."""
        made = cls(content)
        made.json = json
        return made


def _dumped(value: Any, *, sort: bool = False) -> bytes:
    if isinstance(value, Written):
        return value.json
    return json.dumps(value, sort_keys=sort, separators=(",", ":"), ensure_ascii=True).encode("ascii")


_CANONICAL: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def digest(tool: str, args: Written) -> str:
    """Of a call: its tool and its arguments as they travelled, as canonical JSON."""
    return hashlib.sha256(b"[" + _dumped(tool) + b"," + args.json + b"]").hexdigest()


def of_one(rows: Iterable[Mapping[str, Any]], sandbox: str | None) -> list[Mapping[str, Any]]:
    """The rows of one sandbox; None when there is only one.

    Raises:
        InvalidArgument: There are several, or none of this one.
    """
    rows = list(rows)
    known = list(dict.fromkeys(str(row.get("sandbox")) for row in rows))
    if sandbox is None and len(known) > 1:
        problem = f"the log has calls of {len(known)} sandboxes; say which by execution.tool_calls.sandbox"
        raise InvalidArgument("sandbox", f"{problem}: {', '.join(known[-5:])}")
    if sandbox is not None and sandbox not in known:
        raise InvalidArgument("sandbox", f"the log has no calls of {sandbox!r}")
    return [row for row in rows if sandbox in (None, row.get("sandbox"))]


class Diverged(Exception):
    """A run that is replayed asked for something else than the log has."""


class Uncertain(Exception):
    """The log does not tell whether a call was carried out."""


class Recorded(NamedTuple):
    """How a call ended when it was recorded."""

    outcome: str
    row: Mapping[str, Any]


class Replay:
    """Answers calls from a log, each row once.

    Calls have to come in the order of the log; those that overlapped then may change places. After the last row,
    calls are live.
    """

    def __init__(self, rows: Iterable[Mapping[str, Any]]) -> None:
        rows = of_one(map(checked, rows), None)
        last = {row["seq"]: row for row in rows if row["args_sha256"]}  # others were no calls of a tool
        self._rows = [last[seq] for seq in sorted(last)]

    def take(self, tool: str, args_sha256: str) -> Recorded | None:
        """The row of this call; None when the call is to be made.

        Raises:
            Diverged, Uncertain: The run cannot go on.
        """
        if not self._rows:
            return None
        first = self._rows[0]["seq"]
        for index, row in enumerate(self._rows):
            if row["since"] > first:
                break
            if row["tool"] == tool and row["args_sha256"] == args_sha256:
                del self._rows[index]
                return self._recorded(row)
        raise Diverged(
            f"call of {tool} with other arguments, or at another place, than in the log, "
            f"where {self._rows[0]['tool']} comes next (seq {first})"
        )

    def _recorded(self, row: Mapping[str, Any]) -> Recorded | None:
        if row["outcome"] == "begun" or row.get("uncertain"):
            raise Uncertain(
                f"the log does not tell how {row['tool']} ended, which may have done its work (seq {row['seq']})"
            )
        if row["outcome"] in UNFINISHED:
            return None
        if row.get("redacted"):
            raise Uncertain(f"the result of {row['tool']} was left out of the log (seq {row['seq']})")
        return Recorded(row["outcome"], row)
