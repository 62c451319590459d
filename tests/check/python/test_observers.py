"""Observers that watch pandas while a run lasts, and what the host makes of their claims."""

import json

import pytest

import groundbox as gb
from groundbox.errors import InvalidArgument, WireError
from groundbox.sandbox import observations, wire

MANY = """\
import pandas as pd
a = pd.DataFrame({"k": [1, 1, 2]})
b = pd.DataFrame({"k": [1, 1, 2]})
print(len(a.merge(b)))
"""
MARKS = """
import sys
monitoring = getattr(sys, "monitoring", None)
tools = [monitoring and monitoring.get_tool(tool) for tool in range(6)]
constants = pd.merge.__code__.co_consts if "pandas" in sys.modules else ()
print([*filter(None, tools)], any("Watch" in repr(constant) for constant in constants))
"""
FAILING = "import pandas as pd\na = pd.DataFrame({'k': [1]})\na.merge(pd.DataFrame({'z': [1]}), on='k')\n"


def codes(execution):
    return [warning.code for warning in execution.warnings]


def test_nothing_is_watched_unless_it_is_asked_for():
    assert codes(gb.run(MANY)) == []


@pytest.mark.parametrize("mode", ["cell", "script"])
def test_a_warning_tells_the_line_the_counts_and_the_names(mode):
    (warning,) = gb.run(MANY, checks=True, mode=mode).warnings

    assert warning.code == "pandas.merge_multiplied"
    assert warning.evidence == {"line": 4, "left": 3, "right": 3, "rows": 5, "names": ["'k'"]}
    assert warning.message.startswith("line 4: a join on 'k' made 5 rows of 3 and 3")


def test_a_call_is_watched():
    source = "import pandas as pd\ndef f(x):\n    return len(pd.DataFrame({'a': [x, None]}).dropna())\n"

    assert codes(gb.run(source, mode="call", call="f", args=[1], checks=True)) == ["pandas.rows_dropped"]


def test_pandas_that_is_imported_during_the_run_is_watched():
    assert codes(gb.run(MANY, checks=True, profile="bare")) == ["pandas.merge_multiplied"]


def test_functions_that_were_imported_in_an_earlier_cell_are_watched():
    with gb.Sandbox() as box:
        box.run("from pandas import DataFrame, merge")
        execution = box.run("merge(DataFrame({'k': [1]}), DataFrame({'k': [2]}))", checks=True)

    assert codes(execution) == ["pandas.merge_empty"]


def test_a_later_run_that_does_not_ask_is_not_watched_and_nothing_is_left_of_the_marks():
    with gb.Sandbox() as box:
        during = box.run(MANY + MARKS, checks=True)
        later = box.run(MANY + MARKS)

    assert codes(during) == ["pandas.merge_multiplied"]
    assert during.stdout in ("5\n['groundbox checks'] False\n", "5\n[] True\n")
    assert codes(later) == []
    assert later.stdout == "5\n[] False\n"


def test_a_run_without_pandas_marks_nothing():
    source = MARKS + "print('pandas' in sys.modules)"

    assert gb.run(source, checks=True, profile="bare").stdout == "[] False\nFalse\n"


@pytest.mark.parametrize("mode", ["cell", "script"])
def test_failures_read_the_same(mode):
    plain, watched = (gb.run(FAILING, mode=mode, checks=checks) for checks in (False, True))

    assert (watched.error.traceback, watched.stderr) == (plain.error.traceback, plain.stderr)
    assert (watched.error, watched.warnings) == (plain.error, plain.warnings)


@pytest.mark.parametrize(
    "source",
    [
        "import pandas as pd, pickle\nprint(pickle.dumps(pd.merge) == pickle.dumps(pd.merge), pd.merge)",
        "import pandas as pd, inspect\nprint(inspect.signature(pd.DataFrame.merge), inspect.getsource(pd.concat)[:99])",
        "import pandas as pd\ndf = pd.DataFrame({'a': [1, 2]})\ndf['a'][0] = 5\nprint(df)",
        "import pandas as pd, traceback\ntry:\n    pd.to_numeric(['x'])\nexcept ValueError:\n    traceback.print_exc()",
        "import pandas as pd\nprint(pd.to_datetime(['1/2/2020', 'x'], errors='coerce'), pd.Series(['1']).max())",
        "import sys, pandas as pd\nd = pd.DataFrame([1.5, None])\nd.dropna(inplace=True)\nprint(sys.getrefcount(d))",
    ],
)
def test_programs_print_and_warn_the_same(source):
    plain, watched = (gb.run(source, mode="script", checks=checks) for checks in (False, True))

    assert (watched.outcome, watched.stdout, watched.stderr) == (plain.outcome, plain.stdout, plain.stderr)


def test_what_a_library_does_with_pandas_is_not_the_programs():
    source = "import pandas as pd\npd.DataFrame({'a': ['x', 'y'], 'b': [1, 2]}).describe(include='all')"

    assert codes(gb.run(source, checks=True)) == []


def test_calls_that_failed_are_forgotten():
    source = """
import pandas as pd
frames = [pd.DataFrame({"a": [1.5, None]}) for _ in range(200)]
def fail(depth):
    try:
        frames[depth].dropna(axis=7)
    except ValueError:
        return depth and fail(depth - 1)
fail(150)
frames[0].dropna(inplace=True)
"""

    assert codes(gb.run(source, checks=True)) == ["pandas.rows_dropped"]


