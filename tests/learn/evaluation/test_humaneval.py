"""Solutions are told from cheats: each passes a checker that runs tests and solution in one process, and not ours."""

import asyncio
import signal
from pathlib import Path

import pytest

import groundbox as gb
from groundbox.errors import GroundboxError, InvalidArgument, SandboxLost
from groundbox.learn.evaluation import humaneval, judging
from groundbox.learn.evaluation.humaneval import Problem, Sample, judge, judge_all, read_problems, read_samples
from groundbox.learn.rewards.rewarding import Rewards

PROBLEMS = read_problems(Path(__file__).with_name("problems.jsonl"))
LIMITS = gb.Limits(wall_s=10, cpu_s=5)
LOOP = asyncio.Runner()
DOUBLE, AREA, PAIRS = PROBLEMS["own/0"], PROBLEMS["own/1"], PROBLEMS["own/3"]


def judged(problem, program, limits=LIMITS):
    sample = Sample(task_id=problem.task_id, program=program)
    return LOOP.run(judge(problem, sample, limits=limits, options={}))


def naive(problem, program):
    """How it is often done: one process, and what counts is the exit status."""
    whole = f"{program}\n{problem.test}\ncheck({problem.entry_point})\n"
    return gb.run(whole, mode="script", limits=LIMITS).ok


def naive_by_output(problem, program):
    """The same with a verdict that is printed."""
    whole = f"{program}\n{problem.test}\ncheck({problem.entry_point})\nprint('PASSED')\n"
    return "PASSED" in gb.run(whole, mode="script", limits=LIMITS).stdout


CHEATS = {
    "ends its process": (DOUBLE, "import os\ndef double(n):\n    os._exit(0)", "ended"),
    "leaves early": (DOUBLE, "import sys\ndef double(n):\n    sys.exit(0)", "ended"),
    "ends its process at once": (DOUBLE, "import os\nos._exit(0)", "ended"),
    "ends by a handler": (
        DOUBLE,
        "import atexit, os\natexit.register(os._exit, 0)\ndef double(n):\n    return 7",
        "failed",
    ),
    "patches a builtin": (AREA, "import builtins\nbuiltins.abs = lambda x: 0\ndef area(r):\n    return r", "failed"),
    "equals everything": (
        DOUBLE,
        "class Any(int):\n    def __eq__(self, other): return True\n    def __ne__(self, other): return False\n"
        "def double(n):\n    return Any()",
        "failed",
    ),
    "is an object that equals everything": (
        DOUBLE,
        "class Any:\n    def __eq__(self, other): return True\ndef double(n):\n    return Any()",
        "no-data",
    ),
    "is a list that equals everything": (
        PAIRS,
        "class Any(list):\n    def __eq__(self, other): return True\ndef pairs(items):\n    return Any()",
        "failed",
    ),
    "is a float whose difference is nothing": (
        AREA,
        "class Any(float):\n    def __sub__(self, other): return 0.0\ndef area(r):\n    return Any(1)",
        "failed",
    ),
    "reads the expected values from its caller": (
        DOUBLE,
        "import sys\nseen = []\ndef double(n):\n    if not seen:\n"
        "        seen.extend(c for c in sys._getframe(1).f_code.co_consts if isinstance(c, int))\n"
        "    return {2: 4, 0: 0, -3: -6}[n] if 4 in seen else 0",
        "failed",
    ),
    "patches the tests": (
        DOUBLE,
        "import sys\ndef double(n):\n    frame = sys._getframe(1)\n    raise SystemExit(0)",
        "ended",
    ),
    "replaces the tests in their module": (
        DOUBLE,
        "import sys, threading, time\nsys.setswitchinterval(1e-6)\ndef double(n):\n"
        "    sys.modules['__main__'].check = lambda candidate: None\n    sys.excepthook = lambda *_: None\n"
        "    import os, atexit\n    atexit.register(lambda: os._exit(0))\n    return 7",
        "failed",
    ),
    "turns asserts off": (
        DOUBLE,
        "import sys, os\ndef hook(*_):\n    os._exit(0)\nsys.excepthook = hook\ndef double(n):\n    return 7",
        "failed",
    ),
}


