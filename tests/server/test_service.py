"""The service beneath all wires: room, turns, charges and sandboxes that are closed, whatever happens in between."""

import asyncio
import re
from typing import Any

import httpx
import pytest

pytest.importorskip("starlette", reason="the extra `server` is not installed here")

import groundbox
from groundbox.errors import SandboxUnavailable
from groundbox.sandbox import engine
from groundbox.server import api
from groundbox.server import sandboxes as module
from groundbox.server import service as of_service
from groundbox.server.application import application
from groundbox.server.audit import AuditLog
from groundbox.server.guard import Guard
from groundbox.server.keys import Key, Keys, Quotas
from groundbox.server.refusals import Refused
from groundbox.server.service import Ran, Service
from groundbox.server.settings import Settings

ADA, BOB = Key(id="a", owner="ada"), Key(id="b", owner="bob")


class Box:
    """Stands where a sandbox does: waits as long as it is told to, and notes its end."""

    made = ()

    def __init__(self, work=None, error=None):
        self.closed, self.files, self._error = 0, self, error
        self.ending = asyncio.Event()

    async def write_all(self, contents):
        await self.ending.wait()

    async def run_last(self, source, **options):
        await self.ending.wait()
        raise self._error or SandboxUnavailable(["a layer"])

    async def stream(self, source, **options):
        await self.ending.wait()
        yield None

    async def close(self):
        self.closed += 1


@pytest.fixture
def service(monkeypatch):
    made: Any = []
    service = Service(Settings(runs_at_once=2, sandboxes=4), Keys(token=None))
    monkeypatch.setattr(service, "_made", lambda *_: made.append(Box()) or made[-1])
    vars(service)["made"] = made
    return service


async def settled():
    for _ in range(20):
        await asyncio.sleep(0)


def running(service, key=ADA, **options):
    return asyncio.ensure_future(service.run(key, "1", wire="v1", **options))


def counts(service):
    return service.turns.running, service.turns.waiting, service.sandboxes._making, service.keys.usage("a").sandboxes


async def test_runs_that_wait_take_no_room_of_others(service):
    tasks = [running(service) for _ in range(20)]
    await settled()

    held = service.create(BOB, wire="v1")
    waiting = service.turns.waiting
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)

    assert (waiting, len(service.made)) == (18, 3)
    assert held.key_id == "b"
    assert counts(service) == (0, 0, 0, 0)


@pytest.mark.parametrize("files", [None, {"x": "1"}])
@pytest.mark.parametrize("streamed", [False, True])
async def test_who_goes_away_at_any_time_leaves_nothing(service, files, streamed):
    if streamed:
        task = asyncio.ensure_future(anext(service.stream(ADA, "1", files=files, wire="v1")))
    else:
        task = running(service, files=files)
    await settled()

    during = counts(service)
    task.cancel()
    await asyncio.wait([task])
    await asyncio.sleep(0.01)

    assert during == (1, 0, 1, 1)
    assert [box.closed for box in service.made] == [1]
    assert counts(service) == (0, 0, 0, 0)


async def test_a_sandbox_that_cannot_be_made_leaves_no_count(service, monkeypatch):
    def cannot(*_):
        raise Refused(503, "sandbox_unavailable", "")

    monkeypatch.setattr(service, "_made", cannot)
    for _ in range(3):
        with pytest.raises(Refused):
            await service.run(ADA, "1", wire="v1")
        with pytest.raises(Refused):
            service.create(ADA, wire="v1")

    assert counts(service) == (0, 0, 0, 0)
    assert len(service.sandboxes) == 0


@pytest.mark.parametrize(
    "options", [{"labels": {"": "x"}}, {"idle_s": -1.0}, {"total_s": 1e9}, {"backend": "bare"}, {"sandbox_id": "taken"}]
)
async def test_a_sandbox_that_is_refused_leaves_no_count(service, options):
    service.create(BOB, wire="v1", sandbox_id="taken")

    with pytest.raises(Refused) as caught:
        service.create(ADA, wire="v1", **options)

    assert caught.value.status in (400, 409)
    assert (counts(service), len(service.sandboxes)) == ((0, 0, 0, 0), 1)


async def test_a_key_may_have_so_many_sandboxes_and_runs_together(service):
    key = Key(id="a", owner="ada", quotas=Quotas(sandboxes=2))
    held = service.create(key, wire="v1")
    task = running(service, key)
    await settled()

    for ask in (lambda: service.run(key, "1", wire="v1"), lambda: asyncio.to_thread(service.create, key, wire="v1")):
        with pytest.raises(Refused) as caught:
            await ask()
        assert caught.value.code == "quota.sandboxes"
    task.cancel()
    await asyncio.wait([task])
    await service.sandboxes.close(held)
    await service.sandboxes.close(held)

    assert counts(service) == (0, 0, 0, 0)


