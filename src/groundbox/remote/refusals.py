"""Refusals of a server as the exceptions of a local call. Imports little, for the command line."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from groundbox.errors import (
    EnvironmentFailed,
    GroundboxError,
    GuestFileError,
    GuestProcessError,
    InvalidArgument,
    LanguageUnavailable,
    SandboxClosed,
    SandboxLost,
    SandboxUnavailable,
    ServerRefused,
)


def refusal_of(status: int, error: Mapping[str, Any]) -> GroundboxError:
    """The exception that a refusal is here.

    Args:
        status: Of HTTP.
        error: The object of that name in its body.
    """
    code, message, details = str(error["code"]), str(error.get("message", "")), error.get("details") or {}
    with contextlib.suppress(KeyError, TypeError):
        if code == "invalid_argument":
            if "argument" in details:
                return InvalidArgument(details["argument"], details["problem"])
        elif code == "sandbox_lost":
            return SandboxLost(details["why"])
        elif code == "sandbox_closed":
            return SandboxClosed()
        elif code == "language_unavailable":
            return LanguageUnavailable(details["language"], details["needs"], details["advice"])
        elif code == "environment_failed":
            return EnvironmentFailed(message)
        elif code == "process_error":
            return GuestProcessError(details["command"], details["reason"], details.get("errno"))
        elif code == "file_error":
            return GuestFileError(details["path"], details["reason"], details.get("errno"))
        elif code == "sandbox_unavailable" and "missing" in details:
            return SandboxUnavailable(details["missing"], details.get("mends", ()))
    return ServerRefused(status, code, message, error.get("retry_after_s"))
