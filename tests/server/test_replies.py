"""Replies whose parts are sent as they come, without a server around them."""

import asyncio
import gc

import pytest

pytest.importorskip("starlette", reason="the extra `server` is not installed here")

from groundbox.server.replies import SSE, Streamed


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
