"""The arguments of a run and of a sandbox by name, with their types, for editors and type checkers.

`run`, `Sandbox.run`, `stream` and their asynchronous twins take the same arguments. They are written down here once, as
typed dictionaries that signatures unpack; `spelled_out` makes `inspect.signature` and `help` show them one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict, TypeVar

from groundbox.errors import InvalidArgument
from groundbox.jail import NAMESPACES

if TYPE_CHECKING:
    import inspect
    from os import PathLike

    from groundbox.limits import Limits
    from groundbox.network import Network
    from groundbox.sandbox.bridge.tools import Grant
    from groundbox.sandbox.languages import Mode
    from groundbox.trace_options import TraceOptions

Restart = Literal["auto", "never"]
Rollback = Literal["on_error"]
Engine = Literal["own", "background"]
MOST_UNDO: Final = 64
F = TypeVar("F", bound=Callable[..., Any])


class LanguageOptions(TypedDict, total=False):
    """What only one language knows. Given to a program of another one, it is refused."""

    checks: bool
    """Python: watch for what may make a result wrong, and tell it as warnings (docs/checks.md)."""
    call_wall_s: float | None
    """Python: with `mode="calls"`, how long each call may take, in seconds."""
    call_cpu_s: float | None
    """Python: with `mode="calls"`, how much processor time each call may use, in seconds."""
    namespace: str | None
    """Python: which variables a cell has; cells of one name share theirs."""
    dialect: Literal["duckdb", "sqlite"]
    """SQL: the engine that runs it over files and DataFrames."""
    database: str | None
    """SQL: one of the sandbox's `databases`, asked instead."""
    max_tokens: int | None
    """SQL: how long the answer to DESCRIBE ALL may be."""
    aside: bool
    """SQL: leave the variables `result` and `_sql` alone."""
    cwd: str | None
    """Shell: the folder it runs in."""
    env: Mapping[str, str] | None
    """Python and shell: environment variables for this run. Sandboxes take `env`, too, for all of theirs."""
    keep_processes: bool
    """Shell: whether what it leaves running lives on."""


class ProgramOptions(LanguageOptions, total=False):
    """What a run takes besides the source, wherever it happens."""

    language: str
    """`python`, `sql`, `shell`, `javascript`, `dot`, or one that another package brings."""
    mode: Mode | None
    """`cell`, `script`, `call`, `calls` or `command`; None for the first of the language's own."""
    argv: Iterable[str]
    """Arguments of a script."""
    stdin: bytes | str | None
    """Standard input of a script."""
    filename: str | None
    """What messages call the program; None for `main` with the language's ending."""
    call: str | None
    """With `mode="call"` or `"calls"`, the function that is called after the module has run."""
    args: Sequence[Any]
    """Its arguments: plain Python data. With `mode="calls"`, for each call a pair of those by place and by name."""
    kwargs: Mapping[str, Any] | None
    """Its arguments by name."""
    trace: bool | TraceOptions
    """Record what the program does (docs/trace.md)."""
    wall_s: float | None
    """A shorter limit for this run alone, in seconds."""


class RunOptions(ProgramOptions, total=False):
    """What `run` of a sandbox takes besides the source."""

    restart: Restart | None
    """`auto`: begin afresh where an earlier run ended the process. None for what the sandbox was made with."""


class StreamOptions(RunOptions, total=False):
    """What `stream` takes besides the source."""

    last: bool
    """The sandbox runs nothing more: every process is ended before its files are read."""


class SandboxOptions(TypedDict, total=False):
    """What a sandbox is made with."""

    limits: Limits | None
    """What it may use; None for the usual `Limits()`."""
    network: Network | None
    """What it may reach; None for nothing."""
    environment: str
    """The packages that guests import."""
    backend: str
    """How the wall is built: `namespaces`, or `landlock` for plain containers; `bare` is none, and for tests."""
    profile: str | None
    """Which libraries are imported already: `bare`, `science`, `node`; None chooses by the first program."""
    waive: Iterable[str]
    """Layers to do without, by the names that `groundbox doctor` prints."""
    hash_seed: int | None
    """Fixes the guest's string hashing; None for a random one."""
    databases: Mapping[str, Any] | Iterable[str]
    """What SQL may ask by `database=NAME` (docs/sql.md)."""
    inspect: bool
    """Whether results tell what their files are (docs/artifacts.md)."""
    tools: Grant | None
    """What Python code may call on the host (docs/tools.md)."""
    branching: bool
    """Whether it can be copied while it lives (docs/branching.md); `undo` and `rollback` imply it."""
    undo: int
    """How many states before a run are kept, for `undo()` to go back to."""
    rollback: Rollback | None
    """`on_error`: after a run that failed, variables and files are as they were before it. None: they stay."""
    restart: Restart | None
    """`auto`: a run begins afresh where an earlier one ended the process. None or `never`: it raises SandboxLost."""
    env: Mapping[str, str] | None
    """Environment variables of all its programs."""
    engine: Engine | None
    """`own` for this process, `background` for the engine that this user's programs share; None for either."""
    mounts: Mapping[str, str | PathLike[str]] | Sequence[str] | None
    """Files and folders of the host that programs read at `/inputs/NAME`, without a copy; on a server, names alone."""


