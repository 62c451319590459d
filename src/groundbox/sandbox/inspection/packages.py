"""Looks at one office document, inside a sandbox that holds nothing else: prints what it is as one line of JSON.

Documents of Office Open XML (ECMA-376) and OpenDocument (OASIS ODF 1.3) are read as what they are, a zip of XML: no
library makes less of them, and the common ones take seconds. Only the parts that are asked for are unpacked, each
within a bound, and their XML goes by without a tree. XML that declares entities is refused: no such document has any.
Called like `inside.py`, and answers like it.
"""

import functools
import json
import os
import posixpath
import re
import sys
import time
import zipfile
import zlib
from collections.abc import Callable
from typing import Any, Final
from xml.parsers import expat

_MOST_NAMES: Final = 50
_MOST_NAME: Final = 80
_MOST_PART_BYTES: Final = 16 << 20
_MOST_CELLS_BYTES: Final = 64 << 20
"""Of a part whose cells are counted and not kept: LibreOffice writes 70 bytes for one."""
_MOST_UNPACKED_BYTES: Final = 128 << 20
"""Of all parts together that are read of one document."""
_MOST_S: Final = 3.0
"""On the monotonic clock, after which what is counted is told."""
_MOST_DIRECTORY_BYTES: Final = 4 << 20
_MOST_DEPTH: Final = 500
_MOST_DIGITS: Final = 9
_LAST_CELL: Final = (1_048_576, 16_384)
_ROW, _CELL, _VALUE = 3, 4, 5
"""How deep they stand in a sheet; elements of these names elsewhere belong to its rules, controls and small charts."""
_CHUNK_BYTES: Final = 1 << 16
_END: Final = b"PK\x05\x06"
_LARGE_END: Final = b"PK\x06\x07"
_LARGE_END_BYTES: Final = 20
_MOST_END_BYTES: Final = _LARGE_END_BYTES + 22 + 0xFFFF
_OLE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED: Final = "EncryptedPackage".encode("utf-16-le")
_OFFICE: Final = "application/vnd.openxmlformats-officedocument."
_OPEN: Final = "application/vnd.oasis.opendocument."
_UNCOUNTED: Final = frozenset({"Fallback", "annotation", "desc", "note-citation", "title", "tracked-changes"})
"""Elements whose text is not the document's own, or stands in it a second time."""
_BLANKS: Final = frozenset({"tab", "br", "cr", "s", "line-break"})
_ALONE: Final = re.compile(
    "[\u3001-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uff60\U00020000-\U0003ffff]"
)
"""Characters of Chinese and Japanese, which stand without blanks: programs for documents count each as a word."""
_HIDDEN: Final = frozenset({"hidden", "veryHidden"})
_NAMESPACE: Final = re.compile(".* ", re.DOTALL)
_NOT_NEEDED: Final = frozenset({"_rels/.rels", "docProps/app.xml", "meta.xml", "META-INF/manifest.xml"})
_DAMAGED: Final = (zipfile.BadZipFile, zlib.error, expat.ExpatError, EOFError, OSError, NotImplementedError)
"""What a zip or its XML raises, also at a place before its beginning or a version that there is not."""
Attributes = dict[str, str]
"""By name without its namespace; a colon stands before the name of one that has a namespace."""


class Broken(Exception):
    """The document is not what its kind says."""


class Ended(Exception):
    """Nothing but these facts can be told: the document needs its password, or is more than is looked at."""

    def __init__(self, **facts: bool) -> None:
        super().__init__()
        self.facts = facts


class Visitor:
    """What a part's XML is told to. Elements go by their names without namespaces, of which each kind has several."""

    most_bytes = _MOST_PART_BYTES

    def __init__(self) -> None:
        self.path: Final[list[str]] = []

    def start(self, name: str, attributes: Attributes) -> None: ...

    def text(self, data: str) -> None: ...

    def end(self, name: str) -> None: ...

    def open(self, name: str, attributes: Attributes) -> None:
        if len(self.path) >= _MOST_DEPTH:
            raise Ended
        self.path.append(name.rpartition(" ")[2])
        self.start(self.path[-1], {_NAMESPACE.sub(":", key): each for key, each in attributes.items()})

    def close(self, _: str) -> None:
        self.end(self.path.pop())