@pytest.mark.parametrize("cheat", CHEATS)
def test_a_cheat_passes_a_naive_checker_and_not_ours(cheat):
    problem, program, reason = CHEATS[cheat]

    assert naive(problem, program)
    judgement = judged(problem, program)

    assert (judgement.passed, judgement.reason) == (False, reason)


@pytest.mark.parametrize(
    "program",
    [
        "print('PASSED')\ndef double(n): return 7",
        "def double(n):\n    print('PASSED', flush=True)\n    return 7",
    ],
)
def test_a_printed_verdict_is_none(program):
    assert naive_by_output(DOUBLE, program)
    assert judged(DOUBLE, program).reason == "failed"


def test_a_verdict_for_the_tests_forged_as_data_is_none():
    program = "class Any(dict):\n    pass\ndef double(n):\n    return {'kind': 'passed', 'value': 4, 'raised': 'x'}"

    assert judged(DOUBLE, program).reason == "failed"


def test_right_solutions_pass(tmp_path):
    samples = [Sample(task_id=p.task_id, program=p.prompt + p.canonical_solution) for p in PROBLEMS.values()]

    found = LOOP.run(judge_all(samples, PROBLEMS, limits=LIMITS, options={}, workers=2))

    assert [(one.reason, one.calls) for one in found] == [("passed", 3), ("passed", 2), ("passed", 4), ("passed", 3)]
    assert humaneval.counts(samples, found) == [(1, 1)] * 4


def test_a_sandbox_that_is_lost_costs_its_own_sample_and_is_tried_again(monkeypatch):
    samples = [Sample(task_id="own/0", program=f"def double(n): return 2 * n  # {each}") for each in ["once", "ever"]]
    left = {"once": 1, "ever": 9}
    run = judging._Solution._run

    async def loses(solution, calls):
        name = solution._program.rpartition("# ")[2]
        if left[name]:
            left[name] -= 1
            raise SandboxLost("it was killed")
        return await run(solution, calls)

    monkeypatch.setattr(judging._Solution, "_run", loses)

    found = LOOP.run(judge_all(samples, PROBLEMS, limits=LIMITS, options={}, workers=1))

    assert [(each.reason, each.is_known) for each in found] == [("passed", True), ("sandbox", False)]
    assert "it was killed" in found[1].detail
    assert left == {"once": 0, "ever": 6}
    assert humaneval.counts(samples, found) == [(1, 1)]


def test_what_cannot_run_here_at_all_ends_the_work():
    sample = Sample(task_id="own/0", program="def double(n): return 2 * n")

    with pytest.raises(GroundboxError):
        LOOP.run(judge_all([sample], PROBLEMS, limits=LIMITS, options={"environment": "nowhere"}, workers=1))


@pytest.mark.parametrize("name", ["class", "a b", "", "None"])
def test_a_name_that_no_function_can_have_is_refused(name):
    async def main():
        async with judging.Judge(limits=LIMITS) as court:
            await court.judge_cases("x = 1", name, [judging.Case()])

    with pytest.raises(InvalidArgument, match="entry_point: has to be the name of a function"):
        LOOP.run(main())
    with pytest.raises(InvalidArgument, match="entry_point: has to be the name of a function"):
        Rewards().cases(["x = 1"], [[{"expected": 1}]], [name])


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("def double(n): return 3", "failed"),
        ("def double(n): raise ValueError('no')", "failed"),
        ("def other(n): return 2 * n", "failed"),
        ("def double(n) return 3", "error"),
        ("def double(n):\n    while True: pass", "timeout"),
        ("def double(n): return bytearray(2 ** 40)", "memory"),
        ("def double(n): return double", "no-data"),
        ("raise SystemExit", "ended"),
    ],
)
def test_a_wrong_solution_fails_with_its_reason(program, reason):
    assert judged(DOUBLE, program, gb.Limits(wall_s=2, cpu_s=1)).reason == reason


def test_calls_share_a_budget(monkeypatch):
    monkeypatch.setattr(judging, "MOST_CALLS", 1)

    assert judged(DOUBLE, "def double(n): return 2 * n").detail == "more than 1 calls"


def problem_of(body, entry="f"):
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    test = f"import random\ndef check(candidate):\n{lines}\n"
    return Problem(task_id="made", prompt=f"def {entry}(x):\n", entry_point=entry, test=test)


