"""`groundbox engine`: the engine in the background that commands of this user share."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import click

from groundbox.cli.ending import ends_tidily
from groundbox.errors import EngineUnavailable
from groundbox.remote import engine as engines
from groundbox.remote import place


@click.group()
def engine() -> None:
    """The engine in the background that commands of this user share, so that each of them finds it warm.

    It starts by itself at the first use, and ends after ten idle minutes. GROUNDBOX_ENGINE=off does without.
    """


@engine.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
@ends_tidily
def status(*, as_json: bool) -> int:
    """Tells whether it runs, and what it does. Exits with 1 when it does not."""
    told = _asked("GET", "/v1/engine")
    if as_json:
        print(json.dumps(told or {"running": False}))
    elif told is None:
        print("the engine does not run; the next `groundbox run` starts it")
    else:
        print(
            f"process {told['pid']}, running for {told['running_s']:.0f} s: {told['sandboxes']} sandboxes, "
            f"{told['runs_running']} runs, {told['runs']} since it was started\n{engines.socket_path()}"
        )
    return 0 if told else 1


@engine.command()
@ends_tidily
def start() -> int:
    """Starts it, if it does not run, and waits until it answers."""
    print(engines.ensure_running())
    return 0


@engine.command()
@ends_tidily
def stop() -> int:
    """Ends it, with what runs in it."""
    told = _asked("GET", "/v1/engine")
    if told is None:
        click.echo("groundbox: the engine does not run", err=True)
        return 0
    with contextlib.suppress(ProcessLookupError):
        os.kill(told["pid"], signal.SIGTERM)
    path = engines.socket_path()
    deadline = time.monotonic() + 15
    while engines.is_running(path) and time.monotonic() < deadline:
        time.sleep(0.02)
    if engines.is_running(path):
        raise EngineUnavailable(f"process {told['pid']} does not end")
    return 0


@engine.command()
@ends_tidily
def log() -> int:
    """Prints what it had to say."""
    with contextlib.suppress(FileNotFoundError), open(engines.log_path(), encoding="utf-8", errors="replace") as file:
        sys.stdout.writelines(file)
    return 0


@engine.command(hidden=True)
@click.option("--idle-s", type=float, default=engines.IDLE_S, help="Ends after so many seconds without a request.")
@ends_tidily
def serve(idle_s: float) -> int:
    """Serves in the foreground; what the first use of it starts."""
    from groundbox.limits import Limits
    from groundbox.server.application import application
    from groundbox.server.keys import Keys
    from groundbox.server.lifetime import Lifetime
    from groundbox.server.listening import bound_unix, mark_of, withdraw_unix
    from groundbox.server.listening import serve as answer
    from groundbox.server.service import Service
    from groundbox.server.settings import Settings

    path = Path(engines.socket_path())
    unlimited = Limits(
        wall_s=None,
        cpu_s=None,
        memory_bytes=None,
        process_count=None,
        disk_bytes=None,
        file_count=None,
        output_bytes=None,
    )
    service = Service(Settings(most=unlimited, idle_s=60.0, total_s=31 * 24 * 3600.0, grace_s=0.01), Keys(token=None))
    with bound_unix(path) as listening:
        mark = mark_of(path)
        forks = _Forks()

        def withdraw() -> None:
            withdraw_unix(path, mark)
            forks.end()

        app = Lifetime(application(service, over_unix=True), service, idle_s=idle_s, withdraw=withdraw)
        try:
            answer(app, listening, ready=forks.begin, ending=service.end, stop=app.stop, grace_s=0.25)
        finally:
            withdraw()
    return 0


class _Forks:
    """The process that forks for calls of the command line (`groundbox.cli.forked`), as long as the engine has it."""

    _process: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        """Start it; without it calls take longer."""
        command = [sys.executable, "-m", "groundbox.cli.forked", place.path_of("run")]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, cwd="/")

    def end(self) -> None:
        """Let it take no more calls; it ends when those that go on have."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()


def _asked(method: str, path: str) -> dict[str, Any] | None:
    """The JSON of an answer, or None where no engine runs."""
    try:
        with engines.Link(engines.socket_path()) as link:
            status, body = link.ask(method, path)
    except EngineUnavailable:
        return None
    told: dict[str, Any] | None = json.loads(body) if status == 200 else None
    return told
