"""Judge0 1.13.1: submissions that are made, asked for by token, and judged by their expected output.

A submission waits and runs apart from the request that made it, and is kept for an hour after its end. What fails on
this side has Judge0's own status for that, 13 (Internal Error), which is nobody's wrong answer. A request can ask to
wait for its end; a client that leaves then ends the run.
"""

from __future__ import annotations

import asyncio
import base64
import collections
import dataclasses
import functools
import re
import signal
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Final, cast
from urllib.parse import parse_qsl, urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from groundbox.errors import GroundboxError
from groundbox.execution import Execution, Outcome
from groundbox.limits import KiB, Limits, MiB
from groundbox.protocols.fields import beside
from groundbox.protocols.judge0_input import (
    FILE_BYTES,
    MOST_TEXT,
    MOST_UNPACKED_BYTES,
    Invalid,
    archive_of,
    pack,
    size_of_archive,
    split,
    text_of,
    unpack,
)
from groundbox.sandbox import languages
from groundbox.server import bodies, schemas
from groundbox.server.keeping import Ledger
from groundbox.server.keys import Key
from groundbox.server.protocol import AtGateway, Node, Nodes, Placing, Scope, WireProtocol
from groundbox.server.refusals import Refused, of_this_side
from groundbox.server.replies import attended, json_reply
from groundbox.server.service import Service

