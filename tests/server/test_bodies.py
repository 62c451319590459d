"""Bodies of requests: what is counted before it is decoded, and what long texts become."""

import asyncio
import base64
import gc
import json
import random
import tracemalloc
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the extra `server` is not installed here")

from groundbox.agent.mcp import RpcError
from groundbox.errors import InvalidArgument
from groundbox.sandbox.sandbox import AsyncSandbox
from groundbox.sandbox.workdir import Workdir
from groundbox.server import bodies, processes, schemas
from groundbox.server.guard import _Bodies
from groundbox.server.keys import OWNER
from groundbox.server.refusals import Refused, refusal_of
from groundbox.server.settings import Settings
from groundbox.server.wires import jupyter_kernel, mcp

MIB = 1024 * 1024


async def parts_of(data, sizes):
    at = 0
    while at < len(data):
        size = next(sizes)
        yield data[at : at + size]
        at += size


def read(data, kind=schemas.RunAsked, sizes=None):
    """The request in a body that comes in parts of these sizes."""

    async def main():
        body = await bodies.read_parts(parts_of(data, sizes or iter(lambda: 65536, 0)))
        return await body.decoded(kind)

    return asyncio.run(main())


def refusal(data, kind=schemas.RunAsked):
    with pytest.raises(Refused) as caught:
        read(data, kind)
    return caught.value


def value_of(rng, depth=0):
    text = "".join(rng.choices('ab"\\\n\t/é€😀,[]{}:\u0007', k=rng.choice([3, 30, 300])))
    kind = rng.random()
    if depth > 4 or kind < 0.5:
        return rng.choice([1, -2.5, None, True, text])
    if kind < 0.75:
        return [value_of(rng, depth + 1) for _ in range(rng.randrange(5))]
    return {f"{number}\\": value_of(rng, depth + 1) for number in range(rng.randrange(5))}


def count_of(value):
    inside = value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()
    return 1 + sum(map(count_of, inside))


@pytest.mark.parametrize("seed", range(20))
def test_a_body_means_the_same_wherever_it_is_cut_and_however_it_is_escaped(monkeypatch, seed):
    monkeypatch.setattr(bodies, "_LONG_BYTES", 40)
    rng = random.Random(seed)
    for _ in range(20):
        value = value_of(rng)
        data = json.dumps(value, ensure_ascii=rng.random() < 0.5, indent=rng.choice([None, 2])).encode()
        whole = bodies._Scan()
        for at in range(0, len(data), size := rng.choice([1, 7, 64, len(data)])):
            whole.feed(data[at : at + size])

        assert read(data, Any, iter(lambda: rng.choice([1, 2, 3, 7, 64]), 0)) == value
        assert (whole._values, whole._depth) == (count_of(value), 0)


@pytest.mark.parametrize(
    "made",
    [
        lambda n: b'{"code": "1", "args": [' + b",".join([b"{}"] * (n - 3)) + b"]}",
        lambda n: b'{"code": "1", "args": [' + b",".join([b'"a,b"'] * (n - 3)) + b"]}",
        lambda n: b'{"code": "1", "kwargs": {' + b",".join(b'"%d": 1' % each for each in range(n - 3)) + b"}}",
        lambda n: b'{"code": "1", "args": [' + b" , ".join([b"[ ]"] * (n - 3)) + b"]}",
    ],
    ids=["objects", "texts", "names", "lists"],
)
def test_values_are_bounded_and_counted_exactly(made):
    refused = refusal(made(bodies.MOST_VALUES + 200))

    assert read(made(bodies.MOST_VALUES)).code == "1"
    assert (refused.status, "values" in refused.message) == (400, True)


def test_commas_and_brackets_in_texts_count_for_nothing():
    code = 'x = "' + ',[{}]\\"' * 150_000 + '"'

    asked = read(json.dumps({"code": code, "stdin": code}).encode())

    assert asked.code == code
    assert bytes(asked.stdin).decode() == code


