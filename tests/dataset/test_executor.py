"""The executor and the store: shards are carried out once, kept whole, and in any order."""

import asyncio
import gc
import subprocess
import sys
import textwrap
import threading

import pytest
from dataset_fakes import die, fail, interrupt, part, threshold

from groundbox.dataset.executor import NEW_OBJECTS, LocalExecutor, Shard, ShardFailed, carry_out
from groundbox.dataset.store import Store


def shards(count):
    return [Shard(stage="work", number=number, payload=number) for number in range(count)]


def carried_out(folder, count, submit, capacity=3):
    async def all_of_them():
        work = carry_out(shards(count), submit=submit, capacity=capacity, store=Store(folder), marker="jsonl")
        return [shard.number async for shard in work]

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