_WIRE: Final = "judge0"
_VERSION: Final = "1.13.1"
"""Whose numbers of languages these are; clients choose their numbers by it."""
_LANGUAGES: Final = {46: ("shell", "Bash"), 63: ("javascript", "JavaScript (Node.js)"), 71: ("python", "Python")}
_STATUSES: Final = (
    *("In Queue", "Processing", "Accepted", "Wrong Answer", "Time Limit Exceeded", "Compilation Error"),
    *("Runtime Error (SIGSEGV)", "Runtime Error (SIGXFSZ)", "Runtime Error (SIGFPE)", "Runtime Error (SIGABRT)"),
    *("Runtime Error (NZEC)", "Runtime Error (Other)", "Internal Error", "Exec Format Error"),
)
_QUEUED, _PROCESSING, _ACCEPTED, _WRONG, _TOO_SLOW = 1, 2, 3, 4, 5
_NON_ZERO, _OTHER_SIGNAL, _INTERNAL = 11, 12, 13
_OF_SIGNAL: Final[Mapping[int, int]] = {signal.SIGSEGV: 7, signal.SIGXFSZ: 8, signal.SIGFPE: 9, signal.SIGABRT: 10}
_ENCODED: Final = ("source_code", "stdin", "expected_output", "stdout", "stderr", "compile_output", "message")
_USUAL_FIELDS: Final = ("stdout", "time", "memory", "stderr", "token", "compile_output", "message", "status")
_CPU_S, _EXTRA_S, _WALL_S = 5.0, 1.0, 10.0
_MOST_BATCH: Final = 1000
_MOST_ASKED: Final = 300
"""Tokens that fit into the address of `GET /submissions/batch`, which clients are told as the size of batches."""
_MOST_KEPT: Final = 20_000
_KEPT_BYTES: Final = 256 * MiB
"""Of submissions that have not ended, and as many of those that have."""
_MOST_REPLY_BYTES: Final = 32 * MiB
_SUBMISSION_BYTES: Final = 4096
"""What a submission takes without its texts and files."""
_MOST_HERE: Final = MiB
_MOST_ARCHIVE: Final = 96 * MiB
_PROGRAM: Final = ("source_code", "stdin", "expected_output")
_MOST_CHARS: Final[Mapping[str, int]] = {
    **dict.fromkeys(_PROGRAM, MOST_TEXT * 3 // 2),  # they may be in base64
    "additional_files": _MOST_ARCHIVE,
    "command_line_arguments": 4096,
    "compiler_options": 4096,
    "callback_url": 4096,
}
_KEPT_S: Final = 3600.0
_TOKEN: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_ANYWHERE: Final = re.compile(r"/languages(?:/\d{1,9})?|/statuses|/about|/config_info")


def _at_most(name: str) -> msgspec.Meta:
    """Describe a field's largest length. `_checked` checks it, so that one submission of a batch is refused alone."""
    return msgspec.Meta(extra_json_schema={"maxLength": _MOST_CHARS[name]})


class _Asked(msgspec.Struct, kw_only=True):
    """A submission. A text that is long in its body is a view of UTF-8 until `_checked` makes a text of it.

    `additional_files` are the bytes of the archive from then on, and base64 again in a reply.
    """

    LONG: ClassVar[bodies.Long] = dict.fromkeys((*_PROGRAM, "additional_files"), bodies.CONTENT)

    source_code: Annotated[str | None, _at_most("source_code")] = None
    language_id: int | None = None
    stdin: Annotated[str | None, _at_most("stdin")] = None
    expected_output: Annotated[str | None, _at_most("expected_output")] = None
    additional_files: Annotated[str | None, _at_most("additional_files")] = None
    command_line_arguments: Annotated[str | None, _at_most("command_line_arguments")] = None
    compiler_options: Annotated[str | None, _at_most("compiler_options")] = None
    cpu_time_limit: float | None = None
    cpu_extra_time: float | None = None
    wall_time_limit: float | None = None
    memory_limit: float | None = None
    max_processes_and_or_threads: int | None = None
    redirect_stderr_to_stdout: bool | None = None
    enable_network: bool | None = None
    number_of_runs: int | None = None
    callback_url: Annotated[str | None, _at_most("callback_url")] = None


class _BatchAsked(msgspec.Struct, kw_only=True):
    submissions: Annotated[list[_Asked], msgspec.Meta(extra_json_schema={"maxItems": _MOST_BATCH})]


class _Room:
    """Memory that submissions take until they end: of all keys together, and in the budget of each key."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._of_key: collections.Counter[str] = collections.Counter()

    def take(self, key_id: str, size: int) -> None:
        """Count bytes to a key.

        Raises:
            Refused: 429, because this key or all keys have too many. Nothing was counted.
        """
        if self._of_key.total() + size > _KEPT_BYTES:
            raise Refused(429, "busy", "the submissions that have not ended take too much memory", retry_after_s=5.0)
        self._ledger.take(key_id, size, "submission")
        self._of_key[key_id] += size

    def give_back(self, key_id: str, size: int) -> None:
        """Count bytes no longer."""
        self._ledger.give_back(key_id, size)
        self._of_key[key_id] -= size
        if not self._of_key[key_id]:
            del self._of_key[key_id]


@dataclasses.dataclass(eq=False, slots=True)
class _Submission:
    """One submission.

    Attributes:
        taken_bytes: Memory that is counted to its key: until it ends in the `_Room`, and from then on as a result.
    """

    key_id: str
    asked: _Asked
    argv: Sequence[str]
    files: Mapping[str, bytes]
    limits: Limits
    token: str
    taken_bytes: int
    status: int = _QUEUED
    made: datetime = dataclasses.field(default_factory=lambda: datetime.now(UTC))
    ended: datetime | None = None
    ended_at: float = 0.0
    result: dict[str, Any] = dataclasses.field(default_factory=dict)
    task: asyncio.Task[None] | None = None

    @property
    def size(self) -> int:
        """Memory that it takes, about."""
        texts = (*msgspec.structs.astuple(self.asked), *self.result.values(), *self.argv)
        of_files = sum(FILE_BYTES + sys.getsizeof(path) + len(data) for path, data in self.files.items())
        return _SUBMISSION_BYTES + of_files + sum(map(_size_of, texts))


def _size_of(value: Any) -> int:
    return sys.getsizeof(value) if isinstance(value, str) else len(value) if isinstance(value, memoryview) else 0


def _routes(service: Service) -> list[BaseRoute]:
    """The paths of Judge0 that judge programs."""
    wire = _Judge0(service)
    table: list[tuple[str, str, Any]] = [
        ("POST", "/submissions", wire.create),
        ("POST", "/submissions/batch", wire.create_batch),
        ("GET", "/submissions/batch", wire.show_batch),
        ("GET", "/submissions/{token}", wire.show),
        ("DELETE", "/submissions/{token}", wire.delete),
        ("GET", "/languages", wire.languages),
        ("GET", "/languages/{language_id:int}", wire.language),
        ("GET", "/statuses", wire.statuses),
        ("GET", "/about", wire.about),
        ("GET", "/config_info", wire.config),
    ]
    return [Route(path, endpoint, methods=[method]) for method, path, endpoint in table]


class _Judge0:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._unfinished: dict[str, _Submission] = {}
        self._ended: dict[str, _Submission] = {}
        self._of_key: collections.Counter[str] = collections.Counter()
        self._room = _Room(service.ledger)
        service.ledger.forget_by(self._forget_oldest)
        self._ended_of_key: dict[str, dict[str, _Submission]] = {}
        self._ended_bytes: collections.Counter[str] = collections.Counter()

    async def create(self, request: Request) -> Response:
        """`POST /submissions?base64_encoded=true&wait=false`"""
        key, encoded = _key(request), _flag(request, "base64_encoded")
        asked = await schemas.read(request, _Asked)
        try:
            submission = await self._checked(key, asked, await _there(), encoded=encoded)
        except Invalid as invalid:
            return json_reply(invalid.told, 422)
        self._begin(key, submission)
        if not _flag(request, "wait"):
            return json_reply({"token": submission.token}, 201)
        assert submission.task is not None
        await attended(request, submission.task)
        return await self._reply([submission], request, 201)

    async def create_batch(self, request: Request) -> Response:
        """`POST /submissions/batch`: what is not taken says why in its own place."""
        key, encoded = _key(request), _flag(request, "base64_encoded")
        asked = (await schemas.read(request, _BatchAsked)).submissions
        if not 0 < len(asked) <= _MOST_BATCH:
            return json_reply({"error": f"number of submissions in a batch should be 1 to {_MOST_BATCH}"}, 400)
        told: list[Any] = []
        submissions: list[_Submission] = []
        there = await _there()
        try:
            for each in asked:
                await asyncio.sleep(0)  # so that others have the event loop between two of a thousand
                try:
                    submissions.append(await self._checked(key, each, there, encoded=encoded))
                    told.append({"token": submissions[-1].token})
                except Invalid as invalid:
                    told.append(invalid.told)
        except BaseException:
            for submission in submissions:
                self._room.give_back(key.id, submission.taken_bytes)
            raise
        self._begin(key, *submissions)
        return json_reply(told, 201)

    async def show(self, request: Request) -> Response:
        """`GET /submissions/TOKEN?fields=…`"""
        submission = self._find(_key(request), request.path_params["token"])
        if submission is None:
            return json_reply({"error": "there is no such submission"}, 404)
        return await self._reply([submission], request)

    async def show_batch(self, request: Request) -> Response:
        """`GET /submissions/batch?tokens=A,B`"""
        key, tokens = _key(request), request.query_params.get("tokens", "").split(",")
        found = [self._find(key, token.strip()) for token in tokens[:_MOST_BATCH]]
        if sum(each.size for each in found if each is not None) > _MOST_REPLY_BYTES:
            error = f"these submissions are over {_MOST_REPLY_BYTES} bytes together; ask for fewer tokens"
            return json_reply({"error": error}, 400)
        return await self._reply(found, request, as_batch=True)

    async def delete(self, request: Request) -> Response:
        """`DELETE /submissions/TOKEN`: of one that has ended."""
        submission = self._find(_key(request), request.path_params["token"])
        if submission is None:
            return json_reply({"error": "there is no such submission"}, 404)
        if submission.ended is None:
            status = {"id": submission.status, "description": _STATUSES[submission.status - 1]}
            return json_reply({"error": f"submission cannot be deleted because its status is {status['id']}"}, 400)
        self._forget(submission)
        return await self._reply([submission], request)

    async def languages(self, request: Request) -> Response:
        """`GET /languages`"""
        _key(request)
        there = await _there()
        return json_reply([{"id": number, "name": _LANGUAGES[number][1]} for number in there])

    async def language(self, request: Request) -> Response:
        """`GET /languages/ID`"""
        _key(request)
        number = request.path_params["language_id"]
        if number not in await _there():
            return json_reply({"error": "there is no such language"}, 404)
        return json_reply({"id": number, "name": _LANGUAGES[number][1], "is_archived": False})

    async def statuses(self, request: Request) -> Response:
        """`GET /statuses`"""
        _key(request)
        return json_reply([{"id": number, "description": text} for number, text in enumerate(_STATUSES, 1)])

    async def about(self, request: Request) -> Response:
        """`GET /about`"""
        _key(request)
        return json_reply({"version": _VERSION, "homepage": "https://judge0.com", "maintainer": "groundbox serve"})

    async def config(self, request: Request) -> Response:
        """`GET /config_info`"""
        _key(request)
        settings = self._service.settings
        usual, most = Limits(), settings.most
        off = ("enable_callbacks", "enable_network", "allow_enable_network", "enable_compiler_options")
        on = (
            *("enable_wait_result", "enable_submission_delete", "enable_batched_submissions"),
            *("enable_command_line_arguments", "enable_additional_files"),
        )
        per = "enable_per_process_and_thread"
        told: dict[str, Any] = {
            **dict.fromkeys(on, True),
            **dict.fromkeys((*off, "maintenance_mode", "use_docs_as_homepage", "redirect_stderr_to_stdout"), False),
            **dict.fromkeys((f"{per}_time_limit", f"{per}_memory_limit"), False),
            **dict.fromkeys((f"allow_{per}_time_limit", f"allow_{per}_memory_limit"), False),
            **dict.fromkeys(("callbacks_max_tries", "callbacks_timeout", "stack_limit", "max_stack_limit"), 0),
            "allowed_languages_for_compile_options": [],
            "max_queue_size": settings.queue_length,
            "max_submission_batch_size": _MOST_ASKED,
            "submission_cache_duration": _KEPT_S,
            "number_of_runs": 1,
            "max_number_of_runs": 1,
            "cpu_time_limit": _CPU_S,
            "cpu_extra_time": _EXTRA_S,
            "wall_time_limit": _WALL_S,
            "max_cpu_time_limit": most.cpu_s,
            "max_cpu_extra_time": most.cpu_s,
            "max_wall_time_limit": most.wall_s,
            "memory_limit": (usual.memory_bytes or 0) // KiB,
            "max_memory_limit": (most.memory_bytes or 0) // KiB,
            "max_processes_and_or_threads": usual.process_count,
            "max_max_processes_and_or_threads": most.process_count,
            "max_file_size": (usual.disk_bytes or 0) // KiB,
            "max_max_file_size": (most.disk_bytes or 0) // KiB,
            "max_extract_size": MOST_UNPACKED_BYTES // KiB,
        }
        return json_reply(told)

    async def _checked(self, key: Key, asked: _Asked, there: Sequence[int], *, encoded: bool) -> _Submission:
        """Return a submission as it is kept, its texts without base64, whose memory is counted to its key."""
        if asked.language_id not in there:
            raise Invalid("language_id", f"language with id {asked.language_id} doesn't exist")
        for name, most in _MOST_CHARS.items():
            if len(getattr(asked, name) or "") > most:
                raise Invalid(name, f"is too long (maximum is {most} characters)")
        size = _Submission(key.id, asked, (), {}, Limits(), "", 0).size
        self._room.take(key.id, size)
        try:
            for name in _PROGRAM:
                content = getattr(asked, name)
                if isinstance(content, memoryview) or (encoded and content is not None):
                    text = await beside(len(content), functools.partial(text_of, name, content, encoded=encoded))
                    setattr(asked, name, text)
            argv = self._check_rest(asked)
            files: Mapping[str, bytes] = {}
            if asked.additional_files:
                encoded_files, asked.additional_files = asked.additional_files, None
                archive = await beside(len(encoded_files), archive_of, encoded_files)
                del encoded_files  # what is unpacked takes its room
                packed = archive.getbuffer().toreadonly()
                unpacked_bytes = await asyncio.to_thread(size_of_archive, packed)
                self._room.take(key.id, unpacked_bytes)
                size += unpacked_bytes
                files = await asyncio.to_thread(unpack, archive)
                asked.additional_files = cast(Any, packed)
            limits = self._limits(asked)
            return _Submission(key.id, asked, argv, files, limits, _token(self._service.sandboxes.tag), size)
        except BaseException:
            self._room.give_back(key.id, size)
            raise

    def _check_rest(self, asked: _Asked) -> list[str]:
        """Check what takes no file and no time, and return the arguments.

        Raises:
            Invalid: A field is not supported, or not as it should be.
        """
        if not asked.source_code:
            raise Invalid("source_code", "can't be blank")
        for name, words in (
            ("enable_network", "network can't be enabled"),
            ("callback_url", "is called by no server of groundbox; ask for the submission"),
            ("compiler_options", "setting compiler options is not allowed for this language"),
        ):
            if getattr(asked, name):
                raise Invalid(name, words)
        if asked.number_of_runs not in (None, 1):
            raise Invalid("number_of_runs", "must be 1 on this server")
        try:
            return split(asked.command_line_arguments or "")
        except ValueError as error:
            raise Invalid("command_line_arguments", str(error)) from None

    def _limits(self, asked: _Asked) -> Limits:
        usual = Limits()
        extra_s = _EXTRA_S if asked.cpu_extra_time is None else asked.cpu_extra_time
        try:
            limits = dataclasses.replace(
                usual,
                cpu_s=(_CPU_S if asked.cpu_time_limit is None else asked.cpu_time_limit) + extra_s,
                wall_s=_WALL_S if asked.wall_time_limit is None else asked.wall_time_limit,
                memory_bytes=usual.memory_bytes if asked.memory_limit is None else round(asked.memory_limit * KiB),
                process_count=asked.max_processes_and_or_threads or usual.process_count,
            )
            return self._service.settings.checked(limits)
        except (GroundboxError, OverflowError) as error:  # a number that is too large for a count of bytes
            raise Invalid("limits", str(error)) from None

    def _begin(self, key: Key, *submissions: _Submission) -> None:
        """Begin all of them, or none."""
        settings = self._service.settings
        if self._of_key[key.id] + len(submissions) > settings.queue_length + settings.runs_at_once:
            for submission in submissions:
                self._room.give_back(key.id, submission.taken_bytes)
            raise Refused(429, "busy", "too many submissions wait", retry_after_s=5.0)
        for submission in submissions:
            self._of_key[key.id] += 1
            self._unfinished[submission.token] = submission
            submission.task = asyncio.create_task(self._judged(key, submission))
            submission.task.add_done_callback(functools.partial(self._has_ended, submission))

    def _has_ended(self, submission: _Submission, task: asyncio.Task[None]) -> None:
        self._of_key[submission.key_id] -= 1
        if not self._of_key[submission.key_id]:
            del self._of_key[submission.key_id]
        self._room.give_back(submission.key_id, submission.taken_bytes)
        del self._unfinished[submission.token]
        if submission.status < _ACCEPTED:
            submission.status, submission.result = _INTERNAL, {"message": "it was given up before its end"}
        submission.ended, submission.ended_at = datetime.now(UTC), time.monotonic()
        submission.files = {}  # they are in the archive, if they are asked for again
        try:
            self._service.ledger.take(submission.key_id, submission.size, "result of a submission")
            submission.taken_bytes = submission.size
        except Refused as refused:
            submission.status, submission.result = _INTERNAL, {"message": f"the result is not kept: {refused.message}"}
            submission.asked, submission.argv = _Asked(language_id=submission.asked.language_id), ()
            submission.taken_bytes = 0
        self._ended[submission.token] = submission
        self._ended_of_key.setdefault(submission.key_id, {})[submission.token] = submission
        self._ended_bytes[submission.key_id] += submission.taken_bytes
        self._drop()

    async def _judged(self, key: Key, submission: _Submission) -> None:
        asked = submission.asked
        language, _ = _LANGUAGES[asked.language_id or 0]
        options = {
            "language": language,
            "mode": "script",
            "argv": submission.argv,
            "stdin": (asked.stdin or "").encode("utf-8", "replace"),
            "limits": submission.limits,
            "inspect": False,
        }
        submission.status = _PROCESSING
        try:
            ran = await self._service.run(key, asked.source_code or "", files=submission.files, wire=_WIRE, **options)
            status, result = _verdict(ran.execution, asked)
            result["post_execution_filesystem"] = await asyncio.to_thread(pack, ran.execution)
            submission.status, submission.result = status, result
        except Refused as refused:
            told = of_this_side(refused)
            self._service.metrics.refused(told.code)
            submission.status, submission.result = _INTERNAL, {"message": told.message}

    def _drop(self) -> None:
        """Forget what ended long ago. If there is too much, forget what ended first of the key that has most of it."""
        before = time.monotonic() - _KEPT_S
        while self._ended and next(iter(self._ended.values())).ended_at < before:
            self._forget(next(iter(self._ended.values())))
        while len(self._ended) > _MOST_KEPT:
            self._forget_oldest(max(self._ended_of_key, key=lambda each: len(self._ended_of_key[each])))
        while self._ended_bytes.total() > _KEPT_BYTES:
            self._forget_oldest(max(self._ended_of_key, key=lambda each: self._ended_bytes[each]))

    def _forget_oldest(self, key_id: str) -> bool:
        """Forget the submission of a key that ended first; return False if there is none."""
        of_key = self._ended_of_key.get(key_id)
        if not of_key:
            return False
        self._forget(next(iter(of_key.values())))
        return True

    def _forget(self, submission: _Submission) -> None:
        key_id = submission.key_id
        del self._ended[submission.token]
        del self._ended_of_key[key_id][submission.token]
        self._ended_bytes[key_id] -= submission.taken_bytes
        self._service.ledger.give_back(key_id, submission.taken_bytes)
        if not self._ended_of_key[key_id]:
            del self._ended_of_key[key_id], self._ended_bytes[key_id]

    def _find(self, key: Key, token: str) -> _Submission | None:
        submission = self._unfinished.get(token) or self._ended.get(token)
        return submission if submission is not None and submission.key_id == key.id else None

    async def _reply(
        self, submissions: Sequence[_Submission | None], request: Request, status: int = 200, *, as_batch: bool = False
    ) -> Response:
        """Answer with submissions, made in a thread if they are large."""
        fields, encoded = _fields_of(request.query_params), _flag(request, "base64_encoded")

        def make() -> Response:
            told = [None if each is None else _described(each, fields, encoded=encoded) for each in submissions]
            return json_reply({"submissions": told} if as_batch else told[0], status)

        is_large = sum(each.size for each in submissions if each is not None) > _MOST_HERE
        return await asyncio.to_thread(make) if is_large else make()


_OWN_FIELDS: Final = (
    *("stdout", "stderr", "compile_output", "message", "time", "wall_time", "memory"),
    *("exit_code", "exit_signal", "post_execution_filesystem"),
)
_FIELDS: Final = frozenset(
    {*_Asked.__struct_fields__, *_OWN_FIELDS, "token", "status", "status_id", "language", "created_at", "finished_at"}
)


def _fields_of(query: Mapping[str, str]) -> Sequence[str]:
    """Return the names of the fields that a query asks for, each once; those that do not exist are left out."""
    names = [each.strip() for each in query.get("fields", ",".join(_USUAL_FIELDS)).split(",")]
    return sorted(_FIELDS) if "*" in names else [each for each in dict.fromkeys(names) if each in _FIELDS]


def _described(submission: _Submission, fields: Sequence[str], *, encoded: bool) -> dict[str, Any]:
    asked, result = submission.asked, submission.result
    number = asked.language_id or 0
    status = {"id": submission.status, "description": _STATUSES[submission.status - 1]}
    told: dict[str, Any] = {
        **{field: getattr(asked, field) for field in asked.__struct_fields__},
        **dict.fromkeys(_OWN_FIELDS),
        **result,
        "token": submission.token,
        "status": status,
        "status_id": submission.status,
        "language": {"id": number, "name": _LANGUAGES[number][1]},
        "created_at": _time_of(submission.made),
        "finished_at": None if submission.ended is None else _time_of(submission.ended),
    }
    chosen = {field: told[field] for field in fields}
    if isinstance(archive := chosen.get("additional_files"), memoryview):
        chosen["additional_files"] = base64.b64encode(archive).decode("ascii")
    if encoded:
        for name in _ENCODED:
            if isinstance(chosen.get(name), str):
                chosen[name] = base64.b64encode(chosen[name].encode("utf-8", "replace")).decode("ascii")
    return chosen


def _lost(token: str, why: str, query: Mapping[str, str]) -> dict[str, Any]:
    """A submission whose node was lost, as a gateway tells of it: it has ended, and is nobody's wrong answer."""
    status = {"id": _INTERNAL, "description": _STATUSES[_INTERNAL - 1]}
    told: dict[str, Any] = {
        **dict.fromkeys(_USUAL_FIELDS),
        "token": token,
        "status": status,
        "status_id": _INTERNAL,
        "message": why,
    }
    fields = _fields_of(query)
    chosen = {field: told[field] for field in told if field in fields}
    if query.get("base64_encoded", "false").lower() in ("true", "1") and chosen.get("message"):
        chosen["message"] = base64.b64encode(why.encode()).decode("ascii")
    return chosen


def _token(tag: str) -> str:
    """A token that nobody can guess, in the form of a UUID; in a fleet its first twelve digits are the node's tag."""
    token = str(uuid.uuid4())
    return f"{tag[:8]}-{tag[8:]}{token[13:]}" if tag else token


def _key(request: Request) -> Key:
    key: Key = request.scope["groundbox.key"]
    key.require("run")
    return key


def _flag(request: Request, name: str) -> bool:
    return request.query_params.get(name, "false").lower() in ("true", "1")


async def _there() -> Sequence[int]:
    """Numbers of the languages that this machine has."""
    listed = {each.name for each in await asyncio.to_thread(languages.listed) if each.missing is None}
    return [number for number, (name, _) in _LANGUAGES.items() if name in listed]


def _time_of(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def _verdict(execution: Execution, asked: _Asked) -> tuple[int, dict[str, Any]]:
    """The status of a submission whose program has ended, and what is told of it."""
    if execution.outcome is Outcome.CANCELLED:
        raise Refused(503, "cancelled", "the run was called off")
    status, words = _ACCEPTED, [f"{name}: {n} bytes were left out" for name, n in execution.dropped_bytes.items() if n]
    if execution.outcome is Outcome.TIMEOUT:
        status = _TOO_SLOW
        words.append("Time limit exceeded")
    elif execution.exit_code:
        status = _NON_ZERO
        words.append(f"Exited with error code {execution.exit_code}")
    elif execution.exit_code is None:
        status = _OF_SIGNAL.get(execution.exit_signal or signal.SIGKILL, _OTHER_SIGNAL)
        words.append("it was ended" if execution.error is None else execution.error.message)
    stdout, stderr = execution.stdout, execution.stderr
    if asked.redirect_stderr_to_stdout:
        stdout, stderr = stdout + stderr, ""
    if status == _ACCEPTED and asked.expected_output is not None and _bare(stdout) != _bare(asked.expected_output):
        status = _WRONG
    usage = execution.usage
    result = {
        "stdout": stdout or None,
        "stderr": stderr or None,
        "message": "; ".join(words) or None,
        "exit_code": execution.exit_code,
        "exit_signal": execution.exit_signal,
        "time": f"{usage.wall_s if usage.cpu_s is None else usage.cpu_s:.3f}",
        "wall_time": f"{usage.wall_s:.3f}",
        "memory": None if usage.peak_memory_bytes is None else usage.peak_memory_bytes // KiB,
    }
    return status, result


def _bare(text: str) -> str:
    """Without blanks at the ends of lines and of the whole, as Judge0 compares."""
    return "\n".join(line.rstrip() for line in text.split("\n")).rstrip()


# At a gateway


def _digits_of_token(token: str) -> str | None:
    """Return the digits of a token, of which the first ones stand for its node."""
    return token.replace("-", "") if _TOKEN.fullmatch(token) else None


def _digits_of(path: str) -> str | None:
    return _digits_of_token(path.removeprefix("/submissions/")) if path.startswith("/submissions/") else None


async def _merge_submissions(scope: Scope, nodes: Nodes) -> Response:
    """Answer `GET /submissions/batch` with submissions of several nodes; those of lost nodes have status 13.

    Raises:
        Refused: 503 if a node that may have one does not answer.
    """
    query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    tokens = [each.strip() for each in dict(query).get("tokens", "").split(",")][:_MOST_BATCH]
    kept = [each for each in query if each[0] != "tokens"]
    of_node: dict[Node, list[str]] = {}
    found: dict[str, Any] = {}
    for token in tokens:
        node = nodes.find(_digits_of_token(token) or "")
        if node is not None and node.is_lost:
            found[token] = _lost(token, f"its node {node.name} was lost", dict(query))
        elif node is not None:
            of_node.setdefault(node, []).append(token)

    async def ask(node: Node, wanted: Sequence[str]) -> Response | None:
        asked = urlencode([*kept, ("tokens", ",".join(wanted))]).encode()
        answer = await nodes.ask({**scope, "query_string": asked}, node)
        if answer is None:
            why = f"node {node.name} cannot be reached, and has some of these submissions"
            raise Refused(503, "node_unreachable", why, retry_after_s=1.0)
        if answer.status != 200:
            return Response(answer.body, answer.status, media_type="application/json")
        found.update(zip(wanted, msgspec.json.decode(answer.body)["submissions"], strict=True))
        return None

    refused = [each for each in await asyncio.gather(*(ask(*each) for each in of_node.items())) if each]
    return refused[0] if refused else json_reply({"submissions": [found.get(token) for token in tokens]})


_RUN: Final = Placing(is_run=True)
PROTOCOL: Final = WireProtocol(
    routes=_routes,
    key_headers=("x-auth-token",),
    bodies={("POST", "/submissions"): _Asked, ("POST", "/submissions/batch"): _BatchAsked},
    at_gateway=AtGateway(
        digits_of=_digits_of,
        placed={"/submissions": _RUN, "/submissions/batch": _RUN},
        is_anywhere=lambda path: _ANYWHERE.fullmatch(path) is not None,
        merged={("GET", "/submissions/batch"): _merge_submissions},
    ),
)
