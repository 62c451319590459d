"""Trainings of a model of 20,000 weights, from its folder to its folder. `make training` has the libraries for them."""

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys

import pytest

from groundbox.errors import GroundboxError, InvalidArgument
from groundbox.learn.evaluation import trained
from groundbox.learn.training import base, run
from groundbox.learn.training import chats as reading
from groundbox.learn.training.recipe import Recipe, read
from tests.learn.training.conftest import TEMPLATE, Telling, chats, dataset, model, tokenizer

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


@pytest.mark.parametrize(("step", "kept"), [(3, 4), (6, 6)])
def test_a_signal_ends_the_step_under_way_and_keeps_it(tmp_path, done, some, tiny, step, kept):
    class Called(Exception):
        pass

    def call(number, frame):
        raise Called

    def at(words):
        if words.startswith(f"step {step} of 6"):
            signal.raise_signal(signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, call)
    try:
        with pytest.raises(Called):
            run.train(order(some, tiny, tmp_path / "out"), Telling(at))
    finally:
        signal.signal(signal.SIGTERM, before)
    _, said = trained_in(tmp_path / "out", some, tiny)

    assert said[0] == f"goes on from step {kept}"
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == (done[0] / "model.safetensors").read_bytes()


def test_a_loss_that_is_no_number_ends_the_training(tmp_path, some, tiny):
    wild = dataclasses.replace(SHORT, learning_rate=1e30, gradient_clip=1e30, max_steps=20, warmup=0)

    with pytest.raises(GroundboxError, match="the loss is no number at step"):
        trained_in(tmp_path / "out", some, tiny, wild)


def test_the_recipe_for_a_large_model_trains_a_tiny_one(tmp_path, some, tiny):
    changes = {"max_steps": 2, "max_length": 512, "precision": "fp32"}

    facts, _ = trained_in(tmp_path / "out", some, tiny, read("qwen3-4b", changes))

    assert facts["recipe"]["gradient_checkpointing"] is True
    assert facts["figures"]["steps"] == 2


def test_what_cannot_be_told_of_a_training_is_found_out_before_its_first_step(tmp_path, some, tiny, monkeypatch):
    def none():
        raise OSError("nothing tells the versions")

    monkeypatch.setattr(run, "_versions", none)
    telling = Telling()

    with pytest.raises(OSError, match="nothing tells"):
        run.train(order(some, tiny, tmp_path / "out"), telling)

    assert not (tmp_path / "out" / "training" / "log.jsonl").exists()


@pytest.mark.needs_root
@pytest.mark.skipif(os.geteuid() != 0, reason="a small disk is mounted by root")
def test_a_full_disk_keeps_what_was_trained(tmp_path, done, some, tiny):
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(small)], check=True)
    try:

        def at(words):
            if words.startswith("step 3 of 6"):
                (small / "other").write_bytes(bytes(shutil.disk_usage(small).free - 100_000))

        with pytest.raises(OSError, match="No space left on device"):
            run.train(order(some, tiny, small / "out"), Telling(at))
        (small / "other").unlink()
        _, said = trained_in(small / "out", some, tiny)

        assert said[1] == "goes on from step 2"
        assert (small / "out" / "model.safetensors").read_bytes() == (done[0] / "model.safetensors").read_bytes()
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_two_processes_learn_what_one_does(tmp_path, done, some, tiny):
    place = [str(some), "--model", str(tiny), "--out", str(tmp_path / "out"), "--config", str(done[0] / "recipe.toml")]

    ended = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "groundbox", "train", *place],
        check=False, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip

    assert ended.returncode == 0, ended.stderr[-4000:]
    facts = json.loads((tmp_path / "out" / "groundbox.json").read_text())
    assert facts["processes"] == 2
    assert facts["command"].startswith("torchrun --nproc-per-node 2 -m groundbox train ")
    assert facts["figures"]["loss"]["last"] == pytest.approx(done[1]["figures"]["loss"]["last"], rel=0.05)


