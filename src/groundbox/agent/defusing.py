"""Text of a guest, made fit to be shown to a model.

Three things are done to it, and none of them loses a word.
Colours and cursor movements are taken out; every other character that is not seen, or that turns the direction of
writing, is written as its escape (`\\u202e`), so that a text reads for the model as it reads for a person.
Links and pictures of Markdown and HTML get a blank where one breaks them (`] (https://…`): what a model repeats is
often shown by something that fetches pictures, and a fetched address can carry away what the model knows.
And `fenced` sets texts between marks that they cannot hold.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Final

from groundbox.unseen import visible

# A tag that fetches or acts by its name, any tag with an attribute (which may be a style or a handler), a declaration,
# and an address between angle brackets.
_FETCHING: Final = re.compile(
    r"<(?=/?(?:a|applet|area|audio|base|bgsound|body|button|embed|form|frame|html|iframe|image|img|input|link|math|meta|"
    r"object|picture|script|source|style|svg|table|td|th|track|video)\b|/?[a-z][^<>]*=|[!?]|[a-z][a-z0-9+.-]{1,31}:)",
    re.IGNORECASE,
)
_DEFINITION: Final = re.compile(r"\](?=[(:])")
_MARK_CHARS: Final = 8


def defused(text: str) -> str:
    """The text without links and pictures that something that shows it would follow or fetch."""
    return _FETCHING.sub("< ", _DEFINITION.sub("] ", text))


def shown(text: str) -> str:
    """Both."""
    return defused(visible(text))


def one_line(text: str, most_chars: int = 200) -> str:
    """A name or a message on one line, with what is over the limit counted."""
    line = shown(text).replace("\n", "\\n").replace("\t", " ")
    return line if len(line) <= most_chars else f"{line[:most_chars]}… {len(line) - most_chars} characters more"


def mark_for(texts: Iterable[str]) -> str:
    """A word that stands in none of the texts, the same for the same texts.

    It is a digest of them, and another one where the digest happens to stand in them. So no text can close the fence
    around it: whoever writes one that holds the first digest gets the second.
    """
    joined = "\0".join(texts)
    digest = hashlib.sha256(joined.encode("utf-8", "surrogatepass"))
    while (mark := digest.hexdigest()[:_MARK_CHARS]) in joined:
        digest.update(b"again")
    return mark


def fenced(name: str, text: str, mark: str) -> str:
    """A text between marks; `mark` is of `mark_for` over all texts that it serves."""
    return f"<{name} {mark}>\n{text.rstrip()}\n</{name} {mark}>"
