"""Deaths that nobody asked for: of waiting workers, of templates, of the process that a sandbox stands for."""

import asyncio
import contextlib
import os
import resource
import signal
import subprocess
import sys

import pytest

from groundbox import AsyncSandbox, Limits, Outcome, SandboxClosed, SandboxLost, SandboxUnavailable
from groundbox.jail import credentials
from groundbox.sandbox import catalog, engine
from groundbox.sandbox.template import Template

FRESH = iter(range(1, 1 << 20))
SIZES = iter(range(64 << 20, 1 << 40, 1 << 12))


async def _until(condition):
    for _ in range(1000):
        if condition():
            return True
        await asyncio.sleep(0.01)
    return False


def _fresh():
    """Options that no other test has, so that the pool and the template are this test's own."""
    return {"profile": "bare", "hash_seed": next(FRESH)}


async def _pool(box):
    return box._loan.pool


def test_workers_are_made_ahead_once_someone_has_asked():
    async def scenario():
        options = _fresh()
        async with AsyncSandbox(**options) as box:
            await box.run("1")
            pool = await _pool(box)
        assert await _until(lambda: pool.waiting >= 2 and all(w.is_ready for w in pool._waiting))
        async with AsyncSandbox(**options) as box:
            return (await box.run("1")).usage.warm

    assert asyncio.run(scenario()) is True


async def _filled(options, *, last=False):
    """Return the pool of such sandboxes once workers wait in it that were made without haste."""
    async with AsyncSandbox(**options) as box:
        await (box.run_last if last else box.run)("1")
    *_, pool = (await engine.current())._pools.values()  # the one that was asked for last
    assert await _until(lambda: not pool.hurried)
    while pool._waiting:
        pool._waiting.pop().kill()
    pool.refill_soon()
    assert await _until(lambda: pool.waiting >= 2 and all(w.is_ready for w in pool._waiting))
    return pool


def test_the_copy_for_scripts_is_there_before_the_first_cell_and_never_in_single_runs():
    async def scenario():
        options = _fresh()
        pools = [await _filled(options, last=last) for last in (False, True)]
        return [[worker.cgroup.process_count() for worker in pool._waiting] for pool in pools]

    assert asyncio.run(scenario()) == [[2, 2], [1, 1]]


def test_a_script_before_the_first_cell_has_no_socket_to_the_copy():
    async def scenario():
        options = _fresh()
        await _filled(options)
        async with AsyncSandbox(**options) as box:
            return await box.run(
                "import os\n"
                "for each in os.listdir('/proc/self/fd'):\n"
                "    try: found = os.readlink(f'/proc/self/fd/{each}')\n"
                "    except OSError: continue\n"
                "    if found.startswith('socket'): print(each, found)",
                mode="script",
            )

    execution = asyncio.run(scenario())
    assert (execution.stdout, execution.error) == ("", None)


def test_a_sandbox_with_few_processes_has_no_copy_for_scripts():
    async def scenario():
        options = {**_fresh(), "limits": Limits(process_count=31)}
        await _filled(options)
        async with AsyncSandbox(**options) as box:
            await box.run("1")
            return box._loan.worker.cgroup.process_count()

    assert asyncio.run(scenario()) == 1


def test_what_is_printed_before_the_first_run_is_none_of_its_output():
    async def scenario():
        options = _fresh()
        await _filled(options)
        async with AsyncSandbox(**options) as box:
            first = await box.run("print('first')")
            script = await box.run("import os; print(os.environ.get('A'))", mode="script")
            return first.stdout, script.stdout

    assert asyncio.run(scenario()) == ("first\n", "None\n")


def test_only_the_first_run_reads_which_user_ids_there_are(monkeypatch):
    async def scenario():
        options = _fresh()
        async with AsyncSandbox(**options) as box:
            await box.run_last("1")
        monkeypatch.setattr(credentials, "has_ranges", None)
        async with AsyncSandbox(**options) as box:
            return (await box.run_last("6 * 7")).text

    assert asyncio.run(scenario()) == "42"