def test_a_process_that_comes_before_the_main_one_needs_no_folder(tmp_path, some, tiny, monkeypatch):
    class Reached(Exception):
        pass

    def reached(run):
        raise Reached

    monkeypatch.setenv("RANK", "1")
    monkeypatch.setattr(run._Run, "_start", reached)

    with pytest.raises(Reached):
        run.train(order(some, tiny, tmp_path / "out"), Telling())


def test_what_does_not_fit_is_told_before_a_step(tmp_path, some, tiny):
    def why(model=tiny, dataset=some, **how):
        return refusal(run.train, order(dataset, model, tmp_path / "out", dataclasses.replace(SHORT, **how)), Telling())

    plain = model(tmp_path / "plain", template=None)
    endless = model(tmp_path / "endless", template=TEMPLATE.replace("<|im_end|>", "<end>"))
    thinking = model(tmp_path / "thinking", template=TEMPLATE.replace("assistant\n", "assistant\n<think>"))
    large = model(tmp_path / "large", vocabulary=100)
    own = shutil.copytree(tiny, tmp_path / "own")
    config = json.loads((own / "config.json").read_text())
    (own / "m.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    (own / "config.json").write_text(json.dumps({**config, "model_type": "own", "auto_map": {"AutoConfig": "m.C"}}))

    assert "has no chat template" in why(plain)
    assert "ends an answer with none of the tokens that stop the model ('<|im_end|>')" in why(endless)
    assert "does not write an answer as it stands after the prompt" in why(thinking)
    assert "has 258 tokens, and the model has weights for 100: they are not of one model" in why(large)
    assert "knows no models of type 'own'" in why(own)
    assert not list(tmp_path.rglob("ran"))
    assert "1024 tokens are more than the 512 positions that tiny knows" in why(max_length=1024)
    assert "all 40 chats of sums are longer than 16 tokens (the longest has 45)" in why(max_length=16)
    assert "a step takes about" in why(micro_batch_size=1 << 22, batch_size=1 << 22)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").touch()
    assert "is not empty, and holds no training of ours" in refusal(
        run.train, order(some, tiny, tmp_path / "full"), Telling()
    )


def test_long_chats_are_left_out_and_told(tmp_path, some, tiny):
    facts, said = trained_in(tmp_path / "out", some, tiny, dataclasses.replace(SHORT, max_length=44, max_steps=1))

    assert said[0] == "30 of 40 chats are longer than 44 tokens and are left out, not cut; the longest has 45"
    assert facts["dataset"]["left_out"] == 30
    assert "30 were longer than 44 tokens and left out" in (tmp_path / "out" / "README.md").read_text()


ALLOCATES = """
import os, resource, sys, torch
from groundbox.learn.training import trainer
print(sys.argv[1] == "kept" and trainer.keep_freed_memory())
counts = [resource.getrusage(resource.RUSAGE_SELF).ru_minflt]
for times in (1, 20):
    for _ in range(times): torch.ones(1 << 24)
    counts.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
print(counts[1] - counts[0], counts[2] - counts[1])
"""


@pytest.mark.parametrize(
    ("how", "own", "keeps"),
    [("kept", {}, True), ("not kept", {}, False), ("kept", {"MALLOC_MMAP_MAX_": "65536"}, False)],
    ids=["kept", "by default", "somebody's own setting"],
)
def test_memory_of_a_step_is_kept_for_the_next_one(how, own, keeps):
    """Counted are pages that the kernel had to give: 64 MiB again and again, or once."""
    others = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    done = subprocess.run(
        [sys.executable, "-c", ALLOCATES, how], env={**others, **own}, check=True, capture_output=True, text=True
    )

    told, once, again = done.stdout.split()

    assert told == str(keeps)
    assert (int(again) < 5 * int(once)) is keeps
