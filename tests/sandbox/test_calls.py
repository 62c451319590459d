"""Calls: one function of a program, with data that never becomes source."""

import pytest

import groundbox as gb
from groundbox.errors import InvalidArgument
from groundbox.sandbox.arguments import encode
from groundbox.values.codec import RESULT_MIME, NotData, decode

ECHO = "def echo(*args, **kwargs):\n    return [args, kwargs]\n"


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        -5,
        1 << 53,
        -(1 << 200),
        0.1,
        float("inf"),
        2 + 3j,
        "a'\"\\\n{x}é",
        b"\x00\xff",
        range(1, 1 << 60, 3),
        [1, [2]],
        (1, (2,), ()),
        {1, "a", (2, 3)},
        frozenset({1}),
        {"tuple": [1], 1: None, (1, 2): {"dict": []}},
        {},
    ],
)
def test_data_arrives_as_it_was_given(value):
    assert decode(encode("args", value)) == value
    assert repr(type(decode(encode("args", value)))) == repr(type(value))


def test_nothing_but_plain_data_can_be_given():
    with pytest.raises(
        InvalidArgument, match=r"args: holds a object; plain data can be given, or a cell that makes it"
    ):
        gb.run(ECHO, mode="call", call="echo", args=[[object()]])


@pytest.mark.parametrize("value", ["\ud800", ["a", {"k": "\udfff"}], {"\udc80": 1}])
def test_half_of_a_surrogate_pair_is_no_argument(value):
    with pytest.raises(InvalidArgument, match="half of a surrogate pair"):
        gb.run("def f(x):\n    return x\n", mode="call", call="f", args=[value])


def test_half_of_a_surrogate_pair_is_returned_with_its_escape():
    source = "def f():\n    return ['\\ud800', '\U0001f600', r'\\ud800']\n"

    execution = gb.run(source, mode="call", call="f")

    assert execution.outcome == "ok"
    assert execution.value[RESULT_MIME] == {"list": ["\\ud800", "\U0001f600", "\\ud800"]}


def test_a_call_gives_its_result_as_text_and_as_data():
    execution = gb.run(ECHO, mode="call", call="echo", args=[(1, 2), "a' + str(6*7) + 'b"], kwargs={"k": {3: [4]}})

    assert (execution.outcome, execution.error) == (gb.Outcome.OK, None)
    assert execution.text == "[((1, 2), \"a' + str(6*7) + 'b\"), {'k': {3: [4]}}]"
    assert execution.value[RESULT_MIME] == {
        "list": [
            {"tuple": [{"tuple": [1, 2]}, "a' + str(6*7) + 'b"]},
            {"dict": [["k", {"dict": [[3, {"list": [4]}]]}]]},
        ]
    }


def test_what_stands_under_name_main_does_not_run_in_a_call():
    source = "def f():\n    print('called')\n    return __name__\nif __name__ == '__main__':\n    print('main')\n"

    execution = gb.run(source, mode="call", call="f")

    assert (execution.stdout, execution.text) == ("called\n", "'program'")


def test_a_failure_in_a_call_names_its_line():
    execution = gb.run("def f(d):\n    return d['b']\n", mode="call", call="f", args=[{"a": 1}])

    assert execution.outcome is gb.Outcome.ERROR
    assert (execution.error.type, execution.error.line) == ("KeyError", 2)


def test_a_result_that_is_no_plain_data_is_still_a_value():
    execution = gb.run("class C:\n    pass\ndef f():\n    return C()\n", mode="call", call="f")

    assert execution.outcome is gb.Outcome.OK
    assert execution.text.startswith("<program.C object at ")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "call"}, "call: must name a function, such as 'main', not None"),
        ({"mode": "call", "call": "f()"}, "call: must name a function, such as 'main', not 'f()'"),
        ({"mode": "call", "call": "f", "argv": ["x"]}, "argv: belongs to a script; add mode='script'"),
        ({"call": "f"}, "call: belongs to a call; add mode='call'"),
        ({"mode": "function"}, "mode: 'function' is none of 'cell', 'script', 'call' and 'calls'"),
        (
            {"mode": "call", "call": "f", "args": "ab"},
            "args: must be a list of values; kwargs a mapping from names to values",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(options, message):
    with pytest.raises(InvalidArgument) as refused:
        gb.run("def f(): pass", **options)

    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("call", "message", "hints"),
    [
        ("area", "the program has no `area` to call", ("It has `areas`.",)),
        ("missing", "the program has no `missing` to call", ("It has `areas`, `Shape`.",)),
        ("Shape.side", "`Shape` has no `side` to call", ("It has `sides`.",)),
        ("areas.inner", "`areas` has no `inner` to call", ()),
    ],
)
def test_a_function_that_is_not_there_is_named_with_those_that_are(call, message, hints):
    source = "n = 3\ndef areas(x):\n    return x\nclass Shape:\n    def sides(self):\n        return 4\n"

    failure = gb.run(source, mode="call", call=call).error

    assert (failure.type, failure.message, failure.hints) == ("NoSuchFunction", message, hints)


def test_a_guest_has_loaded_the_codec_and_nothing_else_of_values():
    """Each sandbox begins with a copy of its template: what is loaded there is paid for by all."""
    source = "import sys\ndef f(): return sorted(n for n in sys.modules if n.startswith('groundbox.values'))"

    execution = gb.run(source, mode="call", call="f")

    assert decode(execution.value[RESULT_MIME]) == ["groundbox.values", "groundbox.values.codec"]


def test_a_codec_that_a_guest_has_changed_tells_claims_alone():
    source = """
import groundbox.values.codec as codec
import groundbox.guest.python.calls as calls
calls.result_of = lambda value: {"list": [{"opaque": "x"}], "class": "list"}
codec.decode = None
def f(): return [1]
"""

    told = gb.run(source, mode="call", call="f").value[RESULT_MIME]
    again = gb.run("def f(): return [1]", mode="call", call="f").value[RESULT_MIME]

    with pytest.raises(NotData):
        decode(told)
    assert decode(again) == [1]
