"""Checkpoints, undo and forks by `groundbox.connect`: what holds for a sandbox here holds for one there."""

import asyncio
import gc
import http.server
import json
import re
import sys
import threading
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the extra `server` is not installed here")

import groundbox as gb
from groundbox.errors import InvalidArgument, SandboxClosed, ServerRefused
from groundbox.jail import kernel
from groundbox.sandbox.portal import PORTAL
from groundbox.testing.base import until

from .conftest import serving

pytestmark = pytest.mark.skipif(kernel.MACHINE != "x86_64", reason="live sandboxes are copied on x86_64 only")

BUSY = "import threading, time; threading.Thread(target=time.sleep, args=(60,), name='waits', daemon=True).start()"


def path_of(box: Any):
    return box.asynchronous.path()


@pytest.fixture
def there(server):
    """The shared server, connected to."""
    with gb.connect(server.url, api_key=server.token) as connection:
        yield connection


@pytest.fixture(params=["here", "there"])
def maker(request, server):
    """Makes sandboxes, of this process or on a server: what is tested holds for both."""
    if request.param == "here":
        yield gb.Sandbox
        return
    with gb.connect(server.url, api_key=server.token) as there:
        yield there.Sandbox


def test_a_sandbox_goes_back_and_forks_here_as_there(maker):
    with maker(profile="bare", undo=2) as box:
        box.run("x = 1; open('f', 'w').write('1')")
        state = box.checkpoint()
        lost = state.lost
        box.run("x = 2; open('g', 'w').close()")
        box.restore(state)
        restored = box.run("x").text, box.files.list()
        box.run("x = 3")
        box.undo()
        undone = box.run("x").text
        forks = box.fork(2)
        forks[0].run("x = 4")
        forked = [each.run("x").text for each in (box, *forks)]
        for each in forks:
            each.close()

    assert (lost, restored, undone, forked) == ("", ("1", {"f": 1}), "1", ["1", "4", "1"])


def test_a_failed_run_is_taken_back_here_as_there(maker):
    with maker(profile="bare", rollback="on_error") as box:
        box.run("rows = []")
        failed = box.run("rows.append(1); rows[5]")

        assert (failed.error.type, failed.state, [each.code for each in failed.warnings]) == (
            "IndexError",
            "kept",
            ["session.rolled_back"],
        )
        assert box.run("rows").text == "[]"


def test_refusals_are_the_same_here_as_there(maker):
    told = []

    def refuses(act, *arguments):
        with pytest.raises(gb.GroundboxError) as caught:
            act(*arguments)
        told.append((type(caught.value), str(caught.value)))

    with maker(profile="bare", branching=True) as box, maker(profile="bare") as plain:
        box.run("x = 1")
        plain.run("x = 1")
        dropped, kept = box.checkpoint(), box.checkpoint()
        dropped.drop()
        dropped.drop()
        for act, *arguments in (
            (box.restore, dropped),
            (box.restore, "state"),
            (plain.restore, kept),
            (box.undo,),
            (box.undo, 0),
            (box.fork, 0),
            (box.fork, "2"),
            (box.fork, 65),
            (plain.checkpoint,),
            (plain.fork, 1),
        ):
            refuses(act, *arguments)
        box.run(BUSY)
        refuses(box.checkpoint)
        refuses(box.fork, 1)
        box.close()
        refuses(box.restore, kept)
        refuses(box.checkpoint)
        refuses(box.fork, 1)
        words = dropped.lost, kept.lost

    not_made = (
        InvalidArgument,
        "branching: this sandbox cannot be copied; make it with Sandbox(branching=True)",
    )
    busy = (gb.SandboxBusy, "this sandbox cannot be copied now: thread waits")
    closed = (SandboxClosed, "this sandbox is closed; make a new one")
    assert told == [
        (gb.CheckpointLost, "this checkpoint is gone (it was dropped); take another one"),
        (InvalidArgument, "checkpoint: must be a Checkpoint, not of type str"),
        (InvalidArgument, "checkpoint: is one of another sandbox"),
        (InvalidArgument, "undo: this sandbox keeps no states by itself; make it with Sandbox(undo=8)"),
        (InvalidArgument, "n: must be a whole number from 1 on, not 0"),
        (InvalidArgument, "n: must be a whole number from 1 to 64, not 0"),
        (InvalidArgument, "n: must be a whole number from 1 to 64, not '2'"),
        (InvalidArgument, "n: must be a whole number from 1 to 64, not 65"),
        not_made,
        not_made,
        busy,
        busy,
        (gb.CheckpointLost, "this checkpoint is gone (its sandbox was closed); take another one"),
        closed,
        closed,
    ]
    assert words == ("it was dropped", "its sandbox was closed")


