"""Failed infrastructure is never a score: right programs are scored while workers and servers are killed.

GROUNDBOX_SCORED_RUNS says how many programs; 10,000 is the long form.
"""

import collections
import concurrent.futures
import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time

import httpx
import pytest

from .conftest import TOKEN
from .test_load import processes_of

RUNS = int(os.environ.get("GROUNDBOX_SCORED_RUNS", "300"))
CLIENTS = 8


class Killing:
    """Kills one of the youngest processes below another one, mostly workers; `count` says how many."""

    def __init__(self, parent):
        self.count, self._parent, self._chance = 0, parent, random.Random(1)

    def kill(self):
        """Kill one; one time in fifty it may be a template."""
        found = sorted(processes_of(self._parent()))
        if found:
            youngest = found if self._chance.random() < 0.02 else found[-4:]
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._chance.choice(youngest), signal.SIGKILL)
                self.count += 1


class Restarted:
    """A server on one port that is killed, or told to end, and started again."""

    def __init__(self, folder):
        self._folder, self.starts = folder, 0
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.process = None

    def start(self):
        """Start it, and wait until it can run programs."""
        told = [sys.executable, "-m", "groundbox", "serve", "--port", str(self.port), "--grace-s", "0.5"]
        environ = {**os.environ, "GROUNDBOX_API_KEY": TOKEN}
        with open(self._folder / "log", "a") as log:
            self.process = subprocess.Popen(told, stdout=subprocess.DEVNULL, stderr=log, env=environ)
        self.starts += 1
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            with contextlib.suppress(httpx.HTTPError):
                if httpx.get(f"http://127.0.0.1:{self.port}/readyz").status_code == 200:
                    return
            time.sleep(0.1)
        raise TimeoutError((self._folder / "log").read_text())

    def end(self, number):
        """Send a signal and wait for its end."""
        self.process.send_signal(number)
        self.process.wait(60)


def score(url, number):
    """Score one right program as trainers do: 1 or 0 by a result, None for a refusal or a broken connection."""
    body = {"code": f"import time; time.sleep(0.05); print(int(input()) + {number})", "stdin": "1", "run_timeout": 60}
    try:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        answer = httpx.post(f"{url}/run_code?refused=504", json=body, headers=headers, timeout=120)
    except httpx.HTTPError:
        return None
    if answer.status_code in (429, 503, 504):
        return None
    if answer.status_code != 200:
        return f"{answer.status_code} {answer.text[:200]}"
    told = answer.json()
    is_right = told["status"] == "Success" and told["run_result"]["stdout"] == f"{number + 1}\n"
    return 1 if is_right else f"0: {told}"


@pytest.mark.timeout(300 + RUNS)
def test_no_right_program_is_scored_as_wrong_while_workers_and_the_server_are_killed(tmp_path):
    server = Restarted(tmp_path)
    server.start()
    killing = Killing(lambda: server.process.pid)
    counts, serving_again, chance = collections.Counter(), threading.Lock(), random.Random(2)

    def score_until_known(number):
        """Score it; after some results a process is killed, after more of them the server."""
        for _ in range(300):
            result = score(f"http://127.0.0.1:{server.port}", number)
            counts["unknown" if result is None else "right" if result == 1 else "wrong"] += 1
            if result is not None:
                break
            time.sleep(0.3)
        if number % 6 == 5:
            killing.kill()
        if number % 100 == 50 and serving_again.acquire(blocking=False):
            try:
                server.end(chance.choice([signal.SIGKILL, signal.SIGTERM]))
                server.start()
            finally:
                serving_again.release()
        return result

    try:
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as threads:
            results = list(threads.map(score_until_known, range(RUNS)))
        print(f"{RUNS} programs: {dict(counts)}; {killing.count} kills, {server.starts} starts of the server")
    finally:
        server.end(signal.SIGTERM)

    assert [each for each in results if each != 1] == []
    assert killing.count > 0
    assert server.starts > 1