def test_a_worker_is_never_lent_twice():
    async def scenario():
        options, seen = _fresh(), []
        for _ in range(6):
            async with AsyncSandbox(**options) as box:
                execution = await box.run("'mark' in globals()")
                await box.run("mark = 1; open('/tmp/mark', 'w').close()")
                seen.append(execution.text)
        return seen

    assert asyncio.run(scenario()) == ["False"] * 6


def test_workers_are_made_in_a_hurry_only_while_somebody_waits_for_one():
    async def scenario():
        options = _fresh()
        async with AsyncSandbox(**options) as box:
            await box.run("1")
            pool = await _pool(box)
            after_a_miss = pool.hurried
        assert await _until(lambda: pool.waiting >= 2 and all(w.is_ready for w in pool._waiting))
        assert await _until(lambda: not pool.hurried)
        async with AsyncSandbox(**options) as box:
            execution = await box.run("1")
            return after_a_miss, execution.usage.warm, pool.hurried

    assert asyncio.run(scenario()) == (True, True, False)


def test_a_waiting_worker_that_dies_is_replaced():
    async def scenario():
        options = _fresh()
        async with AsyncSandbox(**options) as box:
            await box.run("1")
            pool = await _pool(box)
        assert await _until(lambda: pool.waiting >= 2 and all(w.is_ready for w in pool._waiting))
        dying = list(pool._waiting)
        for worker in dying:
            worker.kill()
        assert await _until(lambda: pool.waiting >= 2 and not set(dying) & set(pool._waiting))
        async with AsyncSandbox(**options) as box:
            return (await box.run("6 * 7")).text

    assert asyncio.run(scenario()) == "42"


def test_a_waiting_worker_that_dies_unseen_is_not_lent():
    """Killed and asked for in the same moment, before the news of its death has come."""

    async def scenario():
        options = _fresh()
        async with AsyncSandbox(**options) as box:
            await box.run("1")
            pool = await _pool(box)
        assert await _until(lambda: pool.waiting >= 2 and all(w.is_ready for w in pool._waiting))
        for worker in pool._waiting:
            worker.kill()
        async with AsyncSandbox(**options) as box:
            return await box.run("6 * 7")

    execution = asyncio.run(scenario())
    assert execution.text == "42" or execution.state != "kept"


async def _ends(workers):
    return await _until(lambda: all(worker.ended is not None for worker in workers))


def test_a_worker_that_is_killed_before_it_is_there_ends_all_the_same():
    """Its pidfd comes from the template, a moment after it was asked for."""

    async def scenario():
        async with AsyncSandbox(**_fresh()) as box:
            await box.run("1")
            pool = await _pool(box)
            worker = pool._spawn()
            worker.kill()
            return await _ends([worker])

    assert asyncio.run(scenario()) is True


@pytest.mark.parametrize("end", ["close", "_relax"])
def test_a_pool_that_shrinks_ends_also_what_was_only_just_asked_for(end):
    async def scenario():
        async with AsyncSandbox(**_fresh()) as box:
            await box.run("1")
            pool = await _pool(box)
            pool._waiting.extend(pool._spawn() for _ in range(6))
            asked, pool._target = list(pool._waiting), 1
            getattr(pool, end)()
            return await _ends(set(asked) - set(pool._waiting)), len(pool._waiting) < 6

    assert asyncio.run(scenario()) == (True, True)


def test_a_worker_that_nobody_waits_for_any_more_is_ended():
    async def scenario():
        async with AsyncSandbox(**_fresh()) as box:
            await box.run("1")
            pool, template = await _pool(box), box._loan.template
            pool._waiting.clear()
            known = set(template._workers.values())
            borrowing = asyncio.ensure_future(pool.checkout())
            await asyncio.sleep(0)
            borrowing.cancel()
            asked = set(template._workers.values()) - known
            return len(asked), await _ends(asked)

    assert asyncio.run(scenario()) == (1, True)


def test_a_sandbox_that_is_closed_while_its_worker_comes_leaves_none():
    async def scenario():
        options = _fresh()
        async with AsyncSandbox(**options) as box:
            await box.run("1")
            template, pool = box._loan.template, box._loan.pool
            pool._waiting.clear()
            known = set(template._workers.values())
            other = AsyncSandbox(**options)
            running = asyncio.ensure_future(other.run("1"))
            await asyncio.sleep(0)
            await other.close()
            with pytest.raises(SandboxClosed):
                await running
            asked = set(template._workers.values()) - known - set(pool._waiting)
            return await _ends(asked)

    assert asyncio.run(scenario()) is True