class Package:
    """The parts of a document, unpacked within a bound."""

    def __init__(self, book: zipfile.ZipFile) -> None:
        self.names: Final = frozenset(book.namelist())
        self._book = book
        self._left_bytes = _MOST_UNPACKED_BYTES
        self._ends_s = time.monotonic() + _MOST_S

    def walk(self, name: str, visitor: Visitor) -> None:
        part = self._book.getinfo(name)
        if part.flag_bits & 1:
            raise Ended(encrypted=True)
        if part.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise Broken(f"{name[:_MOST_NAME]} is packed in a way that documents are not")
        if part.file_size > min(visitor.most_bytes, self._left_bytes):  # the zip's reader gives no more than that
            raise Ended
        self._left_bytes -= part.file_size
        parser = expat.ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        parser.StartElementHandler = visitor.open
        parser.EndElementHandler = visitor.close
        if type(visitor).text is not Visitor.text:
            parser.CharacterDataHandler = visitor.text
        parser.EntityDeclHandler = _refuse
        with self._book.open(part) as file:
            while chunk := file.read(_CHUNK_BYTES):
                if time.monotonic() > self._ends_s:
                    raise Ended
                parser.Parse(chunk, False)
        parser.Parse(b"", True)

    def found(self, name: str, *path: str) -> list[Attributes]:
        """See `Elements`; there are none in a part that need not be there."""
        if name in _NOT_NEEDED and name not in self.names:
            return []
        elements = Elements(path)
        self.walk(name, elements)
        return elements.found

    def main(self, usual: str) -> str:
        """The part that the document begins with."""
        for item in self.found("_rels/.rels", "Relationships", "Relationship"):
            if item.get("Type", "").endswith("/officeDocument"):
                return posixpath.normpath(item.get("Target", "").lstrip("/"))
        return usual

    def related(self, name: str) -> dict[str, str]:
        """The parts that a part refers to, by the ids it has for them."""
        folder, base = posixpath.split(name)
        items = self.found(posixpath.join(folder, "_rels", f"{base}.rels"), "Relationships", "Relationship")
        return {item.get("Id", ""): _target(folder, item.get("Target", "")) for item in items}


def _target(folder: str, target: str) -> str:
    return target.lstrip("/") if target.startswith("/") else posixpath.normpath(posixpath.join(folder, target))


def _refuse(*_: object) -> None:
    raise Broken("its XML declares entities, which no document does")


class Elements(Visitor):
    """The attributes of each element at one path, and under "" its text."""

    def __init__(self, path: tuple[str, ...]) -> None:
        super().__init__()
        self.found: Final[list[Attributes]] = []
        self._wanted = list(path)
        self._said: list[str] = []

    def start(self, name: str, attributes: Attributes) -> None:
        if self.path == self._wanted:
            self.found.append({**attributes, "": ""})

    def text(self, data: str) -> None:
        if self.path == self._wanted:
            self._said.append(data)

    def end(self, name: str) -> None:
        if [*self.path, name] == self._wanted:
            self.found[-1][""], self._said = "".join(self._said), []


class Paragraphs(Visitor):
    """How many paragraphs have words, and how many words these are; a paragraph may stand in another's picture.

    Attributes:
        noted: The words of footnotes and endnotes, where these stand in the text.
    """

    def __init__(self, body: str, texts: frozenset[str]) -> None:
        super().__init__()
        self.paragraphs = self.words = self.noted = 0
        self._body = body
        self._texts = texts
        self._skipped = self._notes = 0
        self._open: list[list[str]] = []

    def start(self, name: str, attributes: Attributes) -> None:
        self._skipped += name in _UNCOUNTED
        self._notes += name == "note"
        if name in ("p", "h"):
            self._open.append([])
        elif name in _BLANKS:
            self._say(" ")

    def text(self, data: str) -> None:
        if not self._texts or self.path[-1] in self._texts:
            self._say(data)

    def end(self, name: str) -> None:
        self._skipped -= name in _UNCOUNTED
        self._notes -= name == "note"
        if name in ("p", "h"):
            words = len(_ALONE.sub(" . ", "".join(self._open.pop())).split())
            if self._notes:
                self.noted += words
            else:
                self.words += words
                self.paragraphs += words > 0

    def _say(self, text: str) -> None:
        if self._open and not self._skipped and self._body in self.path:
            self._open[-1].append(text)


