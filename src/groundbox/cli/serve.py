"""`groundbox serve`: sandboxes over HTTP, for the clients of many protocols."""

from __future__ import annotations

import gc
import importlib
import json
import logging
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import click

from groundbox.agent.messages import Model
from groundbox.cli import program as programs
from groundbox.cli.agents import model_of, recording_in, takes_model
from groundbox.cli.ending import ends_tidily
from groundbox.cli.options import BACKENDS, mounts_of
from groundbox.errors import InvalidArgument
from groundbox.jail import NAMESPACES
from groundbox.unseen import on_one_line, visible

TOKEN: Final = "GROUNDBOX_API_KEY"
_MOST_LOG_CHARS: Final = 8192
_WHERE: Final = {
    "host": "--host",
    "port": "--port",
    "unix_socket": "--unix-socket",
    TOKEN: TOKEN,
    "protocols": "--protocol",
    "mounts": "--mount",
    "runs_at_once": "--at-once",
    "sandboxes": "--sandboxes",
    "idle_s": "--idle-s",
    "body_bytes": "--body-mib",
    "body_s": "--body-s",
    "header_s": "--header-s",
    "grace_s": "--grace-s",
    "node_name": "--node-name",
    "snapshots": "--snapshots",
    "url": "--join or --node-url",
    "GROUNDBOX_JOIN_SECRET": "GROUNDBOX_JOIN_SECRET",
}


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, metavar="HOST", help="The address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8000, show_default=True, metavar="N", help="0 for a free one."
)
@click.option("--unix-socket", type=Path, metavar="PATH", help="Listen there instead; only you may connect.")
@click.option("--no-auth", is_flag=True, help="Ask for no key; on loopback or a unix socket only.")
@click.option("--allow-name", multiple=True, metavar="NAME", help="A name that it may be asked by; repeatable.")
@click.option(
    "--protocol", multiple=True, metavar="NAME", help="A protocol to speak, too; repeatable (docs/serving.md)."
)
@click.option("--keys", metavar="FILE|URL", help="Where others' keys lie: a file of SQLite, or postgresql://…")
@click.option("--join", metavar="URL", help="Be a node of the fleet of this gateway (docs/fleet.md).")
@click.option("--node-name", metavar="NAME", help="In the fleet; by default the machine's name.")
@click.option("--node-url", metavar="URL", help="Where gateways reach it; by default the address listened on.")
@click.option("--snapshots", metavar="DIR|URL", help="In a fleet: where files for the case of its loss lie.")
@click.option("--audit", type=Path, metavar="FILE", help="Append lines of JSON for every execution.")
@click.option("--audit-required", is_flag=True, help="Run nothing whose first line --audit cannot write.")
@click.option("--environment", default="default", show_default=True, metavar="NAME", help="What guests import.")
@click.option("--backend", type=click.Choice(BACKENDS), default=NAMESPACES, show_default=True, help="How walls stand.")
@click.option("--waive", multiple=True, metavar="LAYER", help="A layer to do without; repeatable.")
@click.option(
    "--mount", multiple=True, metavar="HOST[:NAME]", help="A file or folder that requests may name; repeatable."
)
@click.option("--at-once", type=click.IntRange(min=1), metavar="N", help="Runs at the same time; by default 8 a CPU.")
@click.option("--sandboxes", type=click.IntRange(min=1), metavar="N", help="Sandboxes that may live; by default 1000.")
@click.option("--idle-s", type=float, metavar="S", help="A sandbox that nobody asks is closed then; by default 900.")
@click.option("--no-branching", is_flag=True, help="Make no sandboxes that can be copied (docs/branching.md).")
@click.option("--body-mib", type=click.IntRange(min=1), metavar="N", help="A request; by default 256.")
@click.option("--body-s", type=float, hidden=True, help="Seconds in which all of a body has come; for tests.")
@click.option("--header-s", type=float, hidden=True, help="Seconds of a connection without a request; for tests.")
@click.option("--grace-s", type=float, metavar="S", help="What runs may still take when it is ended; by default 5.")
@takes_model
@click.option("--replay", type=Path, metavar="FILE", help="Answer every question from a recording of `groundbox ask`.")
@click.option("--log-json", is_flag=True, help="One JSON object for each record of the log, on stderr.")
@ends_tidily
def serve(
    host: str,
    port: int,
    unix_socket: Path | None,
    allow_name: tuple[str, ...],
    protocol: tuple[str, ...],
    keys: str | None,
    join: str | None,
    node_name: str | None,
    node_url: str | None,
    snapshots: str | None,
    audit: Path | None,
    environment: str,
    backend: str,
    waive: tuple[str, ...],
    mount: tuple[str, ...],
    at_once: int | None,
    sandboxes: int | None,
    idle_s: float | None,
    body_mib: int | None,
    body_s: float | None,
    header_s: float | None,
    grace_s: float | None,
    model: str | None,
    endpoint: str | None,
    api_key_env: str | None,
    replay: Path | None,
    *,
    audit_required: bool,
    no_auth: bool,
    no_branching: bool,
    log_json: bool,
) -> int:
    """Serves sandboxes over HTTP: a native interface, and the protocols of many clients.

    Who asks sends a key: the text of the variable GROUNDBOX_API_KEY, or one that is made up and printed at the start.
    Nothing is encrypted: for other machines, put something before it that speaks HTTPS.

    With a model (--model, or --endpoint and --model) it answers questions, too: /v1/conversations, and in its console.

    After Ctrl-C or SIGTERM new work is answered with 503, runs may still take --grace-s, and it exits with 0.
    """
    check_installed()
    given = {
        "runs_at_once": at_once,
        "sandboxes": sandboxes,
        "idle_s": idle_s,
        "branching": False if no_branching else None,
        "body_bytes": body_mib and body_mib * 1024 * 1024,
        "body_s": body_s,
        "header_s": header_s,
        "grace_s": grace_s,
    }
    log_to_stderr(as_json=log_json)
    recording = recording_in(replay)
    wants_model = model or endpoint or api_key_env or recording
    speaker = model_of(model, recording, endpoint=endpoint, api_key_env=api_key_env) if wants_model else None
    try:
        from groundbox.server.settings import Settings

        node_host = urlsplit(node_url).hostname if node_url else None
        settings = Settings(
            environment=environment,
            backend=backend,
            waive=waive,
            mounts=mounts_of(mount),
            protocols=tuple(dict.fromkeys(protocol)),
            hosts=[*allow_name, *([node_host] if node_host else [])],
            **{name: value for name, value in given.items() if value is not None},  # type: ignore[arg-type]
        )
        fleet = None if join is None else _Fleet.asked(join, node_name, node_url, snapshots, keys, unix_socket)
        if fleet is not None and no_auth:
            raise click.UsageError("--no-auth leaves a node open to who reaches its gateway; leave it out, or --join")
        if fleet is None and (node_name or node_url or snapshots):
            raise click.UsageError("--node-name, --node-url and --snapshots are for nodes of a fleet: --join names it")
        if audit_required and audit is None:
            raise click.UsageError("--audit-required needs --audit FILE; nothing was started")
        log = (audit, audit_required) if audit else None
        _serve(settings, host, port, unix_socket, keys, log, speaker, fleet, no_auth=no_auth)
    except InvalidArgument as error:
        if error.argument not in _WHERE:
            raise
        raise programs.bad(_WHERE[error.argument], error.problem) from None
    click.echo("groundbox: ended", err=True)
    gc.freeze()  # else the interpreter looks for cycles among all objects when it ends, which takes up to a second
    return 0


