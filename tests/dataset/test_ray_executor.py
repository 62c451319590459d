"""The executor on a Ray cluster: several raylets on this machine, whose processes are killed."""

import asyncio
import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from dataset_fakes import DeadlyRunner, FakeRunner, Hosted, deadly_tell, die, pause, prove, tell, threshold
from ray_clusters import OWN, insist, two_machines

from groundbox.dataset import part_store, sample_files
from groundbox.dataset.build import CARD, PAGE, Tools, build
from groundbox.dataset.executor import LocalExecutor, Shard, ShardFailed, WorkerDied
from groundbox.dataset.options import BuildOptions
from groundbox.dataset.processes import NEW_OBJECTS
from groundbox.dataset.verify import verify

HERE = Path(__file__).parent
KILLED = HERE / "killed_build.py"
FINAL = (*sample_files.FILES, CARD, PAGE)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed (extra `ray`)"),
]


@pytest.fixture(scope="module")
def cluster():
    with two_machines(HERE) as started:
        yield started


@pytest.fixture
def third(cluster):
    """Another machine, which may be gone in the end."""
    node = insist(lambda: cluster.add_node(**OWN))
    yield node
    if node in cluster.list_all_nodes():
        cluster.remove_node(node, allow_graceful=False)


def executor(cluster, told=None, **options):
    from groundbox.dataset.ray_executor import RayExecutor

    told = [] if told is None else told
    return RayExecutor(cluster.address, tell=told.append, **options)


def carried_out(executor, work, payloads, *, programs=True):
    """What each shard gave; the executor is closed."""

    async def all_of_them():
        submit = executor.run if programs else executor.compute
        try:
            asked = (Shard(stage="run", number=at, payload=payload) for at, payload in enumerate(payloads))
            return await asyncio.gather(*(submit(work, shard) for shard in asked))
        finally:
            await executor.close()

    return [part["jsonl"] for part in asyncio.run(all_of_them())]


def tools(executor, runner=None, narrator=tell, **more):
    return Tools(runner=runner or FakeRunner(), executor=executor, narrator=narrator, prover=prove, **more)


