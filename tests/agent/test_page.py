"""A conversation as a page: all of it there, in words, and nothing of a guest or a model but text and pictures."""

import base64
import dataclasses
import struct
import zlib
from html.parser import HTMLParser

import pytest

from groundbox.agent.events import Ended, Ending, Noticed, Observed, Replied, Started
from groundbox.agent.messages import Call, Reply
from groundbox.agent.observation import observe
from groundbox.agent.page import MOST_ROWS, MOST_TEXT, page
from groundbox.agent.turn import Decision, Spent, Verdict
from groundbox.execution import Artifacts, Display, Execution, Failure, Isolation, Outcome, Usage, Warning

HOSTILE = "</pre></style><script>document.title='lost'</script><img src=https://example.org/x onerror=alert(1)>\u202e"
TABLE = "application/vnd.dataresource+json"


class Tags(HTMLParser):
    """Every element of a page with its attributes, and its text."""

    def __init__(self, text):
        super().__init__()
        self.found, self.text = [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.text += data

    def all(self, tag):
        return [attributes for name, attributes in self.found if name == tag]


def png():
    """A picture of one dot."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0\0")) + chunk(b"IEND", b"")


def execution(**facts):
    usual = {
        "execution_id": "1", "language": "python", "outcome": Outcome.OK, "stdout": "", "stderr": "",
        "exit_code": 0, "exit_signal": None, "dropped_bytes": {}, "value": None, "error": None, "displays": [],
        "artifacts": Artifacts(), "warnings": [],
        "usage": Usage(wall_s=0.1, cpu_s=0.1, peak_memory_bytes=1, start_s=0.0, warm=True),
        "isolation": Isolation(backend="namespaces", layers=[], missing=[]),
    }  # fmt: skip
    return Execution(**{**usual, **facts})


def observed(ran, *findings, run=1, verdict=Verdict.ACCEPT, why="", source="x"):
    decision = Decision(verdict=verdict, why=why)
    return Observed(
        run=run, source=source, execution=ran, findings=findings, decision=decision, observation=observe(ran, run=run)
    )


def ended(**facts):
    return Ended(**{"ending": Ending.ANSWERED, "answer": "42", "spent": Spent(turns=2, runs=1, tokens=7), **facts})


def shown(*events, question="How many?"):
    return page(question, "m", ["a.csv"], events)


def test_a_conversation_is_told_in_order_and_in_words():
    reply = Reply(text="I look first.", calls=[Call(name="run_code", arguments={})])
    failed = execution(
        outcome=Outcome.ERROR,
        error=Failure(type="KeyError", message="'Revenue'", traceback="Traceback: KeyError", hints=["Say `revenue`."]),
    )
    doubt = Warning(code="c", tier="warn", message="rows stand twice", hint="Join on the key.")

    text = Tags(
        shown(
            Replied(turn=1, reply=reply),
            observed(failed, verdict=Verdict.RETRY, why="the run ended with error"),
            observed(execution(stdout="6\n"), doubt, run=2),
            Noticed(kind="mend", text="Say where 43 comes from."),
            ended(receipts={}),
        )
    ).text

    told = [
        "How many?", "Asked m, with a.csv", "I look first.", "Program 1, in python", "Traceback: KeyError",
        "Say `revenue`.", "failed (error), and the model was told why", "Program 2", "It printed6", "This may be wrong",
        "rows stand twice", "Join on the key.", "a check doubts its result", "was shown by no program",
        "Say where 43 comes from.", "Answer", "42", "A program showed all of it that could be checked", "2 replies",
    ]  # fmt: skip
    places = [text.find(words, 60) for words in told]
    assert -1 not in places, told[places.index(-1)]
    assert places == sorted(places)


def test_tables_and_pictures_are_shown_as_such():
    fields = [{"name": name} for name in ("region", "revenue")]
    data = [{"region": "north", "revenue": number} for number in range(MOST_ROWS + 2)]
    value = {TABLE: {"schema": {"fields": fields}, "data": data}, "text/html": HOSTILE, "text/plain": "a table"}
    picture = Display(data={"image/png": base64.b64encode(png()).decode(), "text/plain": "<Figure>"})

    tags = Tags(shown(observed(execution(value=value, displays=[picture])), ended()))

    assert len(tags.all("tr")) == 1 + MOST_ROWS
    assert "… 2 more rows …" in tags.text
    assert [each["src"] for each in tags.all("img")] == [f"data:image/png;base64,{base64.b64encode(png()).decode()}"]


@pytest.mark.parametrize("resource", [None, 7, {}, {"schema": {"fields": 1}, "data": []}, {"schema": {"fields": [{}]}}])
def test_a_table_of_another_form_is_shown_as_text(resource):
    assert "a table" in Tags(shown(observed(execution(value={TABLE: resource, "text/plain": "a table"})), ended())).text


def test_words_of_guests_and_models_are_text_wherever_they_stand():
    table = {"schema": {"fields": [{"name": HOSTILE}]}, "data": [{HOSTILE: HOSTILE}]}
    fake = Display(data={"image/png": base64.b64encode(HOSTILE.encode()).decode(), "text/plain": HOSTILE})
    ran = execution(
        stdout=HOSTILE,
        stderr=HOSTILE,
        value={TABLE: table, "text/plain": HOSTILE},
        displays=[fake, Display(data={"text/html": HOSTILE, "text/plain": HOSTILE})],
        error=Failure(type=HOSTILE, message=HOSTILE, traceback=HOSTILE, hints=[HOSTILE]),
        warnings=[Warning(code="c", tier="error", message=HOSTILE, hint=HOSTILE)],
    )
    doubt = Warning(code="c", tier="warn", message=HOSTILE)

    made = page(
        HOSTILE,
        HOSTILE,
        [HOSTILE],
        [
            Replied(turn=1, reply=Reply(text=HOSTILE, calls=[Call(name="run_code", arguments="{}")])),
            observed(ran, doubt, source=HOSTILE, why=HOSTILE, verdict=Verdict.RETRY),
            Noticed(kind="read", text=HOSTILE),
            ended(answer=HOSTILE, unsupported=[doubt]),
        ],
    )

    tags = Tags(made)
    assert tags.all("script") == tags.all("img") == tags.all("iframe") == tags.all("link") == tags.all("a") == []
    assert len(tags.all("style")) == 1
    assert "\u202e" not in made
    (policy,) = [each["content"] for each in tags.all("meta") if "http-equiv" in each]
    assert policy.startswith("default-src 'none'; img-src data:; style-src 'sha256-")


def test_what_was_tried_stands_side_by_side_and_what_was_taken_back_says_so():
    back = Warning(code="session.rolled_back", tier="note", message="as before")
    undone = execution(outcome=Outcome.ERROR, error=Failure(type="E", message="no"), warnings=[back])
    events = [
        observed(undone, run=1),
        *(dataclasses.replace(observed(execution(), run=run), beside=(2, 3)) for run in (2, 3)),
        Noticed(kind="kept", text="Run 3 is kept.", run=3),
    ]

    text = Tags(page("?", "m", [], events))

    kinds = [attributes.get("class") for tag, attributes in text.found if tag in ("section", "div")]
    assert kinds == ["undone", "tried", "beside", "left", "kept", None, "answer none"]
    assert "taken back: variables and files are as before it" in text.text
    assert "2 programs, each tried on a copy of the variables and files" in text.text


def test_a_long_text_is_cut_in_its_middle_and_counted():
    text = Tags(shown(observed(execution(stdout="a" * (MOST_TEXT + 10) + "b")), ended())).text

    assert "… 11 characters more …" in text


def test_a_conversation_that_was_cut_off_says_so():
    began = Started(run=3, source="x", language="python", options={})

    assert "The conversation was cut off while program 3 ran." in Tags(shown(began)).text
    assert "The conversation was cut off." in Tags(shown()).text
    assert (
        "the model took too long"
        in Tags(shown(ended(ending=Ending.BOUND, answer=None, why="the model took too long"))).text
    )


def test_the_page_is_readable_in_a_browser(browser, tmp_path):
    path = tmp_path / "page.html"
    picture = Display(data={"image/png": base64.b64encode(png()).decode()})
    path.write_text(shown(observed(execution(stdout="x" * 3_000, displays=[picture])), ended(), question="w" * 500))

    for width, theme in ((390, "dark"), (1280, "light")):
        with browser.page(path, prefers_color_scheme=theme) as opened:
            opened.resize(width)
            assert opened.evaluate("document.documentElement.scrollWidth") <= width
            assert opened.evaluate("document.images[0].naturalWidth") == 1
            assert opened.complaints == []
            # The picture is inside the page; nothing else was asked for.
            assert {each.partition(":")[0] for each in opened.requests} <= {"file", "data"}
