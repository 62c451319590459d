"""Verify: a sound dataset passes, and every way of tampering with one is told."""

import asyncio
import dataclasses
import json
import os
from pathlib import Path

import pytest
from dataset_fakes import DeadlyRunner, FakeRunner, prove, tell
from test_build import tools

import groundbox
from groundbox.dataset import files, narration, sample_files
from groundbox.dataset.build import REPORT, Tools, build
from groundbox.dataset.executor import LocalExecutor
from groundbox.dataset.narration import claims_in, unproven_claims
from groundbox.dataset.options import BuildOptions
from groundbox.dataset.reproof import Difference
from groundbox.dataset.verify import verify
from groundbox.errors import InvalidArgument
from groundbox.trace.claims import BadClaims

EXAMPLES = Path(__file__).parents[2] / "examples" / "problems"


@pytest.fixture
def dataset(tmp_path):
    asyncio.run(build(BuildOptions(problems=(EXAMPLES / "plain.jsonl",), samples_per_item=9), tmp_path / "d", tools()))
    return tmp_path / "d"


def verified(folder, runner=None):
    return asyncio.run(verify(folder, tools(runner=runner)))


def told(found):
    return [(each.where, each.what) for each in found.differences]


def rewritten(folder, change, *, first=1):
    """Write the rows anew with some changed, the chats and digests, too, as a careful forger would."""
    rows = list(sample_files.read_samples(folder / sample_files.SAMPLES))
    rows = [change(row) if number < first else row for number, row in enumerate(rows)]
    with sample_files.writing(folder) as writer:
        for row in rows:
            writer.sample(row)
    report = json.loads((folder / REPORT).read_text())
    report["files"] = {name: files.digest(folder / name) for name in report["files"]}
    (folder / REPORT).write_text(json.dumps(report))
    return rows[0]


def test_a_sound_dataset_is_verified_whole(dataset):
    found = verified(dataset)

    report = json.loads((dataset / REPORT).read_text())
    assert told(found) == []
    assert (found.items, found.samples) == (report["kept"], report["samples"])
    assert found.claims == report["claims"]["proven"]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"answer": "[]"}, "answer"),
        ({"trace_sha256": "0" * 64}, "trace"),
        ({"claims": 10_000}, "claims"),
        ({"outcome": "error"}, "outcome"),
    ],
)
def test_a_row_that_says_something_else_is_told(dataset, change, what):
    row = rewritten(dataset, lambda row: dataclasses.replace(row, **change))

    found = verified(dataset)

    assert {(where.partition("#")[0], each) for where, each in told(found)} == {(row.item, what)}


def test_another_output_is_told(dataset):
    def change(row):
        return dataclasses.replace(row, output=row.output.replace('"stdout": ""', '"stdout": "x"'))

    row = rewritten(dataset, change)

    assert told(verified(dataset)) == [(row.item, "output")]


def reported(folder, change):
    """Write the report anew with a change."""
    report = json.loads((folder / REPORT).read_text())
    change(report)
    (folder / REPORT).write_text(json.dumps(report))


@pytest.mark.parametrize("name", ["../../{}", "{}", "/proc/kcore", "sub/../sft.jsonl", "\x1b[2J", "..", ""])
def test_a_report_names_no_file_outside_its_folder(dataset, tmp_path, name):
    outside = tmp_path / "outside"
    outside.write_text("x")
    digest = files.digest(outside)
    named = name.format(outside if name == "{}" else "outside")
    reported(dataset, lambda report: report["files"].update({named: digest}))

    [difference] = verified(dataset).differences

    assert (difference.where, difference.detail) == (ascii(named)[:200], "a dataset has no such file")


def test_a_sparse_file_is_not_read(dataset):
    with open(dataset / "sft.jsonl", "ab") as file:
        file.truncate(1 << 43)

    found = verified(dataset)

    assert ("sft.jsonl", "file", f"it is a sparse file of {1 << 43} bytes") in {
        (each.where, each.what, each.detail) for each in found.differences
    }