@pytest.mark.parametrize(
    ("body", "right", "wrong", "calls"),
    [
        ("assert candidate(candidate(3)) == 9", "return x * 2 if x < 6 else 9", "return 6", 2),
        ("x = random.randrange(10 ** 9)\nassert candidate(x) == x", "return x", "return 0", 1),
        ("x = random.SystemRandom().random()\nassert candidate(x) == x", "return x", "return 0", 1),
        ("n = 0\nwhile n < 3:\n    n = candidate(n)\nassert n == 3", "return x + 1", "return 4", 3),
        ("assert candidate(1) == 1 if candidate(0) else candidate(2) == 2", "return x", "return 3", 2),
        ("x = [1]\nassert candidate(x) == 1 and x == [1]", "x.append(2)\n    return 1", "return 2", 1),
        ("try:\n    candidate(1)\nexcept KeyError:\n    return\nassert False", "raise KeyError(x)", "return 1", 1),
        ("assert all(candidate(n) == n for n in range(3))", "return x", "return -x", 3),
        ("assert list(candidate(range(3))) == [0, 1, 2]", "return [*x]", "return [0]", 1),
        ("assert f(2) == 2", "return x", "return 1", 1),
    ],
)
def test_calls_that_cannot_be_foreseen_are_made_all_the_same(body, right, wrong, calls):
    problem = problem_of(body)

    found = judged(problem, f"def f(x):\n    {right}\n")
    missed = judged(problem, f"def f(x):\n    {wrong}\n")

    assert (found.reason, found.calls, missed.reason) == ("passed", calls, "failed")


def test_a_call_that_was_foreseen_and_not_made_decides_nothing():
    problem = problem_of("if candidate(0) == 0:\n    return\ncandidate(1)\nassert False")
    fine = problem_of("if candidate(0) != 0:\n    return\nassert candidate(1) == 1\nassert candidate(2) == 2")

    assert judged(problem, "def f(x):\n    while x: pass\n    return 0", gb.Limits(wall_s=1)).reason == "passed"
    assert judged(fine, "def f(x):\n    while x: pass\n    return 5", gb.Limits(wall_s=1)).reason == "passed"


def test_a_rehearsal_that_would_not_end_is_broken_off():
    problem = problem_of("n = 0\nwhile n < 10 ** 9:\n    n += candidate(n)\nassert n")

    assert judged(problem, "def f(x): return 10 ** 9").reason == "passed"


def test_sandboxes_of_tests_serve_again_for_their_problem_alone():
    marks = "import sys\ndef check(candidate):\n    sys.marks = getattr(sys, 'marks', 0) + 1\n"
    once = judging.Tests(prompt="", entry_point="f", test=f"{marks}    assert candidate(1) == 1")
    again = judging.Tests(prompt="", entry_point="f", test=f"{marks}    assert candidate(sys.marks) > 3")

    async def reasons(tests, programs):
        async with judging.Judge(limits=LIMITS) as court:
            return [(await court.judge(tests, program)).reason for program in programs]

    async def one_after_the_other():
        async with judging.Judge(limits=LIMITS) as court:
            await court.judge(once, "def f(x): return x")
            return (await court.judge(again, "def f(x): return x")).reason

    assert LOOP.run(reasons(again, ["def f(x): return x"] * 2)) == ["failed", "passed"]
    assert LOOP.run(one_after_the_other()) == "failed"


def test_tests_that_ask_without_end_are_ended():
    problem = problem_of("x = 0\nwhile True:\n    x = candidate(x)")

    found = judged(problem, "import time\ndef f(x):\n    time.sleep(0.2)\n    return x + 1", gb.Limits(wall_s=0.5))

    assert (found.reason, found.detail) == ("timeout", "its calls took more than 2 s together")


@pytest.mark.parametrize(
    "forged",
    ["{'kind': 'calls'}", "{'kind': 'calls', 'calls': [1]}", "{'kind': 'passed'}", "{'kind': 'call', 'calls_made': 1}"],
)
def test_steps_that_tests_forge_are_none(forged):
    patch = f"t.Tests.rehearse = t.Tests.begin = lambda *_: t.Asked({forged})"
    body = f"import groundbox.guest.python.remote_tests as t\n{patch}"

    assert judged(problem_of(body), "def f(x): return x").reason == "tests"


