"""An environment of Harbor, which it imports as `groundbox.agent.adapters.harbor_environment:GroundboxEnvironment`.

Harbor's tasks expect an image, root, and folders at the root of the file system; a sandbox has none of these, and its
root is read-only. So what Harbor and a task's files call `/logs`, `/tests`, `/solution`, `/runtime` or the task's
workdir lies in folders that can be written, and these names are replaced where they stand as absolute paths: in
commands, and in text files as they are uploaded. Names that are put together while a program runs are not found.
What a task asks for that there is not is refused before it starts, unless an option says to do without it.
"""

from __future__ import annotations

import asyncio
import posixpath
import re
from pathlib import Path
from typing import Final

from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import EnvironmentCapabilities, EnvironmentResourceCapabilities
from harbor.environments.options import EnvironmentOptions
from harbor.models.task.config import NetworkMode
from harbor.models.trial.config import ResourceMode

from groundbox.agent.adapters.workplace import LIMITS, Workplace, builtin_file_errors
from groundbox.errors import GroundboxError
from groundbox.limits import Limits, MiB
from groundbox.network import Network
from groundbox.sandbox.portal import PORTAL

_USERS: Final = (None, "guest", "root", 0)
_ROOT: Final = "/tmp/root"
_FOLDERS: Final = ("/logs", "/tests", "/solution", "/runtime")
_OUTPUTS: Final = ("/logs/agent", "/logs/verifier", "/logs/artifacts")
_WORKDIR_LINE: Final = re.compile(r"^\s*WORKDIR\s+(/\S*)\s*$", re.MULTILINE | re.IGNORECASE)
_MOST_TEXT_BYTES: Final = 4 * MiB
_DEFINITIONS: Final = ("Dockerfile", "docker-compose.yaml")


class GroundboxOptions(EnvironmentOptions):
    """What a job may say: `--ek NAME=VALUE`.

    Attributes:
        environment: What Python imports from.
        ignore_images: Run tasks that name or build an image without it, on what this machine has.
        without_internet: Run tasks that may reach all of the internet without any.
        wall_s: The longest command.
    """

    environment: str = "default"
    ignore_images: bool = False
    without_internet: bool = False
    wall_s: float = 3600.0


