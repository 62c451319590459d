"""What guests send is decoded beside the event loop, one piece after another."""

import asyncio
import threading
import time

import pytest

from groundbox.sandbox import decoding


class Work:
    """Notes how much of it is done at once."""

    def __init__(self):
        self.under_way = self.most = 0
        self.lock = threading.Lock()
        self.began = threading.Event()
        self.may_end = threading.Event()

    def __call__(self, number):
        with self.lock:
            self.under_way += 1
            self.most = max(self.most, self.under_way)
        self.began.set()
        self.may_end.wait(10)
        with self.lock:
            self.under_way -= 1
        return number


def test_messages_take_turns_and_the_loop_is_free_meanwhile():
    work = Work()

    async def all_of_them():
        waiting = [decoding.decoded(work, number) for number in range(5)]
        await asyncio.to_thread(work.began.wait, 10)
        work.may_end.set()
        return await asyncio.gather(*waiting)

    assert asyncio.run(all_of_them()) == [0, 1, 2, 3, 4]
    assert work.most == 1


def test_one_that_is_taken_back_lets_no_second_one_begin_beside_it():
    """Else a guest that takes its calls back at once has as many threads as it likes."""
    work = Work()

    async def taken_back():
        first = decoding.decoded(work, 1)
        await asyncio.to_thread(work.began.wait, 10)
        first.cancel()
        second = decoding.decoded(work, 2)
        await asyncio.sleep(0.05)
        work.may_end.set()
        return await second

    assert asyncio.run(taken_back()) == 2
    assert work.most == 1


def test_a_message_does_not_wait_for_a_trace():
    work = Work()

    async def both():
        trace = decoding.decoded_trace(work, 1)
        await asyncio.to_thread(work.began.wait, 10)
        message = await decoding.decoded(int, "7")
        work.may_end.set()
        return message, await trace

    assert asyncio.run(both()) == (7, 1)


def test_an_error_is_raised_where_it_is_awaited():
    async def wrong():
        await decoding.decoded(int, "seven")

    with pytest.raises(ValueError, match="seven"):
        asyncio.run(wrong())


def test_no_thread_outlives_its_loop():
    async def one():
        return await decoding.decoded(threading.current_thread)

    thread = asyncio.run(one())

    deadline = time.monotonic() + 10
    while thread.is_alive():
        assert time.monotonic() < deadline
        time.sleep(0.01)
