"""Hostile programs, in the real sandbox: each has a named reason, and the build goes on."""

import asyncio
import json

import pytest
from dataset_fakes import prove, tell

from groundbox.dataset import sample_files
from groundbox.dataset.build import Tools, build
from groundbox.dataset.executor import LocalExecutor
from groundbox.dataset.item_runs import RunLimits
from groundbox.dataset.options import BuildOptions
from groundbox.dataset.program_runner import SandboxRunner

HOSTILE = {
    "loops for ever": ("def f(x):\n    while True:\n        x += 1\n", "timeout"),
    "recurses": ("def f(x):\n    return f(x) + 1\n", "recursion-limit"),
    "forks": (
        "import os\ndef f(x):\n    if os.fork() == 0:\n        os._exit(0)\n    os.wait()\n    return x\n",
        "incomplete-trace",
    ),
    "allocates at once": ("def f(x):\n    return len(bytearray(10**10))\n", "memory"),
    "prints without end": ("def f(x):\n    while True:\n        print('x' * 1000)\n", "timeout"),
    "prints too much": ("def f(x):\n    print('x' * 100_000)\n    return x\n", "too-much-output"),
    "deletes files": ("import os\ndef f(x):\n    os.remove('/etc/passwd')\n", "reaches-outside"),
    "stops the tracer": ("import sys\ndef f(x):\n    sys.settrace(None)\n    return x\n", "incomplete-trace"),
    "does not parse": ("def f(x:\n", "does-not-parse"),
    "names a parameter twice": ("def f(x, x):\n    return x\n", "incomplete-trace"),
    "holds a NUL": ("def f(x):\n    return '\0'\n", "does-not-parse"),
    "takes no such input": ("def f(x, y):\n    return x\n", "input-does-not-fit"),
    "has no entry": ("def g(x):\n    return x\n", "no-entry"),
    "leaves": ("import os\ndef f(x):\n    os._exit(0)\n", "incomplete-trace"),
    "returns an object": ("def f(x):\n    return object()\n", "output-not-a-literal"),
    "rolls dice": ("import random\ndef f(x):\n    return random.random()\n", "nondeterministic-output"),
    "depends on hashes": ("def f(x):\n    return list({'a', 'b', 'c', 'd', 'e', 'f'})\n", "nondeterministic-output"),
    "misses a module": ("import nosuchmodule\ndef f(x):\n    return 1\n", "missing-module"),
    "asks for what is not there": ("def f(x):\n    return {}['a']\n", None),
    "is given what JSON has no word for": ("def f(x):\n    y = len(x)\n    return y\n", None),
    "is honest": ("def f(x):\n    y = x + 1\n    return y\n", None),
}
ARGS = {"is given what JSON has no word for": [{"$dict": [[{"$tuple": [1, 2]}, {"$float": "inf"}]]}]}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    path = folder / "hostile.jsonl"
    rows = [
        {"id": n, "source": s, "entry": "f", "cases": [{"args": ARGS.get(n, [1])}]} for n, (s, _) in HOSTILE.items()
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    tools = Tools(runner=SandboxRunner(at_once=2), executor=LocalExecutor(2), narrator=tell, prover=prove)
    options = BuildOptions(problems=(path,), patience=RunLimits(cpu_s=0.5, traced_cpu_s=2.0))
    asyncio.run(build(options, folder / "out", tools))
    return folder / "out"


@pytest.mark.parametrize("name", HOSTILE)
def test_what_a_program_does_has_a_name(dataset, name):
    dropped = [json.loads(line) for line in (dataset / "dropped.jsonl").read_text().splitlines()]
    kept = {each.problem for each in sample_files.read_samples(dataset / "samples.parquet")}

    reasons = [each["reason"] for each in dropped if each["problem"] == name]

    _, reason = HOSTILE[name]
    assert (reasons, name in kept) == (([reason], False) if reason else ([], True))


def test_a_failure_is_data(dataset):
    samples = [each for each in sample_files.read_samples(dataset / "samples.parquet") if each.outcome == "error"]

    assert [(each.task, each.answer) for each in samples if each.task == "exception"] == [
        ("exception", "KeyError at line 2")
    ]


def test_hosts_build_the_same_bytes(tmp_path):
    names = ["is honest", "asks for what is not there", "forks", "misses a module"]
    path = tmp_path / "some.jsonl"
    rows = [
        {"id": f"{n} {at}", "source": HOSTILE[n][0], "entry": "f", "cases": [{"args": [at]}]}
        for at in range(1, 11)
        for n in names
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))  # more shards than one
    options = BuildOptions(problems=(path,), patience=RunLimits(cpu_s=0.5, traced_cpu_s=2.0), near_duplicate=1.0)

    async def built(out, executor):
        tools = Tools(runner=SandboxRunner(at_once=2), executor=executor, narrator=tell, prover=prove)
        try:
            await build(options, out, tools)
        finally:
            await executor.close()
        return {name: (out / name).read_bytes() for name in sample_files.FILES}

    one = asyncio.run(built(tmp_path / "one", LocalExecutor(2)))
    several = asyncio.run(built(tmp_path / "several", LocalExecutor(2, hosts=2)))

    assert one == several
    assert one["sft.jsonl"]
    assert len(one["dropped.jsonl"].splitlines()) > 16  # which is more than one shard
