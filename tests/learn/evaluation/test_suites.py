"""The suites: what they ask, what they take as right, and what they refuse."""

import asyncio
import dataclasses
import json
import random
import sys
import types
from pathlib import Path

import pytest

from groundbox.dataset import files, sample_files
from groundbox.dataset.program_runner import SandboxRunner
from groundbox.dataset.sample_files import Sample
from groundbox.dataset.translation.answer_cache import Reply
from groundbox.errors import ExtraMissing, InvalidArgument
from groundbox.learn.evaluation import trained
from groundbox.learn.evaluation.gym import KINDS, is_answer
from groundbox.learn.evaluation.replies import read
from groundbox.learn.evaluation.suites import Means, Question, Wanted, open_suite
from groundbox.limits import Limits

HUMANEVAL = Path(__file__).parent / "problems.jsonl"
SOURCE = "def f(x):\n    return x * 2"


def judged(suite, replies):
    """Verdicts of replies by id, as (right, reason)."""

    async def main():
        means = Means(runner=SandboxRunner(at_once=2), limits=Limits(wall_s=20), sandbox={})
        return {
            each.id: (await suite.judge(each, read(reply_of(replies[each.id])), means))[:2]
            for each in suite.questions
            if each.id in replies
        }

    return asyncio.run(main())


def reply_of(text):
    return Reply(text=text, finish="stop", prompt_tokens=1, completion_tokens=1)


