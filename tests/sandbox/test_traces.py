"""Traces through the sandbox: what the host makes of what a guest wrote, and when it does not believe it."""

import pytest

import groundbox as gb
from groundbox.errors import TracerMissing
from groundbox.trace.record.reading import Trace

SUM = "def total(items):\n    s = 0\n    for x in items:\n        s += x\n    return s\n"


def shown(trace):
    """The control flow and the values of names, in one line."""
    parts = []
    for record in trace.records:
        kind = type(record).__name__
        if kind == "Line":
            parts.append(f"{record.n}:")
        elif kind == "Set" and not isinstance(record.v, dict):
            parts.append(f"{record.name}={record.v}")
    return " ".join(parts)


@pytest.mark.parametrize("core", ["plain", "auto"])
def test_a_call_is_traced(core):
    options = gb.TraceOptions(core=core)

    execution = gb.run(SUM, mode="call", call="total", args=[[2, 5]], trace=options, hash_seed=0)

    trace = execution.trace
    assert (execution.text, trace.complete, trace.reasons) == ("7", True, [])
    assert trace.core == core if core != "auto" else trace.core in ("native", "plain")
    assert shown(trace) == "1: 2: s=0 3: x=2 4: s=2 3: x=5 4: s=7 3: 5:"
    assert trace.header.entry.args == [[2, 5]]
    assert trace.header.counts == {
        "call": 2, "end": 1, "ended": 1, "iteration": 2, "line": 8, "object": 1, "return": 2, "set": 6
    }  # fmt: skip
    assert execution.to_dict()["trace"]["complete"] is True


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"a": [1, None]}, {"a": [1, None]}),
        ({"set": [1]}, {"dict": [["set", [1]]]}),
        ({(1, 2): 3}, {"dict": [[{"tuple": [1, 2]}, 3]]}),
        ({1: {"b": 2}}, {"dict": [[1, {"b": 2}]]}),
        ([(1,), {2, 1}, frozenset()], [{"tuple": [1]}, {"set": [1, 2]}, {"frozenset": []}]),
        (float("-inf"), {"float": "-inf"}),
        (1 + 2j, {"complex": [1.0, 2.0]}),
        (b"ab", {"bytes": "6162"}),
        (10**5000, {"int": hex(10**5000)}),
    ],
    ids=lambda each: type(each).__name__,
)
def test_arguments_of_every_kind_are_in_the_header_and_come_back_from_its_file(value, told):
    execution = gb.run("def f(x):\n    return 1\n", mode="call", call="f", args=[value], kwargs={}, trace=True)

    assert execution.trace.header.entry.args == [told]
    assert Trace.loads(execution.trace.dumps()) == execution.trace


def test_a_script_is_traced_with_its_input_and_output():
    source = "name = input()\nprint('hello', name)\n"

    execution = gb.run(source, mode="script", stdin="Ada\n", trace=True)

    assert execution.stdout == "hello Ada\n"
    assert execution.trace.core in ("native", "plain")
    assert shown(execution.trace) == "1: name=Ada 2:"
    assert [record.text for record in execution.trace.records if type(record).__name__ == "Out"] == ["hello Ada\n"]


def test_cells_are_traced_one_by_one_and_keep_their_state_and_values():
    with gb.Sandbox() as box:
        first = box.run("x = 1\nx + 1", trace=True)
        plain = box.run("_, x")
        second = box.run("x += 1\nx;", trace=True)

    assert (first.text, plain.text, second.text) == ("2", "(2, 1)", None)
    assert (shown(first.trace), shown(second.trace)) == ("1: x=1 2: _=2", "1: x=2 2: _=2")
    assert (first.trace.complete, second.trace.complete) == (True, True)


def test_an_exception_is_part_of_a_complete_trace():
    execution = gb.run("d = {}\nd['a']\n", mode="script", trace=True)

    assert (execution.outcome, execution.trace.complete) == (gb.Outcome.ERROR, True)
    assert [record.type for record in execution.trace.records if type(record).__name__ == "Raise"] == ["KeyError"]