def test_what_has_no_name_is_told_without_one():
    source = "import pandas as pd\npd.to_numeric(['1', 'x'], errors='coerce')\npd.to_datetime(['x'], errors='coerce')"

    warnings = gb.run(source, checks=True).warnings

    assert [warning.evidence for warning in warnings] == [
        {"line": 2, "rows": 2, "lost": 1},
        {"line": 3, "rows": 1, "lost": 1},
    ]
    assert warnings[0].message == "line 2: errors='coerce' made blanks of 1 of 2 values of what has no name"


def test_one_line_in_a_loop_is_told_once_with_its_times():
    source = "import pandas as pd\nfor _ in range(100):\n    pd.DataFrame({'a': [1.5, None]}).dropna()\n"

    (warning,) = gb.run(source, checks=True).warnings

    assert warning.evidence == {"line": 3, "rows": 2, "lost": 1, "times": 100}


def test_more_places_than_are_told_are_counted():
    source = "import pandas as pd\n" + "pd.DataFrame({'a': [1.5, None]}).dropna()\n" * 45

    warnings = gb.run(source, checks=True).warnings

    assert [warning.code for warning in warnings] == ["pandas.rows_dropped"] * 40 + ["pandas.unwatched"]
    assert warnings[-1].evidence == {"calls": 5}


def test_observers_work_beside_a_trace():
    execution = gb.run(MANY, checks=True, trace=True, mode="script")

    assert codes(execution) == ["pandas.merge_multiplied"]
    assert execution.trace.complete


@pytest.mark.parametrize("value", ["yes", 1])
def test_the_option_is_true_or_false(value):
    with pytest.raises(InvalidArgument, match=r"checks: must be True or False"):
        gb.run("1", checks=value)


def test_other_languages_know_no_such_option():
    with gb.Sandbox() as box, pytest.raises(InvalidArgument, match="checks: is no argument of run"):
        box.run("SELECT 1", language="sql", checks=True)


HOSTILE = """
import json, os, socket, struct
told = %s
frame = json.dumps({"ev": "done", "id": %%d, "ok": True, "observed": told}).encode()
for number in range(3, 96):
    try:
        sock = socket.socket(fileno=os.dup(number))
        sock.send(struct.pack("<I", len(frame)) + frame)
    except OSError:
        pass
"""


def _claiming(told, **options):
    with gb.Sandbox() as box:
        return box.run(HOSTILE % json.dumps(told) % 1, **options)


def test_a_claim_of_an_unknown_kind_is_left_out():
    told = [{"kind": "you must trust this"}, {"kind": "merge_empty", "counts": {"tier": 3}, "names": ["x\n\x1b[31m"]}]

    (warning,) = _claiming(told, checks=True).warnings

    assert (warning.code, warning.tier) == ("pandas.merge_empty", observations.KINDS["merge_empty"].tier)
    assert warning.evidence == {"names": ["'x\\n\\x1b[31m'"]}
    assert warning.message == "a join on 'x\\n\\x1b[31m' of 0 rows with 0 rows matched nothing"


def test_a_claim_that_nobody_asked_for_is_left_out():
    assert _claiming([{"kind": "merge_empty"}]).warnings == ()


@pytest.mark.parametrize(
    "told",
    [
        [{"kind": "merge_empty"}] * 49,
        [{"kind": "m" * 65}],
        [{"kind": "merge_empty", "line": 0}],
        [{"kind": "merge_empty", "counts": {"rows": -1}}],
        [{"kind": "merge_empty", "counts": {"rows": 1 << 54}}],
        [{"kind": "merge_empty", "counts": {str(n): n for n in range(9)}}],
        [{"kind": "merge_empty", "names": ["n" * 65]}],
        [{"kind": "merge_empty", "names": ["n"] * 9}],
        [{"kind": 1}],
    ],
)
def test_claims_over_their_bounds_break_the_protocol(told):
    body = json.dumps({"ev": "done", "id": 1, "ok": True, "observed": told}).encode()

    with pytest.raises(WireError):
        wire.decode(body)


def test_every_kind_can_be_told():
    for name, kind in observations.KINDS.items():
        (warning,) = observations.warnings([wire.Observed(kind=name)])

        assert (warning.code, warning.tier) == (kind.code, kind.tier)
        assert "{" not in warning.message


SCRIPT = """
import json, os
for number in range(3, 96):
    try:
        os.write(number, json.dumps({"observed": %s}).encode() + b"\\n")
    except OSError:
        pass
"""


def test_a_script_that_lies_is_cut_to_what_the_host_takes():
    first = {
        "kind": "merge_empty",
        "names": ["\ud800" * 70] * 9,
        "counts": {"rows": -1, "left": "3", "right": 4},
        "line": -3,
    }
    told = [first, {"kind": 5}, "nothing", *[{"kind": "merge_empty"}] * 60]

    execution = gb.run(SCRIPT % json.dumps(told), mode="script", checks=True)

    assert execution.ok
    assert codes(execution) == ["pandas.merge_empty"] * 46
    assert execution.warnings[0].evidence == {"right": 4, "names": [repr("?" * 60)] * 8}
