"""The executor and the store: shards are carried out once, kept whole, and in any order."""

import asyncio
import dataclasses
import gc
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import textwrap
import threading
from pathlib import Path

import pytest
from dataset_fakes import Hosted, die, fail, interrupt, part, threshold

from groundbox.dataset import executor as executors
from groundbox.dataset.executor import (
    LocalExecutor,
    Shard,
    ShardFailed,
    WorkerDied,
    carry_out,
    in_order,
    quarantining,
)
from groundbox.dataset.part_store import Store
from groundbox.dataset.processes import NEW_OBJECTS
from groundbox.errors import InvalidArgument, SandboxUnavailable


def shards(count):
    return [Shard(stage="work", number=number, payload=number) for number in range(count)]


def carried_out(folder, count, submit, capacity=3):
    async def all_of_them():
        work = carry_out(shards(count), submit=submit, capacity=lambda: capacity, store=Store(folder))
        return [shard.number async for shard, _ in work]

    return asyncio.run(all_of_them())


def test_every_shard_is_done_once_and_no_more_than_the_capacity_at_once(tmp_path):
    running, most, done = set(), [0], []

    async def submit(shard):
        running.add(shard.number)
        most[0] = max(most[0], len(running))
        await asyncio.sleep(0.001 * (shard.number % 3))
        running.discard(shard.number)
        done.append(shard.number)
        return part(shard)

    numbers = carried_out(tmp_path, 10, submit)

    assert sorted(numbers) == sorted(done) == list(range(10))
    assert most == [3]
    assert (tmp_path / "work-000007.jsonl").read_bytes() == b"7"


def test_parts_that_are_there_are_not_done_again_and_half_a_part_is(tmp_path):
    (tmp_path / "work-000001.jsonl").write_bytes(b"as it was")
    (tmp_path / "work-000002.traces").write_bytes(b"half")
    (tmp_path / "work-000000.jsonl.tmp").write_bytes(b"cut of")
    done = []

    async def submit(shard):
        done.append(shard.number)
        return part(shard)

    numbers = carried_out(tmp_path, 3, submit)

    assert (sorted(numbers), sorted(done)) == ([0, 1, 2], [0, 2])
    assert (tmp_path / "work-000001.jsonl").read_bytes() == b"as it was"
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "work-000000.jsonl",
        "work-000000.traces",
        "work-000001.jsonl",
        "work-000002.jsonl",
        "work-000002.traces",
    ]


def test_a_failure_stops_the_others_and_keeps_what_is_done(tmp_path):
    stopped = []

    async def submit(shard):
        if shard.number == 1:
            await asyncio.sleep(0.01)
            raise LookupError("one")
        if shard.number == 2:
            try:
                await asyncio.sleep(60)
            finally:
                stopped.append(shard.number)
        return part(shard)

    with pytest.raises(LookupError):
        carried_out(tmp_path, 3, submit)

    assert stopped == [2]
    assert (tmp_path / "work-000000.jsonl").exists()


def test_failures_that_come_at_once_are_all_taken_note_of(tmp_path, caplog):
    async def submit(shard):
        raise LookupError(shard.number)

    with pytest.raises(LookupError):
        carried_out(tmp_path, 3, submit)
    gc.collect()

    assert caplog.messages == []


def ordered(count, submit, capacity=3):
    """Numbers of the shards that came, with how many were begun by then."""
    begun = []

    async def all_of_them():
        def each():
            for shard in shards(count):
                begun.append(shard.number)
                yield shard

        return [
            (shard.number, part["jsonl"], len(begun))
            async for shard, part in in_order(each(), submit=submit, capacity=lambda: capacity)
        ]

    return asyncio.run(all_of_them())


def test_parts_that_are_not_kept_come_in_order_whichever_is_done_first():
    running, most = set(), [0]

    async def submit(shard):
        running.add(shard.number)
        most[0] = max(most[0], len(running))
        await asyncio.sleep(0.002 * (shard.number % 3 == 0))
        running.discard(shard.number)
        return part(shard)

    found = ordered(20, submit)

    assert [each[:2] for each in found] == [(number, str(number).encode()) for number in range(20)]
    assert most == [3]


def test_no_more_parts_wait_for_a_late_one_than_a_few_for_each_that_is_under_way():
    late = asyncio.Event()
    done = []

    async def submit(shard):
        if shard.number == 0:
            await late.wait()
        done.append(shard.number)
        if len(done) == 11:  # so many of 12 wait for the first one, and no other one is begun
            asyncio.get_running_loop().call_later(0.01, late.set)
        return part(shard)

    found = ordered(100, submit)

    assert found[0] == (0, b"0", 12)
    assert done[11] == 0
    assert len(done) == 100


def test_a_part_that_fails_ends_those_that_are_under_way():
    stopped = []

    async def submit(shard):
        if shard.number == 1:
            raise LookupError("one")
        try:
            await asyncio.sleep(60)
        finally:
            stopped.append(shard.number)

    with pytest.raises(LookupError, match="one"):
        ordered(9, submit)

    assert stopped == [0, 2]


