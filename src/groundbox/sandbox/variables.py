"""Environment variables that a caller gives: names and sizes are checked, and no message holds a value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from groundbox.errors import InvalidArgument

MOST_VARIABLES: Final = 256
MOST_BYTES: Final = 64 * 1024
"""Names and values together."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def checked_variables(value: Any, *, any_name: bool = False) -> dict[str, str]:
    """Return the variables of an argument `env`; {} for None.

    Args:
        any_name: Accept every name that the kernel accepts, as for a program of shell.

    Raises:
        InvalidArgument: A name or a value cannot be one, or they are too many.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidArgument("env", f"must map names to texts, such as {{'REGION': 'eu'}}, not {type(value).__name__}")
    size = 0
    for name, text in value.items():
        if not isinstance(name, str) or not _is_name(name, any_name=any_name):
            right = "text without '=' and NUL" if any_name else "letters, digits and '_', and no digit first"
            shown = repr(name)[:60] if isinstance(name, str) else f"of type {type(name).__name__}"
            raise InvalidArgument("env", f"has the name {shown}; a name must be {right}")
        if not isinstance(text, str) or "\0" in text:
            raise InvalidArgument("env", f"the value of {name[:60]} must be a text without NUL")
        try:
            size += len(name.encode()) + len(text.encode("utf-8", "surrogateescape"))
        except UnicodeEncodeError:
            raise InvalidArgument("env", f"the value of {name[:60]} cannot be encoded as UTF-8") from None
    if len(value) > MOST_VARIABLES or size > MOST_BYTES:
        raise InvalidArgument(
            "env",
            f"has {len(value)} variables of {size} bytes, more than {MOST_VARIABLES} or {MOST_BYTES} bytes; "
            "put data into files instead",
        )
    return dict(value)


def _is_name(name: str, *, any_name: bool) -> bool:
    if any_name:
        return bool(name) and "=" not in name and "\0" not in name and name.isprintable()
    return _NAME.fullmatch(name) is not None
