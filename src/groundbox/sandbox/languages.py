"""Finding the runtime of a language by its name, without the engine knowing any language."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol

from groundbox.errors import InvalidArgument, LanguageUnavailable, UnknownArgument
from groundbox.execution import Execution, Outcome, Warning
from groundbox.sandbox.options import LANGUAGE, RUN
from groundbox.sandbox.profiles import GUEST_PATH, RESIDENTS
from groundbox.sandbox.readahead import read_ahead
from groundbox.suggestions import meant

if TYPE_CHECKING:
    from importlib import metadata

ENTRY_POINTS: Final = "groundbox.runtimes"
MOST_SOURCE_BYTES: Final = 8 * 1024 * 1024
"""Of a program."""
_OWN: Final = ("python", "sql", "shell", "javascript", "dot")
_ALIASES: Final = {
    **dict.fromkeys(("py", "py3", "python3", "ipy", "ipython", "ipython3", "cpython"), "python"),
    **dict.fromkeys(("sh", "bash", "shellscript", "shell-script"), "shell"),
    **dict.fromkeys(("js", "mjs", "cjs", "node", "nodejs", "node.js", "ecmascript"), "javascript"),
    **dict.fromkeys(("gv", "graphviz"), "dot"),
}
"""What people, files and fenced blocks call a language, to the name that it has here."""
_SEEN_BY_GUESTS: Final = ("/usr/", "/bin/", "/sbin/", "/lib/", "/lib64/")
_LIBRARY: Final = re.compile(r"^\t(?:\S+ => )?(/\S+) \(0x", re.MULTILINE)
"""A line of ldd(1)."""
_LDD_S: Final = 10.0
PROCESSES: Final = frozenset({"command", "resident"})
"""Modes of the guest whose programs run in processes that are not Python: docs/languages.md."""
Mode = Literal["cell", "script", "call", "calls", "command"]
Study = Callable[["Program"], Any]
Finish = Callable[["Program", Execution, Any], Execution]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Program:
    """What is to be run.

    Attributes:
        mode: `cell` (state is kept, the last expression is the value), `script` (a program of its own),
            `call` (a module of its own, then a call of one of its functions; the result is the value), `calls` (many
            calls, each in a module made anew) or another one of the language's own.
        argv: Arguments of a script.
        stdin: Standard input of a script; None for an empty one.
        filename: What messages call the program, and where it lies while an interpreter reads it.
        call: The function that is called, with `args` and `kwargs`, which are plain data. With `calls`, `args` has a
            pair of both for each call.
        options: What only this language knows, by name.
    """

    source: str
    mode: str = "cell"
    argv: Sequence[str] = ()
    stdin: bytes | None = None
    filename: str = "main.py"
    call: str | None = None
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ahead:
    """What a runtime did on the host for a program, before the guest gets its order.

    Attributes:
        data: Handed to the guest behind a descriptor; the order then has `given`.
        outcome: What the run ends as, where that is known already.
    """

    data: bytes
    outcome: Outcome | None = None
    warnings: Sequence[Warning] = ()

    def finished(self, execution: Execution, wall_s: float) -> Execution:
        """The result with what was done ahead, and the time that it took."""
        return dataclasses.replace(
            execution,
            outcome=self.outcome or execution.outcome,
            warnings=(*execution.warnings, *self.warnings),
            usage=dataclasses.replace(execution.usage, wall_s=execution.usage.wall_s + wall_s),
        )


class Needs(NamedTuple):
    """The program that a language runs in, as found in GUEST_PATH, and how to get it."""

    program: str
    advice: str


class SelfTest(NamedTuple):
    """A program that works where the language does, and what it then prints."""

    source: str
    mode: Mode
    prints: str


class Runtime(Protocol):
    """What one language needs. A module is enough, with these as functions and names.

    One that takes options lists their names in `OPTIONS`. Five more functions may be there.
    `ahead(program, databases, wall_s)` gives a coroutine that does what is to be done on the host before the guest
    gets its order, and returns `Ahead` or None; or it gives None where there is nothing to do.
    `screen(data)` makes of each display's bundle what may be shown.
    `resident()` describes the process that keeps its cells' state, for a profile that has it started ahead.
    `study(program)` finds out what the source alone tells, in a thread, while the program runs.
    `finish(program, execution, studied)` adds to a result what the host can tell of it, in time that is linear in
    the output; `studied` is None without `study`.

    Attributes:
        MODES: The first one is what a program runs as when nothing else is asked for.
        EXTENSION: Of its files, such as `.py`.
        NEEDS: None when it needs nothing but an environment.
    """

    MODES: Sequence[str]
    EXTENSION: str
    NEEDS: Needs | None
    SELF_TEST: SelfTest

    def profile(self, source: str) -> str:
        """Which template suits a sandbox that runs only this: `bare`, `science` or `node`."""

    def order(self, program: Program) -> dict[str, Any]:
        """The order for the worker, without limits and id. docs/languages.md has the modes and their fields.

        Raises:
            InvalidArgument: The program's mode or arguments make no sense in this language.
        """


class Language(NamedTuple):
    """One language, as listed. `missing` says what is missing and how to get it; None when it can be used."""

    name: str
    modes: Sequence[str]
    missing: LanguageUnavailable | None


def named(language: str) -> str:
    """The name that a language has here: `shell` for `bash`, `python` for `Python3`; any other name as it is."""
    if language in _OWN or not isinstance(language, str):
        return language
    spoken = language.strip().lower()
    return spoken if spoken in _OWN else _ALIASES.get(spoken, language)


def find(language: str) -> Runtime:
    """The runtime called `language`, which may be any name that `named` knows.

    Raises:
        InvalidArgument: There is none; the message lists those there are.
    """
    language = named(language)
    if language in _OWN:
        return _own(language)
    others = _others()
    if language in others:
        runtime: Runtime = others[language].load()
        return runtime
    known = sorted({*_OWN, *others})
    problem = f"{language!r} is not known here; there is: {', '.join(known)}"
    raise InvalidArgument("language", f"{problem}{_meant(language, known)}")


@functools.cache
def _own(language: str) -> Runtime:
    return importlib.import_module(f"groundbox.runtimes.{language}")


def _meant(language: object, known: Collection[str]) -> str:
    """The end of a complaint about a language that there is not, or ""."""
    spoken = str(language).strip().lower()[:60]
    if spoken in ("sqlite", "sqlite3", "duckdb"):
        return f"; it is `sql` with the dialect `{spoken.rstrip('3')}`"
    if spoken in ("postgres", "postgresql", "psql", "mysql", "mariadb"):
        return "; it is `sql` with a database of the sandbox (docs/sql.md)"
    import difflib

    close = difflib.get_close_matches(spoken, [*known, *_ALIASES], 1, 0.75)
    return f"; did you mean `{_ALIASES.get(close[0], close[0])}`?" if close else ""


def profile_for(language: str, source: str, mode: str | None) -> str:
    """The profile that suits a sandbox which runs only this; without a waiting process where no cell is run."""
    runtime = find(language)
    profile = runtime.profile(source)
    return "bare" if profile in RESIDENTS and (mode or runtime.MODES[0]) != "cell" else profile


def listed() -> list[Language]:
    """All languages, also those that are not installed."""
    names = [*_OWN, *sorted(set(_others()) - set(_OWN))]
    return [Language(name, tuple(find(name).MODES), missing(name)) for name in names]


def missing(language: str) -> LanguageUnavailable | None:
    """What a guest would miss."""
    language = named(language)
    needs = find(language).NEEDS
    if needs is None or _guests_see(needs.program):
        return None
    return LanguageUnavailable(language, needs.program, needs.advice)


async def require(language: str) -> None:
    """Look for what a guest needs, in a thread the first time: then whole programs are read ahead.

    Raises:
        LanguageUnavailable: It is not where guests would find it.
    """
    needs = find(language).NEEDS
    if needs is None or needs.program in _FOUND:
        return
    import asyncio

    if lacking := await asyncio.to_thread(missing, language):
        raise lacking


def optional(runtime: Runtime, name: Literal["screen", "study", "finish", "resident"]) -> Any:
    """One of the functions that a runtime may leave out."""
    return getattr(runtime, name, None)


def _others() -> dict[str, metadata.EntryPoint]:
    from importlib import metadata

    return {point.name: point for point in metadata.entry_points(group=ENTRY_POINTS)}


def _guests_see(program: str) -> bool:
    """Whether it lies, links resolved, in what guests see of the host."""
    if program in _FOUND:
        return True
    import shutil

    found = shutil.which(program, path=GUEST_PATH)
    if found is None or not os.path.realpath(found).startswith(_SEEN_BY_GUESTS):
        return False
    _read_ahead(found)
    _FOUND.add(program)
    return True


_FOUND: Final[set[str]] = set()


def _read_ahead(program: str) -> None:
    """Have a program and its libraries read by this process, before the first guest does.

    With the 94 MB of node in a guest's `memory_bytes`, the kernel drops its code at this limit and reads it again, for
    as long as the run may take, in place of ending it.
    """
    import subprocess

    try:
        told = subprocess.run(["ldd", program], capture_output=True, text=True, timeout=_LDD_S, check=False).stdout
    except (OSError, subprocess.SubprocessError):  # the program alone, then
        told = ""
    read_ahead((program, *_LIBRARY.findall(told)))


def check_options(language: str, runtime: Runtime, names: Iterable[str]) -> None:
    """Refuse options that the language does not know.

    Raises:
        UnknownArgument: The message says which argument was meant, or lists those that the language knows.
    """
    known = option_names(runtime)
    for name in names:
        if name not in known:
            takers = " and ".join(other for other in _OWN if name in option_names(find(other)))
            belongs = f" for {language} (it belongs to {takers})" if takers else ""
            own = f"{language} takes {', '.join(sorted(known)) or 'no options of its own'}"
            hint = "" if takers else meant(name, "run()", (RUN - LANGUAGE) | known)
            raise UnknownArgument(name, f"is no argument of run(){belongs}{hint or f', and {own}'}")


def option_names(runtime: Runtime) -> frozenset[str]:
    """What `run` takes for programs of this language only."""
    return frozenset(getattr(runtime, "OPTIONS", ()))
