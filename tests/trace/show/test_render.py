"""A run as text, in each form."""

import textwrap

import pytest

from groundbox.testing.traces import written
from groundbox.trace.show.forms import FORMS, TOKENS, annotated, concise, dynamic, frames, scratchpad, short
from groundbox.trace.show.terminal import terminal

SOURCE = """\
def squares(n):
    total = 0
    for i in range(n):
        total += i * i
    return total

print(squares(3))
"""


@pytest.fixture(scope="module")
def trace(traced):
    return traced(SOURCE)


def text(block):
    return textwrap.dedent(block).lstrip("\n")


def test_the_source_with_values_as_comments(trace):
    assert annotated(trace) == text(
        """
        def squares(n):  # (1) squares = <function squares>; (1) n=3
            total = 0  # (2) total = 0
            for i in range(n):  # (3) i = 0; (5) i = 1; (7) i = 2
                total += i * i  # (6) total = 1; (8) total = 5
            return total  # (10) returns 5

        print(squares(3))  # (11) prints '5\\n'
        """
    )


def test_each_line_with_its_states(trace):
    assert concise(trace) == text(
        """
        1 def squares(n):: squares = <function squares> | n=3
        2 total = 0: total = 0
        3 for i in range(n):: i = 0 | i = 1 | … 1 more … | -
        4 total += i * i: - | total = 1 | total = 5
        5 return total: returns 5
        7 print(squares(3)): prints '5\\n'
        """
    )


def test_every_step_with_the_state_after_it(trace):
    assert scratchpad(trace).startswith(
        text(
            """
            call <module>()
            line 1: def squares(n):
            state: no names
            call squares(n=3)
            line 2: total = 0
            state: n = 3, total = 0
            line 3: for i in range(n):
            state: n = 3, total = 0, i = 0
            """
        )
    )
    assert scratchpad(trace).endswith(
        "return 5\nline 7: print(squares(3))\nstate: no names\noutput: '5\\n'\nreturn None\n"
    )


def test_one_state_that_takes_the_place_of_the_one_before(trace):
    assert (
        dynamic(trace).split("\n\n")[2]
        == "did: line 3: for i in range(n):\n<module>\nsquares\n  n = 3\n  total = 0\n  i = 0"
    )


def test_frames_between_tokens(trace):
    lines = frames(trace).splitlines()

    assert lines[3:6] == [
        '<|trace_call|>{"n":"3"}<|trace_code|>def squares(n):',
        '<|trace_line|>{"n":".."}<|trace_code|>total = 0',
        '<|trace_line|>{"n":"..","total":"0"}<|trace_code|>for i in range(n):',
    ]
    assert (
        lines[-4:]
        == [
            '<|trace_line|>{"n":"..","total":"5","i":".."}<|trace_code|>for i in range(n):',
            '<|trace_line|>{"n":"..","total":"..","i":".."}<|trace_code|>return total',
            '<|trace_return|>{"n":"..","total":"..","i":".."}<|trace_code|>return total<|trace_value|>5',
            "<|trace_return|>{}<|trace_code|>print(squares(3))<|trace_value|>None",
        ]
        or lines[-1] == "<|trace_end|>"
    )
    assert all(line.startswith(TOKENS) for line in lines)


def test_the_short_notation(trace):
    assert short(trace) == (
        "1:squares=<function squares> 7:squares(n=3){2:total=0 3:i=0 4: 3:i=1 4:total=1 3:i=2 4:total=5 3: 5:}=5,'5\\n'"
    )


def test_the_short_notation_of_what_is_raised_and_yielded(traced):
    trace = traced("def g():\n    yield 4\nx = list(g())\ntry:\n    x[5]\nexcept IndexError:\n    del x\n")

    assert (
        short(trace) == "1:g=<function g> 3:g(){2:^4}=None,x=[4] 4: 5:!IndexError('list index out of range') 6: 7:del x"
    )


def test_the_terminal_view(trace):
    assert terminal(trace) == text(
        """
        1 def squares(n):         squares = <function squares>
        7 print(squares(3))
          → squares(n=3)
        2 │     total = 0           total = 0
        3 │     for i in range(n):  i = 0
        4 │         total += i * i
        3 │     for i in range(n):  i = 1
        4 │         total += i * i  total = 1
        3 │     for i in range(n):  i = 2
        4 │         total += i * i  total = 5
        3 │     for i in range(n):
        5 │     return total
          ← 5
        7                         prints '5\\n'
        """
    )


def test_colours_are_only_there_when_asked_for(trace):
    assert "\x1b" not in terminal(trace)
    assert "\x1b[32mi = 0\x1b[0m" in terminal(trace, colours=True)


def test_a_terminal_is_sent_nothing_of_the_guest_that_it_would_obey():
    hostile = "\x1b]0;owned\x07\u202e\r"
    trace = written(
        {"k": "line", "f": 1, "n": 1},
        {"k": "set", "f": 1, "name": hostile, "v": hostile},
        {"k": "object", "id": 1, "type": "object", "class": hostile, "attrs": {hostile: {"opaque": hostile}}},
        {"k": "set", "f": 1, "name": "o", "v": {"ref": 1}},
        {"k": "raise", "f": 1, "n": 1, "type": hostile, "args": [{"repr": hostile, "type": "x"}]},
        {"k": "lost", "why": hostile},
        source=f"x = 1 # {hostile}\n",
    )

    for name, form in FORMS.items():
        shown = form(trace)
        if name == "terminal":
            assert all(c.isprintable() or c == "\n" for c in shown)


def test_changes_of_objects_are_told_by_the_names_that_lead_to_them(traced):
    objects = "class N:\n    pass\nn = N()\nn.items = [1]\nn.items.append(2)\n"
    source = objects + "d = {'a': 1}\nd['b'] = 2\nxs = [1, 2]\nxs[0] = 5\n"

    shown = [line.split("  ")[-1].strip() for line in terminal(traced(source)).splitlines()]

    assert shown[-6:] == ["n.items = [1]", "n.items = [1, 2]", "d = {'a': 1}", "d['b'] = 2", "xs = [1, 2]", "xs[0] = 5"]


def test_a_trace_that_is_not_complete_says_so():
    assert (
        terminal(written({"k": "lost", "why": "a thread was not traced"})) == "not complete: a thread was not traced\n"
    )


@pytest.mark.parametrize("form", FORMS)
def test_every_form_shows_an_empty_trace_and_one_of_a_source_that_does_not_parse(form):
    assert isinstance(FORMS[form](written()), str)
    assert isinstance(FORMS[form](written({"k": "line", "f": 1, "n": 1}, source="%magic")), str)