class Cells(Visitor):
    """How far the cells of a sheet reach, in Office Open XML; one that holds nothing but a style is none.

    There are so many that it looks at elements itself, and keeps no path.
    """

    most_bytes = _MOST_CELLS_BYTES

    def __init__(self) -> None:
        super().__init__()
        self.rows = self.columns = 0
        self._row = self._column = self._depth = 0

    def open(self, name: str, attributes: Attributes) -> None:
        if self._depth >= _MOST_DEPTH:
            raise Ended
        self._depth += 1
        name = name.rpartition(" ")[2]
        if self._depth == _VALUE:
            if name in ("v", "is", "f"):
                self.rows, self.columns = max(self.rows, self._row), max(self.columns, self._column)
            return
        if self._depth == _CELL and name == "c":
            letters = attributes.get("r", "").rstrip("0123456789")
            self._column = _number(letters) if letters else self._column + 1
        elif self._depth == _ROW and name == "row":
            self._row = _count(attributes["r"]) if "r" in attributes else self._row + 1
            self._column = 0
        if self._row > _LAST_CELL[0] or self._column > _LAST_CELL[1]:
            raise Broken(f"a sheet has no row {self._row} or no column {self._column}")

    def close(self, _: str) -> None:
        self._depth -= 1


class Tables(Visitor):
    """How far the cells of each sheet reach, in OpenDocument, where what is repeated stands once."""

    most_bytes = _MOST_CELLS_BYTES

    def __init__(self) -> None:
        super().__init__()
        self.found: Final[list[dict[str, Any]]] = []
        self._row = self._column = self._last = 0
        self._hidden: set[str] = set()
        self._style = ""

    def start(self, name: str, attributes: Attributes) -> None:
        if name == "table-row":
            self._row += _count(attributes.get(":number-rows-repeated", "1"))
            self._column = self._last = 0
        elif name in ("table-cell", "covered-table-cell"):
            self._column += _count(attributes.get(":number-columns-repeated", "1"))
            if ":value-type" in attributes or ":formula" in attributes:
                self._last = self._column
        elif name == "p" and self.path[-2] == "table-cell":
            self._last = self._column
        elif name == "table" and self.path[:-1] == ["document-content", "body", "spreadsheet"]:
            self._row = 0
            told = {"name": attributes.get(":name", "")[:_MOST_NAME], "rows": 0, "columns": 0}
            self.found.append({**told, "hidden": True} if attributes.get(":style-name") in self._hidden else told)
        elif name == "style":
            self._style = attributes.get(":name", "")
        elif name == "table-properties" and attributes.get(":display") == "false":
            self._hidden.add(self._style)

    def end(self, name: str) -> None:
        if name == "table-row" and self._last and self.found:
            table = self.found[-1]
            table["rows"] = self._row
            table["columns"] = max(table["columns"], self._last)


def document(package: Package) -> dict[str, Any]:
    """DOCX."""
    told = Paragraphs("body", frozenset({"t"}))
    package.walk(package.main("word/document.xml"), told)
    pages, words = (package.found("docProps/app.xml", "Properties", name) for name in ("Pages", "Words"))
    return _written(told, pages[-1][""] if pages else "", words[-1][""] if words else "")


def text(package: Package) -> dict[str, Any]:
    """ODT."""
    told = Paragraphs("text", frozenset())
    package.walk("content.xml", told)
    path = ("document-meta", "meta", "document-statistic")
    last = (package.found("meta.xml", *path) or [{}])[-1]
    return _written(told, last.get(":page-count", ""), last.get(":word-count", ""))


def _written(told: Paragraphs, pages: str, words: str) -> dict[str, Any]:
    """Only who sets a text knows its pages; what it says of them is of this text if it counted about as many words.

    A text without words fits every template. LibreOffice counts the words of footnotes, too.
    """
    facts = {"paragraphs": told.paragraphs, "words": told.words}
    if not (_is_count(pages) and _is_count(words) and int(pages) and int(words)):
        return facts
    fits = told.words <= 2 * int(words) and int(words) <= 2 * (told.words + told.noted)
    return {"pages": int(pages), **facts} if fits else facts


def workbook(package: Package) -> dict[str, Any]:
    """XLSX."""
    main = package.main("xl/workbook.xml")
    targets = package.related(main)
    listed = package.found(main, "workbook", "sheets", "sheet")
    return _listed(
        [_sheet(package, item, targets.get(item.get(":id", ""), "")) for item in listed[:_MOST_NAMES]], len(listed)
    )


