"""One tool: a function of the host, with what may be given to it and what comes back.

Schemas come from annotations when none are given, and values then arrive as the annotations say: a `datetime`
as one, a dataclass as one. With a schema that was written by hand, values arrive as plain data.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import keyword
import re
import typing
from collections.abc import Callable, Mapping
from typing import Any, Final, Union, overload

import msgspec

from groundbox.errors import InvalidArgument
from groundbox.sandbox.bridge.schema import Checker, Refused, TooMuch
from groundbox.sandbox.bridge.values import Unfit

RESERVED: Final = frozenset({"aio", "catalog", "ToolError", "ToolPaused", "File"})
"""Names that the guest's module `tools` needs for itself."""
_PART: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_MOST_NAME: Final = 200
_SUMMARY: Final = 200


class ToolFailure(Exception):
    """Raise it in a tool to tell the guest what went wrong: its message goes to the guest as it is."""

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.retryable = retryable


@dataclasses.dataclass(frozen=True, eq=False)
class Tool:
    """A function that a sandbox may call.

    Attributes:
        name: As the guest calls it; dots make namespaces: `db.query`.
        function: Called with keyword arguments; a coroutine function on the event loop, another one in a thread.
        parameters: JSON Schema of the arguments, an object; None for what the annotations say. Names that it does not
            have are refused unless it has `additionalProperties`.
        returns: JSON Schema of the result; None for what the annotation says, or for anything.
        read_only: It changes nothing. Told to the guest, and a hint for policies.
        idempotent: Calling it once more does no harm; a call whose end is unknown may then be made again in a replay.
        sequential: One call at a time in each sandbox.
        approval: Each call waits for a yes (`Tools.approve`).
        max_calls: In the life of one sandbox; None for as many as `ToolQuotas` has for a run.
        deadline_s: For one call, on the host's monotonic clock; None for that of `ToolQuotas`.
    """

    name: str
    function: Callable[..., Any]
    _: dataclasses.KW_ONLY
    description: str = ""
    parameters: Mapping[str, Any] | None = None
    returns: Mapping[str, Any] | None = None
    read_only: bool = False
    idempotent: bool = False
    sequential: bool = False
    approval: bool = False
    max_calls: int | None = None
    deadline_s: float | None = None

    def __post_init__(self) -> None:
        _check_name(self.name)
        if not callable(self.function):
            raise InvalidArgument("tools", f"{self.name}: {self.function!r} is no function")
        for name in ("max_calls", "deadline_s"):
            bound = getattr(self, name)
            if bound is not None and (isinstance(bound, bool) or not bound > 0):
                raise InvalidArgument(name, f"must be above 0 or None, not {bound!r}")
        object.__setattr__(self, "description", self.description or _doc(self.function))
        derived = self.parameters is None
        model = _model_of(self.name, self.function) if derived else None
        if self.parameters is None:
            object.__setattr__(self, "parameters", _schema_of(self.name, self.function, model))
        if self.returns is None:
            object.__setattr__(self, "returns", _returns_of(self.name, self.function))
        object.__setattr__(self, "_model", model)
        assert self.parameters is not None
        if self.parameters.get("type") != "object":
            raise InvalidArgument("parameters", f'{self.name}: must be a schema with "type": "object"')
        object.__setattr__(self, "parameters", {"additionalProperties": False, **self.parameters})
        object.__setattr__(self, "_bound", _bound(self.function))
        object.__setattr__(self, "_arguments", _checker(self.name, "parameters", self.parameters))
        object.__setattr__(
            self, "_result", None if self.returns is None else _checker(self.name, "returns", self.returns)
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function itself, so that a decorated one can still be called on the host."""
        return self.function(*args, **kwargs)

    def arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """What the function is called with.

        Raises:
            Unfit: It does not fit the schema.
        """
        checker, model, bound = (vars(self)[name] for name in ("_arguments", "_model", "_bound"))
        if taken := sorted(bound & given.keys()):
            raise Unfit(f"{taken[0]!r} is not known")
        _demand(checker, given)
        if model is None:
            return dict(given)
        try:
            made = msgspec.convert(given, model, dec_hook=lambda kind, value: value)
        except msgspec.ValidationError as error:
            raise Unfit(str(error)) from None
        values = {name: getattr(made, name) for name in given}
        return {name: value for name, value in values.items() if value is not msgspec.UNSET}

    def check_result(self, plain: Any) -> None:
        """Raises:
        Unfit: The function did not return what its schema says.
        """
        checker = vars(self)["_result"]
        if checker is not None:
            _demand(checker, plain)

    def row(self, *, schemas: bool = True) -> dict[str, Any]:
        """What the guest is told of it."""
        flags = ("read_only", "idempotent", "sequential", "approval")
        told: dict[str, Any] = {"name": self.name, "summary": self.summary}
        told |= {name: True for name in flags if getattr(self, name)}
        if schemas:
            told |= {"description": self.description, "parameters": self.parameters, "returns": self.returns}
        return told

    @property
    def summary(self) -> str:
        """The first line of the description."""
        return self.description.strip().split("\n", 1)[0][:_SUMMARY]


@overload
def tool(function: Callable[..., Any]) -> Tool: ...


@overload
def tool(*, name: str = "", **options: Any) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(function: Callable[..., Any] | None = None, *, name: str = "", **options: Any) -> Any:
    """Decorator: makes a Tool of a function, by default under the function's own name. Takes the fields of Tool."""

    def make(function: Callable[..., Any]) -> Tool:
        return Tool(name or _own_name(function), function, **options)

    return make if function is None else make(function)


def _doc(function: Any) -> str:
    """The function's own docstring; of an object that can be called, that of its method."""
    target = inspect.unwrap(getattr(function, "func", function))
    return inspect.getdoc(target if inspect.isroutine(target) else type(target).__call__) or ""


def _own_name(function: Any) -> str:
    name = getattr(function, "__name__", "")
    if not _PART.fullmatch(name):
        raise InvalidArgument("tools", f"{function!r} has no name that a guest could call; use Tool(name, function)")
    return str(name)


def _check_name(name: object) -> None:
    parts = name.split(".") if isinstance(name, str) else [""]
    for part in parts:
        if not _PART.fullmatch(part) or keyword.iskeyword(part):
            raise InvalidArgument("tools", f"{name!r} is no name for a tool; write words joined by dots, as db.query")
    if parts[0] in RESERVED or len(str(name)) > _MOST_NAME:
        raise InvalidArgument(
            "tools", f"{name!r} cannot be the name of a tool: {', '.join(sorted(RESERVED))} are taken"
        )


def _model_of(name: str, function: Callable[..., Any]) -> type[msgspec.Struct]:
    fields: list[Any] = []
    for parameter in _signature(name, function).parameters.values():
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            problem = f"{name}: its parameter {parameter} cannot be given by name; give parameters=, a JSON Schema"
            raise InvalidArgument("tools", problem)
        kind = _hints(name, function).get(parameter.name, Any)
        if parameter.default is parameter.empty:
            fields.append((parameter.name, kind))
        else:
            fields.append((parameter.name, Union[kind, msgspec.UnsetType], msgspec.UNSET))  # noqa: UP007
    try:
        return msgspec.defstruct("arguments", fields, forbid_unknown_fields=True, kw_only=True)
    except (TypeError, ValueError) as error:
        raise _underivable(name, error) from None


def _schema_of(name: str, function: Callable[..., Any], model: Any) -> dict[str, Any]:
    try:
        (schema,), parts = msgspec.json.schema_components([model], schema_hook=_anything, ref_template="#/$defs/{name}")
    except (TypeError, ValueError) as error:
        raise _underivable(name, error) from None
    flat = dict(parts.pop(schema["$ref"].removeprefix("#/$defs/")))
    flat.pop("title", None)
    for parameter in _signature(name, function).parameters.values():
        if parameter.default is None or isinstance(parameter.default, bool | int | float | str):
            flat["properties"][parameter.name]["default"] = parameter.default
    return {**flat, "$defs": parts} if parts else flat


def _returns_of(name: str, function: Callable[..., Any]) -> dict[str, Any] | None:
    kind = _hints(name, function).get("return", Any)
    if kind is Any:
        return None
    try:
        schema = msgspec.json.schema(kind, schema_hook=_anything)
    except (TypeError, ValueError):
        return None  # such as a DataFrame, which is told to the guest when it comes back
    return schema


def _anything(kind: Any) -> dict[str, Any]:
    if kind is object:
        return {"title": "anything"}
    raise NotImplementedError


def _hints(name: str, function: Callable[..., Any]) -> dict[str, Any]:
    target = function if inspect.isroutine(function) else type(function).__call__
    target = getattr(function, "func", target)
    try:
        return typing.get_type_hints(inspect.unwrap(target), include_extras=True)
    except (NameError, TypeError, AttributeError) as error:
        raise _underivable(name, error) from None


def _signature(name: str, function: Callable[..., Any]) -> inspect.Signature:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise _underivable(name, error) from None
    bound = _bound(function)
    return signature.replace(parameters=[each for each in signature.parameters.values() if each.name not in bound])


def _bound(function: Any) -> frozenset[str]:
    """Arguments that a `functools.partial` has given by name, which are the host's to choose, and to know."""
    names: set[str] = set()
    function = inspect.unwrap(function)
    while isinstance(function, functools.partial):
        names |= function.keywords.keys()
        function = inspect.unwrap(function.func)
    return frozenset(names)


def _underivable(name: str, error: Exception) -> InvalidArgument:
    problem = f"{name}: its schema cannot be derived ({error}); give parameters=, a JSON Schema"
    return InvalidArgument("tools", problem)


def _checker(name: str, which: str, schema: Mapping[str, Any]) -> Checker:
    try:
        return Checker(schema)
    except (Refused, TypeError, AttributeError) as error:
        raise InvalidArgument(which, f"{name}: {error}") from None


def _demand(checker: Checker, value: Any) -> None:
    try:
        problem = checker.problem(value)
    except TooMuch:
        raise Unfit("it would take too long to check against the schema") from None
    if problem is not None:
        raise Unfit(problem)
