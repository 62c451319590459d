"""`groundbox a2a`: the agent of `groundbox ask`, asked by other agents over HTTP (Agent2Agent)."""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import click

from groundbox.agent.a2a.service import Service
from groundbox.agent.grounded import Content, GroundedAgent
from groundbox.agent.turn import Bounds
from groundbox.cli import program as programs
from groundbox.cli.agents import (
    databases_named,
    files_given,
    model_of,
    recording_in,
    takes_databases,
    takes_files,
    takes_model,
    takes_turns,
)
from groundbox.cli.ending import ends_tidily
from groundbox.cli.options import Asked, check_host, naming_options, takes_sandbox
from groundbox.errors import InvalidArgument
from groundbox.limits import MiB
from groundbox.unseen import visible

TOKEN: Final = "GROUNDBOX_A2A_TOKEN"
_WHERE: Final = {"host": "--host", "port": "--port", "url": "--url", "token": TOKEN}


@click.command()
@takes_model
@takes_files
@takes_databases
@click.option(
    "--replay", type=Path, metavar="FILE", help="Answer every question from a recording; programs really run."
)
@click.option("--host", default="127.0.0.1", show_default=True, metavar="HOST", help="The address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=9000, show_default=True, metavar="N", help="0 for a free one."
)
@click.option("--url", metavar="URL", help="Where others reach it, for the card; by default http://HOST:PORT/.")
@click.option("--name", metavar="TEXT", help="What the card calls it.")
@click.option("--description", metavar="TEXT", help="What the card says that it can be asked.")
@click.option(
    "--at-once",
    type=click.IntRange(min=1),
    default=Service().max_at_once,
    show_default=True,
    metavar="N",
    help="Questions worked on at the same time.",
)
@click.option(
    "--request-mib",
    type=click.IntRange(min=1),
    default=Service().max_request_bytes // MiB,
    show_default=True,
    metavar="N",
    help="A request, with its files.",
)
@takes_turns
@takes_sandbox
@ends_tidily
def a2a(
    model: str | None,
    endpoint: str | None,
    api_key_env: str | None,
    files: tuple[str, ...],
    databases: tuple[str, ...],
    replay: Path | None,
    host: str,
    port: int,
    url: str | None,
    name: str | None,
    description: str | None,
    at_once: int,
    request_mib: int,
    max_turns: int,
    asked: Asked,
) -> int:
    """Serves the agent of `groundbox ask` to other agents, over HTTP (Agent2Agent, JSON-RPC).

    Each question has a sandbox of its own, with the files and databases that are named here and the files that come
    with it. Everyone who reaches the address may ask, and pays with your key.

    With the variable GROUNDBOX_A2A_TOKEN set, askers have to send its text as `Authorization: Bearer TOKEN`. Without
    it, only addresses that no other machine reaches are served. Nothing is encrypted: for other machines, put something
    before it that speaks HTTPS.

    Ctrl-C or SIGTERM calls off what is worked on, ends its sandboxes, and exits with 0.
    """
    _check_installed()
    check_host(asked)
    recording = recording_in(replay)
    reached = databases_named(databases)
    given = files_given(files, recording, asked)
    speaker = model_of(model, recording, endpoint=endpoint, api_key_env=api_key_env)
    with naming_options():
        agent = GroundedAgent(speaker, bounds=Bounds(max_turns=max_turns), databases=reached, **vars(asked))
    service = Service(max_at_once=at_once, max_request_bytes=request_mib * MiB)
    told = {argument: text for argument, text in (("name", name), ("description", description)) if text}
    _log()
    try:
        _serve(agent, given, service, (host, port), url, told)
    except InvalidArgument as error:
        if error.argument not in _WHERE:
            raise
        raise programs.bad(_WHERE[error.argument], error.problem) from None
    click.echo("groundbox: ended", err=True)
    return 0


def _check_installed() -> None:
    for name in ("a2a.server", "starlette", "uvicorn"):
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            raise click.UsageError(f"this command needs {error.name}: the extra `a2a` of groundbox brings it") from None


def _serve(
    agent: GroundedAgent,
    given: Mapping[str, Content],
    service: Service,
    address: tuple[str, int],
    url: str | None,
    told: Mapping[str, str],
) -> None:
    from groundbox.agent.a2a.door import check_token
    from groundbox.agent.a2a.serving import application, card
    from groundbox.server.listening import bound, serve, url_of

    token = os.environ.get(TOKEN) or None
    if token is not None:
        check_token(token)
    with bound(*address, may_be_public=token is not None, secret=TOKEN) as listening:
        url = url or url_of(listening)
        if not url:
            problem = f"is needed: {address[0]} is every address of this machine, and none to be asked at"
            raise InvalidArgument("url", problem)
        app = application(agent, card(url, **told), service=service, token=token, files=given)
        serve(
            app,
            listening,
            ready=lambda: _ready(url, token),
            ending=app.state.executor.aclose,
            max_connections=service.max_connections,
        )


def _ready(url: str, token: str | None) -> None:
    click.echo(f"groundbox: asked at {url}, as {url.rstrip('/')}/.well-known/agent-card.json says", err=True)
    if token is None:
        click.echo(f"groundbox: every user of this machine may ask; {TOKEN} would ask for a token", err=True)


def _log() -> None:
    """What the agent's log says goes to stderr, with nothing that a terminal would obey."""
    for name, level, formatter in (
        ("groundbox.agent.a2a", logging.INFO, _Visible("groundbox: %(message)s")),
        ("a2a", logging.ERROR, _WithoutQuotes()),
    ):
        handler = logging.StreamHandler()
        handler.setFormatter(formatter)
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.setLevel(level)


class _Visible(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record))


class _WithoutQuotes(logging.Formatter):
    """A record of the protocol's package on one line, without arguments and exceptions: they quote what was asked."""

    def format(self, record: logging.LogRecord) -> str:
        error = record.exc_info[0] if record.exc_info else None
        kind = "" if error is None else f"{error.__name__}, "
        return visible(f"groundbox: a2a-sdk: {record.msg} ({kind}{record.filename}:{record.lineno})")
