"""Failed infrastructure is never a score: right programs are scored while a server is disturbed in several ways.

GROUNDBOX_SCORED_RUNS says how many programs, for all ways together; 10,000 is the long form.
The fixtures are those of tests/shortage.py.
"""

import collections
import concurrent.futures
import contextlib
import os
import time

import httpx
import pytest

from groundbox.limits import MiB

from .conftest import TOKEN
from .disturbances import FullDisk, Kills, Restarts, ScarceMemory

RUNS = int(os.environ.get("GROUNDBOX_SCORED_RUNS", "240"))
CLIENTS = 8
WAYS = {"kills": 0.4, "restarts": 0.3, "full disk": 0.2, "scarce memory": 0.1}
"""Shares of the programs; with little memory, one takes a second."""


def score(url, number, body):
    """Score one right program as trainers do: 1 or 0 by a result, None for a refusal or a broken connection."""
    try:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        answer = httpx.post(f"{url}/run_code?refused=504", json=body, headers=headers, timeout=120)
    except httpx.HTTPError:
        return None
    if answer.status_code == 504:
        return None
    if answer.status_code != 200:
        return f"{answer.status_code} {answer.text[:200]}"
    told = answer.json()
    is_right = told["status"] == "Success" and told["run_result"]["stdout"] == f"{number + 1}\n"
    return 1 if is_right else f"0: {str(told)[:500]}"


@pytest.fixture
def disturbed(request, tmp_path, small_disk, crowd):
    """A server that is disturbed in the way of the parameter."""
    with contextlib.ExitStack() as stack:
        if request.param == "full disk":
            yield FullDisk(tmp_path, stack.enter_context(small_disk(tmp_path / "disk", 64 * MiB)))
        elif request.param == "scarce memory":
            yield ScarceMemory(tmp_path, stack.enter_context(crowd(240 * MiB)))
        else:
            yield {"kills": Kills, "restarts": Restarts}[request.param](tmp_path)


@pytest.mark.timeout(600 + RUNS)
@pytest.mark.parametrize("disturbed", WAYS, indirect=True)
def test_no_right_program_is_scored_as_wrong_while_the_server_is_disturbed(disturbed, request):
    counts = collections.Counter()

    def score_until_known(number):
        body = disturbed.body(number)
        for _ in range(600):
            result = score(disturbed.server.url, number, body)
            counts["unknown" if result is None else "right" if result == 1 else "wrong"] += 1
            if result is not None:
                break
            time.sleep(0.3)
        disturbed.after(number)
        return result

    way = request.node.callspec.params["disturbed"]
    with disturbed, concurrent.futures.ThreadPoolExecutor(CLIENTS) as threads:
        results = list(threads.map(score_until_known, range(round(RUNS * WAYS[way]))))
    print(f"{way}: {len(results)} programs, {dict(counts)}, disturbed {disturbed.count} times")

    assert [each for each in results if each != 1] == []
    assert disturbed.count > 0
