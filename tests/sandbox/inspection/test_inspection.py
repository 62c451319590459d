"""What results know of the files and pictures that a run left."""

import base64
import importlib.resources
import json

import pytest

import groundbox as gb
from groundbox.execution import Usage
from groundbox.facts import words
from groundbox.sandbox.inspection import inspector
from groundbox.sandbox.inspection.kinds import size_of

DOCUMENTS = """
import json, sqlite3
import pandas as pd
from fpdf import FPDF

document = FPDF()
for number in range(3):
    document.add_page()
    document.set_font("helvetica", size=24)
    document.cell(text=f"page {number + 1}")
document.output("report.pdf")
table = pd.DataFrame({"name": ["a", "b", "c"], "size": [1, 2, 3]})
table.to_csv("table.csv", index=False)
table.to_csv("table.tsv", index=False, sep="\\t")
table.to_parquet("table.parquet")
table.to_json("table.jsonl", orient="records", lines=True)
table.to_json("lines.json", orient="records", lines=True)
with open("list.json", "w") as file:
    json.dump([1, 2], file)
with pd.ExcelWriter("book.xlsx") as book:
    table.to_excel(book, sheet_name="Sales", index=False)
    table.head(1).to_excel(book, sheet_name="My Notes")
    pd.DataFrame().to_excel(book, sheet_name="Empty", index=False)
connection = sqlite3.connect("shop.db")
table.to_sql("items", connection, index=False)
connection.close()
"""
COLUMNS = {"columns": 2, "column_names": ["name", "size"]}


@pytest.fixture
def box():
    with gb.Sandbox(limits=gb.Limits(wall_s=60)) as opened:
        yield opened


def test_documents_and_tables_are_told_what_they_are(box):
    execution = box.run(DOCUMENTS)

    assert execution.ok, execution.error
    assert not execution.warnings
    facts = {path: artifact.facts for path, artifact in execution.artifacts.items()}
    assert facts == {
        "book.xlsx": {
            "sheets": [
                {"name": "Sales", "rows": 4, "columns": 2},
                {"name": "My Notes", "rows": 2, "columns": 3},
                {"name": "Empty", "rows": 0, "columns": 0},
            ]
        },
        "lines.json": {"rows": 3},
        "list.json": {"items": 2},
        "report.pdf": {"pages": 3},
        "shop.db": {"tables": [{"name": "items", "rows": 3}]},
        "table.csv": {"rows": 3, **COLUMNS},
        "table.jsonl": {"rows": 3},
        "table.parquet": {"rows": 3, **COLUMNS},
        "table.tsv": {"rows": 3, **COLUMNS},
    }
    json.dumps(execution.to_dict())


def test_a_pdf_has_a_preview_of_its_first_page(box):
    preview = box.run(DOCUMENTS).artifacts["report.pdf"].preview

    size = size_of("image/png", preview)
    assert max(size) <= inspector.PREVIEW_EDGE
    assert size.height / size.width == pytest.approx(297 / 210, abs=0.01)  # A4
    assert len(preview) > 1000, "an empty page would be smaller"


def test_the_json_of_a_result_says_what_a_preview_is_and_does_not_hold_it(box):
    execution = box.run(
        "from PIL import Image\nImage.new('L', (4000, 1000)).save('large.png')\n"
        "Image.new('L', (4, 1)).save('small.png')"
    )

    large, small = execution.to_dict()["artifacts"]
    size_bytes = len(execution.artifacts["large.png"].preview)
    assert large["preview"] == {"media_type": "image/png", "size_bytes": size_bytes, "width": 1024, "height": 256}
    assert small["preview"] is None
    json.dumps([large, small])


def test_pictures_tell_their_size_and_only_large_ones_have_a_preview(box):
    execution = box.run(
        "from PIL import Image\n"
        "Image.new('RGB', (300, 200)).save('small.png')\n"
        "Image.new('RGB', (4000, 1000)).save('large.jpg')\n"
        "Image.new('CMYK', (2000, 1000)).save('print.tiff')\n"
    )

    small, large, tiff = (execution.artifacts[name] for name in ("small.png", "large.jpg", "print.tiff"))
    assert (small.facts, small.preview) == ({"width": 300, "height": 200}, None)
    assert large.facts == {"width": 4000, "height": 1000}
    assert tuple(size_of("image/png", large.preview)) == (1024, 256)
    assert tiff.facts == {"width": 2000, "height": 1000}
    assert tiff.preview is not None


