"""Builds: what is written, that nothing is lost, and that it is always the same."""

import asyncio
import dataclasses
import json
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from dataset_fakes import DeadlyRunner, FakeRunner, deadly_tell, prove, tell

from groundbox.dataset import part_store, sample_files
from groundbox.dataset.build import CARD, PAGE, REPORT, Tools, build
from groundbox.dataset.executor import LocalExecutor
from groundbox.dataset.item_runs import RunLimits
from groundbox.dataset.narration import Told
from groundbox.dataset.options import BuildOptions
from groundbox.dataset.tasks.checking import answer_of
from groundbox.errors import InvalidArgument, SandboxLost

EXAMPLES = Path(__file__).parents[2] / "examples" / "problems"
KILLED = Path(__file__).with_name("killed_build.py")
FINAL = (*sample_files.FILES, CARD, PAGE)


PIECES = (
    "    x = x + {}\n",
    "    if x % {} == 0:\n        x = x * 2\n",
    "    for i in range({}):\n        x -= i\n",
    "    y = [x, {}]\n    x = max(y)\n",
    "    while x > {}:\n        x = x // 2\n",
)


class Inline(LocalExecutor):
    """Computes in this process, which is quicker for little work."""

    async def compute(self, work, shard):
        return work(shard)


def tools(runner=None, executor=None, narrator=tell, tokenizer=None):
    return Tools(
        runner=runner or FakeRunner(),
        executor=executor or Inline(2),
        narrator=narrator,
        prover=prove,
        tokenizer=tokenizer,
    )


def built(out, options, **more):
    return asyncio.run(build(options, out, tools(**more)))


def problems(tmp_path, count, cases=4, name="many.jsonl"):
    """Programs that differ in more than a number, some of them with faults."""
    path = tmp_path / name
    rng = random.Random(count)
    with path.open("w") as file:
        for number in range(count):
            body = "".join(rng.choice(PIECES).format(rng.randint(2, 9)) for _ in range(6))
            source = f"def f(x):\n{body}    return [x, {number}]\n"
            given = [{"args": [rng.randint(0, 50)]} for _ in range(cases)]
            row = {"id": f"problem-{number}", "source": source, "entry": "f", "statement": f"Number {number}."}
            file.write(json.dumps({**row, "cases": given}) + "\n")
            if number % 10 == 0:
                file.write("not a problem\n")
    return path


def contents(out):
    return {name: (out / name).read_bytes() for name in FINAL}


def without_times(out):
    times = {"seconds", "per_cpu_hour"}
    return {key: value for key, value in json.loads((out / REPORT).read_text()).items() if key not in times}


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_examples_become_a_dataset_in_which_nothing_is_lost(tmp_path):
    options = BuildOptions(problems=(EXAMPLES / "everyday.jsonl", EXAMPLES / "plain.jsonl"))

    report = built(tmp_path / "out", options)

    samples = list(sample_files.read_samples(tmp_path / "out" / "samples.parquet"))
    dropped = lines(tmp_path / "out" / "dropped.jsonl")
    assert report["items"] == report["kept"] + len(dropped)
    assert report["dropped"] == Counter(each["reason"] for each in dropped)
    assert report["kept"] == len({each.item for each in samples})
    assert report["samples"] == len(samples) == len({each.id for each in samples})
    assert report["claims"]["proven"] > 0
    assert report["claims"]["uncheckable"] == report["claims"]["total"] - report["claims"]["proven"] == 0
    assert report["task_faults"] == []
    assert report["runnable"] == report["traced"] >= report["kept"] > 110
    assert min(report["seconds"].values()) > 0
    assert list(report["per_cpu_hour"]) == ["kept", "samples", "claims"]


def test_a_program_that_gives_something_else_each_time_is_not_run_with_every_input(tmp_path):
    source = "import itertools\ncount = __import__('os').__dict__.setdefault('n', itertools.count())\ndef f(x):\n"
    row = {"source": source + "    return next(count) + x\n", "entry": "f", "cases": [{"args": [n]} for n in range(12)]}
    (tmp_path / "p.jsonl").write_text(json.dumps(row) + "\n")
    runner = FakeRunner()

    report = built(tmp_path / "out", BuildOptions(problems=(tmp_path / "p.jsonl",)), runner=runner)

    assert report["dropped"] == {"nondeterministic-output": 12}
    assert runner.runs == 4 * 3
    assert "not run" in lines(tmp_path / "out" / "dropped.jsonl")[-1]["detail"]


AWKWARD = (
    "def f(x, **more):\n    y = 'Answer: ' + str(x)\n    z = y + '`'\n    return z\n",
    "def f(x, **more):\n    y = x + 1\n    z = {}\n    z['`' * y] = f'**{y}**'\n    return z\n",
    "def f(x, **more):\n    y = sum(more.values())\n    z = (x, y)\n    return z\n",
)


