"""The options that `run`, `repl` and `doctor` share: what a sandbox may use, reach and do without."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import click

from groundbox.cli.own import called
from groundbox.cli.wording import LIMITS, Amounts, with_options
from groundbox.errors import InvalidArgument, SandboxUnavailable
from groundbox.jail import BARE, GVISOR, LANDLOCK, NAMESPACES
from groundbox.limits import KiB, Limits, MiB
from groundbox.network import Network
from groundbox.sandbox.mounts import checked_mounts
from groundbox.sandbox.variables import checked_variables

_UNITS: Final = {KiB: " of KiB", MiB: " of MiB"}
BACKENDS: Final = (NAMESPACES, LANDLOCK, GVISOR, BARE)
_WHERE: Final = {
    "source": "FILE",
    "argv": "ARGS",
    "allow": "--allow-host",
    "network": "--allow-host",
    "private_ranges": "--private-range",
    "backend": "--backend",
    "waive": "--waive",
    "language": "--language",
    "path": "--file",
    "file": "--file",
    "env": "--env",
    "mounts": "--mount",
}
"""Arguments of the Python API to what they are called here."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Asked:
    """What the options ask of a sandbox; `vars` of it are arguments of AsyncSandbox."""

    limits: Limits
    network: Network
    environment: str
    backend: str
    waive: tuple[str, ...]
    env: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    mounts: Mapping[str, str] = dataclasses.field(default_factory=dict)


takes_engine: Final = click.option(
    "--no-engine", is_flag=True, help="Start everything anew, without the engine in the background."
)


