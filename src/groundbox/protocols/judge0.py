"""Judge0 1.13.1: submissions that are made, asked for by token, and judged by their expected output.

A submission waits and runs apart from the request that made it, and is kept for an hour after its end. What fails on
this side has Judge0's own status for that, 13 (Internal Error), which is nobody's wrong answer. A request can ask to
wait for its end; a client that leaves then ends the run.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import collections
import contextlib
import dataclasses
import functools
import io
import re
import shlex
import signal
import time
import uuid
import zipfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from groundbox.errors import GroundboxError, InvalidArgument
from groundbox.execution import Execution, Outcome
from groundbox.limits import KiB, Limits, MiB
from groundbox.sandbox import languages
from groundbox.sandbox.workdir import check_path
from groundbox.server import schemas
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
_MOST_KEPT: Final = 20_000
_KEPT_BYTES: Final = 256 * MiB
_KEPT_S: Final = 3600.0
_MOST_UNPACKED_BYTES: Final = 64 * MiB
_MOST_UNPACKED: Final = 1000
_MOST_PACKED_BYTES: Final = 16 * MiB
_TOKEN: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_ANYWHERE: Final = re.compile(r"/languages(?:/\d{1,9})?|/statuses|/about|/config_info")


class _Asked(msgspec.Struct, kw_only=True):
    source_code: str | None = None
    language_id: int | None = None
    stdin: str | None = None
    expected_output: str | None = None
    additional_files: str | None = None
    command_line_arguments: str | None = None
    compiler_options: str | None = None
    cpu_time_limit: float | None = None
    cpu_extra_time: float | None = None
    wall_time_limit: float | None = None
    memory_limit: float | None = None
    max_processes_and_or_threads: int | None = None
    redirect_stderr_to_stdout: bool | None = None
    enable_network: bool | None = None
    number_of_runs: int | None = None
    callback_url: str | None = None


class _BatchAsked(msgspec.Struct, kw_only=True):
    submissions: list[_Asked]


class _Invalid(Exception):
    """A submission that is not taken: field to words, as Judge0 tells it."""

    def __init__(self, field: str, words: str) -> None:
        super().__init__(f"{field}: {words}")
        self.told = {field: [words]}


@dataclasses.dataclass(eq=False, slots=True)
class _Submission:
    key_id: str
    asked: _Asked
    argv: Sequence[str]
    files: Mapping[str, bytes]
    limits: Limits
    token: str
    status: int = _QUEUED
    made: datetime = dataclasses.field(default_factory=lambda: datetime.now(UTC))
    ended: datetime | None = None
    ended_at: float = 0.0
    result: dict[str, Any] = dataclasses.field(default_factory=dict)
    task: asyncio.Task[None] | None = None

    @property
    def size(self) -> int:
        texts = (self.asked.source_code, self.asked.stdin, self.asked.expected_output, *self.result.values())
        return sum(len(each) for each in texts if isinstance(each, str | bytes)) + sum(map(len, self.files.values()))


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
        self._unfinished_bytes = self._ended_bytes = 0

    async def create(self, request: Request) -> Response:
        """`POST /submissions?base64_encoded=true&wait=false`"""
        key, encoded = _key(request), _flag(request, "base64_encoded")
        asked = schemas.decoded(await request.body(), _Asked)
        try:
            submission = await self._checked(key, asked, encoded=encoded)
        except _Invalid as invalid:
            return json_reply(invalid.told, 422)
        self._begin(key, submission)
        if not _flag(request, "wait"):
            return json_reply({"token": submission.token}, 201)
        assert submission.task is not None
        await attended(request, submission.task)
        return json_reply(self._told(submission, request), 201)

    async def create_batch(self, request: Request) -> Response:
        """`POST /submissions/batch`: what is not taken says why in its own place."""
        key, encoded = _key(request), _flag(request, "base64_encoded")
        asked = schemas.decoded(await request.body(), _BatchAsked).submissions
        if not 0 < len(asked) <= _MOST_BATCH:
            return json_reply({"error": f"number of submissions in a batch should be 1 to {_MOST_BATCH}"}, 400)
        told: list[Any] = []
        submissions = []
        for each in asked:
            try:
                submissions.append(await self._checked(key, each, encoded=encoded))
                told.append({"token": submissions[-1].token})
            except _Invalid as invalid:
                told.append(invalid.told)
        self._begin(key, *submissions)
        return json_reply(told, 201)

    async def show(self, request: Request) -> Response:
        """`GET /submissions/TOKEN?fields=…`"""
        submission = self._find(_key(request), request.path_params["token"])
        if submission is None:
            return json_reply({"error": "there is no such submission"}, 404)
        return json_reply(self._told(submission, request))

    async def show_batch(self, request: Request) -> Response:
        """`GET /submissions/batch?tokens=A,B`"""
        key, tokens = _key(request), request.query_params.get("tokens", "").split(",")
        found = [self._find(key, token.strip()) for token in tokens[:_MOST_BATCH]]
        return json_reply({"submissions": [None if each is None else self._told(each, request) for each in found]})

    async def delete(self, request: Request) -> Response:
        """`DELETE /submissions/TOKEN`: of one that has ended."""
        submission = self._find(_key(request), request.path_params["token"])
        if submission is None:
            return json_reply({"error": "there is no such submission"}, 404)
        if submission.ended is None:
            status = {"id": submission.status, "description": _STATUSES[submission.status - 1]}
            return json_reply({"error": f"submission cannot be deleted because its status is {status['id']}"}, 400)
        told = self._told(submission, request)
        self._forget(submission)
        return json_reply(told)

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
            "max_submission_batch_size": _MOST_BATCH,
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
            "max_extract_size": _MOST_UNPACKED_BYTES // KiB,
        }
        return json_reply(told)

    async def _checked(self, key: Key, asked: _Asked, *, encoded: bool) -> _Submission:
        """A submission as it is kept, its texts without base64."""
        if asked.language_id not in await _there():
            raise _Invalid("language_id", f"language with id {asked.language_id} doesn't exist")
        if encoded:
            for name in ("source_code", "stdin", "expected_output"):
                if (text := getattr(asked, name)) is not None:
                    setattr(asked, name, _bytes_of(name, text).decode("utf-8", "replace"))
        if not asked.source_code:
            raise _Invalid("source_code", "can't be blank")
        for name, words in (
            ("enable_network", "network can't be enabled"),
            ("callback_url", "is called by no server of groundbox; ask for the submission"),
            ("compiler_options", "setting compiler options is not allowed for this language"),
        ):
            if getattr(asked, name):
                raise _Invalid(name, words)
        if asked.number_of_runs not in (None, 1):
            raise _Invalid("number_of_runs", "must be 1 on this server")
        try:
            argv = shlex.split(asked.command_line_arguments or "")
        except ValueError as error:
            raise _Invalid("command_line_arguments", str(error)) from None
        files = {}
        if asked.additional_files:
            files = await asyncio.to_thread(_unpacked, _bytes_of("additional_files", asked.additional_files))
        return _Submission(key.id, asked, argv, files, self._limits(asked), _token(self._service.sandboxes.tag))

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
        except GroundboxError as error:
            raise _Invalid("limits", str(error)) from None

    def _begin(self, key: Key, *submissions: _Submission) -> None:
        """Begin all of them, or none."""
        settings = self._service.settings
        most = settings.queue_length + settings.runs_at_once
        sizes = [each.size for each in submissions]
        if self._of_key[key.id] + len(sizes) > most or self._unfinished_bytes + sum(sizes) > _KEPT_BYTES:
            raise Refused(429, "busy", "too many submissions wait", retry_after_s=5.0)
        for submission, size in zip(submissions, sizes, strict=True):
            self._of_key[key.id] += 1
            self._unfinished_bytes += size
            self._unfinished[submission.token] = submission
            submission.task = asyncio.create_task(self._judged(key, submission))
            submission.task.add_done_callback(functools.partial(self._has_ended, submission, size))

    def _has_ended(self, submission: _Submission, unfinished_bytes: int, task: asyncio.Task[None]) -> None:
        self._of_key[submission.key_id] -= 1
        if not self._of_key[submission.key_id]:
            del self._of_key[submission.key_id]
        self._unfinished_bytes -= unfinished_bytes
        del self._unfinished[submission.token]
        if submission.status < _ACCEPTED:
            submission.status, submission.result = _INTERNAL, {"message": "it was given up before its end"}
        submission.ended, submission.ended_at = datetime.now(UTC), time.monotonic()
        self._ended[submission.token] = submission
        self._ended_bytes += submission.size
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
            result["post_execution_filesystem"] = await asyncio.to_thread(_packed, ran.execution)
            submission.status, submission.result = status, result
        except Refused as refused:
            told = of_this_side(refused)
            self._service.metrics.refused(told.code)
            submission.status, submission.result = _INTERNAL, {"message": told.message}

    def _drop(self) -> None:
        """Forget what ended long ago; where there is too much, what ended first of the key that has most."""
        before = time.monotonic() - _KEPT_S
        while self._ended and next(iter(self._ended.values())).ended_at < before:
            self._forget(next(iter(self._ended.values())))
        while self._ended_bytes > _KEPT_BYTES or len(self._ended) > _MOST_KEPT:
            sizes: collections.Counter[str] = collections.Counter()
            for each in self._ended.values():
                sizes[each.key_id] += each.size + 1000
            ((largest, _),) = sizes.most_common(1)
            self._forget(next(each for each in self._ended.values() if each.key_id == largest))

    def _forget(self, submission: _Submission) -> None:
        del self._ended[submission.token]
        self._ended_bytes -= submission.size

    def _find(self, key: Key, token: str) -> _Submission | None:
        submission = self._unfinished.get(token) or self._ended.get(token)
        return submission if submission is not None and submission.key_id == key.id else None

    def _told(self, submission: _Submission, request: Request) -> dict[str, Any]:
        asked, result = submission.asked, submission.result
        number = asked.language_id or 0
        status = {"id": submission.status, "description": _STATUSES[submission.status - 1]}
        told: dict[str, Any] = {
            **{field: getattr(asked, field) for field in asked.__struct_fields__},
            **dict.fromkeys(("stdout", "stderr", "compile_output", "message", "time", "wall_time", "memory")),
            **dict.fromkeys(("exit_code", "exit_signal", "post_execution_filesystem")),
            **result,
            "token": submission.token,
            "status": status,
            "status_id": submission.status,
            "language": {"id": number, "name": _LANGUAGES[number][1]},
            "created_at": _time_of(submission.made),
            "finished_at": None if submission.ended is None else _time_of(submission.ended),
        }
        fields = [each.strip() for each in request.query_params.get("fields", ",".join(_USUAL_FIELDS)).split(",")]
        chosen = told if "*" in fields else {field: told[field] for field in fields if field in told}
        if _flag(request, "base64_encoded"):
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
    fields = [each.strip() for each in query.get("fields", ",".join(_USUAL_FIELDS)).split(",")]
    chosen = told if "*" in fields else {field: told[field] for field in fields if field in told}
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


def _bytes_of(name: str, text: str) -> bytes:
    """Base64, which Ruby's clients break into lines."""
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise _Invalid(name, "is no base64") from None


