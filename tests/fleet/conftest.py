"""Fleets to ask: real gateways and nodes, each a process on a free port of loopback."""

import contextlib
import functools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

pytest.importorskip("starlette", reason="the extra `server` is not installed here")

TOKEN = "a-key-of-some-length-for-tests"
SECRET = "a-join-secret-of-some-length"


class Process:
    """A gateway or a node.

    Attributes:
        url: Without a slash at the end.
    """

    def __init__(self, command, log, environ):
        self.log = Path(log)
        with open(log, "w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "groundbox", *map(str, command)],
                stdout=subprocess.PIPE, stderr=errors, text=True, env={**os.environ, **environ},
                start_new_session=True,
            )  # fmt: skip
        line = self.process.stdout.readline().strip()
        assert line, self.log.read_text()
        self.url = line.partition("?")[0].rstrip("/")

    def client(self, token=TOKEN, **options):
        headers = {"Authorization": f"Bearer {token}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=60, **options)

    def kill(self):
        """`kill -9`; its sandboxes end with it."""
        self.process.kill()
        self.process.wait(30)

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(30)
        self.process.stdout.close()
        return self.process.returncode


class Fleet:
    """A gateway with nodes, whose leases are short."""

    def __init__(self, folder, catalogue=None, lease_s=1.5):
        self.folder, self.lease_s = Path(folder), lease_s
        self.catalogue = catalogue or self.folder / "fleet.db"
        self.environ = {"GROUNDBOX_API_KEY": TOKEN, "GROUNDBOX_JOIN_SECRET": SECRET}
        self.processes = []
        self.token, self.secret = TOKEN, SECRET
        self.gateway = self.start_gateway()
        self.nodes = {}

    def start_gateway(self, *options):
        command = ["gateway", "--catalogue", self.catalogue, "--port", 0, "--lease-s", self.lease_s]
        command += ["--keys", self.folder / "keys.db", *options]
        return self._started(command, f"gateway-{len(self.processes)}.log")

    def start_node(self, name, *options, environ=None, gateway=None):
        command = ["serve", "--port", 0, "--join", (gateway or self.gateway).url, "--node-name", name, *options]
        self.nodes[name] = self._started(command, f"{name}-{len(self.processes)}.log", environ)
        return self.nodes[name]

    def _started(self, command, log, environ=None):
        process = Process(command, self.folder / log, {**self.environ, **(environ or {})})
        self.processes.append(process)
        return process

    def status(self):
        with self.gateway.client() as client:
            return client.get("/v1/fleet").json()["nodes"]

    def node(self, name):
        """As the gateway sees its newest boot; None where there is none."""
        found = [each for each in self.status() if each["name"] == name]
        return found[-1] if found else None

    def until(self, holds, most_s=60.0):
        """Wait until something holds, and return it."""
        end = time.monotonic() + most_s
        while not (told := holds()):
            assert time.monotonic() < end, "\n".join(f"{each.log}: {each.log.read_text()}" for each in self.processes)
            time.sleep(0.05)
        return told

    def until_ready(self, *names):
        def ready():
            nodes = {each["name"]: each for each in self.status() if each["state"] == "ready"}
            return all(name in nodes and not nodes[name]["load"]["problem"] for name in names)

        self.until(ready)

    def end(self):
        for each in reversed(self.processes):
            with contextlib.suppress(ProcessLookupError):
                each.end()


@contextlib.contextmanager
def running(folder, *names, **options):
    """A fleet with nodes of these names that are ready, until the block ends."""
    fleet = Fleet(folder, **options)
    try:
        for name in names:
            fleet.start_node(name)
        fleet.until_ready(*names)
        yield fleet
    finally:
        fleet.end()


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    """Two nodes that tests of a module share, and leave as they are."""
    with running(tmp_path_factory.mktemp("fleet"), "ada", "bob", lease_s=6.0) as started:
        yield started


@pytest.fixture
def client(fleet):
    with fleet.gateway.client() as asking:
        yield asking


@pytest.fixture
def fleet_of(tmp_path):
    """Start fleets of a test's own: `with fleet_of("ada", "bob") as fleet`."""
    return functools.partial(running, tmp_path)
