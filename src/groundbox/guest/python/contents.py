"""Hints for values of the wrong kind: text for numbers, encodings, truth of tables, foreign syntax."""

from __future__ import annotations

import re
from typing import Final

from .fault import Fault

_BYTE_ORDER_MARKS: Final = ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"), (b"\xef\xbb\xbf", "utf-8-sig"))
_BINARY: Final = (
    (b"PK\x03\x04", "a zip archive, such as .xlsx or .docx"),
    (b"\x1f\x8b", "gzip"),
    (b"%PDF", "a PDF"),
)


def mixed_types(fault: Fault) -> list[str]:
    """TypeError: text and numbers in one operation."""
    message = fault.message
    if re.search(
        r"can only concatenate str|unsupported operand .*'str'"
        r"|not supported between .*'str'|must be str, not",
        message,
    ):
        return ["Text and a number meet here: convert with `int(…)`, `float(…)` or `str(…)`, or use an f-string."]
    if "offset-naive and offset-aware" in message:
        return ["One datetime has a time zone and the other has none: give both one, or remove it from both."]
    return []


def not_json(fault: Fault) -> list[str]:
    """TypeError: a value that the json module does not know."""
    found = re.match(r"Object of type (\w+) is not JSON serializable", fault.message)
    if not found:
        return []
    return [f"Convert {found[1]} first (`.item()` for numpy numbers, `.tolist()` for arrays) or pass `default=str`."]


def bad_number(fault: Fault) -> list[str]:
    """ValueError: text that is not a number."""
    found = re.search(
        r"could not convert string to float: (.+)|invalid literal for int\(\) with base \d+: (.+)",
        fault.message,
    )
    if not found:
        return []
    text = found[1] or found[2]
    if re.search(r"[$€£%,]", text):
        return [
            "Remove currency signs, percent signs and thousands separators first, "
            "for a column with `pd.to_numeric(s.str.replace(r'[^0-9.\\-]', '', regex=True))`."
        ]
    if found[2] and re.fullmatch(r"'\s*-?\d+\.\d+\s*'", text):
        return ["The text has a decimal point: use `int(float(…))`."]
    return ["The text is no number; for a column, `pd.to_numeric(s, errors='coerce')` gives NaN for such entries."]


def ambiguous_truth(fault: Fault) -> list[str]:
    """ValueError: a table or an array used as a condition."""
    if not re.search(r"truth value of (a|an) .* is ambiguous", fault.message):
        return []
    return [
        "Combine conditions on columns or arrays with `&`, `|` and `~`, each in brackets, "
        "or reduce with `.any()` or `.all()`."
    ]


def other_encoding(fault: Fault) -> list[str]:
    """UnicodeDecodeError: what the bytes look like."""
    exc = fault.exc
    if not isinstance(exc, UnicodeDecodeError):
        return []
    start = bytes(exc.object[:4])
    for mark, name in _BINARY:
        if start.startswith(mark):
            return [f"The data is {name}, not text: open it with the library for that format."]
    for mark, name in _BYTE_ORDER_MARKS:
        if start.startswith(mark):
            return [f'The data starts with a byte order mark: try `encoding="{name}"`.']
    return ['The data is not UTF-8: try `encoding="cp1252"` or `encoding="latin-1"`.']


def not_python(fault: Fault) -> list[str]:
    """SyntaxError: text of something else than Python 3."""
    exc = fault.exc
    if not isinstance(exc, SyntaxError):
        return []
    line = (exc.text or "").strip()
    if re.match(r"```|~~~", line):
        return ["The source holds a Markdown fence: send only the code between the fences."]
    if re.match(r"[%!]|pip3? install ", line) and not line.startswith("!="):
        return [
            "Lines with `%` and `!` need IPython, which this environment lacks: "
            'use `import subprocess; subprocess.run(["…"])`, or the library that the magic wraps.'
        ]
    if re.search(r"[\u2018\u2019\u201c\u201d\u00a0\u2013\u2212]", line):
        return ["The line has a typographic character: use plain ' \" - and spaces."]
    if "'await' outside async function" in str(exc.msg):
        return ["A function that uses `await` begins with `async def`, and is awaited itself."]
    if "'await' outside" in str(exc.msg):
        return ["A script needs `asyncio.run(main())`; only a cell can `await` outside a function."]
    return []
