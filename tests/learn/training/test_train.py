"""Trainings of a model of 20,000 weights, from its folder to its folder. `make training` has the libraries for them."""

import dataclasses
import json
import os
import signal
import subprocess
import sys

import pytest

from groundbox.errors import InvalidArgument
from groundbox.learn.evaluation import trained
from groundbox.learn.training import base, run
from groundbox.learn.training import chats as reading
from groundbox.learn.training.recipe import Recipe, read
from tests.learn.training.conftest import Telling, chats, dataset, model, tokenizer

torch = pytest.importorskip("torch")
pytest.importorskip("trl")
safetensors = pytest.importorskip("safetensors.torch")

SHORT = Recipe(
    max_steps=6, max_length=256, batch_size=4, learning_rate=1e-2, precision="fp32", log_steps=1, checkpoint_steps=2
)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def some(tmp_path_factory):
    return dataset(tmp_path_factory.mktemp("datasets") / "sums", chats(40), chats(4), table=False)


def order(some, tiny, out, recipe=SHORT, **more):
    return run.Order(dataset=some, model=tiny, out=out, recipe=recipe, **more)


def trained_in(folder, some, tiny, recipe=SHORT):
    telling = Telling()
    return run.train(order(some, tiny, folder, recipe), telling), telling.said


def weights(folder):
    return safetensors.load_file(folder / "model.safetensors")


def refusal(call, *given):
    with pytest.raises(InvalidArgument) as caught:
        call(*given)
    return str(caught.value)


@pytest.fixture(scope="module")
def done(tmp_path_factory, some, tiny):
    out = tmp_path_factory.mktemp("done") / "out"
    facts, said = trained_in(out, some, tiny)
    return out, facts, said


def test_the_loss_falls_and_the_card_tells_of_what_and_how(done, some):
    out, facts, said = done

    assert facts["figures"]["validation_loss"]["last"] < facts["figures"]["validation_loss"]["first"] - 0.3
    assert facts["figures"]["steps"] == 6
    assert facts == json.loads((out / "groundbox.json").read_text())
    known = reading.corpus(some)
    assert trained.card_in(out).digest == known.digest
    assert known.digest in (out / "README.md").read_text()
    assert facts["command"].startswith(f"groundbox train {some} --model ")
    assert read(str(out / "recipe.toml"), {}) == SHORT
    assert any("step 6 of 6 (100 %), loss " in line and "tokens/s, 0:00 left" in line for line in said)
    assert not (out / "training" / "checkpoints").exists()


def test_what_is_done_is_not_computed_again_and_other_settings_are_refused(done, some, tiny):
    out, facts, _ = done

    again, said = trained_in(out, some, tiny, dataclasses.replace(SHORT, log_steps=5))
    differs = refusal(trained_in, out, some, tiny, dataclasses.replace(SHORT, seed=3))

    assert again == facts
    assert said == [f"{out} is done already; nothing was computed"]
    assert differs.endswith("differs in recipe (seed: 0 there, 3 here); name another folder")


def test_what_is_learnt_is_the_reply_and_the_token_that_ends_it(some, tiny):
    known = tokenizer()

    found = reading.tokens(
        reading.corpus(some).chats["train"], known, reading.ends_of(known, {}, len(known), tiny), 256
    )

    halves = [(known.decode(ids[:at]), known.decode(ids[at:])) for ids, at in zip(found.ids, found.begins, strict=True)]
    asked = "<|im_start|>user\nWhat is {} + 1?<|im_end|>\n<|im_start|>assistant\n"
    assert halves == [(asked.format(n), f"Answer: {n + 1}<|im_end|>") for n in range(40)]


def test_packed_chats_do_not_see_each_other(tmp_path, some, tiny):
    one = dataclasses.replace(SHORT, max_steps=1)
    alone, said = trained_in(tmp_path / "a", some, tiny, dataclasses.replace(one, batch_size=40, packing=False))
    assert " in 40 sequences" in said[0]

    together, said = trained_in(tmp_path / "b", some, tiny, dataclasses.replace(one, batch_size=8))

    assert " in 8 sequences" in said[0]
    losses = [each["figures"]["loss"]["first"] for each in (alone, together)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


def test_adapters_are_merged_and_are_kept_beside_the_model(tmp_path, some, tiny):
    recipe = dataclasses.replace(SHORT, method="lora", lora_rank=4, lora_dropout=0.1, precision="bf16", packing=False)
    facts, said = trained_in(tmp_path / "out", some, tiny, recipe)

    before, after = weights(tiny), weights(tmp_path / "out")
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == {name for name in before if "proj" in name}
    assert {each.dtype for each in after.values()} == {torch.float32}
    assert (tmp_path / "out" / "adapter" / "adapter_model.safetensors").is_file()
    assert facts["precision"] == "bf16"
    assert any(f" of {base.read(tiny).parameters:,} weights, bf16" in line for line in said)


def test_killed_and_with_its_last_checkpoint_torn_it_ends_in_the_same_weights(tmp_path, done, some, tiny):
    out = tmp_path / "out"
    command = ["train", str(some), "--model", str(tiny), "--out", str(out), "--config", str(done[0] / "recipe.toml")]
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
    child = subprocess.Popen(
        [sys.executable, "-m", "groundbox", *command], stderr=subprocess.PIPE, text=True, env=one_thread
    )
    for line in child.stderr:
        if "step 5 of 6" in line:
            child.send_signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    kept = sorted((out / "training" / "checkpoints").iterdir())
    assert [each.name for each in kept][-1] == "checkpoint-4"
    (kept[-1] / "optimizer.pt").write_bytes((kept[-1] / "optimizer.pt").read_bytes()[:-1])

    facts, said = trained_in(out, some, tiny)

    assert said[:2] == [
        "checkpoint-4: optimizer.pt is not as it was written; what is gone on with is the one before",
        "goes on from step 2",
    ]
    assert (out / "model.safetensors").read_bytes() == (done[0] / "model.safetensors").read_bytes()
    told = [[json.loads(line) for line in (each / "training" / "log.jsonl").open()] for each in (out, done[0])]
    for lines in told:
        for line in lines:
            del line["seconds"]
    assert told[0] == told[1]
    assert facts["figures"]["tokens"] == done[1]["figures"]["tokens"]
