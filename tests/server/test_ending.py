"""A server that is told to end: what its clients are answered, and what it writes into its log."""

import collections
import concurrent.futures
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from .conftest import TOKEN, serving

SLEEP = "import time; print('begun', flush=True); time.sleep(600)"
LIMITS = {"wall_s": 900}


def post(server, path, body, **options):
    with server.client() as client:
        return client.post(path, json=body, timeout=120, **options)


def calls_of(server):
    """Requests that wait for a program which sleeps, by name; each returns its response."""

    def in_a_sandbox(server):
        made = post(server, "/v1/sandboxes", {"limits": LIMITS}).json()["sandbox_id"]
        return post(server, f"/v1/sandboxes/{made}/run", {"code": SLEEP, "wall_s": 900})

    def by_mcp(server):
        name = {"clientInfo": {"name": "test", "version": "1"}, "capabilities": {}, "protocolVersion": "2025-06-18"}
        accept = {"Accept": "application/json, text/event-stream"}
        begun = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": name}
        session = post(server, "/mcp", begun, headers=accept).headers["mcp-session-id"]
        asked = {"name": "run_code", "arguments": {"code": SLEEP, "wall_s": 900}}
        called = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": asked}
        return post(server, "/mcp", called, headers={**accept, "Mcp-Session-Id": session})

    return {
        "run": lambda: post(server, "/v1/run", {"code": SLEEP, "limits": LIMITS}),
        "stream": lambda: post(server, "/v1/run", {"code": SLEEP, "limits": LIMITS, "stream": True}),
        "heartbeat": lambda: post(server, "/v1/run?heartbeat_s=1", {"code": SLEEP, "limits": LIMITS}),
        "batch": lambda: post(server, "/v1/batch", {"programs": [{"code": SLEEP, "limits": LIMITS}]}),
        "sandbox": lambda: in_a_sandbox(server),
        "sandboxfusion": lambda: post(server, "/run_code", {"code": SLEEP, "run_timeout": 900}),
        "sandboxfusion 504": lambda: post(server, "/run_code?refused=504", {"code": SLEEP, "run_timeout": 900}),
        "jupyter of sandboxfusion": lambda: post(server, "/run_jupyter", {"cells": [SLEEP], "total_timeout": 900}),
        "openenv": lambda: post(server, "/openenv/step", {"action": {"code": SLEEP}, "timeout_s": 900}),
        "mcp": lambda: by_mcp(server),
    }


def test_a_reply_that_is_cut_on_purpose_is_no_error_in_the_log(tmp_path):
    """E2B's streams have no line for a fault of the server, so that nobody scores one."""
    with serving(tmp_path / "log", "--grace-s", 0.5) as server:
        made = post(server, "/v2/sandboxes", {"templateID": "base"}).json()
        headers = {"X-Access-Token": made["envdAccessToken"], "E2b-Sandbox-Id": made["sandboxID"]}
        with concurrent.futures.ThreadPoolExecutor(1) as threads, ending_with(server):
            post(server, "/execute", {"code": "1"}, headers=headers)
            future = threads.submit(post, server, "/execute", {"code": SLEEP}, headers=headers)
            wait_until(lambda: runs_of(server) == 1)
            time.sleep(1.5)
            server.end()
            with pytest.raises(httpx.RemoteProtocolError):
                future.result()

    assert not re.search("Traceback|ERROR", server.stderr()), server.stderr()


def runs_of(server):
    with server.client() as client:
        lines = client.get("/metrics").text.splitlines()
    return next(float(line.split()[-1]) for line in lines if line.startswith("groundbox_runs_running "))


