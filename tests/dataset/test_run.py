"""The stage run: what each way of running, or of not running, is called."""

import asyncio
import contextlib
import dataclasses

import pytest
from dataset_fakes import FakeRunner, run_here

from groundbox.dataset.executor import LocalExecutor
from groundbox.dataset.item import Answer, Fault
from groundbox.dataset.item_runs import RunLimits, run
from groundbox.dataset.problem import Case, Problem, Provenance
from groundbox.dataset.program_runner import ExecutedRunner, Request, RunResult
from groundbox.errors import SandboxLost, SandboxUnavailable

PLACE = Provenance(file="p.jsonl", line=1, format="plain")
SOURCE = "def f(x):\n    y = x + 1\n    return y\n"


def problem(source=SOURCE, entry="f"):
    return Problem(id="p", source=source, statement="", entry=entry, cases=(), provenance=PLACE)


def judged(answer=None, source=SOURCE, case=None, patience=None, entry="f"):
    runner = FakeRunner(answer)
    case = case or Case(number=0, args=(1,))
    item, trace = asyncio.run(run(problem(source, entry), case, runner, patience or RunLimits()))
    return item, trace, runner


def reason(answer=None, **options):
    item, trace, _ = judged(answer, **options)
    assert (trace is None) == (item.drop is not None)
    return item.drop and item.drop.reason


def ended(outcome, fault=None, dropped_bytes=0):
    answer = Answer(value=None, text="", stdout="", fault=fault)
    return RunResult(outcome=outcome, answer=answer, dropped_bytes=dropped_bytes, cpu_s=1.0, trace=None)


def test_a_good_item_has_its_answer_its_trace_and_three_runs():
    item, trace, runner = judged()

    assert (item.id, item.runnable, item.drop, runner.runs) == ("p/0", True, None, 3)
    assert item.answer == Answer(value=2, text="2", stdout="", fault=None)
    assert item.traced is not None
    assert (item.traced.sha256, item.traced.lines, item.traced.stable) == (trace.header.sha256, (1, 2, 3), True)


@pytest.mark.parametrize(("given", "runs"), [({"traced": True}, 2), ({"traced": True, "plain": False}, 1)])
def test_runs_that_were_made_before_are_not_made_again(given, runs):
    item, trace, _ = judged()
    case = Case(number=0, args=(1,))
    made = {
        name: run_here(Request(source=SOURCE, entry="f", case=case, hash_seed=0, traced=traced, cpu_s=1.0))
        for name, traced in given.items()
    }
    runner = FakeRunner()

    found = asyncio.run(run(problem(), case, runner, RunLimits(), **made))

    assert (found, runner.runs) == ((item, trace), runs)


def test_an_exception_is_an_answer():
    item, trace, _ = judged(source="def f(x):\n    return {}[x]\n")

    assert item.drop is None
    assert item.answer is not None
    assert item.answer.fault == Fault(type="KeyError", message="1", line=2)
    assert trace is not None


@pytest.mark.parametrize("outcome", ["timeout", "memory", "signal", "cancelled"])
def test_what_was_stopped_is_named_by_how(outcome):
    assert reason(lambda request, ran: ended(outcome)) == outcome


@pytest.mark.parametrize(
    ("type_", "named"),
    [("RecursionError", "recursion-limit"), ("MemoryError", "memory"), ("ModuleNotFoundError", "missing-module")],
)
def test_faults_of_the_machine_are_no_data(type_, named):
    assert reason(lambda request, ran: ended("error", Fault(type=type_, message="", line=1))) == named


def test_output_without_end_is_named():
    assert reason(lambda request, ran: ended("ok", dropped_bytes=10)) == "too-much-output"


def test_an_exit_code_without_an_exception_is_named():
    assert reason(lambda request, ran: ended("error")) == "failed"


def test_a_program_that_does_not_parse_is_named():
    assert reason(source="def f(:\n") == "does-not-parse"


def test_a_syntax_error_that_a_program_raises_is_an_answer():
    assert reason(source="def f(x):\n    raise SyntaxError('no')\n") is None


def test_an_entry_that_is_not_there_is_named():
    assert reason(source="def g(x):\n    return x\n") == "no-entry"


@pytest.mark.parametrize("case", [Case(number=0), Case(number=0, args=(1, 2)), Case(number=0, kwargs={"y": 1})])
def test_an_input_that_does_not_fit_is_named_before_anything_runs(case):
    item, _, runner = judged(case=case)

    assert item.drop is not None
    assert (item.drop.reason, runner.runs) == ("input-does-not-fit", 0)


def test_defaults_stars_and_keywords_fit():
    source = "def f(x, /, y=1, *z, k, **more):\n    return [x, y, z, k, more]\n"

    assert reason(source=source, case=Case(number=0, args=(1, 2, 3), kwargs={"k": 4, "m": 5})) is None


def test_an_answer_that_depends_on_the_hash_seed_is_dropped_with_both():
    def answer(request, ran):
        return dataclasses.replace(ran, answer=dataclasses.replace(ran.answer, text=str(request.hash_seed)))

    item, _, _ = judged(lambda request, ran: _with_value(ran, request.hash_seed))

    assert item.drop is not None
    assert (item.drop.reason, item.drop.facts, item.runnable) == (
        "nondeterministic-output",
        {"outputs": ["1", "0"]},
        False,
    )


def test_a_run_that_took_too_long_the_second_time_is_no_other_answer():
    def answer(request, ran):
        return ran if request.hash_seed == 1 else ended("timeout")

    item, _, _ = judged(answer)

    assert item.drop is not None
    assert (item.drop.reason, item.drop.detail) == ("timeout", "it ended in time under another hash seed")


