"""Checking what another process of the sandbox says, before the worker passes it on."""

from typing import Any


def checked_failure(told: object) -> dict[str, Any] | None:
    """What a program said about its failure, or None when that is no such thing."""
    if not isinstance(told, dict) or not isinstance(told.get("type"), str):
        return None
    texts = {name: told[name] for name in ("type", "message", "traceback") if isinstance(told.get(name), str)}
    line, column = told.get("line"), told.get("column")
    names, hints = told.get("locals"), told.get("hints")
    return {
        "message": "",
        **texts,
        "line": line if type(line) is int else None,
        "column": column if type(column) is int else None,
        "locals": {str(k): str(v) for k, v in names.items()} if isinstance(names, dict) else {},
        "hints": [str(hint) for hint in hints] if isinstance(hints, list) else [],
    }