@pytest.mark.parametrize("name", ["report.json", "samples.parquet", "dropped.jsonl"])
@pytest.mark.parametrize("kind", ["device", "pipe"])
def test_what_is_no_regular_file_is_not_read(dataset, name, kind):
    (dataset / name).unlink()
    (dataset / name).symlink_to("/dev/zero") if kind == "device" else os.mkfifo(dataset / name)

    if name == "dropped.jsonl":
        assert (name, "file") in told(verified(dataset))
    else:
        with pytest.raises(InvalidArgument, match="not a regular file"):
            verified(dataset)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cpu_s", 1e9),
        ("cpu_s", float("inf")),
        ("cpu_s", float("nan")),
        ("cpu_s", -1),
        ("cpu_s", "x"),
        ("cpu_s", True),
        ("traced_cpu_s", None),
        ("stable_only", 1),
        ("foo", 1),
    ],
)
def test_a_patience_that_no_build_writes_is_refused(dataset, name, value):
    reported(dataset, lambda report: report["arguments"]["patience"].update({name: value}))

    with pytest.raises(InvalidArgument, match="nothing was run"):
        verified(dataset)


@pytest.mark.parametrize(
    "change",
    [
        lambda report: report.update(files=[1]),
        lambda report: report.update(samples="9"),
        lambda report: report["arguments"].pop("seed"),
        lambda report: report["arguments"].update(max_chars=1.5),
        lambda report: report["arguments"].update(patience=[]),
    ],
)
def test_a_report_that_no_build_writes_is_refused(dataset, change):
    reported(dataset, change)

    with pytest.raises(InvalidArgument, match="nothing was run"):
        verified(dataset)


def test_a_deep_report_is_refused(dataset):
    (dataset / REPORT).write_text("[" * 100_000)

    with pytest.raises(InvalidArgument, match="holds no finished dataset"):
        verified(dataset)


def test_a_false_claim_is_told(dataset):
    def change(row):
        return dataclasses.replace(row, reply=row.reply.replace("becomes 0", "becomes 1", 1))

    row = rewritten(dataset, change)

    assert (row.item, "claim") in told(verified(dataset))


def test_another_program_is_told(dataset):
    changed = rewritten(
        dataset, lambda row: dataclasses.replace(row, source=row.source.replace("warmest = 0", "warmest = 1"))
    )

    assert {where for where, _ in told(verified(dataset))} >= {changed.item}


def by_hosts(folder, runner):
    """What comes of it where other processes run and prove."""
    executor = LocalExecutor(2, hosts=2)

    async def whole():
        try:
            return await verify(folder, dataclasses.replace(tools(runner=runner), executor=executor))
        finally:
            await executor.close()

    return asyncio.run(whole())


def test_other_processes_find_the_same_in_the_same_order(dataset):
    rewritten(dataset, lambda row: dataclasses.replace(row, claims=10_000), first=9)

    found = by_hosts(dataset, FakeRunner())

    assert found == verified(dataset)
    assert [each.where for each in found.differences] == ["made/temperatures/0", "made/temperatures/1"]


def test_a_program_that_ends_its_process_is_told_and_costs_no_other_item(dataset):
    rows = list(sample_files.read_samples(dataset / sample_files.SAMPLES))
    of_the_first = sum(each.item == rows[0].item for each in rows)
    row = rewritten(dataset, lambda row: dataclasses.replace(row, source=f"{row.source}# poison\n"), first=of_the_first)
    whole = verified(dataset)

    found = by_hosts(dataset, DeadlyRunner())

    assert [each for each in found.differences if each.where == row.item] == [
        Difference(where=row.item, what="worker-died", detail="its process died, as it does when memory runs out")
    ]
    assert {each.where for each in found.differences} == {row.item}
    assert (found.items, found.samples) == (whole.items, whole.samples)


@pytest.fixture
def searches(tmp_path):
    """A dataset of searches for arguments alone."""
    options = BuildOptions(problems=(EXAMPLES / "everyday.jsonl",), tasks=("input",), cases=2)
    asyncio.run(build(options, tmp_path / "s", tools()))
    return tmp_path / "s"


def test_searches_are_run_again_and_proven_again(searches):
    runner = FakeRunner()

    found = verified(searches, runner)

    rows = list(sample_files.read_samples(searches / sample_files.SAMPLES))
    assert told(found) == []
    assert found.samples == len(rows) > 5
    assert runner.runs == sum(2 + len(json.loads(row.tried)) for row in rows)


def test_an_input_that_does_not_lead_to_the_result_is_told(searches):
    def change(row):
        wrong = row.answer.replace("(", "(no=", 1)
        reply = row.reply.replace(f"Answer: {row.answer}", f"Answer: {wrong}")
        return dataclasses.replace(row, reply=reply, answer=wrong)

    rewritten(searches, change)

    assert {what for _, what in told(verified(searches))} == {"answer", "check"}


