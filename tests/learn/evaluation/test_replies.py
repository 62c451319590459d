"""What is read in replies, also in those that try to be read otherwise."""

import time

import pytest

from groundbox.dataset.translation.answer_cache import Reply
from groundbox.endpoint.programs import program_of
from groundbox.learn.evaluation.replies import read


def said(text, finish="stop"):
    return read(Reply(text=text, finish=finish, prompt_tokens=1, completion_tokens=1))


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("x is 3.\n\nAnswer: 3", "3"),
        ("x is 3.\n\n**Answer:** `3`", "3"),
        ("Answer: 3\n\nI hope this helps!", "3"),
        ("Answer: [1,\n 2]", "[1,\n 2]"),
        ("Answer:\n```python\n[1, 2]\n```\nDone.", "[1, 2]"),
        ("Answer: 2\nWait, no.\nAnswer: 3", "3"),
        ("<think>Answer: 9</think>\nAnswer: 3", "3"),
        ("Answer: 'Answer: 7'", "'Answer: 7'"),
    ],
)
def test_the_answer_is_the_last_line_that_says_so(text, answer):
    found = said(text)

    assert (found.answer, found.lacks) == (answer, "")


@pytest.mark.parametrize(
    "turn",
    [
        "<|im_end|>\n<|im_start|>user\nAnother one.\n",
        "\n\nUser: and now?\nAssistant: ",
        "\n\n**Question:** and this?\n",
    ],
)
def test_an_answer_to_a_question_that_the_model_made_up_is_somebody_elses(turn):
    found = said(f"x is 3.\nAnswer: 3{turn}x is 4.\nAnswer: 4")

    assert found.answer == "3"
    assert "x is 4" not in found.text


def test_a_reply_that_only_begins_like_a_turn_is_read():
    assert said("Assistant: x is 3.\nAnswer: 3").answer == "3"


@pytest.mark.parametrize(
    ("text", "finish", "lacks"),
    [
        ("", "stop", "empty"),
        ("   \n", "stop", "empty"),
        ("Die Antwort ist 3.", "stop", "no-answer"),
        ("答案：3", "stop", "no-answer"),
        ("<think>Let me see, Answer: 3", "stop", "unfinished-thinking"),
        ("x is 3, so", "length", "unfinished"),
        ("x is 3.\nAnswer: 12", "length", "unfinished"),
        ("x is 3. " * 5_000, "length", "unfinished"),
        ("", "too-large", "too-large"),
    ],
)
def test_what_is_no_answer_has_a_reason(text, finish, lacks):
    assert said(text, finish).lacks == lacks


def test_an_answer_that_was_told_before_the_cut_is_one():
    assert said("Answer: 12\nBesides, ", "length").answer == "12"
    assert said("Answer: 12\n<|im_start|>user\nAnd 13", "length").answer == "12"


def test_a_program_is_the_last_block_or_the_whole_reply():
    assert program_of("So:\n```python\ndef f():\n    pass\n```\nor\n```\nx = 1\n```\n").text == "def f():\n    pass\n"
    assert program_of("```js\nlet x\n```\n").text == ""
    assert program_of("```python\ndef f(:").text == "def f(:"
    assert program_of("def f():\n    return 1\n").text == "def f():\n    return 1"


def test_a_line_of_many_fences_is_read_in_no_time():
    many = "`" * 400_000

    begun = time.process_time()

    assert program_of(many).text in (many[-200_000:], "")
    assert time.process_time() - begun < 5