def wait_until(holds):
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@contextlib.contextmanager
def ending_with(server):
    """Kill the server if the block fails, so that no thread waits for it."""
    try:
        yield
    except BaseException:
        server.process.kill()
        raise


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """Responses of a server that was told to end while programs slept, what it logged, and how it ended."""
    log = tmp_path_factory.mktemp("ended") / "log"
    with serving(log, "--grace-s", 0.5, "--at-once", 32) as server, ending_with(server):
        server.run("1")
        calls = calls_of(server)
        with concurrent.futures.ThreadPoolExecutor(len(calls)) as threads:
            futures = {name: threads.submit(call) for name, call in calls.items()}
            wait_until(lambda: runs_of(server) == len(calls))
            time.sleep(1.5)  # streams and heartbeats have begun
            begun = time.monotonic()
            code = server.end()
            took_s = time.monotonic() - begun
            answers = {name: future.result() for name, future in futures.items()}
        return answers, server.stderr(), code, took_s


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("run", 503),
        ("sandbox", 503),
        ("sandboxfusion", 503),
        ("sandboxfusion 504", 504),
        ("jupyter of sandboxfusion", 503),
        ("openenv", 503),
    ],
)
def test_a_run_that_ends_with_the_server_is_answered_with_503_and_a_time(ended, name, status):
    answer = ended[0][name]

    assert answer.status_code == status, answer.text
    assert answer.headers["Retry-After"] == "1"
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.json()["error"]["code"] == "shutting_down"


def test_a_stream_that_ends_with_the_server_ends_with_an_event_that_says_so(ended):
    last = ended[0]["stream"].text.rstrip("\n").split("\n\n")[-1]

    assert last.startswith("event: failed\n")
    assert json.loads(last.partition("data: ")[2])["error"]["code"] == "shutting_down"


def test_a_reply_that_had_begun_says_in_its_body_that_the_server_ended(ended):
    assert ended[0]["heartbeat"].json()["error"]["code"] == "shutting_down"
    assert ended[0]["batch"].json()["results"][0]["error"]["code"] == "shutting_down"
    assert '"code":"shutting_down"' in ended[0]["mcp"].text


def test_a_server_that_was_told_to_end_exits_with_0_and_writes_no_error(ended):
    _, log, code, took_s = ended

    assert code == 0
    assert not re.search("Traceback|ERROR", log), log
    assert took_s < 0.5 + 2


SLOW_TO_END = """
from groundbox.sandbox.worker import Worker

has_ended = Worker.has_ended

def ends_late(worker, ended):
    worker._loop.call_later(3, has_ended, worker, ended)

Worker.has_ended = ends_late
"""


def test_runs_are_answered_before_the_kernel_has_ended_their_sandboxes(tmp_path):
    """Which takes a second where many end at once. verl would count anything but 504 as a wrong answer."""
    with (
        serving(tmp_path / "log", "--grace-s", 0.5, before=SLOW_TO_END) as server,
        concurrent.futures.ThreadPoolExecutor(4) as threads,
        ending_with(server),
    ):
        body = {"code": SLEEP, "run_timeout": 900}
        futures = [threads.submit(post, server, "/run_code?refused=504", body) for _ in range(2)]
        futures += [
            threads.submit(post, server, "/run_code?refused=504", {**body, "files": {"/tmp/a": "YQ=="}})  # may stay
            for _ in range(2)
        ]
        wait_until(lambda: runs_of(server) == 4)
        time.sleep(1)
        begun = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        answers = [future.result() for future in futures]
        took_s = time.monotonic() - begun
        server.process.wait(30)

    assert [answer.status_code for answer in answers] == [504] * 4
    assert took_s < 0.5 + 2


GIVEN = """
import os, sys
given, *command = sys.argv[1:]
os.dup2(int(given), 3)
os.environ |= {"LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid()), "LISTEN_FDNAMES": "http"}
os.execv(command[0], command)
"""


def started_on(listening, log, *options):
    """Start a server on a socket that this process holds, as a service manager does."""
    command = [sys.executable, "-m", "groundbox", "serve", "--grace-s", "0.5", *options]
    return subprocess.Popen(
        [sys.executable, "-c", GIVEN, str(listening.fileno()), *command],
        pass_fds=[listening.fileno()],
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        env={**os.environ, "GROUNDBOX_API_KEY": TOKEN},
    )