def written(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.slow
def test_humaneval_takes_programs_and_bodies_that_pass(tmp_path):
    suite = open_suite(f"humaneval:{HUMANEVAL}", Wanted())
    whole = "Sure!\n```python\ndef double(n):\n    return n + n\n```\nIt adds n to itself."
    body = "```python\n    return math.pi * r ** 2\n```"
    cheat = "```python\nimport os\nos._exit(0)\n```"

    found = judged(suite, {"own/0": whole, "own/1": body, "own/2": cheat})

    assert found["own/0"] == found["own/1"] == (True, "right")
    assert found["own/2"][0] is False
    assert suite.questions[0].prompt.startswith("Complete this Python function:\n\n```python\ndef double(n: int)")
    assert judged(suite, {"own/0": ""}) == {"own/0": (False, "empty")}


@pytest.mark.slow
def test_mbpp_is_judged_by_all_of_its_asserts(tmp_path):
    row = {
        "task_id": 7, "text": "Write a function to square a number.", "code": "def square(n):\n    return n * n",
        "test_list": ["assert square(2) == 4", "assert square(-3) == 9"],
        "challenge_test_list": ["assert square(0.5) == 0.25"], "test_setup_code": "",
    }  # fmt: skip
    suite = open_suite(f"mbpp:{written(tmp_path / 'm.jsonl', [row])}", Wanted())

    right = judged(suite, {"mbpp/7": "```python\ndef square(n):\n    return n ** 2\n```"})
    wrong = judged(suite, {"mbpp/7": "```python\ndef square(n):\n    return {2: 4, -3: 9}[n]\n```"})

    assert right == {"mbpp/7": (True, "right")}
    assert wrong == {"mbpp/7": (False, "failed")}
    (question,) = suite.questions
    assert "`square`" in question.prompt
    assert "assert square(-3) == 9" in question.prompt
    assert "0.5" not in question.prompt


@pytest.mark.slow
def test_tests_of_mbpp_may_lean_on_the_imports_of_its_program_and_on_any_name_of_its_function(tmp_path):
    size = {
        "task_id": 1, "text": "Size.", "code": "import sys\ndef size(x):\n    return sys.getsizeof(x)",
        "test_list": ["assert size((1, 2)) == sys.getsizeof((1, 2))"],
    }  # fmt: skip
    check = {
        "task_id": 2, "text": "Odd?", "code": "def check(n):\n    return n % 2 == 1",
        "test_list": ["assert check(3) == True", "assert check(4) == False"],
    }  # fmt: skip
    suite = open_suite(f"mbpp:{written(tmp_path / 'm.jsonl', [size, check])}", Wanted())

    own = judged(suite, {each.id: each.program for each in suite.questions})
    wrong = judged(suite, {"mbpp/2": "def check(n):\n    return True", "mbpp/1": "def size(x):\n    return 0"})

    assert own == {"mbpp/1": (True, "right"), "mbpp/2": (True, "right")}
    assert wrong == {"mbpp/1": (False, "failed"), "mbpp/2": (False, "failed")}


@pytest.mark.parametrize(
    ("code", "setup", "test"),
    [
        ("class Pair:\n    pass\ndef f(pairs):\n    return 1", "", "assert f([Pair()]) == 1"),
        ("class Node:\n    pass\ndef f(node):\n    return 1", "root = Node()", "assert f(root) == 1"),
        ("def f(x, kind):\n    return isinstance(x, kind)", "", "assert f(1, int)"),
    ],
)
def test_a_row_of_mbpp_whose_tests_no_reply_could_pass_gives_no_question(tmp_path, code, setup, test):
    row = {"task_id": 1, "text": "One.", "code": code, "test_setup_code": setup, "test_list": [test]}

    with pytest.raises(InvalidArgument, match="left out: tests-take-no-data 1"):
        open_suite(f"mbpp:{written(tmp_path / 'm.jsonl', [row])}", Wanted())


def test_pal_runs_what_works_out_the_number(tmp_path):
    rows = [{"id": "a", "question": "Half of 36?", "answer": "#### 18"}, {"question": "Two?", "answer": 2}]
    suite = open_suite(f"pal:{written(tmp_path / 'p.jsonl', rows)}", Wanted())

    found = judged(suite, {"a": "```python\ndef solution():\n    return 36 / 2\n```", "1": "The answer is 2."})

    assert found["a"] == (True, "right")
    assert found["1"][0] is False


def test_cruxeval_asks_for_outputs_and_for_inputs(tmp_path):
    path = written(
        tmp_path / "c.jsonl", [{"id": "s", "code": "def f(x):\n    return x * x", "input": "3", "output": "9"}]
    )
    output = open_suite(f"cruxeval-output:{path}", Wanted())
    inputs = open_suite(f"cruxeval-input:{path}", Wanted())

    assert judged(output, {"s": "Answer: 9"}) == {"s": (True, "right")}
    assert judged(output, {"s": "Answer: f(3)"}) == {"s": (False, "wrong")}
    assert judged(inputs, {"s": "Answer: f(-3)"}) == {"s": (True, "right")}
    assert judged(inputs, {"s": "Answer: f(4)"}) == {"s": (False, "wrong")}
    assert judged(inputs, {"s": "Answer: f(__import__('os').system('true'))"}) == {"s": (False, "wrong")}
    assert "`f(3)`" in output.questions[0].prompt
    assert "3" not in inputs.questions[0].prompt.replace("`9`", "")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cruxeval-output:", "name the file of its problems, as in cruxeval-output:cruxeval.jsonl"),
        ("cruxeval-output:none.jsonl", "--suite: there is no file none.jsonl"),
        ("cruxeval-input:/", "--suite: there is no file /"),
        ("humaneval:/dev/null", "--suite: there is no file /dev/null"),
        ("lm-eval:", "name a task of lm-evaluation-harness, as in lm-eval:gsm8k"),
        ("humaneval:none.jsonl", "there is no file none.jsonl"),
        ("dataset:none", "--suite: none holds no finished dataset"),
        ("reasoning-gym:sudoku", "'sudoku' is no kind"),
        ("truth", "there is no suite 'truth'"),
    ],
)
def test_what_cannot_be_asked_is_refused(text, message, gym):
    with pytest.raises(InvalidArgument, match=message):
        open_suite(text, Wanted())


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("humaneval", "", "--suite: .*file has no problem"),
        ("humaneval", "[]", "--suite: .*file:1 is a list; each line has to be an object"),
        ("cruxeval-output", '{"code": "def', "has no row of CRUXEval .* with literals; left out: bad-line 1"),
        ("mbpp", "", r"has no row of MBPP \(text or prompt, code, test_list\)$"),
        ("pal", "", r"has no row of PAL \(question, answer\)$"),
        ("pal", '{"id": 1, "question": "", "answer": 1}\n' * 2, "has the id '1' twice"),
    ],
)
def test_a_file_without_questions_says_what_is_missing(name, text, message, tmp_path):
    (tmp_path / "file").write_text(text)

    with pytest.raises(InvalidArgument, match=message):
        open_suite(f"{name}:{tmp_path / 'file'}", Wanted())


