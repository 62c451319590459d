"""Servers to ask: real processes of `groundbox serve`, on a free port of loopback or a unix socket."""

import asyncio
import contextlib
import inspect
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

pytest.importorskip("starlette", reason="the extra `server` is not installed here")

from groundbox.server.protocol import installed

TOKEN = "a-key-of-some-length-for-tests"
EVERY_PROTOCOL = [word for name in installed() for word in ("--protocol", name)]
"""Options of `groundbox serve` that switch on every protocol that is off by default."""


_RUN = "import runpy; runpy.run_module('groundbox', run_name='__main__', alter_sys=True)"


class Server:
    """One server process.

    Attributes:
        url: Without a slash at the end.
        token: The owner's key.
    """

    def __init__(self, process, url, log):
        self.process, self.url, self.log, self.token = process, url, log, TOKEN

    def client(self, token=TOKEN, **options):
        """A client that sends a key; None for none."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx.Client(base_url=self.url, headers=headers, timeout=60, **options)

    def run(self, code, **options):
        """The JSON of one run."""
        with self.client() as client:
            answer = client.post("/v1/run", json={"code": code, **options})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def stderr(self):
        """What it wrote so far, for when a test fails."""
        return Path(self.log).read_text()

    def end(self):
        """Ask it to end, and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


@contextlib.contextmanager
def serving(log, *options, token=TOKEN, environ=None, before=""):
    """A server that answers, until the block ends; `before` is a program that runs in its process first."""
    run = ["-c", f"{before}\n{_RUN}"] if before else ["-m", "groundbox"]
    told = [sys.executable, *run, "serve", "--port", "0", *map(str, options)]
    environ = {**os.environ, **({"GROUNDBOX_API_KEY": token} if token else {}), **(environ or {})}
    with (
        open(log, "w") as errors,
        subprocess.Popen(told, stdout=subprocess.PIPE, stderr=errors, text=True, env=environ) as process,
    ):
        try:
            line = process.stdout.readline().strip()
            assert line, Path(log).read_text()
            yield Server(process, line.partition("?")[0].rstrip("/"), log)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(30)
                except subprocess.TimeoutExpired:
                    process.kill()


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """A server that all tests of a process share; whoever needs other settings starts one by `serving`."""
    folder = tmp_path_factory.mktemp("server")
    with serving(folder / "log", "--keys", folder / "keys.db", "--audit", folder / "audit.jsonl") as started:
        started.folder = folder
        yield started


@pytest.fixture
def client(server):
    """Asks the shared server with its owner's key."""
    with server.client() as asking:
        yield asking


@pytest.fixture
def sandbox(client):
    """The path of a new sandbox, which is closed after the test."""
    made = client.post("/v1/sandboxes", json={})
    path = f"/v1/sandboxes/{made.json()['sandbox_id']}"
    yield path
    client.delete(path)


def pytest_pyfunc_call(pyfuncitem):
    """Run tests that are coroutines in a loop of their own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    given = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    asyncio.run(asyncio.wait_for(pyfuncitem.obj(**given), 60))
    return True
