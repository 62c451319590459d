"""An executor of smolagents: `CodeAgent(tools=…, model=…, executor=GroundboxExecutor())`.

The agent's tools and managed agents run on the host and are called from the sandbox; no source of theirs goes there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Final

from smolagents.local_python_executor import CodeOutput, InterpreterError, PythonExecutor

from groundbox.agent.adapters.hostcalls import HostCalls
from groundbox.agent.adapters.telling import told, told_part
from groundbox.errors import InvalidArgument

_FINAL: Final = "final_answer"


class GroundboxExecutor(PythonExecutor):
    """One sandbox for one agent; ended by the agent's `cleanup`.

    Attributes:
        state: `_print_outputs` is what the last program printed, where smolagents looks for it after a failure.
    """

    def __init__(self, **options: Any) -> None:
        """Args:
        options: Of the sandbox, as `groundbox.Sandbox` takes them, and `failures`, types of exceptions of tools
            whose messages programs may read; of others they are told the type.
        """
        self._calls = HostCalls(**options)
        self.state: dict[str, Any] = {}

    def send_tools(self, tools: dict[str, Callable[..., Any]]) -> None:
        """Let programs call the agent's tools and managed agents, on the host."""
        others = {name: tool for name, tool in tools.items() if name != _FINAL}
        ending = {_FINAL: tools[_FINAL]} if _FINAL in tools else {}
        self._calls.grant(others, ending=ending)

    def send_variables(self, variables: dict[str, Any]) -> None:
        """Give plain data to the next program."""
        self._calls.let(variables)

    def __call__(self, code_action: str) -> CodeOutput:
        """Run one program of the agent's.

        Raises:
            InterpreterError: It failed; the message is for the model.
        """
        self.state["_print_outputs"] = ""
        try:
            execution = self._calls.run(code_action, again=True)
        except InvalidArgument as error:
            raise InterpreterError(str(error)) from error
        logs = self.state["_print_outputs"] = told_part("stdout", execution.stdout)
        if self._calls.answer is not None:
            return CodeOutput(output=self._calls.answer[0], logs=logs, is_final_answer=True)
        if not execution.ok:
            # What was printed is told by `state`.
            raise InterpreterError(told(dataclasses.replace(execution, stdout="")).text)
        value = None if execution.text is None else told_part("value", execution.text)
        return CodeOutput(output=value, logs=logs, is_final_answer=False)

    def cleanup(self) -> None:
        """End the sandbox."""
        self._calls.close()
