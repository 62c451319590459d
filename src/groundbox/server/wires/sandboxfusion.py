"""SandboxFusion: `POST /run_code`, `POST /run_jupyter` and `GET /v1/ping`, as verl and other trainers ask them.

A reply of status 200 is about the program alone: `Success`, or `Failed` where it failed or its language is not here.
Trainers score it. What fails on this side is 503 with `Retry-After`, which nothing takes for a result; the protocol's
own `SandboxError` is never said. verl repeats a request after 504 only, and counts every other refusal as a wrong
answer, so `POST /run_code?refused=504` says 504 instead.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
import os
import posixpath
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final, cast

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from groundbox.errors import GroundboxError, GuestFileError, InvalidArgument
from groundbox.execution import Execution, Failure, Outcome
from groundbox.limits import Limits, MiB
from groundbox.sandbox import environments
from groundbox.sandbox.outcome import may_be_killed_by_others
from groundbox.server import bodies, schemas
from groundbox.server.keeping import size_of
from groundbox.server.keys import Key
from groundbox.server.refusals import Refused, of_this_side, shutting_down
from groundbox.server.replies import attended, json_reply
from groundbox.server.sandboxes import Held
from groundbox.server.schemas import Path, Text, Word
from groundbox.server.service import Service

PUBLIC: Final = ("/v1/ping",)

_WIRE: Final = "sandboxfusion"
_LANGUAGES: Final = {"python": "python", "bash": "shell", "nodejs": "javascript"}
_COMPILED: Final = frozenset(
    ("cpp", "go", "java", "junit", "csharp", "rust", "cuda", "D_ut", "scala", "swift", "verilog", "gtest")
)
"""Languages whose first failure clients look for in `compile_result`."""
_NO_SUCH_PROGRAM: Final = 127
"""Exit code of a shell that finds no interpreter of that name."""
_OUTPUT_BYTES: Final = 8 * MiB
"""Of one program, and of the cells of a notebook together, after which no more cells are run."""
_MOST_CELLS: Final = 1000
_MOST_FETCHED_BYTES: Final = 64 * MiB
_WORKDIR: Final = "/mnt/data"
_READS_ITSELF: Final = re.compile(r"__file__|spawn|forkserver")
"""Programs in Python whose file has to be there; for others it is not written, which saves time."""


_Megabytes = Annotated[float, msgspec.Meta(le=2**30)]


class _RunCode(msgspec.Struct, kw_only=True):
    LONG: ClassVar[bodies.Long] = {"code": bodies.TEXT, "stdin": bodies.TEXT, "files": bodies.BASE64}

    code: Text
    language: Word | None = "python"
    stdin: Text | None = None
    run_timeout: float = 10.0
    compile_timeout: float = 10.0
    memory_limit_mb: _Megabytes = msgspec.field(default=-1.0, name="memory_limit_MB")
    files: dict[Path, str | None] = {}
    fetch_files: list[Path] = []


class _RunJupyter(msgspec.Struct, kw_only=True):
    LONG: ClassVar[bodies.Long] = {"cells": bodies.TEXT, "files": bodies.BASE64}

    cells: Annotated[list[Text], msgspec.Meta(max_length=_MOST_CELLS)]
    cell_timeout: float = 0.0
    total_timeout: float = 45.0
    memory_limit_mb: _Megabytes = msgspec.field(default=-1.0, name="memory_limit_MB")
    kernel: Word = "python3"
    files: dict[Path, str | None] = {}
    fetch_files: list[Path] = []


_KILLED_TRIES: Final = 4
"""Times that a program is run which ends by SIGKILL: the host may have sent it, and clients would score that."""


class _Unsupported(Exception):
    """A program that this server cannot run, with words for whoever reads its stderr."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Order:
    """A program as the engine takes it."""

    source: str
    options: Mapping[str, Any]
    files: Mapping[str, bytes]


def routes(service: Service) -> list[BaseRoute]:
    """The paths of SandboxFusion's server that run programs."""
    wire = _SandboxFusion(service)
    return [
        Route("/run_code", wire.run_code, methods=["POST"]),
        Route("/run_jupyter", wire.run_jupyter, methods=["POST"]),
        Route("/v1/ping", ping, methods=["GET"]),
    ]


async def ping(request: Request) -> Response:
    """`GET /v1/ping`"""
    return json_reply("pong")


