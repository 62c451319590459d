"""The part of the conformance suite about tools: functions of the host that a program in the sandbox calls."""

from __future__ import annotations

import asyncio

from groundbox import Execution
from groundbox.sandbox.bridge.tool import Tool, ToolFailure
from groundbox.sandbox.languages import Mode
from groundbox.testing.base import Conformance


def double(number: int) -> int:
    """Twice a number."""
    return 2 * number


async def double_later(number: int) -> int:
    """The same, after the loop has turned."""
    await asyncio.sleep(0)
    return 2 * number


def refuse(why: str) -> None:
    """Always fails."""
    raise ToolFailure(why)


ECHO = Tool("echo", lambda value: value, parameters={"type": "object", "properties": {"value": {}}})


class ToolsConformance(Conformance):
    """Calls from cells and scripts, at once and one by one, and where there are none."""

    def _called(self, source: str, *, mode: Mode = "cell") -> Execution:
        box = self.sandbox(tools=[double, double_later, refuse, ECHO])
        execution = box.run(f"import tools\n{source}", mode=mode)
        assert execution.error is None, execution.error
        return execution

    def test_a_cell_and_a_script_call_tools(self) -> None:
        assert self._called("tools.double(21), tools.double_later(4)").text == "(42, 8)"
        assert self._called("print(tools.double(21))", mode="script").stdout == "42\n"

    def test_tools_are_called_at_once_from_a_loop_and_from_threads(self) -> None:
        gathered = "import asyncio\nsum(await asyncio.gather(*[tools.aio.double_later(n) for n in range(50)]))"
        threaded = "from concurrent.futures import ThreadPoolExecutor as P\nsum(P(4).map(tools.double, range(50)))"

        assert self._called(gathered).text == "2450"
        assert self._called(threaded).text == "2450"

    def test_what_a_tool_raises_can_be_caught(self) -> None:
        source = "try: tools.refuse('no')\nexcept tools.ToolError as error: print(error)"

        assert self._called(source).stdout == "refuse: ToolFailure: no\n"

    def test_large_and_strange_values_go_to_a_tool_and_back(self) -> None:
        source = "data = {'ü\\0🎉': [b'\\xff' * 3_000_000, 2**100, None]}\ntools.echo(data) == data"

        execution = self._called(source)

        assert (execution.text, list(execution.artifacts)) == ("True", [])

    def test_results_tell_what_was_called(self) -> None:
        calls = self._called("for n in range(60): tools.double(n)").tool_calls

        assert calls is not None
        assert (calls.total, calls.outcomes, len(calls.calls), calls.dropped) == (60, {"ok": 60}, 50, 10)

    def test_each_run_has_a_connection_of_its_own(self) -> None:
        box = self.sandbox(tools=[double])
        keep = "import os, socket, tools\ntools.double(1)\nkept = os.dup(tools._bridge._channel._socket.fileno())"
        box.run(keep)

        execution = box.run("print(socket.socket(fileno=kept).recv(1))\ntools.double(2)")

        assert (execution.stdout, execution.text) == ("b''\n", "4")

    def test_without_a_grant_there_are_no_tools(self) -> None:
        execution = self.sandbox().run("import tools")

        assert execution.error is not None
        assert (execution.error.type, execution.tool_calls) == ("ModuleNotFoundError", None)
