"""Tasks of Inspect in local files. The package is in the venv of `make adapters`."""

import asyncio
import json
import tempfile
import textwrap

import pytest
from endpoint_fakes import completion, serving

pytest.importorskip("inspect_ai", reason="inspect_ai is not installed: pip install inspect_ai")

from groundbox.dataset.executor import LocalExecutor
from groundbox.dataset.program_runner import SandboxRunner
from groundbox.dataset.translation.endpoint import Endpoint
from groundbox.endpoint.chat import EndpointFailed
from groundbox.errors import InvalidArgument
from groundbox.learn.evaluation import asking, model, results
from groundbox.learn.evaluation.suites import Means, Wanted, open_suite
from groundbox.limits import Limits

TASKS = """
from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageUser, ContentImage, GenerateConfig
from inspect_ai.scorer import Score, accuracy, includes, match, mean, scorer, stderr
from inspect_ai.solver import generate, self_critique, solver, system_message, use_tools
from inspect_ai.tool import tool
from inspect_ai.util import sandbox

SUMS = [Sample(input=f"What is {n} + 1?", target=str(n + 1)) for n in range(4)]

@task
def sums():
    return Task(dataset=SUMS, solver=[system_message("You add."), generate()], scorer=[match(numeric=True), includes()],
                config=GenerateConfig(max_tokens=64, stop_seqs=["END"]))

@task
def critique():
    return Task(dataset=SUMS[:1], solver=[generate(), self_critique()], scorer=match(numeric=True))

@scorer(metrics=[mean()])
def length():
    async def score(state, target):
        return Score(value=len(state.output.completion) / 10)
    return score

@task
def graded():
    return Task(dataset=SUMS[:2], solver=generate(), scorer=length())

@tool
def adder():
    async def execute(a: int, b: int):
        '''Add.

        Args:
            a: One.
            b: Other.
        '''
        return a + b
    return execute

@task
def tools():
    return Task(dataset=SUMS[:2], solver=[use_tools(adder()), generate()], scorer=match())

@scorer(metrics=[accuracy()])
def runs():
    async def score(state, target):
        ran = await sandbox().exec(["python3", "-c", state.output.completion])
        return Score(value="C" if ran.stdout.strip() == target.text else "I", explanation=ran.stderr)
    return score

@task
def programs():
    return Task(dataset=SUMS[:2], solver=generate(), scorer=runs(), sandbox="local")

@task
def image():
    return Task(dataset=SUMS[:2], solver=generate(), scorer=match(), sandbox=("docker", "compose.yaml"))

@task
def broken():
    @scorer(metrics=[accuracy()])
    def fails():
        async def score(state, target):
            raise ValueError(state.output.completion)
        return score
    return Task(dataset=SUMS[:1], solver=generate(), scorer=fails())
"""
CHEATING = """
from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import Score, accuracy, scorer

@scorer(metrics=[accuracy()])
def sums():
    async def score(state, target):
        return Score(value=eval(state.output.completion) == 2)
    return score

@task
def cheating():
    return Task(dataset=[Sample(input="What is 1 + 1?", target="2")], scorer=sums())
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder of tasks."""
    folder = tmp_path_factory.mktemp("tasks")
    (folder / "tasks.py").write_text(textwrap.dedent(TASKS))
    (folder / "cheating.py").write_text(textwrap.dedent(CHEATING))
    return folder


def evaluated(suite, url, out):
    """One run of a suite against an endpoint; the report."""

    async def main():
        executor = LocalExecutor(1)
        means = Means(runner=SandboxRunner(at_once=1), limits=Limits(wall_s=20), sandbox={})
        tools = model.Tools(means=means, executor=executor, at_once=2)
        request = {"temperature": 0.0, "max_tokens": 99}
        endpoint = Endpoint(url, "m", options=request, at_once=2, attempts=1, timeout_s=30)
        with results.opened(out, {"suite": suite.name}, suite.versions) as kept:
            async with asking.connected(endpoint, request, out / asking.ANSWERS) as source:
                try:
                    return await model.evaluate(suite, suite.questions, source, kept, {}, tools)
                finally:
                    await executor.close()

    return asyncio.run(main())


def opened(folder, name, file="tasks"):
    return open_suite(f"inspect:{folder / file}.py@{name}", Wanted())


SAYS = ["ANSWER: 1", "<think>3</think>It is 2", "maybe 4", ""]


def says(body, authorization):
    return completion(SAYS[int(body["messages"][-1]["content"].split()[2])])


