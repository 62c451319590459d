"""MIME bundles as a guest sends them: forms that are not what their type says are left out, and counted.

Whoever shows or saves a bundle relies on it: a form of BINARY_MEDIA is base64 of its bytes, a text is a text, anything
else is JSON. What bytes mean, such as whether they are a picture, is for those who look at them.
"""

from __future__ import annotations

import binascii
import sys
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from groundbox import guestjson
from groundbox.result_parts import BINARY_MEDIA

MOST_FORM_BYTES: Final = 32 * 1024 * 1024
"""Of one form in memory, where a character takes up to four bytes."""
MOST_NAME_CHARS: Final = 200
_FORM_BYTES: Final = 200
_PIECE: Final = 1 << 20


class Bundle(NamedTuple):
    """
    Attributes:
        left_out: Why each form that is missing is, such as "image/png is no base64".
        size_bytes: About the memory that it takes.
    """

    data: dict[str, Any]
    left_out: tuple[str, ...] = ()
    size_bytes: int = 0


class _Unfit(Exception):
    """A form that cannot be kept; the message says what it is not."""


def unpacked(forms: Mapping[str, bytes]) -> Bundle:
    """The bundle whose forms are these JSON texts.

    Raises:
        WireError: A text is no JSON.
    """
    data: dict[str, Any] = {}
    left_out: list[str] = []
    size = 0
    for mime, raw in forms.items():
        shown = mime if mime.isprintable() and len(mime) <= MOST_NAME_CHARS else ascii(mime[:MOST_NAME_CHARS])
        try:
            if shown != mime:
                raise _Unfit("is no media type")
            data[mime], taken = _form(mime, bytes(raw))
            size += taken + _FORM_BYTES
        except _Unfit as why:
            left_out.append(f"{shown} {why}")
    return Bundle(data, tuple(left_out), size)


def is_text(mime: str) -> bool:
    """Whether a form of this type is text."""
    return mime.startswith("text/") or mime.endswith(("+xml", "/xml", "/javascript"))


def _form(mime: str, raw: bytes) -> tuple[Any, int]:
    if not raw.startswith(b'"'):
        if mime in BINARY_MEDIA or is_text(mime):
            raise _Unfit("is no text")
        if (size := guestjson.weigh(raw)) > MOST_FORM_BYTES:
            raise _Unfit(f"would take more than {MOST_FORM_BYTES} bytes")
        return guestjson.decode(raw, depth=2), size
    if len(raw) * guestjson.widest(raw) > MOST_FORM_BYTES:
        raise _Unfit(f"would take more than {MOST_FORM_BYTES} bytes")
    text = guestjson.decode(raw)
    if mime in BINARY_MEDIA:
        text = _base64(text)
    return text, sys.getsizeof(text)


def _base64(text: str) -> str:
    """The text without blanks.

    It is decoded in pieces, of which each lets other threads have their turn.
    """
    if not text.isascii():
        raise _Unfit("is no base64")
    if any(blank in text for blank in " \n\r\t"):
        text = "".join(text.split())
    try:
        if "=" in text[:-2]:
            raise binascii.Error
        for at in range(0, len(text), _PIECE):
            binascii.a2b_base64(text[at : at + _PIECE], strict_mode=True)
    except binascii.Error:
        raise _Unfit("is no base64") from None
    return text


def note(text: str) -> Bundle:
    """A bundle of the host's own words."""
    return Bundle({"text/plain": text}, (), sys.getsizeof(text) + _FORM_BYTES)
