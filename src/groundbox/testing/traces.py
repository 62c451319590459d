"""Traces for tests, written by hand as the records that a guest would have written."""

from __future__ import annotations

import json
from typing import Any, Final

from groundbox.trace.record.reading import Trace, assemble

CALL: Final = {"k": "call", "f": 1, "p": 0, "name": "<module>", "n": 1}
END: Final[list[dict[str, Any]]] = [{"k": "return", "f": 1, "n": 1, "v": None}, {"k": "end"}]
LIMITS: Final = {"soft_events": 20_000, "max_events": 200_000, "max_bytes": 32 * 1024 * 1024}


def body(*records: dict[str, Any]) -> bytes:
    """Records as the lines that a guest writes."""
    return b"".join(json.dumps(record, separators=(",", ":")).encode() + b"\n" for record in records)


def read(data: bytes, *, source: str = "x = 1\n" * 20, outcome: str = "ok", **facts: Any) -> Trace:
    """What the host makes of such lines.

    Args:
        facts: Further arguments of `groundbox.trace.record.reading.assemble`.
    """
    told: dict[str, Any] = {
        "filename": "main.py",
        "mode": "script",
        "entry": None,
        "python": "3.13.0",
        "hash_seed": 0,
        "limits": LIMITS,
        **facts,
    }
    return assemble(data, source=source, outcome=outcome, **told)


def written(*records: dict[str, Any], **facts: Any) -> Trace:
    """A trace of these records, with the module's call before them and its end after them."""
    return read(body(CALL, *records, *END), **facts)
