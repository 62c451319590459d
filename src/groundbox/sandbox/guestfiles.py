"""Every file that a guest's programs see, also outside the workdir, handled by the guest itself.

`AsyncFiles` reads the workdir behind the guest's back; here the guest answers, so that links are followed and
permissions hold as in its programs. What it says is a claim: it may say anything of files that are its own.
An order waits for the run that is going on. Only a look at the workdir does not, where no link is on the way.
"""

from __future__ import annotations

import asyncio
import os
import posixpath
import stat
import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple

import msgspec

from groundbox.errors import GuestFileError, InvalidArgument, WireError
from groundbox.sandbox.memfile import close_beside, sealed_beside
from groundbox.sandbox.workdir import MOST_BYTES

if TYPE_CHECKING:
    from groundbox.sandbox.sandbox import AsyncSandbox
    from groundbox.sandbox.wire import Done
    from groundbox.sandbox.worker import Worker

Kind = Literal["file", "folder", "link", "other"]


class Entry(NamedTuple):
    """What a path leads to.

    Attributes:
        kind: `link` for one that leads nowhere; others are followed.
        mode: Permission bits.
        modified_s: Since the epoch.
    """

    name: str
    kind: Kind
    size_bytes: int
    mode: int
    modified_s: float


class Entries(NamedTuple):
    """A folder's entries by name, and how many more there were than are told."""

    entries: list[Entry]
    left_out: int


class _Told(msgspec.Struct, frozen=True):
    name: str
    kind: Kind
    size_bytes: Annotated[int, msgspec.Meta(ge=0)]
    mode: Annotated[int, msgspec.Meta(ge=0, le=0o7777)]
    modified_s: float


class _Value(msgspec.Struct, frozen=True):
    entries: list[_Told] = []
    left_out: Annotated[int, msgspec.Meta(ge=0)] = 0
    path: str = ""
    errno: int | None = None


_KINDS: Final[Mapping[int, Kind]] = {stat.S_IFREG: "file", stat.S_IFDIR: "folder"}


class AsyncGuestFiles:
    """Files as the programs of one sandbox see them. Paths are absolute, or relative to the workdir.

    All methods raise GuestFileError, whose `errno` is the kernel's, where the guest cannot do what it is asked.
    """

    def __init__(self, sandbox: AsyncSandbox) -> None:
        self._sandbox = sandbox
        self._worker: weakref.ref[Worker] | None = None  # weak, because a worker that is over takes its files with it
        self._workdir = ""

    async def workdir(self) -> str:
        """The absolute path of the workdir."""
        worker = await self._sandbox.worker()
        if self._worker is None or self._worker() is not worker:
            self._workdir = await self.realpath(".")
            self._worker = weakref.ref(worker)
        return self._workdir

    async def read(self, path: str, *, most_bytes: int = MOST_BYTES) -> bytes:
        """The bytes of a regular file."""
        descriptor = os.memfd_create("groundbox-output", os.MFD_CLOEXEC)
        try:
            await self._order("get", path, [descriptor], most_bytes=most_bytes)
            size = min(os.fstat(descriptor).st_size, most_bytes)
            return await asyncio.to_thread(os.pread, descriptor, size, 0)
        finally:
            close_beside(descriptor)

    async def write(self, path: str, data: bytes | str, *, mode: int | None = None) -> None:
        """Put a file in; folders above it are made, one that is there is overwritten.

        Args:
            mode: Permission bits; None for those that it has, or 0o644 for a new one.
        """
        content = data.encode() if isinstance(data, str) else data
        descriptor = await sealed_beside(content)
        try:
            await self._order("put", path, [descriptor], size=len(content), mode=mode)
        finally:
            close_beside(descriptor)

    async def mkdir(self, path: str) -> None:
        """Make a folder, and those above it; one that is there is fine."""
        await self._order("mkdir", path)

    async def remove(self, path: str) -> None:
        """Remove a file, or a folder with all in it; of a link, the link.

        Raises:
            InvalidArgument: It is the workdir, or a folder that holds it.
        """
        root = await self.workdir()
        parent, name = posixpath.split(_checked(path).rstrip("/"))
        if name in ("", ".", ".."):
            resolved = await self.realpath(path)
        else:
            resolved = posixpath.join(await self.realpath(parent or "."), name)
        if (root + "/").startswith(resolved.rstrip("/") + "/"):
            raise InvalidArgument("path", f"{path!r} is the workdir or above it; remove what is in it instead")
        await self._order("remove", path)

    async def stat(self, path: str) -> Entry:
        """What a path leads to."""
        found = await self._look(path)
        if found is not None:
            return Entry(
                posixpath.basename(path),
                _KINDS.get(stat.S_IFMT(found.st_mode), "other"),
                found.st_size,
                stat.S_IMODE(found.st_mode),
                found.st_mtime,
            )
        told = (await self._order("stat", path)).entries
        if len(told) != 1:
            raise WireError("a guest told of a file without telling what it is")
        return _entry(told[0])

    async def exists(self, path: str) -> bool:
        """Whether a path leads anywhere."""
        try:
            await self.stat(path)
        except GuestFileError:
            return False
        return True

    async def list(self, path: str = ".") -> Entries:
        """What is in one folder, by name."""
        told = await self._order("scan", path)
        return Entries(sorted(map(_entry, told.entries)), told.left_out)

    async def realpath(self, path: str) -> str:
        """The absolute path that a path leads to; what is missing stays as it is written."""
        resolved = (await self._order("realpath", path)).path
        if not posixpath.isabs(resolved):
            raise WireError("a guest told of a path that is none")
        return posixpath.normpath(resolved)

    async def _look(self, path: str) -> os.stat_result | None:
        """The host's own answer, without waiting for a run; None where only the guest can tell."""
        root = await self.workdir()
        inside = posixpath.normpath(posixpath.relpath(posixpath.join(root, _checked(path)), root))
        workdir = (await self._sandbox.worker()).workdir
        if workdir is None or ".." in path.split("/") or inside.startswith(".."):
            return None
        return workdir.look("" if inside == "." else inside)

    async def _order(self, op: str, path: str, descriptors: Sequence[int] = (), **options: Any) -> _Value:
        order = {"op": op, "path": _checked(path), **options}
        async with self._sandbox.order_taker() as (worker, aide):
            done = await (worker if aide is None else aide).order(order, descriptors)
            # During a run, files that the run made would be noted, too, and then be missing among its artifacts.
            if op in ("put", "mkdir", "remove") and worker.workdir is not None and aide is None:
                await asyncio.to_thread(worker.workdir.note)
        value = _value(done)
        if not done.ok:
            raise GuestFileError(path, done.reason, value.errno)
        return value


def _checked(path: str) -> str:
    if not path or "\0" in path:
        raise InvalidArgument("path", f"{path!r} is empty or holds a NUL byte; no file can be named so")
    try:
        path.encode()
    except UnicodeEncodeError:
        raise InvalidArgument("path", f"{path!r} holds half of a surrogate pair, which is no text") from None
    return path


def _value(done: Done) -> _Value:
    try:
        return msgspec.convert(done.value.data if done.value else {}, _Value)
    except msgspec.ValidationError as error:
        raise WireError(f"a guest's answer does not fit the schema: {str(error)[:200]}") from None


def _entry(told: _Told) -> Entry:
    return Entry(told.name, told.kind, told.size_bytes, told.mode, told.modified_s)
