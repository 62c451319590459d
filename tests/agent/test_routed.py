import asyncio

import pytest

from groundbox.agent.routed import RoutedBox


@pytest.fixture
def routed(made):
    box = made.box(made.execution(stdout="sandbox"))
    return RoutedBox(box), box


def run(routed, *sources):
    async def all_of_them():
        return [(await routed.run(source)).stdout for source in sources]

    return asyncio.run(all_of_them())


def test_arithmetic_needs_no_sandbox(routed):
    routed, box = routed

    assert run(routed, "print(1 + 1)", "print(1 / 0)", "f()") == ["2\n", "sandbox", "sandbox"]
    assert [source for _, source, _ in box.ran] == ["print(1 / 0)", "f()"]


def test_variables_are_handed_over_before_they_could_be_wanted(routed):
    routed, box = routed

    run(routed, "x = 1 + 1", "y = 2 + 2", "print(x)", "print(y)")

    assert [source for _, source, _ in box.ran] == ["x = 1 + 1\ny = 2 + 2", "print(x)", "print(y)"]


def test_variables_of_a_process_that_is_gone_are_gone(routed):
    routed, box = routed

    run(routed, "x = 1 + 1")
    asyncio.run(routed.restart())
    run(routed, "f()")

    assert [source for _, source, _ in box.ran] == ["f()"]
