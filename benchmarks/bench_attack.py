"""How much one key that attacks slows down the other keys of a server.

Eight clients of another key send runs one after another. In turns of a few seconds, one key attacks at the same time or
not: with programs that sleep in every slot, searches in its own output, processes of E2B that print to nobody, and
results with many small JSON values. Printed are the latencies of both and the ratio of their p99, by pairs of turns, so
that other load of the machine meets both. `python benchmarks/bench_attack.py [PAIRS] [SECONDS]`
"""

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import httpx

TOKEN = "a-key-of-some-length-for-benchmarks"
CLIENTS = 8
SLEEP = {"code": "import time; time.sleep(600)", "limits": {"wall_s": 900}}
LONG_LINE = {"code": "print('x' * (30 << 20))", "limits": {"output_bytes": 64 << 20}, "mode": "script"}
SMALL_VALUES = {
    "code": "from IPython.display import display\n"
    "for k in range(3): display({'application/json': {'%x' % i: {} for i in range(95000)}}, raw=True)"
}


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[tuple[str, str, str]]:
    """Yield the address of a server, and the keys of two users."""
    command = [sys.executable, "-m", "groundbox", "serve", "--port", "0", "--keys", str(folder / "keys.db")]
    environ = {**os.environ, "GROUNDBOX_API_KEY": TOKEN}
    with (
        open(folder / "log", "w") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environ) as process,
    ):
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip().partition("?")[0].rstrip("/")
            with client_of(url, TOKEN) as owner:
                made = [owner.post("/v1/keys", json={"owner": name, "scopes": ["run"]}) for name in ("ada", "bob")]
            ada, bob = (str(each.json()["key"]) for each in made)
            yield url, ada, bob
        finally:
            process.terminate()


def client_of(url: str, key: str) -> httpx.Client:
    """Return a client that sends a key."""
    return httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=900)


class Attack:
    """What one key does to a server until `stop`."""

    def __init__(self, url: str, key: str) -> None:
        self._url, self._key = url, key
        self._stop = threading.Event()
        self._boxes: list[str] = []
        with client_of(url, key) as client:
            self._long = client.post("/v1/run", json=LONG_LINE).json()["execution_id"]

    def start(self) -> None:
        """Begin, and wait until every part of it goes on."""
        self._stop.clear()
        with client_of(self._url, self._key) as client:
            for _ in range(2):
                self._flood(client)
        for work, count in ((self._sleep, 16), (self._search, 24), (self._show, 4)):
            for _ in range(count):
                threading.Thread(target=self._repeat, args=(work,), daemon=True).start()
        time.sleep(2)

    def stop(self) -> None:
        """End it, and what it left running."""
        self._stop.set()
        with client_of(self._url, self._key) as client:
            for box in self._boxes:
                client.delete(f"/sandboxes/{box}")
        self._boxes.clear()
        time.sleep(3)

    def _repeat(self, work: Callable[[httpx.Client], None]) -> None:
        with client_of(self._url, self._key) as client:
            while not self._stop.is_set():
                with contextlib.suppress(httpx.HTTPError):
                    work(client)

    def _sleep(self, client: httpx.Client) -> None:
        with client.stream("POST", "/v1/run?heartbeat_s=1", json=SLEEP) as answer:
            for _ in answer.iter_raw():
                if self._stop.is_set():
                    return

    def _search(self, client: httpx.Client) -> None:
        client.get(f"/v1/executions/{self._long}/search", params={"text": "yy"})

    def _show(self, client: httpx.Client) -> None:
        if client.post("/v1/run", json=SMALL_VALUES).status_code == 429:
            time.sleep(0.1)

    def _flood(self, client: httpx.Client) -> None:
        made = client.post("/v2/sandboxes", json={"templateID": "base", "timeout": 600})
        if made.status_code != 201:
            return
        box = made.json()
        self._boxes.append(box["sandboxID"])
        headers = {"X-Access-Token": box["envdAccessToken"], "E2b-Sandbox-Id": box["sandboxID"]}
        body = json.dumps({"process": {"cmd": "/usr/bin/yes", "args": ["x" * 4000]}}).encode()
        content = b"\0" + len(body).to_bytes(4, "big") + body
        headers["Content-Type"] = "application/connect+json"
        for _ in range(15):
            with client.stream("POST", "/process.Process/Start", content=content, headers=headers) as answer:
                next(answer.iter_raw())


def latencies(url: str, key: str, seconds: float) -> tuple[list[float], int]:
    """Return how long each run of eight clients took, and how many were refused."""
    found: list[float] = []
    refused: list[float] = []
    deadline = time.monotonic() + seconds

    def ask() -> None:
        with client_of(url, key) as client:
            while time.monotonic() < deadline:
                begun = time.monotonic()
                answer = client.post("/v1/run", json={"code": "print(sum(range(1000)))"})
                (found if answer.status_code == 200 else refused).append(time.monotonic() - begun)

    threads = [threading.Thread(target=ask) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found, len(refused)


def p99(values: Sequence[float]) -> float:
    """Return the 99th percentile."""
    return sorted(values)[min(len(values) - 1, int(0.99 * len(values)))]


def main(pairs: int = 3, seconds: float = 10.0) -> None:
    """Print the baseline, the same under attack, and the ratio."""
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder)) as (url, ada, bob):
        latencies(url, bob, 5)
        attack, ratios = Attack(url, ada), list[float]()
        for number in range(pairs):
            quiet, _ = latencies(url, bob, seconds)
            attack.start()
            loud, refused = latencies(url, bob, seconds)
            attack.stop()
            ratios.append(p99(loud) / p99(quiet))
            print(
                f"pair {number}: p99 {1000 * p99(quiet):.0f} ms of {len(quiet)} runs; under attack "
                f"{1000 * p99(loud):.0f} ms of {len(loud)}, {refused} refused; ratio {ratios[-1]:.2f}; medians "
                f"{1000 * statistics.median(quiet):.0f} and {1000 * statistics.median(loud):.0f} ms",
                flush=True,
            )
        print(f"ratio of p99, median of pairs: {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    given = sys.argv[1:]
    main(int(given[0]) if given else 3, float(given[1]) if len(given) > 1 else 10.0)