def test_no_check_refuses_its_own_answer_whatever_the_values(tmp_path):
    cases = [{"args": [n], "kwargs": {"a": n, "class": 2, "b c": 3}} for n in range(1, 5)]
    rows = [{"source": source, "entry": "f", "cases": cases} for source in AWKWARD]
    (tmp_path / "awkward.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = BuildOptions(problems=(tmp_path / "awkward.jsonl",), samples_per_item=9)

    report = built(tmp_path / "out", options)

    samples = list(sample_files.read_samples(tmp_path / "out" / "samples.parquet"))
    assert report["task_faults"] == []
    assert report["kept"] == 12
    assert all(answer_of(each.reply) == each.answer for each in samples)


def test_chats_hold_what_the_rows_hold_and_each_split_is_apart(tmp_path):
    options = BuildOptions(problems=(EXAMPLES / "everyday.jsonl",))

    built(tmp_path / "out", options)

    samples = list(sample_files.read_samples(tmp_path / "out" / "samples.parquet"))
    for split in ("train", "validation", "test"):
        chats = lines(tmp_path / "out" / sample_files.chat_file(split))
        assert chats == [each.chat() for each in samples if each.split == split]
    assert {len({each.split for each in samples if each.problem == name}) for name in {s.problem for s in samples}} == {
        1
    }
    assert set(chats[0]) == {"messages", "id", "task", "claims"}
    assert [each["role"] for each in chats[0]["messages"]] == ["user", "assistant"]


def test_the_same_bytes_whatever_the_workers(tmp_path):
    options = BuildOptions(problems=(problems(tmp_path, 30),))

    built(tmp_path / "one", options, executor=Inline(1))
    built(tmp_path / "three", options, executor=LocalExecutor(3), runner=FakeRunner(pause_s=0.001))

    assert contents(tmp_path / "one") == contents(tmp_path / "three")
    assert without_times(tmp_path / "one") == without_times(tmp_path / "three")


def test_a_finished_build_is_not_done_again(tmp_path):
    options = BuildOptions(problems=(EXAMPLES / "plain.jsonl",))
    first = built(tmp_path / "out", options)
    runner = FakeRunner()

    again = built(tmp_path / "out", options, runner=runner)

    assert again == first
    assert runner.runs == 0


@pytest.mark.parametrize("name", ["samples.parquet", "dropped.jsonl", REPORT])
def test_a_final_file_that_was_damaged_is_made_again(tmp_path, name):
    options = BuildOptions(problems=(EXAMPLES / "plain.jsonl",))
    built(tmp_path / "out", options)
    before = contents(tmp_path / "out")
    (tmp_path / "out" / name).write_bytes(b"damaged")

    built(tmp_path / "out", options)

    assert contents(tmp_path / "out") == before


def test_other_arguments_in_the_same_folder_are_refused_and_named(tmp_path):
    path = problems(tmp_path, 3)
    built(tmp_path / "out", BuildOptions(problems=(path,)))
    before = contents(tmp_path / "out")

    with pytest.raises(InvalidArgument, match=r"holds a build with other arguments \(seed: 0 there, 1 here\)"):
        built(tmp_path / "out", BuildOptions(problems=(path,), seed=1))
    with path.open("a") as file:
        file.write("{}\n")
    with pytest.raises(InvalidArgument, match=r"other arguments \(problems: "):
        built(tmp_path / "out", BuildOptions(problems=(path,)))

    assert contents(tmp_path / "out") == before


def test_a_folder_with_something_else_is_refused(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("years of work")

    with pytest.raises(InvalidArgument, match="is not empty, and no build of ours"):
        built(tmp_path / "out", BuildOptions(problems=(EXAMPLES / "plain.jsonl",)))

    assert [each.name for each in (tmp_path / "out").iterdir()] == ["thesis.txt"]


def test_two_builds_in_one_folder_are_refused(tmp_path):
    options = BuildOptions(problems=(EXAMPLES / "plain.jsonl",))

    with (
        part_store.opened(tmp_path / "out", {}),
        pytest.raises(InvalidArgument, match="another build is at work in"),
    ):
        built(tmp_path / "out", options)


def test_a_telling_with_a_false_claim_is_dropped_with_the_claim(tmp_path):
    def lie(trace, **options):
        told = tell(trace, **options)
        return Told(**{**vars(told), "text": told.text.replace("becomes", "is never", 1)})

    report = built(tmp_path / "out", BuildOptions(problems=(EXAMPLES / "plain.jsonl",)), narrator=lie)

    reasons = report["dropped"]
    (first, *_) = lines(tmp_path / "out" / "dropped.jsonl")
    assert reasons["unproven-claims"] > 0
    assert (first["stage"], first["facts"]["failed"]) == ("prove", ["something differs"])


def test_a_question_whose_reasoning_jumps_is_not_asked(tmp_path):
    def jump(trace, **options):
        told = tell(trace, **options)
        first, *others = told.sentences
        last = dataclasses.replace((others or [first])[-1], stated=1, jumps=("`x` = 1: `y`, set by line 2",))
        return dataclasses.replace(told, sentences=[first, *others[:-1], last] if others else [last])

    report = built(tmp_path / "out", BuildOptions(problems=(EXAMPLES / "plain.jsonl",)), narrator=jump)

    dropped = [each for each in lines(tmp_path / "out" / "dropped.jsonl") if each["reason"] == "jumps"]
    assert report["dropped"]["jumps"] == len(dropped) > 0
    assert {each["detail"] for each in dropped} == {"`x` = 1: `y`, set by line 2"}
    assert all(
        row.jumps == "[]" and row.derivable == 1
        for row in sample_files.read_samples(tmp_path / "out" / sample_files.SAMPLES)
    )


def test_a_narrator_that_fails_costs_its_item_and_no_other(tmp_path):
    def fail(trace, **options):
        if "warmest" in trace.source:
            raise KeyError("narrator")
        return tell(trace, **options)

    report = built(tmp_path / "out", BuildOptions(problems=(EXAMPLES / "plain.jsonl",)), narrator=fail)

    assert set(report["dropped"]) == {"narrator-failed"}
    assert report["kept"] > 0


def test_an_item_that_takes_too_long_to_tell_is_named_and_the_others_go_on(tmp_path):
    def dawdle(trace, **options):
        while "warmest" in trace.source:
            pass
        return tell(trace, **options)

    options = BuildOptions(problems=(EXAMPLES / "plain.jsonl",), lesson_cpu_s=0.2)
    report = built(tmp_path / "out", options, narrator=dawdle)

    assert set(report["dropped"]) == {"proof-too-long"}
    assert report["kept"] > 0


def test_a_benchmark_and_copies_are_kept_out(tmp_path):
    rows = lines(EXAMPLES / "everyday.jsonl")
    copied = tmp_path / "copied.jsonl"
    again = {**rows[1], "refcode": rows[1]["refcode"].replace("hours", "h")}
    copied.write_text("".join(json.dumps(row) + "\n" for row in [*rows[:4], again]))
    bench = tmp_path / "bench.jsonl"
    bench.write_text(json.dumps({"task_id": "B/0", "code": rows[2]["refcode"], "text": "x", "test_list": []}) + "\n")

    report = built(tmp_path / "out", BuildOptions(problems=(copied,), benchmarks=(bench,)))

    assert report["dropped"] == {"near-duplicate": 5, "contaminated": 5}
    assert report["duplicates"] == {"problems": 1, "groups": [2]}
    assert report["contamination"]["problems"] == 1
    details = {each["reason"]: each["detail"] for each in lines(tmp_path / "out" / "dropped.jsonl")}
    assert details == {
        "near-duplicate": "1.00 of it is as in copied.jsonl:2",
        "contaminated": "it has 1.00 of the code of B/0",
    }


def test_inputs_are_made_for_problems_without_and_the_same_every_time(tmp_path):
    path = tmp_path / "p.jsonl"
    source = (
        "def sign(n: int):\n    if n < 0:\n        return '-'\n    if n == 0:\n        return '0'\n    return '+'\n"
    )
    opaque = "def f(x):\n    raise TypeError('no')\n"
    rows = [{"source": source, "entry": "sign"}, {"source": opaque, "entry": "f"}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    report = built(tmp_path / "out", BuildOptions(problems=(path,)))
    built(tmp_path / "again", BuildOptions(problems=(path,)))

    samples = list(sample_files.read_samples(tmp_path / "out" / "samples.parquet"))
    assert {each.answer for each in samples if each.task == "output"} == {"'-'", "'0'", "'+'"}
    assert report["dropped"] == {"no-inputs": 1}
    assert contents(tmp_path / "out") == contents(tmp_path / "again")


def test_runs_that_choose_the_inputs_of_a_stable_dataset_are_not_made_again(tmp_path):
    path, ran = tmp_path / "p.jsonl", Counter()
    path.write_text(json.dumps({"source": "def f(n: int):\n    return n * 3 % 11\n", "entry": "f"}) + "\n")

    def note(request, found):
        ran[request.hash_seed, request.traced, request.probed, request.case.key()] += 1
        return found

    options = BuildOptions(problems=(path,), patience=RunLimits(stable_only=True), tasks=("output",), smaller_runs=0)
    report = built(tmp_path / "out", options, runner=FakeRunner(note))

    assert report["kept"] > 1
    assert set(ran.values()) == {1}


def test_a_problem_whose_sandboxes_are_lost_while_inputs_are_looked_for_is_named_and_ends_no_build(tmp_path):
    path, tries = tmp_path / "p.jsonl", Counter()
    rows = [{"id": name, "source": f"def f(n: int):\n    {name} = n * 3 % 11\n    return {name}\n", "entry": "f"}
            for name in ("lost", "seldom", "never")]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def lose(request, found):
        tries[request.source] += 1
        if "lost" in request.source or ("seldom" in request.source and tries[request.source] == 1):
            raise SandboxLost("gone")
        return found

    options = BuildOptions(problems=(path,), tasks=("output",), smaller_runs=0, near_duplicate=1.0)
    report = built(tmp_path / "out", options, runner=FakeRunner(lose))

    dropped = [json.loads(line) for line in (tmp_path / "out" / "dropped.jsonl").read_text().splitlines()]
    assert [(each["item"], each["stage"], each["reason"]) for each in dropped if each["reason"] == "sandbox-lost"] == [
        ("lost", "inputs", "sandbox-lost")
    ]
    assert {each["problem"] for each in dropped if each["reason"] == "no-inputs"} == set()
    assert report["kept"] > 1


@pytest.mark.parametrize("where", ["programs", "telling"])
def test_a_program_that_ends_its_process_costs_its_items_and_nothing_else(tmp_path, where):
    path = problems(tmp_path, 6)
    before, name, after = path.read_text().partition('"problem-2"')
    rows = before + name + after.replace("def f(x):", "def f(x):\\n    poison = x", 1)
    (tmp_path / "deadly").mkdir()
    (tmp_path / "deadly" / path.name).write_text(rows)
    runner, narrator = (DeadlyRunner(), tell) if where == "programs" else (FakeRunner(), deadly_tell)
    built(tmp_path / "sound", BuildOptions(problems=(path,), near_duplicate=1.0))

    options = BuildOptions(problems=(tmp_path / "deadly" / path.name,), near_duplicate=1.0)
    executor = LocalExecutor(2, hosts=2)
    built(tmp_path / "out", options, executor=executor, runner=runner, narrator=narrator)

    dropped = [each for each in lines(tmp_path / "out" / "dropped.jsonl") if each["reason"] == "worker-died"]
    assert [each["item"] for each in dropped] == [f"problem-2/{at}" for at in range(4)]
    assert {each["detail"] for each in dropped} == {"its process died, as it does when memory runs out"}
    assert list(sample_files.read_samples(tmp_path / "out" / sample_files.SAMPLES)) == [
        each
        for each in sample_files.read_samples(tmp_path / "sound" / sample_files.SAMPLES)
        if each.problem != "problem-2"
    ]


def _kill_at_random(path, out, parts, rng):
    """Start a build and kill it once so many parts are there; whether it was killed before its end."""
    process = subprocess.Popen([sys.executable, KILLED, path, out, "2"], stderr=subprocess.PIPE)
    while process.poll() is None and len(list((out / part_store.FOLDER).glob("*-*.jsonl"))) < parts:
        time.sleep(0.002)
    time.sleep(rng.random() * 0.05)
    process.kill()
    _, errors = process.communicate()
    assert process.returncode in (0, -9), errors.decode()
    return process.returncode == -9


def _is_built_in_spite_of_kills(tmp_path, count, kills):
    path = problems(tmp_path, count)
    options = BuildOptions(problems=(path,))
    built(tmp_path / "whole", options, executor=LocalExecutor(2))
    shards = sum(1 for _ in path.open()) * 4 // 16
    rng = random.Random(7)

    killed = sum(
        _kill_at_random(path, tmp_path / "killed", target, rng)
        for target in sorted(rng.randrange(2 * shards) for _ in range(kills))
    )
    built(tmp_path / "killed", options, executor=LocalExecutor(2))

    assert killed > 0
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")
    assert without_times(tmp_path / "killed") == without_times(tmp_path / "whole")
    items = [each["item"] for each in lines(tmp_path / "killed" / "dropped.jsonl")]
    assert len(items) == len(set(items))


def test_a_build_that_is_killed_again_and_again_ends_as_if_it_had_not_been(tmp_path):
    _is_built_in_spite_of_kills(tmp_path, 50, kills=5)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_build_of_ten_thousand_items_survives_kills(tmp_path):
    _is_built_in_spite_of_kills(tmp_path, 2500, kills=12)
