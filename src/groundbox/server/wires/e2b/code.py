"""The code interpreter: programs in contexts, and their results as lines of JSON.

A client that goes away interrupts its program, as the clients of E2B rely on: variables stay. A program that does not
heed the interrupt within a second is ended with its process, and the next one begins afresh, which its stderr tells.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import secrets
import sys
import time
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from groundbox.execution import CHART, Event, Execution
from groundbox.sandbox import languages
from groundbox.server import bodies
from groundbox.server.keeping import size_of
from groundbox.server.keys import Key
from groundbox.server.refusals import Refused, not_found
from groundbox.server.replies import NDJSON, Streamed, json_reply, line
from groundbox.server.sandboxes import Held
from groundbox.server.schemas import Argument, Path, Text, Word, read
from groundbox.server.service import Ran, Service
from groundbox.server.wires.e2b.access import HOME, DataRoute, State, asked_for, gone

_INTERRUPT_S: Final = 1.0
_WAITING: Final = 64
_MOST_CONTEXTS: Final = 64
_MOST_COMMAND_CHARS: Final = 30_000
_LANGUAGES: Final = {"python": "python", "javascript": "javascript", "shell": "bash", "sql": "sql", "dot": "dot"}
"""Our names of languages to E2B's."""
_FIELDS: Final = {
    "text/plain": "text",
    "text/html": "html",
    "text/markdown": "markdown",
    "image/svg+xml": "svg",
    "image/png": "png",
    "image/jpeg": "jpeg",
    "application/pdf": "pdf",
    "text/latex": "latex",
    "application/json": "json",
    "application/javascript": "javascript",
}
_TABLE: Final = "application/vnd.dataresource+json"
_Coordinate = float | str | None


class _Chart(msgspec.Struct):
    """A chart of which clients read no more than this."""

    title: str | None
    elements: list[Any]


class _Axes(_Chart):
    x_label: str | None
    y_label: str | None
    x_unit: str | None
    y_unit: str | None


class _Points(msgspec.Struct):
    label: str
    points: list[tuple[_Coordinate, _Coordinate]]


class _PointChart(_Axes):
    x_ticks: list[_Coordinate]
    x_tick_labels: list[str]
    x_scale: str
    y_ticks: list[_Coordinate]
    y_tick_labels: list[str]
    y_scale: str
    elements: list[_Points]


class _Bar(msgspec.Struct):
    label: str
    group: str
    value: _Coordinate


class _BarChart(_Axes):
    elements: list[_Bar]


class _Slice(msgspec.Struct):
    label: str
    angle: float
    radius: float


class _PieChart(_Chart):
    elements: list[_Slice]


class _Box(msgspec.Struct):
    label: str
    min: float
    first_quartile: float
    median: float
    third_quartile: float
    max: float
    outliers: list[float]


class _BoxChart(_Axes):
    elements: list[_Box]


_CHARTS: Final[dict[str, type[_Chart]]] = {
    "line": _PointChart,
    "scatter": _PointChart,
    "bar": _BarChart,
    "pie": _PieChart,
    "box_and_whisker": _BoxChart,
    "unknown": _Chart,
}
"""Shapes that E2B's clients read without a look at them; a guest may show any."""


@dataclasses.dataclass(kw_only=True, slots=True)
class Context:
    """Programs that share variables.

    Attributes:
        language: Our name of it.
        cwd: As its maker said.
        namespace: Which set of variables of Python it has; None for the usual one.
        is_usual: Made with the sandbox.
        runs: Programs that were run in it.
    """

    id: str
    language: str
    cwd: str
    namespace: str | None = None
    is_usual: bool = False
    runs: int = 0

    @property
    def size_bytes(self) -> int:
        """Memory of it in this process, about."""
        return 1024 + size_of(self.cwd)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {"id": self.id, "language": _LANGUAGES.get(self.language, self.language), "cwd": self.cwd}


class _Asked(msgspec.Struct, kw_only=True):
    LONG: ClassVar[bodies.Long] = {"code": bodies.TEXT, "env_vars": bodies.ARGUMENT}

    code: Text
    context_id: Word | None = None
    language: Word | None = None
    env_vars: dict[Argument, Argument] | None = None


class _ContextAsked(msgspec.Struct, kw_only=True):
    language: Word | None = None
    cwd: Path | None = None