def _serve(
    settings: Any,
    host: str,
    port: int,
    unix_socket: Path | None,
    keys: str | None,
    audit: tuple[Path, bool] | None,
    model: Model | None,
    fleet: _Fleet | None,
    *,
    no_auth: bool,
) -> None:
    from groundbox.server.application import application
    from groundbox.server.audit import AuditLog
    from groundbox.server.keys import Keys, KeyStore, check_token, new_token
    from groundbox.server.listening import bound, bound_unix, inherited, mark_of, serve, url_of, withdraw_unix
    from groundbox.server.notify import Manager
    from groundbox.server.service import Service

    manager = Manager.of(os.environ)
    chosen = os.environ.pop(TOKEN, None)  # popped, so that no process of ours inherits it
    over_unix = unix_socket is not None
    token = None if no_auth or over_unix else check_token(chosen) if chosen else new_token()
    store = KeyStore(keys) if keys else None
    if store is not None:
        store.all()  # a database that cannot be used is told now
    given = None if over_unix else inherited(os.environ, may_be_public=not no_auth, secret=TOKEN)
    if unix_socket is not None:
        listening = bound_unix(unix_socket)
    else:
        listening = given or bound(host, port, may_be_public=not no_auth, secret=TOKEN)
    with listening:
        mark = None if unix_socket is None else mark_of(unix_socket)
        service = Service(
            settings, Keys(token=token, store=store), audit=AuditLog(audit[0], required=audit[1]) if audit else None
        )
        member = None if fleet is None else fleet.membership(service, url_of(listening))
        app = application(
            service,
            own_host=str(listening.getsockname()[0]) if not over_unix else "",
            over_unix=over_unix,
            store=store,
            model=model,
            **({} if member is None else member.parts()),
        )

        def ready() -> None:
            tell_ready(url_of(listening) or f"http://{host}:{port}/", None if chosen else token)
            manager.ready(service.standing)
            if member is not None:
                member.start()

        async def ending() -> None:
            manager.stopping()
            service.begin_end()
            if member is not None:
                await member.leave()
            await service.end(lingers=given is None)

        try:
            serve(
                app,
                listening,
                ready=ready,
                ending=ending,
                keep_alive_s=settings.header_s,
                ws="websockets-sansio",
                grace_s=0.25,  # the service has given its own
                is_inherited=given is not None,
            )
        finally:
            if unix_socket is not None and mark is not None:
                withdraw_unix(unix_socket, mark)


