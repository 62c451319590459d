"""What results know of office documents, and what hostile ones achieve: nothing."""

import io
import struct
import zipfile

import pytest

import groundbox as gb
from groundbox.sandbox.inspection import kinds, packages

TYPES = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
SLIDES = "http://schemas.openxmlformats.org/presentationml/2006/main"
SHEETS = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OPEN = "urn:oasis:names:tc:opendocument:xmlns"
NAMES = " ".join(
    f'xmlns:{name}="{OPEN}:{long}:1.0"'
    for name, long in [
        ("office", "office"),
        ("text", "text"),
        ("table", "table"),
        ("draw", "drawing"),
        ("style", "style"),
        ("meta", "meta"),
        ("manifest", "manifest"),
    ]
)


def zipped(parts, method=zipfile.ZIP_DEFLATED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as book:
        for name, content in parts.items():
            stored = zipfile.ZIP_STORED if name == "mimetype" else method
            book.writestr(name, content, stored)
    return file.getvalue()


def related(**targets):
    items = "".join(f'<Relationship Id="{key}" Type="{TYPES}/x" Target="{target}"/>' for key, target in targets.items())
    return (
        f'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{items}</Relationships>'
    )


def office(main, parts, **others):
    rels = related(rId1=main).replace(f"{TYPES}/x", f"{TYPES}/officeDocument")
    return zipped({"[Content_Types].xml": "<Types/>", "_rels/.rels": rels, **parts}, **others)


def words(body, **parts):
    return {"word/document.xml": f'<w:document xmlns:w="{WORD}"><w:body>{body}</w:body></w:document>', **parts}


def docx(body, app="", **others):
    parts = {"docProps/app.xml": f"<Properties>{app}</Properties>"} if app else {}
    return office("word/document.xml", {**words(body), **parts}, **others)


def paragraph(text):
    return f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"


def pptx(slides, missing=0):
    listed = "".join(f'<p:sldId id="{256 + n}" r:id="rId{n}"/>' for n in range(slides))
    section = '<p:extLst><p:ext><s:sectionLst xmlns:s="s"><s:section><s:sldIdLst><s:sldId id="256"/></s:sldIdLst>'
    section += "</s:section></s:sectionLst></p:ext></p:extLst>"
    names = f'xmlns:p="{SLIDES}" xmlns:r="{TYPES}"'
    main = f"<p:presentation {names}><p:sldIdLst>{listed}</p:sldIdLst>{section}</p:presentation>"
    parts = {
        "ppt/presentation.xml": main,
        "ppt/_rels/presentation.xml.rels": related(**{f"rId{n}": f"slides/slide{n}.xml" for n in range(slides)}),
        **{f"ppt/slides/slide{n}.xml": "<sld/>" for n in range(slides - missing)},
    }
    return office("ppt/presentation.xml", parts)


def xlsx(*rows, more=""):
    book = f'<workbook xmlns="{SHEETS}" xmlns:r="{TYPES}"><sheets><sheet name="A" r:id="rId1"/></sheets></workbook>'
    sheet = f'<worksheet xmlns="{SHEETS}"><sheetData>{"".join(rows)}</sheetData>{more}</worksheet>'
    parts = {"xl/_rels/workbook.xml.rels": related(rId1="/xl/worksheets/a.xml"), "xl/worksheets/a.xml": sheet}
    return office("xl/workbook.xml", {"xl/workbook.xml": book, **parts})


def workbook(*names, first="visible", blanks=0):
    """Sheets as LibreOffice writes them, all with the same cells."""
    listed = "".join(
        f'<sheet name="{name}" sheetId="{number + 1}" state="{"visible" if number else first}" r:id="rId{number + 3}"/>'
        for number, name in enumerate(names)
    )
    cells = '<c r="A1" s="0" t="s"><v>0</v></c><c r="B1" s="0" t="b"><v>1</v></c><c r="C1" s="0"></c>'
    row = f'<row r="1" customFormat="false" ht="12.8" hidden="false" outlineLevel="0">{cells}</row>'
    sheet = (
        f'<worksheet xmlns="{SHEETS}"><dimension ref="A1:C1"/><sheetData>{row}{" " * blanks}</sheetData></worksheet>'
    )
    parts = {
        "xl/workbook.xml": f'<workbook xmlns="{SHEETS}" xmlns:r="{TYPES}"><sheets>{listed}</sheets></workbook>',
        "xl/worksheets/sheet1.xml": sheet,
        "xl/_rels/workbook.xml.rels": related(
            **{f"rId{number + 3}": "worksheets/sheet1.xml" for number in range(len(names))}
        ),
    }
    return office("xl/workbook.xml", parts)


def opened(kind, body, styles="", **parts):
    media_type = f"application/vnd.oasis.opendocument.{kind}"
    content = f"<office:document-content {NAMES}>{styles}<office:body>{body}</office:body></office:document-content>"
    return zipped({"mimetype": media_type, "content.xml": content, **parts})


def odt(body, statistic=""):
    meta = f"<office:document-meta {NAMES}><office:meta>{statistic}</office:meta></office:document-meta>"
    return opened("text", f"<office:text>{body}</office:text>", **({"meta.xml": meta} if statistic else {}))


def ods(rows, style="ta1"):
    styles = "".join(
        f'<style:style style:name="{name}" style:family="table"><style:table-properties table:display="{shown}"/>'
        "</style:style>"
        for name, shown in [("ta1", "true"), ("hid", "false")]
    )
    table = f'<table:table table:name="Sheet 1" table:style-name="{style}">{rows}</table:table>'
    return opened(
        "spreadsheet",
        f"<office:spreadsheet>{table}</office:spreadsheet>",
        f"<office:automatic-styles>{styles}</office:automatic-styles>",
    )


@pytest.fixture(scope="module")
def box():
    with gb.Sandbox(limits=gb.Limits(wall_s=60)) as opened:
        yield opened


def looked_at(box, name, content):
    """The artifact, and the problems that warnings tell of it."""
    box.files.write("made", content)
    execution = box.run(f"import os; os.rename('made', {name!r})")
    assert execution.ok, execution.error
    box.files.remove(name)
    return execution.artifacts[name], [warning.message for warning in execution.warnings]


TEXT = paragraph("Two words") + paragraph("") + paragraph("one")
PAGES = "<Pages>4</Pages><Words>{}</Words>"
STATISTIC = '<meta:document-statistic meta:page-count="2" meta:word-count="{}"/>'
NESTED = (
    "<w:p><w:r><w:t>before</w:t><w:tab/><w:t>af</w:t></w:r><w:r><w:t>ter</w:t>"
    "<mc:AlternateContent xmlns:mc='mc'><mc:Choice><w:txbxContent><w:p><w:r><w:t>in a box</w:t></w:r></w:p>"
    "</w:txbxContent></mc:Choice><mc:Fallback><w:p><w:r><w:t>in a box</w:t></w:r></w:p></mc:Fallback>"
    "</mc:AlternateContent></w:r><w:r><w:delText>never was</w:delText></w:r></w:p>"
)
ODT = (
    "<text:tracked-changes><text:p>gone</text:p></text:tracked-changes><text:h>A title</text:h>"
    "<text:p>of<text:s/>four<text:note><text:p>not counted</text:p></text:note> "
    "<text:span>wo</text:span>rds</text:p><text:p/>"
)
FOOTNOTE = (
    '<text:note text:note-class="footnote"><text:note-citation>1</text:note-citation>'
    "<text:note-body><text:p>Eight words that stand below of the page</text:p></text:note-body></text:note>"
)
CELL = '<table:table-cell office:value-type="float"/>'
ODS = (
    f'<table:table-row>{CELL}<table:table-cell table:number-columns-repeated="2"/>{CELL}'
    '<table:table-cell table:number-columns-repeated="16380"/></table:table-row>'
    '<table:table-row table:number-rows-repeated="5"><table:table-cell/></table:table-row>'
    f'<table:table-header-rows><table:table-row table:number-rows-repeated="3">{CELL}</table:table-row>'
    "</table:table-header-rows>"
    '<table:table-row table:number-rows-repeated="1048567"><table:table-cell/></table:table-row>'
)


@pytest.mark.parametrize(
    ("name", "content", "facts", "about"),
    [
        ("a.docx", docx(TEXT), {"paragraphs": 2, "words": 3}, "2 paragraphs, 3 words"),
        ("a.docx", docx(NESTED), {"paragraphs": 2, "words": 5}, "2 paragraphs, 5 words"),
        ("a.docx", docx(""), {"paragraphs": 0, "words": 0}, "0 paragraphs, 0 words"),
        (
            "a.docx",
            docx(TEXT, PAGES.format(3)),
            {"pages": 4, "paragraphs": 2, "words": 3},
            "4 pages, 2 paragraphs, 3 words",
        ),
        ("a.docx", docx(TEXT, PAGES.format(0)), {"paragraphs": 2, "words": 3}, "2 paragraphs, 3 words"),
        ("a.docx", docx(TEXT, PAGES.format(7)), {"paragraphs": 2, "words": 3}, "2 paragraphs, 3 words"),
        ("a.docx", docx(TEXT, PAGES.format("9" * 5000)), {"paragraphs": 2, "words": 3}, "2 paragraphs, 3 words"),
        ("a.odt", odt(ODT), {"paragraphs": 2, "words": 5}, "2 paragraphs, 5 words"),
        (
            "a.odt",
            odt(ODT, STATISTIC.format(5)),
            {"pages": 2, "paragraphs": 2, "words": 5},
            "2 pages, 2 paragraphs, 5 words",
        ),
        ("a.odt", odt(ODT, STATISTIC.format(50)), {"paragraphs": 2, "words": 5}, "2 paragraphs, 5 words"),
        ("a.odt", odt("<text:p/>", STATISTIC.format(0)), {"paragraphs": 0, "words": 0}, "0 paragraphs, 0 words"),
        (
            "a.odt",
            odt(f"<text:p>Short{FOOTNOTE}.</text:p>", STATISTIC.format(9)),
            {"pages": 2, "paragraphs": 1, "words": 1},
            "2 pages, 1 paragraph, 1 word",
        ),
        (
            "a.docx",
            docx(paragraph("日本語の文、\u3000ひとつ。") + paragraph("두 단어 和 words"), PAGES.format(14)),
            {"pages": 4, "paragraphs": 2, "words": 14},
            "4 pages, 2 paragraphs, 14 words",
        ),
        ("a.pptx", pptx(3), {"slides": 3}, "3 slides"),
        ("a.pptx", pptx(0), {"slides": 0}, "0 slides"),
        (
            "a.odp",
            opened("presentation", "<office:presentation><draw:page/><draw:page/></office:presentation>"),
            {"slides": 2},
            "2 slides",
        ),
        (
            "a.ods",
            ods(ODS),
            {"sheets": [{"name": "Sheet 1", "rows": 9, "columns": 4}]},
            "1 sheet: Sheet 1 (9 rows × 4 columns)",
        ),
        (
            "a.ods",
            ods(""),
            {"sheets": [{"name": "Sheet 1", "rows": 0, "columns": 0}]},
            "1 sheet: Sheet 1 (0 rows × 0 columns)",
        ),
        (
            "a.ods",
            ods("", style="hid"),
            {"sheets": [{"name": "Sheet 1", "rows": 0, "columns": 0, "hidden": True}]},
            "1 sheet: Sheet 1 (hidden, 0 rows × 0 columns)",
        ),
        (
            "a.xlsx",
            xlsx(
                '<row r="1"><c r="A1"><v>1</v></c></row><row r="9"><c r="D9" s="1"/></row>',
                more="<extLst><ext><cfs><cf><cfRule><xm:f xmlns:xm='xm'>A1</xm:f></cfRule></cf></cfs></ext></extLst>",
            ),
            {"sheets": [{"name": "A", "rows": 1, "columns": 1}]},
            "1 sheet: A (1 row × 1 column)",
        ),
        (
            "a.xlsx",
            workbook(*(f"s{number}" for number in range(60)), first="veryHidden"),
            {
                "sheets": [
                    {"name": "s0", "rows": 1, "columns": 2, "hidden": True},
                    *({"name": f"s{number}", "rows": 1, "columns": 2} for number in range(1, 50)),
                ],
                "left_out": 10,
            },
            "60 sheets: s0 (hidden, 1 row × 2 columns), s1 (1 row × 2 columns), s2 (1 row × 2 columns), 57 more",
        ),
        (
            "a.xlsx",
            xlsx(
                '<row r="2"><c r="AB2"><v>1</v></c></row>',
                "<row><c/><c><f>A1</f></c></row>",
                '<row r="90"><c r="A90" s="1"/></row>',
            ),
            {"sheets": [{"name": "A", "rows": 3, "columns": 28}]},
            "1 sheet: A (3 rows × 28 columns)",
        ),
    ],
)
def test_documents_are_told_what_they_are(box, name, content, facts, about):
    artifact, problems = looked_at(box, name, content)

    assert (artifact.facts, artifact.about, problems) == (facts, about, [])
    assert artifact.media_type in kinds.DOCUMENTS


def test_a_document_goes_by_what_it_is_and_not_by_its_name(box):
    seen = [
        looked_at(box, name, content)
        for name, content in [("a.txt", docx(TEXT)), ("a", odt(ODT)), ("a.pptx", xlsx()), ("a.zip", pptx(1))]
    ]

    assert [artifact.media_type for artifact, _ in seen] == [kinds.DOCX, kinds.ODT, kinds.XLSX, kinds.PPTX]
    assert [problems for _, problems in seen] == [
        [],
        [],
        [f"a.pptx cannot be read: its content is {kinds.XLSX}, and its name says {kinds.PPTX}"],
        [],
    ]


BOMB = docx(paragraph("x " * (40 << 20)))
ENTITIES = '<!DOCTYPE a [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]>'
OUTSIDE = '<!DOCTYPE a [<!ENTITY a SYSTEM "file:///etc/passwd">]>'
LOCKED = f"<manifest:manifest {NAMES}><manifest:file-entry><manifest:encryption-data/></manifest:file-entry>"
LOCKED += "</manifest:manifest>"
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(1000)


def declared(doctype):
    main = f'{doctype}<w:document xmlns:w="{WORD}"><w:body><w:p><w:t>&a;</w:t></w:p></w:body></w:document>'
    return office("word/document.xml", {"word/document.xml": main})


def claimed_smaller(content):
    """The directory says that the first part that is long has ten bytes."""
    at = content.index(b"PK\x01\x02")
    while struct.unpack("<I", content[at + 24 : at + 28])[0] < 10_000:
        at = content.index(b"PK\x01\x02", at + 4)
    return content[: at + 24] + struct.pack("<I", 10) + content[at + 28 :]


def damaged(content):
    """The packed bytes of the part are others."""
    at = content.index(b"word/document.xml") + len(b"word/document.xml")
    return content[:at] + b"\xff" * 20 + content[at + 20 :]


def of_the_directory(content, offset, value):
    """One byte of each entry of the directory is another."""
    data = bytearray(content)
    at = data.find(b"PK\x01\x02")
    while at >= 0:
        data[at + offset] = value
        at = data.find(b"PK\x01\x02", at + 4)
    return bytes(data)


@pytest.mark.parametrize(
    ("name", "content", "facts", "problem"),
    [
        ("a.docx", BOMB, {}, ""),
        ("a.ods", opened("spreadsheet", " " * (65 << 20)), {}, ""),
        ("a.odt", opened("text", " " * (17 << 20)), {}, ""),
        ("a.xlsx", workbook("A", blanks=65 << 20), {"sheets": [{"name": "A"}]}, ""),
        ("a.xlsx", xlsx("<a>" * 5000), {"sheets": [{"name": "A"}]}, ""),
        ("a.docx", docx("<w:p>" * 5000), {}, ""),
        ("a.docx", docx(TEXT, method=zipfile.ZIP_LZMA), {}, "packed in a way that documents are not"),
        ("a.docx", zipped({f"word/{n}": "" for n in range(100_000)}, zipfile.ZIP_STORED), {}, ""),
        ("a.docx", claimed_smaller(docx(paragraph("x" * 20_000))), {}, "Bad CRC-32"),
        ("a.docx", declared(ENTITIES), {}, "declares entities"),
        ("a.docx", declared(OUTSIDE), {}, "declares entities"),
        ("a.docx", of_the_directory(docx(TEXT), 6, 255), {}, "zip file version 25.5"),
        ("a.docx", damaged(docx(TEXT)), {}, "Error -3 while decompressing data"),
        ("a.docx", office("word/document.xml", {}), {}, "There is no item named 'word/document.xml' in the archive"),
        ("a.docx", office("../../etc/passwd", words(TEXT)), {}, "There is no item named '../../etc/passwd'"),
        ("a.pptx", pptx(3, missing=1), {}, "there is no slide 'ppt/slides/slide2.xml' in it"),
        ("a.odp", zipped({"mimetype": kinds.ODP}), {}, "There is no item named 'content.xml' in the archive"),
        ("a.docx", docx("<w:p>"), {}, "mismatched tag"),
        ("a.docx", docx(TEXT)[:-30], {}, "File is not a zip file"),
        ("a.docx", b"words", {}, "its content is text/plain, and its name says"),
        ("a.docx", b"", {}, "it is empty"),
        ("a.docx", OLE, {}, "it is a document of an older kind"),
        ("a.docx", OLE + "EncryptedPackage".encode("utf-16-le"), {"encrypted": True}, ""),
        ("a.odt", OLE, {}, "its content is application/x-ole-storage, and its name says"),
        ("a.docx", of_the_directory(docx(TEXT), 8, 1), {"encrypted": True}, ""),
        ("a.odt", opened("text", "", **{"META-INF/manifest.xml": LOCKED}), {"encrypted": True}, ""),
        ("a.xlsx", xlsx(f'<row r="{"9" * 5000}"><c><v/></c></row>'), {}, "is no number of rows"),
        ("a.xlsx", xlsx('<row><c r="ÄÖ1"><v/></c></row>'), {}, "a cell is in column 'ÄÖ'"),
        ("a.xlsx", xlsx('<row r="1048577"><c><v/></c></row>'), {}, "no row 1048577 or no column 0"),
        ("a.xlsx", xlsx('<row r="1048576"/><row><c><v/></c></row>'), {}, "no row 1048577 or no column 0"),
        ("a.xlsx", xlsx('<row><c r="XFE1"><v/></c></row>'), {}, "no row 1 or no column 16385"),
        ("a.xlsx", xlsx('<row><c r="XFD1"/><c><v/></c></row>'), {}, "no row 1 or no column 16385"),
        ("a.ods", ods('<table:table-row table:number-rows-repeated="-1"/>'), {}, "'-1' is no number of rows"),
    ],
)  # fmt: skip
def test_hostile_documents_are_told_as_broken_or_not_at_all(box, name, content, facts, problem):
    artifact, problems = looked_at(box, name, content)

    assert artifact.facts == facts
    assert [problem in said for said in problems] == ([True] if problem else []), problems


def test_the_last_cell_of_the_largest_sheet_is_counted(box):
    artifact, problems = looked_at(box, "a.xlsx", xlsx('<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'))

    assert artifact.facts == {"sheets": [{"name": "A", "rows": 1_048_576, "columns": 16_384}]}
    assert problems == []


def test_a_text_in_many_pieces_is_put_together_once():
    copied = []

    class Piece(str):
        __slots__ = ()

        def __radd__(self, before):
            copied.append(len(before))
            return str(before) + str(self)

    elements = packages.Elements(("Properties", "Pages"))
    elements.open("Properties", {})
    for text in ("a", "b"):
        elements.open("Pages", {})
        for _ in range(1000):
            elements.text(Piece(text))
            elements.open("x", {})
            elements.text(Piece("not its own"))
            elements.close("x")
        elements.close("Pages")

    assert elements.found == [{"": "a" * 1000}, {"": "b" * 1000}]
    assert sum(copied) <= 2000


@pytest.mark.parametrize(
    ("content", "touched"),
    [
        (docx(paragraph("x" * (17 << 20))), (zipfile.ZipExtFile, "read")),
        (zipped({f"word/{n}": "" for n in range(100_000)}, zipfile.ZIP_STORED), (zipfile, "ZipFile")),
    ],
)
def test_what_is_too_large_is_not_unpacked(tmp_path, monkeypatch, content, touched):
    def fail(*_):
        raise AssertionError("it was unpacked")

    content = content.replace(b"_rels/.rels", b"_rels/_rels")
    (tmp_path / "file").write_bytes(content)
    monkeypatch.setattr(*touched, fail)

    assert packages.read(str(tmp_path / "file"), packages.READERS[kinds.DOCX]) == {}


def test_all_parts_together_are_bounded(tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(workbook("A", "B", "C", "D", "E", blanks=31 << 20))
    monkeypatch.setattr(packages, "_MOST_S", 1e9)

    facts = packages.read(str(tmp_path / "file"), packages.READERS[kinds.XLSX])

    assert ["rows" in told for told in facts["sheets"]] == [True] * 4 + [False]


def test_a_sheet_that_takes_too_long_is_told_by_its_name(tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(workbook("A"))
    listed, target = {"name": "A"}, "xl/worksheets/sheet1.xml"

    quick = packages.read(str(tmp_path / "file"), lambda package: packages._sheet(package, listed, target))
    monkeypatch.setattr(packages, "_MOST_S", 0.0)
    slow = packages.read(str(tmp_path / "file"), lambda package: packages._sheet(package, listed, target))

    assert quick == {"name": "A", "rows": 1, "columns": 2}
    assert slow == {"name": "A"}
    assert packages.read(str(tmp_path / "file"), packages.READERS[kinds.XLSX]) == {}
