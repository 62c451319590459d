"""Piston's version 2: `GET /api/v2/runtimes` and `POST /api/v2/execute`, for bots and command lines that speak it.

A program that failed is a result of status 200, as Piston has it; a `message` alone, with status 4xx or 503, says that
nothing ran. Its languages are those of the sandboxes that run scripts; its versions are what their programs say.
"""

from __future__ import annotations

import asyncio
import binascii
import contextlib
import dataclasses
import itertools
import os
import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final, cast

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from groundbox.execution import Execution, Outcome
from groundbox.limits import Limits
from groundbox.protocols.fields import Arguments, beside
from groundbox.sandbox import environments, languages
from groundbox.server import bodies, schemas
from groundbox.server.keys import Key
from groundbox.server.protocol import AtGateway, Placing, WireProtocol
from groundbox.server.refusals import Refused, of_this_side
from groundbox.server.replies import attended, json_reply
from groundbox.server.schemas import Path, Text, Word
from groundbox.server.service import Ran, Service

_WIRE: Final = "piston"
_MOST_OUTPUT_CHARS: Final = 4_000_000
_MOST_FILES: Final = 1000
_HEX_BYTES: Final = 256 * 1024
_VERSION_S: Final = 10.0
_VERSION: Final = re.compile(r"\d{1,9}\.\d{1,9}\.\d{1,9}")
_AFTER_OPERATOR: Final = re.compile(r"(?<=[\^~<>=])\s+(?=[vx*\d])", re.IGNORECASE)
_TERM: Final = re.compile(r"(\^|~|>=|<=|>|<|=)?v?(\*|x|\d+(?:\.(?:\d+|x|\*)){0,2})", re.IGNORECASE)
"""One comparison of a selector, without blanks: they are taken out before, because a pattern that looks for them at
every position takes quadratic time."""
_STATUS: Final = {Outcome.ERROR: "RE", Outcome.TIMEOUT: "TO", Outcome.MEMORY: "SG", Outcome.SIGNAL: "SG"}


@dataclasses.dataclass(frozen=True, slots=True)
class _Runtime:
    """A language as Piston names it.

    Attributes:
        own: Its name in groundbox.
        runtime: The program behind it, where Piston's clients know several.
    """

    own: str
    language: str
    aliases: Sequence[str]
    runtime: str | None = None

    def to_dict(self, version: str) -> dict[str, Any]:
        told = {"language": self.language, "version": version, "aliases": list(self.aliases)}
        return told if self.runtime is None else {**told, "runtime": self.runtime}


_RUNTIMES: Final = (
    _Runtime("python", "python", ("py", "py3", "python3")),
    _Runtime("javascript", "javascript", ("node-javascript", "node-js", "js", "node", "nodejs"), "node"),
    _Runtime("shell", "bash", ("sh", "shell")),
)


class _File(msgspec.Struct, kw_only=True):
    LONG: ClassVar[bodies.Long] = {"content": bodies.CONTENT}

    content: str
    name: Path | None = None
    encoding: Word | None = None


class _Execute(msgspec.Struct, kw_only=True):
    LONG: ClassVar[bodies.Long] = {"stdin": bodies.TEXT, "args": bodies.ARGUMENT}

    language: Word
    version: Word
    files: Annotated[list[_File], msgspec.Meta(max_length=_MOST_FILES)]
    stdin: Text | None = None
    args: Arguments | None = None
    run_timeout: float | None = None
    run_cpu_time: float | None = None
    run_memory_limit: float | None = None


def _routes(service: Service) -> list[BaseRoute]:
    """The paths of Piston's server, but for its WebSocket."""
    wire = _Piston(service)
    return [
        Route("/api/v2/runtimes", wire.runtimes, methods=["GET"]),
        Route("/api/v2/execute", wire.execute, methods=["POST"]),
        Route("/api/v2/packages", wire.packages, methods=["GET"]),
        Route("/api/v2/packages", wire.no_package, methods=["POST", "DELETE"]),
    ]


