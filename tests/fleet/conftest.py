"""Fleets to ask: real gateways and nodes, each a process on a free port of loopback; and nodes that only listen."""

import contextlib
import functools
import http.server
import json
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

import httpx
import msgspec
import pytest

pytest.importorskip("starlette", reason="the extra `server` is not installed here")

from groundbox.fleet.joining import signed
from groundbox.server.protocol import installed

TOKEN = "a-key-of-some-length-for-tests"
SECRET = "a-join-secret-of-some-length"
PROTOCOLS = tuple(name for name in ("containers", "judge0", "opensandbox", "piston") if name in installed())
"""Those that are off by default and that a gateway can pass on. An installation older than their entry points lacks
them: `make setup`."""


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

    def __init__(self, folder, catalogue=None, lease_s=1.5, protocols=PROTOCOLS):
        self.folder, self.lease_s = Path(folder), lease_s
        self.catalogue = catalogue or self.folder / "fleet.db"
        self.environ = {"GROUNDBOX_API_KEY": TOKEN, "GROUNDBOX_JOIN_SECRET": SECRET}
        self.processes = []
        self.protocols = [word for name in protocols for word in ("--protocol", name)]
        self.token, self.secret = TOKEN, SECRET
        self.gateway = self.start_gateway()
        self.nodes = {}

    def start_gateway(self, *options):
        command = ["gateway", "--catalogue", self.catalogue, "--port", 0, "--lease-s", self.lease_s]
        command += ["--keys", self.folder / "keys.db", *self.protocols, *options]
        return self._started(command, f"gateway-{len(self.processes)}.log")

    def start_node(self, name, *options, environ=None, gateway=None):
        command = ["serve", "--port", 0, "--join", (gateway or self.gateway).url, "--node-name", name]
        command += [*self.protocols, *options]
        self.nodes[name] = self._started(command, f"{name}-{len(self.processes)}.log", environ)
        return self.nodes[name]

    def _started(self, command, log, environ=None):
        process = Process(command, self.folder / log, {**self.environ, **(environ or {})})
        self.processes.append(process)
        return process

    def tell(self, act, told, *, secret=None, now=None, signed_as=None, sent=None):
        """Say something to the gateway as a node does.

        Args:
            signed_as: The act and the message that are signed in place of those that are sent.
            sent: The body in place of what is told.

        Returns:
            The signature, and the answer.
        """
        body = msgspec.json.encode(told)
        as_act, as_body = signed_as or (act, body)
        signature = signed((secret or self.secret).encode(), "POST", f"/v1/fleet/{as_act}", as_body, now=now)
        url = f"{self.gateway.url}/v1/fleet/{act}"
        return signature, httpx.post(url, content=sent or body, headers={"Authorization": signature}, timeout=60)

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


class Heard(NamedTuple):
    """A request as a node got it."""

    method: str
    target: str
    headers: list
    body: bytes


class Tap:
    """A node that writes down what a gateway sends it, and answers what a test says.

    It has the secret, joins, and says who it is; nothing runs on it.

    Attributes:
        heard: Requests, without the gateway's questions whether it is there.
        answer: From a request to status and body, or to None, by which the connection is cut.
    """

    def __init__(self, fleet, name):
        self.fleet, self.name, self.boot_id = fleet, name, secrets.token_hex(16)
        self.heard = []
        self.answer = lambda heard: (200, b"{}")
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Listening, self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,)).start()
        self.number = 0

    def asked(self, **changed):
        """Its message by which it joins."""
        told = {"boot_id": self.boot_id, "name": self.name, "url": self.url, "version": "1", "environment": "e"}
        return {**told, "load": {"at_once": 8, "most_sandboxes": 100, "protocols": PROTOCOLS}, **changed}

    def join(self, **changed):
        """Join; its tag."""
        answer = self.fleet.tell("join", self.asked(**changed))[1]
        assert answer.status_code == 200, answer.text
        self.tag = answer.json()["tag"]
        return self.tag

    def renew(self, **load):
        """Renew its lease, and tell this load."""
        self.number += 1
        told = {"boot_id": self.boot_id, "number": self.number, "load": self.asked()["load"] | load}
        return self.fleet.tell("renew", told)[1]

    def end(self):
        self.fleet.tell("leave", {"boot_id": self.boot_id})
        self._server.shutdown()
        self._server.server_close()


class _Listening(http.server.BaseHTTPRequestHandler):
    """A connection to a Tap."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer goes out in one piece

    def __init__(self, tap, *connection):
        self._tap = tap
        super().__init__(*connection)

    def _answer(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        status, told = 200, json.dumps({"boot_id": self._tap.boot_id, "name": self._tap.name, "left_s": 60}).encode()
        if self.path != "/v1/fleet/self":
            heard = Heard(
                self.command, self.path, [(name.lower(), value) for name, value in self.headers.items()], body
            )
            self._tap.heard.append(heard)
            found = self._tap.answer(heard)
            if found is None:
                self.close_connection = True
                return
            status, told = found
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)

    do_GET = do_POST = do_PUT = do_DELETE = _answer

    def log_message(self, *about):
        pass


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


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """A gateway without nodes, whose leases are long."""
    with running(tmp_path_factory.mktemp("alone"), lease_s=60.0) as started:
        yield started


@pytest.fixture
def taps(alone):
    """Make nodes of the gateway alone that write down what they are sent: `taps("ada", "bob")`, which have joined."""
    made = []

    def make(*names):
        made.extend(Tap(alone, name) for name in names)
        for each in made[-len(names) :]:
            each.join()
        return made[-len(names) :]

    yield make
    for each in made:
        each.end()


@pytest.fixture
def client(fleet):
    with fleet.gateway.client() as asking:
        yield asking


@pytest.fixture
def fleet_of(tmp_path):
    """Start fleets of a test's own: `with fleet_of("ada", "bob") as fleet`."""
    return functools.partial(running, tmp_path)
