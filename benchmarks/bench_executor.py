"""What an executor costs: the same candidates judged by this process, by two others, and through a Ray cluster.

    python benchmarks/bench_executor.py [ROUNDS] [--count N] [--no-ray]

All on the same two processors, one after the other in each round: `judge_all` on candidates of which half are right
(those of bench_judging.py), and `Rewards.cases` on a batch of programs. The cluster is one of this machine's own, which
is started before and is not counted; nor is the first batch of each, in which templates start.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Coroutine
from typing import Any

from bench_judging import LIMITS, PROBLEMS, candidates, tests_of
from measure import interleaved, machine, table

from groundbox.dataset.executor import Executor, LocalExecutor
from groundbox.learn.evaluation.humaneval import Problem, Sample, judge_all
from groundbox.learn.rewards.rewarding import Rewards
from groundbox.sandbox.portal import PORTAL

WORKERS = 2
HERE = "this process"


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rounds", nargs="?", type=int, default=5)
    parser.add_argument("--count", type=int, default=128, help="Candidates of a round.")
    parser.add_argument("--no-ray", action="store_true", help="Without a cluster.")
    given = parser.parse_args()
    executors: dict[str, Executor] = {
        HERE: LocalExecutor(WORKERS, hosts=1),
        "two processes": LocalExecutor(WORKERS, hosts=WORKERS),
    }
    if not given.no_ray:
        from groundbox.dataset.ray_executor import RayExecutor

        executors["Ray"] = RayExecutor(workers=WORKERS, tell=print)
    try:
        machine()
        _report("judge_all", _judging(given.count), executors, given.rounds)
        _report("Rewards.cases", _rewarding(given.count), executors, given.rounds)
    finally:
        for each in executors.values():
            PORTAL.call(each.close())


def _report(
    name: str, work: Callable[[Executor], Callable[[], object]], executors: dict[str, Executor], rounds: int
) -> None:
    ways = {title: work(executor) for title, executor in executors.items()}
    found = {title: way() for title, way in ways.items()}
    assert all(each == found[HERE] for each in found.values())
    table(f"{name}, s", interleaved(ways, rounds), ours=HERE)


def _judging(count: int) -> Callable[[Executor], Callable[[], object]]:
    problems = {
        name: Problem(task_id=name, prompt=f"def {name}(n):\n", entry_point=name, test=tests_of(name))
        for name in PROBLEMS
    }
    samples = [Sample(task_id=name, program=program) for name, program, _ in candidates(count)]

    def way(executor: Executor) -> Callable[[], object]:
        def judged() -> Coroutine[Any, Any, Any]:
            return judge_all(samples, problems, limits=LIMITS, options={}, executor=executor)

        return lambda: PORTAL.call(judged())

    return way


def _rewarding(count: int) -> Callable[[Executor], Callable[[], object]]:
    rows = candidates(count)
    cases = {
        name: json.dumps([{"args": [given], "expected": wanted} for given, wanted in told])
        for name, (_, _, told) in PROBLEMS.items()
    }
    programs, names = [program for _, program, _ in rows], [name for name, _, _ in rows]

    def way(executor: Executor) -> Callable[[], object]:
        rewards = Rewards(limits=LIMITS, executor=executor)
        return lambda: rewards.cases(programs, [cases[name] for name in names], names)

    return way


if __name__ == "__main__":
    main()