def test_a_template_that_dies_idle_is_replaced():
    async def scenario():
        options = _fresh()
        async with AsyncSandbox(**options) as box:
            await box.run("1")
            template = box._loan.template
        os.kill(template.pid, signal.SIGKILL)
        assert await _until(lambda: not template.alive)
        async with AsyncSandbox(**options) as box:
            execution = await box.run("6 * 7")
            return execution.text, box._loan.template is template

    assert asyncio.run(scenario()) == ("42", False)


def test_a_template_that_dies_during_a_run_takes_the_run_with_it_and_the_next_works():
    async def scenario():
        options = _fresh()
        async with AsyncSandbox(limits=Limits(wall_s=60), **options) as box:
            await box.run("1")
            running = asyncio.ensure_future(box.run("import time; time.sleep(600)"))
            await asyncio.sleep(0.1)
            os.kill(box._loan.template.pid, signal.SIGKILL)
            ended = await running
            with pytest.raises(SandboxLost):
                await box.run("1")
        async with AsyncSandbox(**options) as box:
            return ended, (await box.run("6 * 7")).text

    ended, text = asyncio.run(scenario())
    assert (ended.outcome, ended.exit_signal, ended.state) == (Outcome.SIGNAL, signal.SIGKILL, "lost")
    assert text == "42"


def test_a_sandbox_whose_process_died_between_runs_says_so():
    async def scenario():
        async with AsyncSandbox(**_fresh()) as box:
            await box.run("1")
            box._loan.worker.kill()
            await box._loan.worker.wait()
            with pytest.raises(SandboxLost) as lost:
                await box.run("1")
            await box.restart()
            return lost.value.why, (await box.run("6 * 7")).text

    assert asyncio.run(scenario()) == ("it ended between two runs", "42")


CLOSED = """
import asyncio, gc, os
from groundbox import AsyncSandbox
from groundbox.sandbox import engine as engines

async def scenario():
    async with AsyncSandbox(profile="bare") as box:
        await box.run("1")
        template = box._loan.template.pid
    (await engines.current()).close()
    return template

counts = []
for _ in range(3):
    template = asyncio.run(scenario())
    assert not os.path.exists(f"/proc/{template}")
    gc.collect()
    counts.append(len(os.listdir("/proc/self/fd")))
print(counts[1] == counts[2])
"""