def test_a_display_that_is_too_large_for_models_has_a_preview(box):
    execution = box.run(
        "from PIL import Image\ndisplay(Image.new('L', (3000, 3000)))\ndisplay(Image.new('L', (30, 30)))"
    )

    large, small = execution.displays
    assert tuple(size_of("image/png", large.png)) == (3000, 3000)
    assert tuple(size_of("image/png", large.preview)) == (1024, 1024)
    assert small.preview is None


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("report.pdf", b"words", "its content is text/plain, and its name says application/pdf"),
        ("report.pdf", b"%PDF-1.7\nnothing more", "Failed to load document"),
        ("report.pdf", b"", "it is empty, and its name says application/pdf"),
        ("book.xlsx", b"PK\x03\x04 no more of it", "File is not a zip file"),
        ("chart.png", b"\x89PNG\r\n\x1a\n", "it ends before its size is told"),
        ("table.parquet", b"PAR1 and no end", "Parquet"),
        ("shop.sqlite", b"SQLite format 3\0" + b"\xff" * 200, "file is not a database"),
        ("answer.json", b'{"a": ', "Expecting value"),
        ("rows.jsonl", b'{"a": 1}\n{"a"\n', "line 2: "),
    ],
)
def test_a_file_that_cannot_be_read_is_a_warning(box, name, content, problem):
    execution = box.run(f"open({name!r}, 'wb').write({content!r})")

    (warning,) = execution.warnings
    assert (warning.code, warning.evidence["path"]) == ("artifact.broken", name)
    assert problem in warning.message
    assert execution.artifacts[name].facts == {}


@pytest.mark.parametrize(
    ("content", "facts"),
    [
        (b"", {"rows": 0, "columns": 0, "column_names": []}),
        (b"a;b\r\n1;2\r\n", {"rows": 1, "columns": 2, "column_names": ["a", "b"]}),
        (b'a,b\n"one\ntwo",3\n\n', {"rows": 1, "columns": 2, "column_names": ["a", "b"]}),
        ("größe\n1\n".encode(), {"rows": 1, "columns": 1, "column_names": ["größe"]}),
        (
            "größe\n1\n".encode("latin-1"),
            {"rows": 1, "columns": 1, "column_names": ["größe"], "encoding": "not UTF-8"},
        ),
        (
            "a,b\n1,2\n".encode("utf-16"),
            {"rows": 1, "columns": 2, "column_names": ["a", "b"], "encoding": "UTF-16"},
        ),
    ],
)
def test_tables_as_text_are_read_as_they_are_written(box, content, facts):
    assert box.run(f"open('t.csv', 'wb').write({content!r})").artifacts["t.csv"].facts == facts


def test_names_of_columns_are_bounded(box):
    execution = box.run("open('t.csv', 'w').write(','.join('x' * 1000 for _ in range(5000)))")

    facts = execution.artifacts["t.csv"].facts
    assert facts["columns"] == 5000
    assert (len(facts["column_names"]), len(facts["column_names"][0])) == (50, 80)


def test_a_file_that_breaks_its_reader_takes_no_other_with_it(box, monkeypatch):
    source = (
        "import os, sys\nif sys.argv[1] == 'file.csv':\n    os.kill(os.getppid(), 9)\n    os.kill(os.getpid(), 9)\n"
    )
    read_text = importlib.resources.files(inspector.__package__).joinpath("inside.py").read_text()
    monkeypatch.setattr(inspector, "_source", lambda _: source + read_text)

    execution = box.run("open('a.csv', 'w').write('a')\nopen('b.json', 'w').write('[1]')")

    assert {path: artifact.facts for path, artifact in execution.artifacts.items()} == {
        "a.csv": {},
        "b.json": {"items": 1},
    }


def test_a_file_that_takes_too_long_hides_no_other(box, monkeypatch):
    source = "import sys\nwhile sys.argv[1] == 'file.csv': pass\n" + inspector._source("text/csv")
    monkeypatch.setattr(inspector, "_source", lambda _: source)
    monkeypatch.setattr(inspector, "_LIMITS", gb.Limits(wall_s=1))

    execution = box.run("open('a.csv', 'w').write('a')\nopen('b.json', 'w').write('{')")

    assert [warning.evidence["path"] for warning in execution.warnings] == ["b.json"]


