"""A code executor of AutoGen: `CodeExecutorAgent("runner", GroundboxCodeExecutor())`."""

from __future__ import annotations

import asyncio
from typing import Any

from autogen_core import CancellationToken
from autogen_core.code_executor import CodeBlock, CodeExecutor, CodeResult

from groundbox.agent.adapters.interpreter import LANGUAGES, Interpreter
from groundbox.agent.adapters.telling import told
from groundbox.errors import InvalidArgument, LanguageUnavailable
from groundbox.execution import Execution, Outcome
from groundbox.sandbox.portal import PORTAL, Sandbox

_NOT_RUN, _TIMED_OUT, _SIGNALLED = 1, 124, 128


class GroundboxCodeExecutor(CodeExecutor):
    """Runs the blocks of a message in one sandbox, up to the first that fails. Variables live on to the next one."""

    def __init__(self, *, sandbox: Sandbox | None = None, **options: Any) -> None:
        """Args:
        sandbox: One to work in, which its owner closes.
        options: Of the sandbox to be made, as `groundbox.Sandbox` takes them.
        """
        self._interpreter = Interpreter(sandbox, **options)

    async def execute_code_blocks(
        self, code_blocks: list[CodeBlock], cancellation_token: CancellationToken
    ) -> CodeResult:
        """The exit code of the last block that ran, and what all that ran have to tell."""
        outputs: list[str] = []
        code = 0
        for block in code_blocks:
            code, output = await self._one(block, cancellation_token)
            outputs.append(output)
            if code:
                break
        return CodeResult(exit_code=code, output="\n".join(outputs))

    async def _one(self, block: CodeBlock, token: CancellationToken) -> tuple[int, str]:
        running = asyncio.ensure_future(
            PORTAL.wait_for(self._interpreter.run(block.code, block.language.lower() or "python"))
        )
        token.link_future(running)
        try:
            execution = await running
        except InvalidArgument as error:
            known = f"; there is: {', '.join(LANGUAGES)}" if error.argument == "language" else ""
            return _NOT_RUN, f"Error: {error.argument}: {error.problem.partition(';')[0]}{known}"
        except LanguageUnavailable as error:
            return _NOT_RUN, f"Error: {error}"
        return _exit_code(execution), told(execution).text

    async def start(self) -> None:
        """Make the sandbox ready."""
        await PORTAL.wait_for(_ready(self._interpreter))

    async def stop(self) -> None:
        """End the sandbox, unless it was given."""
        await PORTAL.wait_for(self._interpreter.close())

    async def restart(self) -> None:
        """Begin with fresh variables; files are kept."""
        await PORTAL.wait_for(self._interpreter.sandbox.restart())


async def _ready(interpreter: Interpreter) -> None:
    await interpreter.sandbox.worker()


def _exit_code(execution: Execution) -> int:
    if execution.outcome is Outcome.TIMEOUT:
        return _TIMED_OUT
    if execution.exit_code is None:
        return _SIGNALLED + (execution.exit_signal or 0)
    return execution.exit_code
