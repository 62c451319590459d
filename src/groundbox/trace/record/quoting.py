"""Where the code and the quoted texts of a sentence stand: `` `x` is set to 'a`b' `` has one piece of code."""

from __future__ import annotations

import re
from typing import Final

QUOTED: Final = re.compile(r"""(?<![\w'"])[bruf]{0,2}(?:'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*\")(?!\w)""")
"""A Python literal of a text or of bytes."""
_CODE_OR_QUOTED: Final = re.compile(rf"(`[^`\n]*`)|{QUOTED.pattern}")


def code_spans(text: str) -> list[tuple[int, int]]:
    """The places of code in backticks, in order. A backtick within a quoted text outside of code is the text's own."""
    return [found.span() for found in _CODE_OR_QUOTED.finditer(text) if found[1] is not None]