def test_values_are_nested_to_a_bound():
    def nested(depth):
        return b'{"code": "1", "args": ' + b"[" * depth + b"]" * depth + b"}"

    assert read(nested(bodies.MOST_DEPTH - 1)).code == "1"
    assert "nested" in refusal(nested(bodies.MOST_DEPTH)).message


def test_what_is_refused_takes_no_memory_and_is_not_read_to_its_end():
    given = 0

    async def parts():
        nonlocal given
        yield b'{"code": "1", "args": ['
        for _ in range(1000):
            given += 1
            yield b"{}," * 20_000

    async def main():
        with pytest.raises(Refused):
            await bodies.read_parts(parts())

    tracemalloc.start()
    try:
        asyncio.run(main())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert given <= 2
    assert peak < 4 * MIB


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"base64": base64.b64encode(bytes(range(256)) * 65536).decode()}, bytes(range(256)) * 65536),
        ("é€😀\n" * MIB, ("é€😀\n" * MIB).encode()),
    ],
    ids=["base64", "text"],
)
def test_a_large_file_takes_its_own_size_twice_at_most(content, expected):
    data = json.dumps({"code": "1", "files": {"a": content}}, ensure_ascii=False).encode()
    gc.collect()
    tracemalloc.start()
    try:
        asked = read(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert schemas.files_of(asked.files) == {"a": expected}
    assert peak < 2 * len(data) + 2 * MIB


def test_others_have_their_turn_while_a_large_body_is_read():
    data = json.dumps({"code": "1", "files": {"a": {"base64": "QUJD" * (8 * MIB)}}}).encode()
    turns = 0

    async def count():
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async def main():
        counting = asyncio.create_task(count())
        body = await bodies.read_parts(parts_of(data, iter([len(data)])))  # all of it comes at once
        asked = await body.decoded(schemas.RunAsked)
        counting.cancel()
        return len(schemas.files_of(asked.files)["a"])

    assert asyncio.run(main()) == 24 * MIB
    assert turns > len(data) // (256 * 1024)


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"code": "1", "environment": "\\" * MIB}, "environment"),
        ({"code": "1", "environment": "x" * 1000}, "environment"),
        ({"code": "1", "files": {"a" * MIB: ""}}, "files"),
        ({"code": "1", "files": {"a" * 5000: ""}}, "files"),
        ({"code": "1", "x" * MIB: 1}, "unknown field"),
        ({"code": "1", "restart": "x" * MIB}, "restart"),
        ({"code": "x" * (5 * MIB)}, "code"),
        ({"code": "1", "limits": {"memory_bytes": 10**400}}, "memory_bytes"),
        ({"code": "1", "undo": -(10**400)}, "undo"),
        ({"code": "1", "env": {"A": "x" * 200_000}}, "A"),
        ({"code": "1", "argv": ["x" * 200_000]}, "argv"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_every_text_has_a_maximum_and_a_refusal_quotes_little_of_it(body, where):
    refused = refusal(json.dumps(body).encode())

    assert refused.status == 400
    assert where in refused.message
    assert len(json.dumps(refused.to_dict())) < 2000


def test_arguments_of_a_library_are_quoted_short_too():
    refused = refusal_of(InvalidArgument("x" * MIB, "y" * MIB))

    assert refused.status == 400
    assert len(json.dumps(refused.to_dict())) < 10_000


@pytest.mark.parametrize(
    "text",
    ["QUI=" * 100_000, "Q" * 400_001, "!" * 400_000, "QUJD" * 100_000 + "Q"],
    ids=["padding inside", "length", "characters", "rest"],
)
def test_a_long_text_that_is_no_base64_is_refused(text):
    refused = refusal(json.dumps({"code": "1", "files": {"a": {"base64": text}}}).encode())

    assert "is no base64" in refused.message


def test_a_mark_that_a_client_sends_is_a_text():
    body = bodies._Scan()
    data = json.dumps({"code": f"{body.mark}0", "files": {"a": "x" * MIB}}).encode()

    assert read(data).code == f"{body.mark}0"


def test_programs_of_a_batch_are_decoded_in_turns_and_a_fault_names_its_program():
    programs = [{"code": "é" * 1000} for _ in range(5000)]

    async def decoded(sent):
        data = json.dumps({"programs": sent}, ensure_ascii=False).encode()
        body = await bodies.read_parts(parts_of(data, iter(lambda: 65536, 0)))
        return await body.decoded_each(schemas.BatchOfRaw, "programs", schemas.RunAsked)

    found = asyncio.run(decoded(programs))
    with pytest.raises(Refused, match=r"programs\[7\].*code"):
        asyncio.run(decoded([*programs[:7], {"code": 1}]))

    assert {each.code for each in found} == {"é" * 1000}
    assert len(found) == 5000


def test_bodies_have_one_room_and_each_key_half_of_it():
    room = _Bodies(Settings(body_bytes=1000))

    with room.share_of("ada") as first, room.share_of("ada") as second, room.share_of("bob") as other:
        first(1500)
        with pytest.raises(Refused) as of_key:
            second(1000)
        other(2000)
        with room.share_of("eve") as late, pytest.raises(Refused) as of_all:
            late(1000)
    with room.share_of("eve") as later:
        later(1000)

    assert [(each.value.status, each.value.headers) for each in (of_key, of_all)] == [
        (429, {"Retry-After": "2"}),
        (503, {"Retry-After": "2"}),
    ]
    assert room._total == 0


class Frames:
    """A WebSocket from which one frame comes."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    async def receive(self):
        return {"type": "websocket.receive", "text": self.data.decode(), "bytes": None}


def test_values_of_a_frame_are_counted_before_they_are_decoded():
    frame = b'{"header": {"msg_id": "1", "msg_type": "a"}, "content": [' + b"{}," * 30_000 + b"{}]}"

    async def received(module: Any) -> Any:
        frames: Any = Frames(frame)
        if module is jupyter_kernel:
            return await jupyter_kernel.Connection(frames, OWNER, is_v1=False).receive()
        return await module._heed(frames, None, lambda: None)

    for module in (jupyter_kernel, processes):
        with pytest.raises(Refused, match="values"):
            asyncio.run(received(module))


def test_a_method_and_an_id_of_mcp_are_quoted_short():
    error = RpcError(-32601, "there is no method " + "x" * MIB)

    with pytest.raises(RpcError, match="at most"):
        mcp._check_message({"jsonrpc": "2.0", "method": "a", "id": "x" * MIB})
    assert len(str(error)) < 3000


async def test_many_files_of_a_request_are_looked_at_once(monkeypatch):
    looks = []
    note = Workdir.note

    def counted(workdir):
        looks.append(workdir)
        note(workdir)

    monkeypatch.setattr(Workdir, "note", counted)
    async with AsyncSandbox() as box:
        await box.files.write_all({f"{number}.txt": str(number) for number in range(50)})
        execution = await box.run("import os; print(len(os.listdir()), open('49.txt').read())", mode="script")

    assert execution.stdout == "50 49\n"
    assert list(execution.artifacts) == []
    assert len(looks) < 10


def test_of_many_large_bodies_one_piece_goes_in_each_turn_of_the_loop(monkeypatch):
    pieces = []
    feed = bodies._Scan.feed

    def counted(scan, piece):
        pieces.append(len(piece))
        feed(scan, piece)

    monkeypatch.setattr(bodies._Scan, "feed", counted)
    data = b'{"code": "' + b"x" * MIB + b'"}'
    most = 0

    async def watch():
        nonlocal most
        while True:
            before = len(pieces)
            await asyncio.sleep(0)
            most = max(most, len(pieces) - before)

    async def main():
        watching = asyncio.create_task(watch())
        await asyncio.gather(*(bodies.read_parts(parts_of(data, iter([len(data)]))) for _ in range(20)))
        watching.cancel()

    asyncio.run(main())

    assert len(pieces) > 20 * 16
    assert most <= 2


def test_texts_are_counted_where_no_comma_is():
    assert "values" in refusal(b'{"' + b'":"' * 50_000).message
