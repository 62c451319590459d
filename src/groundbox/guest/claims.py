"""Checking what another process of the sandbox says, before the worker passes it on."""

from typing import Any

_MOST_OBSERVED = 48
_MOST_NAMES = 8
_MOST_COUNTS = 8
_MOST_CHARS = 64
_MOST_COUNT = 1 << 53


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


def checked_observed(told: object) -> list[dict[str, Any]]:
    """What a program says that its observers saw; what is no such thing is left out."""
    found = []
    for item in told[:_MOST_OBSERVED] if isinstance(told, list) else ():
        if not isinstance(item, dict) or not isinstance(item.get("kind"), str):
            continue
        line, counts, names = item.get("line"), item.get("counts"), item.get("names")
        found.append(
            {
                "kind": _short(item["kind"]),
                "line": line if type(line) is int and 0 < line < 1 << 31 else None,
                "counts": {
                    _short(name): count
                    for name, count in list(counts.items() if isinstance(counts, dict) else ())[:_MOST_COUNTS]
                    if type(count) is int and 0 <= count < _MOST_COUNT
                },
                "names": [_short(name) for name in (names if isinstance(names, list) else [])[:_MOST_NAMES]],
            }
        )
    return found


def _short(told: object) -> str:
    """A text that the host takes: without halves of pairs, which are no text."""
    return str(told)[:_MOST_CHARS].encode("utf-8", "replace").decode("utf-8")
