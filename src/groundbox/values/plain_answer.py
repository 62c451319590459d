r"""Answers as models write them, in plain text: without the marks of LaTeX and Markdown, and in ASCII digits.

Models are trained on mathematics in LaTeX, and write `\boxed{42}`, `$\frac{3}{4}$` or `9{,}500` where a plain number
was asked for. Only the form changes: 6/8 does not become 3/4, and 75 % does not become 0.75.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_MOST_CHARS: Final = 10_000
_MOST_LAYERS: Final = 8
_AROUND: Final = (
    (r"\(", r"\)"),
    (r"\[", r"\]"),
    ("$$", "$$"),
    ("$", "$"),
    ("**", "**"),
    ("`", "`"),
    *((rf"\{name}{{", "}") for name in ("boxed", "fbox", "text", "mathrm", "mathbf", "textbf")),
)
_QUOTES: Final = str.maketrans("‘’“”", "''\"\"")
_FRACTION: Final = re.compile(r"\\[dt]?frac\{([^{}\\]{1,40})\}\{([^{}\\]{1,40})\}")
_SEPARATOR: Final = re.compile(r"(?<=\d)(?:\{,\}|\\,|\\!|,\\!)(?=\d{3}(?!\d))")
_SPACE: Final = re.compile(r"\\[,;:! ]|~")


def plain_answer(text: str) -> str:
    """Return an answer without the marks of LaTeX and Markdown; full-width characters and curly quotes are ASCII."""
    text = unicodedata.normalize("NFKC", text[:_MOST_CHARS]).translate(_QUOTES).strip()
    for _ in range(_MOST_LAYERS):
        inner = _inner(text)
        if inner is None:
            break
        text = inner
    if "\\" in text or "{," in text:
        text = _SEPARATOR.sub(",", text)
        text = _FRACTION.sub(r"\1/\2", text)
        text = _SPACE.sub(" ", text.replace(r"\%", "%").replace(r"\$", "$"))
    return text.strip()


def _inner(text: str) -> str | None:
    """The text within the outermost mark, or None if no mark goes around all of it."""
    bare = text[:-1].rstrip() if text.endswith(".") else text
    for opening, closing in _AROUND:
        inside = bare[len(opening) : -len(closing)]
        if len(bare) > len(opening) + len(closing) and bare == opening + inside + closing and _is_one(inside, opening):
            return inside.strip()
    return None


def _is_one(inside: str, opening: str) -> bool:
    """Return whether the closing mark belongs to the opening one: `$1$ or $2$` has two."""
    if not opening.endswith("{"):
        return opening.strip("\\") not in inside if opening[0] != "\\" else opening not in inside
    depth = 0
    for character in inside:
        depth += (character == "{") - (character == "}")
        if depth < 0:
            return False
    return depth == 0