def test_a_checkpoint_that_is_gone_there_is_lost_here(there, client):
    with there.Sandbox(profile="bare", branching=True) as box:
        state = box.checkpoint()
        path = PORTAL.call(box.asynchronous.path())
        for each in client.get(f"{path}/checkpoints").json()["checkpoints"]:
            client.delete(f"{path}/checkpoints/{each['checkpoint_id']}")

        with pytest.raises(gb.CheckpointLost, match="no such checkpoint any more"):
            box.restore(state)
        assert state.lost == "the server has no such checkpoint any more"


def test_the_server_drops_a_checkpoint_with_the_last_reference_to_it(there, client):
    def listed():
        return client.get(f"{path}/checkpoints").json()["checkpoints"]

    with there.Sandbox(profile="bare", branching=True) as box:
        state, other = box.checkpoint(), box.checkpoint()
        path = PORTAL.call(box.asynchronous.path())
        before = len(listed())
        del state
        gc.collect()

        assert before == 2
        assert until(lambda: len(listed()) == 1)
        assert other.lost == ""


def test_what_is_dropped_is_gone_there_before_another_one_is_taken(there, client):
    with there.Sandbox(profile="bare", branching=True) as box:
        path = PORTAL.call(box.asynchronous.path())
        for _ in range(5):
            state = box.checkpoint()
            state.drop()
        state = box.checkpoint()

        assert len(client.get(f"{path}/checkpoints").json()["checkpoints"]) == 1
        assert state.lost == ""


def test_dropping_waits_for_nothing_and_raises_nothing_where_loop_and_server_are_gone(tmp_path, monkeypatch):
    unraisable = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)

    async def work():
        there = gb.connect(server.url, api_key=server.token)
        box = there.AsyncSandbox(profile="bare", branching=True)
        return box, [await box.checkpoint() for _ in range(2)]

    with serving(tmp_path / "log") as server:
        of_ended_loop, states = asyncio.run(work())
        there = gb.connect(server.url, api_key=server.token)
        box = there.Sandbox(profile="bare", branching=True)
        states += [box.checkpoint() for _ in range(2)]
        server.process.kill()
        server.process.wait()

        states[0].drop()
        states[2].drop()
        states.clear()
        gc.collect()
        PORTAL.call(asyncio.sleep(0.2))

    assert unraisable == []
    assert of_ended_loop is not None


def test_who_gives_up_while_a_checkpoint_is_taken_leaves_none_there(server, client):
    async def work():
        connection = gb.connect(server.url, api_key=server.token)
        async with connection as there, there.AsyncSandbox(profile="bare", branching=True) as box:
            await box.run("x = 1")
            path = await box.path()
            for after_s in (0, 0.002, 0.01):
                taking = asyncio.ensure_future(box.checkpoint())
                await asyncio.sleep(after_s)
                taking.cancel()
                await asyncio.wait([taking])
            left = None
            for _ in range(20):  # what was under way is dropped when it is there
                await asyncio.sleep(1)
                left = await asyncio.to_thread(lambda: client.get(f"{path}/checkpoints").json()["checkpoints"])
                if not left:
                    break
            return left, (await box.run("x")).text

    assert asyncio.run(work()) == ([], "1")


