import asyncio
import dataclasses
import importlib.util

import pytest

from groundbox.agent.routed import RoutedBox


@dataclasses.dataclass
class Route:
    tier: str
    assigns: tuple = ()


class Routing:
    """Works out what has a `+` and no `/`."""

    class NotArithmetic(Exception):
        pass

    def __init__(self, execution):
        self.execution = execution

    def route(self, source, language):
        names = (source.partition("=")[0].strip(),) if "=" in source else ()
        return Route(tier="calc" if "+" in source else "sandbox", assigns=names)

    def run_arithmetic(self, source):
        if "/" in source:
            raise self.NotArithmetic
        return self.execution


@pytest.fixture
def routed(made):
    box = made.box(made.execution(stdout="sandbox"))
    routed = RoutedBox(box)
    routed._routing = Routing(made.execution(stdout="host"))
    return routed, box


def run(routed, *sources):
    async def all_of_them():
        return [(await routed.run(source)).stdout for source in sources]

    return asyncio.run(all_of_them())


def test_arithmetic_needs_no_sandbox(routed):
    routed, box = routed

    assert run(routed, "1 + 1", "1 + 1 / 0", "f()") == ["host", "sandbox", "sandbox"]
    assert [source for _, source, _ in box.ran] == ["1 + 1 / 0", "f()"]


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


def test_without_routing_everything_goes_to_the_sandbox(made):
    if importlib.util.find_spec("groundbox.agent.routing"):
        pytest.skip("groundbox.agent.routing is there")
    box = made.box(made.execution(stdout="sandbox"))

    assert run(RoutedBox(box), "1 + 1") == ["sandbox"]
