"""What a submission of Judge0 brings in forms that have to be read with care: base64, arguments, and ZIP archives.

Everything here takes time and memory in proportion to what came, and raises `Invalid` with the field's name.
"""

from __future__ import annotations

import base64
import contextlib
import io
import re
import struct
import zipfile
from typing import Final

from groundbox.errors import GroundboxError, InvalidArgument
from groundbox.execution import Execution
from groundbox.limits import MiB
from groundbox.sandbox.workdir import check_path
from groundbox.server import bodies

MOST_TEXT: Final = 16 * MiB
MOST_UNPACKED_BYTES: Final = 64 * MiB
FILE_BYTES: Final = 200
"""What a file takes besides its name and its content."""
_MOST_UNPACKED: Final = 1000
_MOST_NAME_BYTES: Final = 4096
_MOST_PACKED_BYTES: Final = 16 * MiB
_UNPACKED_AT_ONCE: Final = 256 * 1024
_BLANKS: Final = b" \t\r\n\v\f"


class Invalid(Exception):
    """A submission that is not taken: field to words, as Judge0 tells it."""

    def __init__(self, field: str, words: str) -> None:
        super().__init__(f"{field}: {words}")
        self.told = {field: [words]}


def text_of(name: str, content: str | memoryview, *, encoded: bool) -> str:
    """Return a text, decoded from base64 if it is `encoded`."""
    data = bytes_of(name, content) if encoded else content
    if len(data) > MOST_TEXT:
        raise Invalid(name, f"is too long (maximum is {MOST_TEXT} bytes)")
    return data if isinstance(data, str) else str(data, "utf-8", "replace")


def bytes_of(name: str, text: str | memoryview) -> bytes:
    """Decode base64, which Ruby's clients break into lines."""
    try:
        packed = text.encode("ascii") if isinstance(text, str) else text
        return bodies.decoded_base64(packed, skips=_BLANKS)
    except ValueError:
        raise Invalid(name, "is not base64") from None


def archive_of(text: str | memoryview) -> io.BytesIO:
    """Decode the base64 of an archive into a file, from which it can be unpacked without a copy."""
    archive = io.BytesIO()
    try:
        for part in bodies.base64_parts(text.encode("ascii") if isinstance(text, str) else text, skips=_BLANKS):
            archive.write(part)
    except ValueError:
        raise Invalid("additional_files", "is not base64") from None
    return archive


_PIECE: Final = re.compile(
    r"""(?P<blanks>[ \t\r\n]+)|'(?P<single>[^']*)'|"(?P<double>[^"\\]*(?:\\.[^"\\]*)*)"|\\(?P<escaped>.)"""
    r"""|(?P<plain>[^ \t\r\n'"\\]+)""",
    re.DOTALL,
)


def split(text: str) -> list[str]:
    """Split arguments as `shlex.split` does, in linear time.

    Raises:
        ValueError: A quotation or an escape has no end.
    """
    words: list[str] = []
    parts: list[str] | None = None
    at = 0
    while at < len(text):
        piece = _PIECE.match(text, at)
        if piece is None:
            raise ValueError("No escaped character" if text[at] == "\\" else "No closing quotation")
        at = piece.end()
        if piece.lastgroup == "blanks":
            if parts is not None:
                words.append("".join(parts))
            parts = None
            continue
        value = piece[piece.lastgroup or 0]
        parts = parts or []
        parts.append(re.sub(r'\\(["\\])', r"\1", value) if piece.lastgroup == "double" else value)
    return words if parts is None else [*words, "".join(parts)]


_END: Final = struct.Struct("<4s4H2LH")
_ENTRY: Final = struct.Struct("<4s6H3L5H2L")
_ENTRY_SIGN, _END_SIGN, _LOCATOR_SIGN = b"PK\1\2", b"PK\5\6", b"PK\6\7"
_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""How files may be packed. The others unpack a block whole, however large it becomes."""


def size_of_archive(data: memoryview) -> int:
    """Return the bytes that the files of a ZIP archive take unpacked, as its list says; no file is read beyond that.

    The list is read here first, since `zipfile` makes an object of every entry before it tells how many there are.

    Raises:
        Invalid: There are too many files, they are too large, or this is not an archive.
    """
    field = "additional_files"
    tail = max(0, len(data) - _END.size - 65_535)
    at = bytes(data[tail:]).rfind(_END_SIGN) + tail
    if at < tail or at + _END.size > len(data):
        raise Invalid(field, "are not a ZIP archive that can be read: it has no end")
    *_, size, _, _ = _END.unpack_from(data, at)
    if data[max(0, at - 20) : at][:4] == _LOCATOR_SIGN:
        raise Invalid(field, "are not a ZIP archive that can be read: it has 64-bit sizes")
    entry, total, names, count = at - size, 0, 0, 0
    while 0 <= entry < at:
        if entry + _ENTRY.size > at or data[entry : entry + 4] != _ENTRY_SIGN:
            raise Invalid(field, "are not a ZIP archive that can be read: its list is broken")
        fields = _ENTRY.unpack_from(data, entry)
        name_bytes = fields[10]
        count, total, names = count + 1, total + fields[9], names + FILE_BYTES + name_bytes
        if count > _MOST_UNPACKED:
            raise Invalid(field, f"are more than {_MOST_UNPACKED}")
        if name_bytes > _MOST_NAME_BYTES:
            raise Invalid(field, f"have a name of over {_MOST_NAME_BYTES} bytes")
        if total > MOST_UNPACKED_BYTES:
            raise Invalid(field, f"are over {MOST_UNPACKED_BYTES} bytes")
        entry += _ENTRY.size + name_bytes + fields[11] + fields[12]
    return total + names


def unpack(packed: io.BytesIO) -> dict[str, bytes]:
    """Return the files of a ZIP archive whose list was counted (`size_of_archive`)."""
    files: dict[str, bytes] = {}
    left_bytes = MOST_UNPACKED_BYTES
    try:
        with zipfile.ZipFile(packed) as archive:
            entries = [each for each in archive.infolist() if not each.is_dir()]
            if any(each.compress_type not in _METHODS for each in entries):
                raise Invalid("additional_files", "must be stored or deflated")
            for each in entries:
                content = bytearray()
                with archive.open(each) as file:
                    while part := file.read(_UNPACKED_AT_ONCE):  # and not as much as the archive says
                        content += part
                        left_bytes -= len(part)
                        if left_bytes < 0:
                            raise Invalid("additional_files", f"are over {MOST_UNPACKED_BYTES} bytes")
                files[check_path("additional_files", each.filename)] = bodies.as_bytes(content)
    except InvalidArgument as error:
        raise Invalid("additional_files", str(error)) from None
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError, ValueError, EOFError) as error:
        raise Invalid("additional_files", f"are not a ZIP archive that can be read: {error}") from None
    return files


def pack(execution: Execution) -> str | None:
    """What the run made, as a ZIP archive in base64; None where it made nothing, or too much."""
    artifacts = list(execution.artifacts.values())
    if not artifacts or sum(each.size_bytes for each in artifacts) > _MOST_PACKED_BYTES:
        return None
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for each in artifacts:
            with contextlib.suppress(GroundboxError):
                archive.writestr(zipfile.ZipInfo(each.path), each.read())
    return base64.b64encode(packed.getvalue()).decode("ascii")