def _listed(sheets: list[dict[str, Any]], count: int) -> dict[str, Any]:
    left_out = count - _MOST_NAMES
    return {"sheets": sheets[:_MOST_NAMES], **({"left_out": left_out} if left_out > 0 else {})}


def _sheet(package: Package, item: Attributes, target: str) -> dict[str, Any]:
    """A sheet that is a chart has no cells."""
    told: dict[str, Any] = {"name": item.get("name", "")[:_MOST_NAME]}
    if item.get("state") in _HIDDEN:
        told["hidden"] = True
    if "worksheets/" not in target:
        return told
    cells = Cells()
    try:
        package.walk(target, cells)
    except Ended as ended:
        if ended.facts:
            raise
        return told
    return {**told, "rows": cells.rows, "columns": cells.columns}


def tables(package: Package) -> dict[str, Any]:
    """ODS."""
    found = Tables()
    package.walk("content.xml", found)
    return _listed(found.found, len(found.found))


def slides(package: Package) -> dict[str, Any]:
    """PPTX."""
    main = package.main("ppt/presentation.xml")
    listed = package.found(main, "presentation", "sldIdLst", "sldId")
    targets = package.related(main) if listed else {}
    for item in listed:
        part = targets.get(item.get(":id", ""), "")
        if part not in package.names:
            raise Broken(f"there is no slide {part[:_MOST_NAME]!r} in it")
    return {"slides": len(listed)}


def pages(package: Package) -> dict[str, Any]:
    """ODP."""
    return {"slides": len(package.found("content.xml", "document-content", "body", "presentation", "page"))}


@functools.lru_cache(1024)
def _number(letters: str) -> int:
    """A column's letters as its number from 1."""
    if len(letters) > 3 or not (letters.isascii() and letters.isupper()):
        raise Broken(f"a cell is in column {letters[:_MOST_NAME]!r}")
    number = 0
    for letter in letters:
        number = 26 * number + ord(letter) - ord("A") + 1
    return number


def _count(digits: str) -> int:
    if not _is_count(digits):
        raise Broken(f"{digits[:_MOST_NAME]!r} is no number of rows or columns")
    return int(digits)


def _is_count(digits: str) -> bool:
    return digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS


def read(path: str, reader: Callable[[Package], dict[str, Any]]) -> dict[str, Any]:
    """What a reader tells of a file.

    Raises:
        Broken: Nothing can be read in it.
    """
    try:
        _look_outside(path)
        with zipfile.ZipFile(path) as book:
            package = Package(book)
            if package.found("META-INF/manifest.xml", "manifest", "file-entry", "encryption-data"):
                raise Ended(encrypted=True)
            return reader(package)
    except Ended as ended:
        return dict(ended.facts)
    except (*_DAMAGED, LookupError, ValueError) as error:
        raise Broken(_first(error)) from None


def _look_outside(path: str) -> None:
    """An encrypted document of Office is no zip ([MS-OFFCRYPTO] §2.3.4.4); a zip's end says how much it lists."""
    with open(path, "rb") as file:
        if file.read(len(_OLE)) == _OLE:
            if _ENCRYPTED in file.read():
                raise Ended(encrypted=True)
            raise Broken("it is a document of an older kind")
        file.seek(max(0, file.seek(0, os.SEEK_END) - _MOST_END_BYTES))
        tail = file.read()
    at = tail.rfind(_END)
    directory_bytes = int.from_bytes(tail[at + 12 : at + 16], "little")
    is_large = at >= _LARGE_END_BYTES and tail.startswith(_LARGE_END, at - _LARGE_END_BYTES)
    if at >= 0 and (is_large or directory_bytes > _MOST_DIRECTORY_BYTES):
        raise Ended


def _first(error: BaseException) -> str:
    said = error.args[0] if isinstance(error, KeyError) and error.args else error
    return (str(said).splitlines() or [type(error).__name__])[0][:200]


READERS: Final[dict[str, Callable[[Package], dict[str, Any]]]] = {
    f"{_OFFICE}wordprocessingml.document": document,
    f"{_OFFICE}spreadsheetml.sheet": workbook,
    f"{_OFFICE}presentationml.presentation": slides,
    f"{_OPEN}text": text,
    f"{_OPEN}spreadsheet": tables,
    f"{_OPEN}presentation": pages,
}


def main(path: str, media_type: str) -> None:
    answer: dict[str, Any] = {"facts": {}}
    try:
        answer["facts"] = read(path, READERS[media_type])
    except Broken as error:
        answer["problem"] = str(error)
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