@pytest.fixture
def gym(monkeypatch):
    """A stand-in for reasoning-gym, whose scorer must never be called."""

    class Made:
        def __init__(self, kind, seed, size):
            self.rng, self.kind = random.Random(f"{kind}{seed}"), kind

        def __getitem__(self, number):
            return {"question": f"{self.kind} {number}?", "answer": str(random.Random(number).randrange(99))}

        def score_answer(self, answer, entry):
            raise AssertionError("it may evaluate what a model wrote")

    module = types.ModuleType("reasoning_gym")
    vars(module)["create_dataset"] = lambda kind, seed, size: Made(kind, seed, size)
    monkeypatch.setitem(sys.modules, "reasoning_gym", module)


def test_a_gym_makes_as_many_questions_as_are_wanted(gym):
    suite = open_suite("reasoning-gym:gcd,lcm", Wanted(size=3, seed=5))

    assert [each.id for each in suite.questions] == [f"{kind}/5/{n}" for kind in ("gcd", "lcm") for n in range(3)]
    assert suite.questions[0].group == "gcd"
    right = {each.id: f"Answer: {each.right}" for each in suite.questions}
    assert set(judged(suite, right).values()) == {(True, "right")}
    assert len(open_suite("reasoning-gym", Wanted(size=1)).questions) == len(KINDS)


def test_a_gym_that_is_not_installed_names_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)

    with pytest.raises(ExtraMissing, match="pip install reasoning-gym"):
        open_suite("reasoning-gym", Wanted())


