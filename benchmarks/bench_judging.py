"""Candidate programs judged per second, each by five short tests, on two processors.

    python benchmarks/bench_judging.py [ROUNDS] [--problems HumanEval.jsonl.gz] [--fusion URL]

Half of the candidates are right. Ours: programs against `check(candidate)`, and against pairs of arguments and result.
Beside it a pool of subprocesses without a wall, where a program and its tests share a process and the exit code is the
verdict, and SandboxFusion's own server (`POST /run_code`), which has to run already, at URL; its configuration says
whether its isolation is on (`SANDBOX_CONFIG=ci` is `lite`). Both peers get a candidate and its tests as one program;
SandboxFusion also each test by itself, until one fails, which is how verl asks it.
With a file of HumanEval, the time for its canonical solutions, too.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import time
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from measure import machine

import groundbox as gb
from groundbox.learn.evaluation.humaneval import Sample, judge_all, read_problems
from groundbox.learn.evaluation.judging import Case, Judge, Tests
from groundbox.sandbox import environments

AT_ONCE = 4
"""Of ours and of SandboxFusion; the pool of subprocesses has one worker for each processor."""
LIMITS = gb.Limits(wall_s=10)
PROBLEMS: dict[str, tuple[str, str, list[tuple[Any, Any]]]] = {
    "double": ("n * 2", "n + 2", [(n, n * 2) for n in (0, 1, 5, -3, 10**9)]),
    "middle": ("sorted(n)[len(n) // 2]", "n[len(n) // 2]", [(x, sorted(x)[len(x) // 2]) for x in
               ([1], [3, 1, 2], [5, 4, 3, 2, 1], [2, 2, 1], [9, 7, 8])]),
    "vowels": ("sum(c in 'aeiou' for c in n.lower())", "sum(c in 'aeiou' for c in n)",
               [("", 0), ("abc", 1), ("AEIOU", 5), ("xyz", 0), ("Sandbox", 2)]),
    "digits": ("sum(map(int, str(abs(n))))", "len(str(n))", [(0, 0), (7, 7), (12, 3), (-45, 9), (999, 27)]),
}  # fmt: skip


def candidates(count: int) -> list[tuple[str, str, bool]]:
    """Problem, program and whether it is right; no two programs are the same."""
    names = list(PROBLEMS)
    found = []
    for number in range(count):
        name = names[number // 2 % len(names)]
        body = PROBLEMS[name][number % 2]
        found.append((name, f"def {name}(n):\n    # {number}\n    return {body}\n", number % 2 == 0))
    return found


def tests_of(name: str) -> str:
    """The five tests as HumanEval writes them."""
    lines = [f"    assert candidate({given!r}) == {wanted!r}\n" for given, wanted in PROBLEMS[name][2]]
    return "def check(candidate):\n" + "".join(lines)


def whole(name: str, program: str) -> str:
    """Program and tests in one, as a checker in one process has them."""
    return f"{program}\n{tests_of(name)}\ncheck({name})\n"


async def ours(court: Judge, work: list[tuple[str, str, bool]], *, pairs: bool) -> None:
    """Judge all; wrong verdicts end the benchmark."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(name: str, program: str, right: bool) -> None:
        async with gate:
            if pairs:
                cases = [Case(args=(given,), expected=wanted) for given, wanted in PROBLEMS[name][2]]
                verdict: Any = await court.judge_cases(program, name, cases)
            else:
                verdict = await court.judge(Tests(prompt="", entry_point=name, test=tests_of(name)), program)
        assert verdict.passed is right, (name, program, verdict)

    await asyncio.gather(*(one(*each) for each in work))


def in_subprocesses(python: str, work: list[tuple[str, str, bool]]) -> None:
    """A process for each candidate, two at once."""

    def one(each: tuple[str, str, bool]) -> None:
        name, program, right = each
        code = subprocess.run([python, "-I", "-c", whole(name, program)], capture_output=True, timeout=10).returncode
        assert (code == 0) is right

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(one, work))


def by_fusion(url: str, work: list[tuple[str, str, bool]], *, each_test: bool) -> None:
    """A request for each candidate, or for each of its tests, as verl asks."""

    def one(each: tuple[str, str, bool]) -> None:
        name, program, right = each
        codes = [whole(name, program)]
        if each_test:
            codes = [f"{program}\nassert {name}({given!r}) == {wanted!r}" for given, wanted in PROBLEMS[name][2]]
        assert all(passed(code) for code in codes) is right

    def passed(code: str) -> bool:
        body = json.dumps({"code": code, "language": "python"}).encode()
        request = urllib.request.Request(f"{url}/run_code", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            told = json.load(answer)
        assert told["status"] != "SandboxError", told
        return bool(told["status"] == "Success")

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(one, work))


def rate(count: int, run: Callable[[list[tuple[str, str, bool]]], object]) -> float:
    """Candidates a second."""
    work = candidates(count)
    begun = time.perf_counter()
    run(work)
    return count / (time.perf_counter() - begun)


def main() -> None:
    """Print medians of interleaved rounds, and the ratios to ours."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rounds", type=int, nargs="?", default=5)
    parser.add_argument("--problems", type=Path)
    parser.add_argument("--fusion")
    asked = parser.parse_args()
    machine()
    python = str(environments.get().python)
    with asyncio.Runner() as runner:
        court = Judge(limits=LIMITS)
        ways: dict[str, tuple[int, Callable[[list[tuple[str, str, bool]]], object]]] = {
            "groundbox, tests": (80, lambda work: runner.run(ours(court, work, pairs=False))),
            "groundbox, pairs": (80, lambda work: runner.run(ours(court, work, pairs=True))),
            "subprocesses, no wall": (40, lambda work: in_subprocesses(python, work)),
        }
        if asked.fusion:
            ways["SandboxFusion"] = (8, lambda work: by_fusion(asked.fusion, work, each_test=False))
            ways["…, a request a test"] = (4, lambda work: by_fusion(asked.fusion, work, each_test=True))
        rates: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(asked.rounds + 1):
            for name, (count, run) in ways.items():
                found = rate(count, run)
                if number:  # the first round warms
                    rates[name].append(found)
        base = statistics.median(rates["groundbox, tests"])
        print(f"\ncandidates a second, five tests each ({asked.rounds} interleaved rounds)")
        print(f"{'':24}{'median':>10}{'lowest':>10}{'highest':>10}{'ours over it':>14}")
        for name, values in rates.items():
            median = statistics.median(values)
            print(f"{name:24}{median:10.1f}{min(values):10.1f}{max(values):10.1f}{base / median:13.1f}x")
        if asked.problems:
            _humaneval(runner, asked.problems, asked.rounds)
        runner.run(court.close())


def _humaneval(runner: asyncio.Runner, path: Path, rounds: int) -> None:
    problems = read_problems(path)
    samples = [
        Sample(task_id=each.task_id, program=each.prompt + each.canonical_solution) for each in problems.values()
    ]
    taken = []
    for _ in range(rounds):
        begun = time.perf_counter()
        found = runner.run(judge_all(samples, problems, limits=LIMITS, options={}, workers=2))
        taken.append(time.perf_counter() - begun)
        assert all(each.passed for each in found)
    calls = sum(each.calls for each in found)
    print(f"\n{len(samples)} solutions of {path.name}, {calls} calls ({rounds} rounds)")
    print(f"median {statistics.median(taken):.2f} s, from {min(taken):.2f} to {max(taken):.2f} s")


if __name__ == "__main__":
    main()
