"""Commands that use the engine in the background: a program of `groundbox run`, and sandboxes of longer commands.

The first is blocking, and without asyncio or anything of the sandbox's own: the command line pays for what it imports.
"""

from __future__ import annotations

import _thread
import base64
import contextlib
import dataclasses
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from groundbox.cli import program as programs
from groundbox.cli.ending import GRACE_S, Ended, say
from groundbox.cli.options import Asked
from groundbox.cli.program import Handed
from groundbox.cli.terminal import Screen
from groundbox.errors import EngineUnavailable, GuestFileError, InvalidArgument
from groundbox.execution import Execution
from groundbox.jail import NAMESPACES
from groundbox.remote import engine as engines
from groundbox.remote.execution import execution_of
from groundbox.remote.refusals import refusal_of
from groundbox.sandbox import languages

if TYPE_CHECKING:
    from groundbox.sandbox.portal import Sandbox
    from groundbox.sandbox.sandbox import AsyncSandbox

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def can_carry_out(asked: Asked, databases: Mapping[str, Any]) -> bool:
    """Whether the engine may take a run; what asks for a weaker wall, or for more of the host, stays here."""
    bounded = all(getattr(asked.limits, field.name) is not None for field in dataclasses.fields(asked.limits))
    own = databases or asked.waive or asked.mounts or asked.network.private_ranges
    return bounded and asked.backend == NAMESPACES and not own


class Makers(NamedTuple):
    """How a command makes its sandboxes; both take further arguments of Sandbox."""

    asynchronous: Callable[..., AsyncSandbox]
    blocking: Callable[..., Sandbox]


def makers(asked: Asked, databases: Mapping[str, Any], *, no_engine: bool) -> Makers:
    """Those of the engine where that may be, else those of this process.

    Sandboxes of the engine are held: they live however idle the command is, and end with it.
    """
    from groundbox.sandbox.portal import Sandbox
    from groundbox.sandbox.sandbox import AsyncSandbox

    if not no_engine and engines.wanted(say) and can_carry_out(asked, databases):
        from groundbox.remote.connect import connect

        try:
            server = connect("engine")
        except EngineUnavailable as error:
            say(f"{error}; this command goes on without it, which takes longer to start")
        else:
            names = ("limits", "network", "environment", "env")
            told: dict[str, Any] = {name: getattr(asked, name) for name in names}
            there: Any = server.AsyncSandbox  # has the methods of one here
            return Makers(partial(there, **told), partial(server.Sandbox, **told))
    told = {**vars(asked), **({"databases": databases} if databases else {})}
    return Makers(partial(AsyncSandbox, **told), partial(Sandbox, **told))


def run(
    source: str,
    options: Mapping[str, Any],
    asked: Asked,
    handed: Sequence[Handed],
    streams: tuple[Screen, Screen] | None,
) -> tuple[Execution, int]:
    """The result, and the number of the signal that came, or 0; output goes to `streams` as it comes.

    Raises:
        Ended: A signal ended it without a result.
        EngineUnavailable: The engine does not start, or went away; its `program_ran` tells which.
        GroundboxError: As the sandbox would raise here.
    """
    told: dict[str, Any] = {name: value for name, value in options.items() if value not in (None, (), False)}
    if isinstance(told.get("stdin"), bytes):
        told["stdin"] = {"base64": base64.b64encode(told["stdin"]).decode("ascii")}
    box = {
        "limits": dataclasses.asdict(asked.limits),
        "environment": asked.environment,
        "profile": languages.profile_for(told["language"], source, told.get("mode")),
        "idle_s": 10.0,
        **({"env": dict(asked.env)} if asked.env else {}),
    }
    if not asked.network.off:
        box["network"] = {"allow": list(asked.network.allow), "loopback": asked.network.loopback}
    path, link, where = _begun(box)
    with link, _heeding_signals(path, where) as came:
        for each in handed:
            _put(link, where, each.host, each.guest)
        body = {"code": source, "stream": True, "last": True, "artifacts": "bytes", **told}
        try:
            status, parts = link.stream("POST", f"{where}/run", body)
            if status >= 400:
                _answer(status, b"".join(parts))
            execution = _follow(path, parts, streams)
        except EngineUnavailable as error:
            error.program_ran = True
            raise
        if told.get("trace"):
            execution = _with_trace(link, execution)
    return execution, came[0] if came else 0


def _begun(box: Mapping[str, Any]) -> tuple[str, engines.Link, str]:
    """The engine's socket, a connection to it, and the path of a sandbox that was made there.

    Asked for twice, because an engine may end in the moment in which it was found.
    """
    for is_last in (False, True):
        path = engines.ensure_running()
        with contextlib.ExitStack() as unless_made:
            try:
                link = unless_made.enter_context(engines.Link(path))
                made = _answer(*link.ask("POST", "/v1/sandboxes", box))
            except EngineUnavailable:
                if is_last:
                    raise
                continue
            unless_made.pop_all()
            return path, link, f"/v1/sandboxes/{made['sandbox_id']}"
    raise AssertionError("the second attempt returns or raises")