def test_a_database_with_a_log_beside_it_is_not_told_without_it(box):
    execution = box.run(
        "import sqlite3\nc = sqlite3.connect('a.db')\nc.execute('PRAGMA journal_mode=WAL')\n"
        "c.execute('CREATE TABLE t (a)')\nc.execute('INSERT INTO t VALUES (1)')\nc.commit()"
    )

    assert execution.artifacts["a.db"].facts == {}


def test_an_artifact_called_like_a_display_keeps_its_own_facts(box):
    execution = box.run(
        "from PIL import Image\ndisplay(Image.new('L', (3000, 30)))\nopen('display-0', 'wb').write(b'%PDF-1.7 no more')"
    )

    assert execution.artifacts["display-0"].facts == {}
    assert [warning.evidence["path"] for warning in execution.warnings] == ["display-0"]
    assert execution.displays[0].preview is not None


def test_more_files_than_are_looked_at_are_counted_and_take_no_facts_of_others(box):
    count = inspector.MOST_FILES + 3
    execution = box.run(
        f"for n in range({count}): open(f'{{n:02}}.csv', 'w').write('a')\n"
        "from PIL import Image\ndisplay(Image.new('L', (3000, 30)))"
    )

    told = [bool(artifact.facts) for artifact in execution.artifacts.values()]
    assert told == [True] * inspector.MOST_FILES + [False] * 3
    assert all(artifact.preview is None for artifact in execution.artifacts.values())
    assert execution.displays[0].preview is not None
    assert [(warning.code, warning.evidence["count"]) for warning in execution.warnings] == [("artifact.unseen", 3)]


def test_a_name_loses_no_result(box):
    execution = box.run("import os; os.makedirs('\t/\t'); open('\t/\t/[x', 'w').write('a'); print('kept')")

    assert execution.stdout == "kept\n"
    assert [artifact.media_type for artifact in execution.artifacts.values()] == ["application/octet-stream"]


@pytest.mark.parametrize(
    "said",
    [
        "no JSON",
        "[]",
        "[" * 40_000,
        '{"facts": 1}',
        "{}",
        '{"facts": {}, "problem": ""}',
        "",
        '{"facts": {"rows": -1}}',
        '{"facts": {"rows": NaN}}',
        '{"facts": {"rows": 1e999}}',
        '{"facts": {"pages": true}}',
        '{"facts": {"evil": 1}}',
        '{"facts": {"encoding": "\\ud800"}}',
        '{"facts": {"column_names": [' + ", ".join(["1"] * 51) + "]}}",
        '{"facts": {"sheets": [{"name": "a", "rows": 1, "sheets": []}]}}',
    ],
)
def test_what_the_reader_says_is_bounded_and_checked(box, monkeypatch, said):
    forged = f"open('preview.png', 'wb').write(b'<svg onload=alert(1)>')\nimport sys\nsys.stdout.write({said!r})"
    monkeypatch.setattr(inspector, "_source", lambda _: forged)

    artifact = box.run("open('a.csv', 'w').write('a')").artifacts["a.csv"]

    assert (dict(artifact.facts), artifact.preview) == ({}, None)


def test_a_fault_while_looking_loses_no_result(box, monkeypatch):
    def fault(media_type):
        raise OSError("no descriptors left")

    monkeypatch.setattr(inspector, "_source", fault)

    execution = box.run("open('a.csv', 'w').write('a')\nprint('kept')")

    assert (execution.stdout, execution.artifacts["a.csv"].read()) == ("kept\n", b"a")
    (warning,) = execution.warnings
    assert (warning.code, "no descriptors left" in warning.message) == ("artifact.unseen", True)


def test_displays_that_are_no_base64_are_left_alone(box):
    execution = box.run("display({'image/png': 'no base64 é', 'text/plain': 'a'}, raw=True)")

    assert execution.displays[0].preview is None


