"""The wall clock of a run that can stand still."""

import asyncio
import time

from groundbox.sandbox.deadline import Deadline


async def reached_after(left_s, steps):
    """The seconds until it is reached, or None; `steps` are done one after the other."""
    begun, reached = time.monotonic(), asyncio.Event()
    deadline = Deadline(left_s, reached.set)
    for step in steps:
        if isinstance(step, float):
            await asyncio.sleep(step)
        else:
            step(deadline)
    try:
        await asyncio.wait_for(reached.wait(), 3)
    except TimeoutError:
        return None
    return time.monotonic() - begun


def measured(left_s, *steps):
    return asyncio.run(reached_after(left_s, steps))


def test_without_a_pause_it_is_reached_in_time():
    assert 0.1 <= measured(0.1) < 2


def test_a_pause_does_not_count():
    steps = [lambda d: d.allow(60), lambda d: d.pause(), 0.5, lambda d: d.resume()]

    assert measured(0.3, *steps) >= 0.8


def test_two_pauses_at_once_count_as_one():
    steps = [lambda d: d.allow(60), lambda d: d.pause(), lambda d: d.pause(), lambda d: d.resume(), 0.5]

    assert measured(0.2, *steps, lambda d: d.resume()) >= 0.7


def test_it_stands_still_no_longer_than_is_allowed():
    assert 0.5 <= measured(0.2, lambda d: d.allow(0.3), lambda d: d.pause()) < 2.5


def test_what_is_held_has_no_bound_here_and_takes_none_of_the_allowance():
    steps = [lambda d: d.allow(0.1), lambda d: d.pause(), lambda d: d.pause(held=True), 0.5]

    assert measured(0.2, *steps, lambda d: d.resume(held=True), lambda d: d.resume()) >= 0.7


def test_a_run_that_is_over_is_not_ended():
    assert measured(0.1, lambda d: d.cancel()) is None


def test_without_a_limit_there_is_nothing_to_reach():
    assert measured(None, lambda d: d.allow(1), lambda d: d.pause(), lambda d: d.resume()) is None