class _Piston:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._versions: dict[str, str] = {}

    async def runtimes(self, request: Request) -> Response:
        """`GET /api/v2/runtimes`"""
        _key(request)
        try:
            versions = await self._there()
        except Refused as refused:
            raise of_this_side(refused) from refused
        return json_reply([each.to_dict(versions[each.own]) for each in _RUNTIMES if each.own in versions])

    async def packages(self, request: Request) -> Response:
        """`GET /api/v2/packages`: there are none to install."""
        _key(request)
        return json_reply([])

    async def no_package(self, request: Request) -> Response:
        """`POST` and `DELETE /api/v2/packages`"""
        _key(request)
        raise Refused(404, "not_found", "there is no such package; languages are those of the server's machine")

    async def execute(self, request: Request) -> Response:
        """`POST /api/v2/execute`: one program in a sandbox of its own."""
        key = _key(request)
        if not request.headers.get("content-type", "").startswith("application/json"):
            raise Refused(415, "bad_request", "requests must be of type application/json")
        asked = await schemas.read(request, _Execute)
        try:
            return json_reply(await attended(request, self._executed(key, asked)))
        except Refused as refused:
            raise of_this_side(refused) from refused

    async def _executed(self, key: Key, asked: _Execute) -> dict[str, Any]:
        versions = await self._there()
        runtime = _chosen(asked.language, asked.version, versions)
        if runtime is None:
            raise Refused(400, "invalid_argument", f"{asked.language}-{asked.version} runtime is unknown")
        length = sum(len(each.content) for each in asked.files)
        main, source, files = await beside(length, _program, asked.files)
        stdin = asked.stdin or ""
        options: dict[str, Any] = {
            "language": runtime.own,
            "mode": "script",
            "argv": asked.args or [],
            "stdin": (stdin if stdin.endswith("\n") else f"{stdin}\n").encode("utf-8", "replace"),  # as Piston does
            "limits": self._limits(asked),
            "inspect": False,
        }
        if main:
            options["filename"] = main
        output: list[str] = []
        left_chars = _MOST_OUTPUT_CHARS
        events = self._service.stream(key, source, files=files, wire=_WIRE, **options)
        async with contextlib.aclosing(events):
            async for item in events:
                if isinstance(item, Ran):
                    run = _stage(item.execution, "".join(output) if left_chars > 0 else None)
                    return {"run": run, "language": runtime.language, "version": versions[runtime.own]}
                if left_chars > 0:
                    left_chars -= len(item.text)
                    output.append(item.text)
        raise Refused(503, "sandbox_failed", "the run ended without a result", retry_after_s=1.0)

    def _limits(self, asked: _Execute) -> Limits:
        """Limits of one request; what is left out, 0 or -1 is as usual."""
        usual, most = Limits(), self._service.settings.most
        wall_s = (usual.wall_s or 30.0) if not asked.run_timeout or asked.run_timeout == -1 else asked.run_timeout / 1e3
        cpu_s = wall_s * len(os.sched_getaffinity(0))
        if asked.run_cpu_time and asked.run_cpu_time != -1:
            cpu_s = asked.run_cpu_time / 1e3
        memory = asked.run_memory_limit
        with self._service.errors():
            return dataclasses.replace(
                usual,
                wall_s=wall_s,
                cpu_s=cpu_s if most.cpu_s is None else min(most.cpu_s, cpu_s),
                memory_bytes=usual.memory_bytes if not memory or memory == -1 else round(memory),
            )

    async def _there(self) -> Mapping[str, str]:
        """Languages that can be run, and their versions, which are asked for once."""
        if not self._versions:
            with self._service.errors():
                environment = await asyncio.to_thread(environments.get, self._service.settings.environment)
                listed = await asyncio.to_thread(languages.listed)
            found = {"python": ".".join(map(str, environment.python_version))}
            there = {each.name for each in listed if each.missing is None}
            for language, program in (("javascript", "node"), ("shell", "bash")):
                if language in there and (version := await _version_of(program)):
                    found[language] = version
            self._versions = found
        return self._versions


def _key(request: Request) -> Key:
    key: Key = request.scope["groundbox.key"]
    key.require("run")
    return key


async def _version_of(program: str) -> str | None:
    """The version that a program of /usr tells of itself, which guests run, too."""
    try:
        process = await asyncio.create_subprocess_exec(
            f"/usr/bin/{program}", "--version", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
        )
    except OSError:
        return None
    try:
        told, _ = await asyncio.wait_for(process.communicate(), _VERSION_S)
    except TimeoutError:
        process.kill()
        return None
    found = _VERSION.search(told.decode("utf-8", "replace"))
    return None if found is None else found[0]


def _chosen(language: str, version: str, versions: Mapping[str, str]) -> _Runtime | None:
    """The runtime of this name or alias, if its version is one that was asked for."""
    for each in _RUNTIMES:
        if each.own in versions and (language == each.language or language in each.aliases):
            return each if _satisfies(versions[each.own], version) else None
    return None


def _satisfies(version: str, selector: str) -> bool:
    """Whether a version is one that a selector means: semver's ranges without hyphens and pre-releases."""
    numbers = tuple(map(int, version.split(".")))
    return any(_all_hold(numbers, choice) for choice in selector.split("||"))


def _all_hold(numbers: tuple[int, ...], choice: str) -> bool:
    has_term = False
    for word in _AFTER_OPERATOR.sub("", choice).split():
        end = 0
        while end < len(word):
            term = _TERM.match(word, end)
            if term is None or not _holds(numbers, term[1] or "", term[2]):
                return False
            has_term, end = True, term.end()
    return has_term


