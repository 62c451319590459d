"""Files: sent and fetched whole, and the calls of `filesystem.Filesystem`, on all that the sandbox's programs see.

Paths are absolute, below `~`, or relative to the home folder, which is the workdir; `/home/user` means it, too. There
is one user in a sandbox, whatever name a client gives. An order on files waits for the program that runs.
"""

from __future__ import annotations

import asyncio
import datetime
import errno
import posixpath
import secrets
import stat
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Final, TypeVar
from urllib.parse import unquote

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from groundbox.errors import GuestFileError, InvalidArgument, SandboxLost
from groundbox.sandbox.guestfiles import Entry
from groundbox.sandbox.sandbox import AsyncSandbox
from groundbox.server import bodies, forms
from groundbox.server.api import download
from groundbox.server.refusals import Refused
from groundbox.server.replies import json_reply
from groundbox.server.sandboxes import Held, Sandboxes
from groundbox.server.schemas import Path, Word, read
from groundbox.server.service import Service
from groundbox.server.wires.e2b.access import HOME, DataRoute, State, asked_for, path_of
from groundbox.server.wires.e2b.connectrpc import RpcError, only_message, streaming, unary

T = TypeVar("T")

_MOST_FILES: Final = 1000
_MOST_ENTRIES: Final = 10_000
_MOST_WATCHERS: Final = 16
_MOST_EVENTS: Final = 10_000
_LOOK_S: Final = 0.5
_SEEN_BYTES: Final = 512
_USER: Final = "guest"
_TYPES: Final = {"file": "FILE_TYPE_FILE", "folder": "FILE_TYPE_DIRECTORY", "link": "FILE_TYPE_SYMLINK"}
_MODES: Final = {"file": stat.S_IFREG, "folder": stat.S_IFDIR, "link": stat.S_IFLNK}
_CODES: Final = {
    errno.ENOENT: "not_found",
    errno.EEXIST: "already_exists",
    errno.EACCES: "permission_denied",
    errno.EPERM: "permission_denied",
    errno.EROFS: "permission_denied",
    errno.ENOSPC: "resource_exhausted",
}
_STATUS: Final = {"not_found": 404, "permission_denied": 403, "resource_exhausted": 507}


class _PathAsked(msgspec.Struct, kw_only=True):
    path: Path = ""
    depth: int = 1
    recursive: bool = False


class _MoveAsked(msgspec.Struct, kw_only=True):
    source: Path
    destination: Path


class _WatcherAsked(msgspec.Struct, kw_only=True):
    watcherId: Word


class Watcher:
    """A folder that is looked at again and again; what has changed between two looks is told."""

    def __init__(self, sandboxes: Sandboxes, path: str, *, recursive: bool) -> None:
        self.path, self.recursive = path, recursive
        self.size_bytes = 0
        self._sandboxes = sandboxes
        self._seen: dict[str, Entry] | None = None

    async def news(self, held: Held, state: State) -> list[dict[str, Any]]:
        """Events since the last look. A file that is renamed is removed and created."""
        entries = await _entries(held, state, self.path, depth=_MOST_ENTRIES if self.recursive else 1)
        found = {posixpath.relpath(path, self.path): entry for path, entry in entries}
        size_bytes = sum(_SEEN_BYTES + 2 * sys.getsizeof(path) for path in found)
        if size_bytes > self.size_bytes:
            self._sandboxes.keep(held, size_bytes - self.size_bytes, "watcher")
        else:
            self._sandboxes.forget(held, self.size_bytes - size_bytes)
        self.size_bytes = size_bytes
        before, self._seen = self._seen, found
        if before is None:
            return []
        kinds = {
            "EVENT_TYPE_CREATE": [name for name in found if name not in before],
            "EVENT_TYPE_REMOVE": [name for name in before if name not in found],
            "EVENT_TYPE_WRITE": [name for name in found if _written(before.get(name), found[name])],
            "EVENT_TYPE_CHMOD": [name for name in found if name in before and before[name].mode != found[name].mode],
        }
        return [{"name": name, "type": kind} for kind, names in kinds.items() for name in names][:_MOST_EVENTS]


