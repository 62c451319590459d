"""Files of a sandbox: put in by the guest's own hand, read out through the workdir's descriptor."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from groundbox.errors import GuestFileError, InvalidArgument
from groundbox.sandbox.memfile import close_beside, sealed_beside
from groundbox.sandbox.workdir import check_path, check_told_path

if TYPE_CHECKING:
    from groundbox.sandbox.sandbox import AsyncSandbox

MOST_BYTES: Final = 1024 * 1024 * 1024


class AsyncFiles:
    """The workdir of one sandbox. Paths are relative to it, with `/` between the parts."""

    def __init__(self, sandbox: AsyncSandbox) -> None:
        self._sandbox = sandbox

    async def write(self, path: str, data: bytes | str, *, mode: int = 0o644) -> None:
        """Put a file in; folders above it are made, a file that is there is replaced.

        Raises:
            InvalidArgument: The path leaves the workdir or names nothing.
            GuestFileError: It does not fit, or a folder stands in its place.
        """
        await self._write(path, data, mode=mode, locked=False)

    async def write_all(self, contents: Mapping[str, bytes | str]) -> None:
        """Put files in, by path. Takes time by their number, where `write` also looks at those that are there.

        Raises:
            InvalidArgument: A path leaves the workdir or names nothing.
            GuestFileError: One does not fit, or a folder stands in its place; those before it are there.
        """
        if not contents:
            return
        async with self._sandbox.lock:
            try:
                for path, data in contents.items():
                    await self._write(path, data, mode=0o644, locked=True)
            finally:
                await self._note()

    async def write_back(self, path: str, data: bytes) -> None:
        """`write`, for who holds the sandbox's lock, and tells the workdir of all such files together (`note`)."""
        await self._write(path, data, mode=0o644, locked=True)

    async def _write(self, path: str, data: bytes | str, *, mode: int, locked: bool) -> None:
        target = check_told_path("path", path)
        content = content_of(path, data)
        limit = self._sandbox.limits.disk_bytes
        if limit is not None and len(content) > limit:
            raise GuestFileError(path, f"{len(content)} bytes do not fit into disk_bytes={limit}")
        if len(content) > MOST_BYTES:
            problem = f"has {len(content)} bytes, more than the {MOST_BYTES} that are copied"
            raise GuestFileError(path, f"{problem}; show it by Sandbox(mounts=…)")
        descriptor = await sealed_beside(content)
        try:
            order = {"op": "put", "path": target, "size": len(content), "mode": mode}
            await self._order(path, order, descriptor, locked=locked)
        finally:
            close_beside(descriptor)

    async def put(self, source: str | os.PathLike[str], path: str | None = None) -> None:
        """Copy a host file, or a folder with all regular files in it, into the workdir.

        Args:
            path: Where to; by default under the source's own name.

        Raises:
            InvalidArgument: The source is not there or cannot be read.
        """
        source = Path(source)
        target = source.resolve().name if path is None else path
        if source.is_dir():
            await self.mkdir(target)
            for file in sorted(source.rglob("*")):
                if file.is_file() and not file.is_symlink():
                    await self.put(file, f"{target}/{file.relative_to(source).as_posix()}")
            return
        try:
            data = source.read_bytes()
            mode = 0o755 if os.access(source, os.X_OK) else 0o644
        except OSError as error:
            raise InvalidArgument("file", f"{source}: {error.strerror}") from None
        await self.write(target, data, mode=mode)

    async def mkdir(self, path: str) -> None:
        """Make a folder, and those above it."""
        await self._order(path, {"op": "mkdir", "path": check_told_path("path", path)}, None)

    async def remove(self, path: str) -> None:
        """Remove a file, or a folder with all in it."""
        await self._order(path, {"op": "remove", "path": check_told_path("path", path)}, None)

    async def read(self, path: str) -> bytes:
        """The bytes of one file.

        Raises:
            GuestFileError: It is not there, or no regular file.
        """
        path = check_path("path", path)
        worker = await self._sandbox.worker()
        assert worker.workdir is not None
        return await asyncio.to_thread(worker.workdir.read, path)

    async def list(self) -> dict[str, int]:
        """Every regular file in the workdir, path to size in bytes."""
        worker = await self._sandbox.worker()
        assert worker.workdir is not None
        listing = await asyncio.to_thread(worker.workdir.list)
        return {path: stamp.size_bytes for path, stamp in sorted(listing.files.items())}

    async def _order(
        self, path: str, order: dict[str, object], descriptor: int | None, *, locked: bool = False
    ) -> None:
        async with contextlib.nullcontext() if locked else self._sandbox.lock:
            worker = await self._sandbox.worker()
            done = await worker.order(order, [] if descriptor is None else [descriptor])
            if not done.ok:
                raise GuestFileError(path, done.reason)
            if not locked:
                await self._note()

    async def _note(self) -> None:
        """Have the workdir take what is in it now for what was put in. The sandbox's lock is held."""
        worker = await self._sandbox.worker()
        assert worker.workdir is not None
        await asyncio.to_thread(worker.workdir.note) if worker.workdir.is_crowded() else worker.workdir.note()


def content_of(path: str, data: object) -> bytes:
    """Return what a file shall contain.

    Raises:
        InvalidArgument: It is neither text nor bytes. A path, a number and a list of numbers would become bytes, too,
            and none that anybody means.
    """
    if isinstance(data, os.PathLike):
        raise InvalidArgument(path, "must be text or bytes, not a path; files.put(source) copies a file of the host")
    if isinstance(data, str):
        try:
            return data.encode()
        except UnicodeEncodeError:
            raise InvalidArgument(
                path, "holds half of a surrogate pair, which is no text; give bytes instead"
            ) from None
    if isinstance(data, memoryview) and data.readonly and data.format == "B" and data.ndim == 1:
        return cast(bytes, data)  # a large body of a request: as good as bytes, and a copy takes long
    if not isinstance(data, bytes | bytearray | memoryview):
        raise InvalidArgument(path, f"must be text or bytes, not of type {type(data).__name__}")
    return bytes(data)
