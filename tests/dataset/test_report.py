"""What people read: the numbers, the page, the card, the line of progress."""

import base64
import hashlib
import io
import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import pytest
from test_build import built

from groundbox.dataset import build_statistics, report_page
from groundbox.dataset.build_statistics import Tokenizer, from_file
from groundbox.dataset.cpu_time import BuildClock
from groundbox.dataset.options import BuildOptions
from groundbox.dataset.progress import Line, line

EXAMPLES = Path(__file__).parents[2] / "examples" / "problems"
HEIGHT = "(text) => text.getBoundingClientRect().height"
CUT = "(text) => text.getBoundingClientRect().right > text.closest('.plot').getBoundingClientRect().right"
VOID = {"meta", "rect", "line"}


class Tags(HTMLParser):
    """Fails on a tag that is closed and was not open; remembers what could fetch or run something."""

    def __init__(self):
        super().__init__()
        self.open, self.fetched, self.svgs = [], [], 0

    def handle_starttag(self, tag, attrs):
        self.svgs += tag == "svg"
        self.fetched += [value for name, value in attrs if name in ("src", "href")] + ([tag] if tag == "script" else [])
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            while self.open.pop() != tag:
                pass


@pytest.fixture
def hostile_words(tmp_path):
    path = tmp_path / "<script>alert(1)<b>.jsonl"
    rows = [json.loads(row) for row in (EXAMPLES / "everyday.jsonl").read_text().splitlines()]
    rows[0]["problem_description"] = "</pre><script>alert(1)</script>"
    rows[0]["licence"] = "<img src=x>"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    built(tmp_path / "out", BuildOptions(problems=(path,)))
    return tmp_path / "out"


def test_the_page_stands_alone_and_shows_texts_as_texts(hostile_words):
    page = (hostile_words / "report.html").read_text()
    tags = Tags()
    tags.feed(page)

    assert tags.fetched == []
    assert tags.svgs >= 12
    assert "&lt;/pre&gt;&lt;script&gt;alert(1)&lt;/script&gt;" in page


@pytest.mark.parametrize(("scheme", "paper"), [("light", "rgb(255, 255, 255)"), ("dark", "rgb(18, 22, 29)")])
def test_the_page_can_be_read_in_a_browser(hostile_words, browser, scheme, paper):
    path = hostile_words / "report.html"

    with browser.page(path, prefers_color_scheme=scheme) as page:
        page.resize(400)
        shown = page.evaluate(
            "Math.min(...[...document.querySelectorAll('svg text')].map(HEIGHT))".replace("HEIGHT", HEIGHT)
        )
        cut = page.evaluate("[...document.querySelectorAll('.number')].filter(CUT).length".replace("CUT", CUT))
        page.click("summary")

        assert page.evaluate("document.querySelector('details pre').checkVisibility()")
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        assert (shown > 10, cut) == (True, 0)
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == paper
        assert page.evaluate("[document.title, document.images.length]") == ["Dataset report", 0]
        assert (page.complaints, page.requests) == ([], [path.as_uri()])


def test_the_pages_policy_allows_its_style_alone(hostile_words):
    page = (hostile_words / "report.html").read_text()
    (policy,) = re.findall(r'Policy" content="([^"]+)"', page)
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)

    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    allowed = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert policy == allowed


def test_the_card_names_every_source_licence_and_task(hostile_words):
    report = json.loads((hostile_words / "report.json").read_text())
    card = (hostile_words / "README.md").read_text()

    for name in (*report["samples_by_source"], *report["samples_by_licence"], *report["samples_by_task"]):
        assert f"| {name} |" in card
    assert "license: other" in card


def test_the_funnel_ends_with_what_was_kept(hostile_words):
    report = json.loads((hostile_words / "report.json").read_text())

    assert report["yield"]["read"] == report["items"]
    assert report["yield"]["tasks"] == report["kept"]
    assert sum(report["dropped_by_stage"].values()) == report["items"] - report["kept"]


def test_a_spread_is_told_by_its_quantiles():
    assert build_statistics.spread([]) == {"count": 0}
    assert build_statistics.spread([3, 1, 2, 5, 4]) == {
        "count": 5, "least": 1, "p25": 2, "median": 3, "p75": 4, "p90": 5, "most": 5, "mean": 3.0
    }  # fmt: skip


def test_repetition_is_the_share_of_runs_of_words_that_were_there_before():
    assert build_statistics.repeated("a b c") == 0.0
    assert build_statistics.repeated("one two three four five six seven eight nine") == 0.0
    assert build_statistics.repeated("a " * 107) == 0.99
    assert build_statistics.compressed("a" * 10_000) < 0.01
    assert build_statistics.compressed("") == 1.0


def test_the_last_bin_of_a_histogram_holds_its_upper_bound():
    svg = report_page.histogram([0.0, 0.5, 1.0, 1.0], "share", least=0)

    assert "0.95 to 1: 2" in svg
    assert ">1<" in svg


