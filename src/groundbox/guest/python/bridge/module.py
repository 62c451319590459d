"""The module `tools` of a program: one function for each tool that was granted, made when it is first asked for.

`tools.search(query="x")` waits, `await tools.aio.search(query="x")` lets the event loop go on.
What a tool is called with, and what it gives back, stands in its signature and its docstring.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import inspect
import itertools
import keyword
import os
import sys
import threading
import types
from collections.abc import Callable, Mapping
from typing import Any

from ...wire import has_more_values
from .channel import MOST_FRAME_BYTES, MOST_FRAME_VALUES, Channel, Closed, encoded
from .values import File, Unfit, from_wire, kept, remember_workdir, to_wire, workdir

NAME = "tools"
_SPARE = 1024
_TYPES: dict[str, Any] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": None,
}
_NUMBERS = itertools.count(1)


class ToolError(Exception):
    """A tool did not do what it was asked.

    Attributes:
        tool: Its name.
        type: What went wrong: the type of the host's error, or `InvalidArguments`, `QuotaExceeded`, `ToolDenied`, …
        retryable: Whether the same call may succeed later.
    """

    def __init__(self, tool: str, type: str, message: str, retryable: bool = False) -> None:
        super().__init__(f"{tool}: {message}" if type == "ToolError" else f"{tool}: {type}: {message}")
        self.tool, self.type, self.message, self.retryable = tool, type, message, retryable


class ToolPaused(BaseException):
    """The call waits for an approval that is not there yet; this run ends. Catching it does not help."""


for _public in (ToolError, ToolPaused, File):
    _public.__module__ = NAME


class _Unset:
    def __repr__(self) -> str:
        return "<not given>"


_UNSET = _Unset()


class Bridge:
    """The tools of this sandbox, and the connection of the run that is under way."""

    def __init__(self, path: str) -> None:
        self._channel: Channel | None = None
        self._hidden = False
        self._learning = threading.Lock()
        self._rows: dict[str, dict[str, Any]] | None = None
        remember_workdir(path)
        self.module = _Namespace(self, "", aio=False)
        self.module.__dict__.update(ToolError=ToolError, ToolPaused=ToolPaused, File=File, catalog=_Catalog(self))
        self.aio = _Namespace(self, "", aio=True)
        self.module.__dict__["aio"] = self.aio

    def hide(self) -> None:
        """Serve calls as before, and be no module that programs can import: the name is theirs."""
        self._hidden = True
        for name in (NAME, self.aio.__name__):
            sys.modules.pop(name, None)

    def attach(self, descriptor: int) -> None:
        """A run begins."""
        self._channel = Channel(descriptor)
        if self._hidden:
            return
        sys.modules[NAME], sys.modules[self.aio.__name__] = self.module, self.aio
        if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
            sys.meta_path.insert(0, _Finder())

    def adopt(self) -> None:
        """This process was forked to run the program."""
        self._learning = threading.Lock()
        if self._channel is not None:
            self._channel = self._channel.adopted()

    def leave(self) -> None:
        """Another process, which was forked for it, runs the program."""
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.leave()

    def detach(self) -> None:
        """The run is over."""
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    def rows(self) -> dict[str, dict[str, Any]]:
        """Name to what is known of each tool."""
        with self._learning:
            if self._rows is None:
                try:
                    told = self._open("tools").greet()["tools"]
                except Closed as problem:
                    raise ToolError("tools", "Unavailable", str(problem)) from None
                self._rows = {row["name"]: row for row in told}
        return self._rows

    def row(self, name: str) -> dict[str, Any]:
        """One tool's, with its schemas."""
        row = self.rows()[name]
        if "parameters" not in row:
            row.update(self.ask(name, {"op": "describe", "tool": name}))
        return row

    def ask(self, tool: str, message: dict[str, Any]) -> Any:
        """The answer's value."""
        try:
            return _value_of(tool, self._open(tool).ask(message))
        except Closed as problem:
            raise ToolError(tool, "Unavailable", str(problem)) from None

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        """Call a tool and wait."""
        with _message(tool, arguments) as message:
            return from_wire(self.ask(tool, message))

    async def call_later(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        """The same, for an event loop."""
        with _message(tool, arguments) as message:
            try:
                answer = await self._open(tool).ask_later(message)
            except Closed as problem:
                raise ToolError(tool, "Unavailable", str(problem)) from None
            return from_wire(_value_of(tool, answer))

    def _open(self, tool: str) -> Channel:
        if self._channel is None:
            raise ToolError(tool, "Unavailable", "tools can be called while a program runs, not between two runs")
        return self._channel


@contextlib.contextmanager
def _message(tool: str, arguments: Mapping[str, Any]) -> Any:
    try:
        args = {name: to_wire(item, 1) for name, item in arguments.items()}
    except Unfit as problem:
        raise ToolError(tool, "InvalidArguments", str(problem)) from None
    message: dict[str, Any] = {"op": "call", "tool": tool}
    body = encoded(args)
    if len(body) + _SPARE <= MOST_FRAME_BYTES and not has_more_values(body, MOST_FRAME_VALUES):
        yield {**message, "args": args}
        return
    name = f".tools-{os.getpid()}-{next(_NUMBERS)}.json"
    file = kept(body, name)
    try:
        yield {**message, "file": file}
    finally:
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(workdir(), name))


