"""Threads that many callers share: whose work is next."""

import asyncio
import contextvars
import threading

import pytest

from groundbox.sandbox.threads import FairThreads, run_for_host, working_for


def begin(threads, name, call):
    """Submit a call for a caller."""
    context = contextvars.copy_context()
    context.run(working_for.set, name)
    return context.run(threads.submit, call)


@pytest.fixture
def threads():
    made = FairThreads(4, share=2, name="of-a-test")
    yield made
    made.shutdown()


def test_one_caller_uses_its_share_and_another_one_does_not_wait(threads):
    held, may_end = threading.Semaphore(0), threading.Event()

    def hold():
        held.release()
        may_end.wait(60)

    flood = [begin(threads, "a", hold) for _ in range(50)]
    assert held.acquire(timeout=60)
    assert held.acquire(timeout=60)
    other = begin(threads, "b", lambda: "done")

    assert other.result(60) == "done"
    assert not held.acquire(blocking=False)
    may_end.set()
    assert [each.result(60) for each in flood] == [None] * 50


def test_of_callers_that_wait_the_one_with_less_in_progress_is_next():
    one, order, may_end = FairThreads(1, share=1, name="of-a-test"), [], threading.Event()
    begin(one, "a", lambda: may_end.wait(60))
    futures = [begin(one, "a", lambda: order.append("a")) for _ in range(3)]
    futures += [begin(one, "b", lambda: order.append("b")) for _ in range(2)]

    may_end.set()
    [each.result(60) for each in futures]
    one.shutdown()

    assert order in (["a", "b", "a", "b", "a"], ["b", "a", "b", "a", "a"])


def test_work_of_the_host_waits_for_no_caller(threads):
    may_end = threading.Event()
    for name in "abcdef":
        begin(threads, name, lambda: may_end.wait(60))

    assert threads.submit(lambda: "done").result(60) == "done"
    may_end.set()


def test_work_for_nobody_does_not_count_as_work_of_who_asks(threads):
    async def go():
        asyncio.get_running_loop().set_default_executor(threads)
        may_end = threading.Event()
        working_for.set("a")
        held = [asyncio.ensure_future(asyncio.to_thread(may_end.wait, 60)) for _ in range(5)]
        await asyncio.sleep(0.1)
        done = await run_for_host(lambda: "done")
        may_end.set()
        await asyncio.gather(*held)
        return done, working_for.get()

    assert asyncio.run(go()) == ("done", "a")


def test_a_call_that_raises_or_is_cancelled_frees_its_thread(threads):
    may_end = threading.Event()
    held = [begin(threads, "a", lambda: may_end.wait(60)) for _ in range(2)]
    waiting = [begin(threads, "a", lambda: 1 / 0) for _ in range(20)]

    assert all(each.cancel() for each in waiting[::2])
    may_end.set()
    errors = [type(each.exception(60)) for each in waiting[1::2]]

    assert errors == [ZeroDivisionError] * 10
    assert [each.result(60) for each in held] == [True, True]
    assert begin(threads, "a", lambda: "done").result(60) == "done"


def test_what_has_not_begun_is_cancelled_when_they_are_shut_down(threads):
    may_end = threading.Event()
    begin(threads, "a", lambda: may_end.wait(60))
    begin(threads, "a", lambda: may_end.wait(60))
    waiting = begin(threads, "a", lambda: None)

    threads.shutdown(wait=False)
    may_end.set()

    assert waiting.cancelled()
    with pytest.raises(RuntimeError, match="after shutdown"):
        begin(threads, "a", lambda: None)
