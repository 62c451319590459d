"""Requests of the native API, as they are decoded: unknown names and wrong kinds are refused with their place."""

from __future__ import annotations

import base64
import binascii
import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, TypeVar

import msgspec
from starlette.requests import Request

from groundbox.errors import InvalidArgument
from groundbox.limits import Limits
from groundbox.network import Network
from groundbox.sandbox import languages, options
from groundbox.server import bodies
from groundbox.server.refusals import shortened

S = TypeVar("S", bound=msgspec.Struct)

Word = Annotated[str, msgspec.Meta(max_length=200)]
"""A name of ours or of a user's: a language, an environment, an owner."""
Label = Annotated[str, msgspec.Meta(max_length=1024)]
Path = Annotated[str, msgspec.Meta(max_length=4096)]
Argument = Annotated[str, msgspec.Meta(max_length=bodies.ARGUMENT)]
"""An argument or a variable of a program: Linux takes no longer one (MAX_ARG_STRLEN of execve(2))."""
Text = Annotated[str, msgspec.Meta(max_length=bodies.TEXT)]
Hash = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
Seconds = Annotated[float, msgspec.Meta(extra_json_schema={"exclusiveMinimum": 0})]
Count = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1, extra_json_schema={"minimum": 1})]
"""Numbers whose bounds the sandbox checks: the server has maxima of its own, which its settings say."""
Mounts = Annotated[
    list[Word], msgspec.Meta(max_length=16, description="Names of files that the server's operator shows read-only.")
]
"""The key needs the scope `mounts` for any; programs find the files at `/inputs/NAME`."""

# Arguments that have a place of their own in a request, or none, because they are the server's.
_NOT_OPTIONS: Final = (options.SandboxOptions.__annotations__.keys() | options.OneRunOptions.__annotations__.keys()) - (
    options.LanguageOptions.__annotations__.keys()
) | {"key", "held", "source", "wire", "last", "self"}


class _Request(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    pass


class Base64(_Request, kw_only=True):
    """Bytes of a file, where text does not do."""

    LONG: ClassVar[bodies.Long] = {"base64": bodies.BASE64}

    base64: str


class LimitsAsked(_Request, kw_only=True):
    """Limits of a sandbox; what is left out is as usual."""

    wall_s: Seconds | None = None
    cpu_s: Seconds | None = None
    memory_bytes: Count | None = None
    process_count: Count | None = None
    disk_bytes: Count | None = None
    file_count: Count | None = None
    output_bytes: Count | None = None


class NetworkAsked(_Request, kw_only=True):
    """Hosts that a sandbox may reach; the key needs the scope `network` for any."""

    allow: Annotated[list[Label], msgspec.Meta(max_length=1000)] = []
    loopback: bool = False
    headers: dict[Label, dict[Word, Annotated[str, msgspec.Meta(max_length=16384)]]] = {}


class SandboxAsked(_Request, kw_only=True):
    """Settings of a sandbox, as `AsyncSandbox` takes them."""

    LONG: ClassVar[bodies.Long] = {"env": bodies.ARGUMENT}

    limits: LimitsAsked | None = None
    network: NetworkAsked | None = None
    environment: Word | None = None
    profile: Word | None = None
    hash_seed: Hash | None = None
    inspect: bool | None = None
    restart: Literal["auto", "never"] | None = None
    branching: bool | None = None
    undo: Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1, extra_json_schema={"minimum": 0})] | None = None
    rollback: Literal["on_error"] | None = None
    env: dict[Argument, Argument] | None = None
    mounts: Mounts = []


class ProgramAsked(_Request, kw_only=True):
    """A program and how it is run, as `AsyncSandbox.run` takes it."""

    LONG: ClassVar[bodies.Long] = {
        "code": bodies.TEXT,
        "stdin": bodies.BYTES,
        "args": bodies.TEXT,
        "kwargs": bodies.TEXT,
        "options": bodies.TEXT,
        "argv": bodies.ARGUMENT,
        "env": bodies.ARGUMENT,
    }

    code: Text
    language: Word = "python"
    mode: Word | None = None
    argv: list[Argument] = []
    stdin: str | Base64 | None = None
    filename: Path | None = None
    call: Label | None = None
    args: list[Any] = []
    kwargs: dict[str, Any] | None = None
    wall_s: Seconds | None = None
    trace: bool = False
    checks: bool | None = None
    call_wall_s: Seconds | None = None
    call_cpu_s: Seconds | None = None
    namespace: Label | None = None
    dialect: Literal["duckdb", "sqlite"] | None = None
    max_tokens: Count | None = None
    aside: bool | None = None
    cwd: Path | None = None
    env: dict[Argument, Argument] | None = None
    keep_processes: bool | None = None
    options: dict[str, Any] = {}
    """Options of a language that another package brings."""

    def of_run(self) -> dict[str, Any]:
        """Arguments of AsyncSandbox.run; only what was given."""
        if known := self.options.keys() & _NOT_OPTIONS:
            raise InvalidArgument("options", f"{min(known)!r} is no option of a language")
        given: dict[str, Any] = {**self.options, "language": languages.named(self.language)}
        if self.argv:
            given["argv"] = self.argv
        if self.stdin is not None:
            given["stdin"] = content_of("stdin", self.stdin)
        if self.args:
            given["args"] = self.args
        if self.trace:
            given["trace"] = True
        for name in (
            *("mode", "filename", "call", "kwargs", "wall_s", "checks", "call_wall_s", "call_cpu_s", "namespace"),
            *("dialect", "max_tokens", "aside", "cwd", "env", "keep_processes"),
        ):
            value = getattr(self, name)
            if value is not None and not (name == "env" and isinstance(self, RunAsked)):  # there the sandbox has it
                given[name] = value
        return given


