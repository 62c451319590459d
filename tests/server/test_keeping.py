"""What a key makes the server keep: one budget for each key, at it, above it, and against cheating."""

import dataclasses
import json
import tracemalloc

import pytest

pytest.importorskip("starlette", reason="the extra `server` is not installed here")

import groundbox as gb
from groundbox.execution import Display
from groundbox.server.keeping import Ledger, size_of
from groundbox.server.keys import Key
from groundbox.server.records import Records
from groundbox.server.refusals import Refused
from groundbox.server.service import Replies

from .test_fairness import shared

ADA, BOB = Key(id="a", owner="ada"), Key(id="b", owner="bob")


def ledger_of(most_bytes=1000):
    return Ledger(lambda: most_bytes)


def test_a_key_takes_as_much_as_its_budget_and_not_a_byte_more():
    ledger = ledger_of()
    ledger.take("a", 600, "label")
    ledger.take("a", 400, "label")

    with pytest.raises(Refused) as caught:
        ledger.take("a", 1, "label")
    ledger.take("b", 1000, "label")
    ledger.give_back("a", 400)
    ledger.take("a", 400, "label")

    assert (caught.value.status, caught.value.code) == (429, "quota.kept_bytes")
    assert "label" in caught.value.message
    assert (ledger.taken_bytes("a"), ledger.total_bytes) == (1000, 2000)


def test_what_can_be_forgotten_makes_room_for_its_own_key_alone():
    ledger, forgotten = ledger_of(), []
    kept = {"a": [300, 300, 300], "b": [900]}
    for key_id, sizes in kept.items():
        for size in sizes:
            ledger.take(key_id, size, "result")

    def forget_oldest(key_id):
        if not kept[key_id]:
            return False
        forgotten.append(key_id)
        ledger.give_back(key_id, kept[key_id].pop(0))
        return True

    ledger.forget_by(forget_oldest)
    ledger.take("a", 500, "variables")
    with pytest.raises(Refused):
        ledger.take("a", 1001, "variables")

    assert forgotten == ["a", "a"]
    assert (ledger.taken_bytes("a"), ledger.taken_bytes("b")) == (800, 900)


@pytest.mark.parametrize(
    "value",
    [
        {f"{number:x}": {} for number in range(20_000)},
        [[] for _ in range(20_000)],
        [{"a": 1.5} for _ in range(20_000)],
        {"text": "x" * 500_000},
        {"text": "\U0001f600" * 100_000},
        ["ab"] * 50_000,
    ],
    ids=["objects", "lists", "small objects", "text", "wide text", "short texts"],
)
def test_the_size_of_json_is_that_of_its_values_in_memory(value):
    text = json.dumps(value, ensure_ascii=False)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    decoded = json.loads(text)
    real = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()

    assert 0.5 * real < size_of({"application/json": decoded}) < 20 * real


def test_a_result_with_many_small_json_values_counts_what_it_takes():
    ran = gb.run("1")
    display = Display(data={"application/json": {f"{number:x}": {} for number in range(95_000)}})
    records = Records(most=1000, most_bytes=64 << 20, kept_s=3600.0)

    for number in range(48):
        records.add(ADA, dataclasses.replace(ran, execution_id=f"{number:032x}", displays=[display] * 3), "", "")

    assert len(records.list(ADA)) <= 2


def test_a_result_with_many_empty_files_counts_their_names():
    ran = gb.run("import pathlib\nfor n in range(1000): pathlib.Path(f'{n:04}' + 'x' * 200).touch()")
    records = Records(most=1000, most_bytes=4 << 20, kept_s=3600.0)

    for number in range(10):
        records.add(ADA, dataclasses.replace(ran, execution_id=f"{number:032x}"), "", "")

    assert len(records.list(ADA)) <= 3


def test_results_of_one_key_leave_when_it_keeps_something_else():
    ran, ledger = gb.run("1"), ledger_of(60_000)
    records = Records(most=1000, most_bytes=1 << 30, kept_s=3600.0, ledger=ledger)
    for number, key in enumerate([ADA, ADA, ADA, BOB]):
        records.add(key, dataclasses.replace(ran, execution_id=f"{number:032x}"), "", "")
    before = len(records.list(ADA)), len(records.list(BOB))

    ledger.take("a", 59_000, "variables")

    assert before == (3, 1)
    assert (len(records.list(ADA)), len(records.list(BOB))) == (0, 1)


async def test_replies_of_one_key_drive_out_none_of_another():
    replies = Replies(60, most=10)
    ran = []

    async def work():
        ran.append(1)
        return {"n": 1}

    await replies.once(BOB, "mine", b"r", work)
    for number in range(100):
        await replies.once(ADA, str(number), b"r", work)
    before = len(ran)
    await replies.once(BOB, "mine", b"r", work)

    assert len(ran) == before
    assert len(replies._replies) <= 11


def test_variables_and_labels_of_sandboxes_are_counted_and_given_back(tmp_path):
    with shared(tmp_path, "--sandboxes", 1000) as there:

        def create(client, number):
            variables = {f"V{number}_{each}": "x" * 30_000 for each in range(60)}
            return client.post("/v2/sandboxes", json={"templateID": "base", "timeout": 600, "envVars": variables})

        made = []
        while (answer := create(there.ada, len(made))).status_code == 201:
            made.append(answer.json()["sandboxID"])
            assert len(made) < 300
        other = create(there.bob, 0)
        assert made, answer.text[:500]
        there.ada.delete(f"/sandboxes/{made[0]}")
        again = create(there.ada, 0)

    assert len(made) >= 40, answer.text[:500]
    assert answer.status_code == 429
    assert "bytes for this key" in answer.text
    assert (other.status_code, again.status_code) == (201, 201)