def test_tables_that_are_not_listed_are_counted(box):
    execution = box.run(
        "import sqlite3\nwith sqlite3.connect('many.db') as made:\n"
        "    for number in range(53):\n        made.execute(f'CREATE TABLE t{number:02} (a)')"
    )

    artifact = execution.artifacts["many.db"]
    assert (len(artifact.facts["tables"]), artifact.facts["left_out"]) == (50, 3)
    assert artifact.about == "53 tables: t00 (0 rows), t01 (0 rows), t02 (0 rows), 50 more"


def test_nothing_is_looked_at_where_that_is_not_wanted():
    with gb.Sandbox(inspect=False) as box:
        artifact = box.run("open('t.csv', 'w').write('a\\n1\\n')").artifacts["t.csv"]

    assert artifact.facts == {}


def test_a_single_run_tells_it_too():
    picture = base64.b64encode(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x05\0\0\0\x07").decode()

    execution = gb.run(f"import base64\nopen('p.png', 'wb').write(base64.b64decode({picture!r}))")

    assert execution.artifacts["p.png"].facts == {"width": 5, "height": 7}


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ({}, ""),
        ({"pages": 1}, "1 page"),
        ({"encrypted": True}, "encrypted"),
        ({"width": 640, "height": 480}, "640 × 480 pixels"),
        ({"rows": 1, "columns": 4, "column_names": []}, "1 row × 4 columns"),
        ({"tables": []}, "0 tables"),
        (
            {"sheets": [{"name": "A", "rows": 1, "columns": 2}, {"name": "B"}, {"name": "C"}, {"name": "D"}]},
            "4 sheets: A (1 row × 2 columns), B, C, 1 more",
        ),
        ({"sheets": [{"name": "A", "hidden": True}], "left_out": 1}, "2 sheets: A (hidden), 1 more"),
        ({"tables": [{"name": "T", "hidden": True, "rows": 1}]}, "1 table: T (hidden, 1 row)"),
    ],
)
def test_facts_in_words(facts, told):
    assert words(facts) == told


@pytest.mark.parametrize(
    ("limits", "used", "memory_bytes", "most_s"),
    [
        ({}, {"wall_s": 0.1, "cpu_s": 0.1}, 1024 * gb.MiB, 10.0),
        ({"memory_bytes": 200 * gb.MiB, "wall_s": 4.0}, {"wall_s": 1.0, "cpu_s": 0.5}, 200 * gb.MiB, 3.0),
        ({"cpu_s": 2.0}, {"wall_s": 1.0, "cpu_s": 1.5}, 1024 * gb.MiB, 0.5),
        ({"wall_s": 1.0}, {"wall_s": 1.1, "cpu_s": 0.5}, 1024 * gb.MiB, 0.0),
        ({"wall_s": None, "cpu_s": None, "memory_bytes": None}, {"wall_s": 99.0, "cpu_s": 99.0}, 1024 * gb.MiB, 10.0),
    ],
)
def test_files_are_looked_at_within_what_the_run_has_left_of_its_limits(limits, used, memory_bytes, most_s):
    asked = gb.Limits(**{"memory_bytes": 4096 * gb.MiB, "wall_s": 30.0, "cpu_s": 30.0, **limits})
    usage = Usage(peak_memory_bytes=None, start_s=0.0, warm=True, **used)

    within, seconds = inspector._within(asked, usage)

    assert within.memory_bytes == memory_bytes
    assert seconds == pytest.approx(most_s)
    assert within.wall_s <= 5.0
    for name in ("disk_bytes", "process_count", "file_count"):
        assert getattr(asked, name) is None or getattr(within, name) <= getattr(asked, name)


def test_a_run_that_has_used_its_time_has_no_files_looked_at(monkeypatch):
    seen = []
    viewer = gb.AsyncSandbox._viewer

    def recorded(box, profile, limits):
        seen.append(limits.memory_bytes)
        return viewer(box, profile, limits)

    monkeypatch.setattr(gb.AsyncSandbox, "_viewer", recorded)
    make = "open('table.csv', 'w').write('a,b\\n1,2\\n')"
    with gb.Sandbox(limits=gb.Limits(memory_bytes=400 * gb.MiB, wall_s=20)) as box:
        within = box.run(make)
        over = box.run(make + "\nimport time; time.sleep(60)", wall_s=1)

    assert within.artifacts["table.csv"].facts["columns"] == 2
    assert not over.ok
    assert seen == [400 * gb.MiB]