def test_a_tool_that_is_not_installed_names_the_command(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    with pytest.raises(ExtraMissing, match="lm_eval is needed to ask its tasks, and not .*: pip install lm_eval"):
        open_suite("lm-eval:gsm8k", Wanted())


@pytest.mark.parametrize(
    ("given", "true", "same"),
    [
        ("42", "42", True), ("42.0", "42", True), ("1,000", "1000", True), ("yes.", "Yes", True), ("a  b", "a b", True),
        ("['1', '2']", "[1, 2]", True), ("43", "42", False), ("", "42", False), ("nan", "42", False),
        ("4" * 5_000, "42", False), ("[" * 5_000, "[1]", False), ("No", "Yes", False),
        ("[0x" + "f" * 9_000 + "]", "[1]", False),
    ],
)  # fmt: skip
def test_answers_are_words_or_numbers(given, true, same):
    assert is_answer(given, true) is same


def sample(name, split, task="output", source=SOURCE):
    text = {"value": 6, "text": "6", "stdout": "", "fault": None}
    return Sample(
        id=f"{name}#{task}", item=name, problem=name, split=split, task=task, style="prose", detail="", prompt="What?",
        reply="It returns 6.\n\nAnswer: 6", answer="6", check='{"kind": "value", "value": "6"}', narration="", claims=1,
        proven=1, coverage=1.0, source=source, entry="f", statement="", output=json.dumps(text), outcome="ok",
        case=json.dumps({"number": 0, "args": [3], "kwargs": {}, "stdin": None, "origin": "given"}), trace_sha256="",
        records=1, steps=1, folded=False, stable=True, difficulty=1.0, licence="MIT",
        provenance=json.dumps({"file": "p.jsonl", "line": 1, "format": "plain"}),
    )  # fmt: skip


@pytest.fixture
def dataset(tmp_path):
    folder = tmp_path / "d"
    folder.mkdir()
    other = "def f(x):\n    return x + 3"
    rows = [sample("a", "train"), sample("b", "test", source=other), sample("b", "test", "input", source=other)]
    with sample_files.writing(folder) as writer:
        for row in rows:
            writer.sample(row)
    arguments = {"patience": {"traced_cpu_s": 5.0}, "trace": {}}
    digests = {sample_files.SAMPLES: files.digest(folder / sample_files.SAMPLES)}
    (folder / "report.json").write_text(json.dumps({"files": digests, "arguments": arguments}))
    return folder


def test_a_dataset_asks_its_test_split(dataset):
    suite = open_suite(f"dataset:{dataset}", Wanted())

    assert [(each.id, each.group, each.run is not None) for each in suite.questions] == [
        ("b#output", "output", True),
        ("b#input", "input", False),
    ]
    assert judged(suite, {"b#output": "Answer: 6"}) == {"b#output": (True, "right")}
    assert len(open_suite(f"dataset:{dataset}", Wanted(tasks=["output"])).questions) == 1
    with pytest.raises(InvalidArgument, match="there is no 'truth'; there are output, input"):
        open_suite(f"dataset:{dataset}", Wanted(tasks=["truth"]))
    with pytest.raises(InvalidArgument, match="has no sample of these tasks"):
        open_suite(f"dataset:{dataset}", Wanted(split="validation"))


def test_a_dataset_whose_file_was_changed_is_refused(dataset):
    with sample_files.writing(dataset) as writer:
        writer.sample(sample("z", "test"))

    with pytest.raises(InvalidArgument, match=r"was changed since it was written.*groundbox dataset verify"):
        open_suite(f"dataset:{dataset}", Wanted())


def test_what_a_model_was_trained_on_is_said(dataset, tmp_path):
    digest = files.digest(dataset / sample_files.SAMPLES)
    card = tmp_path / "model" / "groundbox.json"
    card.parent.mkdir()
    card.write_text(json.dumps({"dataset": {"name": "d", "digest": digest, "folder": str(dataset)}}))
    test, train = (open_suite(f"dataset:{dataset}", Wanted(split=split)) for split in ("test", "train"))
    spaced = written(
        tmp_path / "c.jsonl", [{"code": "def f(value):\n  return  value*2 # twice", "input": "1", "output": "2"}]
    )
    cruxeval = open_suite(f"cruxeval-output:{spaced}", Wanted())

    training = trained.card_in(card.parent)
    told = [trained.told_of(training, suite, suite.questions) for suite in (test, train, cruxeval)]

    assert [(each["same_dataset"], each["seen"]) for each in told] == [(True, 0), (True, 1), (False, 1)]
    assert trained.words(told[0], 2).endswith("none of the 2 questions is of its training split")
    assert trained.words(told[2], 1).endswith("1 of the 1 questions are about programs of its training split")
    assert trained.training_of(dataset) == dataclasses.replace(training, name="d")
    card.write_text(json.dumps({"dataset": {"name": "elsewhere", "digest": "0" * 64}}))
    unknown = trained.told_of(trained.card_in(card.parent), cruxeval, cruxeval.questions)
    assert trained.words(unknown, 1).endswith("which is not at hand: whether it has these questions is not known")
    with pytest.raises(InvalidArgument, match="is no model with a card"):
        trained.training_of(tmp_path / "c.jsonl")


LONG = """def scale(values, factor):
    found = []
    for value in values:
        if value > 0:
            found.append(value * factor)
    return found

def f(xs):
    total = 0
    for x in scale(xs, 3):
        total += x
    return total
"""
HELPER, MAIN = (f"def {part}" for part in LONG.split("def ")[1:])


@pytest.mark.parametrize(
    ("program", "counts"),
    [
        (LONG, (1, 0)),
        (LONG.replace("found", "r").replace("scale", "s").replace("xs", "items").replace("f(", "main("), (1, 0)),
        (LONG.replace("    return total", "    # the end\n\n    return total").replace("    ", "  "), (1, 0)),
        (f"{MAIN}\n{HELPER}", (0, 1)),
        (f"import math\n{LONG}\ndef g(x):\n    return x\n", (0, 1)),
        (LONG.replace("total += x", "total = (total + x)"), (0, 1)),
        (LONG.replace("def f(xs):", "def f(xs: list) -> int:"), (0, 1)),
        (MAIN.replace("scale(xs, 3)", "xs"), (0, 0)),
        ("def f(n):\n    while n > 3:\n        n //= 2\n    return [n] * 3 + [k for k in range(n)]\n", (0, 0)),
    ],
)
def test_a_program_that_was_trained_on_is_known_however_it_is_written(program, counts):
    training = trained.Training(name="d", digest="0", programs=frozenset([LONG, SOURCE]))
    question = Question(id="q", prompt="?", program=program)

    same, near = training.seen([question, Question(id="r", prompt="no program")])

    assert (len(same), len(near)) == counts
    assert set(same) | set(near) <= {"q"}


def test_a_dataset_that_was_moved_beside_the_model_is_found(dataset, tmp_path):
    digest = files.digest(dataset / sample_files.SAMPLES)
    card = tmp_path / "model" / "groundbox.json"
    card.parent.mkdir()
    card.write_text(json.dumps({"dataset": {"name": "d", "digest": digest, "folder": "/elsewhere/d"}}))

    assert trained.training_of(card.parent).programs == {SOURCE}