def _value_of(tool: str, answer: dict[str, Any]) -> Any:
    if answer["op"] == "pause":
        raise ToolPaused(f"{tool} waits for an approval; the run ends here, and can be repeated once it is given")
    if answer["ok"]:
        return answer["value"]
    error = answer["error"]
    raise ToolError(tool, error["type"], error["message"], error["retryable"])


class _Namespace(types.ModuleType):  # `tools`, `tools.db`, `tools.aio`, …; its docstring lists what is in it
    def __init__(self, bridge: Bridge, prefix: str, *, aio: bool) -> None:
        super().__init__(".".join(filter(None, (NAME, "aio" if aio else "", prefix.rstrip(".")))))
        self.__dict__.update(_bridge=bridge, _prefix=prefix, _aio=aio, __path__=[])
        del self.__dict__["__doc__"]

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return self.__dir__()
        if name.startswith("_"):  # no tool is named so, and whoever looks at modules asks for many such names
            raise AttributeError(name)
        whole = self._prefix + name
        rows = self._bridge.rows()
        if whole in rows:
            made: Any = _stub(self._bridge, self._bridge.row(whole), aio=self._aio)
        elif any(known.startswith(f"{whole}.") for known in rows):
            made = _Namespace(self._bridge, f"{whole}.", aio=self._aio)
        else:
            known = ", ".join(self.__dir__()) or "none"
            raise AttributeError(f"there is no tool {whole!r}; there is {known}", name=name, obj=self)
        self.__dict__[name] = made
        return made

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        try:
            return _listing(self._bridge.rows(), self._prefix)
        except ToolError:
            return "Functions of the host that a program may call while it runs."

    def __dir__(self) -> list[str]:
        rows = self._bridge.rows()
        names = {name[len(self._prefix) :].split(".")[0] for name in rows if name.startswith(self._prefix)}
        return sorted(names)

    def __repr__(self) -> str:
        return f"<tools of the host: {self.__name__}>"


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds namespaces where they are imported as modules: `from tools.db import query`."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        """None for what is no namespace of tools."""
        parent, _, last = name.rpartition(".")
        holder = sys.modules.get(parent)
        if not isinstance(holder, _Namespace) or not isinstance(getattr(holder, last, None), _Namespace):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Any:
        """The namespace itself."""
        parent, _, last = spec.name.rpartition(".")
        return getattr(sys.modules[parent], last)

    def exec_module(self, module: types.ModuleType) -> None:
        """There is nothing to run."""


class _Catalog:
    """What tools there are, for programs that look for one."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge

    def names(self) -> list[str]:
        """All tools."""
        return sorted(self._bridge.rows())

    def search(self, query: str) -> list[dict[str, Any]]:
        """Those that fit some words best: name, summary, flags."""
        found: list[dict[str, Any]] = self._bridge.ask("tools", {"op": "search", "query": str(query)[:400]})
        return found

    def describe(self, tool: str) -> dict[str, Any]:
        """One tool with the JSON Schemas of its arguments and of its result."""
        described: dict[str, Any] = self._bridge.ask(tool, {"op": "describe", "tool": tool})
        return described


