"""Refusals: why a request got no result, as a status and a body that clients of every wire can read.

A program that failed is no refusal: its outcome is part of a result. A refusal says whose fault it is by its status:
4xx the caller's, 429 that it would be taken later, 503 that this server or its machine failed, so that nobody counts it
against the program.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from groundbox.errors import (
    CheckpointLost,
    EnvironmentFailed,
    GroundboxError,
    GuestFileError,
    GuestProcessError,
    HostExhausted,
    InvalidArgument,
    LanguageUnavailable,
    SandboxBusy,
    SandboxClosed,
    SandboxLost,
    TracerMissing,
    WireError,
)

_MOST_MESSAGE_CHARS: Final = 2000
_MOST_ITEMS: Final = 100


class Refused(Exception):
    """A request that is answered without a result.

    Attributes:
        status: Of HTTP.
        code: A word for programs, such as `not_found`; never changed once released.
        message: A sentence for people, which says what to do.
        retry_after_s: When to ask again, where that may help.
        details: What the message is made of, for clients that make the same exception of it.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        retry_after_s: float | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        message = shortened(message, _MOST_MESSAGE_CHARS)
        super().__init__(message)
        self.status, self.code, self.message, self.retry_after_s = status, code, message, retry_after_s
        self.details = {name: _bounded(value) for name, value in (details or {}).items()}

    def again(self) -> Refused:
        """The same without a traceback, which grows each time that one is raised, and holds what was at hand."""
        return Refused(self.status, self.code, self.message, retry_after_s=self.retry_after_s, details=self.details)

    @property
    def headers(self) -> dict[str, str]:
        """`Retry-After` in whole seconds (RFC 9110, 10.2.3), where there is a time."""
        return {} if self.retry_after_s is None else {"Retry-After": str(max(1, math.ceil(self.retry_after_s)))}

    def to_dict(self) -> dict[str, Any]:
        """The body. `code` and `message` stand twice, because clients of other wires look for them at the top."""
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.retry_after_s is not None:
            error["retry_after_s"] = self.retry_after_s
        if self.details:
            error["details"] = self.details
        return {"code": self.status, "message": self.message, "error": error}


def _bounded(value: Any) -> Any:
    """A detail that may quote what was asked for."""
    if isinstance(value, str):
        return shortened(value, _MOST_MESSAGE_CHARS)
    if isinstance(value, list):
        return [_bounded(each) for each in value[:_MOST_ITEMS]]
    return value


def shortened(text: str, most: int = 300) -> str:
    """A text as it is quoted in a refusal: its beginning, and how long it is if that is not all of it."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text)} characters)"


def _details(error: GroundboxError) -> dict[str, Any]:
    """Attributes of an error that are plain data."""
    plain = str | int | float | bool | None
    return {
        name: value
        for name, value in vars(error).items()
        if isinstance(value, plain) or (isinstance(value, list) and all(isinstance(each, str) for each in value))
    }


def not_found(kind: str) -> Refused:
    """There is no such thing, or it belongs to another key, which is not told apart."""
    return Refused(404, "not_found", f"there is no such {kind}")


def shutting_down() -> Refused:
    """Return the refusal of a server that ends: the program was not run, or its run was ended with the server."""
    told = "this server is shutting down; nothing is known of the result, so ask again"
    return Refused(503, "shutting_down", told, retry_after_s=1.0)


def of_this_side(refused: Refused) -> Refused:
    """The same refusal where the caller named neither sandbox nor environment: failures of those are this server's.

    For wires whose clients score a program by the reply, and must not score this.
    """
    if refused.status < 500 and refused.code not in _OF_SANDBOXES:
        return refused
    return Refused(503, refused.code, refused.message, retry_after_s=refused.retry_after_s or 1.0)


_OF_SANDBOXES: Final = frozenset(("environment_failed", "sandbox_lost", "sandbox_closed", "tracer_missing", "exists"))
_OF_ERRORS: Final[tuple[tuple[type[GroundboxError], int, str], ...]] = (
    (InvalidArgument, 400, "invalid_argument"),
    (LanguageUnavailable, 400, "language_unavailable"),
    (TracerMissing, 400, "tracer_missing"),
    (GuestFileError, 404, "file_error"),
    (GuestProcessError, 409, "process_error"),
    (HostExhausted, 503, "machine_failed"),
    (SandboxLost, 409, "sandbox_lost"),
    (SandboxClosed, 410, "sandbox_closed"),
    (SandboxBusy, 409, "sandbox_busy"),
    (CheckpointLost, 410, "checkpoint_lost"),
    (EnvironmentFailed, 400, "environment_failed"),
    (WireError, 503, "sandbox_failed"),
)


@contextlib.contextmanager
def refusing() -> Iterator[None]:
    """Within it, errors of the engine and of the machine become refusals."""
    try:
        yield
    except Refused:
        raise
    except Exception as error:
        raise refusal_of(error) from error


def refusal_of(error: Exception) -> Refused:
    """The refusal that an exception of the engine or of the machine becomes. Of an unknown one nothing is told."""
    for kind, status, code in _OF_ERRORS:
        if isinstance(error, kind):
            again_s = 1.0 if status == 503 else None
            return Refused(status, code, str(error), retry_after_s=again_s, details=_details(error))
    if isinstance(error, GroundboxError):
        return Refused(503, "sandbox_unavailable", str(error), retry_after_s=1.0, details=_details(error))
    if isinstance(error, OSError):
        what = error.strerror or type(error).__name__
        return Refused(503, "machine_failed", f"this machine could not do its part: {what}", retry_after_s=1.0)
    return Refused(500, "internal", "a fault of groundbox itself; its log tells more")
