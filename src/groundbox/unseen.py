"""Text of a guest with nothing in it that is not seen.

A terminal obeys escape sequences, and characters that turn the direction of writing make a line read as another one.
What comes out of `visible` can be shown where neither happens: in a notebook, to a model, in a message.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

# Strings of the operating system command kind end at the next opening, so that the search stays linear.
_SEQUENCE: Final = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x90\x98\x9c-\x9f]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-OQ-WYZ\\`-~]"
)
# Joiners and the first variation selectors are left: emoji and several scripts are written with them.
_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff\U0001d173-\U0001d17a]"
)


_MOST_NAME_CHARS: Final = 4096


def visible(text: str) -> str:
    """The text with nothing in it that is not seen. Newlines and tabs stay; `\\r\\n` becomes a newline."""
    return _UNSEEN.sub(_escaped, _SEQUENCE.sub("", text.replace("\r\n", "\n")))


def on_one_line(text: str, most_chars: int) -> str:
    """The same on one line, for a message or a log, with what is over the limit counted."""
    line = visible(text[: most_chars + 1]).replace("\n", "\\n").replace("\t", " ")
    left_out = len(text) - most_chars
    return f"{line[:most_chars]}… {left_out} characters more" if left_out > 0 else line


def shown_names(names: Iterable[str]) -> dict[str, str]:
    """Return those of some file names that do not look like what they are, each with a form that does.

    Paths in JSON stay as they are, because files are asked for by them.
    """
    shown = {name: on_one_line(name, _MOST_NAME_CHARS) for name in names}
    return {name: form for name, form in shown.items() if form != name}


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
