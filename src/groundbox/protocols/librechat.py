"""LibreChat's code interpreter: `POST /exec`, `/exec/programmatic`, `/upload`, `GET /files/…` and `/download/…`.

Each `/exec` has a sandbox of its own. Files live apart from sandboxes in sessions, in this process's memory: uploads
and what programs make. LibreChat names those that a program shall find, and uploads again what it finds to be gone.

`/exec/programmatic` runs Python that calls tools of LibreChat's side. Its first reply names the calls that the program
waits for and a token; the request with that token brings their results and is answered in the same way, until the
program has ended. In between the program stands in its sandbox, and its clock stands, too. Each token counts once.

LibreChat's side closes connections on which nothing comes for five seconds, so blanks are sent before late replies. A
failure of this server after that cuts the connection, because a reply would read as a program's.
"""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import keyword
import mimetypes
import posixpath
import re
import secrets
import string
import sys
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from groundbox.errors import GroundboxError, GuestFileError
from groundbox.execution import Execution, Outcome
from groundbox.limits import Limits, MiB
from groundbox.protocols.fields import Arguments
from groundbox.server import bodies, forms, schemas
from groundbox.server.api import download
from groundbox.server.keys import Key
from groundbox.server.protocol import WireProtocol
from groundbox.server.refusals import Refused, not_found, of_this_side
from groundbox.server.replies import JSON, Streamed, encoded, json_reply
from groundbox.server.sandboxes import Held
from groundbox.server.schemas import Argument, Path, Text, Word
from groundbox.server.service import Ran, Service
from groundbox.server.shares import most_of_one_key
from groundbox.tools import Tool, ToolFailure, ToolQuotas, Tools

_WIRE: Final = "librechat"
_LANGUAGES: Final = {"py": "python", "js": "javascript", "bash": "shell"}
_BLANK_S: Final = 3.0
_ID_CHARS: Final = string.ascii_letters + string.digits
_ID_LENGTH: Final = 21  # LibreChat downloads no file whose id, or whose session's id, has another length
_FILES_BYTES: Final = 512 * MiB
_FILES_KEPT_S: Final = 24 * 3600.0
_MOST_SESSION_FILES: Final = 1000
_MOST_PARTS: Final = 100
_PROGRAM_S: Final = 60.0
_ANSWER_S: Final = 300.0
"""How long a program waits for the results of its calls."""
_SETTLED_S: Final = 0.05
"""Calls that come within this time of each other are told in one reply."""
_MOST_PROGRAMS_OF_KEY: Final = 16
_MOST_TOOLS: Final = 500
_MOST_TOOLS_CHARS: Final = MiB
_MOST_NAME_CHARS: Final = 4096
_ENTRY_BYTES: Final = 1024
"""What a file or a session takes without its content, so that empty ones are counted, too."""
_QUOTAS: Final = ToolQuotas(
    calls=2000, concurrent=64, call_s=_ANSWER_S, waiting_s=3600.0, frames=20_000, sent_bytes=8 * MiB
)


class _FileNamed(msgspec.Struct, kw_only=True):
    """A file of a session that a program shall find; one of the two names of its session is there."""

    id: Word
    name: Path = ""
    session_id: Word = ""
    storage_session_id: Word = ""


_FilesNamed = Annotated[list[_FileNamed], msgspec.Meta(max_length=_MOST_SESSION_FILES)]


class _Exec(msgspec.Struct, kw_only=True):
    LONG: ClassVar[bodies.Long] = {"code": bodies.TEXT, "args": bodies.ARGUMENT}

    lang: Word
    code: Text
    args: Arguments | Argument | None = None
    session_id: Word | None = None
    files: _FilesNamed | None = None


class _ToolTold(msgspec.Struct, kw_only=True):
    LONG: ClassVar[bodies.Long] = {"description": bodies.ARGUMENT, "parameters": bodies.TEXT}

    name: Word
    description: Argument | None = None
    parameters: dict[str, Any] | None = None