def asked_as_verl_asks(url, number):
    """The status that verl counts: 504 is asked again after 1 and 2 s, and everything else is final."""
    body = {"code": f"import time; time.sleep(0.3); print({number})", "run_timeout": 60}
    for attempt in range(3):
        answer = httpx.post(f"{url}/with-key/{TOKEN}/run_code?refused=504", json=body, timeout=120)
        if answer.status_code != 504 or attempt == 2:
            return answer.status_code, answer.json()["status"] if answer.status_code == 200 else answer.text
        time.sleep(attempt + 1)
    raise AssertionError


def test_no_connection_is_refused_while_a_server_is_restarted_on_a_socket_that_stays_open(tmp_path):
    stop, answers = threading.Event(), []

    def ask(url):
        while not stop.is_set():
            answers.append(asked_as_verl_asks(url, 1))

    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        open(tmp_path / "log", "w") as log,
        concurrent.futures.ThreadPoolExecutor(4) as threads,
    ):
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        server = started_on(listening, log)
        try:
            assert server.stdout.readline().strip() == url + "/"
            futures = [threads.submit(ask, url) for _ in range(4)]
            for _ in range(2):
                count = len(answers)
                wait_until(lambda count=count: len(answers) > count + 4)
                server.send_signal(signal.SIGTERM)
                assert server.wait(30) == 0
                time.sleep(1)
                server = started_on(listening, log)
                server.stdout.readline()
        finally:
            stop.set()
            for future in futures:
                future.result()
            server.terminate()
            server.wait(30)

    assert collections.Counter(answers) == {(200, "Success"): len(answers)}


@pytest.mark.parametrize(
    ("made", "options", "problem"),
    [
        (lambda: socket.socket(), [], "a socket that does not listen on TCP"),
        (lambda: socket.create_server(("0.0.0.0", 0)), ["--no-auth"], "can be reached by others than this machine"),
    ],
)
def test_a_given_socket_that_cannot_be_served_is_refused(tmp_path, made, options, problem):
    with made() as listening, open(tmp_path / "log", "w") as log:
        assert started_on(listening, log, *options).wait(30) == 2

    assert problem in (tmp_path / "log").read_text()


def test_a_run_that_ends_within_the_grace_is_answered_as_usual(tmp_path):
    with serving(tmp_path / "log", "--grace-s", 60) as server:
        with concurrent.futures.ThreadPoolExecutor(3) as threads, ending_with(server):
            short = threads.submit(post, server, "/v1/run", {"code": "import time; time.sleep(3); print(6 * 7)"})
            wait_until(lambda: runs_of(server) == 1)
            server.process.send_signal(signal.SIGTERM)
            wait_until(lambda: post(server, "/v1/run", {"code": "1"}).status_code == 503)
            late = [
                post(server, path, body)
                for path, body in (
                    ("/v1/run", {"code": "1"}),
                    ("/v1/sandboxes", {}),
                    ("/run_code", {"code": "1"}),
                    ("/openenv/step", {"action": {"code": "1"}}),
                    ("/v2/sandboxes", {"templateID": "base"}),
                )
            ]
            ready = httpx.get(server.url + "/readyz")
            assert short.result().json()["stdout"] == "42\n"
        assert server.process.wait(60) == 0

    assert [(answer.status_code, answer.headers["Retry-After"]) for answer in late] == [(503, "1")] * 5
    assert ready.status_code == 503


def test_a_second_signal_waits_for_no_run(tmp_path):
    with serving(tmp_path / "log", "--grace-s", 600) as server, concurrent.futures.ThreadPoolExecutor(1) as threads:
        with ending_with(server):
            future = threads.submit(post, server, "/v1/run", {"code": SLEEP, "limits": LIMITS})
            wait_until(lambda: runs_of(server) == 1)
            server.process.send_signal(signal.SIGTERM)
            wait_until(lambda: post(server, "/v1/run", {"code": "1"}).status_code == 503)
            assert server.end() == 0
        with contextlib.suppress(httpx.HTTPError):
            future.result()