def _follow(path: str, parts: Iterator[bytes], streams: tuple[Screen, Screen] | None) -> Execution:
    """Show the output of a run, and give its result."""
    for kind, data in engines.events(parts):
        if kind == "failed":
            raise refusal_of(int(data.get("code", 500)), data["error"])
        if kind == "end":
            for screen in streams or ():
                screen.end_guest()
            for _ in parts:
                pass  # so that the connection can be used again
            return execution_of(data["execution"], lambda execution_id: _Fetching(path, execution_id))
        if kind in ("stdout", "stderr") and streams is not None:
            streams[kind == "stderr"].guest(data["text"])
    raise EngineUnavailable("it ended a run without a result")


class _Fetching:
    """Gets the bytes of one execution, which the engine keeps for a while."""

    def __init__(self, path: str, execution_id: str) -> None:
        self._path, self._where = path, f"/v1/executions/{execution_id}"

    def __call__(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        from urllib.parse import quote

        asked = "&".join(f"{name}={quote(value, safe='')}" for name, value in (query or {}).items())
        with engines.Link(self._path) as link:
            status, body = link.ask("GET", quote(self._where + path), query=asked)
        if status >= 400:
            _answer(status, body)
        return body


def _with_trace(link: engines.Link, execution: Execution) -> Execution:
    from groundbox import tracer

    status, body = link.ask("GET", f"/v1/executions/{execution.execution_id}/trace")
    if status >= 400:
        return execution
    return dataclasses.replace(execution, trace=tracer.find().loads(body))


@contextlib.contextmanager
def _heeding_signals(path: str, where: str) -> Iterator[list[int]]:
    """Interrupt the program at the first SIGINT, SIGTERM or SIGHUP, and give up 2 s later or at the second one.

    Yields:
        The number of the first signal, once one came.
    """
    came: list[int] = []
    lock, is_over = _thread.allocate_lock(), False

    def interrupt(main: int) -> None:
        """Ask the engine, in a thread of its own: a signal handler must not wait for an answer."""
        is_interrupted = _interrupt(path, where)
        with lock:
            if not is_interrupted and not is_over:
                signal.pthread_kill(main, signal.SIGALRM)

    def take(number: int, _: FrameType | None) -> None:
        came.append(number)
        if len(came) > 1:
            raise Ended(came[0])
        signal.setitimer(signal.ITIMER_REAL, GRACE_S)
        _thread.start_new_thread(interrupt, (_thread.get_ident(),))

    def give_up(number: int, _: FrameType | None) -> None:
        raise Ended(came[0] if came else number)

    former = {number: signal.getsignal(number) for number in _SIGNALS}
    taken = [number for number, handler in former.items() if handler is not signal.SIG_IGN]
    alarm = signal.signal(signal.SIGALRM, give_up)
    for number in taken:
        signal.signal(number, take)
    try:
        yield came
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        with lock:  # afterwards no thread sends SIGALRM
            is_over = True
        signal.signal(signal.SIGALRM, alarm)
        for number in taken:
            signal.signal(number, former[number])


def _interrupt(path: str, where: str) -> bool:
    """Whether there was a program to interrupt."""
    try:
        with engines.Link(path) as link:
            return bool(_answer(*link.ask("POST", f"{where}/interrupt")).get("interrupted"))
    except EngineUnavailable:
        return False


def _put(link: engines.Link, where: str, source: Path, path: str | None) -> None:
    """Copy a file, or a folder with all regular files in it, into the workdir."""
    from urllib.parse import quote

    target = source.resolve().name if path is None else path
    try:
        target.encode()
    except UnicodeEncodeError:
        reason = f"{target!r} has bytes that are no UTF-8; give it another name by HOST:GUEST"
        raise programs.bad("--file", reason) from None
    try:
        if source.is_dir():
            _answer(*link.ask("PUT", quote(f"{where}/folders/{target}")))
            for file in sorted(source.rglob("*")):
                if file.is_file() and not file.is_symlink():
                    _put(link, where, file, f"{target}/{file.relative_to(source).as_posix()}")
            return
        mode = "755" if os.access(source, os.X_OK) else "644"
        _answer(*link.ask("PUT", quote(f"{where}/files/{target}"), source.read_bytes(), query=f"mode={mode}"))
    except (GuestFileError, OSError) as error:
        raise programs.bad("--file", str(error)) from None


def _answer(status: int, body: bytes) -> dict[str, Any]:
    """The JSON of an answer.

    Raises:
        GroundboxError: It is a refusal.
    """
    import json

    if status == 204:
        return {}
    try:
        told = json.loads(body)
    except ValueError:
        raise EngineUnavailable(f"it answered with status {status} and no JSON") from None
    if status >= 400:
        raise refusal_of(status, told.get("error") or {"code": "unknown"})
    if not isinstance(told, dict):
        raise InvalidArgument("engine", "answered with no object")
    return told
