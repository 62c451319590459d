"""examples/demo.py: every program does what it is there to show, and the page holds it safely."""

import base64
import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"


class Tags(HTMLParser):
    """Every element of a page, with its attributes."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))

    def all(self, tag):
        return [attributes for name, attributes in self.found if name == tag]


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The demo's folder and what it printed."""
    folder = tmp_path_factory.mktemp("demo") / "out"
    ran = subprocess.run([sys.executable, EXAMPLES / "demo.py", folder], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return folder, ran.stdout


def test_the_terminal_shows_every_kind_of_end(demo):
    _, shown = demo

    assert "hint: Did you mean `Revenue`?" in shown
    assert "Timeout: the program was stopped at wall_s=1.0" in shown
    assert "'the variables are still there: steps > 1000 is True'" in shown
    assert "The network is off in this sandbox." in shown
    assert "OutOfMemory: the kernel ended the program at memory_bytes=536870912" in shown
    assert "root:" not in shown
    assert [line for line in shown.splitlines() if line.startswith("10 cells of 8 programs in ")]


def test_one_conversation_mends_an_error_and_one_what_is_quietly_wrong(demo):
    folder, _ = demo

    observed = {}
    for name in ("mended_error", "silent_error"):
        transcript = (folder / "conversations" / name / "transcript.jsonl").read_text(encoding="utf-8")
        events = [json.loads(line) for line in transcript.splitlines()[1:]]
        observed[name] = [each["observation"] for each in events if each["event"] == "observed"]
        assert (events[-1]["ending"], events[-1]["unsupported"]) == ("answered", [])
    assert "did you mean `'revenue'`?" in observed["mended_error"][1]
    assert "note pandas.merge_multiplied: line 3: a join on 'customer' made 48 rows" in observed["silent_error"][1]


def test_a_dataset_is_built_and_a_run_can_be_stepped_through(demo):
    folder, shown = demo

    report = json.loads((folder / "dataset" / "report.json").read_text(encoding="utf-8"))
    assert report["samples"] > 0
    assert report["traced"] == report["runnable"] == report["items"]
    assert "So main_solution returns {'10': 2, '1': 3, 'rest': 0}." in shown
    assert "<script" in (folder / "trace.html").read_text(encoding="utf-8")


def test_questions_are_answered_by_programs(demo):
    folder, shown = demo

    assert "South had the highest revenue in 2025 with 18005." in shown
    assert (folder / "conversations" / "silent_error" / "run-3" / "chart.pdf").read_bytes().startswith(b"%PDF")
    assert (folder / "conversations" / "sql_chart" / "run-3" / "display-1.png").read_bytes().startswith(b"\x89PNG")


def test_the_folder_holds_the_files(demo):
    folder, _ = demo

    found = {str(path.relative_to(folder)): path.read_bytes()[:4] for path in folder.rglob("*.*") if path.is_file()}
    assert found["1_sales/cell-2/display-1.png"] == b"\x89PNG"
    assert found["2_heat/display-1.png"] == b"\x89PNG"
    assert found["3_report/stock.pdf"] == b"%PDF"
    assert found["3_report/stock.xlsx"] == b"PK\x03\x04"


def test_the_page_loads_nothing_and_runs_nothing(demo):
    folder, _ = demo
    tags = Tags()

    tags.feed((folder / "index.html").read_text())

    policies = [each["content"] for each in tags.all("meta") if "http-equiv" in each]
    assert policies == ["default-src 'none'; img-src data:; style-src 'unsafe-inline'"]
    assert tags.all("script") == tags.all("link") == []
    assert len(tags.all("img")) == 2
    assert all(each["src"].startswith("data:image/png;base64,") for each in tags.all("img"))
    assert len(tags.all("iframe")) == 2
    assert all(each["sandbox"] is None and "src" not in each for each in tags.all("iframe"))
    assert all((folder / unquote(each["href"])).is_file() for each in tags.all("a"))


def test_the_index_leads_to_everything_that_was_made(demo):
    folder, shown = demo
    tags = Tags()

    tags.feed((folder / "index.html").read_text())

    linked = {unquote(each["href"]) for each in tags.all("a")}
    made = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert {path for path in made if not path.startswith("dataset/.")} - linked == {"index.html"}
    assert {
        f"conversations/{name}/conversation.html" for name in ("mended_error", "silent_error", "sql_chart")
    } < linked
    assert f"open {folder / 'index.html'}, which leads to everything that was made" in shown


def test_no_label_of_the_chart_in_the_pdf_is_cut(demo):
    folder, _ = demo

    pdf = (folder / "conversations" / "silent_error" / "run-3" / "chart.pdf").read_bytes()

    # Matplotlib's page is 4.8 inches high; the labels below the bars need more than is left below its axes.
    height = float(re.search(rb"/MediaBox \[ ?[\d.]+ [\d.]+ [\d.]+ ([\d.]+)", pdf)[1])
    assert height > 4.8 * 72


HOSTILE = """
from IPython.display import HTML, display
print("</pre><script>alert(1)</script>")
display(HTML("</iframe><script>alert(2)</script><img src=http://example.org/x>"))
open("<img src=x>'.txt", "w").close()
raise ValueError("<script>alert(3)</script>")
"""


def test_hostile_output_stays_text(tmp_path):
    code = f"""
import sys; sys.path.insert(0, {str(EXAMPLES)!r})
import demo, demo_page, pathlib
program = pathlib.Path("9_hostile.py")
program.write_text('"about <b>"\\n# %%\\n' + {HOSTILE!r})
print(demo_page.page([demo.demonstrate(program, pathlib.Path("out"))]), file=sys.stderr)
"""

    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path, env=os.environ
    )

    tags = Tags()
    tags.feed(ran.stderr)
    (frame,) = tags.all("iframe")
    assert tags.all("script") == tags.all("img") == []
    assert frame["sandbox"] is None
    assert frame["srcdoc"].endswith("<script>alert(2)</script><img src=http://example.org/x>")
    assert len(tags.all("a")) == 1


def test_pictures_on_the_page_are_the_files(demo):
    folder, _ = demo
    tags = Tags()
    tags.feed((folder / "index.html").read_text())

    shown = [base64.b64decode(each["src"].partition(",")[2]) for each in tags.all("img")]

    assert shown == [
        (folder / "1_sales/cell-2/display-1.png").read_bytes(),
        (folder / "2_heat/display-1.png").read_bytes(),
    ]
