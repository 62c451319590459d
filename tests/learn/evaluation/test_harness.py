"""Tasks of lm-evaluation-harness, with data in local files. The package is in the venv of `make adapters`."""

import asyncio
import json
import os
import textwrap

import pytest
from endpoint_fakes import completion, serving

from groundbox.jail import landlock

pytest.importorskip("lm_eval", reason="lm_eval is not installed: pip install lm_eval")

from groundbox.dataset.executor import LocalExecutor
from groundbox.dataset.program_runner import SandboxRunner
from groundbox.dataset.translation.endpoint import Endpoint
from groundbox.errors import InvalidArgument
from groundbox.learn.evaluation import asking, harness, harness_process, model, results
from groundbox.learn.evaluation.compare import compare, lines
from groundbox.learn.evaluation.suites import Means, Wanted, open_suite
from groundbox.limits import Limits

TASK = """
task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: {folder}/test.jsonl, train: {folder}/train.jsonl}}}}
test_split: test
fewshot_split: train
doc_to_text: "Question: {{{{q}}}}\\nAnswer:"
doc_to_target: "{{{{a}}}}"
metadata: {{version: 3}}
{rest}
"""
SUMS = """
num_fewshot: 2
output_type: generate_until
description: "Add.\\n\\n"
generation_kwargs: {until: ["Question:"], do_sample: false, max_gen_toks: 64}
filter_list:
  - {name: strict, filter: [{function: regex, regex_pattern: "is (\\\\d+)"}, {function: take_first}]}
  - {name: loose, filter: [{function: regex, regex_pattern: "(\\\\d+)", group_select: -1}, {function: take_first}]}
metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]
"""
OWN = """
output_type: generate_until
process_results: !function scoring.score
metric_list: [{metric: points, aggregation: mean, higher_is_better: true}]
"""
SCORING = """
import os, re

def score(doc, said):
    text = said[0]
    if text == "write":
        open("/tmp/groundbox-was-here", "w")
    if text == "start":
        os.execv("/bin/true", ["true"])
    if text == "hang":
        re.match("(a+)+$", "a" * 40 + "!")
    if text == "end":
        os._exit(0)
    return {"points": len(text) / 10, "texts": (text, doc["a"])}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder of tasks."""
    folder = tmp_path_factory.mktemp("tasks")
    rows = [{"q": f"{n} + 1?", "a": str(n + 1)} for n in range(5)]
    (folder / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    rows = [{"q": f"{n} + 9?", "a": str(n + 9)} for n in range(4)]
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "scoring.py").write_text(textwrap.dedent(SCORING))
    (folder / "cheats.py").write_text("def score(doc, said):\n    return {'acc': eval(said[0]) == doc['a']}\n")
    choice = "output_type: multiple_choice\ndoc_to_choice: ['1', '2']"
    kinds = {
        "own_sums": SUMS, "own_points": OWN, "own_choice": choice, "own_unsafe": SUMS + "unsafe_code: true",
        "own_repeats": SUMS + "repeats: 4", "own_cheat": OWN.replace("scoring", "cheats"),
    }  # fmt: skip
    for name, rest in kinds.items():
        (folder / f"{name}.yaml").write_text(TASK.format(name=name, folder=folder, rest=rest))
    return folder


def evaluated(suite, url, out, *, fixed=(), questions=None):
    """One run of a suite against an endpoint; the report."""

    async def main():
        executor = LocalExecutor(1)
        means = Means(runner=SandboxRunner(at_once=1), limits=Limits(wall_s=20), sandbox={})
        tools = model.Tools(means=means, executor=executor, at_once=2)
        request = {"temperature": 0.7, "max_tokens": 99}
        endpoint = Endpoint(url, "m", options=request, at_once=2, attempts=1, timeout_s=30)
        with results.opened(out, {"suite": suite.name, "prompts": 1, "model": 1, "request": 1}, suite.versions) as kept:
            async with asking.connected(endpoint, request, out / asking.ANSWERS, fixed=fixed) as source:
                try:
                    return await model.evaluate(suite, questions or suite.questions, source, kept, {}, tools)
                finally:
                    await executor.close()

    return asyncio.run(main())


def opened(folder, name):
    return open_suite(f"lm-eval:{name}", Wanted(include=str(folder)))


SAYS = ["The sum is 1.", "It is 2, I think.\nQuestion: 5 + 5? It is 10", "maybe 3", "", "<think>is 7</think>It is 5"]


def says(body, authorization):
    number = int(body["messages"][-1]["content"].rpartition("Question: ")[2].partition(" ")[0])
    return completion(SAYS[number])