@pytest.mark.parametrize("values", [[0.0], [5, 5, 5], [-3, 12], [1e9], [0.001, 0.002]])
def test_any_values_can_be_drawn(values):
    assert report_page.histogram(values, "x").count("<rect") >= 1


def test_a_single_value_beside_many_can_be_seen():
    svg = report_page.histogram([0.0] * 999 + [1.0], "share", least=0)

    heights = [float(each) for each in re.findall(r'height="([\d.]+)" class="main"', svg)]
    assert (heights[0], heights[-1], set(heights[1:-1])) == (170.0, 1.0, {0.0})


@pytest.mark.parametrize(
    "label", ["raised-instead-of-recorded-output", "recorded-output-mismatch", "ran, and were traced"]
)
def test_reasons_and_stages_are_written_out_beside_their_bars(label):
    assert f">{label}</text>" in report_page.bars([report_page.Bar(label, 1)])


@pytest.mark.parametrize("label", ["W" * 40, "文" * 40, "a_long_name_of_a_file_with_problems.jsonl.gz"])
def test_a_label_without_room_is_cut_and_told_whole_in_a_title(label):
    svg = report_page.bars([report_page.Bar(label, 1)])

    shown = svg.partition('class="label end">')[2].partition("<")[0]
    assert shown.endswith("…")
    assert label.startswith(shown[:-1])
    assert sum(12 if each in "W文" else 6 for each in shown) <= 240
    assert f"<title>{label}</title>" in svg


def test_splits_are_shown_in_their_order_with_their_problems(hostile_words):
    page = (hostile_words / "report.html").read_text()

    section = page.partition("<h2>Splits</h2>")[2].partition("</section>")[0]
    assert re.findall(r">(train|validation|test)<", section) == ["train", "test"]
    assert "(1 problem)" in section


def test_nothing_is_drawn_of_nothing():
    assert report_page.bars([]) == report_page.histogram([], "x") == '<p class="nothing">Nothing to show.</p>'


def test_progress_tells_rate_and_time_left():
    assert line("run", 120, 4598, 60, 30.0) == "run: 120 of 4598 items (2 %), 2.0/s, 37:19 left"
    assert line("run", 0, 0, 0, 0.0) == "run: 0 of 0 items"


def test_items_of_an_earlier_process_do_not_count_for_the_rate():
    stream = io.StringIO()
    progress = Line(stream)

    progress.step("run", 0, 100, resumed=False)
    progress.step("run", 90, 100, resumed=True)
    progress.end()

    assert stream.getvalue().endswith("\rrun: 90 of 100 items (90 %)\n")


def test_time_is_added_up_over_processes(tmp_path):
    (tmp_path / "clock.json").write_text('{"wall": 100.0, "host": 7.0}')

    clock = BuildClock(tmp_path / "clock.json")
    clock.add(5.0)

    assert 100 <= clock.seconds()["wall"] < 101
    assert 12 <= clock.seconds()["cpu"] < 13
    assert clock.per_cpu_hour(kept=2)["kept"] == pytest.approx(600, rel=0.08)


def test_lengths_are_in_characters_and_in_tokens_only_of_a_named_tokenizer(tmp_path):
    options = BuildOptions(problems=(EXAMPLES / "plain.jsonl",))

    plain = built(tmp_path / "chars", options)
    named = built(tmp_path / "tokens", options, tokenizer=Tokenizer("words", lambda text: len(text.split())))

    assert (plain["lengths"]["unit"], "tokens" in plain) == ("characters", False)
    assert named["lengths"] == plain["lengths"]
    assert named["tokens"]["tokenizer"] == "words"
    assert 0 < named["tokens"]["prompt"]["median"] < plain["lengths"]["prompt"]["median"]


class Bytes:
    """What `tokenizers.Tokenizer` is asked for: a token for each byte, and one that begins every text."""

    ids: range

    @classmethod
    def from_file(cls, path):
        return cls()

    def encode(self, text, add_special_tokens=True):
        self.ids = range(len(text.encode()) + add_special_tokens)
        return self


def test_tokens_of_a_text_are_counted_without_those_that_a_model_begins_with(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", SimpleNamespace(Tokenizer=Bytes))
    (tmp_path / "tokenizer.json").write_text("{}")

    tokenizer = from_file(tmp_path / "tokenizer.json")

    assert tokenizer.count("é") == 2
    assert tokenizer.name == "tokenizer.json 44136fa355b3"


def test_a_column_is_wide_enough_for_whole_bars():
    column = int(re.search(r"minmax\(min\((\d+)px", report_page._STYLE)[1])
    least = int(re.search(r"svg\.bars \{ min-width: (\d+)px", report_page._STYLE)[1])
    padding = int(re.search(r"section \{ [^}]*padding: \d+px (\d+)px", report_page._STYLE)[1])

    assert column >= least + 2 * (padding + 1)
