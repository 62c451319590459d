"""`groundbox fleet`: nodes behind a gateway, for whoever operates them."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any, Final

import click

from groundbox.cli.ending import ends_tidily
from groundbox.cli.terminal import one_line

_COLUMNS: Final = ("node", "state", "sandboxes", "runs", "waiting", "CPUs", "gen.", "version", "environment", "url")
_API_KEY: Final = "GROUNDBOX_API_KEY"


@click.group()
@click.option(
    "--gateway",
    "url",
    envvar="GROUNDBOX_GATEWAY",
    default="http://127.0.0.1:8000",
    show_default=True,
    metavar="URL",
    help="The gateway to ask; GROUNDBOX_API_KEY is a key with the scope admin.",
)
@click.pass_context
def fleet(context: click.Context, url: str) -> None:
    """Shows and steers the nodes behind a gateway."""
    context.obj = url


_json = click.option("--json", "as_json", is_flag=True, help="JSON on stdout, and nothing else there.")


@fleet.command()
@click.option("--all", "also_left", is_flag=True, help="With nodes that have left.")
@_json
@ends_tidily
def status(*, also_left: bool, as_json: bool) -> int:
    """Lists all nodes. Exits with 1 where none takes anything new."""
    told = _ask("GET", "/v1/fleet", query={"all": "1"} if also_left else None)
    if as_json:
        print(json.dumps(told))
    else:
        click.echo("\n".join(_table(told)))
    return 0 if any(each["state"] == "ready" and not each["load"].get("problem") for each in told["nodes"]) else 1


@fleet.command()
@click.option("--every-s", type=click.FloatRange(0.2), default=2.0, show_default=True, metavar="S")
@click.option("--times", type=click.IntRange(1), metavar="N", help="By default until Ctrl-C.")
@ends_tidily
def top(every_s: float, times: int | None) -> int:
    """Shows all nodes again and again, the busiest first."""
    shown = 0
    while True:
        told = _ask("GET", "/v1/fleet")
        told["nodes"].sort(key=lambda each: -each["load"].get("runs", 0) - each["load"].get("sandboxes", 0))
        if sys.stdout.isatty():
            click.clear()
        click.echo("\n".join(_table(told)))
        shown += 1
        if shown == times:
            return 0
        time.sleep(every_s)


@fleet.command()
@click.argument("name")
@click.option("--within-s", type=click.FloatRange(0), metavar="S", help="What it still has is ended then.")
@click.option("--wait", is_flag=True, help="Return when it has nothing any more.")
@ends_tidily
def drain(name: str, within_s: float | None, *, wait: bool) -> int:
    """Places nothing new on a node; what lives there goes on, and is told when it ends (`closes_in_s`)."""
    return _drained(name, within_s, leave=False, wait=wait)


@fleet.command()
@click.argument("name")
@click.option("--within-s", type=click.FloatRange(0), metavar="S", help="What it still has is ended then.")
@click.option("--wait", is_flag=True, help="Return when it has left.")
@ends_tidily
def leave(name: str, within_s: float | None, *, wait: bool) -> int:
    """Drains a node, whose process ends when nothing lives there any more."""
    return _drained(name, within_s, leave=True, wait=wait)


@fleet.command()
@click.argument("name")
@ends_tidily
def join(name: str) -> int:
    """Lets a node that was drained take sandboxes again. A new node joins by `groundbox serve --join`."""
    _ask("POST", f"/v1/fleet/nodes/{name}/join")
    click.echo(f"groundbox: {name} takes sandboxes again", err=True)
    return 0


@fleet.command()
@click.option("--version", metavar="VERSION", help="Of groundbox.")
@click.option("--environment", metavar="DIGEST", help="As `status` shows it, or the refusal of a node.")
@ends_tidily
def welcome(version: str | None, environment: str | None) -> int:
    """Lets nodes of another version, or with other packages, join beside those that are there, for an upgrade."""
    if not version and not environment:
        raise click.UsageError("name a --version or an --environment")
    told = _ask("POST", "/v1/fleet/welcome", body={"version": version, "environment": environment})
    click.echo(f"groundbox: welcome are {_welcome(told)}", err=True)
    return 0


def _drained(name: str, within_s: float | None, *, leave: bool, wait: bool) -> int:
    _ask("POST", f"/v1/fleet/nodes/{name}/drain", body={"within_s": within_s, "leave": leave})
    ends = "" if within_s is None else f"; what lives there ends within {within_s:g} s"
    click.echo(f"groundbox: {name} takes nothing new{ends}", err=True)
    while wait:
        nodes = _ask("GET", "/v1/fleet")["nodes"]
        there = ("draining", "leaving", "ready", "unheard")
        found = [each for each in nodes if each["name"] == name and each["state"] in there]
        load = found[0]["load"] if found else {}
        if not found or (not leave and not load.get("sandboxes") and not load.get("runs")):
            break
        time.sleep(0.5)
    return 0


def _ask(method: str, path: str, *, body: Any = None, query: dict[str, str] | None = None) -> dict[str, Any]:
    from groundbox.remote.connect import connect
    from groundbox.sandbox.portal import PORTAL

    with connect(click.get_current_context().obj, api_key=os.environ.get(_API_KEY)) as gateway:
        request: Callable[..., Any] = gateway.ask
        data = b"" if body is None else json.dumps(body).encode()
        told: dict[str, Any] = PORTAL.call(request(method, path, body=data, query=query)).json()
        return told


def _table(told: dict[str, Any]) -> list[str]:
    rows = [_COLUMNS, *(_row(each) for each in told["nodes"])]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return [*map(one_line, lines), f"welcome: {one_line(_welcome(told['welcome']))}; leases of {told['lease_s']:g} s"]


def _row(each: dict[str, Any]) -> tuple[str, ...]:
    load = each["load"]
    state = each["state"]
    if load.get("problem") and state == "ready":
        state = f"ready, but {load['problem']}"
    elif each["drained_s"] is not None and state in ("draining", "leaving"):
        state = f"{state}, {max(0.0, each['drained_s']):.0f} s"
    counts = (str(load.get(name, "")) for name in ("sandboxes", "runs", "waiting", "cpus"))
    return each["name"], state, *counts, str(each["generation"]), each["version"], each["environment"], each["url"]


def _welcome(told: dict[str, Any]) -> str:
    return f"groundbox {' and '.join(told['versions'])}, environment {' and '.join(told['environments'])}"
