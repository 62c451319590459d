"""Results travel: they are kept, sent, compared and acted on far from the sandbox that they came from."""

import asyncio
import concurrent.futures
import copy
import json
import multiprocessing
import pickle
import re

import pytest

import groundbox as gb
from groundbox import errors
from groundbox.errors import GuestFileError, SandboxLost

BOMB = """
import mmap
shared = mmap.mmap(-1, 300 << 20)
while shared.write(b"x" * (1 << 20)): pass
"""
GONE = "import os; os._exit(3)"


def small(**options):
    return gb.Sandbox(profile="bare", limits=gb.Limits(memory_bytes=128 * gb.MiB), **options)


def test_a_program_in_a_fresh_sandbox_has_nothing_to_lose():
    assert gb.run("1").state == "ended"
    with small() as box:
        first = box.run(GONE)

    assert (first.outcome, first.state) == (gb.Outcome.ERROR, "ended")


def test_variables_of_an_earlier_run_are_lost_with_the_process():
    with small() as box:
        assert box.run("kept = 1").state == "kept"
        assert box.run(GONE).state == "lost"
        box.restart()
        assert box.run(GONE).state == "ended"


def test_a_run_after_the_processs_end_says_what_to_do():
    with small() as box:
        box.run(GONE)

        with pytest.raises(SandboxLost, match="restart"):
            box.run("1")


@pytest.mark.parametrize(("asked", "options"), [("auto", {}), ("never", {"restart": "auto"})])
def test_after_a_memory_kill_the_next_run_starts_afresh_if_asked(asked, options):
    with small(restart=asked) as box:
        box.run("kept = 1")
        box.files.write("kept.txt", "2")
        bomb = box.run(BOMB)
        again = box.run("'kept' in dir(), open('kept.txt').read()", **options)

    assert (bomb.outcome, bomb.state) == (gb.Outcome.MEMORY, "lost")
    assert again.text == "(False, '2')"
    assert [warning.code for warning in again.warnings] == ["session.restarted"]
    assert "its variables are gone" in again.warnings[0].message
    assert again.state == "kept"


def test_a_run_that_need_not_start_afresh_says_nothing_of_it():
    with small(restart="auto") as box:
        box.run("kept = 1")
        again = box.run("kept")

    assert (again.text, again.warnings) == ("1", ())


def test_a_stream_starts_afresh_too():
    with small(restart="auto") as box:
        box.run(GONE)
        last = list(box.stream("6 * 7"))[-1].execution

    assert (last.text, last.warnings[0].code) == ("42", "session.restarted")
    assert "variables" not in last.warnings[0].message


def test_after_a_run_that_its_caller_gave_up_the_next_one_starts_afresh_too():
    async def work():
        async with gb.AsyncSandbox(profile="bare", restart="auto") as box:
            await box.run("kept = 1")
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(box.run("while True: pass"), 0.5)
            return await box.run("'kept' in dir()")

    again = asyncio.run(work())

    assert (again.text, again.warnings[0].code) == ("False", "session.restarted")
    assert "its run was cancelled" in again.warnings[0].message


@pytest.fixture(scope="module")
def results():
    """Results of each kind that there is: with files, cut output, a table of SQL, a picture, a failure, a trace."""
    with gb.Sandbox(limits=gb.Limits(output_bytes=1000)) as box:
        made = {
            "files": box.run("print('x' * 5000); open('a.csv', 'w').write('a,b\\n1,2\\n'); 6 * 7"),
            "table": box.run("SELECT 1 AS a", language="sql"),
            "picture": box.run("import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()"),
            "failure": box.run("d = {'a': '\\u202e'}\nd['x']"),
            "large": box.run("_ = open('large', 'wb').write(b'1' * 9_000_000)"),
        }
    made["tools"] = gb.run(TOOL, tools={"f": lambda text: len(text)})
    return {**made, "trace": gb.run("x = 1\nx += 1", trace=True)}


