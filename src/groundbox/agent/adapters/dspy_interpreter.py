"""A code interpreter of DSPy: `dspy.RLM(…, interpreter_factory=GroundboxInterpreter)`.

DSPy's tools, and those of its own that ask models, run on the host and are called from the sandbox.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

from dspy.primitives.code_interpreter import CodeExecutionError, CodeInterpreterError, FinalOutput

from groundbox.agent.adapters.hostcalls import HostCalls
from groundbox.agent.adapters.telling import told
from groundbox.agent.defusing import shown
from groundbox.errors import GroundboxError, InvalidArgument
from groundbox.execution import Execution
from groundbox.tools import ToolFailure

_SUBMIT = "SUBMIT"


class GroundboxInterpreter:
    """One session: a sandbox that keeps its variables until `shutdown`.

    Attributes:
        execution_instructions: What DSPy tells its models of it.
        output_fields: Those of the signature, which SUBMIT takes; without them it takes one value.
    """

    execution_instructions = (
        "Code runs as Python in a sandbox without a network, with pandas, numpy and others. Variables, imports and "
        "files persist for this session. Host tools and SUBMIT are global functions; they take and give JSON."
    )

    def __init__(
        self,
        tools: dict[str, Callable[..., Any]] | None = None,
        output_fields: list[dict[str, Any]] | None = None,
        **options: Any,
    ) -> None:
        """Args:
        tools: Functions of the host, by their names in the sandbox.
        options: Of the sandbox, as `groundbox.Sandbox` takes them, and `failures`, types of exceptions of tools
            whose messages code may read; of others it is told the type.
        """
        self._tools = dict(tools or {})
        self.output_fields = output_fields
        self._calls = HostCalls(declared=_by_dspy, **options)
        self._ended = ""

    @property
    def tools(self) -> dict[str, Callable[..., Any]]:
        """What code may call; changes hold from the next `execute`."""
        return self._tools

    def start(self) -> None:
        """Make the sandbox ready.

        Raises:
            CodeInterpreterError: It has ended, or cannot be made.
        """
        self._run("pass", {})

    def execute(self, code: str, variables: dict[str, Any] | None = None) -> Any:
        """Run code.

        Returns:
            What it submitted; or as a text what it printed and the value of its last expression; None for nothing.

        Raises:
            SyntaxError, CodeExecutionError: The code failed; the next one goes on in the same session.
            CodeInterpreterError: The session has ended.
        """
        execution = self._run(code, variables or {})
        if self._calls.answer is not None:
            return FinalOutput(self._calls.answer[0])
        if execution.ok:
            # DSPy takes it for the value, counts and cuts it, so that there are no marks around it.
            said = (execution.stdout.rstrip("\n"), execution.text or "")
            return shown("\n".join(part for part in said if part)) or None
        if execution.error is not None and execution.error.type == "SyntaxError":
            raise SyntaxError(told(execution).text)
        raise CodeExecutionError(told(execution).text)

    def shutdown(self) -> None:
        """End the session."""
        self._ended = self._ended or "it was shut down"
        self._calls.close()

    def _run(self, code: str, variables: dict[str, Any]) -> Execution:
        if self._ended:
            raise CodeInterpreterError(f"the session has ended: {self._ended}")
        if not code.strip():
            raise CodeExecutionError("there is no code")
        try:
            self._calls.grant(self._tools, ending={_SUBMIT: self._submit})
            self._calls.let(variables)
            execution = self._calls.run(code, again=False)
        except InvalidArgument as error:
            raise CodeInterpreterError(str(error)) from error
        except GroundboxError as error:
            self._ended = str(error)
            raise CodeInterpreterError(self._ended) from error
        if execution.state != "kept":
            self._ended = told(execution).text
            raise CodeInterpreterError(f"the session has ended: {self._ended}")
        return execution

    def _submit(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        names = ["output"] if self.output_fields is None else [str(field["name"]) for field in self.output_fields]
        values = {**dict(zip(names, args, strict=False)), **kwargs}
        if len(args) > len(names) or set(values) != set(names) or len(values) != len(args) + len(kwargs):
            raise ToolFailure(f"SUBMIT takes {', '.join(names)}")
        return values


def _by_dspy(error: Exception) -> bool:
    """Whether DSPy's own module for such sessions raised it, with a message for models: a bound, an empty prompt."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return bool(frames) and frames[-1].f_globals.get("__name__") == "dspy.predict.rlm"