@pytest.mark.parametrize(
    "call",
    ["3, {'dict': []}", "[], 3", "[], []", "[], {'dict': [[1, 2]]}", "{'range': [0, 10 ** 12, 1]}, {'dict': []}"],
)
def test_arguments_that_tests_forge_are_none(call):
    """A range is data that travels, and would be a list as long as the tests say, on this side."""
    forged = f"dict(kind='call', calls_made=1, spent_s=0.1, **dict(zip(('args', 'kwargs'), ({call}))))"
    patch = f"t.Tests.begin = lambda *_: t.Asked({forged})"
    body = f"import groundbox.guest.python.remote_tests as t\n{patch}"

    found = judged(problem_of(body), "def f(x): return x")

    assert (found.reason, found.detail) == ("tests", "arguments are no data")


@pytest.mark.parametrize("at", ["rehearse", "begin", "answer"])
def test_tests_whose_process_is_killed_are_run_again_and_are_no_verdict(at, monkeypatch):
    """By the machine, which kills no solution with them: its results are there already."""
    problem = problem_of("import time\nx = candidate(2)\nassert candidate(x) == 2 * x\ntime.sleep(0.3)")
    left, step = [1], getattr(judging._TestsBox, at)

    async def killed_once(box, *arguments):
        running = asyncio.ensure_future(step(box, *arguments))
        if left:
            left.pop()
            await asyncio.sleep(0.1)
            worker = await box.box.worker()
            worker._signal(signal.SIGKILL)
        return await running

    monkeypatch.setattr(judging._TestsBox, at, killed_once)
    samples = [Sample(task_id=problem.task_id, program="def f(n): return 2 * n")]

    found = LOOP.run(judge_all(samples, {problem.task_id: problem}, limits=LIMITS, options={}, workers=1))

    assert [(each.reason, each.detail) for each in found] == [("passed", "")]
    assert not left


def test_a_kept_sandbox_that_was_lost_is_replaced():
    tests = judging.Tests(prompt="", entry_point="f", test="def check(candidate):\n    assert candidate(1) == 1")

    async def reasons():
        async with judging.Judge(limits=LIMITS) as court:
            found = [(await court.judge(tests, "def f(x): return x")).reason]
            for box in court._idle[tests]:
                worker = await box.box.worker()
                worker.kill()
                await worker.wait()
            return [*found, (await court.judge(tests, "def f(x): return x")).reason]

    assert LOOP.run(reasons()) == ["passed", "passed"]


def test_cases_after_many_lost_ones_are_left_out():
    cases = [judging.Case(args=[n], expected=n) for n in range(60)]
    ends = "import os\ndef f(x):\n    if x % 2: os._exit(0)\n    return x"

    async def verdict(**options):
        async with judging.Judge(limits=LIMITS) as court:
            return await court.judge_cases(ends, "f", cases, **options)

    assert LOOP.run(verdict()).reasons == (("passed", "ended") * 21 + ("not-run",) * 18)
    assert LOOP.run(verdict(stop_early=True)).reasons == ("passed", "ended", *["not-run"] * 58)


def test_arguments_that_cannot_travel_are_no_verdict_on_the_solution():
    assert judged(problem_of("x = []\nfor _ in range(50): x = [x]\ncandidate(x)"), "def f(x): ...").reason == "tests"


def test_a_program_without_text_is_no_program():
    assert judged(DOUBLE, "  \n").reason == "error"


def test_tests_that_do_not_run_are_no_verdict_on_the_solution():
    import dataclasses

    for test in (
        "import os\ndef check(candidate):\n    os._exit(0)",
        "def check(candidate: pass",
        "import no_such_module\ndef check(candidate): pass",
        "def chekc(candidate): pass",
    ):
        broken = dataclasses.replace(DOUBLE, test=test)

        assert judged(broken, "def double(n): return 2 * n").reason == "tests"


def test_samples_are_read_with_their_problems(tmp_path):
    file = tmp_path / "s.jsonl"
    file.write_text(
        '{"task_id": "own/0", "completion": "    return 1"}\n\n{"task_id": "own/0", "solution": "def double(n): ..."}\n'
    )

    samples, used = read_samples(file, PROBLEMS)

    assert [one.program for one in samples] == [DOUBLE.prompt + "    return 1", "def double(n): ..."]
    assert list(used) == ["own/0"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "is no JSON"),
        ("[]", "each line has to be an object"),
        ('{"task_id": "x", "completion": ""}', "is for 'x', which is none of the 4 problems"),
        ('{"task_id": "own/0"}', "has no text under 'completion'"),
        ('{"completion": ""}', "has no text under 'task_id'"),
        ("", "has no sample"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, message):
    file = tmp_path / "s.jsonl"
    file.write_text(line)

    with pytest.raises(InvalidArgument, match=message):
        read_samples(file, PROBLEMS)


