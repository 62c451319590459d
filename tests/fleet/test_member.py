"""A node from its own side: when it gives up, and what becomes of what it was doing."""

import asyncio
import json
import time
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the extra `server` is not installed here")

from groundbox.fleet.joining import ANSWER_HEADER, SELF, Leased, answer_mac, dumped_key, gateway_key, proof
from groundbox.fleet.member import Membership, _now
from groundbox.server.keys import Key
from groundbox.server.refusals import Refused

SECRET = b"s" * 16


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
    keys = SimpleNamespace(
        take_vouched=dict,
        give_back_vouched=lambda used: None,
        revoke_vouched=lambda ids: None,
        vouch=lambda key: None,
    )
    settings = SimpleNamespace(runs_at_once=1, sandboxes=1, environment="default", protocols=())
    turns = SimpleNamespace(running=0, waiting=0)
    service: Any = SimpleNamespace(sandboxes=Sandboxes(), keys=keys, settings=settings, turns=turns, problem="")
    member = Membership(service, gateway=gateway, secret=SECRET, name="ada", url="http://127.0.0.1:9")
    leased = Leased(tag="0" * 12, generation=1, lease_s=lease_s, renew_s=lease_s / 3, state="ready")
    member._boot_id = "1" * 32
    member._key = gateway_key(SECRET, member._boot_id)
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
            await asyncio.wait_for(member._service.sandboxes.ended.wait(), 20)
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


LONG = json.dumps({"tag": "f" * 12, "generation": 9, "lease_s": 3600, "renew_s": 1, "state": "ready"}).encode()
OVER = json.dumps({"error": {"code": "fenced", "message": "this boot is lost"}}).encode()


@pytest.mark.parametrize("body", [(200, LONG), (410, OVER)], ids=["a lease", "the end"])
@pytest.mark.parametrize("signs", ["nothing", "with another secret", "another request", "another body"])
def test_what_no_gateway_of_the_fleet_answers_neither_lengthens_a_lease_nor_ends_it(body, signs):
    status, told = body

    def mac(signature):
        by = {
            "nothing": None,
            "with another secret": (b"x" * 16, signature, told),
            "another request": (SECRET, f"{signature[:-1]}-", told),
            "another body": (SECRET, signature, told + b" "),
        }[signs]
        return "" if by is None else f"{ANSWER_HEADER}: {answer_mac(*by)}\r\n"

    asked, twice = [], asyncio.Event()

    async def lie(reader, writer):
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            fields = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if line)
            fields = {name.lower(): value for name, value in fields.items()}
            await reader.readexactly(int(fields["content-length"]))
            asked.append(fields["authorization"])
            if len(asked) == 2:
                twice.set()
            head = f"HTTP/1.1 {status} X\r\ncontent-length: {len(told)}\r\n{mac(fields['authorization'])}\r\n"
            writer.write(head.encode() + told)

    async def scenario():
        async with await asyncio.start_server(lie, "127.0.0.1", 0) as server:
            member = membership(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", lease_s=60)
            before = member._ends
            keeping = asyncio.create_task(member._keep())
            waiting = [asyncio.create_task(each.wait()) for each in (twice, member._service.sandboxes.ended)]
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for each in (keeping, *waiting):
                each.cancel()
            await asyncio.gather(keeping, return_exceptions=True)
            await member._transport.close()
            return member._ends == before, member._lease.tag if member._lease else None, member.problem

    same, tag, problem = asyncio.run(scenario())

    assert (same, tag) == (True, "0" * 12)
    assert "the answer is not signed with this node's GROUNDBOX_JOIN_SECRET" in problem


def admitted(member, boot_id, shown, *, told="", path="/v1/run"):
    """The key by which a request comes in, or status and code of its refusal."""
    headers = {"groundbox-fleet-boot": boot_id, "groundbox-fleet-key": told, "authorization": f"Bearer {shown}"}
    scope = {"path": path}
    try:
        return member.parts()["admissions"][0](scope, headers).id
    except Refused as refused:
        return refused.status, refused.code


def test_a_node_takes_requests_by_the_key_of_its_own_boot_alone():
    member = membership("http://127.0.0.1:9", 60)
    carol = dumped_key(Key(id="carol", owner="carol"))
    owner = dumped_key(Key(id="owner", owner="owner"))
    own, earlier = "1" * 32, "2" * 32

    found = [
        admitted(member, own, proof(gateway_key(SECRET, own), carol), told=carol),
        admitted(member, own, proof(gateway_key(SECRET, earlier), carol), told=carol),
        admitted(member, earlier, proof(gateway_key(SECRET, earlier), carol), told=carol),
        admitted(member, own, proof(gateway_key(b"x" * 16, own), carol), told=carol),
        admitted(member, own, proof(gateway_key(SECRET, own), carol), told=owner),
        admitted(member, own, "", told=carol),
    ]

    unauthorized = (401, "unauthorized")
    assert found == ["carol", unauthorized, (421, "other_boot"), unauthorized, unauthorized, unauthorized]


def test_a_node_that_has_ended_all_takes_nothing_until_it_has_joined_anew():
    async def scenario():
        member = membership("http://127.0.0.1:9", 60)
        await member._fence()
        return admitted(member, "", proof("", "{}"), told="{}", path=SELF)

    assert asyncio.run(scenario()) == (421, "other_boot")


def test_a_node_whose_lease_has_ended_carries_out_nothing_and_says_who_it_is():
    member = membership("http://127.0.0.1:9", 60)
    shown = proof(member._key, "")
    member._ends = _now() - 0.001

    told = dumped_key(Key(id="carol", owner="carol"))
    ran = admitted(member, "1" * 32, proof(member._key, told), told=told)
    asked = admitted(member, "1" * 32, shown, path=SELF)

    assert (ran, asked) == ((421, "fenced"), "gateway")


def test_a_renewal_that_is_answered_after_the_lease_has_ended_renews_nothing():
    async def scenario():
        member = membership("http://127.0.0.1:9", 60)
        given_back = []
        member._service.keys.give_back_vouched = given_back.append

        async def late(act, asked, *, most_s=0.0):
            member._ends = _now() - 0.001  # the process was stopped for as long
            return Leased(tag="0" * 12, generation=1, lease_s=60, renew_s=2, state="ready")

        member._ask = late
        with pytest.raises(Exception, match="the answer came after the lease had ended"):
            await member._renew(member._lease)
        return member._ends < _now(), given_back

    assert asyncio.run(scenario()) == (True, [{}])
