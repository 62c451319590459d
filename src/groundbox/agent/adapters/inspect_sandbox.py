"""A sandbox environment of Inspect: `sandbox="groundbox"` in a task, or `--sandbox groundbox`.

Inspect finds it by the entry point of this package. Each sample has a sandbox of its own, which ends with the sample.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from typing import Any, Final, Literal, cast, overload

from inspect_ai.util import (
    ExecResult,
    OutputLimitExceededError,
    SandboxEnvironment,
    SandboxEnvironmentConfigType,
    SandboxEnvironmentLimits,
    SandboxUnavailableError,
    SandboxUserUnsupportedError,
    sandboxenv,
)
from pydantic import BaseModel, ConfigDict

from groundbox.agent.adapters.workplace import LIMITS, Completed, Workplace, builtin_file_errors
from groundbox.errors import GroundboxError, InvalidArgument
from groundbox.limits import Limits
from groundbox.network import Network
from groundbox.sandbox.portal import PORTAL

_USER: Final = "guest"
_NOT_EXECUTABLE: Final = 126


class GroundboxConfig(BaseModel):
    """What a task may ask of its sandboxes: `SandboxEnvironmentSpec("groundbox", GroundboxConfig(…))`.

    Attributes:
        environment: What Python imports from.
        limits: Fields of `groundbox.Limits`, in place of those that sandboxes for commands have.
        allow_hosts: What can be reached; nothing by default.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    environment: str = "default"
    limits: dict[str, float | int | None] = {}
    allow_hosts: list[str] = []

    def __hash__(self) -> int:
        """Inspect groups samples by what they ask for."""
        return hash(self.model_dump_json())

    def options(self) -> dict[str, Any]:
        """As `groundbox.Sandbox` takes them."""
        fields = {name: getattr(LIMITS, name) for name in LIMITS.__slots__}
        try:
            limits = Limits(**{**fields, **self.limits})
        except TypeError:
            raise InvalidArgument(
                "limits", f"has none of these: {', '.join(sorted(self.limits.keys() - fields))}"
            ) from None
        network = Network(allow=self.allow_hosts)
        return {"environment": self.environment, "limits": limits, "network": network}


class CommandTimeout(TimeoutError):
    """A command was stopped; `stdout` and `stderr` are what it wrote until then."""

    def __init__(self, why: str, stdout: str, stderr: str) -> None:
        super().__init__(why)
        self.stdout, self.stderr = stdout, stderr


@sandboxenv(name="groundbox")
class GroundboxSandboxEnvironment(SandboxEnvironment):
    """One sandbox."""

    def __init__(self, workplace: Workplace | None = None) -> None:
        """Args:
        workplace: By default a new one.
        """
        super().__init__()
        self._workplace = Workplace() if workplace is None else workplace

    @classmethod
    async def sample_init(
        cls, task_name: str, config: SandboxEnvironmentConfigType | None, metadata: dict[str, str]
    ) -> dict[str, SandboxEnvironment]:
        """Make the sandbox of a sample."""
        if isinstance(config, str):
            raise InvalidArgument("sandbox", f"takes no file, as {config!r} is; give a GroundboxConfig")
        made = cls(Workplace(**cast(GroundboxConfig, config or GroundboxConfig()).options()))
        with _unavailable():
            await PORTAL.wait_for(made._workplace.sandbox.guest_files.workdir())
        return {"default": made}

    @classmethod
    async def sample_cleanup(
        cls,
        task_name: str,
        config: SandboxEnvironmentConfigType | None,
        environments: dict[str, SandboxEnvironment],
        interrupted: bool,
    ) -> None:
        """End the sandboxes of a sample."""
        for environment in environments.values():
            await PORTAL.wait_for(environment.as_type(cls)._workplace.close())

    @classmethod
    def config_deserialize(cls, config: dict[str, Any]) -> BaseModel:
        """The configuration, as a log keeps it."""
        return GroundboxConfig(**config)

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        """Run a program, and never a second time, whatever `timeout_retry` says: it may have done half its work."""
        if user not in (None, _USER):
            raise SandboxUserUnsupportedError(f"there is one user, {_USER!r}; nothing can be run as {user!r}")
        most = SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE
        stdin = input.encode() if isinstance(input, str) else input
        work = self._workplace.run(cmd, env=env, cwd=cwd, stdin=stdin, wall_s=timeout, most_output_bytes=most)
        with _unavailable():
            return _result(cmd, await PORTAL.wait_for(work))

    async def write_file(self, file: str, contents: str | bytes) -> None:
        """Write a file; folders above it are made."""
        with _unavailable(), builtin_file_errors(file):
            await PORTAL.wait_for(self._workplace.sandbox.guest_files.write(file, contents))

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...

    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...

    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        """The content of a file."""
        most = SandboxEnvironmentLimits.MAX_READ_FILE_SIZE
        try:
            with _unavailable(), builtin_file_errors(file):
                data = await PORTAL.wait_for(self._workplace.sandbox.guest_files.read(file, most_bytes=most))
        except OSError as error:
            if error.errno != errno.EFBIG:
                raise
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, None) from error
        return data.decode() if text else data

    def default_polling_interval(self) -> float:
        """Seconds between two looks at what a process of `exec_remote` has written: a look costs milliseconds."""
        return 0.2


@contextlib.contextmanager
def _unavailable() -> Iterator[None]:
    try:
        yield
    except GroundboxError as error:
        if error.sandbox_usable:
            raise
        raise SandboxUnavailableError(str(error)) from error


def _result(cmd: list[str], done: Completed) -> ExecResult[str]:
    stdout, stderr = done.texts
    if done.timed_out:
        raise CommandTimeout(done.timed_out, stdout, stderr)
    if done.gone:
        raise SandboxUnavailableError(f"the sandbox ended with the command: {done.gone}")
    if done.cut:
        raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE_STR, stdout)
    if done.exit_code == _NOT_EXECUTABLE and os.strerror(errno.EACCES) in stderr:
        raise PermissionError(errno.EACCES, stderr.strip(), cmd[0])
    return ExecResult(done.exit_code == 0, done.exit_code, stdout, stderr)