def test_a_result_that_ends_the_tests_is_a_failure_of_the_solution():
    ends = problem_of("import os\nif candidate(1) != 1:\n    os._exit(0)")
    amplifies = problem_of("x = candidate(1)\nfor _ in range(50): x = [x]\ncandidate(x)")

    found = judged(ends, "def f(x): return 2")

    assert (found.reason, found.detail) == ("failed", "the tests ended, or ask too much, with results of the solution")
    assert judged(ends, "def f(x): return 1").reason == "passed"
    assert judged(amplifies, "def f(x): return 1").reason == "failed"


def test_results_that_are_too_large_together_are_no_data():
    problem = problem_of("for n in range(3):\n    assert candidate(n)")

    found = judged(problem, "def f(x): return 'x' * 3_000_000")

    assert (found.reason, found.detail) == ("no-data", "the results have more than 2097152 characters together")
    assert judged(problem, "def f(x): return 'x' * 600_000").reason == "passed"


_COUNTS = "import sys\ndef f(x):\n    sys.n = getattr(sys, 'n', -1) + 1\n    return sys.n"


def test_large_arguments_are_not_foreseen_and_asked_all_the_same():
    problem = problem_of("for n in range(9):\n    assert candidate('x' * 1_000_000) == n")

    assert judged(problem, _COUNTS).calls == 9


def test_what_one_solution_leaves_with_the_tests_is_not_the_fault_of_the_next(monkeypatch):
    marks = "import os, sys\ndef check(candidate):\n    sys.marks = getattr(sys, 'marks', 0) + 1\n"
    ends = judging.Tests(prompt="", entry_point="f", test=f"{marks}    if sys.marks > 2: os._exit(0)\n    candidate(1)")
    again = judging.Tests(prompt="", entry_point="f", test=f"{marks}    assert candidate(sys.marks) > 3")

    async def reasons(tests):
        async with judging.Judge(limits=LIMITS) as court:
            return [(await court.judge(tests, "def f(x): return x")).reason for _ in range(2)]

    assert LOOP.run(reasons(ends)) == ["passed", "passed"]
    assert LOOP.run(reasons(again)) == ["failed", "passed"]
    monkeypatch.setattr(judging, "_MOST_GIVEN_CHARS", 100)
    assert LOOP.run(reasons(again)) == ["failed", "failed"]


def test_a_solution_that_ended_its_process_begins_without_its_files():
    cases = [judging.Case(args=[n], expected=False) for n in range(3)]
    notes = "was_there = os.path.exists('left')\n    open('left', 'w').close()"
    program = f"import os\ndef f(x):\n    {notes}\n    if x == 1: os._exit(0)\n    return was_there"

    async def verdict():
        async with judging.Judge(limits=LIMITS) as court:
            return await court.judge_cases(program, "f", cases)

    assert LOOP.run(verdict()).reasons == ("passed", "ended", "passed")


def test_a_process_that_ends_after_its_answer_is_no_lost_sandbox():
    problem = problem_of("import time\nx = {5: 2}[candidate(0)]\ntime.sleep(0.4)\nassert candidate(x) == 2")
    ends = "threading.Timer(0.1, os._exit, [0]).start()"

    found = judged(problem, f"import os, threading\ndef f(x):\n    if x: return x\n    {ends}\n    return 5")

    assert (found.reason, found.calls) == ("passed", 2)


def test_arguments_that_would_hold_up_the_host_are_refused():
    case = judging.Case(args=[{n * (2**61 - 1): 0 for n in range(200)}])

    async def verdict():
        async with judging.Judge(limits=LIMITS) as court:
            return await court.judge_cases("def f(x): ...", "f", [case])

    with pytest.raises(InvalidArgument, match="cases: holds a set or dict whose keys have the same hash"):
        LOOP.run(verdict())
