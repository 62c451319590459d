"""Evaluations and rewards that are carried out by any executor, for tests that hold what comes of them side by side."""

import asyncio
import dataclasses
import json
import os
import signal
import threading

from groundbox.dataset.program_runner import SandboxRunner
from groundbox.learn.evaluation import asking, model, results
from groundbox.learn.evaluation.humaneval import Problem, Sample, judge_all
from groundbox.learn.evaluation.suites import Judged, Means, Question
from groundbox.learn.rewards.step_truth import StepTruth
from groundbox.limits import Limits

LIMITS = Limits(wall_s=20, cpu_s=10)
DOUBLE = Problem(
    task_id="double",
    prompt="def double(n):\n",
    entry_point="double",
    test="def check(candidate):\n    for n in range(4):\n        assert candidate(n) == 2 * n\n",
    canonical_solution="    return 2 * n\n",
)


def die():
    """End this process, as one ends whose memory runs out."""
    os.kill(os.getpid(), signal.SIGKILL)


def cruxeval(path, count, suite="cruxeval-output"):
    """Programs with their runs, and replies that tell them: right ones, false ones, wrong ones and none."""
    rows, replies = [], []
    for n in range(count):
        code = f"def f(x):\n    y = x * {n}\n    for i in range(2):\n        y = y + i\n    return y"
        rows.append({"id": f"c{n}", "code": code, "input": "3", "output": str(3 * n + 1)})
        told = f"`x` is 3. `y` becomes {3 * n + n % 2}. The function returns {3 * n + 1}."
        right = 3 * n + 1 if suite == "cruxeval-output" else "f(3)"
        endings = (f"{told}\n\nAnswer: {right}", f"{told}\n\nAnswer: {n}", f"Answer: {right}", told, "")
        replies.append({"id": f"c{n}", "reply": endings[n % len(endings)]})
    return written(path / "cruxeval.jsonl", rows), written(path / "replies.jsonl", replies)


def humaneval(path):
    """A problem with its test, and a reply that passes it."""
    row = {**dataclasses.asdict(DOUBLE), "prompt": "def double(n):\n"}
    replies = [{"id": "double", "reply": "```python\ndef double(n):\n    return n + n\n```"}]
    return written(path / "humaneval.jsonl", [row]), written(path / "programs.jsonl", replies)


def written(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@dataclasses.dataclass(frozen=True, kw_only=True)
class Deadly:
    """A suite of numbers, whose judge ends its process at a reply with poison."""

    questions: tuple = ()
    name: str = "deadly"
    source: tuple = ()
    left_out: tuple = ()

    def judge_alone(self):
        return dataclasses.replace(self, questions=())

    async def judge(self, question, said, means):
        if "poison" in said.text:
            die()
        return Judged(right=said.answer == question.right, reason="right")


class Numbers:
    """A suite of numbers that cannot be handed over."""

    name, source, left_out = "numbers", {}, {}

    def __init__(self, count):
        self.questions = [Question(id=f"q{n}", prompt=f"what is {n}?", right=str(n)) for n in range(count)]
        self.cannot_be_pickled = threading.Lock()

    async def judge(self, question, said, means):
        return Judged(right=said.answer == question.right, reason="right")


def deadly(path, count, poison):
    questions = tuple(Question(id=f"q{n}", prompt=f"what is {n}?", right=str(n)) for n in range(count))
    replies = [{"id": f"q{n}", "reply": f"{'poison' * (n == poison)}\nAnswer: {n}"} for n in range(count)]
    return Deadly(questions=questions), written(path / "deadly.jsonl", replies)


def evaluated(suite, replies, out, executor):
    """The report and the results of recorded replies, as files have them; the executor is closed."""

    async def main():
        means = Means(runner=SandboxRunner(at_once=executor.workers), limits=LIMITS, sandbox={})
        tools = model.Tools(means=means, executor=executor, at_once=8)
        source = asking.Recorded(replies, {each.id for each in suite.questions})
        with results.opened(out, {"suite": suite.name}, {"groundbox": "1"}) as kept:
            try:
                return await model.evaluate(suite, suite.questions, source, kept, {}, tools)
            finally:
                await executor.close()

    report = asyncio.run(main())
    report.pop("seconds")
    return report, (out / results.RESULTS).read_bytes()


def graded(programs, executor):
    """Verdicts on solutions of the same problem; the executor is closed."""

    async def main():
        samples = [Sample(task_id="double", program=each) for each in programs]
        try:
            return await judge_all(samples, {"double": DOUBLE}, limits=LIMITS, options={}, executor=executor)
        finally:
            await executor.close()

    return asyncio.run(main())


class DeadlyTime(int):
    """A number of a question about a run, which ends each process that looks for its answer.

    Attributes:
        told: File that tells how often.
    """

    told: str

    def __new__(cls, told):
        made = super().__new__(cls, 1)
        made.told = told
        return made

    def __reduce__(self):
        return DeadlyTime, (self.told,)

    def __gt__(self, other):
        with open(self.told, "a") as file:
            file.write("died\n")
        die()


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeadlySteps(StepTruth):
    """Ends each process that reads a text with poison.

    Attributes:
        told: File that tells how often.
    """

    told: str

    def of_text(self, text, trace):
        if "poison" in text:
            with open(self.told, "a") as file:
                file.write("x")
            die()
        return super().of_text(text, trace)


SUM = "def f(xs):\n    t = 0\n    for x in xs:\n        if x > 1:\n            t += x\n    return t\n"
STEPS = ("`t` is 0. Then `t` becomes 2. The function returns 2.", "`t` becomes 9.", "I am sure.")


def rewarded(rewards):
    """Rewards of each function for batches with right, wrong and doubled completions, and some without a verdict."""
    programs = [f"def double(n):\n    return n * {n % 4}" for n in range(8)]
    programs += ["import os\nos._exit(0)", "def double(n", ""]
    count = len(programs)
    ends = "import os\ndef check(candidate):\n    os._exit(0)\n"
    cases = json.dumps([{"args": [2], "expected": 4}, {"args": [0], "expected": 0}])
    checks = [{"kind": "value", "value": "[1, 2]"}, {"kind": "call", "value": "5"}, {"kind": "text", "value": "two"}]
    questions = [
        {"kind": "state", "name": "t", "line": 4, "time": 3},
        {"kind": "next_line", "line": 4, "time": 1},
        {"kind": "branch", "line": 4},
        {"kind": "state", "name": "t", "line": 4, "time": 9},
    ]
    about = {"source": [SUM] * 4, "call": ["f"] * 4}
    return {
        "tests": rewards.tests(programs, [["assert double(3) == 6"]] * (count - 1) + [ends], ["double"] * count),
        "cases": rewards.cases(programs, [cases] * count, ["double"] * count),
        "answers": rewards.answers(
            [f"Answer: {each}" for each in ("[1, 2]", "f([2, 3])", "three")], checks, source=[SUM] * 3, entry=["f"] * 3
        ),
        "facts": rewards.facts(
            [f"Answer: {each}" for each in (2, 3, [False, True], 2)],
            question=questions,
            args=[[[1, 2, 3]]] * 4,
            **about,
        ),
        "steps": rewards.steps([f"{each}\n\nAnswer: 2" for each in (*STEPS, STEPS[0])], args=[[[1, 2]]] * 4, **about),
    }