def test_a_task_is_asked_and_scored_as_inspect_itself_does(folder, tmp_path, capfd):
    with serving(says) as (url, asked):
        report = evaluated(opened(folder, "sums"), url, tmp_path / "o")
        again = evaluated(opened(folder, "sums"), url, tmp_path / "o")
        bodies = [body for _, _, body in asked]

    theirs = by_inspect(folder)
    own = report["metrics"]["sums"]
    assert {name: each["value"] for name, each in own.items()} == pytest.approx(theirs)
    assert (report["right"], report["accuracy"], report["answered"]) == (2, 0.5, 4)
    assert report["tokens"]["total"] == 4 * 3
    assert (again["metrics"], again["right"], len(bodies)) == (report["metrics"], 2, 4)
    assert [each["role"] for each in bodies[0]["messages"]] == ["system", "user"]
    assert (bodies[0]["max_tokens"], bodies[0]["stop"], bodies[0]["temperature"]) == (64, ["END"], 0.0)
    assert capfd.readouterr().out == ""
    rows = [json.loads(line) for line in (tmp_path / "o" / "results.jsonl").read_text().splitlines()]
    assert [(row["id"], row["reply"], row["metrics"]["match"]) for row in rows][:2] == [
        ("1", SAYS[0], 1.0),
        ("2", SAYS[1], 1.0),
    ]


def by_inspect(folder):
    """The figures of Inspect with the same replies."""
    import inspect_ai
    from inspect_ai.model import ModelOutput, ModelUsage, get_model

    def output(messages, tools, choice, config):
        text = SAYS[int(messages[-1].text.split()[2])].rpartition("</think>")[2]
        said = ModelOutput.from_content("mockllm", text)
        said.usage = ModelUsage()  # otherwise it counts by a tokenizer that it downloads
        return said

    mock = get_model("mockllm/model", custom_outputs=output)
    task = f"{folder / 'tasks.py'}@sums"
    (log,) = inspect_ai.eval(task, model=mock, log_dir=tempfile.mkdtemp(), display="none")
    return {
        f"{score.name}/{name}": metric.value for score in log.results.scores for name, metric in score.metrics.items()
    }


def test_all_that_a_solver_asks_is_kept_and_counted(folder, tmp_path):
    with serving(lambda body, _: completion(f"It is {len(body['messages'][-1]['content']) % 2}")) as (url, asked):
        report = evaluated(opened(folder, "critique"), url, tmp_path / "o")
        evaluated(opened(folder, "critique"), url, tmp_path / "o")

    assert len(asked) == 3
    assert report["tokens"]["total"] == 3 * 3


def test_what_gets_no_reply_counts_for_nothing_and_is_asked_the_next_time(folder, tmp_path):
    broken = [True]

    def stumbles(body, authorization):
        if broken[0] and "2 + 1" in body["messages"][-1]["content"]:
            return 400, {}, {"error": {"message": "too long"}}
        return says(body, authorization)

    with serving(stumbles) as (url, asked):
        report = evaluated(opened(folder, "sums"), url, tmp_path / "o")
        broken[0] = False
        again = evaluated(opened(folder, "sums"), url, tmp_path / "o")

    assert (report["answered"], [each["id"] for each in report["unanswered"]]) == (3, ["3"])
    assert "too long" in report["unanswered"][0]["why"]
    assert (again["answered"], again["unanswered"], len(asked)) == (4, [], 5)


def test_an_endpoint_that_is_gone_ends_the_run(folder, tmp_path):
    with pytest.raises(EndpointFailed):
        evaluated(opened(folder, "sums"), "http://127.0.0.1:1/v1", tmp_path / "o")


def test_replies_that_are_graded_have_figures_and_no_accuracy(folder, tmp_path):
    with serving(says) as (url, _):
        report = evaluated(opened(folder, "graded"), url, tmp_path / "o")

    assert (report["accuracy"], report["reasons"]) == (None, {"graded": 2})
    assert report["metrics"]["graded"]["length/mean"]["value"] == pytest.approx((0.9 + 0.7) / 2)


def test_a_scorer_that_fails_leaves_the_question_unjudged(folder, tmp_path):
    with serving(says) as (url, _):
        report = evaluated(opened(folder, "broken"), url, tmp_path / "o")

    assert (report["answered"], [each["id"] for each in report["unjudged"]]) == (0, ["1"])
    assert "ANSWER: 1" in report["unjudged"][0]["why"]


def test_programs_of_a_task_with_a_sandbox_run_in_ours_and_never_on_the_host(folder, tmp_path):
    texts = ["print(1)", "import os\nprint(2 if os.path.exists('/etc/shadow') or os.getppid() > 1 else 3)"]

    def writes(body, authorization):
        return completion(texts[int(body["messages"][-1]["content"].split()[2])])

    suite = opened(folder, "programs")
    with serving(writes) as (url, _):
        report = evaluated(suite, url, tmp_path / "o")

    assert suite.source["sandbox"] == ["local"]
    assert (report["answered"], report["right"], report["unjudged"]) == (2, 1, [])


@pytest.mark.parametrize(
    ("file", "name", "words"),
    [
        ("cheating", "cheating", r"may execute what a model wrote, on this machine: .*cheating.py:9 eval"),
        ("tasks", "image", "brings an image or a configuration of its own"),
        ("tasks", "nothing", "nothing"),
        ("none", "sums", "none.py"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_words(folder, file, name, words):
    with pytest.raises(InvalidArgument, match=words):
        opened(folder, name, file)


def test_a_task_with_tools_is_refused_when_it_asks_for_them(folder, tmp_path):
    with serving(says) as (url, asked), pytest.raises(InvalidArgument, match="gives the model tools"):
        evaluated(opened(folder, "tools"), url, tmp_path / "o")

    assert len(asked) == 0