class GroundboxEnvironment(BaseEnvironment):
    """One sandbox."""

    options_model = GroundboxOptions
    options: GroundboxOptions

    @staticmethod
    def type() -> str:
        """Its name in logs."""
        return "groundbox"

    @property
    def capabilities(self) -> EnvironmentCapabilities:
        """No internet, or hosts by name."""
        return EnvironmentCapabilities(disable_internet=True, network_allowlist=True, network_allowlist_hostnames=True)

    @classmethod
    def resource_capabilities(cls) -> EnvironmentResourceCapabilities:
        """Memory has a limit; processors are shared."""
        return EnvironmentResourceCapabilities(memory_limit=True, fractional_cpus=True)

    def _validate_definition(self) -> None:
        """Raises ValueError where a task asks for what there is not."""
        built = [name for name in _DEFINITIONS if (self.environment_dir / name).exists()]
        image = self.task_env_config.docker_image
        if (built or image) and not self.options.ignore_images:
            told = f"there are no images here, and the task has {image or built[0]}"
            raise ValueError(f"{told}; ignore_images=true runs it on what this machine has")
        if self._network_is_public and not self.options.without_internet:
            told = "there is no open internet here; without_internet=true runs the task without any"
            raise ValueError(f"{told}, and network_mode='allowlist' reaches hosts by name")

    async def start(self, force_build: bool) -> None:
        """Make the sandbox, with the folders that Harbor and the task expect."""
        limits = {name: getattr(LIMITS, name) for name in Limits.__slots__}
        limits |= {"wall_s": self.options.wall_s, "cpu_s": self.options.wall_s}
        if (memory_mb := self._resource_limit_value("memory", auto_mode=ResourceMode.LIMIT)) is not None:
            limits["memory_bytes"] = memory_mb * MiB
        if self._effective_storage_mb is not None:
            limits["disk_bytes"] = self._effective_storage_mb * MiB
        hosts = list(self.network_policy.allowed_hosts)
        network = Network(allow=hosts if self.network_policy.network_mode == NetworkMode.ALLOWLIST else [])
        self._workplace = Workplace(environment=self.options.environment, limits=Limits(**limits), network=network)
        self._workdir = await PORTAL.wait_for(self._workplace.sandbox.guest_files.workdir())
        self._names = {folder: f"{_ROOT}{folder}" for folder in _FOLDERS}
        if (workdir := self._task_workdir()) is not None:
            self._names.setdefault(workdir, self._workdir)
        names = "|".join(re.escape(name) for name in sorted(self._names, key=len, reverse=True))
        self._named = re.compile(rf"(?<![\w./~}}\])-])({names})(?![\w.-])")
        await self._made([*_FOLDERS, *_OUTPUTS])
        if self._enable_environment_dir_upload and self.environment_dir.is_dir():
            for path in await asyncio.to_thread(_files_in, self.environment_dir):
                if path.name not in _DEFINITIONS:
                    await self.upload_file(path, str(path.relative_to(self.environment_dir)))

    async def stop(self, delete: bool) -> None:
        """End the sandbox; nothing of it is kept, whatever `delete` says."""
        if hasattr(self, "_workplace"):
            await PORTAL.wait_for(self._workplace.close())

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        """Run a line of bash as the sandbox's only user, also where Harbor says root.

        Raises:
            RuntimeError: It took too long, or the sandbox is gone; nobody knows an exit code then.
        """
        user = self._resolve_user(user)
        if user not in _USERS:
            raise ValueError(f"there is one user, without rights; nothing can be run as {user!r}")
        work = self._workplace.run(
            self._replaced(command),
            env=self._merge_env(env),
            cwd=self._place(cwd or "."),
            wall_s=timeout_sec,
        )
        try:
            done = await PORTAL.wait_for(work)
        except GroundboxError as error:
            raise RuntimeError(f"The command could not be run: {error}") from error
        if done.timed_out or done.gone:
            why = f"Command timed out after {timeout_sec} seconds" if done.timed_out else "The sandbox ended"
            raise RuntimeError(f"{why}: {done.timed_out or done.gone}")
        stdout, stderr = done.texts
        if done.cut:
            stderr += "\n[groundbox: there was more output than is kept]"
        if (callback := self._output_callback()) is not None:
            await callback(stdout, "stdout")
            await callback(stderr, "stderr")
        return ExecResult(stdout=stdout, stderr=stderr, return_code=done.exit_code)

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        """Write a file of this machine into the sandbox, with its permissions and the names that it has there."""
        data, mode = await asyncio.to_thread(_read, Path(source_path))
        if len(data) <= _MOST_TEXT_BYTES and b"\0" not in data:
            try:
                data = self._replaced(data.decode()).encode()
            except UnicodeDecodeError:
                pass
        place = self._place(target_path)
        with builtin_file_errors(target_path):
            await PORTAL.wait_for(self._workplace.sandbox.guest_files.write(place, data, mode=mode))

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        """The same for all files of a folder."""
        source = Path(source_dir)
        await self._made([target_dir])
        for path in await asyncio.to_thread(_files_in, source):
            await self.upload_file(path, posixpath.join(target_dir, path.relative_to(source).as_posix()))

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        """Write a file of the sandbox to this machine."""
        place = self._place(source_path)
        with builtin_file_errors(source_path):
            data = await PORTAL.wait_for(self._workplace.sandbox.guest_files.read(place))
        await asyncio.to_thread(_write, Path(target_path), data)

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        """The same for all files of a folder. Whatever is neither file nor folder is left out, and logged."""
        files, target = self._workplace.sandbox.guest_files, Path(target_dir)
        root = self._place(source_dir)
        real_root = await PORTAL.wait_for(files.realpath(root))
        await asyncio.to_thread(target.mkdir, parents=True, exist_ok=True)
        waiting = [""]
        while waiting:
            folder = waiting.pop()
            with builtin_file_errors(folder or source_dir):
                listed = await PORTAL.wait_for(files.list(posixpath.join(root, folder)))
            if listed.left_out:
                raise OSError(f"{source_dir}/{folder} has {listed.left_out} entries more than are listed")
            for entry in listed.entries:
                name = posixpath.join(folder, entry.name)
                # links were followed: one that leads out of the folder, or around in it, is not taken along
                if await PORTAL.wait_for(files.realpath(posixpath.join(root, name))) != posixpath.join(real_root, name):
                    self.logger.warning("%r is a link, and not downloaded", name)
                elif entry.kind == "folder":
                    waiting.append(name)
                    await asyncio.to_thread((target / name).mkdir, exist_ok=True)
                elif entry.kind == "file":
                    await self.download_file(posixpath.join(root, name), target / name)
                else:
                    self.logger.warning("%r is a %s, and not downloaded", name, entry.kind)

    def _task_workdir(self) -> str | None:
        """Where the task thinks it works: its configuration says so, or the last such line of its Dockerfile."""
        if self.task_env_config.workdir:
            return str(self.task_env_config.workdir).rstrip("/") or None
        dockerfile = self.environment_dir / "Dockerfile"
        lines = _WORKDIR_LINE.findall(dockerfile.read_text(errors="replace")) if dockerfile.is_file() else []
        return lines[-1].rstrip("/") or None if lines else None

    def _replaced(self, text: str) -> str:
        return self._named.sub(lambda found: self._names[found[1]], text)

    def _place(self, path: str) -> str:
        """The absolute path in the sandbox of one that Harbor names."""
        return self._replaced(posixpath.join(self._workdir, path))

    async def _made(self, folders: list[str]) -> None:
        for folder in folders:
            with builtin_file_errors(folder):
                await PORTAL.wait_for(self._workplace.sandbox.guest_files.mkdir(self._place(folder)))


def _files_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _read(path: Path) -> tuple[bytes, int]:
    return path.read_bytes(), path.stat().st_mode & 0o777


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