TOOL = "import tools; tools.f('abc')"
KINDS = ["files", "table", "picture", "failure", "large", "trace", "tools"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("copied", [lambda one: pickle.loads(pickle.dumps(one)), copy.deepcopy])
def test_a_copy_is_equal_and_has_its_files_and_its_output(results, kind, copied):
    execution = results[kind]

    twin = copied(execution)

    assert twin == execution
    assert twin.to_dict() == execution.to_dict()
    assert twin.outputs["stdout"].read() == execution.outputs["stdout"].read()
    assert [a.read() for a in twin.artifacts.values()] == [a.read() for a in execution.artifacts.values()]
    assert pickle.loads(pickle.dumps(twin)) == execution


def test_a_result_comes_back_from_another_process_with_all_that_it_printed():
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        execution = pool.submit(gb.run, "print('line\\n' * 1000)", limits=gb.Limits(output_bytes=100)).result()

    assert execution.dropped_bytes["stdout"] > 0
    assert execution.outputs["stdout"].read() == b"line\n" * 1000 + b"\n"
    assert execution.outputs["stdout"].search("line")[-1].number == 100


@pytest.mark.parametrize(("levels", "items"), [(100, 1), (9, 20_000)])
def test_what_is_nested_too_deeply_to_be_sent_is_left_out_and_nothing_is_lost(levels, items):
    source = (
        f"from IPython.display import JSON\nx = list(range({items}))\nfor _ in range({levels}): x = {{'a': x}}\nJSON(x)"
    )
    with gb.Sandbox(profile="science") as box:
        shown = box.run(source)

        assert (shown.ok, shown.state, list(shown.value)) == (True, "kept", ["text/plain"])
        assert "application/json left out: it is nested too deeply" in shown.text
        assert box.run("len(x)").text == "1"


@pytest.mark.parametrize("content", ["5", "'text'", "None", "[]", "{'a': [1]}", "'x' * 100_000"])
def test_any_json_that_is_not_deep_is_shown(content):
    shown = gb.run(f"from IPython.display import display\ndisplay({{'application/json': [{content}][0]}}, raw=True)")

    assert shown.ok
    assert [list(each.data) for each in shown.displays] == [[] if content == "None" else ["application/json"]]


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_sandbox_is_not_copied_and_lives_on(copied):
    with small() as box:
        box.run("kept = 1")

        with pytest.raises(TypeError, match="a Sandbox is a live process, and is neither copied nor pickled"):
            copied(box)
        with pytest.raises(TypeError, match="live process"):
            copied(box.asynchronous)

        assert box.run("kept").text == "1"


def test_a_copy_says_why_it_has_no_bytes():
    with gb.Sandbox(profile="bare", limits=gb.Limits(disk_bytes=64 * gb.MiB)) as box:
        execution = box.run("_ = open('large', 'wb').write(b'1' * 9_000_000)")
        box.run("_ = open('large', 'wb').write(b'2')")

        twin = pickle.loads(pickle.dumps(execution))

    with pytest.raises(GuestFileError, match="large: "):
        twin.artifacts["large"].read()


@pytest.mark.parametrize("kind", KINDS)
def test_a_result_is_json(results, kind):
    execution = results[kind]

    assert json.loads(execution.to_json()) == json.loads(json.dumps(execution.to_dict()))
    assert json.loads(execution.to_json(indent=1))["outcome"] == execution.outcome.value


@pytest.mark.parametrize("kind", KINDS)
def test_pydantic_sends_what_to_dict_gives_and_a_web_framework_describes_it(results, kind):
    pydantic = pytest.importorskip("pydantic")
    execution = results[kind]
    response = pydantic.TypeAdapter(gb.Execution)

    sent = response.dump_json(response.validate_python(execution))

    assert json.loads(sent) == json.loads(execution.to_json())
    described = response.json_schema(mode="serialization")
    assert (described["type"], set(described["required"])) == ("object", set(execution.to_dict()))
    with pytest.raises(pydantic.ValidationError):
        response.validate_python({"outcome": "ok"})


def test_a_result_is_true_where_the_program_succeeded(results):
    assert [name for name in KINDS if not results[name]] == ["failure"]


def test_who_has_no_use_for_failures_as_values_gets_them_raised(results):
    assert results["table"].raise_for_error() is results["table"]
    with pytest.raises(gb.ProgramFailed) as failed:
        results["failure"].raise_for_error()

    assert str(failed.value) == "the program ended with outcome error: KeyError: 'x' (line 2)"
    assert (failed.value.execution, failed.value.sandbox_usable) == (results["failure"], True)
    assert "d['x']" in failed.value.__notes__[0]


def test_a_guest_forges_no_line_by_what_it_fails_with():
    execution = gb.run("raise ValueError('a\\n2026-01-01 INFO all is well\\x1b[2J\\u202e')")

    with pytest.raises(gb.ProgramFailed) as failed:
        execution.raise_for_error()

    told = str(failed.value)
    assert told == ("the program ended with outcome error: ValueError: a\\n2026-01-01 INFO all is well\\u202e (line 1)")
    assert not [c for c in "".join(failed.value.__notes__) + repr(execution) if c != "\n" and not c.isprintable()]
    assert "\n" not in repr(execution)


@pytest.mark.parametrize(
    "error",
    [
        errors.InvalidArgument("wall_s", "must be above 0"),
        errors.UnknownArgument("timeout", "is none"),
        errors.SandboxUnavailable(["cgroup: none"]),
        errors.LanguageUnavailable("dot", "dot", "apt install graphviz"),
        errors.SandboxClosed(),
        errors.SandboxLost("a signal ended it"),
        errors.TemplateFailed("it died", "log"),
        errors.GuestFileError("a", "is not there", 2),
    ],
)
def test_an_error_comes_back_from_another_process_as_it_was(error):
    twin = pickle.loads(pickle.dumps(error))

    assert (type(twin), str(twin), vars(twin)) == (type(error), str(error), vars(error))


def test_a_result_is_told_in_a_line_where_it_is_not_shown(results):
    told = {name: re.sub(r"[\d.e-]+ s>", "… s>", repr(results[name])) for name in KINDS}

    assert (
        told["files"] == f"<Execution ok: value '42', stdout '{60 * 'x'}'… ({CUT} characters more), files a.csv, … s>"
    )
    assert told["picture"].startswith("<Execution ok: 1 display")
    assert told["failure"] == "<Execution error: \"KeyError: 'x'\", … s>"
    assert repr(results["files"].artifacts["a.csv"]).startswith("<Artifact 'a.csv', 8 bytes, text/csv")
    forms = "image/png, application/vnd.groundbox.chart\\+json"
    assert re.fullmatch(rf"<Display '<Figure [^']*>', {forms}>", repr(results["picture"].displays[0]))


CUT = 500 + len("\n… 4001 bytes left out …\n") + 500 - 60
