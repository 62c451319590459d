"""Replies: once for each name, streams that end with their readers, and refusals that have a status."""

import asyncio
import gc
import json

import pytest

pytest.importorskip("starlette", reason="the extra `server` is not installed here")

from starlette.requests import Request

from groundbox.server.keys import OWNER, Key
from groundbox.server.refusals import Refused
from groundbox.server.replies import SSE, ClientGone, Streamed, attended, encoded, event, line, with_blanks
from groundbox.server.service import Replies

OTHER = Key(id="other", owner="other")


class Work:
    """Something that is carried out, counted, until it is told to end."""

    def __init__(self, result=None, error=None):
        self.begun = self.cancelled = 0
        self.result, self.error = result, error
        self.ending = asyncio.Event()

    async def __call__(self):
        self.begun += 1
        try:
            await self.ending.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.error is not None:
            raise self.error
        return self.result


def asking(replies, work, *, key=OWNER, name="n", request=b"r"):
    return asyncio.ensure_future(replies.once(key, name, request, work))


async def settled():
    for _ in range(20):
        await asyncio.sleep(0)


async def test_many_who_ask_at_once_get_the_result_of_one_work():
    replies, work = Replies(60), Work({"n": 1})

    tasks = [asking(replies, work) for _ in range(10)]
    await settled()
    work.ending.set()
    results = await asyncio.gather(*tasks)

    assert results == [{"n": 1}] * 10
    assert work.begun == 1


async def test_a_second_caller_gets_the_result_when_the_first_one_goes_away():
    replies, work = Replies(60), Work({"n": 1})
    first = asking(replies, work)
    await settled()
    second = asking(replies, work)
    await settled()

    first.cancel()
    await settled()
    work.ending.set()

    assert await second == {"n": 1}
    assert first.cancelled()
    assert (work.begun, work.cancelled) == (1, 0)


async def test_when_the_last_caller_goes_away_the_work_is_called_off_and_a_later_one_begins_anew():
    replies, work = Replies(60), Work({"n": 1})
    tasks = [asking(replies, work) for _ in range(2)]
    await settled()

    for task in tasks:
        task.cancel()
    await settled()
    cancelled = work.cancelled
    later = asking(replies, work)
    await settled()
    work.ending.set()

    assert cancelled == 1
    assert await later == {"n": 1}
    assert work.begun == 2


async def test_who_goes_away_returns_after_the_work_has_ended():
    replies, ended = Replies(60), []

    async def work():
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.05)
            ended.append(1)

    task = asking(replies, work)
    await settled()
    task.cancel()
    await asyncio.wait([task])

    assert ended == [1]


@pytest.mark.parametrize(("status", "runs"), [(400, 1), (409, 1), (429, 2), (503, 2)])
async def test_a_refusal_is_kept_unless_another_attempt_may_do_better(status, runs):
    replies = Replies(60)
    work = Work(error=Refused(status, "code", "words", retry_after_s=3))
    work.ending.set()

    refusals = []
    for _ in range(2):
        with pytest.raises(Refused) as caught:
            await replies.once(OWNER, "n", b"r", work)
        refusals.append(caught.value.to_dict())

    assert refusals[0] == refusals[1]
    assert work.begun == runs


async def test_what_fails_by_itself_is_told_to_all_and_not_kept():
    replies, work = Replies(60), Work(error=ZeroDivisionError())
    tasks = [asking(replies, work) for _ in range(3)]
    await settled()
    work.ending.set()

    results = await asyncio.gather(*tasks, return_exceptions=True)
    with pytest.raises(ZeroDivisionError):
        await replies.once(OWNER, "n", b"r", work)

    assert [type(each) for each in results] == [ZeroDivisionError] * 3
    assert work.begun == 2


async def test_a_name_belongs_to_its_key_and_to_one_request():
    replies, work = Replies(60), Work({"n": 1})
    work.ending.set()
    await replies.once(OWNER, "n", b"r", work)

    await replies.once(OTHER, "n", b"another", work)
    with pytest.raises(Refused) as caught:
        await replies.once(OWNER, "n", b"another", work)

    assert (caught.value.status, caught.value.code) == (422, "idempotency_key_reused")
    assert work.begun == 2


async def test_kept_replies_are_bounded_by_number_bytes_and_age():
    async def large():
        return {"stdout": "x" * 1000}

    by_number, by_bytes, by_age = Replies(60, most=3), Replies(60, most_bytes=5000), Replies(0.01)
    for number in range(20):
        for replies in (by_number, by_bytes, by_age):
            await replies.once(OWNER, str(number), b"r", large)
    await asyncio.sleep(0.02)
    await by_age.once(OWNER, "last", b"r", large)

    assert len(by_number._replies) <= 4
    assert len(by_bytes._replies) <= 5
    assert len(by_age._replies) == 1


async def test_a_request_looks_at_no_more_kept_replies_than_it_forgets():
    looked_at = 0

    class Counted(dict):
        def items(self):
            nonlocal looked_at
            for item in super().items():
                looked_at += 1
                yield item

    async def short():
        return {}

    replies = Replies(60)
    replies._replies = Counted()
    for number in range(200):
        await replies.once(OWNER, str(number), b"r", short)

    assert len(replies._replies) == 200
    assert looked_at <= 2 * 200