class Files:
    """The routes of files."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def routes(self) -> list[Route]:
        """All of them."""
        rpc = "/filesystem.Filesystem"
        table: list[tuple[str, str, Any]] = [
            ("GET", "/health", self.health),
            ("GET", "/files", self.read),
            ("POST", "/files", self.write),
            ("POST", f"{rpc}/Stat", unary(self.stat)),
            ("POST", f"{rpc}/ListDir", unary(self.list)),
            ("POST", f"{rpc}/MakeDir", unary(self.make)),
            ("POST", f"{rpc}/Move", unary(self.move)),
            ("POST", f"{rpc}/Remove", unary(self.remove)),
            ("POST", f"{rpc}/WatchDir", streaming(self.watch, keepalive={"keepalive": {}})),
            ("POST", f"{rpc}/CreateWatcher", unary(self.make_watcher)),
            ("POST", f"{rpc}/GetWatcherEvents", unary(self.events)),
            ("POST", f"{rpc}/RemoveWatcher", unary(self.remove_watcher)),
        ]
        return [DataRoute(path, endpoint, methods=[method]) for method, path, endpoint in table]

    async def health(self, request: Request) -> Response:
        """`GET /health`: the sandbox lives."""
        asked_for(self._service, request)
        return Response(status_code=204)

    async def read(self, request: Request) -> Response:
        """`GET /files?path=`"""
        _, held, state = asked_for(self._service, request)

        async def work() -> Response:
            path = await self._path(held, state, path_of(request))
            entry = await held.box.guest_files.stat(path)
            if entry.kind != "file":
                raise RpcError("invalid_argument", f"path {path!r} is a directory, or no regular file")
            return download(await held.box.guest_files.read(path))

        return await self._as_http(held, state, work)

    async def write(self, request: Request) -> Response:
        """`POST /files`: a form of files, or the bytes of one."""
        _, held, state = asked_for(self._service, request)
        given = path_of(request)
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        files: list[tuple[str, bytes]] = []
        if kind == "multipart/form-data":
            files = await _read_form(request, given)
        else:
            files.append((given, await bodies.read_unpacked(request, self._service.settings.body_bytes)))
        if not files:
            raise Refused(400, "invalid_argument", "the form has no part `file`")

        async def work() -> Response:
            told = []
            for name, data in files:
                path = await self._path(held, state, name)
                await held.box.guest_files.write(path, data)
                told.append({"name": posixpath.basename(path), "type": "file", "path": path})
            return json_reply(told)

        return await self._as_http(held, state, work)

    async def stat(self, request: Request) -> Any:
        """`Stat`"""
        asked = await read(request, _PathAsked)
        return await self._on_path(request, asked.path, self._entry)

    async def list(self, request: Request) -> Any:
        """`ListDir`"""
        asked = await read(request, _PathAsked)

        async def work(held: Held, state: State, path: str) -> Any:
            if (await held.box.guest_files.stat(path)).kind != "folder":
                raise RpcError("invalid_argument", f"path {path!r} is not a directory")
            found = await _entries(held, state, path, depth=max(1, asked.depth))
            return {"entries": [_told(each, entry) for each, entry in found]}

        return await self._on_path(request, asked.path, work)

    async def make(self, request: Request) -> Any:
        """`MakeDir`"""
        asked = await read(request, _PathAsked)

        async def work(held: Held, state: State, path: str) -> Any:
            files = held.box.guest_files
            try:
                kind = (await files.stat(path)).kind
            except GuestFileError:
                await files.mkdir(path)
                return await self._entry(held, state, path)
            if kind == "folder":
                raise RpcError("already_exists", f"directory already exists: {path!r}")
            raise RpcError("invalid_argument", f"path {path!r} already exists but it is not a directory")

        return await self._on_path(request, asked.path, work)

    async def move(self, request: Request) -> Any:
        """`Move`: by mv(1), which the sandbox has, because no order on files moves one."""
        asked = await read(request, _MoveAsked)

        async def work(held: Held, state: State, path: str) -> Any:
            await held.box.guest_files.stat(path)
            target = await self._path(held, state, asked.destination)
            await held.box.guest_files.mkdir(posixpath.dirname(target))
            await _run(held.box, ["mv", "-T", "-f", "--", path, target])
            return await self._entry(held, state, target)

        return await self._on_path(request, asked.source, work)

    async def remove(self, request: Request) -> Any:
        """`Remove`"""
        asked = await read(request, _PathAsked)

        async def work(held: Held, state: State, path: str) -> Any:
            try:
                await held.box.guest_files.remove(path)
            except GuestFileError as error:
                if error.errno != errno.ENOENT:
                    raise
            return {}

        return await self._on_path(request, asked.path, work)

    async def watch(self, request: Request) -> AsyncGenerator[Any, None]:
        """`WatchDir`"""
        asked = await only_message(request, _PathAsked)

        async def work(held: Held, state: State, path: str) -> AsyncGenerator[Any, None]:
            watcher_id, watcher = await self._watcher(held, state, path, recursive=asked.recursive)

            async def events() -> AsyncGenerator[Any, None]:
                try:
                    yield {"start": {}}
                    while not held.closed:
                        await asyncio.sleep(_LOOK_S)
                        for event in (await self._guarded(held, state, lambda: _news(watcher, held, state)))["events"]:
                            yield {"filesystem": event}
                finally:
                    self._forget(held, state, watcher_id)

            return events()

        stream: AsyncGenerator[Any, None] = await self._on_path(request, asked.path, work)
        return stream

    async def make_watcher(self, request: Request) -> Any:
        """`CreateWatcher`"""
        asked = await read(request, _PathAsked)

        async def work(held: Held, state: State, path: str) -> Any:
            watcher_id, _ = await self._watcher(held, state, path, recursive=asked.recursive)
            return {"watcherId": watcher_id}

        return await self._on_path(request, asked.path, work)

    async def events(self, request: Request) -> Any:
        """`GetWatcherEvents`"""
        asked = await read(request, _WatcherAsked)
        _, held, state = asked_for(self._service, request)
        watcher = state.watchers.get(asked.watcherId)
        if watcher is None:
            raise RpcError("not_found", f"watcher {asked.watcherId[:64]!r} was not found")
        return await self._guarded(held, state, lambda: _news(watcher, held, state))

    async def remove_watcher(self, request: Request) -> Any:
        """`RemoveWatcher`"""
        asked = await read(request, _WatcherAsked)
        _, held, state = asked_for(self._service, request)
        self._forget(held, state, asked.watcherId)
        return {}

    async def _watcher(self, held: Held, state: State, path: str, *, recursive: bool) -> tuple[str, Watcher]:
        """Make a watcher and its id, by which the sandbox has it until somebody removes it."""
        if len(state.watchers) >= _MOST_WATCHERS:
            raise RpcError("resource_exhausted", f"a sandbox has at most {_MOST_WATCHERS} watchers")
        if (await held.box.guest_files.stat(path)).kind != "folder":
            raise RpcError("invalid_argument", f"path {path!r} is not a directory")
        watcher = Watcher(self._service.sandboxes, path, recursive=recursive)
        await watcher.news(held, state)
        watcher_id = secrets.token_hex(16)
        state.watchers[watcher_id] = watcher
        return watcher_id, watcher

    def _forget(self, held: Held, state: State, watcher_id: str) -> None:
        if (watcher := state.watchers.pop(watcher_id, None)) is not None:
            self._service.sandboxes.forget(held, watcher.size_bytes)

    async def _entry(self, held: Held, state: State, path: str) -> Any:
        files = held.box.guest_files
        told = _told(path, await files.stat(path))
        target = await files.realpath(path)
        folder, name = posixpath.split(path)
        if name and target != posixpath.join(await files.realpath(folder), name):
            told |= {"isSymlink": True, "symlinkTarget": await self._path(held, state, target)}
        return {"entry": told}

    async def _path(self, held: Held, state: State, path: str) -> str:
        """A path as guests have it and as it is told: below the home folder where it lies there."""
        return await resolved(held, state, path)

    async def _on_path(self, request: Request, path: str, work: Callable[[Held, State, str], Awaitable[T]]) -> T:
        _, held, state = asked_for(self._service, request)

        async def on_path() -> T:
            return await work(held, state, await self._path(held, state, path))

        return await self._guarded(held, state, on_path)

    async def _guarded(self, held: Held, state: State, work: Callable[[], Awaitable[T]]) -> T:
        """The result of work on files, whose failures are told in the words of the protocol."""
        with self._service.errors(), held.in_use():
            try:
                try:
                    return await work()
                except SandboxLost as lost:
                    state.notes.append(f"the sandbox began afresh, because its process was gone ({lost})")
                    await held.box.restart()
                    return await work()
            except GuestFileError as error:
                raise RpcError(_CODES.get(error.errno or 0, "invalid_argument"), str(error)) from None
            except InvalidArgument as error:
                raise RpcError("invalid_argument", str(error)) from None

    async def _as_http(self, held: Held, state: State, work: Callable[[], Awaitable[Response]]) -> Response:
        try:
            return await self._guarded(held, state, work)
        except RpcError as error:
            raise Refused(_STATUS.get(error.code, 400), error.code, error.message) from None


async def _read_form(request: Request, path: str) -> list[tuple[str, bytes]]:
    """Return the parts `file` of a form, each with its path: `path`, or the part's own file name.

    A part without a file name, as browsers and Node send a string, is a file if the address has a path.

    Raises:
        Refused: 400 if the form cannot be read, or if nothing names the path of a part. Nothing was written.
    """
    files = []
    for part in await forms.read_form(request, wanted=("file",), most_parts=_MOST_FILES):
        own = (part.raw_file_name or b"").decode("utf-8", "surrogateescape")
        if not path and not own:
            told = "a part `file` needs a file name, or the address a `path`; nothing was written"
            raise Refused(400, "invalid_argument", told)
        files.append((path or unquote(own), part.data))
    return files


async def resolved(held: Held, state: State, path: str) -> str:
    """An absolute path of what a client names. Below the home folder it begins as clients expect.

    Raises:
        InvalidArgument: It is empty.
    """
    files = held.box.guest_files
    workdir = await files.workdir()
    if not state.home:
        state.home = HOME if await files.realpath(HOME) == workdir else workdir
    if not path:
        raise InvalidArgument("path", "is needed")
    if path == "~" or path.startswith("~/"):
        path = state.home + path[1:]
    whole = posixpath.normpath(posixpath.join(state.home, path))
    for folder in (HOME, workdir):
        if (whole + "/").startswith(folder + "/"):
            return state.home + whole[len(folder) :]
    return whole


async def _entries(held: Held, state: State, path: str, *, depth: int) -> list[tuple[str, Entry]]:
    """What is below a folder, down to `depth` folders, each folder before what is in it."""
    found: list[tuple[str, Entry]] = []
    listed = await held.box.guest_files.list(path)
    if listed.left_out or len(listed.entries) > _MOST_ENTRIES:
        raise RpcError("resource_exhausted", f"{path!r} has too many entries to be listed")
    for entry in listed.entries:
        each = posixpath.join(path, entry.name)
        found.append((each, entry))
        if entry.kind == "folder" and depth > 1:
            found += await _entries(held, state, each, depth=depth - 1)
        if len(found) > _MOST_ENTRIES:
            raise RpcError("resource_exhausted", f"more than {_MOST_ENTRIES} entries are below {path!r}")
    return found


def _told(path: str, entry: Entry) -> dict[str, Any]:
    """An entry as the protocol has it: of a link, what it leads to."""
    modified = datetime.datetime.fromtimestamp(entry.modified_s, datetime.UTC)
    return {
        "name": posixpath.basename(path),
        "type": _TYPES.get(entry.kind, "FILE_TYPE_UNSPECIFIED"),
        "path": path,
        "size": str(entry.size_bytes),
        "mode": entry.mode,
        "permissions": stat.filemode(_MODES.get(entry.kind, 0) | entry.mode),
        "owner": _USER,
        "group": _USER,
        "modifiedTime": modified.isoformat().replace("+00:00", "Z"),
    }


async def _news(watcher: Watcher, held: Held, state: State) -> Any:
    return {"events": await watcher.news(held, state)}


def _written(before: Entry | None, now: Entry) -> bool:
    if before is None:
        return now.kind == "file" and now.size_bytes > 0
    return now.kind == "file" and (before.size_bytes, before.modified_s) != (now.size_bytes, now.modified_s)


async def _run(box: AsyncSandbox, argv: list[str]) -> None:
    """Run a small program of the sandbox to its end.

    Raises:
        RpcError: It failed; with its own words.
    """
    process = await box.start(argv, stdin=False)
    said = b"".join([chunk.data async for chunk in process.output()])
    if (await process.wait()).code != 0:
        raise RpcError("invalid_argument", said.decode(errors="replace")[:500] or f"{argv[0]} failed")
