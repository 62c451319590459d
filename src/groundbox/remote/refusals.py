"""Refusals of a server as the exceptions of a local call. Imports little, for the command line."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
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
    SandboxUnavailable,
    ServerRefused,
)

OLDER: Final = "is not known to this server, whose groundbox is older than this one"
_UNKNOWN_FIELD: Final = re.compile(r"contains unknown field `(\w+)`")


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
            if unknown := _UNKNOWN_FIELD.search(message):  # sent by this side, which knows it
                return InvalidArgument(unknown[1], OLDER)
        elif code == "bad_path":
            return InvalidArgument("path", message)
        elif code == "sandbox_lost":
            return SandboxLost(details["why"], with_files=status == 410)
        elif code == "sandbox_closed":
            return SandboxClosed()
        elif code == "sandbox_busy":
            return SandboxBusy(details["why"])
        elif code == "checkpoint_lost":
            return CheckpointLost(details["why"])
        elif code == "language_unavailable":
            return LanguageUnavailable(details["language"], details["needs"], details["advice"])
        elif code == "environment_failed":
            return EnvironmentFailed(message)
        elif code == "process_error":
            return GuestProcessError(details["command"], details["reason"], details.get("errno"))
        elif code == "file_error":
            return GuestFileError(details["path"], details["reason"], details.get("errno"))
        elif code == "machine_failed" and "why" in details:
            return HostExhausted(details["why"])
        elif code == "sandbox_unavailable" and "missing" in details:
            return SandboxUnavailable(details["missing"], details.get("mends", ()))
    return ServerRefused(status, code, message, error.get("retry_after_s"))
