"""Hints for calls that do not fit: argument names, their number, values no longer taken."""

from __future__ import annotations

import ast
import builtins
import inspect
import re
from typing import Any, Final

from .fault import Fault, either, nearest
from .removed import REMOVED_ARGUMENTS, REMOVED_VALUES

_UNEXPECTED: Final = re.compile(r"(?:([\w.<>]+)\(\) )?got an unexpected keyword argument '(\w+)'")
_COUNT: Final = re.compile(r"([\w.<>]+)\(\) (?:missing \d+ required|takes .*positional arguments? but)")
SIGNATURE_CHARS: Final = 300


def wrong_arguments(fault: Fault) -> list[str]:
    """TypeError: an unknown argument name, or too many or too few arguments."""
    unexpected = _UNEXPECTED.search(fault.message)
    if unexpected:
        return _unexpected(fault, (unexpected[1] or "").rpartition(".")[2], unexpected[2])
    counted = _COUNT.search(fault.message)
    if counted is None:
        return []
    name = counted[1].rpartition(".")[2]
    return [f"Its signature: `{name}{shown}`." for shown in [_signature(_called(fault, name))] if shown]


def shadowed_builtin(fault: Fault) -> list[str]:
    """TypeError: a builtin such as `list` was assigned over and is now called."""
    if "object is not callable" not in fault.message or fault.line is None:
        return []
    for call, function in fault.line.calls():
        if isinstance(call.func, ast.Name) and hasattr(builtins, call.func.id) and not callable(function):
            name = call.func.id
            return [f"The program assigned to `{name}`, which hides Python's own: use another name and `del {name}`."]
    return ["Something that is not a function is called: look for a missing comma or operator before `(`."]


def none_in_use(fault: Fault) -> list[str]:
    """TypeError: None where a value was wanted."""
    if not re.search(
        r"'NoneType' object is not (subscriptable|iterable|callable)|cannot unpack .*NoneType", fault.message
    ):
        return []
    names = [] if fault.line is None else [name for name, value in fault.line.values() if value is None]
    if names:
        return [f"{either(names)} is None here: look at where it was assigned."]
    return [
        "A call on this line returned None: calls that change their object in place do, and functions without `return`."
    ]


def changed_value(fault: Fault) -> list[str]:
    """ValueError: a value that libraries took once."""
    return [hint for pattern, hint in REMOVED_VALUES if re.search(pattern, fault.message)][:1]


def _unexpected(fault: Fault, function_name: str, argument: str) -> list[str]:
    if fault.packages() & {"pandas", "numpy", "scipy"} or _is_of_libraries(_called(fault, function_name)):
        gone = REMOVED_ARGUMENTS.get((function_name, argument)) or REMOVED_ARGUMENTS.get(("", argument))
        if gone:
            return [gone]
    function = _called(fault, function_name, argument)
    known = _parameters(function)
    close = nearest(argument, known)
    hints = [f"`{function_name}` has no argument `{argument}`; did you mean {either(close)}?"] if close else []
    shown = _signature(function)
    if not hints and shown:
        hints.append(f"Its signature: `{function_name}{shown}`.")
    return hints


def _called(fault: Fault, name: str, argument: str | None = None) -> Any:
    """The function of that name that the failing line calls, or the class whose __init__ it is."""
    if fault.line is None:
        return None
    for call, function in fault.line.calls():
        last = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        passed = argument is not None and any(keyword.arg == argument for keyword in call.keywords)
        if last == name or passed or (name == "__init__" and isinstance(function, type)):
            return function
    return None


def _is_of_libraries(function: Any) -> bool:
    return str(getattr(function, "__module__", "")).partition(".")[0] in ("pandas", "numpy", "scipy")


def _parameters(function: Any) -> list[str]:
    if function is None:
        return []
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [parameter.name for parameter in parameters if parameter.kind in named and parameter.name != "self"]


def _signature(function: Any) -> str | None:
    if function is None:
        return None
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    parameters = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    text = str(signature.replace(parameters=parameters, return_annotation=signature.empty))
    return text if len(text) <= SIGNATURE_CHARS else text[:SIGNATURE_CHARS] + "…)"
