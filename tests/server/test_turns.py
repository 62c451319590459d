"""Turns of runs: how many at once, how many wait, and whose turn it is."""

import asyncio
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the extra `server` is not installed here")

from groundbox.server.refusals import Refused
from groundbox.server.turns import Rate, Turns


def turns_of(*, at_once=1, queue_length=100, queue_s=60.0, is_shared=True):
    return Turns(at_once=at_once, queue_length=queue_length, queue_s=queue_s, is_shared=lambda: is_shared)


async def settled():
    """Let everything that can go on do so."""
    for _ in range(20):
        await asyncio.sleep(0)


class Run:
    """A run that holds its turn until it is told to end."""

    def __init__(self, turns, key, begun):
        self.ending = asyncio.Event()
        self.task = asyncio.ensure_future(self._go(turns, key, begun))

    async def _go(self, turns, key, begun):
        async with turns.turn(key):
            begun.append(key)
            await self.ending.wait()

    async def end(self):
        self.ending.set()
        await self.task


async def drained(runs):
    for run in runs:
        run.ending.set()
    return await asyncio.gather(*(run.task for run in runs), return_exceptions=True)


async def test_as_many_run_as_may_and_the_others_wait():
    turns, begun = turns_of(at_once=2, is_shared=False), []

    runs = [Run(turns, "a", begun) for _ in range(5)]
    await settled()
    counted = turns.running, turns.waiting
    await drained(runs)

    assert counted == (2, 3)
    assert (turns.running, turns.waiting, len(begun)) == (0, 0, 5)


async def test_runs_of_one_key_begin_in_the_order_in_which_they_came():
    turns, begun = turns_of(), []
    order = []

    async def go(number):
        async with turns.turn("a"):
            order.append(number)

    first = Run(turns, "a", begun)
    await settled()
    tasks = [asyncio.ensure_future(go(number)) for number in range(4)]
    await settled()
    await first.end()
    await asyncio.gather(*tasks)

    assert order == [0, 1, 2, 3]


@pytest.mark.parametrize("at_once", [1, 2, 3])
async def test_a_key_that_floods_does_not_starve_others(at_once):
    turns, begun = turns_of(at_once=at_once), []
    runs = [Run(turns, key, begun) for key in ("flood", "other flood") for _ in range(20)]
    await settled()
    quiet = Run(turns, "quiet", begun)
    await settled()

    for run in runs[: 2 * at_once + 2]:  # those that run end one after the other
        run.ending.set()
    for run in runs[20 : 20 + 2 * at_once + 2]:
        run.ending.set()
    await settled()
    place = begun.index("quiet") if "quiet" in begun else None
    await drained([*runs, quiet])

    assert place is not None
    assert place <= 2 * at_once + 2


@pytest.mark.parametrize("at_once", [2, 3, 4, 7, 8, 16, 33])
async def test_a_key_whose_runs_never_end_leaves_turns_to_keys_that_have_none(at_once):
    turns, begun = turns_of(at_once=at_once), []
    sleepers = [Run(turns, "sleeper", begun) for _ in range(2 * at_once)]
    await settled()
    slept = turns.running

    others = [Run(turns, name, begun) for name in ("b", "b", "c", "c") * at_once]
    late = [Run(turns, name, begun) for name in ("d",) * at_once]
    await settled()
    began = {name: begun.count(name) for name in "bcd"}
    await drained([*sleepers, *others, *late])

    assert slept == at_once - at_once // 2
    assert began["b"] >= 1
    assert sum(began.values()) <= at_once - slept
    assert at_once < 4 or began["c"] >= 1
    assert at_once < 33 or began["d"] >= 1


async def test_a_server_without_keys_of_others_gives_every_turn_to_its_owner():
    turns, begun = turns_of(at_once=8, is_shared=False), []

    runs = [Run(turns, "owner", begun) for _ in range(8)]
    await settled()
    running = turns.running
    await drained(runs)

    assert running == 8