def test_closing_an_engine_leaves_no_descriptor_and_no_process():
    """In a process of its own, where no other test's pool opens and closes anything."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}

    ran = subprocess.run([sys.executable, "-c", CLOSED], capture_output=True, text=True, env=environ, timeout=60)

    assert (ran.stdout, ran.stderr) == ("True\n", "")


def test_workers_of_ever_other_limits_do_not_stay():
    """Each kind keeps some ready, so that whoever chooses limits could fill the host with workers that nobody uses."""

    async def scenario():
        options, pools = _fresh(), []
        for _ in range(engine._MOST_POOLS + 4):
            async with AsyncSandbox(**options, limits=Limits(disk_bytes=next(SIZES))) as box:
                await box.run("1")
                pools.append(await _pool(box))
        first = [worker for pool in pools[:4] for worker in pool._waiting]
        kept = len((await engine.current())._pools)
        return kept, await _ends(first), [pool.waiting for pool in pools[:4]]

    assert asyncio.run(scenario()) == (engine._MOST_POOLS, True, [0] * 4)


def test_a_kind_that_is_asked_for_again_stays_ready():
    async def scenario():
        options = _fresh()
        for _ in range(engine._MOST_POOLS + 4):
            async with AsyncSandbox(**options) as usual:
                await usual.run("1")
                pool = await _pool(usual)
            async with AsyncSandbox(**options, limits=Limits(disk_bytes=next(SIZES))) as box:
                await box.run("1")
        return await _until(lambda: pool.waiting > 0), pool in (await engine.current())._pools.values()

    assert asyncio.run(scenario()) == (True, True)


def test_templates_that_nobody_waits_for_any_more_do_not_pile_up():
    """Whoever asks for ever other hash seeds and goes away at once would have them all started beside each other."""

    async def scenario():
        own = await engine.current()
        leaving = [asyncio.create_task(own.checkout(engine.Setup(**_fresh()), Limits(), catalog)) for _ in range(30)]
        await _until(lambda: len(own._templates) == 30)
        for task in leaving:
            task.cancel()
        await asyncio.gather(*leaving, return_exceptions=True)
        ended = await _until(lambda: len(own._templates) <= engine._MOST_UNUSED and not own._retiring)
        made = len(own._templates)
        async with AsyncSandbox(**_fresh()) as box:
            return ended, made <= max(2, len(os.sched_getaffinity(0))), len(own._recipes), (await box.run("6 * 7")).text

    ended, few, recipes, text = asyncio.run(scenario())
    assert (ended, few, text) == (True, True, "42")
    assert recipes <= engine._MOST_UNUSED + 1


def test_what_did_not_come_up_is_forgotten(monkeypatch):
    async def broken(self):
        raise SandboxUnavailable(["a layer: cannot stand"])

    async def scenario():
        own = await engine.current()
        for _ in range(3):
            with pytest.raises(SandboxUnavailable):
                async with AsyncSandbox(**_fresh()) as box:
                    await box.run("1")
        await asyncio.sleep(0)
        return len(own._templates), len(own._recipes), len(own._ranges)

    monkeypatch.setattr(Template, "start", broken)
    monkeypatch.setattr(Template, "left_no_process", True)

    assert asyncio.run(scenario()) == (0, 0, 0)


def test_templates_that_nobody_uses_end_and_those_in_use_stay():
    async def scenario():
        own, templates = await engine.current(), []
        async with AsyncSandbox(**_fresh()) as first:
            await first.run("x = 42")
            for _ in range(engine._MOST_UNUSED + 3):
                async with AsyncSandbox(**_fresh()) as box:
                    await box.run("1")
                    templates.append(box._loan.template)
            await _until(lambda: not own._retiring)
            alive = [each.alive for each in templates]
            ended = [each._process.poll() is not None for each in templates]
            return alive, ended, len(own._ranges) or None, (await first.run("x")).text

    alive, ended, ranges, text = asyncio.run(scenario())
    assert alive == [False] * 2 + [True] * (engine._MOST_UNUSED + 1)  # of which the last was in use when it was counted
    assert ended == [not each for each in alive]
    assert ranges == (engine._MOST_UNUSED + 2 if os.geteuid() == 0 else None)
    assert text == "42"


@contextlib.contextmanager
def _descriptors_left(count):
    """This process may open so many more descriptors and no others."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (_highest_descriptor() + 20, hard))
    held = []
    try:
        with contextlib.suppress(OSError):
            while True:
                held.append(os.open("/dev/null", os.O_RDONLY))
        for _ in range(count):
            os.close(held.pop())
        yield
    finally:
        for descriptor in held:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _highest_descriptor():
    return max(map(int, os.listdir("/proc/self/fd")))


async def _filled_pool():
    async with AsyncSandbox(**_fresh()) as box:
        await box.run("1")
        pool = await _pool(box)
    assert await _until(lambda: pool.waiting >= 2 and all(w.is_ready for w in pool._waiting))
    return pool


def test_workers_that_descriptors_do_not_suffice_for_leave_none_open():
    """Each such worker kept those that it had got, so that a shortage had no end."""

    async def scenario():
        pool = await _filled_pool()
        before = len(os.listdir("/proc/self/fd"))
        for left in [*range(6)] * 8:
            with _descriptors_left(left), pytest.raises(OSError, match="Too many open files"):
                pool._spawn()
        # A control group that is kept for the next worker has its files open.
        return await _until(lambda: len(os.listdir("/proc/self/fd")) < before + 20)

    assert asyncio.run(scenario()) is True


def test_a_pool_goes_on_after_a_shortage_of_descriptors():
    async def scenario():
        pool = await _filled_pool()
        while pool._waiting:
            pool._waiting.pop().kill()
        with _descriptors_left(0):
            pool._fill()
        return await _until(lambda: pool.waiting >= 2)

    assert asyncio.run(scenario()) is True