def lives(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def built(out, options, tools):
    async def whole():
        try:
            return await build(options, out, tools)
        finally:
            await tools.executor.close()

    return asyncio.run(whole())


def problems(folder, count, poison=None, name="many.jsonl"):
    path = folder / name
    with path.open("w") as file:
        for number in range(count):
            word = "poison" if number == poison else "x"
            body = "".join(f"    {word} = {word} * {(number * 7 + line) % 5 + 2} + {line}\n" for line in range(5))
            source = f"def f({word}):\n{body}    return [{word}, {number}]\n"
            row = {"id": f"p{number}", "source": source, "entry": "f", "statement": f"Number {number}."}
            file.write(json.dumps({**row, "cases": [{"args": [number + at]} for at in range(4)]}) + "\n")
    return path


def alike(path):
    """Options with which programs may be alike."""
    return BuildOptions(problems=(path,), near_duplicate=1.0)


def contents(out):
    return {name: (out / name).read_bytes() for name in FINAL}


# Shards


def test_shards_are_carried_out_by_processes_of_all_machines_each_with_one_copy_of_the_work(cluster, tmp_path):
    gathered = {"folder": str(tmp_path), "count": 2}

    met = carried_out(executor(cluster), Hosted("meet"), [gathered] * 2)
    copies = carried_out(executor(cluster), Hosted("which"), range(6))

    assert len(set(met)) == 2
    assert len({tuple(json.loads(each)) for each in copies}) <= len({json.loads(each)[0] for each in copies}) == 2


def test_pure_computing_is_done_there_as_in_processes_of_a_build(cluster):
    found = carried_out(executor(cluster), threshold, [0], programs=False)

    assert found == [str(NEW_OBJECTS).encode()]


def test_a_shard_whose_process_dies_is_tried_again(cluster, tmp_path):
    found = carried_out(executor(cluster), Hosted("die once"), [str(tmp_path / "died"), str(tmp_path / "died")])

    assert found == [b"the second time"] * 2


@pytest.mark.parametrize("programs", [True, False])
def test_a_shard_whose_process_dies_three_times_is_named(cluster, programs):
    with pytest.raises(WorkerDied, match=r"run shard 0 could not be carried out: its process died.*, 3 times"):
        carried_out(executor(cluster), Hosted("die") if programs else die, [0], programs=programs)


@pytest.mark.parametrize(
    ("does", "error", "words"),
    [("fail", LookupError, "0"), ("strange", ShardFailed, "StrangeError: 1 and 2")],
)
def test_an_error_in_a_worker_process_is_raised_here_or_told(cluster, does, error, words):
    with pytest.raises(error, match=words):
        carried_out(executor(cluster), Hosted(does), [0])


def test_machines_on_which_no_sandbox_can_be_made_are_left_out_until_none_is_left(cluster, monkeypatch):
    from groundbox.dataset import ray_executor

    monkeypatch.setattr(ray_executor, "_ALONE_S", 1.0)
    told = []

    with pytest.raises(ray_executor.FleetFailed, match="no machine could be used for 1 s: .*cgroup: none"):
        carried_out(executor(cluster, told), Hosted("unavailable"), [0])

    assert len([words for words in told if "is not used: refusing to run" in words]) == 2


def test_a_late_shard_is_given_to_another_machine_as_well_and_the_first_result_is_taken(cluster, tmp_path):
    told = []

    found = carried_out(executor(cluster, told, deadline_s=1.0), Hosted("hang once"), [str(tmp_path / "hangs")])

    assert found == [b"the second time"]
    assert any("run shard 0 is late: on " in words and "gets it as well" in words for words in told)


def test_where_nothing_is_done_any_more_the_build_ends_and_says_what_is_where(cluster, tmp_path):
    from groundbox.dataset.ray_executor import FleetFailed

    with pytest.raises(FleetFailed, match=r"nothing was done for 2 s: run shard 0 on \S+ \(.*\) for \d+ s"):
        carried_out(executor(cluster, stall_s=2.0), Hosted("hold"), [str(tmp_path)])


def test_a_time_in_which_there_was_nothing_to_do_is_no_stall(cluster):
    async def with_a_pause():
        ray = executor(cluster, stall_s=2.0)
        try:
            await ray.compute(threshold, Shard(stage="run", number=0, payload=0))
            await asyncio.sleep(3.0)
            # Longer than it takes to look after the machines once.
            return await ray.compute(pause, Shard(stage="run", number=1, payload=1.5))
        finally:
            await ray.close()

    assert asyncio.run(with_a_pause()) == {"jsonl": b"1.5"}


def test_a_build_ends_for_a_head_that_does_not_answer_in_place_of_waiting_for_it(cluster, tmp_path, monkeypatch):
    from groundbox.dataset import ray_executor

    monkeypatch.setattr(ray_executor, "_SILENT_S", 3.0)
    (head,) = cluster.head_node.all_processes["gcs_server"]

    async def without():
        ray = executor(cluster)
        await ray.run(Hosted("which"), Shard(stage="run", number=0, payload=0))  # Ray asks its head before the first
        try:
            os.kill(head.process.pid, signal.SIGSTOP)
            await ray.run(Hosted("hold"), Shard(stage="run", number=1, payload=str(tmp_path)))
        finally:
            os.kill(head.process.pid, signal.SIGCONT)
            (tmp_path / "go").touch()
            await ray.close()

    with pytest.raises(ray_executor.FleetFailed, match=r"Ray's head has not answered for \d+ s\. Start Ray again"):
        asyncio.run(without())


def test_a_build_ends_where_its_machines_cannot_be_looked_after(cluster, tmp_path, monkeypatch):
    from groundbox.dataset.ray_executor import FleetFailed, RayExecutor

    def fails(self, machine):
        raise LookupError("of our own")

    monkeypatch.setattr(RayExecutor, "_look_at", fails)

    with pytest.raises(FleetFailed, match="the machines cannot be looked after: LookupError: of our own"):
        carried_out(executor(cluster), Hosted("hold"), [str(tmp_path)])
    (tmp_path / "go").touch()


def test_the_shards_of_a_machine_that_dies_are_done_by_the_others(cluster, third, tmp_path):
    told = []
    ray = executor(cluster, told)

    def begun():
        return sorted(len(path.read_text().splitlines()) for path in tmp_path.glob("begun-*"))

    async def killed():
        work = Hosted("hold")
        shards = (Shard(stage="run", number=at, payload=str(tmp_path)) for at in range(3))
        under_way = asyncio.gather(*(ray.run(work, shard) for shard in shards))
        while sum(begun()) < 3:  # noqa: ASYNC110  others are other processes
            await asyncio.sleep(0.05)
        pids = [int(path.read_text()) for path in tmp_path.glob("begun-*")]
        cluster.remove_node(third, allow_graceful=False)
        while all(map(lives, pids)):  # noqa: ASYNC110  a worker process outlives its raylet for a moment
            await asyncio.sleep(0.05)
        (tmp_path / "go").touch()
        try:
            return await under_way
        finally:
            await ray.close()

    found = asyncio.run(killed())

    assert begun() == [1, 1, 2]
    assert len(found) == 3
    (words,) = [words for words in told if "is not used any more" in words]
    assert re.search(r"; run shard \d: done again elsewhere$", words)


# Machines that would write something else


def test_a_machine_with_another_environment_is_not_used_and_named(cluster, tmp_path):
    node = insist(lambda: cluster.add_node(**OWN, env_vars={"GROUNDBOX_HOME": str(tmp_path)}))
    told = []
    try:
        found = carried_out(executor(cluster, told), Hosted("which"), range(9))
    finally:
        cluster.remove_node(node, allow_graceful=False)

    assert len({json.loads(each)[0] for each in found}) == 2
    (words,) = [words for words in told if "is not used" in words]
    assert f"{node.node_id[:8]}) is not used: environment: " in words


def test_a_cluster_with_another_version_is_refused(cluster, monkeypatch):
    from groundbox.dataset import ray_executor, worker

    own = worker.identity()
    monkeypatch.setattr(ray_executor, "identity", lambda environment: own._replace(version="9.9", python="3.99"))

    with pytest.raises(
        ray_executor.FleetFailed,
        match=rf"no machine .*can be used: .*version: 9.9 here, {own.version} there, python: 3.99",
    ):
        executor(cluster)


def test_no_cluster_at_an_address_is_said(cluster):
    from groundbox.dataset.ray_executor import RayExecutor
    from groundbox.errors import InvalidArgument

    with pytest.raises(InvalidArgument, match="--executor: no Ray cluster at 127.0.0.1:9"):
        RayExecutor("127.0.0.1:9")


# Builds


def test_a_build_writes_the_same_bytes_as_on_one_machine(cluster, tmp_path):
    options = alike(problems(tmp_path, 24))

    built(tmp_path / "local", options, tools(LocalExecutor(1)))
    built(tmp_path / "ray", options, tools(executor(cluster)))

    assert contents(tmp_path / "ray") == contents(tmp_path / "local")


def test_a_build_during_which_a_machine_is_killed_writes_the_same_bytes(cluster, third, tmp_path, capsys):
    options = alike(problems(tmp_path, 24))
    built(tmp_path / "local", options, tools(LocalExecutor(1)))

    @dataclasses.dataclass
    class Killer:
        killed = False

        def step(self, stage, done, total, *, resumed):
            if done and not self.killed:
                self.killed = True
                cluster.remove_node(third, allow_graceful=False)

        def end(self):
            pass

    killer = Killer()
    built(tmp_path / "ray", options, tools(executor(cluster), FakeRunner(pause_s=0.3), progress=killer))

    assert killer.killed
    assert capsys.readouterr().out == ""
    assert contents(tmp_path / "ray") == contents(tmp_path / "local")


def test_a_build_whose_driver_is_killed_goes_on_without_doing_anything_twice(cluster, tmp_path):
    path = problems(tmp_path, 96)
    built(tmp_path / "local", BuildOptions(problems=(path,)), tools(LocalExecutor(1)))
    out = tmp_path / "ray"
    driver = subprocess.Popen([sys.executable, KILLED, path, out, cluster.address], stderr=subprocess.PIPE)
    while driver.poll() is None and len(list((out / part_store.FOLDER).glob("run-*.jsonl"))) < 3:
        time.sleep(0.01)
    driver.kill()
    _, errors = driver.communicate()
    assert driver.returncode == -signal.SIGKILL, errors.decode()
    kept = {each.name: each.stat().st_mtime_ns for each in (out / part_store.FOLDER).glob("*-*.jsonl")}
    submitted = []

    class Counting:
        """Counts what is submitted."""

        def __init__(self, inner):
            self.inner = inner

        def __getattr__(self, name):
            return getattr(self.inner, name)

        def run(self, work, shard):
            submitted.append(f"{shard.stage}-{shard.number:06d}.jsonl")
            return self.inner.run(work, shard)

        def compute(self, work, shard):
            submitted.append(f"{shard.stage}-{shard.number:06d}.jsonl")
            return self.inner.compute(work, shard)

    built(out, BuildOptions(problems=(path,)), tools(Counting(executor(cluster))))

    assert len(kept) >= 3
    assert not kept.keys() & set(submitted)
    assert contents(out) == contents(tmp_path / "local")


@pytest.mark.parametrize("where", ["programs", "telling"])
def test_a_program_that_ends_its_process_costs_its_items_and_nothing_else(cluster, tmp_path, where):
    runner, narrator = (DeadlyRunner(), tell) if where == "programs" else (FakeRunner(), deadly_tell)
    (tmp_path / "deadly").mkdir()
    sound = alike(problems(tmp_path, 9))
    built(tmp_path / "sound", sound, tools(LocalExecutor(1)))

    options = alike(problems(tmp_path / "deadly", 9, poison=5))
    report = built(tmp_path / "ray", options, tools(executor(cluster), runner, narrator))

    assert report["dropped"] == {"worker-died": 4}
    dropped = [json.loads(line) for line in (tmp_path / "ray" / "dropped.jsonl").read_text().splitlines()]
    assert [(each["item"], each["stage"]) for each in dropped] == [
        (f"p5/{at}", "run" if where == "programs" else "prove") for at in range(4)
    ]
    assert list(sample_files.read_samples(tmp_path / "ray" / sample_files.SAMPLES)) == [
        each for each in sample_files.read_samples(tmp_path / "sound" / sample_files.SAMPLES) if each.problem != "p5"
    ]


# Verification


def verified(folder, tools):
    async def whole():
        try:
            return await verify(folder, tools)
        finally:
            await tools.executor.close()

    return asyncio.run(whole())


def test_a_dataset_is_verified_with_the_same_findings_as_on_one_machine_and_poison_is_named(cluster, tmp_path):
    built(tmp_path / "d", alike(problems(tmp_path, 9)), tools(LocalExecutor(1)))
    rows = [
        dataclasses.replace(row, source=f"{row.source}# poison\n") if row.item == "p3/1" else row
        for row in sample_files.read_samples(tmp_path / "d" / sample_files.SAMPLES)
    ]
    with sample_files.writing(tmp_path / "d") as writer:
        for row in rows:
            writer.sample(row)

    here = verified(tmp_path / "d", tools(LocalExecutor(1)))
    there = verified(tmp_path / "d", tools(executor(cluster)))
    deadly = verified(tmp_path / "d", tools(executor(cluster), DeadlyRunner()))

    assert there == here
    others = [each for each in here.differences if each.where.partition("#")[0] != "p3/1"]
    assert [each for each in deadly.differences if each.where != "p3/1"] == others
    (poison,) = [each for each in deadly.differences if each.where == "p3/1"]
    assert (poison.what, poison.detail) == (
        "worker-died", "its process died, as it does when memory runs out, 3 times"
    )  # fmt: skip


# A process has one connection


def test_executors_of_a_process_share_its_connection_and_the_last_one_leaves(cluster):
    import ray

    one, other = executor(cluster), executor(cluster)

    carried_out(one, Hosted("which"), [0])
    assert ray.is_initialized()
    carried_out(other, Hosted("which"), [0])

    assert not ray.is_initialized()


def test_a_process_that_is_in_the_cluster_already_uses_it_stays_in_it_and_joins_no_other(cluster):
    import ray

    from groundbox.dataset.ray_executor import RayExecutor
    from groundbox.errors import InvalidArgument

    ray.init(address=cluster.address, log_to_driver=False)
    try:
        found = carried_out(executor(cluster), Hosted("which"), [0])
        again = carried_out(RayExecutor("auto"), Hosted("which"), [0])
        with pytest.raises(InvalidArgument, match=f"in the Ray cluster at {cluster.address} already; name it, or ray:"):
            RayExecutor()
        still = ray.is_initialized()
    finally:
        ray.shutdown()

    assert (len(found), len(again), still) == (1, 1, True)


# A cluster of its own, and none


def test_the_command_starts_a_cluster_of_its_own_and_writes_the_same_bytes(tmp_path):
    rows = (HERE.parents[1] / "examples/problems/everyday.jsonl").read_text().splitlines()[:4]
    (tmp_path / "p.jsonl").write_text("\n".join(rows) + "\n")
    command = [sys.executable, "-m", "groundbox", "dataset", "build", "--problems", str(tmp_path / "p.jsonl"), "--json"]

    for out, more in (("local", []), ("ray", ["--executor", "ray", "--workers", "1"])):
        ran = subprocess.run([*command, "--out", str(tmp_path / out), *more], capture_output=True, text=True)
        assert (ran.returncode, ran.stderr) == (0, "")
        assert json.loads(ran.stdout)["kept"] > 10

    assert contents(tmp_path / "ray") == contents(tmp_path / "local")