@pytest.mark.parametrize(
    ("name", "workers", "words"),
    [
        (
            "rays://1.2.3.4:6379",
            None,
            r"--executor: takes local, ray or ray://HOST:PORT, and not 'rays://1.2.3.4:6379'",
        ),
        ("ray://", None, "--executor: takes local"),
        ("local://here", None, "--executor: takes local"),
        ("ray://1.2.3.4", None, "--executor: takes ray://HOST:PORT, and 'ray://1.2.3.4' has no port"),
        ("ray://1.2.3.4:6379", 2, "--workers: is for this machine"),
    ],
)
def test_an_executor_that_there_is_not_is_refused_by_name(name, workers, words):
    with pytest.raises(InvalidArgument, match=words):
        executors.named(name, workers=workers)


def test_computing_is_done_in_other_processes():
    executor = LocalExecutor(1)

    async def computed():
        try:
            return await executor.compute(part, shards(1)[0])
        finally:
            await executor.close()

    assert asyncio.run(computed()) == {"traces": b"t", "jsonl": b"0"}


def test_a_closed_executor_leaves_no_thread_to_the_end_of_the_interpreter():
    executor = LocalExecutor(1)

    async def computed():
        await executor.compute(part, shards(1)[0])
        await executor.close()
        return {each.name for each in threading.enumerate()}

    before = {each.name for each in threading.enumerate()}
    left = asyncio.run(computed()) - before

    assert [name for name in left if not name.startswith("asyncio_")] == []


def test_only_computing_processes_look_for_cycles_rarely():
    before, executor = gc.get_threshold(), LocalExecutor(1)

    async def computed():
        try:
            return await executor.compute(threshold, shards(1)[0])
        finally:
            await executor.close()

    assert asyncio.run(computed()) == {"jsonl": str(NEW_OBJECTS).encode()}
    assert gc.get_threshold() == before


def test_a_shard_whose_process_dies_twice_is_named():
    executor = LocalExecutor(1)

    async def computed():
        try:
            await executor.compute(die, shards(1)[0])
        finally:
            await executor.close()

    with pytest.raises(ShardFailed, match="work shard 0 could not be carried out: its process died"):
        asyncio.run(computed())


def test_an_error_in_a_shard_is_raised_as_it_is():
    executor = LocalExecutor(1)

    async def computed():
        try:
            await executor.compute(fail, shards(1)[0])
        finally:
            await executor.close()

    with pytest.raises(LookupError):
        asyncio.run(computed())


def test_an_interrupt_is_the_parents_and_computing_goes_on():
    executor = LocalExecutor(1)

    async def computed():
        try:
            return await executor.compute(interrupt, shards(1)[0])
        finally:
            await executor.close()

    assert asyncio.run(computed()) == {"traces": b"t", "jsonl": b"0"}


def test_ctrl_c_while_a_process_starts_shows_no_traceback_of_it(tmp_path):
    program = tmp_path / "interrupted.py"
    program.write_text(
        textwrap.dedent(
            """
            import asyncio, os, signal
            from groundbox.dataset.executor import LocalExecutor, Shard

            if __name__ == "__mp_main__":  # as the process that computes imports this
                os.kill(os.getpid(), signal.SIGINT)

            def work(shard):
                return {"jsonl": b"done"}

            async def computed():
                executor = LocalExecutor(1)
                try:
                    return await executor.compute(work, Shard(stage="work", number=0, payload=0))
                finally:
                    await executor.close()

            if __name__ == "__main__":
                print(asyncio.run(computed()))
            """
        )
    )

    ran = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=120)

    assert (ran.stdout, ran.stderr) == ("{'jsonl': b'done'}\n", "")


# Work that runs programs, on many processors: in hosts


def hosted(work, payloads, *, hosts=2):
    """What each shard gave, and the executor, which is closed."""
    executor = LocalExecutor(2 * hosts, hosts=hosts)

    async def carried_out():
        asked = (Shard(stage="run", number=at, payload=payload) for at, payload in enumerate(payloads))
        try:
            return await asyncio.gather(*(executor.run(work, shard) for shard in asked))
        finally:
            await executor.close()

    return [part["jsonl"] for part in asyncio.run(carried_out())], executor


def test_shards_that_run_programs_are_carried_out_by_hosts_with_their_share_of_the_machine():
    before = set(multiprocessing.active_children())

    found, _ = hosted(Hosted(), [7, 8, 9, 10])
    told = [json.loads(each) for each in found]

    assert [payload for payload, *_ in told] == [7, 8, 9, 10]
    assert {hosts for *_, hosts in told} == {2}
    assert len({pid for _, pid, _ in told} - {os.getpid()}) == 2
    assert set(multiprocessing.active_children()) == before