class Amount(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """A number above 0, or `none` for no limit. `unit` is what one of it stands for in `Limits`."""

    name = "amount"

    def __init__(self, limit: str, unit: int = 1) -> None:
        self._limit, self._unit = limit, unit
        self._number: type[float] | type[int] = float if limit.endswith("_s") else int

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """What help calls it."""
        return "N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | int | None:
        """The value for `Limits`."""
        if value == "none":
            return None
        try:
            amount = self._number(value) * self._unit
        except ValueError:
            kind = "number" if self._number is float else "whole number"
            self.fail(f"{value!r} is neither a {kind}{self._counted()} nor none", param, ctx)
        try:
            dataclasses.replace(Limits(), **{self._limit: amount})  # type: ignore[arg-type]
        except InvalidArgument as error:
            self.fail(self._as_written(error.problem, amount, value), param, ctx)
        return amount

    def write(self, value: float) -> str:
        """Return a value of `Limits` as a user would give it to this option."""
        return f"{value:g}" if self._number is float else str(int(value) // self._unit)

    def _counted(self) -> str:
        """In what it is counted, after "a number"."""
        return " of seconds" if self._number is float else _UNITS.get(self._unit, "")

    def _as_written(self, problem: str, amount: float, value: Any) -> str:
        """A complaint of `Limits` in the unit of the option, and about what was written."""
        words = problem.replace("write None", "write none").replace(f"{amount!r}", str(value))
        least = re.search(r"at least (\d+)", words)
        return words if least is None else words.replace(least[1], str(-(-int(least[1]) // self._unit)))


def takes_sandbox(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of a sandbox; it receives them as `asked`."""

    @functools.wraps(command)
    def call(**given: Any) -> Any:
        limits = {name: given.pop(name) for name in LIMITS}
        with naming_options():
            asked = Asked(
                limits=Limits(**limits),
                network=Network(
                    allow=given.pop("allow_host"),
                    loopback=given.pop("loopback"),
                    private_ranges=given.pop("private_range"),
                ),
                environment=given.pop("environment"),
                backend=given.pop("backend"),
                waive=given.pop("waive"),
            )
        return command(asked=asked, **given)

    for option in reversed(_OPTIONS):
        call = option(call)
    return call


def takes_inputs(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command `--env` and `--mount`; it stands below `takes_sandbox`, whose `asked` it adds them to."""

    @functools.wraps(command)
    def call(*, asked: Asked, env: tuple[str, ...], mount: tuple[str, ...], **given: Any) -> Any:
        with naming_options():
            asked = dataclasses.replace(asked, env=checked_variables(_variables(env)), mounts=mounts_of(mount))
            checked_mounts(asked.mounts, is_root=os.geteuid() == 0)
        return command(asked=asked, **given)

    call = click.option(
        "--mount",
        multiple=True,
        metavar="HOST[:NAME]",
        help="A file or folder that programs read at /inputs/NAME, however large; it is not copied; repeatable.",
    )(call)
    return click.option(
        "--env",
        multiple=True,
        metavar="NAME[=VALUE]",
        help="A variable of the guest's environment; without a value, that of this command; repeatable.",
    )(call)


def mounts_of(given: Iterable[str]) -> dict[str, str]:
    """Return paths by name from `HOST:NAME`, and from `HOST` by its last part."""
    found: dict[str, str] = {}
    for each in given:
        path, name = each, ""
        if ":" in each and not os.path.lexists(each):
            path, _, name = each.rpartition(":")
        name = name or os.path.basename(os.path.realpath(path))
        if name in found:
            raise InvalidArgument("mounts", f"{name!r} is the name of two; give one another name by HOST:NAME")
        found[name] = path
    return found


def _variables(given: Iterable[str]) -> dict[str, str]:
    """Return variables from `NAME=VALUE`, and from `NAME` those of this command's own environment."""
    found: dict[str, str] = {}
    for each in given:
        name, has_value, value = each.partition("=")
        if not has_value and name not in os.environ:
            raise InvalidArgument(
                "env", f"{name!r} is not set here; write NAME=VALUE to give a value. --environment chooses packages"
            )
        found[name] = value if has_value else os.environ[name]
    return found


def check_host(asked: Asked | None = None) -> None:
    """Refuse before anything is begun, where no sandbox can be made: for commands that do other things first.

    Args:
        asked: What the options ask for; None for sandboxes as they are without options.

    Raises:
        SandboxUnavailable: A layer cannot stand here and is not waived.
        EnvironmentFailed: The environment is not there.
    """
    from groundbox.jail.probe import missing, probe
    from groundbox.sandbox import environments

    backend, waive = (asked.backend, asked.waive) if asked else (NAMESPACES, ())
    lacking = missing(probe(), backend=backend, waive=frozenset(waive))
    if lacking:
        raise SandboxUnavailable([f"{each.layer}: {each.detail}" for each in lacking], [each.mend for each in lacking])
    environments.get(asked.environment if asked else "default")


@contextlib.contextmanager
def naming_options(own: Iterable[str] = ()) -> Iterator[None]:
    """Turn an InvalidArgument into a complaint about the option that it came from.

    Args:
        own: The names among `--option NAME=VALUE`.
    """
    where = _WHERE | {name: called(name) for name in own}
    try:
        yield
    except InvalidArgument as error:
        if error.argument not in where:
            raise
        raise click.BadParameter(
            with_options(error.problem), ctx=click.get_current_context(), param_hint=f"'{where[error.argument]}'"
        ) from None


def _limit(limit: str, amounts: Amounts) -> Callable[..., Any]:
    kind = Amount(limit, amounts.unit)
    shown = _MACHINES_OWN.get(limit, True)
    default = kind.write(getattr(Limits(), limit))
    return click.option(amounts.flag, limit, type=kind, default=default, show_default=shown, help=amounts.words)


_MACHINES_OWN: Final = {
    "memory_bytes": "a quarter of the machine's, 512 to 2048",
    "disk_bytes": "an eighth of the machine's memory, 256 to 1024",
}
"""Defaults that differ from machine to machine, in words."""


_OPTIONS: Final = (
    *(_limit(*each) for each in LIMITS.items()),
    click.option(
        "--allow-host",
        multiple=True,
        metavar="HOST",
        help="A host that the guest may reach, such as example.org or example.org:8443; repeatable.",
    ),
    click.option(
        "--private-range",
        multiple=True,
        metavar="RANGE",
        help="Addresses, such as 10.1.0.0/16, that an allowed host may have although they are not public; repeatable.",
    ),
    click.option(
        "--loopback", is_flag=True, help="A loopback of its own, on which its programs can talk to each other."
    ),
    click.option(
        "--environment",
        default="default",
        show_default=True,
        metavar="NAME",
        help="The packages that the guest imports.",
    ),
    click.option(
        "--backend",
        type=click.Choice(BACKENDS),
        default=NAMESPACES,
        show_default=True,
        help="How the wall is built; bare is none, and for tests.",
    ),
    click.option(
        "--waive",
        multiple=True,
        metavar="LAYER",
        help="A layer to do without, as `groundbox doctor` names it; repeatable.",
    ),
)
