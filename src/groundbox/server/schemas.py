"""Requests of the native API, as they are decoded: unknown names and wrong kinds are refused with their place."""

from __future__ import annotations

import base64
import binascii
import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec

from groundbox.errors import InvalidArgument
from groundbox.limits import Limits
from groundbox.network import Network
from groundbox.sandbox import languages, options
from groundbox.server.refusals import Refused

S = TypeVar("S", bound=msgspec.Struct)


# Arguments that have a place of their own in a request, or none, because they are the server's.
_NOT_OPTIONS: Final = (options.SandboxOptions.__annotations__.keys() | options.OneRunOptions.__annotations__.keys()) - (
    options.LanguageOptions.__annotations__.keys()
) | {"key", "held", "source", "wire", "last", "self"}


class _Request(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    pass


class Base64(_Request, kw_only=True):
    """Bytes of a file, where text does not do."""

    base64: str


class LimitsAsked(_Request, kw_only=True):
    """Limits of a sandbox; what is left out is as usual."""

    wall_s: float | None = None
    cpu_s: float | None = None
    memory_bytes: int | None = None
    process_count: int | None = None
    disk_bytes: int | None = None
    file_count: int | None = None
    output_bytes: int | None = None


class NetworkAsked(_Request, kw_only=True):
    """Hosts that a sandbox may reach; the key needs the scope `network` for any."""

    allow: list[str] = []
    loopback: bool = False
    headers: dict[str, dict[str, str]] = {}


class SandboxAsked(_Request, kw_only=True):
    """Settings of a sandbox, as `AsyncSandbox` takes them."""

    limits: LimitsAsked | None = None
    network: NetworkAsked | None = None
    environment: str | None = None
    profile: str | None = None
    hash_seed: int | None = None
    inspect: bool | None = None
    restart: Literal["auto", "never"] | None = None
    branching: bool | None = None
    undo: int | None = None
    rollback: Literal["on_error"] | None = None


class ProgramAsked(_Request, kw_only=True):
    """A program and how it is run, as `AsyncSandbox.run` takes it."""

    code: str
    language: str = "python"
    mode: str | None = None
    argv: list[str] = []
    stdin: str | Base64 | None = None
    filename: str | None = None
    call: str | None = None
    args: list[Any] = []
    kwargs: dict[str, Any] | None = None
    wall_s: float | None = None
    trace: bool = False
    checks: bool | None = None
    call_wall_s: float | None = None
    call_cpu_s: float | None = None
    namespace: str | None = None
    dialect: Literal["duckdb", "sqlite"] | None = None
    max_tokens: int | None = None
    aside: bool | None = None
    cwd: str | None = None
    env: dict[str, str] | None = None
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
            if value is not None:
                given[name] = value
        return given


class RunAsked(ProgramAsked, kw_only=True):
    """A program in a sandbox of its own: `POST /v1/run`. Settings of the sandbox are those of SandboxAsked."""

    limits: LimitsAsked | None = None
    network: NetworkAsked | None = None
    environment: str | None = None
    profile: str | None = None
    hash_seed: int | None = None
    inspect: bool | None = None
    restart: Literal["auto", "never"] | None = None
    branching: bool | None = None
    undo: int | None = None
    rollback: Literal["on_error"] | None = None

    files: dict[str, str | Base64] = {}
    stream: bool = False
    artifacts: Literal["facts", "bytes"] = "facts"


class BatchAsked(_Request, kw_only=True):
    """Programs in sandboxes of their own: `POST /v1/batch`."""

    programs: Annotated[list[RunAsked], msgspec.Meta(min_length=1, max_length=10_000)]


class CreateAsked(SandboxAsked, kw_only=True):
    """A sandbox that stays: `POST /v1/sandboxes`."""

    labels: dict[str, str] = {}
    idle_s: float | None = None
    total_s: float | None = None


class RunInAsked(ProgramAsked, kw_only=True):
    """A program in a sandbox that is there: `POST /v1/sandboxes/ID/run`."""

    restart: Literal["auto", "never"] | None = None
    stream: bool = False
    last: bool = False
    """Of a stream: the sandbox runs nothing more; its processes are ended before its files are read."""
    artifacts: Literal["facts", "bytes"] = "facts"


class QuestionAsked(_Request, kw_only=True):
    """A question to the server's model: `POST /v1/conversations`."""

    question: Annotated[str, msgspec.Meta(min_length=1, max_length=100_000)]
    sandbox_id: str | None = None
    """One to work in, whose files and variables are there; by default one is made, with these labels."""
    labels: dict[str, str] = {}
    files: dict[str, str | Base64] = {}


class TimeAsked(_Request, kw_only=True):
    """When a sandbox is closed: `POST /v1/sandboxes/ID/timeout`."""

    total_s: float


class UndoAsked(_Request, kw_only=True):
    """How many runs are taken back: `POST /v1/sandboxes/ID/undo`."""

    n: int = 1


class ForkAsked(_Request, kw_only=True):
    """How many sandboxes are made of one: `POST /v1/sandboxes/ID/fork`."""

    n: int


class PathAsked(_Request, kw_only=True):
    """An order on files as guests see them: `POST /v1/sandboxes/ID/guest-files`."""

    op: Literal["workdir", "read", "write", "mkdir", "remove", "stat", "exists", "list", "realpath"]
    path: str = "."
    data: str | Base64 = ""
    mode: int | None = None


class QuotasAsked(_Request, kw_only=True):
    """Quotas of a key that is made."""

    sandboxes: int | None = None
    runs_a_minute: int | None = None
    cpu_s_a_day: float | None = None
    bytes_a_day: int | None = None


class KeyAsked(_Request, kw_only=True):
    """A key that is made: `POST /v1/keys`."""

    owner: str
    scopes: tuple[str, ...] = ("run",)
    quotas: QuotasAsked | None = None


def of_sandbox(asked: SandboxAsked | RunAsked) -> dict[str, Any]:
    """Arguments of AsyncSandbox; only what was given."""
    given: dict[str, Any] = {}
    for name in ("environment", "profile", "hash_seed", "inspect", "restart", "branching", "undo", "rollback"):
        value = getattr(asked, name)
        if value is not None:
            given[name] = value
    if asked.limits is not None:
        chosen = {name: value for name, value in msgspec.structs.asdict(asked.limits).items() if value is not None}
        given["limits"] = dataclasses.replace(Limits(), **chosen)
    if asked.network is not None:
        given["network"] = Network(**msgspec.structs.asdict(asked.network))
    return given


def decoded(body: bytes, kind: type[S]) -> S:
    """The request in a body.

    Raises:
        Refused: It is no JSON, nested deeper than the interpreter allows (about 1,000 levels), or not of this schema.
    """
    try:
        return msgspec.json.decode(body or b"{}", type=kind)
    except msgspec.ValidationError as error:
        raise Refused(400, "invalid_argument", f"the body does not fit: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(400, "bad_json", f"the body is no JSON: {error}") from None


def content_of(name: str, content: str | Base64) -> bytes | str:
    """Text as it is, or bytes.

    Raises:
        InvalidArgument: It is no base64.
    """
    if isinstance(content, str):
        return content
    try:
        return base64.b64decode(content.base64, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidArgument(name, f"is no base64: {error}") from None


def files_of(files: Mapping[str, str | Base64]) -> dict[str, bytes | str]:
    """Contents by path."""
    return {path: content_of(path, content) for path, content in files.items()}
