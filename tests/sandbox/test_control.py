"""What somebody beside a run may do to it."""

import asyncio

import pytest

from groundbox.errors import WireError
from groundbox.execution import Failure
from groundbox.sandbox.control import RunControl
from groundbox.sandbox.deadline import Deadline
from groundbox.sandbox.report import Order, Report


class Group:
    def __init__(self, *, fails=False):
        self.told, self._fails = [], fails

    def freeze(self, frozen):
        self.told.append(frozen)
        if self._fails:
            raise OSError


def control(group=None):
    report = Report(Order({}, (), None, None, None, False))
    ended = []
    return RunControl(report, Deadline(None, lambda: None), group, end=ended.append), report, ended


async def in_loop(work):
    return work()


def test_a_group_is_frozen_until_the_last_who_asked_for_it_is_done():
    group = Group()

    def work():
        made, _, _ = control(group)
        for frozen in (True, True, False, False):
            made.freeze(frozen)

    asyncio.run(in_loop(work))

    assert group.told == [True, False]


@pytest.mark.parametrize("group", [None, Group(fails=True)])
def test_where_nothing_can_be_frozen_nothing_happens(group):
    asyncio.run(in_loop(lambda: control(group)[0].freeze(True)))


def test_a_violation_takes_back_what_the_guest_had_said():
    def work():
        made, report, ended = control()
        report.done = object()
        made.violate(WireError("no"))
        return str(report.violation), report.done, ended

    assert asyncio.run(in_loop(work)) == ("no", None, [None])


def test_a_run_is_stopped_with_a_name():
    def work():
        made, report, ended = control()
        made.stop(Failure(type="Name", message="why"), interrupt=False)
        return report.stopped.type, ended

    assert asyncio.run(in_loop(work)) == ("Name", [False])