class _ToolResult(msgspec.Struct, kw_only=True):
    LONG: ClassVar[bodies.Long] = {"result": bodies.TEXT, "error_message": bodies.ARGUMENT}

    call_id: Word
    result: Any = None
    is_error: bool = False
    error_message: Argument | None = None


class _Programmatic(msgspec.Struct, kw_only=True):
    LONG: ClassVar[bodies.Long] = {"code": bodies.TEXT}

    code: Text | None = None
    tools: Annotated[list[_ToolTold], msgspec.Meta(max_length=_MOST_TOOLS)] = []
    session_id: Word | None = None
    timeout: float | None = None
    files: _FilesNamed | None = None
    continuation_token: Word | None = None
    tool_results: Annotated[list[_ToolResult], msgspec.Meta(max_length=_QUOTAS.concurrent)] = []


def _routes(service: Service) -> list[BaseRoute]:
    """The paths below LibreChat's `LIBRECHAT_CODE_BASEURL`."""
    wire = _LibreChat(service)
    table: list[tuple[str, str, Any]] = [
        ("POST", "/exec", wire.execute),
        ("POST", "/exec/programmatic", wire.programmatic),
        ("POST", "/upload", wire.upload),
        ("GET", "/files/{session_id}", wire.files),
        ("DELETE", "/files/{session_id}/{file_id}", wire.remove),
        ("GET", "/download/{session_id}/{file_id}", wire.download),
    ]
    return [Route(path, endpoint, methods=[method]) for method, path, endpoint in table]


# Files


@dataclasses.dataclass(frozen=True, slots=True)
class _File:
    id: str
    name: str
    data: bytes
    made: float

    @property
    def size(self) -> int:
        return _ENTRY_BYTES + sys.getsizeof(self.name) + len(self.data)


@dataclasses.dataclass(slots=True)
class _Session:
    """Files of one conversation.

    Attributes:
        used: When a request last named it, on the monotonic clock.
        most_bytes: Of its files.
        size: Memory that it takes.
        counted: The part of `size` that `_Files` has counted to the key.
    """

    id: str
    key_id: str
    used: float
    most_bytes: int
    files: dict[str, _File] = dataclasses.field(default_factory=dict)
    names: dict[str, str] = dataclasses.field(default_factory=dict)
    size: int = _ENTRY_BYTES
    counted: int = 0

    def add(self, name: str, data: bytes) -> _File:
        """Keep a file; one of the same name goes.

        Raises:
            Refused: 413, because the session has too many files, or they are too large. It keeps what it had.
        """
        file = _File(_new_id(), name, data, time.time())
        old = self.files.get(self.names.get(name, ""))
        if old is None and len(self.files) >= _MOST_SESSION_FILES:
            raise Refused(413, "too_many_files", f"a session has at most {_MOST_SESSION_FILES} files")
        if self.size + file.size - (0 if old is None else old.size) > self.most_bytes:
            raise Refused(413, "too_large", f"files of a session take at most {self.most_bytes} bytes")
        if old is not None:
            self.remove(old.id)
        self.files[file.id], self.names[name] = file, file.id
        self.size += file.size
        return file

    def take_back(self, made: Sequence[_File], replaced: Sequence[_File]) -> None:
        """Drop files that were added, and have those again whose places they took."""
        for file in made:
            if file.id in self.files:
                self.remove(file.id)
        for file in replaced:
            self.files[file.id], self.names[file.name] = file, file.id
            self.size += file.size

    def remove(self, file_id: str) -> None:
        """Drop a file."""
        file = self.files.pop(file_id)
        del self.names[file.name]
        self.size -= file.size