class _SandboxFusion:
    def __init__(self, service: Service) -> None:
        self._service = service

    async def run_code(self, request: Request) -> Response:
        """`POST /run_code`: one program in a sandbox of its own."""
        key = _key(request)
        asked = await schemas.read(request, _RunCode)
        return await self._answered(request, self._ran(key, asked))

    async def run_jupyter(self, request: Request) -> Response:
        """`POST /run_jupyter`: cells one after another, which share variables, in a sandbox of their own."""
        key = _key(request)
        asked = await schemas.read(request, _RunJupyter)
        return await self._answered(request, self._notebook(key, asked))

    async def _answered(self, request: Request, work: Any) -> Response:
        try:
            return json_reply(await attended(request, work))
        except (Refused, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and not self._service.is_ending:
                raise
            refused = error if isinstance(error, Refused) else shutting_down()
            told = of_this_side(refused)
            if (told.status >= 500 or told.status == 429) and request.query_params.get("refused") == "504":
                raise Refused(504, told.code, told.message, retry_after_s=told.retry_after_s) from error
            raise told from error

    async def _ran(self, key: Key, asked: _RunCode) -> dict[str, Any]:
        language = asked.language or "python"
        limits = self._limits(asked.run_timeout, asked.memory_limit_mb)
        try:
            order = await self._order(language, asked)
            execution, files, notes = await self._carried_out(key, order, asked, limits)
        except _Unsupported as unsupported:
            return _unsupported(language, str(unsupported))
        except Refused as refused:
            if refused.code == "language_unavailable":
                return _unsupported(language, refused.message)
            raise
        result = _result(execution)
        finished = result["status"] == "Finished" and result["return_code"] == 0
        return {
            "status": "Success" if finished else "Failed",
            "message": "; ".join([*_cuts(execution), *notes]),
            "compile_result": None,
            "run_result": result,
            "executor_pod_name": None,
            "files": files,
        }

    async def _order(self, language: str, asked: _RunCode) -> _Order:
        files = _contents(asked.files)
        stdin = None if asked.stdin is None else asked.stdin.encode("utf-8", "replace")
        if language == "pytest":
            return await self._pytest(asked.code, files)
        if language not in _LANGUAGES:
            there = ", ".join([*_LANGUAGES, "pytest"])
            raise _Unsupported(f"groundbox: there is no language {language[:100]!r} on this server; it has {there}")
        options: dict[str, Any] = {"language": _LANGUAGES[language], "mode": "script", "stdin": stdin or b""}
        if language != "python":  # the program lies in the workdir under a name that no file given has
            options["filename"] = _free_name("program", ".sh" if language == "bash" else ".js", files)
        elif _READS_ITSELF.search(asked.code):
            options["filename"] = name = _free_name("main", ".py", files)
            files[name] = asked.code.encode("utf-8", "replace")
        return _Order(asked.code, options, files)

    async def _pytest(self, code: str, files: Mapping[str, bytes]) -> _Order:
        name = self._service.settings.environment
        with self._service.errors():
            environment = await asyncio.to_thread(environments.get, name)
        if "pytest" not in environment.packages:
            raise _Unsupported(
                f"groundbox: the environment {name!r} of this server has no pytest; "
                "`groundbox environment create NAME --from default --requirement pytest` makes one that has"
            )
        tests = _free_name("test_program", ".py", files)
        source = f"import sys, pytest\nsys.exit(pytest.main([{tests!r}]))"
        options = {"language": "python", "mode": "script", "stdin": b""}
        return _Order(source, options, {**files, tests: code.encode("utf-8", "replace")})

    async def _carried_out(
        self, key: Key, order: _Order, asked: _RunCode, limits: Limits
    ) -> tuple[Execution, dict[str, str], list[str]]:
        """Run it, and again if it was killed."""
        chosen = {"limits": limits, "network": self._service.settings.loopback, "inspect": False}
        for left in reversed(range(_KILLED_TRIES)):
            execution, files, notes = await self._run_once(key, order, asked, chosen)
            if not left or not may_be_killed_by_others(execution):
                break
        return execution, files, notes

    async def _run_once(
        self, key: Key, order: _Order, asked: _RunCode, chosen: Mapping[str, Any]
    ) -> tuple[Execution, dict[str, str], list[str]]:
        """Run it; with files outside the workdir, or files given that are to be fetched, in a sandbox that stays."""
        stays = any(_inside(path) is None for path in [*order.files, *asked.fetch_files])
        if not stays and not set(map(_inside, asked.fetch_files)) & set(map(_inside, order.files)):
            ran = await self._service.run(key, order.source, files=order.files, wire=_WIRE, **order.options, **chosen)
            return ran.execution, *await _fetched(asked.fetch_files, [ran.execution], None)
        async with self._box(key, order.files, **chosen) as held:
            ran = await self._service.run_in(key, held, order.source, **order.options)
            return ran.execution, *await _fetched(asked.fetch_files, [ran.execution], held)

    async def _notebook(self, key: Key, asked: _RunJupyter) -> dict[str, Any]:
        if asked.kernel != "python3":
            told = f"groundbox: there is no kernel {asked.kernel[:100]!r} on this server; it has python3"
            return _notebook("Failed", _command(_NO_SUCH_PROGRAM, stderr=told))
        limits = self._limits(asked.total_timeout, asked.memory_limit_mb)
        executions: list[Execution] = []
        output_bytes, more = 0, []
        chosen = {"limits": limits, "network": self._service.settings.loopback, "inspect": False}
        async with self._box(key, _contents(asked.files), **chosen) as held:
            for cell in asked.cells:
                left_s = asked.total_timeout - sum(each.usage.wall_s for each in executions)
                wall_s = min(asked.cell_timeout, left_s) if asked.cell_timeout > 0 else left_s
                ran = await self._service.run_in(key, held, cell, wall_s=max(0.001, wall_s), mode="cell")
                executions.append(ran.execution)
                if ran.execution.outcome is Outcome.TIMEOUT or ran.execution.state != "kept":
                    break
                output_bytes += _shown_bytes(ran.execution)
                if output_bytes > _OUTPUT_BYTES and len(executions) < len(asked.cells):
                    more = [
                        f"the cells show more than {_OUTPUT_BYTES} bytes together, so that none after cell "
                        f"{len(executions)} was run"
                    ]
                    break
            files, notes = await _fetched(asked.fetch_files, executions, held)
        driver = _driver(executions)
        status = "Success" if driver["return_code"] == 0 and not more else "Failed"
        cuts = [f"cell {at}: {cut}" for at, each in enumerate(executions, 1) for cut in _cuts(each)]
        return _notebook(status, driver, [_cell(each) for each in executions], files, "; ".join([*cuts, *more, *notes]))

    @contextlib.asynccontextmanager
    async def _box(self, key: Key, files: Mapping[str, bytes], **options: Any) -> AsyncIterator[Held]:
        """A sandbox with these files for the length of one request."""
        held = self._service.create(key, wire=_WIRE, **options)
        try:
            with self._service.errors(), held.in_use() as box:
                for path, data in files.items():
                    if (inside := _inside(path)) is not None:
                        await box.files.write(inside, data)
                    else:
                        await box.guest_files.write(path, data)
            yield held
        finally:
            await self._service.sandboxes.close(held)

    def _limits(self, wall_s: float, memory_mb: float) -> Limits:
        """Limits of one request; a memory of 0 or less means the usual one."""
        most, usual = self._service.settings.most, Limits()
        cpu_s = wall_s * len(os.sched_getaffinity(0))  # the protocol bounds no processor time
        with self._service.errors():
            return dataclasses.replace(
                usual,
                wall_s=wall_s,
                cpu_s=cpu_s if most.cpu_s is None else min(most.cpu_s, cpu_s),
                memory_bytes=round(memory_mb * MiB) if memory_mb > 0 else usual.memory_bytes,
                output_bytes=min(most.output_bytes or _OUTPUT_BYTES, _OUTPUT_BYTES),
            )


def _key(request: Request) -> Key:
    key: Key = request.scope["groundbox.key"]
    key.require("run")
    return key


def _contents(files: Mapping[str, str | None]) -> dict[str, bytes]:
    """Contents by path; a path without content means no file."""
    given = {path: schemas.Base64(base64=text) for path, text in files.items() if text is not None}
    try:
        return {path: cast(bytes, schemas.content_of(f"files[{path[:100]!r}]", text)) for path, text in given.items()}
    except InvalidArgument as error:
        raise Refused(400, "invalid_argument", str(error)) from None


def _free_name(stem: str, ending: str, files: Mapping[str, Any]) -> str:
    taken = set(map(_inside, files))
    while stem + ending in taken:
        stem += "_"
    return stem + ending


def _inside(path: str) -> str | None:
    """A path of the workdir, relative to it; None for one that leads elsewhere."""
    whole = posixpath.normpath(posixpath.join(_WORKDIR, path))
    return whole.removeprefix(f"{_WORKDIR}/") if whole.startswith(f"{_WORKDIR}/") else None


async def _fetched(
    paths: Sequence[str], executions: Sequence[Execution], held: Held | None
) -> tuple[dict[str, str], list[str]]:
    """Files asked for in base64, and words on those that are there and were left out. A missing one is not told."""
    files: dict[str, str] = {}
    notes = []
    left_bytes = _MOST_FETCHED_BYTES
    for path in dict.fromkeys(paths):
        try:
            data = await _read(path, executions, held)
        except (GroundboxError, OSError) as error:
            reason = error.reason if isinstance(error, GuestFileError) else str(error)
            notes.append(f"fetch_files: {path[:200]}: {reason}")
            continue
        if data is None:
            continue
        left_bytes -= len(data)
        if left_bytes < 0:
            notes.append(f"fetch_files: {path[:200]}: the files of one reply are over {_MOST_FETCHED_BYTES} bytes")
            break
        files[path] = base64.b64encode(data).decode("ascii")
    return files, notes


async def _read(path: str, executions: Sequence[Execution], held: Held | None) -> bytes | None:
    inside = _inside(path)
    if held is not None and executions and executions[-1].state == "kept":
        with held.in_use() as box:
            if inside is None:
                return await box.guest_files.read(path) if await box.guest_files.exists(path) else None
            return await box.files.read(inside) if inside in await box.files.list() else None
    for execution in reversed(executions):
        artifact = None if inside is None else execution.artifacts.get(inside)
        if artifact is not None:
            return await asyncio.to_thread(artifact.read)
    return None


def _command(return_code: int | None, *, status: str = "Finished", stderr: str = "") -> dict[str, Any]:
    """A CommandRunResult of something that did not run."""
    return {"status": status, "execution_time": 0.0, "return_code": return_code, "stdout": "", "stderr": stderr}


def _unsupported(language: str, words: str) -> dict[str, Any]:
    """`Failed`, and not `SandboxError`, after which clients would ask five times."""
    result, compiled = _command(_NO_SUCH_PROGRAM, stderr=words), language in _COMPILED
    return {
        "status": "Failed",
        "message": words,
        "compile_result": result if compiled else None,
        "run_result": None if compiled else result,
        "executor_pod_name": None,
        "files": {},
    }


def _result(execution: Execution) -> dict[str, Any]:
    """A CommandRunResult. A signal is a negative return code, as Python's `subprocess` has it."""
    if execution.outcome is Outcome.CANCELLED:
        raise Refused(503, "cancelled", "the run was called off", retry_after_s=1.0)
    timed_out, code, stderr = execution.outcome is Outcome.TIMEOUT, execution.exit_code, execution.stderr
    if code is None and not timed_out:
        code = -(execution.exit_signal or 9)
        if execution.error is not None:
            stderr += f"groundbox: {execution.error.message}\n"
    return {
        "status": "TimeLimitExceeded" if timed_out else "Finished",
        "execution_time": execution.usage.wall_s,
        "cpu_time": execution.usage.cpu_s,
        "return_code": None if timed_out else code,
        "stdout": execution.stdout,
        "stderr": stderr,
    }


def _cuts(execution: Execution) -> list[str]:
    return [
        f"{name}: {count} {'bytes were' if name in ('stdout', 'stderr') else 'were'} left out"
        for name, count in execution.dropped_bytes.items()
        if count
    ]


def _cell(execution: Execution) -> dict[str, Any]:
    """A CellRunResult: what a Jupyter kernel would have sent."""
    shown = [dict(each.data) for each in execution.displays]
    if execution.value is not None:
        shown.append(dict(execution.value))
    error = [] if execution.error is None else [_raised(execution.error)]
    return {"stdout": execution.stdout, "stderr": execution.stderr, "display": shown, "error": error}


def _shown_bytes(execution: Execution) -> int:
    """Return the memory that a cell takes in the reply, about."""
    return len(execution.stdout) + len(execution.stderr) + sum(map(size_of, _cell(execution)["display"]))


def _raised(error: Failure) -> dict[str, Any]:
    return {"ename": error.type, "evalue": error.message, "traceback": error.traceback.splitlines()}


def _driver(executions: Sequence[Execution]) -> dict[str, Any]:
    """The process behind a notebook: finished, unless the last cell ended it or took too long."""
    driver = _command(0)
    driver["execution_time"] = sum(each.usage.wall_s for each in executions)
    if executions and (executions[-1].outcome is Outcome.TIMEOUT or executions[-1].state != "kept"):
        last = executions[-1]
        words = "its process ended" if last.error is None else f"{last.error.type}: {last.error.message}"
        driver["stderr"] = f"groundbox: cell {len(executions)}: {words}\n"
        ended = _result(last)
        driver["status"], driver["return_code"] = ended["status"], ended["return_code"] or None
        if driver["status"] == "Finished" and driver["return_code"] is None:
            driver["return_code"] = 1
    return driver


def _notebook(
    status: str,
    driver: Mapping[str, Any],
    cells: Sequence[Mapping[str, Any]] = (),
    files: Mapping[str, str] | None = None,
    message: str = "",
) -> dict[str, Any]:
    return {
        "status": status,
        "message": message,
        "driver": driver,
        "cells": list(cells),
        "executor_pod_name": None,
        "files": dict(files or {}),
    }
