"""Executions that are kept: within bounds, each for its key, and fairly between keys."""

import dataclasses
import random
import time

import pytest

pytest.importorskip("starlette", reason="the extra `server` is not installed here")

import groundbox as gb
from groundbox.server import records as module
from groundbox.server.keys import Key
from groundbox.server.records import Records, search
from groundbox.server.refusals import Refused

ADA, BOB = Key(id="a", owner="ada"), Key(id="b", owner="bob")


@pytest.fixture(scope="module")
def ran():
    return gb.run("for i in range(200_000): print('line', i)\nopen('x', 'wb').write(b'1' * 1000)", trace=False)


def execution(ran, number, **changes):
    return dataclasses.replace(ran, execution_id=f"{number:032x}", **changes)


def records_of(*, most=1000, most_bytes=1 << 40, kept_s=3600.0):
    return Records(most=most, most_bytes=most_bytes, kept_s=kept_s)


def ids(records, key, sandbox_id=None):
    return [int(each.execution.execution_id, 16) for each in records.list(key, sandbox_id)]


def test_each_key_sees_its_own_the_newest_first(ran):
    records = records_of()
    for number, key in enumerate([ADA, BOB, ADA]):
        records.add(key, execution(ran, number), f"box {number}", "")

    with pytest.raises(Refused) as caught:
        records.get(BOB, f"{0:032x}")

    assert (ids(records, ADA), ids(records, BOB)) == ([2, 0], [1])
    assert ids(records, ADA, "box 2") == [2]
    assert caught.value.status == 404


def test_the_number_is_bounded_and_the_oldest_go(ran):
    records = records_of(most=3)

    for number in range(10):
        records.add(ADA, execution(ran, number), "", "")

    assert ids(records, ADA) == [9, 8, 7]


def test_the_memory_is_bounded_with_whole_output_and_files(ran):
    size = module._size(ran)
    records = records_of(most_bytes=int(2.5 * size))

    for number in range(10):
        records.add(ADA, execution(ran, number), "", "")

    assert size > ran.outputs["stdout"].total_bytes + 1000
    assert len(ran.stdout) < ran.outputs["stdout"].total_bytes  # what is over it lies elsewhere, and counts
    assert ids(records, ADA) == [9, 8]


def test_one_that_is_too_large_by_itself_is_not_kept(ran):
    records = records_of(most_bytes=1000)

    records.add(ADA, execution(ran, 1), "", "")

    assert ids(records, ADA) == []
    assert records._bytes == 0


@pytest.mark.parametrize("bound", ["number", "bytes"])
def test_a_flood_of_one_key_drives_out_none_of_another(ran, bound):
    size = module._size(ran)
    records = records_of(most=10) if bound == "number" else records_of(most_bytes=10 * size)
    for number in range(3):
        records.add(BOB, execution(ran, number), "", "")

    for number in range(100, 150):
        records.add(ADA, execution(ran, number), "", "")

    assert ids(records, BOB) == [2, 1, 0]
    assert ids(records, ADA) == [149, 148, 147, 146, 145, 144, 143]
    assert records._bytes == 10 * size


def test_the_old_go_also_when_nobody_asks(ran, monkeypatch):
    records = records_of(kept_s=100)
    records.add(ADA, execution(ran, 1), "", "")
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 101)

    records.add(BOB, execution(ran, 2), "", "")

    assert len(records._records) == 1
    assert ids(records, ADA) == []


async def test_lines_are_found_over_the_edges_of_pages(ran):
    found = await search(ran, "stdout", "line 77777")

    whole = ran.outputs["stdout"].read(0, 1 << 30)
    assert [(each.number, each.line) for each in found] == [(77778, "line 77777")]
    assert whole[found[0].offset :].startswith(b"line 77777\n")


class Printed:
    """An output of some bytes, which counts how often it is read."""

    def __init__(self, data):
        self.data, self.reads = data, 0

    def read(self, offset, size):
        self.reads += 1
        return self.data[offset : offset + size]


@pytest.mark.parametrize("page", [1, 2, 3, 7, 64])
def test_a_search_finds_what_a_look_at_each_line_finds_wherever_pages_end(monkeypatch, page):
    monkeypatch.setattr(module, "_PAGE", page)
    monkeypatch.setattr(module, "_PAUSE_S", 0.0)
    chance = random.Random(page)
    for _ in range(400):
        data = bytes(chance.choices(b"ab\n", weights=(5, 3, 2), k=chance.randrange(40)))
        text = bytes(chance.choices(b"ab", k=chance.randrange(1, 5)))
        begun, there = 0, []
        for number, line in enumerate(data.split(b"\n"), 1):
            if text in line:
                there.append((number, begun, line.decode()[:5]))
            begun += len(line) + 1

        found = [(each.number, each.offset, each.line) for each in module._matches(Printed(data), text, 5)]

        assert found == there, (data, text)


def test_a_search_in_one_long_line_looks_at_each_byte_once():
    def steps(size):
        output, seen = Printed(b"x" * size), 0

        class Page(bytes):
            def __radd__(self, other):
                nonlocal seen
                seen += len(other) + len(self)
                return bytes(other) + bytes(self)

        read = output.read
        output.read = lambda offset, most: Page(read(offset, most))
        assert list(module._matches(output, b"yy", 100)) == []
        return seen

    few, many = steps(4 << 20), steps(32 << 20)

    assert many < 9 * few


async def test_a_search_is_bounded_in_lines_and_their_length(ran):
    found = await search(ran, "stdout", "line", most=5, line_chars=4)

    assert [each.line for each in found] == ["line"] * 5