class OneRunOptions(SandboxOptions, ProgramOptions, total=False):
    """What `groundbox.run` takes: a sandbox's arguments, those of its only run, and files for it."""

    files: Mapping[str, bytes | str] | None
    """Path in the workdir to content."""


DEFAULTS: Final[Mapping[str, Any]] = {
    "language": "python",
    "mode": None,
    "argv": (),
    "stdin": None,
    "filename": None,
    "call": None,
    "args": (),
    "kwargs": None,
    "trace": False,
    "wall_s": None,
    "restart": None,
    "checks": False,
    "call_wall_s": None,
    "call_cpu_s": None,
    "namespace": None,
    "dialect": "duckdb",
    "database": None,
    "max_tokens": None,
    "aside": False,
    "cwd": None,
    "env": None,
    "mounts": None,
    "engine": None,
    "keep_processes": False,
    "last": False,
    "files": None,
    "limits": None,
    "network": None,
    "environment": "default",
    "backend": NAMESPACES,
    "profile": "science",
    "waive": (),
    "hash_seed": None,
    "databases": (),
    "inspect": True,
    "tools": None,
    "branching": False,
    "undo": 0,
    "rollback": None,
}
"""What leaving an argument out means. None for a language's own option leaves it out."""


_MOST_SEED: Final = 0xFFFFFFFF


def check(given: Mapping[str, Any]) -> None:
    """Refuse values of a wrong kind among the arguments of a sandbox; what is not told here is told where it is used.

    Raises:
        InvalidArgument: There is one; it names what the argument takes.
    """
    for name, value in given.items():
        takes = _WRONG[name](value) if name in _WRONG else ""
        if takes:
            raise InvalidArgument(name, f"must be {takes}, not {_shown(value)}")


def _is_list(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes)


def _shown(value: Any) -> str:
    plain = value is None or isinstance(value, bool | int | float | str | bytes)
    text = repr(value) if plain else ""
    return text if plain and len(text) < 80 else f"of type {type(value).__name__}"


def _wrong_waive(value: Any) -> str:
    right = _is_list(value) and all(isinstance(each, str) for each in value)
    return "" if right else "a list of layers, such as ['cgroup']"


def _wrong_seed(value: Any) -> str:
    right = value is None or (type(value) is int and 0 <= value <= _MOST_SEED)
    return "" if right else f"None or a whole number from 0 to {_MOST_SEED}"


_WRONG: Final[Mapping[str, Callable[[Any], str]]] = {
    "environment": lambda value: "" if isinstance(value, str) else "the name of an environment, such as 'default'",
    "backend": lambda value: "" if isinstance(value, str) else "the name of a backend, such as 'namespaces'",
    "profile": lambda value: (
        "" if value is None or isinstance(value, str) else "None or the name of a profile, such as 'science'"
    ),
    "waive": _wrong_waive,
    "hash_seed": _wrong_seed,
    "databases": lambda value: "" if _is_list(value) else "names to databases or URLs, or a list of names",
    "inspect": lambda value: "" if isinstance(value, bool) else "True or False",
    "branching": lambda value: "" if isinstance(value, bool) else "True or False",
    "undo": lambda value: (
        "" if type(value) is int and 0 <= value <= MOST_UNDO else f"a whole number from 0 to {MOST_UNDO}"
    ),
    "engine": lambda value: "" if value in (None, "own", "background") else "None, 'own' or 'background'",
    "rollback": lambda value: "" if value in (None, "on_error") else "None or 'on_error'",
    "tools": lambda value: (
        "" if value is None or _is_list(value) or hasattr(value, "manifest") else "a list of functions"
    ),
    "files": lambda value: "" if value is None or isinstance(value, Mapping) else "a mapping of paths to contents",
}
"""By argument: the words for what it takes, or "" for a value that it does take."""


def names(options: type) -> frozenset[str]:
    """The arguments that a typed dictionary lists, with those of the ones it is made from."""
    return frozenset(options.__annotations__)


LANGUAGE: Final = names(LanguageOptions)
PROGRAM: Final = names(ProgramOptions)
RUN: Final = names(RunOptions)
STREAM: Final = names(StreamOptions)
SANDBOX: Final = names(SandboxOptions)
ONE_RUN: Final = names(OneRunOptions)


def spelled_out(options: type, **other_defaults: Any) -> Callable[[F], F]:
    """Decorator: for a function that takes `**options`, show each of them in its signature."""
    import inspect

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
        defaults = {**DEFAULTS, **other_defaults}
        named = [_parameter(name, kind, defaults[name]) for name, kind in options.__annotations__.items()]
        shown = sorted(own + named, key=lambda each: each.kind)
        function.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
        return function

    return decorate


def _parameter(name: str, kind: Any, default: Any) -> inspect.Parameter:
    import inspect

    annotation = getattr(kind, "__forward_arg__", kind)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