def _unpacked(data: bytes) -> dict[str, bytes]:
    """Files of a ZIP archive, within bounds of number and size."""
    files: dict[str, bytes] = {}
    left_bytes = _MOST_UNPACKED_BYTES
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = [each for each in archive.infolist() if not each.is_dir()]
            if len(entries) > _MOST_UNPACKED:
                raise _Invalid("additional_files", f"are more than {_MOST_UNPACKED}")
            for each in entries:
                with archive.open(each) as file:
                    content = file.read(left_bytes + 1)  # and not as much as the archive says
                left_bytes -= len(content)
                if left_bytes < 0:
                    raise _Invalid("additional_files", f"are over {_MOST_UNPACKED_BYTES} bytes")
                files[check_path("additional_files", each.filename)] = content
    except InvalidArgument as error:
        raise _Invalid("additional_files", str(error)) from None
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError, ValueError, EOFError) as error:
        raise _Invalid("additional_files", f"are no ZIP archive that can be read: {error}") from None
    return files


def _packed(execution: Execution) -> str | None:
    """What the run made, as a ZIP archive in base64; None where it made nothing, or too much."""
    artifacts = list(execution.artifacts.values())
    if not artifacts or sum(each.size_bytes for each in artifacts) > _MOST_PACKED_BYTES:
        return None
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for each in artifacts:
            with contextlib.suppress(GroundboxError):
                archive.writestr(zipfile.ZipInfo(each.path), each.read())
    return base64.b64encode(packed.getvalue()).decode("ascii")


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