def test_a_native_tracer_that_is_not_there_is_missing_by_name_and_nothing_is_run(monkeypatch):
    monkeypatch.setattr("groundbox.sandbox.catalog.tracer.for_a_trace", lambda environment: None)
    with gb.Sandbox(hash_seed=4711) as box:
        with pytest.raises(TracerMissing, match="the environment 'default' has no native tracer: ") as missing:
            box.run("open('ran', 'w')", trace=gb.TraceOptions(core="native"))

        assert (missing.value.program_ran, missing.value.sandbox_usable) == (False, True)
        execution = box.run("import os; os.listdir()", trace=True)
        assert (execution.text, execution.trace.core) == ("[]", "plain")


def test_a_program_that_is_stopped_leaves_what_it_did_so_far():
    source = "n = 0\nwhile True:\n    n += 1\n"

    execution = gb.run(
        source,
        mode="script",
        trace=gb.TraceOptions(soft_events=2_000_000, max_events=2_000_000),
        limits=gb.Limits(cpu_s=1),
    )

    assert (execution.outcome, execution.trace.complete) == (gb.Outcome.TIMEOUT, False)
    assert "timeout: the program was stopped at cpu_s=1" in execution.trace.reasons
    assert shown(execution.trace).startswith("1: n=0 2: 3: n=1 2: 3: n=2")


def test_a_loop_without_end_is_folded():
    source = "n = 0\nwhile True:\n    n += 1\n    if n == 50_000:\n        break\n"

    execution = gb.run(source, mode="script", trace=gb.TraceOptions(soft_events=50))
    if execution.trace.core != "native":
        pytest.skip("there is no native tracer, and the plain one folds nothing")

    folds = [record for record in execution.trace.records if type(record).__name__ == "Fold"]
    assert (execution.trace.complete, execution.trace.folded, len(folds)) == (True, True, 1)
    assert shown(execution.trace).endswith("n=50000")
    recorded = sum(type(record).__name__ == "Line" and record.n == 3 for record in execution.trace.records)
    assert folds[0].iterations + recorded == 50_000


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import sys\nsys.settrace(None)\nx = 1\n", "the program changed the trace function"),
        ("import os\nif os.fork() == 0:\n    os._exit(0)\nos.wait()\n", "a forked process was not traced"),
        ("import os\nos._exit(0)\n", "the records have no end"),
        ("import ctypes\nctypes.string_at(id(0), 8)\n", "ctypes"),
        ("import gc\ngc.get_objects()\n", "garbage collector"),
        ("open('/proc/self/mem', 'rb').close()\n", "memory"),
    ],
)
def test_a_trace_that_may_have_been_tampered_with_is_not_complete(source, reason):
    execution = gb.run(source, mode="script", trace=True)

    assert execution.trace.complete is False
    assert any(reason in each for each in execution.trace.reasons), execution.trace.reasons


def test_a_program_finds_no_descriptor_of_its_trace():
    source = """
import os
for name in os.listdir('/proc/self/fd'):
    try:
        print(os.readlink(f'/proc/self/fd/{name}'))
    except OSError:
        pass
"""

    execution = gb.run(source, mode="script", trace=True)

    assert execution.ok
    assert "pipe:" in execution.stdout
    assert "groundbox-trace" not in execution.stdout


def test_the_host_reads_no_more_than_it_gave():
    """A guest that reaches its trace by address claims a length, and writes what it likes."""
    source = """
import ctypes, re
(line,) = [line for line in open('/proc/self/maps') if 'groundbox-trace' in line]
start = int(line.split('-')[0], 16)
ctypes.memmove(start, (1 << 60).to_bytes(8, 'little') + b'{"k":"end"}\\n{"k":"call","f":1}\\n', 40)
import os
os._exit(0)
"""

    execution = gb.run(source, mode="script", trace=gb.TraceOptions(max_bytes=1 << 20))

    assert execution.trace.complete is False
    assert execution.trace.reasons[0].startswith("record ")


def test_only_python_is_traced():
    with pytest.raises(gb.InvalidArgument, match=r"trace: must be True, False or TraceOptions, not 'yes'"):
        gb.run("1", trace="yes")  # type: ignore[arg-type]  # refused


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"core": "gdb"}, "core: 'gdb' is none of auto, native, plain"),
        ({"soft_events": 0}, "soft_events: must be from 1 to 2000000, not 0"),
        ({"max_bytes": True}, "max_bytes: must be from 65536 to 268435456, not True"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(options, message):
    with pytest.raises(gb.InvalidArgument) as refused:
        gb.TraceOptions(**options)

    assert str(refused.value) == message
