"""Folders of models and datasets, looked at before anything is loaded or computed."""

import dataclasses
import json
import struct

import pytest

from groundbox.errors import InvalidArgument
from groundbox.learn.training import base, chats
from groundbox.learn.training.recipe import Recipe
from tests.learn.training.conftest import chats as some_chats
from tests.learn.training.conftest import dataset

CONFIG = {
    "model_type": "llama", "vocab_size": 100, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 16, "max_position_embeddings": 64,
}  # fmt: skip


def weights(path, *shape):
    count = 4
    for each in shape:
        count *= each
    header = json.dumps(
        {"__metadata__": {}, "w": {"dtype": "F32", "shape": list(shape), "data_offsets": [0, count]}}
    ).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(count))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    weights(tmp_path / "model.safetensors", 100, 8)
    return tmp_path


def refusal(call, *given):
    with pytest.raises(InvalidArgument) as caught:
        call(*given)
    return str(caught.value)


def test_weights_are_counted_without_being_loaded(folder):
    weights(folder / "more.safetensors", 5, 4, 2)

    found = base.read(folder)

    assert (found.parameters, found.bytes, found.vocabulary, found.positions) == (840, 3360, 100, 64)
    assert sorted(found.digests()) == ["config.json", "model.safetensors", "more.safetensors"]


def test_a_folder_without_a_model_says_what_it_is(folder, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "adapter").mkdir()
    (tmp_path / "adapter" / "adapter_config.json").write_text("{}")

    assert "holds no model: it has no config.json" in refusal(base.read, tmp_path / "empty")
    assert "holds an adapter without its model; merge it" in refusal(base.read, tmp_path / "adapter")


def test_torn_weights_are_told_by_their_length(folder):
    path = folder / "model.safetensors"
    whole = path.read_bytes()

    path.write_bytes(whole[:-1])
    assert f"is torn: it has {len(whole) - 1} bytes and should have {len(whole)}; copy it" in refusal(base.read, folder)
    path.write_bytes(whole[:40])
    assert "is no file of weights: its header is longer than the file" in refusal(base.read, folder)
    path.write_bytes(b"")
    assert "is no file of weights" in refusal(base.read, folder)


def test_weights_that_are_missing_pickled_or_quantized_are_refused(folder):
    index = {"weight_map": {"a": "model.safetensors", "b": "model-2.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "lacks model-2.safetensors" in refusal(base.read, folder)

    (folder / "model.safetensors.index.json").unlink()
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    assert "has no weights (*.safetensors); weights as pickles (.bin) are not read" in refusal(base.read, folder)

    (folder / "config.json").write_text(json.dumps({**CONFIG, "quantization_config": {}}))
    assert "are quantized; name the folder with the model in 16 or 32 bits" in refusal(base.read, folder)


def test_a_model_of_code_in_its_folder_is_refused(folder):
    (folder / "config.json").write_text(json.dumps({**CONFIG, "model_type": "own", "auto_map": {"a": "m.M"}}))

    assert (
        "knows no models of type 'own'; such a model runs code of its own folder, which is never done here"
        in refusal(base.check_code, base.read(folder), {"llama": ...})
    )


def test_adapters_and_computing_again_take_less_memory(folder):
    sizes = {"hidden_size": 512, "num_hidden_layers": 16, "intermediate_size": 2048, "num_attention_heads": 8}
    found = dataclasses.replace(base.read(folder), parameters=100_000_000, config={**CONFIG, **sizes})

    def total(**how):
        return base.memory(found, Recipe(**how), bf16=False, longest=4096).total

    assert total(method="lora") < total()
    assert total(gradient_checkpointing=True) < total()
    assert total() < total(micro_batch_size=2) < total(micro_batch_size=2, attention="eager")


def test_a_dataset_is_known_by_the_digest_of_its_samples(tmp_path):
    made = dataset(tmp_path / "ds", some_chats(3), some_chats(1))

    found = chats.corpus(made)

    assert found.digest == json.loads((made / "report.json").read_text())["files"]["samples.parquet"]
    assert [len(found.chats[split]) for split in ("train", "validation")] == [3, 1]
    assert found.checked


@pytest.mark.parametrize("name", ["sft.jsonl", "sft-validation.jsonl", "samples.parquet"])
def test_a_file_that_changed_is_refused(tmp_path, name):
    made = dataset(tmp_path / "ds", some_chats(3), some_chats(1))
    (made / name).write_bytes((made / name).read_bytes().replace(b"1", b"2") + b" ")

    assert f"{name} in {made} changed after the dataset was built" in refusal(chats.corpus, made)


def test_a_dataset_without_its_table_still_says_which_it_is(tmp_path):
    made = dataset(tmp_path / "ds", some_chats(3))
    known = chats.corpus(made).digest
    (made / "samples.parquet").unlink()

    assert chats.corpus(made).digest == known
    (made / "report.json").unlink()
    assert not chats.corpus(made).checked


def test_a_dataset_without_chats_is_refused(tmp_path):
    empty = dataset(tmp_path / "empty", [])
    part = dataset(tmp_path / "part", some_chats(1), some_chats(1))
    (part / "sft-validation.jsonl").unlink()
    broken = dataset(tmp_path / "broken", [("2 + 2?", "")])

    assert "sft.jsonl has no chat to train on" in refusal(chats.corpus, empty)
    assert "lacks sft-validation.jsonl, which its report.json names" in refusal(chats.corpus, part)
    assert "line 1: no chat that ends with an answer of role `assistant`" in refusal(chats.corpus, broken)
    assert "holds no sft.jsonl; name the folder that `groundbox dataset build` wrote" in refusal(chats.corpus, tmp_path)
