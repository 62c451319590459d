"""Checkpoints: one counts when all its files are as they were when it was declared whole."""

import pytest

from groundbox.learn.training import checkpoints


def made(folder, step, *, sealed=True):
    place = folder / f"checkpoint-{step}"
    (place / "deep").mkdir(parents=True)
    (place / "model.safetensors").write_bytes(b"weights" * step)
    (place / "deep" / "state.json").write_text("{}")
    if sealed:
        checkpoints.seal(place, {"tokens": step})
    return place


def unlisted(place):
    (place / checkpoints.LIST).unlink()


def torn(place):
    (place / "model.safetensors").write_bytes(b"weigh")


def flipped(place):
    (place / "deep" / "state.json").write_text("[]")


def lacking(place):
    (place / "deep" / "state.json").unlink()


def garbled(place):
    (place / checkpoints.LIST).write_text('{"files": ')


def test_the_newest_counts_by_its_number(tmp_path):
    for step in (9, 10):
        made(tmp_path, step)
    (tmp_path / "checkpoint-old").mkdir()

    found, wrong = checkpoints.newest(tmp_path, remove=True)

    assert (found.step, found.facts["tokens"], wrong) == (10, 10, [])
    assert checkpoints.newest(tmp_path / "none", remove=True) == (None, [])


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (unlisted, "checkpoint-10: it was not written to its end"),
        (garbled, "checkpoint-10: it was not written to its end"),
        (torn, "checkpoint-10: model.safetensors is not as it was written"),
        (flipped, "checkpoint-10: deep/state.json is not as it was written"),
        (lacking, "checkpoint-10: deep/state.json is missing"),
    ],
)
def test_a_torn_one_is_told_and_removed_and_the_one_before_counts(tmp_path, harm, words):
    made(tmp_path, 9)
    harm(made(tmp_path, 10))

    seen = checkpoints.newest(tmp_path, remove=False)
    found, wrong = checkpoints.newest(tmp_path, remove=True)

    assert seen[1] == wrong == [words]
    assert found.step == 9
    assert [each.name for each in tmp_path.iterdir()] == ["checkpoint-9"]