async def test_a_turn_that_is_kept_free_is_given_when_a_run_of_the_waiting_key_ends():
    turns, begun = turns_of(at_once=4), []
    runs = [Run(turns, "a", begun) for _ in range(4)]
    await settled()
    first = turns.running, turns.waiting

    await runs[0].end()
    await settled()
    then = turns.running, turns.waiting
    await drained(runs)

    assert (first, then) == ((2, 2), (2, 1))
    assert (turns.running, turns.waiting) == (0, 0)


async def test_a_full_queue_of_one_key_leaves_a_place_to_another():
    turns, begun = turns_of(queue_length=10), []
    runs = [Run(turns, "flood", begun) for _ in range(11)]
    await settled()

    quiet = Run(turns, "quiet", begun)
    await settled()
    waiting, put_out = turns.waiting, [run for run in runs if run.task.done()]
    refused: Any = put_out[0].task.exception()
    await drained([*runs, quiet])

    assert waiting == 10
    assert put_out == [runs[-1]]
    assert (refused.status, refused.code, refused.retry_after_s >= 1) == (429, "busy", True)
    assert begun.count("quiet") == 1


async def test_a_full_queue_refuses_the_key_that_filled_it_with_429_and_a_time():
    turns, begun = turns_of(queue_length=2), []
    runs = [Run(turns, "a", begun) for _ in range(3)]
    await settled()

    with pytest.raises(Refused) as caught:
        async with turns.turn("a"):
            pass
    await drained(runs)

    assert (caught.value.status, caught.value.code) == (429, "busy")
    assert "Retry-After" in caught.value.headers


async def test_who_waits_too_long_is_refused_and_leaves_the_queue():
    turns, begun = turns_of(queue_s=0.05), []
    first = Run(turns, "a", begun)
    await settled()

    with pytest.raises(Refused, match="within 0.05 s"):
        async with turns.turn("b"):
            pass
    left = turns.waiting
    await first.end()

    assert (left, turns.running) == (0, 0)


async def test_who_is_called_off_while_waiting_gives_the_place_back():
    turns, begun = turns_of(), []
    first, second, third = (Run(turns, "a", begun) for _ in range(3))
    await settled()

    second.task.cancel()
    await settled()
    waiting = turns.waiting
    await first.end()
    await settled()
    await drained([third])

    assert waiting == 1
    assert begun == ["a", "a"]
    assert (turns.running, turns.waiting) == (0, 0)


async def test_who_is_called_off_in_the_moment_of_its_turn_gives_the_turn_back():
    turns, begun = turns_of(), []
    held = turns.turn("a")
    await held.__aenter__()
    second, third = (Run(turns, "a", begun) for _ in range(2))
    await settled()

    await held.__aexit__(None, None, None)  # the turn is second's now, which does not know it yet
    second.task.cancel()
    await settled()
    third_begun = begun == ["a"]
    await drained([third])

    assert second.task.cancelled()
    assert third_begun
    assert turns.running == 0


async def test_who_is_called_off_just_before_its_turn_is_cancelled_and_nothing_else():
    turns, begun = turns_of(), []
    first, second = (Run(turns, "a", begun) for _ in range(2))
    await settled()

    second.task.cancel()
    turns._end("a")  # a turn ends before the one that was called off hears of it
    turns._running["a"] += 1
    third = Run(turns, "a", begun)
    await settled()
    await first.end()
    await settled()
    begun_by_third = len(begun) == 2
    await drained([third])

    assert second.task.cancelled()
    assert begun_by_third
    assert turns.running == 0


async def test_a_program_that_raises_gives_its_turn_back():
    turns = turns_of()

    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            async with turns.turn("a"):
                raise ZeroDivisionError

    assert turns.running == 0


def test_a_rate_gives_bursts_and_then_says_how_long_to_wait():
    rate = Rate(10.0, burst=3)

    waits = [rate.take() for _ in range(4)]

    assert waits[:3] == [0.0, 0.0, 0.0]
    assert 0 < waits[3] <= 0.1
