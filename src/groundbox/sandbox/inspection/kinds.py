"""What a file is by its first bytes and its name, read on the host and therefore without decoding anything.

Sizes of pictures stand in fixed places of their headers: PNG (RFC 2083 §4.1.1), GIF89a §18, JPEG (ITU T.81 §B.2.2)
and WebP (RFC 9649 §2).
"""

from __future__ import annotations

import codecs
import mimetypes
import os
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

HEAD_BYTES: Final = 1 << 16
"""How much of a file is looked at: a JPEG can carry a photograph's data before its size."""

PARQUET: Final = "application/vnd.apache.parquet"
_OFFICE: Final = "application/vnd.openxmlformats-officedocument."
DOCX: Final = f"{_OFFICE}wordprocessingml.document"
PPTX: Final = f"{_OFFICE}presentationml.presentation"
XLSX: Final = f"{_OFFICE}spreadsheetml.sheet"
ODT: Final = "application/vnd.oasis.opendocument.text"
ODS: Final = "application/vnd.oasis.opendocument.spreadsheet"
ODP: Final = "application/vnd.oasis.opendocument.presentation"
DOCUMENTS: Final = frozenset({DOCX, PPTX, XLSX, ODT, ODS, ODP})
SQLITE: Final = "application/vnd.sqlite3"
_ZIP: Final = "application/zip"
_GZIP: Final = "application/gzip"
_OLE: Final = "application/x-ole-storage"
_TEXT_BYTES: Final = 4096
_UNKNOWN: Final = "application/octet-stream"

_BY_ENDING: Final = {
    ".parquet": PARQUET,
    ".md": "text/markdown",
    ".py": "text/x-python",
    ".jsonl": "application/jsonl",
    ".ndjson": "application/jsonl",
    ".tsv": "text/tab-separated-values",
    ".xlsx": XLSX,
    ".xlsm": "application/vnd.ms-excel.sheet.macroEnabled.12",
    ".docx": DOCX,
    ".pptx": PPTX,
    ".odt": ODT,
    ".ods": ODS,
    ".odp": ODP,
    ".sqlite": SQLITE,
    ".sqlite3": SQLITE,
    ".webp": "image/webp",
}
_BY_CONTENT: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"II*\0", "image/tiff"),
    (b"MM\0*", "image/tiff"),
    (b"%PDF-", "application/pdf"),
    (b"PAR1", PARQUET),
    (b"SQLite format 3\0", SQLITE),
    (b"PK\x03\x04", _ZIP),
    (b"\x1f\x8b", _GZIP),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", _OLE),
)
_KNOWN_BY_CONTENT: Final = frozenset(kind for _, kind in _BY_CONTENT) | {"image/webp"} | DOCUMENTS
_CONTAINERS: Final = frozenset({_ZIP, _GZIP, _OLE})
"""Many kinds of files are one of these inside, and only the name says which."""
_CONTAINED: Final = {(each, _ZIP) for each in DOCUMENTS} | {(each, _OLE) for each in (DOCX, PPTX, XLSX)}
"""An encrypted document of Office is no zip."""
_VARIANTS: Final = {
    "word": (DOCX, f"{_OFFICE}wordprocessingml.", "application/vnd.ms-word."),
    "ppt": (PPTX, f"{_OFFICE}presentationml.", "application/vnd.ms-powerpoint."),
    "xl": (XLSX, f"{_OFFICE}spreadsheetml.", "application/vnd.ms-excel."),
}
"""By the folder that only such a document has: its kind, and how names of kinds begin that are like it inside."""


class Size(NamedTuple):
    """Of a picture, in pixels."""

    width: int
    height: int


class Kind(NamedTuple):
    """
    Attributes:
        media_type: By the content where that says it, by the name otherwise.
        named: What the name says where the content says something else, or "".
    """

    media_type: str
    named: str


def kind_of(path: str, head: bytes) -> Kind:
    """The kind of a file by its first bytes, at least 16 of them where there are that many."""
    named, found = _by_name(path), _by_content(head)
    if found in _CONTAINERS and (named not in _KNOWN_BY_CONTENT or (named, found) in _CONTAINED):
        return Kind(found if named == _UNKNOWN else named, "")
    if any(found == kind and named.startswith(alike) for kind, *alikes in _VARIANTS.values() for alike in alikes):
        return Kind(named, "")
    if found:
        return Kind(found, named if named not in (found, _UNKNOWN) else "")
    if named in _KNOWN_BY_CONTENT:
        return Kind("text/plain" if head and _is_text(head[:_TEXT_BYTES]) else _UNKNOWN, named)
    return Kind(named, "")


