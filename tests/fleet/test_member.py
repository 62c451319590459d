"""A node from its own side: when it gives up, and what becomes of what it was doing."""

import asyncio
import json
import time
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the extra `server` is not installed here")

from groundbox.fleet.joining import Leased
from groundbox.fleet.member import Membership, _now


class Sandboxes:
    """Sandboxes of a server, for who waits until all were ended."""

    tag = "0" * 12

    def __init__(self):
        self.ended = asyncio.Event()

    def __len__(self):
        return 0

    def of_any_key(self):
        return iter(())

    async def close_all(self):
        self.ended.set()


def membership(gateway, lease_s):
    """One that has renewed its lease just now."""
    keys = SimpleNamespace(take_vouched=dict, give_back_vouched=lambda used: None, revoke_vouched=lambda ids: None)
    settings = SimpleNamespace(runs_at_once=1, sandboxes=1, environment="default")
    turns = SimpleNamespace(running=0, waiting=0)
    service: Any = SimpleNamespace(sandboxes=Sandboxes(), keys=keys, settings=settings, turns=turns, problem="")
    member = Membership(service, gateway=gateway, secret=b"s" * 16, name="ada", url="http://127.0.0.1:9")
    leased = Leased(tag="0" * 12, generation=1, lease_s=lease_s, renew_s=lease_s / 3, state="ready")
    member._boot_id = "1" * 32
    member._take(leased, _now())
    return member


def test_a_gateway_that_takes_renewals_and_answers_none_holds_no_node_past_its_lease():
    async def scenario():
        async def mute(reader, writer):
            await reader.read()

        async with await asyncio.start_server(mute, "127.0.0.1", 0) as server:
            member = membership(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", lease_s=1.2)
            begun = time.monotonic()
            keeping = asyncio.create_task(member._keep())
            await member._service.sandboxes.ended.wait()
            keeping.cancel()
            return time.monotonic() - begun

    assert 0.9 < asyncio.run(scenario()) < 1.2


def asked(member, app, *, through_gateway=True):
    """What is sent to who asks an application that goes on until the node has no lease any more."""

    async def scenario():
        sent = []

        async def send(message):
            sent.append(message)

        async def receive():
            await asyncio.Event().wait()

        scope = {"type": "http", "method": "POST", "path": "/v1/run", "headers": [], "groundbox.fleet": through_gateway}
        task = asyncio.create_task(member.parts()["around"](app)(scope, receive, send))
        await asyncio.sleep(0.05)
        await member._fence()
        done, _ = await asyncio.wait([task], timeout=1)
        task.cancel()
        return sent, bool(done), bool(done) and task.cancelled()

    return asyncio.run(scenario())


async def endless(scope, receive, send):
    await asyncio.Event().wait()


async def streaming(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await asyncio.Event().wait()


def test_what_goes_on_when_the_lease_ends_is_called_off_and_said_to_be_lost():
    sent, has_ended, was_cancelled = asked(membership("http://127.0.0.1:9", 6.0), endless)

    assert (sent[0]["status"], json.loads(sent[1]["body"])["error"]["code"]) == (503, "run_lost")
    assert (has_ended, was_cancelled) == (True, False)


def test_half_of_an_answer_is_cut_when_the_lease_ends():
    sent, has_ended, was_cancelled = asked(membership("http://127.0.0.1:9", 6.0), streaming)

    assert [each["type"] for each in sent] == ["http.response.start"]
    assert (has_ended, was_cancelled) == (True, False)


def test_what_was_asked_by_no_gateway_goes_on():
    sent, has_ended, _ = asked(membership("http://127.0.0.1:9", 6.0), endless, through_gateway=False)

    assert (sent, has_ended) == ([], False)
