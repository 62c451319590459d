"""A sandbox as agent frameworks want one: commands with exit codes, in whatever thread and event loop they come.

The sandbox lives on the portal's loop, so that it outlives the event loops of single agent runs.
A command runs in the workdir and may leave processes running, such as a server that the next one talks to.
Who is cancelled while a command runs goes on once that command has ended; the sandbox and its files stay.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import posixpath
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from typing import Any, Final

from groundbox.errors import GuestFileError, InvalidArgument
from groundbox.execution import Execution, Outcome
from groundbox.limits import GiB, Limits, MiB
from groundbox.sandbox.bridge.tools import settled
from groundbox.sandbox.portal import Sandbox
from groundbox.sandbox.sandbox import AsyncSandbox

LIMITS: Final = Limits(
    wall_s=600.0,
    cpu_s=600.0,
    memory_bytes=2 * GiB,
    process_count=256,
    disk_bytes=1 * GiB,
    file_count=64 * 1024,
    output_bytes=1 * MiB,
)
"""What a sandbox for commands may use, when nothing else is asked for: builds and tests, not single programs."""
MOST_OUTPUT_BYTES: Final = 10 * MiB
_LONGEST_ARGUMENT_BYTES: Final = 100_000
_MOST_INTERRUPTS: Final = 4
_PATIENCE_S: Final = 1.0
_SIGNALLED: Final = 128


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Completed:
    """How one command ended.

    Attributes:
        exit_code: As a shell tells it: 128 and the signal's number for one that a signal ended.
        stdout: All that it wrote, at most `most_output_bytes`.
        cut: Whether it wrote more than that to either.
        timed_out: Why it was stopped, or empty.
        gone: Why the sandbox ended with it, or empty.
    """

    exit_code: int
    stdout: bytes
    stderr: bytes
    cut: bool
    timed_out: str
    gone: str

    @property
    def texts(self) -> tuple[str, str]:
        """stdout and stderr, with U+FFFD for what is not UTF-8."""
        return self.stdout.decode("utf-8", "replace"), self.stderr.decode("utf-8", "replace")


class Workplace:
    """One sandbox. All awaitables run on the portal's loop: PORTAL.call and PORTAL.wait_for bring them there."""

    def __init__(self, sandbox: Sandbox | None = None, **options: Any) -> None:
        """Args:
        sandbox: One to work in, which its owner closes; by default one is made of `options`, those of Sandbox.
        """
        if sandbox is not None and options:
            raise InvalidArgument(next(iter(options)), "belongs to a new sandbox, and one was given")
        options = {"limits": LIMITS, "profile": "bare", "inspect": False, **options}
        self.sandbox: AsyncSandbox = sandbox.asynchronous if sandbox is not None else AsyncSandbox(**options)
        self._owned = sandbox is None
        self._turn = asyncio.Lock()

    async def run(
        self,
        command: str | Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stdin: bytes | None = None,
        wall_s: float | None = None,
        most_output_bytes: int = MOST_OUTPUT_BYTES,
    ) -> Completed:
        """Run one command: a line for bash, or a program with arguments that nobody takes apart.

        A program that is not there is exit code 127, as from a shell.

        Args:
            cwd: Where to, from the workdir.
            wall_s: Stops it; at the latest, the sandbox's own limit does. What it wrote until then is kept.

        Raises:
            SandboxLost, SandboxClosed, SandboxUnavailable: There is no sandbox to run it in.
        """
        source, options = _program(command)
        folder = posixpath.join(await self.sandbox.guest_files.workdir(), cwd or "")
        async with self._turn:
            execution = await interruptible(
                self.sandbox,
                self.sandbox.run(
                    source,
                    language="shell",
                    stdin=stdin,
                    wall_s=wall_s,
                    cwd=folder,
                    env=env or {},
                    keep_processes=True,
                    **options,
                ),
            )
        return _completed(execution, most_output_bytes)

    async def close(self) -> None:
        """End the sandbox, unless it was given by somebody else."""
        if self._owned:
            await self.sandbox.close()


async def interruptible(
    sandbox: AsyncSandbox, run: Coroutine[Any, Any, Execution], *, patience_s: float = _PATIENCE_S
) -> Execution:
    """What comes of `run`. Who is cancelled meanwhile goes on once it has ended, and the sandbox lives on.

    An interrupt is lost on a run that only waits for its turn, so that there may be several. A program that heeds none
    is ended with its process.

    Args:
        patience_s: Seconds after each of the interrupts.
    """
    running = asyncio.ensure_future(run)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        for _ in range(_MOST_INTERRUPTS):
            await settled(sandbox.interrupt())  # a request, where the sandbox is on a server
            if (await asyncio.wait([running], timeout=patience_s))[0]:
                break
        running.cancel()
        await asyncio.wait([running])
        if not running.cancelled():
            running.exception()  # taken note of, because nobody asks any more
        raise


@contextlib.contextmanager
def builtin_file_errors(path: str) -> Iterator[None]:
    """What the guest's kernel refused, as the exception of Python that stands for it."""
    try:
        yield
    except GuestFileError as error:
        if error.errno is None:
            raise OSError(f"{path}: {error.reason}") from error
        raise OSError(error.errno, error.reason, path) from error


def _program(command: str | Sequence[str]) -> tuple[str, dict[str, Any]]:
    """A command too long for one argument is a script; it lies in the workdir while it runs."""
    if not isinstance(command, str):
        return 'exec -- "$@"', {"mode": "command", "argv": list(command)}
    if len(command.encode("utf-8", "surrogatepass")) <= _LONGEST_ARGUMENT_BYTES and "\0" not in command:
        return command if command.strip() else ":", {"mode": "command"}
    return command, {"mode": "script"}


def _completed(execution: Execution, most_bytes: int) -> Completed:
    stdout, stderr = (execution.outputs[name].read(0, most_bytes + 1) for name in ("stdout", "stderr"))
    why = execution.error.message if execution.error else ""
    code = execution.exit_code
    return Completed(
        exit_code=_SIGNALLED + (execution.exit_signal or 0) if code is None else code,
        stdout=stdout[:most_bytes],
        stderr=stderr[:most_bytes],
        cut=len(stdout) > most_bytes or len(stderr) > most_bytes,
        timed_out=why if execution.outcome is Outcome.TIMEOUT else "",
        gone=why if execution.state != "kept" else "",
    )