def size_of(media_type: str, head: bytes) -> Size | None:
    """The size that a picture's header tells, or None where it has none that can be read."""
    try:
        size = _READERS[media_type](head)
    except (KeyError, struct.error, IndexError):
        return None
    return size if size is not None and size.width > 0 and size.height > 0 else None


def _by_name(path: str) -> str:
    """By its endings alone: `mimetypes` takes a path for an address, whose other parts could say any kind."""
    stem, ending = os.path.splitext(path.rpartition("/")[2].lower())
    kind, packed = mimetypes.guess_type(f"x{_plain(os.path.splitext(stem)[1])}{_plain(ending)}")
    if packed == "gzip":
        return _GZIP
    return _BY_ENDING.get(ending) or kind or _UNKNOWN


def _plain(ending: str) -> str:
    return ending if ending[1:].isascii() and ending[1:].replace("-", "").isalnum() else ""


def _by_content(head: bytes) -> str:
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    found = next((kind for magic, kind in _BY_CONTENT if head.startswith(magic)), "")
    return _packed(head) or found if found == _ZIP else found


def _packed(head: bytes) -> str:
    """The kind of document that a zip is by the names of its first entries; "" where these do not say it.

    An OpenDocument begins with its media type (ODF 1.3 part 2, §3.3).
    """
    folders = set()
    for name, content in _entries(head):
        if name == b"mimetype":
            return next((kind for kind in (ODT, ODS, ODP) if content == kind.encode()), "")
        folder, _, rest = name.decode("ascii", "replace").partition("/")
        folders.add(folder if rest or folder == "[Content_Types].xml" else "")
    kinds = [kind for folder, (kind, *_) in _VARIANTS.items() if folder in folders]
    return kinds[0] if len(kinds) == 1 and folders & {"[Content_Types].xml", "_rels", "docProps"} else ""


def _entries(head: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Name and packed content of each entry that begins in the head (APPNOTE §4.3.7)."""
    at = 0
    while head.startswith(b"PK\x03\x04", at) and len(head) >= at + 30:
        flags = int.from_bytes(head[at + 6 : at + 8], "little")
        size, _, name_size, more_size = struct.unpack("<IIHH", head[at + 18 : at + 30])
        begin = at + 30 + name_size + more_size
        yield head[at + 30 : at + 30 + name_size], head[begin : begin + size]
        at = head.find(b"PK\x03\x04", begin) if flags & 8 and not size else begin + size
        if at < 0:
            return


def _is_text(head: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)  # what is cut at the end is no error
    except UnicodeDecodeError:
        return False
    return b"\0" not in head


def _png(head: bytes) -> Size | None:
    return Size(*struct.unpack(">II", head[16:24])) if head[12:16] == b"IHDR" else None


def _gif(head: bytes) -> Size:
    return Size(*struct.unpack("<HH", head[6:10]))


def _jpeg(head: bytes) -> Size | None:
    """The first frame header (SOF); the other segments are stepped over by their lengths."""
    at = 2
    while head[at] == 0xFF:
        marker = head[at + 1]
        if marker == 0xFF:  # fill bytes may stand before a marker
            at += 1
            continue
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", head[at + 5 : at + 9])
            return Size(width, height)
        at += 2 + int(struct.unpack(">H", head[at + 2 : at + 4])[0])
    return None


def _webp(head: bytes) -> Size | None:
    form = head[12:16]
    if form == b"VP8X":
        return Size(1 + int.from_bytes(head[24:27], "little"), 1 + int.from_bytes(head[27:30], "little"))
    if form == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        return Size(1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF))
    if form == b"VP8 ":
        width, height = struct.unpack("<HH", head[26:30])
        return Size(width & 0x3FFF, height & 0x3FFF)
    return None


_READERS: Final = {"image/png": _png, "image/gif": _gif, "image/jpeg": _jpeg, "image/webp": _webp}