async def test_a_run_that_was_called_off_is_charged_for_its_time(service):
    task = running(service)
    await asyncio.sleep(0.2)
    task.cancel()
    await asyncio.wait([task])

    with pytest.raises(Refused, match="cpu_s_a_day"):
        service.keys.usage("a").begin_run(Quotas(cpu_s_a_day=0.15))


async def test_one_sandbox_that_is_long_in_closing_keeps_no_other(service, monkeypatch):
    monkeypatch.setattr(module, "_SWEEP_S", 0.01)
    slow, quick = (service.create(ADA, wire="v1", idle_s=0.001) for _ in range(2))
    never = asyncio.Event()
    slow.box.close = never.wait
    sweeping = asyncio.ensure_future(service.sandboxes.keep_sweeping())

    await asyncio.sleep(0.3)
    sweeping.cancel()
    never.set()

    assert (slow.closed, quick.closed, quick.box.closed) == (True, True, 1)


async def test_a_sandbox_in_use_is_not_idle(service, monkeypatch):
    monkeypatch.setattr(module, "_SWEEP_S", 0.01)
    held = service.create(ADA, wire="v1", idle_s=0.05)
    sweeping = asyncio.ensure_future(service.sandboxes.keep_sweeping())

    with held.in_use():
        await asyncio.sleep(0.3)
        during = held.closed
    await asyncio.sleep(0.3)
    sweeping.cancel()

    assert (during, held.closed) == (False, True)


async def test_what_a_wire_does_at_the_end_of_a_sandbox_keeps_it_not_open(service):
    held = service.create(ADA, wire="v1")

    def fails():
        raise ZeroDivisionError

    held.on_close.append(fails)
    with pytest.raises(ZeroDivisionError):
        await service.sandboxes.close(held)

    assert held.box.closed == 1


def test_ids_of_sandboxes_are_long_random_and_each_there_once(monkeypatch):
    service = Service(Settings(), Keys(token=None))
    monkeypatch.setattr(service, "_made", lambda *_: Box())

    made = [service.create(ADA, wire="v1").id for _ in range(1000)]

    assert len(set(made)) == 1000
    assert all(re.fullmatch("[0-9a-f]{32}", each) for each in made)
    counts = [sum(int(each, 16) >> bit & 1 for each in made) for bit in range(128)]
    assert all(350 < count < 650 for count in counts)  # nine standard deviations


async def test_a_batch_stops_where_its_results_are_too_large(monkeypatch):
    service, ran = Service(Settings(runs_at_once=1), Keys(token=None)), []
    execution = await asyncio.to_thread(groundbox.run, "print('x' * 1000)")

    async def run(key, code, **_):
        ran.append(code)
        return Ran(execution=execution, waited_s=0.0)

    monkeypatch.setattr(service, "run", run)
    monkeypatch.setattr(api, "_MOST_BATCH_BYTES", 1500)
    programs = [{"code": str(number)} for number in range(10)]
    async with httpx.AsyncClient(transport=httpx.ASGITransport(application(service))) as client:
        results = (await client.post("http://127.0.0.1/v1/batch", json={"programs": programs})).json()["results"]

    refused = [each["error"]["code"] for each in results if "error" in each]
    assert len(ran) < 3
    assert refused == ["too_large"] * (10 - len(ran))


async def test_bytes_of_a_websocket_count_to_the_quota_of_its_key(monkeypatch):
    service = Service(Settings(), Keys(token="a-token-of-some-length"))
    key = Key(id="a", owner="ada", quotas=Quotas(bytes_a_day=300))

    async def find(token):
        return key

    async def app(scope, receive, send):
        await send({"type": "websocket.accept"})
        await receive()
        await send({"type": "websocket.send", "bytes": b"x" * 100})

    async def receive():
        return {"type": "websocket.receive", "bytes": b"x" * 200}

    async def send(message):
        sent.append(message["type"])

    monkeypatch.setattr(service.keys, "find", find)
    guard = Guard(app, service, own_host="127.0.0.1", over_unix=False, public=())
    scope = {"type": "websocket", "path": "/", "headers": [(b"host", b"127.0.0.1")]}
    sent = []
    await guard(dict(scope), receive, send)
    first, sent = sent, []
    await guard({**scope, "extensions": {"websocket.http.response": {}}}, receive, send)

    assert first == ["websocket.accept", "websocket.send"]
    assert sent == ["websocket.http.response.start", "websocket.http.response.body"]


