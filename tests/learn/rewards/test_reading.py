"""Completions are read within bounds, whatever a model wrote."""

import time

import pytest

from groundbox.endpoint.programs import MOST_CHARS, program_of
from groundbox.learn.rewards.reading import answer_of, text_of


@pytest.mark.parametrize(
    ("completion", "text"),
    [
        ("plain", "plain"),
        ([{"role": "assistant", "content": "said"}], "said"),
        ([{"role": "assistant", "content": "first"}, {"role": "tool", "content": "t"}], "first"),
        ([{"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "image"}, "b"]}], "a"),
        ([{"role": "assistant", "content": None, "tool_calls": []}], ""),
        ([{"role": "user", "content": "asked"}], "asked"),
        ({"role": "assistant", "content": "one"}, "one"),
        ([], ""),
        (None, ""),
        (7, ""),
        (b"bytes", ""),
    ],
)
def test_the_text_is_what_the_assistant_said_last(completion, text):
    assert text_of(completion) == text


@pytest.mark.parametrize(
    ("text", "program"),
    [
        ("x = 1", "x = 1"),
        ("```python\na = 1\n```", "a = 1\n"),
        ("```py\na = 1\n```\nor\n```python\nb = 2\n```\nDone.", "b = 2\n"),
        ("```\na = 1\n```\n```text\nno\n```", "a = 1\n"),
        ("```python\na = 1\n```\n```json\n{}\n```", "a = 1\n"),
        ("```python\na = '''\n~~~\n'''\n```", "a = '''\n~~~\n'''\n"),
        ("````python\ns = '```'\n```\n````", "s = '```'\n```\n"),
        ("```python\ncut = 1", "cut = 1"),
        ("```sql\nSELECT 1\n```", ""),
        ("  ~~~ python title\na = 1\n  ~~~\n", "a = 1\n"),
        ("", ""),
    ],
)
def test_the_program_is_the_last_block_of_python(text, program):
    assert program_of(text).text == program


def test_answers_are_read_as_datasets_read_them():
    assert answer_of("Answer: 1\nso\n**Answer:** `[1, 2]`") == "[1, 2]"
    assert answer_of("none") == ""
    assert answer_of("Answer: " + "9" * 20_000) == ""


@pytest.mark.parametrize(
    "hostile",
    [
        "`" * 3_000_000,
        "```python\n" * 300_000,
        " " * 3_000_000,
        "Answer:" * 500_000,
        "> " * 1_500_000,
        "~~~\n```\n" * 300_000,
    ],
)
def test_hostile_text_takes_bounded_time(hostile):
    begun = time.process_time()

    program_of(text_of(hostile))
    answer_of(text_of(hostile))

    assert len(text_of(hostile)) == MOST_CHARS
    assert time.process_time() - begun < 2
