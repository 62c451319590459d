"""Functions of the host as global names of a sandbox's Python cells, for frameworks that name them at run time.

They go through two tools of one granted catalogue (docs/tools.md): `given` tells the names and variables, `call` calls.
Frameworks check arguments themselves, so that no schema does here; every argument is a guest's word.

What a function says when it fails may quote addresses, keys and rows. A program is told it where that was declared: by
`ToolFailure`, by a type among `failures`, or by the framework. Of all else it is told that the function failed, and the
type; message and traceback are in the host's log, as for every tool.
"""

from __future__ import annotations

import asyncio
import inspect
import keyword
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from groundbox.errors import InvalidArgument, SandboxLost
from groundbox.execution import Execution
from groundbox.sandbox.portal import PORTAL
from groundbox.sandbox.sandbox import AsyncSandbox
from groundbox.tools import Tool, ToolFailure, ToolQuotas, Tools

QUOTAS: Final = ToolQuotas(call_s=600.0, waiting_s=3600.0)
"""Functions of agent frameworks ask models, which takes its time."""

_PRELUDE: Final = """
import tools as _groundbox_tools
class _GroundboxEnd(BaseException):
    "Ends the program, because its answer was handed over."
def _groundbox_stub(name, ends):
    def stub(*args, **kwargs):
        value = _groundbox_tools.call(name, list(args), kwargs)
        if ends:
            raise _GroundboxEnd
        return value
    stub.__name__ = stub.__qualname__ = name
    return stub
_groundbox_given = _groundbox_tools.given()
for _groundbox_name in _groundbox_given["names"]:
    globals()[_groundbox_name] = _groundbox_stub(_groundbox_name, _groundbox_name in _groundbox_given["ending"])
globals().update(_groundbox_given["variables"])
"""


class HostCalls:
    """One sandbox whose cells call functions of the host.

    Attributes:
        answer: What an ending function returned in the run that was last, in a tuple; None when none was called.
    """

    def __init__(
        self,
        *,
        failures: Sequence[type[Exception]] = (),
        declared: Callable[[Exception], bool] = lambda _: False,
        **options: Any,
    ) -> None:
        """Args:
        failures: Types of exceptions whose messages programs may read.
        declared: Whether a message was written for programs, by the framework.
        options: Of the sandbox, as `groundbox.Sandbox` takes them, without `tools`.

        Raises:
            InvalidArgument: `tools` is among them, or `failures` holds something else than types of exceptions.
        """
        if "tools" in options:
            raise InvalidArgument("tools", "are those of the framework here; give them to its agent")
        granted = Tools([Tool("call", self._call), Tool("given", self._given, read_only=True)], quotas=QUOTAS)
        self._sandbox = AsyncSandbox(tools=granted, **options)
        self._failures, self._declared = _checked_failures(failures), declared
        self._functions: dict[str, Callable[..., Any]] = {}
        self._ending: set[str] = set()
        self._variables: dict[str, Any] = {}
        self._known = False
        self.answer: tuple[Any] | None = None

    def grant(self, functions: Mapping[str, Callable[..., Any]], *, ending: Mapping[str, Callable[..., Any]]) -> None:
        """Let the next program call these and no others; a call of an ending one is the program's last act.

        Raises:
            InvalidArgument: A name is no name of Python.
        """
        _check_names("tools", {**functions, **ending})
        given = {**functions, **ending}
        if given != self._functions:
            self._functions, self._ending, self._known = given, set(ending), False

    def let(self, variables: Mapping[str, Any]) -> None:
        """Give variables to the next program: plain data.

        Raises:
            InvalidArgument: A name is no name of Python, or that of a function.
        """
        _check_names("variables", variables)
        if taken := sorted(variables.keys() & self._functions.keys()):
            raise InvalidArgument("variables", f"{', '.join(taken)} would hide a function of the same name")
        if variables:
            self._variables, self._known = dict(variables), False

    def run(self, source: str, *, again: bool) -> Execution:
        """Run one cell; to be called in any thread.

        Args:
            again: Whether to go on in a fresh process with the same files where an earlier cell has ended it.

        Raises:
            SandboxLost: It has, and `again` is False.
        """
        self.answer = None
        try:
            return self._run(source)
        except SandboxLost:
            if not again:
                raise
            PORTAL.call(self._sandbox.restart())
            self._known = False
            return self._run(source)

    def close(self) -> None:
        """End the sandbox."""
        PORTAL.call(self._sandbox.close())

    def _run(self, source: str) -> Execution:
        if not self._known:
            prepared = PORTAL.call(self._sandbox.run(_PRELUDE))
            if not prepared.ok:
                why = prepared.error.message if prepared.error else prepared.outcome.value
                raise InvalidArgument("variables", f"could not be handed over: {why}")
            self._known, self._variables = True, {}
        return PORTAL.call(self._sandbox.run(source))

    def _given(self) -> Any:
        return {"names": sorted(self._functions), "ending": sorted(self._ending), "variables": self._variables}

    def _call(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        function = self._functions.get(name)
        if function is None:
            raise ToolFailure(f"there is no function {name}")
        try:
            value = function(*args, **kwargs)
            if inspect.isawaitable(value):
                value = asyncio.run(_awaited(value))
        except ToolFailure:
            raise
        except Exception as error:
            raise ToolFailure(self._why(name, error, args, kwargs)) from error
        if name in self._ending:
            self.answer = (value,)
            return None
        return str(value) if isinstance(value, str) else value

    def _why(self, name: str, error: Exception, args: list[Any], kwargs: dict[str, Any]) -> str:
        if isinstance(error, self._failures) or self._declared(error):
            return f"{type(error).__name__}: {error}"
        if isinstance(error, TypeError) and (misfit := _misfit(self._functions[name], args, kwargs)):
            return f"{name}: {misfit}"
        return f"{name} failed with {type(error).__name__}"


def _misfit(function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> str:
    """What is wrong with the arguments, by the function's signature alone; "" where they fit.

    A tool of smolagents takes anything, and hands it to its `forward`.
    """
    try:
        inspect.signature(getattr(function, "forward", function)).bind(*args, **kwargs)
    except TypeError as error:
        return str(error)
    except ValueError:  # it has no signature
        pass
    return ""


def _checked_failures(failures: Sequence[type[Exception]]) -> tuple[type[Exception], ...]:
    for each in (given := tuple(failures) if isinstance(failures, list | tuple) else (failures,)):
        if not (isinstance(each, type) and issubclass(each, Exception)):
            raise InvalidArgument("failures", f"must hold types of exceptions, such as ValueError, not {each!r}")
    return given


async def _awaited(value: Any) -> Any:
    return await value


def _check_names(argument: str, names: Mapping[Any, Any]) -> None:
    for name in names:
        if (
            not isinstance(name, str)
            or not name.isidentifier()
            or keyword.iskeyword(name)
            or name.startswith("_groundbox")
        ):
            raise InvalidArgument(argument, f"{name!r} cannot be a name in a program")
