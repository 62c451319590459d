"""What adapters tell a model of a run."""

import base64
import re

import pytest

from groundbox import Sandbox
from groundbox.agent.adapters.telling import MOST_TOKENS, told, told_part
from groundbox.agent.budget import tokens_of
from groundbox.agent.folding import folded

PRINTS = "print('\\x1b[31mred\\x1b[0m \\u202eback ![](https://example.org/?q=secret)')"

MARK = re.compile(r" [0-9a-f]{8}(?=>)")


@pytest.fixture
def run():
    with Sandbox() as box:
        yield box.run


def test_nothing_acts_where_it_is_shown_and_all_of_it_stands_between_marks(run):
    shown = "red \\u202eback ![] (https://example.org/?q=secret)"

    assert MARK.sub("", told(run(PRINTS)).text) == f"python: ok\n<stdout>\n{shown}\n</stdout>"


def test_a_failure_is_told_alike(run):
    text = told(run("raise ValueError('\\x1b]0;title\\x07 [a](javascript:b)')")).text

    assert text.startswith("python: failed\n<error ")
    assert "\x1b" not in text
    assert "[a] (javascript:b)" in text


def test_a_text_that_holds_the_mark_of_its_part_gets_another_one(run):
    first = told(run("print('x')")).text
    again = told(run(f"print({first!r})")).text

    assert len(set(re.findall(r"^<stdout (\w+)>$", again, re.MULTILINE))) == 2
    assert re.search(r"\n</stdout (\w+)>\Z", again)[1] == re.search(r"<stdout (\w+)>", again)[1]


def test_what_does_not_fit_is_counted_and_no_handle_is_told(run):
    observation = told(run("print('line\\n' * 20_000)\n'v' * 100_000"), max_tokens=1000)

    assert observation.tokens <= 1000
    assert set(observation.dropped_bytes) == {"stdout", "value"}
    assert "bytes left out …" in observation.text
    assert "read_output" not in observation.text


def test_pictures_are_those_that_were_asked_for(run):
    execution = run("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()")

    none, one = told(execution), told(execution, max_pictures=1)

    assert (none.pictures, [each.media_type for each in one.pictures]) == ([], ["image/png"])
    assert base64.b64decode(execution.displays[0].data["image/png"]).startswith(one.pictures[0].data[:8])
    assert "0 of 1 pictures attached" in none.text


def test_one_part_alone_is_bounded_and_folded():
    text = "bar\n" * 5

    assert told_part("stdout", " \n") == ""
    assert tokens_of(told_part("stdout", "word " * 100_000)) < MOST_TOKENS + 20
    assert told_part("stdout", text) == told_part("stdout", folded(text)) != ""
