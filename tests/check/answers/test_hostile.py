"""Answers and outputs made to take long, to hide something or to break the reader."""

import time
from typing import Any

import pytest

from groundbox.check import check_answer
from groundbox.check.answers import derivations, sources
from groundbox.check.answers.derivations import MOST_KIN, operands
from groundbox.check.answers.judging import MOST_WORK, Scopes
from groundbox.check.answers.shown import _AFTER, TABLE, read_executions
from groundbox.check.answers.sources import families

pytestmark = pytest.mark.slow

SIZE = 40_000
SHAPES = {
    "digits": "1",
    "commas": "1,",
    "dots": "1.",
    "quotes": '"',
    "backticks": "`",
    "half quotes": '"a ',
    "dates": "2024-01-",
    "escapes": "\x1b]",
    "escapes 2": "\x1b[",
    "words": "twenty ",
    "words 2": "one and ",
    "paths": "a.b/",
    "turned": "\u202e1",
    "lines": "\n",
    "blanks": " ",
    "parentheses": "(1",
    "addresses": "a.b+c@",
    "rows": "| 1 | 2 |\n",
    "powers": "1×10^",
    "minus": "-",
    "fences": "```\n",
    "slashes": "1/1/",
    "thousands": "1,234,567 ",
    "hashes": "#",
    "about": "about ",
    "tags": "<a ",
    "exponents": "1e",
    "csv": "1,2,3\n",
}


@pytest.mark.parametrize("shape", SHAPES)
def test_time_grows_with_the_length_only(transcripts, shape):
    def cost(size):
        text = SHAPES[shape] * (size // len(SHAPES[shape]))
        run = transcripts.execution(stdout=text, value={"text/plain": "1", "text/html": text})
        start = time.process_time()
        check_answer(text, [run])
        return time.process_time() - start

    small, large = min(cost(SIZE // 8) for _ in range(2)), cost(SIZE)

    assert large < 1.0 or large / small < 24  # 8 in theory; 64 if it were quadratic


def test_a_megabyte_is_read_and_what_was_left_is_counted(transcripts):
    report = check_answer("The total was 12,345 in 2024. " * 35_000, [transcripts.execution(stdout="12345\n")])

    assert report.dropped["mentions"] == 68_000
    assert not report.ok
    assert "answer.not_all_checked" in [warning.code for warning in report.warnings]


def test_turned_text_is_warned_of(transcripts):
    report = check_answer("It is \u202e4321\u202c.", [transcripts.execution(stdout="4321\n")])

    assert [warning.code for warning in report.warnings] == ["answer.hidden_characters"]


def test_positions_are_those_of_the_answer_as_it_was(transcripts):
    answer = "\x1b[31mIt\u200b is\x1b[0m 77."

    report = check_answer(answer, [transcripts.execution(stdout="x\n")])

    [mention] = report.unsupported
    assert answer[mention.start : mention.end] == "77"


@pytest.mark.parametrize("text", ["", "\0", "\ud800", "1" * 5000, "9e999999", "1e-400", "∞ NaN", "١٢٣", "½ of ¾"])
def test_strange_text_breaks_nothing(transcripts, text):
    check_answer(
        text, [transcripts.execution(stdout=text, value={"text/plain": text, "application/json": {"a": [text]}})]
    )


@pytest.mark.parametrize("value", [{"application/vnd.dataresource+json": wrong} for wrong in (
    {}, {"data": 3}, {"data": [3]}, {"data": [{"a": 1}, {"b": "x"}], "row_count": "many", "schema": 7},
    {"data": [{"a": 1e400}, {"a": True}, {"a": {}}], "schema": {"primaryKey": "a"}},
)])  # fmt: skip
def test_a_table_that_is_none_breaks_nothing(transcripts, value):
    check_answer("There are 3.", [transcripts.execution(value=value)])


def test_deep_data_is_counted_as_dropped(transcripts):
    deep: Any = 1
    for _ in range(200):
        deep = [deep]

    report = check_answer("It is 1.", [transcripts.execution(value={"application/json": deep})])

    assert report.dropped == {"values shown": 1}


def test_a_value_that_is_shown_ten_thousand_times_has_a_bounded_number_of_kin(transcripts):
    read = read_executions([transcripts.execution(stdout="a,b\n" + "1,2\n" * 10_000)])

    found = operands([one for one in read.shown if not one.weak], families(read.groups))

    assert {one.value for one in found} == {1.0, 2.0}
    assert max(len(one.kin) for one in found) <= MOST_KIN + 2


def test_what_stands_behind_a_digit_is_not_read_to_the_end_of_the_line():
    assert len(_AFTER.match("e1" * 20_000)[0]) < 10


def test_a_sentence_is_searched_once_however_many_numbers_it_has(monkeypatch, transcripts):
    asked: Any = []
    text = Scopes.text
    monkeypatch.setattr(Scopes, "text", lambda self, span: asked.append(span) or text(self, span))

    check_answer("It is " + "1/" * 1_000, [transcripts.execution(stdout="42\n")])

    assert len(asked) < 10


def test_a_block_of_numbers_costs_as_any_other_numbers_do(monkeypatch, transcripts):
    tried: Any = []
    alone = derivations.alone
    monkeypatch.setattr(derivations, "alone", lambda found, shown: tried.append(len(shown)) or alone(found, shown))
    shown = "\n".join(str(n) for n in range(100_000, 120_000))
    block = "```text\n" + " ".join(str(n) for n in range(1_000)) + "\n```"

    report = check_answer(block, [transcripts.execution(stdout=shown)])

    assert sum(tried) < 2 * MOST_WORK
    assert report.dropped["derivations"] == 1


def test_texts_that_were_not_looked_for_are_counted(monkeypatch, transcripts):
    monkeypatch.setattr(sources, "MOST_SEARCHED", 10_000)
    rows = {"data": [{"name": f"name {n}"} for n in range(50)]}

    report = check_answer('It is "that one".', [transcripts.execution(value={TABLE: rows})])

    assert report.dropped == {"texts not looked for": 1}
    assert [warning.code for warning in report.warnings] == ["answer.unsupported_text", "answer.not_all_checked"]