def _holds(numbers: tuple[int, ...], operator: str, told: str) -> bool:
    parts = [int(each) for each in itertools.takewhile(str.isdigit, told.split("."))]
    least = (*parts, 0, 0, 0)[:3]
    if operator in ("", "="):
        return list(numbers[: len(parts)]) == parts
    if operator == "^":  # up to the first part that is not 0
        fixed = next((at + 1 for at, part in enumerate(parts) if part), len(parts))
        return numbers >= least and list(numbers[:fixed]) == parts[:fixed]
    if operator == "~":
        fixed = min(2, len(parts))
        return numbers >= least and list(numbers[:fixed]) == parts[:fixed]
    if operator == ">":
        return numbers[: len(parts)] > tuple(parts)
    if operator == "<=":
        return numbers[: len(parts)] <= tuple(parts)
    return numbers >= least if operator == ">=" else numbers < least


def _program(given: Sequence[_File]) -> tuple[str, str, dict[str, bytes]]:
    """Return name and text of the first file of text, which is run, and all other files by their path."""
    files: dict[str, bytes] = {}
    main, source = "", None
    for at, file in enumerate(given):
        if source is None and file.encoding not in ("base64", "hex"):
            if len(file.content) > bodies.TEXT:
                told = f"files[{at}].content: a program has at most {bodies.TEXT} bytes"
                raise Refused(400, "invalid_argument", told)
            text = cast(Any, file.content)
            main, source = file.name or "", text if isinstance(text, str) else str(text, "utf-8")
        else:
            files[file.name or f"file{at}.code"] = _content(at, file)
    if source is None:
        raise Refused(400, "invalid_argument", "files must include at least one utf8 encoded file")
    return main, source, files


def _content(at: int, file: _File) -> bytes:
    """Return the bytes of a file. What is long in a body comes as a view of UTF-8 (`bodies.CONTENT`)."""
    content: Any = file.content
    data = content.encode("utf-8", "replace") if isinstance(content, str) else content
    try:
        if file.encoding == "base64":
            return bodies.decoded_base64(data)
        if file.encoding == "hex":
            return b"".join(_hex_parts(data))
    except ValueError as error:
        raise Refused(400, "invalid_argument", f"files[{at}].content is not {file.encoding}: {error}") from None
    return cast(bytes, data)


def _hex_parts(data: bytes) -> Iterator[bytes]:
    """Decode a part at a time, so that other threads have the interpreter in between."""
    packed = bytes(data).translate(None, b" \t\r\n\v\f")
    for at in range(0, len(packed), _HEX_BYTES):
        yield binascii.unhexlify(packed[at : at + _HEX_BYTES])


def _stage(execution: Execution, output: str | None) -> dict[str, Any]:
    """The stage `run`; a signal has its name, and a limit's SIGKILL stands where Piston has it."""
    outcome = execution.outcome
    if outcome is Outcome.CANCELLED:
        raise Refused(503, "cancelled", "the run was called off", retry_after_s=1.0)
    words = [f"{name}: {count} bytes were left out" for name, count in execution.dropped_bytes.items() if count]
    if execution.error is not None and execution.exit_code is None:
        words.append(execution.error.message)
    elif execution.exit_code:
        words.append(f"Exited with error status {execution.exit_code}")
    killed = None
    if execution.exit_code is None or outcome is Outcome.TIMEOUT:
        killed = "SIGKILL" if outcome is Outcome.TIMEOUT else _name_of(execution.exit_signal)
    usage = execution.usage
    return {
        "stdout": execution.stdout,
        "stderr": execution.stderr,
        "output": execution.stdout + execution.stderr if output is None else output,
        "code": execution.exit_code if killed is None else None,
        "signal": killed,
        "message": "; ".join(words) or None,
        "status": ("RE" if killed is None else _STATUS.get(outcome, "SG")) if not execution.ok else None,
        "cpu_time": None if usage.cpu_s is None else round(usage.cpu_s * 1e3),
        "wall_time": round(usage.wall_s * 1e3),
        "memory": usage.peak_memory_bytes,
    }


def _name_of(number: int | None) -> str:
    try:
        return signal.Signals(number or signal.SIGKILL).name
    except ValueError:  # a real-time signal
        return f"SIG{number}"


PROTOCOL: Final = WireProtocol(
    routes=_routes,
    key_headers=("authorization",),  # its clients send the key without a scheme
    bodies={("POST", "/api/v2/execute"): _Execute},
    at_gateway=AtGateway(
        placed={"/api/v2/execute": Placing(is_run=True)},
        is_anywhere=frozenset(("/api/v2/runtimes", "/api/v2/packages")).__contains__,
    ),
)
