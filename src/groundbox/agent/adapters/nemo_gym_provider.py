"""A sandbox provider of NeMo Gym: `groundbox` in a sandbox's configuration.

NeMo Gym finds it by the entry point of this package. Sandboxes are of this machine, and need no server and no image.
A command that could not be carried out has an `error_type`, so that nobody scores it as a failure of the program.
"""

from __future__ import annotations

import asyncio
import logging
import posixpath
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from nemo_gym.sandbox.providers.base import (
    SandboxCreateError,
    SandboxExecResult,
    SandboxHandle,
    SandboxSpec,
    SandboxStatus,
)

from groundbox.agent.adapters.workplace import LIMITS, Workplace, builtin_file_errors
from groundbox.errors import GroundboxError, InvalidArgument, SandboxClosed, SandboxLost
from groundbox.limits import GiB, Limits, MiB
from groundbox.network import Network
from groundbox.sandbox.portal import PORTAL

logger = logging.getLogger(__name__)

_USER: Final = "guest"
_NO_EXIT_CODE: Final = 125
"""Told by NeMo Gym's own providers where the sandbox, and not the command, says how it ended."""


class _Box:
    """A sandbox, with what its spec says of every command."""

    def __init__(self, workplace: Workplace, env: Mapping[str, str]) -> None:
        self.workplace, self.env = workplace, env
        self.ends: asyncio.TimerHandle | None = None
        self.stopped = False

    async def close(self) -> None:
        """End it; on the portal's loop."""
        self.stopped = True
        if self.ends is not None:
            self.ends.cancel()
        await self.workplace.close()


