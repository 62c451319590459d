"""Python: cells with state, scripts, and calls of one function."""

from __future__ import annotations

import keyword
import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

from groundbox.errors import InvalidArgument
from groundbox.guest.python.imports import profile_for
from groundbox.sandbox.arguments import encode
from groundbox.sandbox.languages import Needs, Program, SelfTest
from groundbox.sandbox.variables import checked_variables

MODES: Final = ("cell", "script", "call", "calls")
EXTENSION: Final = ".py"
NEEDS: Final[Needs | None] = None
OPTIONS: Final = frozenset({"checks", "call_wall_s", "call_cpu_s", "namespace", "env"})
SELF_TEST: Final = SelfTest(source="print(6 * 7)", mode="script", prints="42\n")


def profile(source: str) -> str:
    """`science` when the source imports more than the standard library or uses notebook habits."""
    return profile_for(source)


def order(program: Program) -> dict[str, Any]:
    """The order for the worker; argv and stdin belong to scripts, call and its arguments to calls."""
    if program.mode not in MODES:
        raise InvalidArgument("mode", f"{program.mode!r} is none of 'cell', 'script', 'call' and 'calls'")
    if program.mode != "script":
        if program.argv:
            raise InvalidArgument("argv", "belongs to a script; add mode='script'")
        if program.stdin is not None:
            raise InvalidArgument("stdin", "belongs to a script; add mode='script'")
    checks = program.options.get("checks", False)
    if not isinstance(checks, bool):
        raise InvalidArgument("checks", f"must be True or False, not {checks!r}")
    for name in ("call_wall_s", "call_cpu_s"):
        _check_seconds(name, program)
    namespace = program.options.get("namespace")
    if namespace is not None and (program.mode != "cell" or not isinstance(namespace, str) or not namespace):
        raise InvalidArgument("namespace", f"is a name, and belongs to a cell; not {namespace!r} of a {program.mode}")
    return {
        "op": "run",
        "mode": program.mode,
        "source": program.source,
        "argv": list(program.argv),
        "filename": program.filename,
        "checks": checks,
        **({} if namespace is None else {"namespace": namespace}),
        **({"environ": environ} if (environ := checked_variables(program.options.get("env"))) else {}),
        **_call(program),
    }


def _call(program: Program) -> dict[str, Any]:
    if program.mode not in ("call", "calls"):
        for name in ("call", "args", "kwargs"):
            if getattr(program, name):
                instead = "a script's arguments are `argv`" if program.mode == "script" else "add mode='call'"
                raise InvalidArgument(name, f"belongs to a call; {instead}")
        return {}
    if not isinstance(program.call, str) or not _is_name(program.call):
        raise InvalidArgument("call", f"must name a function, such as 'main', not {program.call!r}")
    if program.mode == "calls":
        return _calls(program)
    args: Any = program.args
    kwargs: Any = program.kwargs
    listed = isinstance(args, Iterable) and not isinstance(args, str | bytes)
    if not listed or not isinstance(kwargs, Mapping) or not all(isinstance(name, str) for name in kwargs):
        raise InvalidArgument("args", "must be a list of values; kwargs a mapping from names to values")
    return {
        "call": program.call,
        "args": [encode("args", value) for value in args],
        "kwargs": {name: encode("kwargs", value) for name, value in kwargs.items()},
    }


def _calls(program: Program) -> dict[str, Any]:
    """Many calls: the order has the first one, and `calls` all of them, of which a guest hears one at a time."""
    if program.kwargs:
        raise InvalidArgument("kwargs", "belongs to one call; of many, each item of `args` is a pair ([…], {…})")
    cases = []
    for call in program.args:
        pair = tuple(call) if isinstance(call, tuple | list) else ()
        if len(pair) != 2 or not isinstance(pair[0], list | tuple) or not isinstance(pair[1], Mapping):
            raise InvalidArgument("args", "must be a list with a pair ([…], {…}) for each call")
        if not all(isinstance(name, str) for name in pair[1]):
            raise InvalidArgument("args", "must have texts as the names of arguments")
        places = [encode("args", value) for value in pair[0]]
        names = {name: encode("args", value) for name, value in pair[1].items()}
        cases.append({"args": places, "kwargs": names})
    return {"call": program.call, "count": len(cases), "case": cases[0] if cases else None, "calls": cases}


def _check_seconds(name: str, program: Program) -> None:
    value = program.options.get(name)
    if value is None:
        return
    if program.mode != "calls":
        raise InvalidArgument(name, "belongs to many calls; add mode='calls'")
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise InvalidArgument(name, f"must be a number of seconds above 0, not {value!r}")


def _is_name(text: str) -> bool:
    return all(part.isidentifier() and not keyword.iskeyword(part) for part in text.split("."))