def test_runs_that_wait_are_refused_when_the_server_is_told_to_end(tmp_path):
    with (
        serving(tmp_path / "log", "--grace-s", 1, "--at-once", 1) as server,
        concurrent.futures.ThreadPoolExecutor(4) as threads,
        ending_with(server),
    ):
        futures = [threads.submit(post, server, "/v1/run", {"code": SLEEP, "limits": LIMITS}) for _ in range(4)]
        wait_until(lambda: runs_of(server) == 1)
        time.sleep(0.5)
        server.end()
        answers = [future.result() for future in futures]

    assert [answer.status_code for answer in answers] == [503] * 4


@pytest.mark.parametrize("path", ["/openenv/ws", "/v1/sandboxes/{}/processes/{}/terminal"])
def test_a_websocket_is_closed_as_of_a_server_that_restarts(tmp_path, path):
    with serving(tmp_path / "log", "--grace-s", 0.5) as server:
        if "{}" in path:
            made = post(server, "/v1/sandboxes", {}).json()["sandbox_id"]
            started = post(server, f"/v1/sandboxes/{made}/processes", {"command": "sleep 600", "pty": [24, 80]})
            path = path.format(made, started.json()["pid"])
        address = server.url.replace("http", "ws") + path
        with connect(address, additional_headers={"Authorization": f"Bearer {TOKEN}"}) as socket_:
            if "openenv" in path:
                for code in ("1", SLEEP):
                    socket_.send(json.dumps({"type": "step", "data": {"code": code, "timeout_s": 900}}))
                    if code == "1":
                        socket_.recv(timeout=60)
                wait_until(lambda: runs_of(server) == 1)
                time.sleep(0.5)
            ending = threading.Thread(target=server.end)
            ending.start()
            told, closed = [], None
            while closed is None:
                try:
                    told.append(socket_.recv(timeout=30))
                except ConnectionClosed as error:
                    closed = error
            ending.join()

    assert closed.rcvd is not None
    assert closed.rcvd.code in (1001, 1012)
    if "openenv" in path:
        assert json.loads(told[-1])["data"]["reason"] == "shutting_down"
    else:
        assert not any("exit" in str(each) for each in told)
    assert not re.search("Traceback|ERROR", server.stderr()), server.stderr()


def test_a_client_that_leaves_is_no_error_of_the_server(tmp_path):
    """It hangs up in the head, in the body, while its run goes on, in a stream, and in a large reply."""
    with serving(tmp_path / "log") as server:
        host, port = re.fullmatch(r"http://(.*):(\d+)", server.url).groups()
        large = json.dumps({"code": "print('x' * (1 << 20))", "stream": True}).encode()
        sleep = json.dumps({"code": SLEEP}).encode()
        stream = json.dumps({"code": SLEEP, "stream": True}).encode()
        flood = json.dumps({"code": "for _ in range(100000): print('x' * 1000)", "stream": True}).encode()

        def head(path, size):
            return (
                f"POST {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {TOKEN}\r\n"
                f"Content-Type: application/json\r\nContent-Length: {size}\r\n\r\n"
            ).encode()

        sent = [b"POST /v1/run HT", head("/v1/run", 1000) + b"{"]
        for path in ("/v1/run", "/v1/run?heartbeat_s=1", "/run_code", "/openenv/step"):
            body = json.dumps({"action": {"code": SLEEP}}).encode() if "openenv" in path else sleep
            sent += [head(path, len(body)) + body]
        sent += [head("/v1/run", len(body)) + body for body in (large, stream, flood)]
        for data in sent:
            for reset in (False, True):
                with socket.create_connection((host, int(port))) as leaving:
                    leaving.sendall(data)
                    time.sleep(1.2)
                    if reset:  # RST in place of FIN
                        leaving.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        address = server.url.replace("http", "ws") + "/openenv/ws"
        with connect(address, additional_headers={"Authorization": f"Bearer {TOKEN}"}) as gone:
            gone.send(json.dumps({"type": "step", "data": {"code": SLEEP}}))
            time.sleep(0.5)
            gone.socket.shutdown(socket.SHUT_RDWR)
        wait_until(lambda: runs_of(server) == 0)
        server.end()

    assert not re.search("Traceback|ERROR", server.stderr()), server.stderr()
