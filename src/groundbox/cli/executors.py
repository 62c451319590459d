"""Options for who carries work out: this machine, or the machines of a Ray cluster."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import click

from groundbox.dataset.executor import DEADLINE_S, STALL_S, Executor, check_name, named
from groundbox.errors import InvalidArgument

Start = Callable[[Callable[[str], None]], Executor]
"""Makes an executor, given whom it tells what a person should know."""

takes_workers: Final = click.option(
    "--workers", type=click.IntRange(min=1), metavar="N", help="By default one for each processor."
)


def takes_executor(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command with `workers` the options of an executor; it receives them as `start`, a `Start`.

    Stands above `takes_sandbox`, whose environment is that of the executor's machines, too.
    """

    @functools.wraps(command)
    def call(**given: Any) -> Any:
        name, environment = given.pop("executor"), given.get("environment", "default")
        times = {each: given.pop(each) for each in ("deadline_s", "stall_s")}
        try:
            check_name(name, given["workers"])
        except InvalidArgument as error:
            raise click.UsageError(f"{error.argument} {error.problem}") from None
        start = functools.partial(_started, name, given["workers"], environment, times)
        return command(start=start, **given)

    for option in reversed(_OPTIONS):
        call = option(call)
    return call


def _started(
    name: str, workers: int | None, environment: str, times: dict[str, float], tell: Callable[[str], None]
) -> Executor:
    return named(name, workers=workers, environment=environment, tell=tell, **times)


_OPTIONS: Final = (
    click.option(
        "--executor",
        default="local",
        show_default=True,
        metavar="local|ray[://HOST:PORT]",
        help="Who carries it out: this machine, or a Ray cluster that it is a part of; without an address, one of its "
        "own.",
    ),
    click.option(
        "--deadline-s",
        type=click.FloatRange(1),
        default=DEADLINE_S,
        show_default=True,
        metavar="N",
        help="With ray: seconds after which a shard is given to a second process too.",
    ),
    click.option(
        "--stall-s",
        type=click.FloatRange(1),
        default=STALL_S,
        show_default=True,
        metavar="N",
        help="With ray: seconds without anything done, after which the work ends.",
    ),
)