def test_who_gives_up_while_forks_are_made_leaves_none_there(server, client):
    async def work():
        connection = gb.connect(server.url, api_key=server.token)
        async with connection as there, there.AsyncSandbox(profile="bare", branching=True) as box:
            held = await box.path()
            forking = asyncio.ensure_future(box.fork(2))
            await asyncio.sleep(0.005)
            forking.cancel()
            await asyncio.wait([forking])
            is_over = await asyncio.to_thread(until, lambda: forked() > before and len(listed()) == others + 1)
            return is_over, held.rpartition("/")[2] in listed()

    def listed():
        return [each["sandbox_id"] for each in client.get("/v1/sandboxes").json()["sandboxes"]]

    def forked():
        counted = re.search(r'{act="fork",outcome="ok"} (.*)', client.get("/metrics").text)
        return float(counted[1]) if counted else 0.0

    before, others = forked(), len(listed())

    assert asyncio.run(work()) == (True, True)


def test_code_with_an_event_loop_awaits_the_same_methods(server):
    async def work():
        connection = gb.connect(server.url, api_key=server.token)
        async with connection as there, there.AsyncSandbox(profile="bare", undo=1) as box:
            await box.run("x = 1")
            state = await box.checkpoint()
            await box.run("x = 2")
            await box.undo()
            await box.restore(state)
            forks = await box.fork(2)
            told = [(await each.run("x")).text for each in forks]
            await asyncio.gather(*(each.close() for each in forks))
            return told, state.lost

    assert asyncio.run(work()) == (["1", "1"], "")


def test_forks_of_a_sandbox_that_is_held_are_held(server, client):
    with gb.connect(server.url, api_key=server.token, hold=True) as there:
        box = there.Sandbox(profile="bare", branching=True)
        fork = box.fork(1)[0]
        path = PORTAL.call(path_of(fork))
        busy = client.get(path).json()["busy"]
        box.close()
        text = fork.run("1").text
        del fork
        gc.collect()

        assert (busy, text) == (True, "1")
        assert until(lambda: client.get(path).status_code == 404)


class Older(http.server.BaseHTTPRequestHandler):
    """A server of before there were checkpoints."""

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        unknown = next((name for name in ("branching", "undo", "rollback") if name in asked), None)
        told: dict[str, Any] = {"sandbox_id": "0" * 32}
        status = 201
        if unknown:
            message = f"the body does not fit: Object contains unknown field `{unknown}`"
            told, status = {"error": {"code": "invalid_argument", "message": message}}, 400
        body = json.dumps(told).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_DELETE = do_POST

    def log_message(self, *_):
        pass


def test_a_server_that_is_too_old_is_told_as_that():
    told = []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Older) as serving_:
        threading.Thread(target=serving_.serve_forever).start()
        there = gb.connect(f"http://127.0.0.1:{serving_.server_address[1]}")
        plain = there.Sandbox()
        for act in (
            there.Sandbox(branching=True).checkpoint,
            there.Sandbox(undo=1).undo,
            lambda: there.run("1", rollback="on_error"),
            plain.checkpoint,
            plain.undo,
            lambda: plain.fork(2),
        ):
            with pytest.raises(
                InvalidArgument, match="is not known to this server, whose groundbox is older"
            ) as caught:
                act()
            told.append(caught.value.argument)
        serving_.shutdown()

    assert told == ["branching", "undo", "rollback", "branching", "branching", "branching"]


def test_a_server_that_is_full_is_waited_for_no_longer_than_it_says(there, monkeypatch):
    monkeypatch.setattr("groundbox.remote.sandbox._BUSY_S", 0.0)
    with there.Sandbox(profile="bare", undo=64) as box:
        box.run("1")
        with pytest.raises(ServerRefused, match="checkpoints are kept on this server") as caught:
            box.fork(64)  # which may keep 64 states each

    assert (caught.value.status, caught.value.code) == (429, "busy")