class _Files:
    """Files by session, which only the key that made it finds.

    Old sessions are dropped. If there is too much, sessions of the key that has most are dropped, the one that was used
    longest ago first.
    """

    def __init__(self, service: Service) -> None:
        self._keys, self._ledger = service.keys, service.ledger
        self._ledger.forget_by(self._forget_oldest)
        self._being_kept: _Session | None = None
        self._sessions: collections.OrderedDict[str, _Session] = collections.OrderedDict()  # by their last use
        self._of_key: dict[str, collections.OrderedDict[str, _Session]] = {}
        self._bytes: collections.Counter[str] = collections.Counter()

    def get(self, key: Key, session_id: str | None) -> _Session:
        """Return the key's session, or a new one."""
        session = self._sessions.get(session_id or "")
        if session is None or session.key_id != key.id:
            session = _Session(_new_id(), key.id, time.monotonic(), self._most_of_key)
        return session

    def find(self, key: Key, session_id: str, file_id: str) -> _File | None:
        """Return one file, or None."""
        session = self._sessions.get(session_id)
        if session is None or session.key_id != key.id:
            return None
        self._touch(session)
        return session.files.get(file_id)

    def keep(self, session: _Session) -> None:
        """Keep a session as it is now, and drop others until all are within their bounds. One without files goes.

        Raises:
            Refused: 429, the key keeps too much of other things. What is kept of the session is as before.
        """
        if not session.files:
            self._drop(session)
            return
        if session.size > session.counted:
            self._being_kept = session
            try:
                self._ledger.take(session.key_id, session.size - session.counted, "files")
            finally:
                self._being_kept = None
        else:
            self._ledger.give_back(session.key_id, session.counted - session.size)
        self._sessions[session.id] = session
        self._of_key.setdefault(session.key_id, collections.OrderedDict())[session.id] = session
        self._bytes[session.key_id] += session.size - session.counted
        session.counted = session.size
        self._touch(session)
        while (oldest := next(iter(self._sessions.values()))).used < time.monotonic() - _FILES_KEPT_S:
            self._drop(oldest)
        while self._bytes.total() > _FILES_BYTES:
            largest = max(self._bytes, key=lambda each: self._bytes[each])
            self._drop(next(iter(self._of_key[largest].values())))

    @property
    def _most_of_key(self) -> int:
        return most_of_one_key(_FILES_BYTES) if self._keys.is_shared else _FILES_BYTES

    def _touch(self, session: _Session) -> None:
        session.used = time.monotonic()
        self._sessions.move_to_end(session.id)
        self._of_key[session.key_id].move_to_end(session.id)

    def _forget_oldest(self, key_id: str) -> bool:
        """Drop the session of a key that was used longest ago; return False if there is none."""
        oldest = next((each for each in self._of_key.get(key_id, {}).values() if each is not self._being_kept), None)
        if oldest is None:
            return False
        self._drop(oldest)
        return True

    def _drop(self, session: _Session) -> None:
        if self._sessions.pop(session.id, None) is None:
            return
        of_key = self._of_key[session.key_id]
        self._ledger.give_back(session.key_id, session.counted)
        del of_key[session.id]
        self._bytes[session.key_id] -= session.counted
        session.counted = 0
        if not of_key:
            del self._of_key[session.key_id], self._bytes[session.key_id]


def _new_id() -> str:
    return "".join(secrets.choice(_ID_CHARS) for _ in range(_ID_LENGTH))


# Programs that call tools