async def test_a_program_alone_runs_in_the_smallest_worker_that_suits_it():
    service = Service(Settings(), Keys(token=None))
    made: Any = []
    making = service._made
    service._made = lambda key, options, of_run: made.append(dict(options)) or making(key, options, of_run)

    await service.run(ADA, "print(1)", wire="v1")
    await service.run(ADA, "print(1)", files={"x": "1"}, wire="v1")

    assert [each["profile"] for each in made] == [None, "science"]


async def test_a_server_that_is_ready_has_processes_for_single_runs_and_for_sandboxes_that_stay():
    service = Service(Settings(), Keys(token=None))

    await service._warm()

    pools = (await engine.current())._pools
    kinds = {("pandas" in recipe.modules, shape.copied) for recipe, shape, _ in pools}
    assert kinds >= {(False, False), (True, False), (True, True)}


class Notes(AuditLog):
    """An audit log that keeps what it is told."""

    def __init__(self):
        self.told = []

    def begin(self, name, facts):
        self.told.append(("begin", name))

    def end(self, name, facts):
        self.told.append((facts["outcome"], name))


@pytest.mark.parametrize("kept", [False, True])
async def test_who_leaves_a_stream_early_is_charged_and_audited(kept):
    service = Service(Settings(), Keys(token=None), audit=(notes := Notes()))
    program = "print('begun', flush=True)\nwhile True: pass"
    if kept:
        events = service.stream_in(ADA, service.create(ADA, wire="v1"), program)
    else:
        events = service.stream(ADA, program, wire="v1")

    await anext(events)
    await asyncio.sleep(0.2)
    await events.aclose()
    await service.sandboxes.close_all()

    (begun, name), (outcome, same) = notes.told
    assert (begun, outcome, name) == ("begin", "abandoned", same)
    assert service.keys.usage("a")._new_cpu_s > 0.1


async def test_who_leaves_after_the_result_is_audited_once():
    service = Service(Settings(), Keys(token=None), audit=(notes := Notes()))
    events = service.stream(ADA, "1", wire="v1")

    async for item in events:
        if isinstance(item, Ran):
            break
    await events.aclose()

    assert [outcome for outcome, _ in notes.told] == ["begin", "ok"]


async def test_runs_that_wait_for_their_sandbox_hold_no_turn():
    service = Service(Settings(runs_at_once=2), Keys(token=None))
    held = service.create(ADA, wire="v1")
    busy = [asyncio.ensure_future(service.run_in(ADA, held, "import time; time.sleep(1)")) for _ in range(5)]
    await asyncio.sleep(0.3)

    running = service.turns.running
    other = await asyncio.wait_for(service.run(ADA, "print(1)", wire="v1"), 30)
    done_meanwhile = sum(each.done() for each in busy)
    for each in busy:
        each.cancel()
    await asyncio.wait(busy)
    await service.sandboxes.close_all()

    assert running == 1
    assert other.execution.stdout == "1\n"
    assert done_meanwhile < 5
    assert (held.waiting, held.turn.locked()) == (0, False)


async def test_too_many_runs_for_one_sandbox_are_refused_and_so_is_one_that_waits_too_long(monkeypatch):
    service = Service(Settings(queue_s=0.2), Keys(token=None))
    held = service.create(ADA, wire="v1")
    monkeypatch.setattr(module, "_MOST_WAITING", 1)

    async with held.order(1):
        waiting = asyncio.ensure_future(service.run_in(ADA, held, "1"))
        await settled()
        with pytest.raises(Refused) as many:
            await service.run_in(ADA, held, "1")
        with pytest.raises(Refused) as late:
            await waiting

    assert "1 runs wait for this sandbox already" in many.value.message
    assert "this sandbox was busy for 0.2 s" in late.value.message
    assert (many.value.status, late.value.status) == (429, 429)


def test_a_key_has_sandboxes_of_a_few_hash_seeds_at_once():
    """Each seed takes a template of its own, which whoever names ever other ones would fill the memory with."""

    async def scenario():
        service = Service(Settings(sandboxes=40), Keys(token=None))
        boxes = [service._made(ADA, {"hash_seed": seed}, {}) for seed in range(of_service._MOST_KINDS)]
        same = service._made(ADA, {"hash_seed": 0}, {})
        usual = service._made(ADA, {}, {})
        of_another = service._made(BOB, {"hash_seed": 99}, {})
        with pytest.raises(Refused, match="hash seeds") as refused:
            service._made(ADA, {"hash_seed": 99}, {})
        await boxes[1].close()
        again = service._made(ADA, {"hash_seed": 99}, {})
        for box in (*boxes, same, usual, of_another, again):
            await box.close()
        return refused.value.status

    assert asyncio.run(scenario()) == 429