def test_on_few_processors_this_process_is_the_only_host():
    executor = LocalExecutor(4)

    (told,) = [json.loads(asyncio.run(executor.run(Hosted(), shard))["jsonl"]) for shard in shards(1)]

    assert (executor.hosts, told) == (1, [0, os.getpid(), 1])
    assert [LocalExecutor(count).hosts for count in (1, 5, 16, 64)] == [1, 2, 4, 16]


def test_a_host_is_at_several_shards_at_once(tmp_path):
    payload = {"folder": str(tmp_path), "count": 4}

    found, _ = hosted(Hosted("meet"), [payload] * 4)

    assert len(set(found)) == 2


def test_a_host_has_one_copy_of_the_work_for_all_its_shards():
    """With one for each, processes that compute were started for each and stayed."""
    found, _ = hosted(Hosted("which"), range(8))

    assert len({tuple(json.loads(each)) for each in found}) == 2


def test_a_shard_whose_host_dies_is_tried_once_more(tmp_path):
    found, _ = hosted(Hosted("die once"), [str(tmp_path / "died")])

    assert found == [b"the second time"]


def test_a_shard_whose_host_dies_twice_is_named():
    with pytest.raises(ShardFailed, match="run shard 0 could not be carried out: its process died"):
        hosted(Hosted("die"), [0])


@pytest.mark.parametrize(
    ("does", "error", "words"),
    [
        ("fail", LookupError, "0"),
        ("unavailable", SandboxUnavailable, "cgroup: none"),
        ("strange", ShardFailed, "StrangeError: 1 and 2"),
    ],
)
def test_an_error_in_a_host_is_raised_here_or_told(does, error, words):
    with pytest.raises(error, match=words):
        hosted(Hosted(does), [0])


def test_an_interrupt_does_not_end_a_host():
    assert hosted(Hosted("interrupt"), [0])[0] == [b"0"]


def test_what_hosts_compute_is_counted():
    _, executor = hosted(Hosted("compute"), [0, 1])

    assert executor.spent_s() >= 0.6
    assert executor.spent_s() == 0


def test_programs_of_a_host_can_be_interrupted():
    """What is blocked when a process starts is blocked in all that it starts."""
    assert hosted(Hosted("mask"), [0, 1])[0] == [b"[]"] * 2


def test_a_host_that_nobody_closed_does_not_keep_the_interpreter_from_ending():
    program = textwrap.dedent(
        """
        import asyncio, sys
        from groundbox.dataset.executor import LocalExecutor, Shard

        class Work:
            async def __call__(self, shard):
                return {"jsonl": b"done"}

        async def carried_out():
            global executor
            executor = LocalExecutor(2, hosts=2)
            print(await executor.run(Work(), Shard(stage="run", number=0, payload=0)))

        if __name__ == "__main__":
            asyncio.run(carried_out())
        """
    )

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "left.py"
        path.write_text(program)
        ran = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=60)

    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "{'jsonl': b'done'}\n", "")


# Shards that end their process


@dataclasses.dataclass(frozen=True)
class Pieces:
    """Work on lists of numbers, of which some end their process."""

    def pieces(self, shard):
        return [dataclasses.replace(shard, payload=[each]) for each in shard.payload]

    def joined(self, found):
        return {"jsonl": b"".join(part["jsonl"] for part in found)}

    def given_up(self, piece, reason):
        return {"jsonl": f"{piece.payload[0]} given up: {reason}\n".encode()}


def quarantined(payload, deadly):
    """The part of a shard, and the payloads that were tried, in order."""
    tried = []

    async def submit(shard):
        tried.append(shard.payload)
        if not deadly.isdisjoint(shard.payload):
            raise WorkerDied(shard, "it died")
        return {"jsonl": b"".join(b"%d\n" % each for each in shard.payload)}

    part = asyncio.run(quarantining(submit, Pieces(), Shard(stage="work", number=0, payload=payload)))
    return part["jsonl"].decode().splitlines(), tried


def test_of_a_shard_that_ends_its_process_the_pieces_are_tried_alone_and_one_is_given_up(caplog):
    assert quarantined([1, 2, 3], deadly={2}) == (["1", "2 given up: it died", "3"], [[1, 2, 3], [1], [2], [3]])
    assert caplog.messages == [
        "work shard 0 could not be carried out: it died; its 3 pieces are tried one after the other",
        "work shard 0 could not be carried out: it died; what is in it is dropped",
    ]


def test_a_shard_of_one_piece_is_given_up_without_being_tried_again():
    assert quarantined([2], deadly={2}) == (["2 given up: it died"], [[2]])


def test_a_shard_that_ends_nothing_is_tried_once():
    assert quarantined([1, 3], deadly={2}) == (["1", "3"], [[1, 3]])


def test_a_build_on_one_machine_imports_no_engine_and_no_object_store():
    program = (
        "import sys, groundbox.cli.dataset, groundbox.cli.eval, groundbox.dataset.build, groundbox.dataset.verify; "
        "print([name for name in ('ray', 'obstore', 'groundbox.dataset.ray_executor') if name in sys.modules])"
    )

    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert (ran.stdout, ran.stderr) == ("[]\n", "")