def _listing(rows: Mapping[str, Mapping[str, Any]], prefix: str) -> str:
    lines = [f"{name}: {row['summary']}" for name, row in sorted(rows.items()) if name.startswith(prefix)]
    return "Functions of the host that this program may call.\n\n" + "\n".join(lines)


def _stub(bridge: Bridge, row: dict[str, Any], *, aio: bool) -> Callable[..., Any]:
    name, parameters = row["name"], row.get("parameters") or {}
    signature = _signature(parameters, row.get("returns"))

    def given(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        bound = signature.bind(*args, **kwargs).arguments
        bound.update(bound.pop("_more", {}))
        return {key: item for key, item in bound.items() if item is not _UNSET}

    if aio:

        async def stub(*args: Any, **kwargs: Any) -> Any:
            return await bridge.call_later(name, given(args, kwargs))
    else:

        def stub(*args: Any, **kwargs: Any) -> Any:  # type: ignore[misc]
            return bridge.call(name, given(args, kwargs))

    stub.__name__ = name.rpartition(".")[2]
    stub.__qualname__ = stub.__name__
    stub.__module__ = ".".join(filter(None, (NAME, "aio" if aio else "", name.rpartition(".")[0])))
    stub.__doc__ = _doc(row, parameters)
    stub.__signature__ = signature  # type: ignore[attr-defined]
    stub.__annotations__ = {key: each.annotation for key, each in signature.parameters.items()}
    stub.__annotations__["return"] = signature.return_annotation
    return stub


def _signature(parameters: Mapping[str, Any], returns: Any) -> inspect.Signature:
    properties = parameters.get("properties") or {}
    required = [name for name in properties if name in (parameters.get("required") or ())]
    optional = [name for name in properties if name not in required]
    made, others = [], False
    for name in (*required, *optional):
        if not name.isidentifier() or keyword.iskeyword(name) or name == "_more":
            others = True
            continue
        schema = properties[name] if isinstance(properties[name], dict) else {}
        default = inspect.Parameter.empty if name in required else schema.get("default", _UNSET)
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        made.append(inspect.Parameter(name, kind, default=default, annotation=_type(schema)))
    if others or parameters.get("additionalProperties", True) is not False:
        made.append(inspect.Parameter("_more", inspect.Parameter.VAR_KEYWORD))
    result = _type(returns) if isinstance(returns, dict) else Any
    return inspect.Signature(made, return_annotation=result)


def _type(schema: Mapping[str, Any]) -> Any:
    """As near as Python's own types come to it."""
    if schema.get("contentEncoding") == "base64":
        return bytes
    names = schema.get("type", [])
    kinds = [_TYPES[name] for name in ([names] if isinstance(names, str) else names) if name in _TYPES]
    for choice in schema.get("anyOf", ()) if isinstance(schema.get("anyOf"), list) else ():
        kinds.append(_type(choice) if isinstance(choice, dict) else Any)
    if not kinds or Any in kinds:
        return Any
    whole = kinds[0]
    for kind in kinds[1:]:
        whole = whole | kind if whole is not None else kind | None
    return whole


def _doc(row: Mapping[str, Any], parameters: Mapping[str, Any]) -> str:
    lines = [row.get("description") or row.get("summary") or ""]
    told = {
        name: schema["description"]
        for name, schema in (parameters.get("properties") or {}).items()
        if isinstance(schema, dict) and schema.get("description")
    }
    if told:
        lines += ["", "Args:", *(f"    {name}: {text}" for name, text in told.items())]
    if row.get("approval"):
        lines += ["", "Each call waits for an approval."]
    return "\n".join(lines)