def test_an_answer_that_only_the_tracer_changes_is_runnable_and_says_so():
    item, _, _ = judged(lambda request, ran: _with_value(ran, request.traced))

    assert item.drop is not None
    assert (item.drop.reason, item.drop.detail, item.runnable) == (
        "traced-run-differs",
        "untraced False, traced True",
        True,
    )


def test_a_run_that_is_too_slow_under_the_tracer_is_runnable_and_says_so():
    item, _, _ = judged(lambda request, ran: ended("timeout") if request.traced else ran)

    assert item.drop is not None
    assert (item.drop.reason, item.runnable, item.traced) == ("traced-timeout", True, None)


def test_an_incomplete_trace_is_dropped_with_its_reasons():
    def cut(request, ran):
        if ran.trace is None:
            return ran
        header = {"complete": False, "reasons": ["the program changed the trace function"]}
        return dataclasses.replace(ran, trace=_with_header(ran.trace, **header))

    item, _, _ = judged(cut)

    assert item.drop is not None
    assert (item.drop.reason, item.drop.detail, item.runnable) == (
        "incomplete-trace",
        "the program changed the trace function",
        True,
    )


def test_a_trace_that_depends_on_the_hash_seed_is_noted_or_dropped():
    def other(request, ran):
        return (
            run_here(dataclasses.replace(request, case=Case(number=0, args=(1 + request.hash_seed,))))
            if (request.traced)
            else ran
        )

    noted, _, _ = judged(other)
    dropped, _, _ = judged(other, patience=RunLimits(stable_only=True))

    assert noted.traced is not None
    assert (noted.traced.stable, noted.drop) == (False, None)
    assert dropped.drop is not None
    assert dropped.drop.reason == "nondeterministic-trace"


@pytest.mark.parametrize(
    ("drawn", "reason", "detail"),
    [
        (
            ("random", "clock"),
            "draws-random-numbers",
            "it draws numbers of `random` without a seed of its own, reads the time",
        ),
        (("clock",), "reads-the-clock", "it reads the time"),
    ],
)
def test_what_a_run_draws_drops_it_before_it_is_traced(drawn, reason, detail):
    def drawing(request, ran):
        return dataclasses.replace(ran, drawn=drawn if request.probed else ())

    item, _, runner = judged(drawing, patience=RunLimits(stable_only=True))
    kept, _, _ = judged(drawing)

    assert item.drop is not None
    assert (item.drop.reason, item.drop.detail, runner.runs, kept.drop) == (reason, detail, 1, None)


def test_both_runs_under_the_plain_seed_are_probed_and_the_kept_one_is_not():
    probed = []

    def note(request, ran):
        probed.append((request.hash_seed, request.traced, request.probed))
        return ran

    judged(note, patience=RunLimits(stable_only=True))

    assert probed == [(1, False, True), (0, True, False), (1, True, True)]


def test_a_sandbox_that_is_lost_is_tried_again_and_then_named():
    failures = iter([True, False])

    def lost(request, ran):
        if next(failures, False):
            raise SandboxLost("gone")
        return ran

    def always(request, ran):
        if request.source == SOURCE:
            raise SandboxLost("gone")
        return ran

    assert reason(lost) is None
    assert reason(always) == "sandbox-lost"


def test_a_machine_that_loses_every_sandbox_ends_the_build_and_drops_nothing():
    def everything(request, ran):
        raise SandboxLost("cgroup: write: Invalid argument")

    with pytest.raises(SandboxUnavailable, match="a program that does nothing, too: .*cgroup"):
        judged(everything)


def test_a_machine_that_can_run_nothing_ends_the_build():
    def unavailable(request, ran):
        raise SandboxUnavailable(["cgroup: not mounted"])

    with pytest.raises(SandboxUnavailable):
        judged(unavailable)


def test_each_kind_of_run_has_its_own_limit_and_twice_that_when_it_is_made_again():
    asked = []

    def differs_traced(request, ran):
        asked.append((request.hash_seed, request.traced, request.cpu_s))
        return _with_value(ran, request.traced)

    def is_the_same(request, ran):
        asked.append((request.hash_seed, request.traced, request.cpu_s))
        return ran

    for answer in (differs_traced, is_the_same):
        judged(answer, patience=RunLimits(cpu_s=1.0, traced_cpu_s=7.0))

    assert asked[:3] == [(1, False, 1.0), (0, True, 7.0), (0, False, 2.0)]
    assert asked[3:] == [(1, False, 1.0), (0, True, 7.0), (1, True, 14.0)]


def _with_value(ran, value):
    return dataclasses.replace(ran, answer=dataclasses.replace(ran.answer, value=value, text=str(value)))


def _with_header(trace, **changes):
    import msgspec

    return dataclasses.replace(trace, header=msgspec.structs.replace(trace.header, **changes))


def executed(hosts, traced):
    """A run that an executor has carried out, and the one that its runner gives."""
    request = Request(source=SOURCE, entry="f", case=Case(number=0, args=(1,)), hash_seed=0, traced=traced, cpu_s=1.0)
    ran = dataclasses.replace(run_here(request), drawn=("random",))
    executor = LocalExecutor(2, hosts=hosts)

    async def whole():
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(executor.close)
            return await ExecutedRunner(Fixed(ran), executor).run(request)

    return asyncio.run(whole()), ran


@dataclasses.dataclass
class Fixed:
    """A runner that always gives the same."""

    ran: RunResult

    async def run(self, request):
        return self.ran


def test_a_run_of_this_process_is_handed_on_as_it_is():
    found, ran = executed(1, traced=True)

    assert found is ran


@pytest.mark.parametrize("traced", [False, True])
def test_a_run_of_another_process_is_equal_to_one_of_this_process(traced):
    found, ran = executed(2, traced)

    assert found == ran
    assert (found.trace is not None) is traced