class RunAsked(ProgramAsked, kw_only=True):
    """A program in a sandbox of its own: `POST /v1/run`. Settings of the sandbox are those of SandboxAsked."""

    limits: LimitsAsked | None = None
    network: NetworkAsked | None = None
    environment: Word | None = None
    profile: Word | None = None
    hash_seed: Hash | None = None
    inspect: bool | None = None
    restart: Literal["auto", "never"] | None = None
    branching: bool | None = None
    undo: Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1, extra_json_schema={"minimum": 0})] | None = None
    rollback: Literal["on_error"] | None = None
    mounts: Mounts = []

    LONG: ClassVar[bodies.Long] = {**ProgramAsked.LONG, "files": bodies.BYTES}

    files: dict[Path, str | Base64] = {}
    stream: bool = False
    artifacts: Literal["facts", "bytes"] = "facts"


class BatchAsked(_Request, kw_only=True):
    """Programs in sandboxes of their own: `POST /v1/batch`."""

    programs: Annotated[list[RunAsked], msgspec.Meta(min_length=1, max_length=10_000)]


class BatchOfRaw(_Request, kw_only=True):
    """The same, whose programs are decoded in turns."""

    programs: Annotated[list[msgspec.Raw], msgspec.Meta(min_length=1, max_length=10_000)]


class CreateAsked(SandboxAsked, kw_only=True):
    """A sandbox that stays: `POST /v1/sandboxes`."""

    labels: dict[Label, Label] = {}
    idle_s: Seconds | None = None
    total_s: Seconds | None = None


class RunInAsked(ProgramAsked, kw_only=True):
    """A program in a sandbox that is there: `POST /v1/sandboxes/ID/run`."""

    restart: Literal["auto", "never"] | None = None
    stream: bool = False
    last: bool = False
    """Of a stream: the sandbox runs nothing more; its processes are ended before its files are read."""
    artifacts: Literal["facts", "bytes"] = "facts"


class QuestionAsked(_Request, kw_only=True):
    """A question to the server's model: `POST /v1/conversations`."""

    LONG: ClassVar[bodies.Long] = {"question": bodies.ARGUMENT, "files": bodies.BYTES}

    question: Annotated[str, msgspec.Meta(min_length=1, max_length=100_000)]
    sandbox_id: Word | None = None
    """One to work in, whose files and variables are there; by default one is made, with these labels."""
    labels: dict[Label, Label] = {}
    files: dict[Path, str | Base64] = {}


class TimeAsked(_Request, kw_only=True):
    """When a sandbox is closed: `POST /v1/sandboxes/ID/timeout`."""

    total_s: Seconds


class UndoAsked(_Request, kw_only=True):
    """How many runs are taken back: `POST /v1/sandboxes/ID/undo`."""

    n: Count = 1


class ForkAsked(_Request, kw_only=True):
    """How many sandboxes are made of one: `POST /v1/sandboxes/ID/fork`."""

    n: Count


class PathAsked(_Request, kw_only=True):
    """An order on files as guests see them: `POST /v1/sandboxes/ID/guest-files`."""

    LONG: ClassVar[bodies.Long] = {"data": bodies.BYTES}

    op: Literal["workdir", "read", "write", "mkdir", "remove", "stat", "exists", "list", "realpath"]
    path: Path = "."
    data: str | Base64 = ""
    mode: Annotated[int, msgspec.Meta(ge=0, le=0o7777)] | None = None


class QuotasAsked(_Request, kw_only=True):
    """Quotas of a key that is made."""

    sandboxes: Count | None = None
    runs_a_minute: Count | None = None
    cpu_s_a_day: Seconds | None = None
    bytes_a_day: Count | None = None


class KeyAsked(_Request, kw_only=True):
    """A key that is made: `POST /v1/keys`."""

    owner: Label
    scopes: tuple[Word, ...] = ("run",)
    quotas: QuotasAsked | None = None


def of_sandbox(asked: SandboxAsked | RunAsked) -> dict[str, Any]:
    """Arguments of AsyncSandbox; only what was given."""
    given: dict[str, Any] = {}
    for name in ("environment", "profile", "hash_seed", "inspect", "restart", "branching", "undo", "rollback", "env"):
        value = getattr(asked, name)
        if value is not None:
            given[name] = value
    if asked.mounts:
        given["mounts"] = asked.mounts
    if asked.limits is not None:
        chosen = {name: value for name, value in msgspec.structs.asdict(asked.limits).items() if value is not None}
        given["limits"] = dataclasses.replace(Limits(), **chosen)
    if asked.network is not None:
        given["network"] = Network(**msgspec.structs.asdict(asked.network))
    return given


async def read(request: Request, kind: type[S]) -> S:
    """Read the body of a request as one of this schema.

    Raises:
        Refused: It is no JSON, holds too much, or does not fit.
    """
    asked: S = await (await bodies.read(request)).decoded(kind)
    return asked


def decoded(body: bytes, kind: type[S]) -> S:
    """The request in a body of moderate size.

    Raises:
        Refused: It is no JSON, holds too much, or does not fit.
    """
    bodies.check(body)
    asked: S = bodies.decode(body, kind)
    return asked


def content_of(name: str, content: str | Base64 | memoryview) -> bytes | str:
    """Text as it is, or bytes. What was long in a body is bytes already.

    Raises:
        InvalidArgument: It is no base64.
    """
    text: Any = content.base64 if isinstance(content, Base64) else content
    if isinstance(text, memoryview) or not isinstance(content, Base64):
        return text  # type: ignore[no-any-return]
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidArgument(shortened(name), f"is no base64: {error}") from None


def files_of(files: Mapping[str, str | Base64]) -> dict[str, bytes | str]:
    """Contents by path."""
    return {path: content_of(path, content) for path, content in files.items()}
