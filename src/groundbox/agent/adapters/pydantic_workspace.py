"""A sandbox as a workspace of Pydantic AI: `Agent(..., workspace=...)`, and tools that run commands and edit files.

The first operation makes the sandbox. No run of an agent ends it: whoever holds the ref does, with
`GroundboxWorkspace.destroy(ref)`. A ref is good in this process, for as long as it lives.
"""

from __future__ import annotations

import asyncio
import contextlib
import posixpath
import uuid
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, TypeVar

from pydantic_ai.workspaces import (
    CommandResult,
    FileEntry,
    SupportsCommands,
    SupportsFilesystem,
    SupportsRealpath,
    WorkspaceBackend,
    WorkspaceCommand,
    WorkspaceOutputLimitError,
    WorkspaceRef,
    WorkspaceTimeoutError,
    WorkspaceUnavailableError,
)

from groundbox.agent.adapters.workplace import MOST_OUTPUT_BYTES, Completed, Workplace, builtin_file_errors
from groundbox.errors import GroundboxError
from groundbox.sandbox.guestfiles import AsyncGuestFiles, Entry
from groundbox.sandbox.portal import PORTAL, Sandbox

T = TypeVar("T")

PROVIDER: Final = "groundbox"


class GroundboxWorkspace(WorkspaceBackend, SupportsCommands, SupportsFilesystem, SupportsRealpath):
    """One sandbox, made at the first use or named by a ref."""

    _alive: ClassVar[dict[str, Workplace]] = {}

    def __init__(self, ref: WorkspaceRef | None = None, *, sandbox: Sandbox | None = None, **options: Any) -> None:
        """Args:
        ref: Of a sandbox that another workspace of this process made.
        sandbox: One to work in; it is its owner's.
        options: Of the sandbox to be made, as `groundbox.Sandbox` takes them.
        """
        if ref is not None and (sandbox is not None or options):
            raise ValueError("a ref names a sandbox that is there already; give either the ref or what to make")
        if ref is not None and ref.provider != PROVIDER:
            raise ValueError(f"the ref is one of {ref.provider!r}, not of {PROVIDER!r}")
        self._ref = ref
        self._made = None if ref is not None else Workplace(sandbox, **options)
        self._lock = asyncio.Lock()

    @classmethod
    async def destroy(cls, ref: WorkspaceRef) -> None:
        """End the sandbox that a ref names. One that is gone already is fine."""
        workplace = cls._alive.pop(ref.id, None)
        if workplace is not None:
            await PORTAL.wait_for(workplace.close())

    @property
    def ref(self) -> WorkspaceRef | None:
        """What names the sandbox, once there is one."""
        return self._ref

    async def working_dir(self) -> str:
        """Where commands start."""
        return await self._files(".", lambda files: files.workdir())

    async def run(
        self,
        command: WorkspaceCommand,
        *,
        shell: bool = False,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> CommandResult:
        """Run a command in the workdir."""
        if isinstance(command, str) != shell:
            raise TypeError("a text needs shell=True, and a list of arguments goes without it")
        with _unavailable():
            workplace = await PORTAL.wait_for(self._workplace())
            return _result(await PORTAL.wait_for(workplace.run(command, env=env, wall_s=timeout)))

    async def read_bytes(self, path: str) -> bytes:
        """The content of a file."""
        return await self._files(path, lambda files: files.read(path))

    async def write_bytes(self, path: str, data: bytes) -> None:
        """Write a file; folders above it are made, a link is written through."""
        await self._files(path, lambda files: files.write(path, data))

    async def stat(self, path: str) -> FileEntry:
        """What is at a path."""
        return _file_entry(path, await self._files(path, lambda files: files.stat(path)))

    async def list_dir(self, path: str) -> Sequence[FileEntry]:
        """What is in a folder."""
        found = await self._files(path, lambda files: files.list(path))
        if found.left_out:
            raise OSError(f"{path}: {len(found.entries)} entries were listed, and {found.left_out} more are too many")
        return [_file_entry(posixpath.join(path, entry.name), entry) for entry in found.entries]

    async def make_dir(self, path: str) -> None:
        """Make a folder, and those above it."""
        await self._files(path, lambda files: files.mkdir(path))

    async def remove(self, path: str) -> None:
        """Remove a file or a tree, but never the workdir."""
        await self._files(path, lambda files: files.remove(path))

    async def exists(self, path: str) -> bool:
        """Whether a path leads anywhere."""
        return await self._files(path, lambda files: files.exists(path))

    async def realpath(self, path: str) -> str:
        """Where a path leads, with every link followed."""
        return await self._files(path, lambda files: files.realpath(path))

    async def _files(self, path: str, work: Callable[[AsyncGuestFiles], Coroutine[Any, Any, T]]) -> T:
        with _unavailable(), builtin_file_errors(path):
            workplace = await PORTAL.wait_for(self._workplace())
            return await PORTAL.wait_for(work(workplace.sandbox.guest_files))

    async def _workplace(self) -> Workplace:
        """The one that the ref names, made if there is none yet. Awaited on the portal's loop, like its lock."""
        async with self._lock:
            if self._ref is None and self._made is not None:
                self._ref = WorkspaceRef(provider=PROVIDER, id=uuid.uuid4().hex)
                self._alive[self._ref.id] = self._made
                try:
                    await self._made.sandbox.worker()
                except GroundboxError:
                    del self._alive[self._ref.id]
                    self._ref = None
                    raise
        workplace = None if self._ref is None else self._alive.get(self._ref.id)
        if workplace is None:
            raise WorkspaceUnavailableError(
                f"there is no sandbox in this process for {self._ref}; make a new workspace"
            )
        return workplace


@contextlib.contextmanager
def _unavailable() -> Iterator[None]:
    try:
        yield
    except GroundboxError as error:
        if error.sandbox_usable:
            raise
        raise WorkspaceUnavailableError(str(error)) from error


def _result(done: Completed) -> CommandResult:
    stdout, stderr = done.texts
    if done.timed_out:
        raise WorkspaceTimeoutError(done.timed_out, stdout=stdout, stderr=stderr)
    if done.gone:
        raise WorkspaceUnavailableError(f"the sandbox ended with the command: {done.gone}")
    if done.cut:
        message = f"the command wrote more than {MOST_OUTPUT_BYTES} bytes; redirect its output to a file"
        raise WorkspaceOutputLimitError(message, limit=MOST_OUTPUT_BYTES, stdout=stdout, stderr=stderr)
    return CommandResult(exit_code=done.exit_code, stdout=stdout, stderr=stderr)


def _file_entry(path: str, entry: Entry) -> FileEntry:
    return FileEntry(
        name=posixpath.basename(path.rstrip("/")),
        path=path,
        is_dir=entry.kind == "folder",
        size=entry.size_bytes if entry.kind == "file" else None,
    )