async def test_one_that_goes_on_for_long_does_not_keep_the_others():
    replies, endless = Replies(60, most=3), Work()
    task = asking(replies, endless, name="endless")
    await settled()

    async def short():
        return {}

    for number in range(20):
        await replies.once(OWNER, str(number), b"r", short)
    kept = len(replies._replies)
    task.cancel()
    await asyncio.wait([task])

    assert kept <= 4


def request_of(receive):
    return Request({"type": "http", "method": "POST", "path": "/", "headers": []}, receive)


async def test_work_ends_with_who_waits_for_it_and_leaves_no_task():
    work = Work()
    gone = asyncio.Event()
    before = asyncio.all_tasks()

    async def receive():
        await gone.wait()
        return {"type": "http.disconnect"}

    task = asyncio.ensure_future(attended(request_of(receive), work()))
    await settled()
    gone.set()

    with pytest.raises(ClientGone):
        await task
    await settled()
    assert work.cancelled == 1
    assert asyncio.all_tasks() == before


async def test_a_connection_that_fails_is_one_that_has_gone_and_nothing_is_logged(caplog):
    async def receive():
        raise Refused(408, "too_slow", "")

    work = Work()
    with pytest.raises(ClientGone):
        await attended(request_of(receive), work())
    await settled()
    gc.collect()

    assert caplog.records == []


def streamed(parts, **options):
    given = {"media_type": "text/event-stream", "heartbeat": b":\n\n", "heartbeat_s": 0.05}
    return Streamed(parts, refused=lambda refused: refused.code.encode(), **{**given, **options})


async def never():
    await asyncio.Event().wait()


async def test_a_reader_who_goes_ends_the_generator_of_a_stream():
    ended, gone = [], asyncio.Event()

    async def parts():
        try:
            yield b"1"
            await asyncio.sleep(60)
        finally:
            ended.append(1)

    async def receive():
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message):
        gone.set()

    await streamed(parts())({}, receive, send)

    assert ended == [1]


async def test_a_stream_that_is_called_off_twice_still_ends_its_generator():
    ended = []

    async def parts():
        try:
            yield b"1"
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.1)
            ended.append(1)

    async def send(message):
        pass

    task = asyncio.ensure_future(streamed(parts())({}, never, send))
    await asyncio.sleep(0.02)
    task.cancel()
    await asyncio.sleep(0.02)
    task.cancel()
    await asyncio.wait([task])

    assert ended == [1]
    assert task.done()


@pytest.mark.parametrize("error", [OSError(5, "broken"), Refused(503, "machine_failed", "")])
async def test_what_fails_before_a_stream_begins_has_its_status(error):
    async def parts():
        raise error
        yield b""

    sent = []

    async def send(message):
        sent.append(message)

    with pytest.raises(Refused) as caught:
        await streamed(parts())({}, never, send)

    assert (caught.value.status, sent) == (503, [])


async def test_what_fails_in_the_middle_of_a_stream_is_told_in_its_words():
    async def parts():
        yield b"1"
        raise OSError(5, "broken")

    sent = []

    async def send(message):
        sent.append(message)

    await streamed(parts())({}, never, send)

    assert [each["body"] for each in sent[1:]] == [b"1", b"machine_failed", b""]


async def test_blanks_come_before_a_late_reply_and_a_refusal_after_them_is_in_the_body():
    async def late():
        await asyncio.sleep(1.2)
        raise Refused(429, "busy", "words")

    sent = []

    async def send(message):
        sent.append(message)

    await with_blanks(late(), heartbeat_s=0.05)({}, never, send)

    assert sent[0]["status"] == 200
    assert b"".join(each["body"] for each in sent[1:]).strip() == encoded(Refused(429, "busy", "words").to_dict())


def test_halves_of_pairs_are_escaped():
    assert encoded({"x": "\ud800"}) == b'{"x": "\\ud800"}'


@pytest.mark.parametrize("fails", [False, True])
def test_a_stream_that_ends_in_the_moment_in_which_its_client_goes_leaves_nothing_behind(fails):
    left = []

    async def work():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: left.append(context))
        moment = asyncio.Event()

        async def parts():
            await moment.wait()
            if fails:
                raise OSError("broken")
            return
            yield b""

        async def receive():
            await moment.wait()
            return {"type": "http.disconnect"}

        async def send(message):
            pass

        asyncio.get_running_loop().call_later(0.05, moment.set)
        reply = Streamed(parts(), media_type=SSE, heartbeat=b"", heartbeat_s=1.0, refused=lambda _: b"")
        await reply({}, receive, send)
        del reply
        gc.collect()
        await asyncio.sleep(0)

    asyncio.run(work())

    assert left == []


def test_a_line_of_json_is_one_line_for_every_client():
    text = "".join(map(chr, range(0x3000)))

    told = [line({"text": text}), event("stdout", {"text": text}).partition(b"data: ")[2]]

    for each in told:
        (only,) = [part for part in each.decode().splitlines() if part]
        assert json.loads(only) == {"text": text}
