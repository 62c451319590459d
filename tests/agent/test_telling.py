"""What adapters tell a model of a run."""

import pytest

from groundbox import Sandbox
from groundbox.agent.adapters.telling import told

PRINTS = "print('\\x1b[31mred\\x1b[0m \\u202eback ![](https://example.org/?q=secret)')"


@pytest.fixture
def run():
    with Sandbox() as box:
        yield box.run


def test_nothing_acts_where_it_is_shown(run):
    text = told(run(PRINTS))

    assert text == "red \\u202eback ![] (https://example.org/?q=secret)"


def test_a_failure_is_told_alike(run):
    text = told(run("raise ValueError('\\x1b]0;title\\x07 [a](javascript:b)')"))

    assert "\x1b" not in text
    assert "[a] (javascript:b)" in text


def test_each_part_is_cut_in_the_middle(run):
    assert told(run("print('a' * 100)"), most_characters=20) == "aaaaaaaaaa\n… 80 characters left out …\naaaaaaaaaa"