class _Program:
    """One program that stands in its sandbox while LibreChat's side carries its calls out."""

    def __init__(self, key: Key, session: _Session, notes: Sequence[str]) -> None:
        """Args:
        session: Where its files are kept.
        notes: Told at its end, after its own stderr.
        """
        self.key_id, self.session, self.notes = key.id, session, notes
        self.task: asyncio.Task[Ran] | None = None
        self.held: Held | None = None
        self.token = ""
        self.timer: asyncio.TimerHandle | None = None
        self._waiting: dict[str, tuple[str, Mapping[str, Any], asyncio.Future[Any]]] = {}
        self._called = asyncio.Event()

    def tools(self, told: Sequence[_ToolTold]) -> Tools:
        """What the guest calls: any arguments by name, which LibreChat's side checks itself."""
        named = {_identifier(each.name): each for each in told}
        names = {name: _names(each) for name, each in named.items()}
        chars = sum(len(each.description or "") for each in told) + sum(
            len(one) for each in names.values() for one in each
        )
        if chars > _MOST_TOOLS_CHARS:
            told_of = "tools: descriptions and names of parameters"
            raise Refused(400, "invalid_argument", f"{told_of} have at most {_MOST_TOOLS_CHARS} characters together")
        tools = [self._tool(name, each.name, each.description or "", names[name]) for name, each in named.items()]
        return Tools(tools, quotas=_QUOTAS)

    def _tool(self, name: str, own_name: str, description: str, parameters: Sequence[str]) -> Tool:
        """Make a tool. It keeps the names of its parameters and nothing else of their schema."""

        async def call(**arguments: Any) -> Any:
            call_id = f"call_{secrets.token_hex(8)}"
            answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            self._waiting[call_id] = (own_name, arguments, answer)
            self._called.set()
            try:
                return await answer
            finally:
                self._waiting.pop(call_id, None)

        schema = {"type": "object", "properties": {each: {} for each in parameters}, "additionalProperties": True}
        return Tool(name, call, description=description, parameters=schema)

    def answer(self, results: Sequence[_ToolResult]) -> None:
        """Give the program what its calls came to; what was never asked for, or is answered already, is left."""
        for result in results:
            _, _, future = self._waiting.get(result.call_id, ("", {}, None))
            if future is None or future.done():
                continue
            if result.is_error:
                future.set_exception(ToolFailure(result.error_message or "the tool failed"))
            else:
                future.set_result(result.result)

    async def calls(self) -> list[dict[str, Any]]:
        """Calls that wait for their results, once there are some; none when the program has ended."""
        assert self.task is not None
        while not self.task.done():
            self._called.clear()
            if any(not future.done() for _, _, future in self._waiting.values()):
                await asyncio.wait((self.task,), timeout=_SETTLED_S)
                if not self._called.is_set():
                    break
                continue
            called = asyncio.ensure_future(self._called.wait())
            try:
                await asyncio.wait((self.task, called), return_when=asyncio.FIRST_COMPLETED)
            finally:
                called.cancel()
        if self.task.done():
            return []
        return [
            {"id": call_id, "name": name, "input": dict(arguments)}
            for call_id, (name, arguments, future) in self._waiting.items()
            if not future.done()
        ]


def _names(told: _ToolTold) -> list[str]:
    properties = (told.parameters or {}).get("properties", {})
    return [each for each in properties if each.isidentifier()] if isinstance(properties, dict) else []


def _identifier(name: str) -> str:
    """A tool's name as a name in Python, made as LibreChat's side makes it."""
    made = re.sub(r"[^a-zA-Z0-9_]", "", re.sub(r"[-\s]", "_", name))
    if made[:1].isdigit():
        made = f"_{made}"
    if keyword.iskeyword(made):
        made = f"{made}_tool"
    if not made:
        raise Refused(400, "invalid_argument", f"tools: {name[:100]!r} has nothing that a name in Python can have")
    return made


# The wire


