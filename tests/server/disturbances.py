"""What a server is disturbed by while programs are scored: kills, restarts, a full disk and too little memory.

Each is a context manager with a `server`, a `body` for one more right program, and `after`, which is called when the
result of a program is known. `count` says how often the server was disturbed.
"""

import contextlib
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import httpx

from groundbox.limits import MiB

from .conftest import TOKEN
from .test_load import processes_of

_PROGRAM = "import time; time.sleep(0.05); print(int(input()) + {})"


class Restarted:
    """A server on one port that is killed, or told to end, and started again."""

    def __init__(self, folder, environ=None):
        self._folder, self._environ = folder, environ or {}
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.process = None

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def start(self):
        """Start it, and wait until it can run programs."""
        options = ["--port", str(self.port), "--grace-s", "0.5", "--at-once", "8"]
        told = [sys.executable, "-m", "groundbox", "serve", *options]
        environ = {**os.environ, "GROUNDBOX_API_KEY": TOKEN, **self._environ}
        with open(self._folder / "log", "a") as log:
            self.process = subprocess.Popen(told, stdout=subprocess.DEVNULL, stderr=log, env=environ)
        deadline = time.monotonic() + 240
        while time.monotonic() < deadline:
            with contextlib.suppress(httpx.HTTPError):
                if httpx.get(f"{self.url}/readyz").status_code == 200:
                    return
            time.sleep(0.1)
        raise TimeoutError((self._folder / "log").read_text())

    def end(self, number):
        """Send a signal and wait for its end."""
        self.process.send_signal(number)
        self.process.wait(60)


class Disturbance:
    """Nothing disturbs the server; others do."""

    def __init__(self, folder, environ=None):
        self.server, self.count = Restarted(folder, environ), 0
        self._chance, self._lock = random.Random(1), threading.Lock()

    def __enter__(self):
        self.server.start()
        return self

    def __exit__(self, *_):
        self.server.end(signal.SIGTERM)

    def body(self, number):
        """A program that is right if it prints `number + 1`."""
        return {"code": _PROGRAM.format(number), "stdin": "1", "run_timeout": 60}

    def after(self, number):
        """Disturb it, perhaps."""


class Kills(Disturbance):
    """One of the youngest processes of the server is killed, mostly a worker; one time in fifty perhaps a template."""

    def after(self, number):
        if number % 6 != 5:
            return
        with self._lock:
            found = sorted(processes_of(self.server.process.pid))
            if found:
                youngest = found if self._chance.random() < 0.02 else found[-4:]
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._chance.choice(youngest), signal.SIGKILL)
                    self.count += 1


class Restarts(Kills):
    """The server is killed or told to end as well, and started again."""

    def after(self, number):
        super().after(number)
        if number % 50 == 25 and self._lock.acquire(blocking=False):
            try:
                self.server.end(self._chance.choice([signal.SIGKILL, signal.SIGTERM]))
                self.server.start()
                self.count += 1
            finally:
                self._lock.release()


class Filling:
    """Fills a disk to its last block, frees it and fills it again; `count` says how often."""

    def __init__(self, disk, *, every_s=0.7):
        self.count, self._disk, self._every_s = 0, disk, every_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._go_on)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    def _go_on(self):
        while not self._stop.is_set():
            with open(self._disk / "filler", "wb", buffering=0) as file, contextlib.suppress(OSError):
                while True:
                    file.write(b"x" * MiB)
            self.count += 1
            self._stop.wait(self._every_s)
            (self._disk / "filler").unlink()
            self._stop.wait(self._every_s)


class FullDisk(Disturbance):
    """The disk for temporary files is full half of the time. Programs write a file, and one in ten a lot of output."""

    def __init__(self, folder, disk):
        super().__init__(folder, {"TMPDIR": str(disk)})
        self._filling = Filling(disk)

    def __enter__(self):
        super().__enter__()
        self._filling.__enter__()
        return self

    def __exit__(self, *error):
        self._filling.__exit__(*error)
        self.count = self._filling.count
        super().__exit__(*error)

    def body(self, number):
        writes = "open('a', 'wb').write(b'x' * (1 << 20)); "
        prints = "import sys; sys.stderr.write('x' * (9 << 20)); " if number % 10 == 5 else ""
        return {**super().body(number), "code": writes + prints + _PROGRAM.format(number)}


class ScarceMemory(Disturbance):
    """All sandboxes together may have less memory than those that run at once need, each within its own limit."""

    def __init__(self, folder, crowd):
        super().__init__(folder, crowd.environ)

    def __exit__(self, *error):
        headers = {"Authorization": f"Bearer {TOKEN}"}
        metrics = httpx.get(f"{self.server.url}/metrics", headers=headers).text
        found = re.search(r'_total{code="machine_failed"} (\d+)', metrics)
        self.count = 0 if found is None else int(found[1])
        super().__exit__(*error)

    def body(self, number):
        takes = "data = bytearray(64 << 20)\nfor at in range(0, len(data), 4096): data[at] = 1\n"
        return {**super().body(number), "code": takes + _PROGRAM.format(number), "run_timeout": 5}
