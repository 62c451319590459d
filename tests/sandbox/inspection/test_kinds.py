"""Kinds and sizes of files by their first bytes."""

import struct

import pytest

from groundbox.sandbox.inspection.kinds import DOCX, ODS, PARQUET, PPTX, SQLITE, XLSX, kind_of, size_of

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 640, 480)
ZIP = b"PK\x03\x04\x14\0\0\0\x08\0"
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(8)


def zip_of(*names, content=b"", streamed=False):
    """The head of a zip; what is streamed has its sizes behind it."""
    size = 0 if streamed else len(content)
    entries = [
        struct.pack("<4sHHH", b"PK\x03\x04", 20, 8 * streamed, 0)
        + bytes(8)
        + struct.pack("<IIHH", size, size, len(name), 0)
        + name.encode()
        + content
        for name in names
    ]
    return b"".join(entries)


@pytest.mark.parametrize(
    ("path", "head", "kind"),
    [
        ("chart.png", PNG, ("image/png", "")),
        ("chart", PNG, ("image/png", "")),
        ("chart.jpg", PNG, ("image/png", "image/jpeg")),
        ("notes.txt", b"%PDF-1.7\n", ("application/pdf", "text/plain")),
        ("report.pdf", b"<html>no PDF", ("text/plain", "application/pdf")),
        ("report.pdf", b"\0\1\2\xff", ("application/octet-stream", "application/pdf")),
        ("report.pdf", b"", ("application/octet-stream", "application/pdf")),
        ("book.xlsx", ZIP, (XLSX, "")),
        ("letter.odt", ZIP, ("application/vnd.oasis.opendocument.text", "")),
        ("table.parquet", ZIP, ("application/zip", PARQUET)),
        ("arrays.npz", ZIP, ("application/zip", "")),
        ("table.csv.gz", b"\x1f\x8b\x08", ("application/gzip", "")),
        ("a", zip_of("[Content_Types].xml", "word/document.xml"), (DOCX, "")),
        ("a", zip_of("docProps/app.xml", "ppt/presentation.xml", content=b"abc"), (PPTX, "")),
        ("a", zip_of("_rels/.rels", "xl/styles.xml", content=b"abc", streamed=True), (XLSX, "")),
        ("a.xlsx", zip_of("_rels/.rels", "word/styles.xml"), (DOCX, XLSX)),
        ("a.xlsm", zip_of("_rels/.rels", "xl/styles.xml"), ("application/vnd.ms-excel.sheet.macroEnabled.12", "")),
        ("a.zip", zip_of("word/list.txt"), ("application/zip", "")),
        ("a.zip", zip_of("_rels/.rels", "word/a", "xl/a"), ("application/zip", "")),
        ("a.zip", zip_of("inner.docx", content=zip_of("_rels/.rels", "word/a")), ("application/zip", "")),
        ("a", zip_of("mimetype", content=ODS.encode()), (ODS, "")),
        ("a.zip", zip_of("mimetype", content=b"text/html"), ("application/zip", "")),
        ("a", zip_of("_rels/.rels") + zip_of("word/a")[:35], ("application/zip", "")),
        ("a", zip_of("_rels/.rels", streamed=True), ("application/zip", "")),
        ("a.xlsx", OLE, (XLSX, "")),
        ("a.doc", OLE, ("application/msword", "")),
        ("a.ods", OLE, ("application/x-ole-storage", ODS)),
        ("shop.db", b"SQLite format 3\0", (SQLITE, "")),
        ("table.csv", b"a,b\n", ("text/csv", "")),
        ("rows.jsonl", b"{}\n", ("application/jsonl", "")),
        ("unknown", b"words", ("application/octet-stream", "")),
    ],
)
def test_content_says_the_kind_where_it_can_and_the_name_elsewhere(path, head, kind):
    assert tuple(kind_of(path, head)) == kind


@pytest.mark.parametrize(
    "path",
    [
        "data:a/b\ngroundbox: ok,",
        "data:text/html,x",
        "\t/\t/[x",
        "//[x",
        "a/b\r\nX-Evil: 1",
        "x.\x1b[2J",
        "x.html;charset=evil",
        "x.é",
    ],
)
def test_no_path_says_a_kind_of_its_own(path):
    assert kind_of(path, b"words") == ("application/octet-stream", "")


def test_only_the_last_part_of_a_path_counts():
    assert kind_of("a.csv/b", b"").media_type == "application/octet-stream"
    assert kind_of("a.b/C.TAR.GZ", b"\x1f\x8b").media_type == "application/gzip"


def test_a_character_cut_at_the_end_of_what_was_looked_at_is_text_still():
    assert kind_of("a.pdf", b"x" * 4095 + "é".encode()).media_type == "text/plain"


def _jpeg(height, width, before=b""):
    return b"\xff\xd8" + before + b"\xff\xff\xc2\x00\x11\x08" + struct.pack(">HH", height, width)


@pytest.mark.parametrize(
    ("media_type", "head", "size"),
    [
        ("image/png", PNG, (640, 480)),
        ("image/gif", b"GIF89a" + struct.pack("<HH", 3, 4), (3, 4)),
        ("image/jpeg", _jpeg(480, 640, b"\xff\xe0\x00\x04ab\xff\xc4\x00\x03z"), (640, 480)),
        ("image/webp", b"RIFF\0\0\0\0WEBPVP8X" + bytes(8) + b"\x7f\x02\0\xdf\x01\0", (640, 480)),
        ("image/webp", b"RIFF\0\0\0\0WEBPVP8L" + bytes(5) + struct.pack("<I", 639 | 479 << 14), (640, 480)),
        ("image/webp", b"RIFF\0\0\0\0WEBPVP8 " + bytes(10) + struct.pack("<HH", 640, 480), (640, 480)),
        ("image/png", PNG[:20], None),
        ("image/png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(8), None),
        ("image/jpeg", b"\xff\xd8\xff\xe0\xff\xff", None),
        ("image/jpeg", b"\xff\xd8\xff\xda\x00\x02xx", None),
        ("image/webp", b"RIFF\0\0\0\0WEBPVP8?" + bytes(20), None),
        ("text/plain", PNG, None),
    ],
)
def test_sizes_come_from_headers(media_type, head, size):
    found = size_of(media_type, head)

    assert (None if found is None else tuple(found)) == size