def test_a_task_is_asked_and_scored_as_the_harness_itself_does(folder, tmp_path):
    suite = opened(folder, "own_sums")
    with serving(says) as (url, asked):
        report = evaluated(suite, url, tmp_path / "o")
        again = evaluated(suite, url, tmp_path / "o")
        bodies = [body for _, _, body in asked]

    theirs, prompts = by_the_harness(folder / "own_sums.yaml")
    own = report["metrics"]["own_sums"]
    assert {name: each["value"] for name, each in own.items()} == {
        name: theirs[name] for name in ("exact_match,strict", "exact_match,loose")
    }
    assert own["exact_match,strict"]["stderr"] == pytest.approx(theirs["exact_match_stderr,strict"])
    assert (report["right"], report["accuracy"], own["exact_match,loose"]["value"]) == (3, 0.6, 0.8)
    assert (again["judged_before"], again["metrics"], len(bodies)) == (5, report["metrics"], 5)
    assert sorted(each.prompt for each in suite.questions) == sorted(prompts)
    assert suite.versions["lm_eval"]
    body = bodies[0]
    assert [each["role"] for each in body["messages"]] == ["system", *["user", "assistant"] * 2, "user"]
    assert (body["stop"], body["max_tokens"], body["temperature"]) == (["Question:"], 64, 0.0)
    compared = compare(tmp_path / "o", tmp_path / "o")
    assert "exact_match,loose: A 0.8000, B 0.8000, B - A +0.0000 (+0.0000 to +0.0000)" in lines(compared)


def by_the_harness(path):
    """The figures and prompts of lm-evaluation-harness with the same replies."""
    from lm_eval import evaluator
    from lm_eval.api.model import LM
    from lm_eval.tasks import TaskManager

    prompts = []

    class Scripted(LM):
        def generate_until(self, requests):
            prompts.extend(each.args[0] for each in requests)
            replies = [SAYS[int(each.args[0].rpartition("Question: ")[2][0])] for each in requests]
            return [each.rpartition("</think>")[2].partition("Question:")[0] for each in replies]

        def loglikelihood(self, requests):
            raise NotImplementedError

        loglikelihood_rolling = loglikelihood

    manager = TaskManager(include_defaults=False)
    found = evaluator.simple_evaluate(
        model=Scripted(), tasks=[str(path)], task_manager=manager, bootstrap_iters=10, fewshot_random_seed=1234
    )
    return found["results"]["own_sums"], prompts


@pytest.mark.slow
def test_a_hostile_reply_costs_its_own_question_and_nothing_else(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(harness, "SCORE_S", 3.0)
    texts = ["write", "start", "hang", "end", "fine"]
    with serving(lambda body, _: completion(texts[int(body["messages"][0]["content"][10])])) as (url, asked):
        report = evaluated(opened(folder, "own_points"), url, tmp_path / "o", fixed={"stop"})
        sent = [body for _, _, body in asked]

    rows = [json.loads(line) for line in (tmp_path / "o" / "results.jsonl").read_text().splitlines()]
    found = {row["reply"]: (row["right"], row["reason"]) for row in rows}
    assert found["hang"] == found["end"] == (False, "scorer-failed")
    assert found["fine"] == (None, "graded")
    assert (report["accuracy"], report["answered"], report["unjudged"]) == (None, 5, [])
    assert [row["metrics"]["texts,none"][0] for row in rows if row["reason"] == "scorer-failed"][:2] == ["", ""]
    assert all("stop" not in body for body in sent)
    if landlock.abi():
        assert found["write"] == found["start"] == (False, "scorer-failed")
        assert report["metrics"]["own_points"]["points,none"]["value"] == pytest.approx(0.4 / 5)
        assert not os.path.exists("/tmp/groundbox-was-here")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("own_choice", "is of the kind multiple_choice: it asks how likely given texts are"),
        ("own_unsafe", "is marked unsafe_code"),
        ("own_repeats", "asks each question 4 times"),
        ("own_cheat", r"may execute what a model wrote, on this machine: .*/cheats.py:2 eval"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_words(folder, name, words):
    with pytest.raises(harness_process.Refused, match=words):
        harness_process._Tasks([str(folder / f"{name}.yaml")], "")


@pytest.mark.slow
def test_a_task_that_is_nowhere_is_refused_before_anything_is_made(folder):
    (folder / "torn.yaml").write_text("task: [")

    with pytest.raises(InvalidArgument, match="torn.yaml|cannot be opened"):
        open_suite(f"lm-eval:{folder / 'torn.yaml'}", Wanted())
