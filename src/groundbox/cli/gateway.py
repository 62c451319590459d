"""`groundbox gateway`: one server to its clients, before many nodes of `groundbox serve --join`."""

from __future__ import annotations

import os
from pathlib import Path

import click

from groundbox.cli import program as programs
from groundbox.cli.ending import ends_tidily
from groundbox.cli.serve import TOKEN, check_installed, log_to_stderr, tell_ready
from groundbox.errors import InvalidArgument

_WHERE = {
    "protocols": "--protocol",
    "host": "--host",
    "port": "--port",
    "lease_s": "--lease-s",
    "outage_s": "--outage-s",
    "body_bytes": "--body-mib",
}


@click.command()
@click.option("--catalogue", required=True, metavar="FILE|URL", help="Where nodes are noted: SQLite, or postgresql://…")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="HOST", help="The address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8000, show_default=True, metavar="N", help="0 for a free one."
)
@click.option("--allow-name", multiple=True, metavar="NAME", help="A name that it may be asked by; repeatable.")
@click.option(
    "--protocol", multiple=True, metavar="NAME", help="A protocol to pass on, too; repeatable (docs/fleet.md)."
)
@click.option("--keys", metavar="FILE|URL", help="Where others' keys lie: a file of SQLite, or postgresql://…")
@click.option(
    "--lease-s",
    type=float,
    default=15.0,
    show_default=True,
    metavar="S",
    help="A node that was not heard for as long is lost.",
)
@click.option(
    "--outage-s",
    type=float,
    default=60.0,
    show_default=True,
    metavar="S",
    help="The catalogue may be away for as long; 0: no node outlives it.",
)
@click.option("--body-mib", type=click.IntRange(min=1), default=256, show_default=True, metavar="N", help="A request.")
@click.option("--log-json", is_flag=True, help="One JSON object for each record of the log, on stderr.")
@ends_tidily
def gateway(
    catalogue: str,
    host: str,
    port: int,
    allow_name: tuple[str, ...],
    protocol: tuple[str, ...],
    keys: str | None,
    lease_s: float,
    outage_s: float,
    body_mib: int,
    *,
    log_json: bool,
) -> int:
    """Passes requests on to the nodes of a fleet: what is new to one with room, all else to where it lives.

    Nodes are servers that were started with --join and this address. Both sides hold the secret GROUNDBOX_JOIN_SECRET.
    Clients send keys as to a server: GROUNDBOX_API_KEY is the owner's.

    It keeps nothing that another gateway of the same catalogue needs; any number may stand together.
    """
    check_installed()
    log_to_stderr(as_json=log_json)
    try:
        _serve(catalogue, host, port, allow_name, protocol, keys, lease_s, outage_s, body_mib)
    except InvalidArgument as error:
        if error.argument not in _WHERE:
            raise
        raise programs.bad(_WHERE[error.argument], error.problem) from None
    click.echo("groundbox: ended", err=True)
    return 0


def _serve(
    catalogue: str,
    host: str,
    port: int,
    names: tuple[str, ...],
    protocols: tuple[str, ...],
    keys: str | None,
    lease_s: float,
    outage_s: float,
    body_mib: int,
) -> None:
    from groundbox.fleet.catalogue import Catalogue
    from groundbox.fleet.gateway import Gateway, application
    from groundbox.fleet.joining import SECRET, check_secret
    from groundbox.fleet.reception import Timing
    from groundbox.fleet.roster import Roster, listening_address
    from groundbox.server.keys import STALE_S, Keys, KeyStore, check_token, new_token
    from groundbox.server.listening import bound, serve, url_of
    from groundbox.server.notify import Manager
    from groundbox.server.settings import Settings

    manager = Manager.of(os.environ)
    chosen = os.environ.pop(TOKEN, None)  # popped, so that no process of ours inherits it
    token = check_token(chosen) if chosen else new_token()
    secret = check_secret(os.environ.pop(SECRET, None))
    timing = Timing(lease_s=lease_s, renew_s=min(2.0, lease_s / 3), outage_s=outage_s)
    store = KeyStore(keys) if keys else None
    nodes = Catalogue(catalogue if "://" in catalogue else str(Path(catalogue)), lease_s=lease_s)
    nodes.nodes()  # a database that cannot be used is told now, as that of keys is
    if store is not None:
        store.all()
    settings = Settings(hosts=names, protocols=tuple(dict.fromkeys(protocols)), body_bytes=body_mib * 1024 * 1024)
    with bound(host, port, may_be_public=True, secret=TOKEN) as listening:
        address = listening_address(str(listening.getsockname()[0]), int(listening.getsockname()[1]))
        roster = Roster(nodes, secret, address=address, outage_s=outage_s)
        fleet = Gateway(roster, Keys(token=token, store=store, stale_s=max(STALE_S, outage_s)), settings)
        app = application(fleet, secret=secret, timing=timing, own_host=str(listening.getsockname()[0]), store=store)

        def ready() -> None:
            tell_ready(url_of(listening) or f"http://{host}:{port}/", None if chosen else token)
            manager.ready(fleet.standing)

        async def ending() -> None:
            manager.stopping()
            fleet.is_ending = True

        serve(app, listening, ready=ready, ending=ending, keep_alive_s=settings.header_s, ws="websockets-sansio")
