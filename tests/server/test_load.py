"""Many runs with large outputs under many clients, while the garbage collector runs at random points of the server.

GROUNDBOX_LOAD_RUNS says how many; 20,000 is the long form.
"""

import concurrent.futures
import json
import os
import random
import time
from pathlib import Path

import httpx
import pytest

from .conftest import serving

RUNS = int(os.environ.get("GROUNDBOX_LOAD_RUNS", "500"))
CLIENTS = 64
COLLECTING = """
import gc, random, threading, time

def collect():
    while True:
        time.sleep(random.random() * 0.05)
        gc.collect(random.randrange(3))

gc.set_threshold(40, 2, 2)
threading.Thread(target=collect, daemon=True).start()
"""


def descriptors(pid):
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def processes_of(pid):
    """Numbers of all processes that descend from one."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(stat.parent.name)] = int(fields[1])
    found = {pid}
    while more := {each for each, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}


def is_running(pid):
    """Say whether a process still does; one that has ended may wait for long until the machine's init asks for it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def run_one(client, number):
    """One run whose output is checked whole; returns None, or what was wrong."""
    chance = random.Random(number)
    size, kind = chance.choice([0, 1000, 60_000, 300_000, 1_500_000]), number % 4
    code = f"print('x' * {size})\nopen('f', 'wb').write(b'y' * {size // 10})\n{number}"
    for attempt in range(20):
        try:
            if kind == 0:
                with client.stream("POST", "/v1/run", json={"code": code, "stream": True}) as answer:
                    text = "".join(answer.iter_text())
                status = answer.status_code
                execution = json.loads(text.rpartition("data: ")[2])["execution"] if status == 200 else None
            else:
                answer = client.post("/v1/run", json={"code": code})
                status, execution = answer.status_code, answer.json()
        except httpx.HTTPError as error:
            return f"{number}: {type(error).__name__}: {error}"
        if status != 429:
            break
        time.sleep(0.2 + 0.1 * attempt)
    if status != 200:
        return f"{number}: {status}"
    if execution["outcome"] != "ok" or execution["value"] != {"text/plain": str(number)}:
        return f"{number}: {execution['outcome']}, {execution['value']}"
    if kind == 1:
        path = f"/v1/executions/{execution['execution_id']}/output/stdout?size={16 << 20}"
        output = client.get(path)
        if output.status_code == 200 and len(output.content) != size + 1:
            return f"{number}: {len(output.content)} bytes in place of {size + 1}"
    if size <= 60_000 and len(execution["stdout"]) != size + 1:
        return f"{number}: {len(execution['stdout'])} characters in place of {size + 1}"
    return None


@pytest.mark.timeout(300 + RUNS)
def test_runs_with_large_outputs_end_all_and_leave_nothing_behind(tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with serving(tmp_path / "log", before=COLLECTING, environ={"TMPDIR": str(scratch)}) as server:
        pid = server.process.pid
        server.run("1")
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as threads:
            clients = [server.client() for _ in range(CLIENTS)]
            for client in clients:
                client.timeout = httpx.Timeout(300)
            before = descriptors(pid)
            begun = time.monotonic()
            results = threads.map(lambda number: run_one(clients[number % CLIENTS], number), range(RUNS))
            wrong = [each for each in results if each is not None]
            took_s = time.monotonic() - begun
            for client in clients:
                client.close()
        with server.client() as client:
            metrics = client.get("/metrics").text
        after = descriptors(pid)
        children = processes_of(pid)
        print(f"{RUNS} runs in {took_s:.0f} s; descriptors {before} before, {after} after")
        code = server.end()
        left = {each for each in children if is_running(each)}

    assert wrong == []
    assert "groundbox_runs_running 0.0" in metrics
    assert "groundbox_runs_waiting 0.0" in metrics
    assert after < before + 2 * 2000 + CLIENTS  # two for each result that is kept, at most
    assert code == 0
    assert left == set()
    assert list(scratch.iterdir()) == []