class _LibreChat:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._files = _Files(service)
        self._programs: dict[str, _Program] = {}
        self._running: set[_Program] = set()

    async def execute(self, request: Request) -> Response:
        """`POST /exec`: one program in a sandbox of its own."""
        return await self._answered(request, _Exec, self._executed)

    async def programmatic(self, request: Request) -> Response:
        """`POST /exec/programmatic`: Python that calls tools, or results of its calls."""
        return await self._answered(request, _Programmatic, self._turn)

    async def upload(self, request: Request) -> Response:
        """`POST /upload`: files of a form, into a new session."""
        key = _key(request)
        session = self._files.get(key, None)
        try:
            for part in await forms.read_form(request, wanted=None, most_parts=_MOST_PARTS):
                session.add(_file_name(part.file_name), part.data)
            if not session.files:
                raise Refused(400, "invalid_argument", "file: is needed")
            self._files.keep(session)
        except Refused as refused:
            return _failed(refused)
        told = [{"fileId": file.id, "filename": file.name} for file in session.files.values()]
        return json_reply(
            {"message": "success", "session_id": session.id, "storage_session_id": session.id, "files": told}
        )

    async def files(self, request: Request) -> Response:
        """`GET /files/SESSION`: what is in it; of one that is gone, nothing."""
        session = self._files.get(_key(request), request.path_params["session_id"])
        return json_reply([_told(session, file) for file in session.files.values()])

    async def download(self, request: Request) -> Response:
        """`GET /download/SESSION/FILE`"""
        file = self._files.find(_key(request), request.path_params["session_id"], request.path_params["file_id"])
        return _failed(not_found("file")) if file is None else download(file.data)

    async def remove(self, request: Request) -> Response:
        """`DELETE /files/SESSION/FILE`"""
        key, session_id, file_id = _key(request), request.path_params["session_id"], request.path_params["file_id"]
        if self._files.find(key, session_id, file_id) is None:
            return _failed(not_found("file"))
        session = self._files.get(key, session_id)
        session.remove(file_id)
        self._files.keep(session)
        return json_reply({"message": "success"})

    async def _answered(self, request: Request, kind: Any, work: Any) -> Response:
        key = _key(request)
        try:
            asked = await schemas.read(request, kind)
        except Refused as refused:
            return _failed(refused)

        async def parts() -> AsyncGenerator[bytes, None]:
            yield encoded(await work(key, asked))

        return _Late(parts(), self._service)

    # Programs without tools

    async def _executed(self, key: Key, asked: _Exec) -> dict[str, Any]:
        session, files, notes = self._given(key, asked.session_id, asked.files)
        if asked.lang not in _LANGUAGES:
            there = ", ".join(_LANGUAGES)
            told = f"groundbox: there is no language {asked.lang[:100]!r} on this server; it has {there}\n"
            return {"session_id": session.id, "stdout": "", "stderr": told, "files": []}
        argv = [asked.args] if isinstance(asked.args, str) else asked.args or []
        options = {"language": _LANGUAGES[asked.lang], "mode": "script", "argv": argv, "inspect": False}
        ran = await self._service.run(key, asked.code, files=files, wire=_WIRE, **options)
        execution = ran.execution
        if execution.outcome is Outcome.CANCELLED:
            raise Refused(503, "cancelled", "the run was called off", retry_after_s=1.0)
        if execution.error is not None and execution.exit_code is None:
            notes.append(f"groundbox: {execution.error.message}")
        return await self._finished(session, [execution], notes, execution.stderr)

    def _given(
        self, key: Key, session_id: str | None, named: Sequence[_FileNamed] | None
    ) -> tuple[_Session, dict[str, bytes], list[str]]:
        """The session, the files that a program shall find by their path, and words on those that are gone."""
        session = self._files.get(key, session_id)
        if named is None:
            return session, {file.name: file.data for file in session.files.values()}, []
        files, notes = {}, []
        for each in named:
            found = self._files.find(key, each.storage_session_id or each.session_id, each.id)
            if found is None:
                notes.append(f"groundbox: the file {each.name[:200]!r} is not here any more; upload it again")
            else:
                files[_file_name(each.name or found.name)] = found.data
        return session, files, notes

    async def _finished(
        self, session: _Session, executions: Sequence[Execution], notes: Sequence[str], stderr: str
    ) -> dict[str, Any]:
        """A reply on a program that has ended, whose files are kept in the session."""
        notes, made, replaced = list(notes), [], []
        for execution in executions:
            notes += [
                f"groundbox: {count} of {name} left out" for name, count in execution.dropped_bytes.items() if count
            ]
            for artifact in execution.artifacts.values():
                try:
                    data = await asyncio.to_thread(artifact.read)
                    old = session.files.get(session.names.get(artifact.path, ""))
                    made.append(session.add(artifact.path, data))
                    replaced += [] if old is None else [old]
                except (GroundboxError, Refused) as error:
                    reason = error.reason if isinstance(error, GuestFileError) else str(error)
                    notes.append(f"groundbox: the file {artifact.path[:200]!r} was not kept: {reason}")
        try:
            self._files.keep(session)
        except Refused as refused:
            session.take_back(made, replaced)
            notes, made = [*notes, f"groundbox: no file of this run was kept: {refused.message}"], []
        lines = "".join(f"{note}\n" for note in notes)
        apart = "" if not stderr or stderr.endswith("\n") or not lines else "\n"
        return {
            "session_id": session.id,
            "stdout": "".join(each.stdout for each in executions),
            "stderr": stderr + apart + lines,
            "files": [
                {"id": file.id, "name": file.name, "session_id": session.id, "storage_session_id": session.id}
                for file in made
            ],
        }

    # Programs with tools

    async def _turn(self, key: Key, asked: _Programmatic) -> dict[str, Any]:
        if asked.continuation_token is None:
            program = await self._begun(key, asked)
        else:
            found = self._programs.get(asked.continuation_token)
            if found is None or found.key_id != key.id:
                raise not_found("program that waits for results; it has ended, or was given up")
            program = found
            self._rest(program)
            program.answer(asked.tool_results)
        try:
            calls = await program.calls()
            if calls:
                return self._waits(program, calls)
            return await self._ended(program)
        except BaseException:
            await self._give_up(program)
            raise

    async def _begun(self, key: Key, asked: _Programmatic) -> _Program:
        if asked.code is None:
            raise Refused(400, "invalid_argument", "code: is needed, or a continuation_token")
        most = max(1, self._service.settings.runs_at_once // 2)  # of the others, runs without tools have their turns
        of_key = sum(each.key_id == key.id for each in self._running)
        if len(self._running) >= most or of_key >= _MOST_PROGRAMS_OF_KEY:
            raise Refused(429, "busy", "too many programs wait for results of tools", retry_after_s=5.0)
        session, files, notes = self._given(key, asked.session_id, asked.files)
        program = _Program(key, session, notes)
        wall_s = _PROGRAM_S if not asked.timeout else asked.timeout / 1e3
        with self._service.errors():
            usual = Limits()
            limits = dataclasses.replace(usual, wall_s=wall_s, cpu_s=max(wall_s, usual.cpu_s or wall_s))
            tools = program.tools(asked.tools)
        self._running.add(program)
        try:
            held = self._service.create(key, wire=_WIRE, limits=limits, inspect=False, tools=tools)
            program.held = held
            with self._service.errors(), held.in_use() as box:
                for path, data in files.items():
                    await box.files.write(path, data)
            program.task = asyncio.create_task(self._run(key, held, tools, asked.code))
        except BaseException:
            await self._give_up(program)
            raise
        return program

    async def _run(self, key: Key, held: Held, tools: Tools, code: str) -> Ran:
        """Names first, in a cell of their own, so that lines of the program keep their numbers."""
        names = [each.name for each in tools]
        made = "\n".join(["import asyncio, json", "import tools as _tools"] if names else ["import asyncio, json"])
        made += "".join(f"\n{name} = _tools.aio.{name}" for name in names)
        with self._service.errors(), held.in_use() as box:
            await box.run(made)
        return await self._service.run_in(key, held, code, mode="cell")

    def _waits(self, program: _Program, calls: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        program.token = secrets.token_urlsafe(32)
        self._programs[program.token] = program
        loop = asyncio.get_running_loop()
        program.timer = loop.call_later(_ANSWER_S, lambda: loop.create_task(self._give_up(program)))
        return {
            "status": "tool_call_required",
            "session_id": program.session.id,
            "continuation_token": program.token,
            "tool_calls": list(calls),
        }

    async def _ended(self, program: _Program) -> dict[str, Any]:
        assert program.task is not None
        execution = program.task.result().execution
        if execution.outcome is Outcome.CANCELLED:
            raise Refused(503, "cancelled", "the run was called off", retry_after_s=1.0)
        stderr = execution.stderr
        if execution.error is not None and execution.error.traceback:
            stderr += f"{execution.error.traceback}\n"
        if execution.error is not None and execution.outcome is not Outcome.ERROR:
            stderr += f"groundbox: {execution.error.message}\n"
        told = await self._finished(program.session, [execution], program.notes, stderr)
        await self._give_up(program)
        if execution.ok:
            return {"status": "completed", **told}
        return {"status": "error", "error": _word_for(execution), **told}

    def _rest(self, program: _Program) -> None:
        """Its token counts no more."""
        self._programs.pop(program.token, None)
        if program.timer is not None:
            program.timer.cancel()

    async def _give_up(self, program: _Program) -> None:
        """End it, if it has not ended, and close its sandbox."""
        self._rest(program)
        self._running.discard(program)
        if program.task is not None and not program.task.done():
            program.task.cancel()
            await asyncio.wait((program.task,))
        if program.held is not None:
            await self._service.sandboxes.close(program.held)


class _Late(Streamed):
    """A reply of JSON with blanks before it; a refusal after the first blank cuts the connection."""

    def __init__(self, parts: AsyncGenerator[bytes, None], service: Service) -> None:
        super().__init__(parts, media_type=JSON, heartbeat=b" ", heartbeat_s=_BLANK_S, refused=_cut)
        self._service = service

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Send it, as ASGI has it; a refusal before the first blank is a reply in LibreChat's words."""
        begun = False

        async def watched(message: Any) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await super().__call__(scope, receive, watched)
        except Refused as refused:
            self._service.metrics.refused(refused.code)
            if begun:
                raise
            await _failed(of_this_side(refused))(scope, receive, send)


def _cut(refused: Refused) -> bytes:
    raise refused


def _failed(refused: Refused) -> Response:
    """A refusal in LibreChat's words; of 429 it tells people when to ask again."""
    told: dict[str, Any] = {"error": refused.code, "message": refused.message}
    if refused.status == 429:
        told = {"error": "rate_limited", "retry_after_seconds": refused.retry_after_s or 1, "message": refused.message}
    return json_reply(told, refused.status, refused.headers)


def _key(request: Request) -> Key:
    key: Key = request.scope["groundbox.key"]
    key.require("run")
    return key


def _file_name(name: str | None) -> str:
    """Return a path in the workdir; if an upload's name leads out of it, its last part.

    Raises:
        Refused: 400, because it is too long.
    """
    if len(name or "") > _MOST_NAME_CHARS:
        raise Refused(400, "invalid_argument", f"file: a name has at most {_MOST_NAME_CHARS} characters")
    made = posixpath.normpath((name or "file").replace("\\", "/").removeprefix("/mnt/data/"))
    if made.startswith(("/", "..")) or "\0" in made or made == ".":
        made = posixpath.basename(made).replace("\0", "")
    return made if made not in ("", ".", "..") else "file"


def _told(session: _Session, file: _File) -> dict[str, Any]:
    """A file in a list. LibreChat's older versions take the id out of the name."""
    kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    made = datetime.fromtimestamp(file.made, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {
        "id": file.id,
        "name": f"{session.id}/{file.id}{posixpath.splitext(file.name)[1]}",
        "session_id": session.id,
        "storage_session_id": session.id,
        "size": len(file.data),
        "lastModified": made,
        "contentType": kind,
        "metadata": {"content-type": kind, "original-filename": file.name},
    }


def _word_for(execution: Execution) -> str:
    """Words that LibreChat's side shows; it keeps all others to itself."""
    if execution.outcome is Outcome.TIMEOUT:
        return "Time limit exceeded"
    if execution.outcome is Outcome.MEMORY:
        return "Out of memory"
    return f"Sandbox exited with code {execution.exit_code if execution.exit_code is not None else 'unknown'}"


PROTOCOL: Final = WireProtocol(
    routes=_routes,
    bodies={("POST", "/exec"): _Exec, ("POST", "/exec/programmatic"): _Programmatic},
    at_gateway=None,  # a request names files of sessions on several nodes, so that no single node can answer it
)
