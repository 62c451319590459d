"""Executions made of the JSON that a server sends: the same objects as local runs give.

What is large stays on the server until somebody looks at it: files over what a reply brings, output that was cut, and
traces. Reading it blocks, as reading it from disk would, and fails in words when the server keeps it no longer.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from groundbox.errors import GuestFileError, InvalidArgument, ServerUnreachable
from groundbox.execution import (
    Artifact,
    Artifacts,
    Display,
    Execution,
    Failure,
    Isolation,
    Match,
    Outcome,
    ToolCall,
    ToolCalls,
    Usage,
    Warning,
)

_PAGE: Final = 1 << 20
_REPLACED: Final = "\ufffd"
"""What a text has for bytes that are not UTF-8; a program may also print it."""
T = TypeVar("T")


class Fetch(Protocol):
    """Gets bytes of an execution from its server, from any thread."""

    def __call__(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        """The bytes below `/v1/executions/ID`, at `path`."""


def execution_of(told: Mapping[str, Any], fetch: Callable[[str], Fetch]) -> Execution:
    """The execution that a server tells of.

    Args:
        fetch: From an execution's id to what gets its bytes.

    Raises:
        ServerUnreachable: It is none; another kind of server answers.
    """
    try:
        getting = fetch(told["execution_id"])
        error, calls = told["error"], told.get("tool_calls")
        dropped = dict(told["dropped_bytes"])
        return Execution(
            execution_id=told["execution_id"],
            language=told["language"],
            outcome=Outcome(told["outcome"]),
            exit_code=told["exit_code"],
            exit_signal=told["exit_signal"],
            stdout=told["stdout"],
            stderr=told["stderr"],
            dropped_bytes=dropped,
            value=told["value"],
            error=None if error is None else _known(Failure, error),
            displays=_displays(told["displays"], told.get("display_previews") or {}),
            artifacts=Artifacts([_artifact(each, getting) for each in told["artifacts"]]),
            warnings=tuple(_known(Warning, each) for each in told["warnings"]),
            usage=_known(Usage, told["usage"]),
            isolation=_known(Isolation, told["isolation"]),
            state=told["state"],
            trust=told["trust"],
            tool_calls=None if calls is None else _tool_calls(calls),
            outputs={
                stream: _Output(stream, told[stream], dropped.get(stream, 0), getting)
                for stream in ("stdout", "stderr")
            },
        )
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise ServerUnreachable(f"an answer is no execution ({type(problem).__name__}: {problem})") from None


_MOST_COPIED_BYTES: Final = 64 * 1024 * 1024


def _copied_output(path: str, data: bytes) -> _Output:
    """Return the output that a copied result brought with it."""
    copied = _Output(path, "", 0, _no_server)
    copied._whole = data
    return copied


def _no_server(path: str, query: Mapping[str, str] | None = None) -> bytes:
    return b""


class _Output:
    """One stream, whole: from the reply if its text has every byte, otherwise by pages."""

    def __init__(self, stream: str, text: str, dropped_bytes: int, fetch: Fetch) -> None:
        self._path, self._fetch = f"/output/{stream}", fetch
        self._whole = None if dropped_bytes or _REPLACED in text else text.encode()

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy has up to 64 MiB with it, and asks no server."""
        data = self._whole if self._whole is not None else self.read(0, _MOST_COPIED_BYTES)
        return _copied_output, (self._path, data)

    def read(self, offset: int = 0, size: int = _PAGE) -> bytes:
        """`size` bytes from `offset`."""
        if self._whole is not None:
            return self._whole[offset : offset + size]
        data = b""
        while len(data) < size:
            query = {"offset": str(offset + len(data)), "size": str(min(_PAGE, size - len(data)))}
            page = self._fetch(self._path, query)
            if not page:
                break
            data += page
        return data

    def search(self, pattern: str, most: int = 100) -> Sequence[Match]:
        """The first `most` lines that match a regular expression, with their numbers from 1."""
        expression = re.compile(pattern)
        found: list[Match] = []
        rest, offset, number = b"", 0, 0
        while True:
            page = self.read(offset, _PAGE)
            offset += len(page)
            *lines, rest = (rest + page).split(b"\n")
            if not page and rest:
                lines, rest = [*lines, rest], b""
            for line in lines:
                number += 1
                text = line.decode("utf-8", "replace")
                if expression.search(text):
                    found.append(Match(number, text))
                    if len(found) == most:
                        return found
            if not page:
                return found


def _displays(told: Sequence[Mapping[str, Any]], previews: Mapping[str, str]) -> list[Display]:
    return [Display(data=data, preview=_bytes(previews.get(str(number)))) for number, data in enumerate(told)]


def _bytes(inline: str | None) -> bytes | None:
    return None if inline is None else base64.b64decode(inline)


def _artifact(told: Mapping[str, Any], fetch: Fetch) -> Artifact:
    path, data = told["path"], _bytes(told.get("base64"))

    def read() -> bytes:
        if data is not None:
            return data
        try:
            return fetch(f"/artifacts/{path}")
        except (GuestFileError, InvalidArgument):
            raise
        except Exception as error:
            raise GuestFileError(path, f"the server does not give it: {error}") from None

    return Artifact(
        path=path,
        size_bytes=told["size_bytes"],
        media_type=told["media_type"],
        sha256=told["sha256"],
        facts=told.get("facts", {}),
        preview=_bytes((told.get("preview") or {}).get("base64")),
        _read=read,
    )


def _tool_calls(told: Mapping[str, Any]) -> ToolCalls:
    return _known(ToolCalls, {**told, "calls": [_known(ToolCall, each) for each in told["calls"]]})


def _known(kind: type[T], told: Mapping[str, Any]) -> T:
    """A value of this class; keys that a newer server adds are left out."""
    names: Mapping[str, Any] = kind.__dataclass_fields__  # type: ignore[attr-defined]
    fields = {name: value for name, value in told.items() if name in names}
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()})