class GroundboxProvider:
    """Makes sandboxes and runs commands in them."""

    name = "groundbox"

    def __init__(
        self,
        *,
        environment: str = "default",
        limits: Mapping[str, Any] | None = None,
        allow_hosts: Sequence[str] = (),
        ignore_images: bool = False,
    ) -> None:
        """Args:
        environment: What Python imports from.
        limits: Fields of `groundbox.Limits`, in place of those that sandboxes for commands have. What a spec asks for
            comes before them.
        allow_hosts: What can be reached; nothing by default.
        ignore_images: Run tasks that name an image without it, on what this machine has.
        """
        self._environment, self._ignores_images = environment, ignore_images
        self._network = Network(allow=list(allow_hosts))
        self._limits = _limits(limits or {})
        self._boxes: dict[str, _Box] = {}

    async def create(self, spec: SandboxSpec) -> SandboxHandle:
        """Make a sandbox that is ready.

        Raises:
            SandboxCreateError: There is none, or the spec asks for what there is not.
        """
        self._check(spec)
        box = _Box(Workplace(**self._options(spec)), dict(spec.env))
        try:
            async with asyncio.timeout(spec.ready_timeout_s):
                await PORTAL.wait_for(_begun(box, spec))
        except BaseException as error:
            await PORTAL.wait_for(box.close())
            if isinstance(error, TimeoutError | GroundboxError):
                raise SandboxCreateError(f"no sandbox could be made: {str(error) or 'it took too long'}") from error
            raise
        identity = f"groundbox-{uuid.uuid4().hex}"
        self._boxes[identity] = box
        return SandboxHandle(sandbox_id=identity, provider_name=self.name, raw=box)

    async def exec(
        self,
        handle: SandboxHandle,
        command: str,
        *,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_s: int | float | None = None,
        user: str | int | None = None,
    ) -> SandboxExecResult:
        """Run a line of bash, and never a second time. Whoever is cancelled meanwhile stops it."""
        if user not in (None, _USER):
            raise ValueError(f"there is one user, {_USER!r}, without rights; nothing can be run as {user!r}")
        box: _Box = handle.raw
        work = box.workplace.run(command, env={**box.env, **(env or {})}, cwd=cwd, wall_s=timeout_s)
        try:
            done = await PORTAL.wait_for(work)
        except InvalidArgument as error:
            raise ValueError(str(error)) from error
        except GroundboxError as error:
            return SandboxExecResult(None, str(error), _NO_EXIT_CODE, "sandbox")
        stdout, stderr = done.texts
        if done.cut:
            stderr += "\n[groundbox: there was more output than is kept]"
        if done.timed_out:
            return SandboxExecResult(stdout, f"{stderr}\n[groundbox: {done.timed_out}]", _NO_EXIT_CODE, "timeout")
        if done.gone:
            return SandboxExecResult(stdout, f"{stderr}\n[groundbox: {done.gone}]", _NO_EXIT_CODE, "sandbox")
        return SandboxExecResult(stdout, stderr, done.exit_code)

    async def upload_file(self, handle: SandboxHandle, source_path: Path, target_path: str) -> None:
        """Write a file of this machine into the sandbox, with its permissions; folders above it are made."""
        data, mode = await asyncio.to_thread(_read, source_path)
        box: _Box = handle.raw
        with builtin_file_errors(target_path):
            await PORTAL.wait_for(box.workplace.sandbox.guest_files.write(target_path, data, mode=mode))

    async def download_file(self, handle: SandboxHandle, source_path: str, target_path: Path) -> None:
        """Write a file of the sandbox to this machine."""
        box: _Box = handle.raw
        with builtin_file_errors(source_path):
            data = await PORTAL.wait_for(box.workplace.sandbox.guest_files.read(source_path))
        await asyncio.to_thread(_write, Path(target_path), data)

    async def status(self, handle: SandboxHandle) -> SandboxStatus:
        """Ask it; a sandbox whose process has ended does not come back."""
        box: _Box = handle.raw
        if box.stopped:
            return SandboxStatus.STOPPED
        try:
            await PORTAL.wait_for(box.workplace.sandbox.guest_files.workdir())
        except (SandboxLost, SandboxClosed):
            return SandboxStatus.STOPPED
        except GroundboxError:
            return SandboxStatus.ERROR
        return SandboxStatus.RUNNING

    async def close(self, handle: SandboxHandle) -> None:
        """End a sandbox; more than once is no error."""
        self._boxes.pop(handle.sandbox_id, None)
        await PORTAL.wait_for(handle.raw.close())

    async def aclose(self) -> None:
        """End all that are left."""
        boxes, self._boxes = list(self._boxes.values()), {}
        for box in boxes:
            await PORTAL.wait_for(box.close())

    def _check(self, spec: SandboxSpec) -> None:
        """Raises SandboxCreateError where a spec asks for what would silently be missing."""
        if spec.image is not None and not self._ignores_images:
            raise SandboxCreateError(
                f"there are no images here, and the task names {spec.image}; "
                "the provider's ignore_images runs it on what this machine has"
            )
        resources: Any = spec.resources
        for name, asked in (("ports", spec.ports), ("entrypoint", spec.entrypoint), ("resources.gpu", resources.gpu)):
            if asked:
                raise SandboxCreateError(f"{name}: there is no such thing in these sandboxes")
        if spec.provider_options:
            raise SandboxCreateError(f"provider_options: there is no {min(spec.provider_options)}")
        if resources.cpu is not None:
            logger.warning("resources.cpu=%g is not applied: processors are shared", resources.cpu)

    def _options(self, spec: SandboxSpec) -> dict[str, Any]:
        resources: Any = spec.resources
        asked = {name: getattr(self._limits, name) for name in Limits.__slots__}
        if resources.memory_mib is not None:
            asked["memory_bytes"] = resources.memory_mib * MiB
        if resources.disk_gib is not None:
            asked["disk_bytes"] = resources.disk_gib * GiB
        return {"environment": self._environment, "network": self._network, "limits": Limits(**asked)}


async def _begun(box: _Box, spec: SandboxSpec) -> None:
    """Have the sandbox, its folder, and the end of its time; on the portal's loop."""
    files = box.workplace.sandbox.guest_files
    workdir = await files.workdir()
    if spec.workdir is not None:
        await files.mkdir(posixpath.join(workdir, spec.workdir))
    if spec.ttl_s is not None:
        loop = asyncio.get_running_loop()
        box.ends = loop.call_later(spec.ttl_s, lambda: loop.create_task(box.close()))


def _limits(chosen: Mapping[str, Any]) -> Limits:
    fields = {name: getattr(LIMITS, name) for name in Limits.__slots__}
    unknown = chosen.keys() - fields.keys()
    if unknown:
        raise InvalidArgument("limits", f"has none of these: {', '.join(sorted(unknown))}")
    return Limits(**{**fields, **chosen})


def _read(path: Path) -> tuple[bytes, int]:
    return path.read_bytes(), path.stat().st_mode & 0o777


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