def test_a_try_that_runs_otherwise_is_told(searches):
    def change(row):
        tried = json.loads(row.tried)
        tried[0]["answer"]["text"] = "'else'"
        tried[0]["answer"]["value"] = "else"
        return dataclasses.replace(row, tried=json.dumps(tried))

    row = rewritten(searches, change)

    assert (f"{row.item}?0", "trace") in told(verified(searches))


def test_a_search_in_other_words_is_told(searches):
    row = rewritten(searches, lambda row: dataclasses.replace(row, reply=f"It is 5. {row.reply}"))

    assert (row.id, "reply") in told(verified(searches))


def test_a_file_that_was_changed_is_told(dataset):
    with (dataset / "sft.jsonl").open("a") as file:
        file.write("{}\n")

    assert told(verified(dataset)) == [("sft.jsonl", "file"), ("sft.jsonl", "chat")]


def test_a_problem_in_two_splits_is_told(dataset):
    row = rewritten(
        dataset, lambda row: dataclasses.replace(row, split="validation" if row.split != "validation" else "test")
    )

    assert (row.problem, "split") in told(verified(dataset))


def test_a_program_that_gives_something_else_today_is_told(dataset):
    def other(request, ran):
        return dataclasses.replace(ran, answer=dataclasses.replace(ran.answer, stdout="new"))

    rows = sample_files.read_samples(dataset / sample_files.SAMPLES)
    found = verified(dataset, runner=FakeRunner(other))

    assert {where for where, what in told(found) if what == "output"} == {row.item for row in rows}


def test_a_folder_without_a_dataset_is_refused(tmp_path):
    with pytest.raises(InvalidArgument, match="holds no finished dataset"):
        verified(tmp_path)


def test_verifying_uses_other_processes_where_it_may(dataset):
    from groundbox.dataset.executor import LocalExecutor

    class Counting(LocalExecutor):
        shards = 0

        async def compute(self, work, shard):
            Counting.shards += 1
            return await super().compute(work, shard)

    executor = Counting(2)
    found = asyncio.run(verify(dataset, Tools(runner=FakeRunner(), executor=executor, narrator=tell, prover=prove)))

    assert told(found) == []
    assert Counting.shards == found.items


@pytest.fixture
def claimed(tmp_path):
    """A dataset of one real run, whose rows carry their claims."""
    told, trace = triple()
    return told.text, claims_in(told.text, told, narration.prove(told, trace), trace), trace


def triple():
    trace = groundbox.run(TRIPLE, mode="call", call="triple", args=[4], trace=True).trace
    return narration.tell(trace, style="prose", seed=3, max_chars=10_000), trace


def test_beginnings_of_a_proven_telling_have_the_claims_that_a_proof_of_their_own_gives_them():
    told, trace = triple()
    proved = narration.prove(told, trace)
    doubted = dataclasses.replace(proved, faithful=False)  # so that each text is proven by itself
    beginnings = [told.upto(t) for t in range(len(trace.records))]

    found = [claims_in(text, told, proved, trace) for text in [*beginnings, told.text]]

    assert proved.whole
    assert found == [claims_in(text, told, doubted, trace) for text in [*beginnings, told.text]]
    assert len(set(found)) > 3


TRIPLE = "def triple(n):\n    total = 0\n    for _ in range(3):\n        total += n\n    return total\n"


def test_the_claims_of_a_text_are_proven_again(claimed):
    text, claims, trace = claimed
    document = json.loads(claims)

    assert unproven_claims(claims, text, trace) == []
    assert " ".join(sentence["text"] for sentence in document["sentences"]) in " ".join(text.split())


@pytest.mark.parametrize(("old", "new"), [('"value":"12"', '"value":"13"'), ('"kind":"mutation"', '"kind":"guess"')])
def test_claims_that_were_changed_are_told(claimed, old, new):
    text, claims, trace = claimed
    if old not in claims:
        claims = claims.replace('"kind":"value"', '"kind":"guess"', 1)

    try:
        found = unproven_claims(claims.replace(old, new), text, trace)
    except BadClaims:
        found = ["no document"]

    assert found != []


def test_a_text_that_says_more_than_its_claims_is_told(claimed):
    text, claims, trace = claimed
    document = json.loads(claims)
    sentence = next(each for each in document["sentences"] if "12" in each["text"])
    sentence["claims"] = []

    assert unproven_claims(json.dumps(document), text, trace) == []  # nothing is claimed of it

    sentence["claims"] = [{"kind": "value", "subject": "total", "value": ""}]
    assert "no claim says 12" in unproven_claims(json.dumps(document), text, trace)