class _Fleet(NamedTuple):
    """What was said of the fleet that a server is to join."""

    gateway: str
    secret: bytes
    name: str
    url: str | None
    snapshots: Any

    @classmethod
    def asked(
        cls,
        gateway: str,
        name: str | None,
        url: str | None,
        snapshots: str | None,
        keys: str | None,
        unix_socket: Path | None,
    ) -> _Fleet:
        from groundbox.fleet.joining import SECRET, check_name, check_secret, check_url
        from groundbox.fleet.snapshots import Snapshots
        from groundbox.remote.transport import address_of

        if keys is not None:
            raise click.UsageError("--keys is the gateway's, where --join makes this server a node of it")
        if unix_socket is not None:
            raise click.UsageError("--join needs an address that gateways reach, and --unix-socket is none")
        address_of(gateway)
        if url:
            check_url(url)
        secret = check_secret(os.environ.pop(SECRET, None))
        kept = None if snapshots is None else Snapshots(snapshots)
        return cls(gateway, secret, check_name(name or socket.gethostname()), url, kept)

    def membership(self, service: Any, listening: str) -> Any:
        from groundbox.fleet.member import Membership

        url = self.url or listening
        if not url:
            raise click.UsageError("name where gateways reach this node with --node-url: it listens on every address")
        return Membership(
            service, gateway=self.gateway, secret=self.secret, name=self.name, url=url, snapshots=self.snapshots
        )


def tell_ready(url: str, made_up: str | None) -> None:
    """Tell where it is, on stdout, for whoever starts it as a program reads it there."""
    print(f"{url}?token={made_up}" if made_up else url, flush=True)
    if made_up:
        click.echo(f"groundbox: the key is made up anew at each start; {TOKEN} sets one that stays", err=True)


def check_installed() -> None:
    for name in ("starlette", "uvicorn", "prometheus_client"):
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            raise click.UsageError(
                f"this command needs {error.name}: the extra `server` of groundbox brings it"
            ) from None


def log_to_stderr(*, as_json: bool) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if as_json else _Visible("groundbox: %(levelname)s: %(message)s"))
    for name in ("groundbox", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.setLevel(logging.INFO if name == "groundbox" and as_json else logging.WARNING)
        logger.propagate = False


class _Visible(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """The record with nothing in it that a terminal would obey; its message is one line.

        Lines of a traceback are moved to the right, so that words of a guest in them begin no line of the log.
        """
        record = logging.makeLogRecord({**record.__dict__, "msg": on_one_line(record.getMessage(), _MOST_LOG_CHARS)})
        record.args, record.exc_text = None, None
        first, *others = visible(super().format(record)).split("\n")
        return "\n    ".join([first, *others])


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """One line: a name of a guest with a line break in it begins no record of its own."""
        told: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": visible(record.getMessage()),
        }
        if record.exc_info:
            told["traceback"] = visible(self.formatException(record.exc_info))
        return json.dumps(told)
