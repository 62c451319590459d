"""Cells keep their state, have a value, and always come back."""

import json

import pytest

OK = {"ok": True, "value": None, "error": None, "interrupted": False}
INTERRUPTED = {"ok": False, "value": None, "error": None, "interrupted": True}


def without_error(result):
    return {**result, "error": None}


def plain(text):
    return {**OK, "value": {"text/plain": text}}


@pytest.mark.parametrize("ipython", [False, True])
def test_the_last_expression_is_the_value_unless_it_is_none_or_silenced(run_cells, ipython):
    sources = [
        "1 + 1",
        "x = 3\nx * 2",
        "x",
        "x;",
        "(x\n) ; # quiet",
        "print(x)",
        "None",
        "x = 4",
        "",
        "# nothing",
    ]

    ran = run_cells(*sources, ipython=ipython)

    assert ran.results == [plain("2"), plain("6"), plain("3"), OK, OK, OK, OK, OK, OK, OK]
    assert ran.stdout == "3\n"


def test_earlier_values_have_names_until_the_program_takes_them(run_cells):
    ran = run_cells("10", "20", "_ + __, _1, Out[2]", "_ = 'mine'", "30", "_")

    assert ran.results[2] == plain("(30, 10, 20)")
    assert ran.results[5] == plain("'mine'")


def test_only_the_newest_values_are_kept(run_cells):
    ran = run_cells(*(str(n) for n in range(20)), "len(Out), '_1' in globals(), '_20' in globals()")

    assert ran.last == plain("(16, False, True)")


def test_await_at_the_top_shares_one_loop_and_asyncio_run_works_beside_it(run_cells):
    ran = run_cells(
        "import asyncio\nlock = asyncio.Lock()\nawait lock.acquire()\nfirst = asyncio.get_running_loop()",
        "asyncio.run(asyncio.sleep(0, 'run'))",
        "first is (await asyncio.sleep(0, asyncio.get_running_loop()))",
        "[x async for x in agen()] if False else await asyncio.sleep(0, 'awaited')",
    )

    assert ran.results == [OK, plain("'run'"), plain("True"), plain("'awaited'")]


def test_future_statements_last_for_later_cells(run_cells):
    ran = run_cells("from __future__ import annotations", "def f(a: Missing): ...", "f.__annotations__", "g = 1\ng")

    assert ran.results[2:] == [plain("{'a': 'Missing'}"), plain("1")]


def test_what_a_cell_defines_is_found_in_main(run_cells):
    ran = run_cells(
        "import dataclasses, inspect, pickle\n@dataclasses.dataclass\nclass P:\n    a: int\n",
        "def double(x):\n    return x * 2\n",
        "pickle.loads(pickle.dumps(P(1)))",
        "inspect.getsource(double)",
        "inspect.getsource(P)",
        "import multiprocessing as mp\nmp.get_context('fork').Pool(2).map(double, [1, 2])",
        "__name__",
    )

    assert [result["value"]["text/plain"] for result in ran.results[2:]] == [
        "P(a=1)",
        repr("def double(x):\n    return x * 2\n"),
        repr("@dataclasses.dataclass\nclass P:\n    a: int\n"),
        "[2, 4]",
        "'__main__'",
    ]


def test_each_cell_warns_anew_with_its_line(run_cells):
    ran = run_cells("import warnings", "warnings.warn('careful')", "warnings.warn('careful')")

    line = "UserWarning: careful\n  warnings.warn('careful')\n"
    assert ran.stderr == f"<cell 2>:1: {line}<cell 3>:1: {line}"


@pytest.mark.parametrize("source", ["exit()", "quit()", "import sys; sys.exit()", "raise SystemExit(0)"])
def test_leaving_with_success_ends_the_cell_only(run_cells, source):
    ran = run_cells("x = 1", source, "x")

    assert ran.results == [OK, OK, plain("1")]


def test_leaving_with_another_code_is_an_error(run_cells):
    ran = run_cells("import sys\nsys.exit('no data')")

    assert (ran.error["type"], ran.error["message"], ran.error["line"]) == ("SystemExit", "no data", 2)


@pytest.mark.parametrize(
    "source",
    [
        "while True: pass",
        "import time\ntime.sleep(60)",
        "import asyncio\nawait asyncio.sleep(60)",
        "class Slow:\n    def __repr__(self):\n        while True: pass\nSlow()",
    ],
)
def test_an_interrupt_ends_the_cell_and_keeps_the_state(run_cells, source):
    ran = run_cells("x = 1\n" + source, interrupt_after_s=0.3)

    assert [without_error(result) for result in ran.results] == [INTERRUPTED]
    assert (ran.error["type"], ran.error["message"]) == ("KeyboardInterrupt", "the run was interrupted")
    assert ran.error["line"] is None or ran.error["line"] >= 2  # none in a coroutine that was cancelled


def test_cells_run_on_after_an_interrupt(run_cells):
    stop = "import os, signal, asyncio\nx = 1\nos.kill(os.getpid(), signal.SIGINT)\nx = 2"

    ran = run_cells(stop, "x", "await asyncio.sleep(0, 'loop')", "import signal\nsignal.getsignal(2).__name__")

    assert without_error(ran.results[0]) == INTERRUPTED
    assert ran.results[1:] == [plain("1"), plain("'loop'"), plain("'default_int_handler'")]


def test_a_handler_of_the_program_stays_for_its_cells(run_cells):
    ran = run_cells(
        "import os, signal\nseen = []\nsignal.signal(signal.SIGINT, lambda *a: seen.append('me'))",
        "os.kill(os.getpid(), signal.SIGINT)\nseen",
    )

    assert ran.last == plain("['me']")


def test_a_program_that_breaks_the_ground_gets_an_answer(run_cells):
    ran = run_cells("import builtins, sys\nsys.stdout = sys.stderr = None\nbuiltins.eval = None", "1", "2")

    assert [result["error"]["type"] for result in ran.results[1:]] == ["TypeError", "TypeError"]


def test_the_template_is_left_as_if_nothing_had_run(run_cells):
    ran = run_cells("len(In), len(Out), 'x' in globals()", warm=True, template_facts=True, fork=True)

    facts, _ = ran.stdout.split("\n")
    assert ran.last == plain("(2, 0, False)")
    assert json.loads(facts) == {
        "threads": 1,
        "names": [
            "In",
            "Out",
            "__builtins__",
            "__doc__",
            "__loader__",
            "__name__",
            "__package__",
            "__spec__",
        ],
        "sigint": True,
        "fonts": 0,
    }


def test_the_template_with_ipython_has_one_thread_and_writes_no_file(run_cells, workdir):
    ran = run_cells("len(In), len(Out)", ipython=True, warm=True, template_facts=True, fork=True)

    assert json.loads(ran.stdout)["threads"] == 1
    assert ran.last == plain("(2, 0)")
    assert list(workdir.iterdir()) == []


def test_the_template_holds_no_font_open(run_cells):
    """A fork has other files by the same numbers, which it would close when it drops the fonts."""
    ran = run_cells("1", imports=["matplotlib.pyplot"], warm=True, template_facts=True, fork=True)

    assert json.loads(ran.stdout)["fonts"] == 0


def test_forks_draw_different_numbers(run_cells):
    source = "import random\nrandom.random()"

    values = {run_cells(source, imports=["random"], fork=True).value["text/plain"] for _ in range(2)}

    assert len(values) == 2