def with_usual_contexts(state: State) -> None:
    """The contexts that every sandbox has."""
    for language in ("python", "javascript", "shell"):
        context = Context(id=secrets.token_hex(16), language=language, cwd=HOME, is_usual=True)
        state.contexts[context.id] = context


class Code:
    """The routes of the code interpreter."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def routes(self) -> list[Route]:
        """All of them."""
        table: list[tuple[str, str, Any]] = [
            ("POST", "/execute", self.execute),
            ("POST", "/contexts", self.create),
            ("GET", "/contexts", self.listed),
            ("DELETE", "/contexts/{context_id}", self.remove),
            ("POST", "/contexts/{context_id}/restart", self.restart),
        ]
        return [DataRoute(path, endpoint, methods=[method]) for method, path, endpoint in table]

    async def execute(self, request: Request) -> Response:
        """`POST /execute`"""
        key, held, state = asked_for(self._service, request)
        asked = await read(request, _Asked)
        with self._service.errors():
            context = _context(state, asked.context_id, asked.language)
            languages.find(context.language)
        run = _Run(self._service, key, held, state, context, asked)
        return Streamed(
            run.lines(),
            media_type=NDJSON,
            heartbeat=line({"type": "keepalive"}),
            heartbeat_s=self._service.settings.heartbeat_s,
            refused=_cut,
        )

    async def create(self, request: Request) -> Response:
        """`POST /contexts`"""
        _, held, state = asked_for(self._service, request)
        asked = await read(request, _ContextAsked)
        language = languages.named(asked.language or "python")
        if len(state.contexts) >= _MOST_CONTEXTS:
            raise Refused(400, "invalid_argument", f"a sandbox has at most {_MOST_CONTEXTS} contexts")
        if language != "python":
            with self._service.errors():
                languages.find(language)
            told = f"one context of {asked.language} is there in each sandbox; pass language= to run_code instead"
            raise Refused(400, "not_supported", told)
        context = Context(
            id=secrets.token_hex(16), language=language, cwd=asked.cwd or HOME, namespace=secrets.token_hex(8)
        )
        if context.cwd != HOME:
            with self._service.errors(), held.in_use() as box:
                source = f"__import__('os').chdir({json.dumps(context.cwd)})"
                entered = await box.run(source, **_within(context))
            if entered.error is not None:
                raise Refused(400, "invalid_argument", f"cwd: {entered.error.message}")
        self._service.sandboxes.keep(held, context.size_bytes, "context")
        state.contexts[context.id] = context
        return json_reply(context.to_dict())

    async def listed(self, request: Request) -> Response:
        """`GET /contexts`"""
        _, _, state = asked_for(self._service, request)
        return json_reply([context.to_dict() for context in state.contexts.values()])

    async def remove(self, request: Request) -> Response:
        """`DELETE /contexts/ID`"""
        _, held, state = asked_for(self._service, request)
        context = _known(state, request.path_params["context_id"])
        await self._forget(held, state, context)
        if state.contexts.pop(context.id, None) is not None and not context.is_usual:
            self._service.sandboxes.forget(held, context.size_bytes)
        return Response(status_code=204)

    async def restart(self, request: Request) -> Response:
        """`POST /contexts/ID/restart`: its program is interrupted, its variables go; imported modules stay."""
        _, held, state = asked_for(self._service, request)
        context = _known(state, request.path_params["context_id"])
        await self._forget(held, state, context)
        context.namespace, context.runs = secrets.token_hex(8), 0
        return Response(status_code=204)

    async def _forget(self, held: Held, state: State, context: Context) -> None:
        """Let the variables of a context go, with what they hold."""
        if context.language != "python":
            told = "the variables of this language go with its sandbox alone; make another sandbox"
            raise Refused(501, "not_supported", told)
        if state.current is not None and state.current[0] is context:
            await _stop(held, state.current[1])
        if not context.runs:
            return
        with self._service.errors(), held.in_use() as box:
            async with state.running:
                await box.run("globals().clear()", **_within(context))


class _Run:
    """One program, from its request to the last line."""

    def __init__(self, service: Service, key: Key, held: Held, state: State, context: Context, asked: _Asked) -> None:
        self._service, self._key, self._held, self._state = service, key, held, state
        self._context, self._asked = context, asked
        self._items: asyncio.Queue[Event | Ran | Exception | None] = asyncio.Queue(_WAITING)
        self._runs_before = sys.maxsize
        self._left = False

    async def lines(self) -> AsyncGenerator[bytes, None]:
        """The reply. Left early, it interrupts the program and waits for a second until that has ended."""
        task = asyncio.ensure_future(self._work())
        counted = False
        try:
            while (item := await self._items.get()) is not None:
                if self._held.closed:  # nobody takes the end of the sandbox for the program's
                    raise gone(self._held.id)
                if isinstance(item, Exception):
                    raise item
                if not counted:  # not before: until here a refusal has a status of its own
                    counted = True
                    yield line({"type": "number_of_executions", "execution_count": self._context.runs})
                if isinstance(item, Ran):
                    for told in _last_lines(item, self._state):
                        yield line(told)
                elif item.display is not None:
                    yield line(_result(item.display.data, is_main=False))
                elif item.text:
                    yield line(_output(item.kind, item.text))
        finally:
            self._left = True
            if not task.done():
                await self._end(task)

    async def _end(self, task: asyncio.Future[None]) -> None:
        while not self._items.empty():
            self._items.get_nowait()
        if self._held.runs > self._runs_before:
            await _stop(self._held, task)
        elif task.cancel():
            await asyncio.wait((task,))

    async def _work(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            async with self._state.running:
                self._state.current = self._context, task
                with self._service.errors():
                    await self._set_environment()
                self._runs_before = self._held.runs
                self._context.runs += 1
                events = self._service.stream_in(self._key, self._held, self._asked.code, **self._options())
                async with contextlib.aclosing(events):
                    async for item in events:
                        await self._tell(item)
                with self._service.errors():
                    await self._reset_environment()
        except asyncio.CancelledError:
            await self._tell(Refused(409, "cancelled", "the context was restarted while this program ran"))
            raise
        except Exception as error:
            await self._tell(error)
        finally:
            if self._state.current is not None and self._state.current[1] is task:
                self._state.current = None
        await self._tell(None)

    async def _tell(self, item: Event | Ran | Exception | None) -> None:
        if not self._left:
            await self._items.put(item)

    def _options(self) -> dict[str, Any]:
        language = self._context.language
        options: dict[str, Any] = {"language": language, **_within(self._context)}
        if language == "shell":
            # bash keeps a name of its folder that leads there, and no other one.
            options["env"] = {"PWD": HOME, **self._state.envs, **(self._asked.env_vars or {})}
            if len(self._asked.code) < _MOST_COMMAND_CHARS:  # a longer one lies in the workdir while it runs
                options["mode"] = "command"
        return options

    async def _set_environment(self) -> None:
        await self._change_environment({**self._state.envs, **(self._asked.env_vars or {})}, ())

    async def _reset_environment(self) -> None:
        """Take back what was set for this program alone."""
        names = self._asked.env_vars or {}
        kept = {name: self._state.envs[name] for name in names if name in self._state.envs}
        await self._change_environment(kept, [name for name in names if name not in kept])

    async def _change_environment(self, values: Mapping[str, str], without: Sequence[str]) -> None:
        """Programs in these languages share the environment of a process that lives on: it is changed from within."""
        change = _CHANGES.get(self._context.language)
        if change is None or not (values or without):
            return
        source = change(json.dumps(values), json.dumps(list(without)))
        with self._held.in_use() as box:
            execution = await box.run(source, language=self._context.language)
        self._state.notes += _worth_telling(execution)


async def _stop(held: Held, task: asyncio.Future[None]) -> None:
    """Interrupt a program that runs, as Ctrl-C would; where that does not end it soon, end its process."""
    held.box.interrupt()
    await asyncio.wait((task,), timeout=_INTERRUPT_S)
    if task.cancel():
        await asyncio.wait((task,))


def _change_in_python(values: str, without: str) -> str:
    environ = "__import__('os').environ"
    return (
        f"[*map({environ}.__setitem__, {values}, {values}.values()), *({environ}.pop(_, 0) for _ in {without})].clear()"
    )


def _change_in_javascript(values: str, without: str) -> str:
    return f"Object.assign(process.env, {values}); {without}.forEach(name => delete process.env[name])"


_CHANGES: Final = {"python": _change_in_python, "javascript": _change_in_javascript}


def _context(state: State, context_id: str | None, language: str | None) -> Context:
    """The context that a program is for: the one it names, or the usual one of its language."""
    if context_id and context_id != "default":
        return _known(state, context_id)
    name = languages.named(language or "python")
    for context in state.contexts.values():
        if context.is_usual and context.language == name:
            return context
    context = Context(id=secrets.token_hex(16), language=name, cwd=HOME, is_usual=True)
    languages.find(name)
    state.contexts[context.id] = context
    return context


def _known(state: State, context_id: str) -> Context:
    context = state.contexts.get(context_id)
    if context is None:
        raise not_found("context")
    return context


def _within(context: Context) -> dict[str, Any]:
    return {} if context.namespace is None else {"namespace": context.namespace}


def _output(stream: str, text: str) -> dict[str, Any]:
    return {"type": stream, "text": text, "timestamp": time.time_ns()}


def _last_lines(ran: Ran, state: State) -> Iterator[dict[str, Any]]:
    """The value, the failure, and what else is worth telling.

    All facts of ours go with the last line, where no client looks; those without which the output misleads go to
    stderr as well.
    """
    execution = ran.execution
    notes, state.notes = [*state.notes, *_worth_telling(execution)], []
    for note in notes:
        yield _output("stderr", f"groundbox: {note}\n")
    if execution.value is not None:
        yield _result(dict(execution.value), is_main=True)
    if execution.error is not None:
        failure = execution.error
        yield {
            "type": "error",
            "name": failure.type,
            "value": failure.message,
            "traceback": failure.traceback or f"{failure.type}: {failure.message}",
        }
    facts = ran.to_dict()
    kept = (
        "error",
        "execution_id",
        "outcome",
        "exit_code",
        "exit_signal",
        "dropped_bytes",
        "warnings",
        "usage",
        "state",
        "trust",
    )
    yield {"type": "end_of_execution", "groundbox": {name: facts[name] for name in kept}}


def _worth_telling(execution: Execution) -> list[str]:
    told = [
        warning.message
        for warning in execution.warnings
        if warning.tier == "error" or warning.code.startswith(("session.", "display."))
    ]
    if count := execution.dropped_bytes.get("displays"):
        told.append(f"{count} displays were left out, because there were too many or they were too large")
    return told


def _result(data: Mapping[str, Any], *, is_main: bool) -> dict[str, Any]:
    """One value or display, by the names that E2B has for its forms; other forms are `extra`."""
    told: dict[str, Any] = {"type": "result", "is_main_result": is_main}
    extra = {}
    for media_type, content in data.items():
        if media_type == CHART:
            if _is_chart(content):
                told["chart"] = content
            else:
                extra[media_type] = content
        elif media_type == _TABLE:
            if (columns := _columns(content)) is not None:
                told["data"] = columns
            else:
                extra[media_type] = content
        elif media_type == "application/json" and not isinstance(content, dict | list):
            continue  # of a number or a text, which E2B has as text alone
        elif media_type in _FIELDS:
            told[_FIELDS[media_type]] = content
        else:
            extra[media_type] = content
    text = told.get("text")
    if text and len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        told["text"] = text[1:-1]  # as E2B shows a str, and its clients expect
    if extra:
        told["extra"] = extra
    return told


def _is_chart(content: Any, *, may_hold_others: bool = True) -> bool:
    """Whether E2B's clients can read it."""
    kind = content.get("type") if isinstance(content, dict) else None
    if kind == "superchart" and may_hold_others:
        elements = content.get("elements")
        told = isinstance(elements, list) and isinstance(content.get("title"), str | None) and "title" in content
        return told and all(_is_chart(each, may_hold_others=False) for each in elements)
    if not isinstance(kind, str) or kind not in _CHARTS:
        return False
    try:
        msgspec.convert(content, type=_CHARTS[kind])
    except msgspec.ValidationError:
        return False
    return True


def _columns(table: Any) -> dict[str, list[Any]] | None:
    """A whole table by its columns, as E2B has it; None for one that is cut, or whose columns have no names."""
    try:
        if table["truncated"] or table["row_count"] != len(table["data"]):
            return None
        names = [field["name"] for field in table["schema"]["fields"]]
        return {name: [row[name] for row in table["data"]] for name in names}
    except (KeyError, TypeError):
        return None


def _cut(refused: Refused) -> None:
    """There is no line for a fault of this server that would not pass for one of the program: the reply is cut."""
