"""Load a dataset as trainers do, with whichever of datasets, TRL and LLaMA-Factory are installed, and say which.

    python scripts/check_trainers.py FOLDER [datasets] [trl] [llamafactory]

Without names, everything that is installed is checked. FOLDER is what `groundbox dataset build` wrote.
Nothing is fetched: the tokenizer has a token for each byte, and the model of TRL's trainer is made on the spot
with a few thousand parameters. groundbox itself is not imported.
The trainers pin versions of transformers that do not go together, so each has a venv of its own:

    python -m venv trl && trl/bin/pip install torch trl
    python -m venv factory && factory/bin/pip install 'torch==2.11.*' 'torchaudio==2.11.*' llamafactory

Ends with 1 when a row is lost or changed on the way, or when there is nothing to check with.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}"
    "{% if message['role'] == 'assistant' %}{% generation %}{{ message['content'] + '<|im_end|>' }}{% endgeneration %}"
    "{% else %}{{ message['content'] + '<|im_end|>' }}{% endif %}{{ '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
_FILES = {"train": "sft.jsonl", "validation": "sft-validation.jsonl", "test": "sft-test.jsonl"}
_END = "<|im_end|>"
_UNSEEN = -100
"""The label of tokens that are not learnt."""


def main(folder: Path, wanted: Sequence[str]) -> int:
    """Make the wanted checks, or every one whose library is installed; the exit status."""
    os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_DATASETS_DISABLE_PROGRESS_BARS": "1"}
    chats = {split: _chats(folder / name) for split, name in _FILES.items()}
    checks: dict[str, Callable[[Path, dict[str, list[Any]]], str]] = {
        "datasets": _datasets,
        "trl": _trl,
        "llamafactory": _llama_factory,
    }
    done = 0
    if unknown := [name for name in wanted if name not in checks]:
        sys.exit(f"no check is called {unknown[0]}; there are {', '.join(checks)}")
    with tempfile.TemporaryDirectory() as scratch:
        os.environ |= {"HF_HOME": scratch, "HF_DATASETS_CACHE": f"{scratch}/datasets"}
        os.chdir(scratch)
        for name, check in checks.items():
            if name not in (wanted or checks) or importlib.util.find_spec(name) is None:
                print(f"{name}: {'not installed' if name in (wanted or checks) else 'not asked for'}, not checked")
                continue
            print(f"{name}: {check(folder, chats)}")
            done += 1
    print(_versions())
    return 0 if done and done >= len(set(wanted)) else 1


def _chats(path: Path) -> list[Any]:
    with path.open("rb") as file:
        return [json.loads(line) for line in file]


def _versions() -> str:
    names = ("datasets", "trl", "llamafactory", "transformers", "tokenizers", "pyarrow", "torch")
    found = []
    for name in names:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            pass
    return f"Python {sys.version.split()[0]}, {', '.join(found)}"


def _need(met: bool, problem: str) -> None:
    if not met:
        sys.exit(f"not as it was written: {problem}")


def _datasets(folder: Path, chats: dict[str, list[Any]]) -> str:
    """The card names the splits; the chats and the table load without it, too."""
    import datasets

    written = {split: rows for split, rows in chats.items() if rows}
    by_card = datasets.load_dataset(str(folder))
    _need(set(by_card) == set(written), f"the card gives the splits {sorted(by_card)}")
    for split, rows in written.items():
        _need(list(by_card[split]) == rows, f"the split {split}, as the card names it")
        alone = datasets.load_dataset("json", data_files=str(folder / _FILES[split]), split="train")
        _need(list(alone) == rows, f"{_FILES[split]} by its name")
    table = datasets.load_dataset("parquet", data_files=str(folder / "samples.parquet"), split="train")
    _need(len(table) == sum(map(len, chats.values())), "the number of rows of samples.parquet")
    for split, rows in written.items():
        told = [row["reply"] for row in table if row["split"] == split]
        _need(told == [row["messages"][-1]["content"] for row in rows], f"the replies of {split} in samples.parquet")
    return (
        f"{len(table)} rows; splits by the card: {', '.join(f'{name} {len(rows)}' for name, rows in written.items())}"
    )


def _trl(folder: Path, chats: dict[str, list[Any]]) -> str:
    """The labels of SFTTrainer's own batches are the reply, by a mask of the template and by prompt and completion."""
    import datasets

    train = datasets.load_dataset("json", data_files=str(folder / "sft.jsonl"), split="train")
    replies = [row["messages"][-1]["content"] + _END for row in chats["train"]]
    whole = _trained(train)
    _need(all(_labels(row) == row["input_ids"] for row in whole), "what is learnt without a mask")
    _need(_learnt(_trained(train, assistant_only_loss=True)) == replies, "the replies under assistant_only_loss")
    halves = train.map(_halves, remove_columns=train.column_names)
    _need(_learnt(_trained(halves)) == [f"{reply}\n" for reply in replies], "the completions")
    return f"{len(replies)} chats prepared by SFTTrainer; the labels are the replies"


def _halves(row: dict[str, Any]) -> dict[str, Any]:
    return {"prompt": row["messages"][:1], "completion": row["messages"][1:]}


def _trained(train: Any, **options: Any) -> Any:
    """What a trainer prepared, after one step on a batch of it."""
    from transformers import LlamaConfig, LlamaForCausalLM
    from trl import SFTConfig, SFTTrainer

    tokenizer = _tokenizer()
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = LlamaConfig(vocab_size=len(tokenizer), max_position_embeddings=1 << 16, **sizes)
    arguments = SFTConfig(
        output_dir="trained", max_length=None, max_steps=1, per_device_train_batch_size=1, report_to=[], use_cpu=True,
        bf16=False, save_strategy="no", disable_tqdm=True, gradient_checkpointing=False, **options,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    trainer = SFTTrainer(model=model, args=arguments, train_dataset=train, processing_class=tokenizer)
    trainer.train()
    return trainer.train_dataset


def _learnt(rows: Any) -> list[str]:
    tokenizer = _tokenizer()
    return [_text(tokenizer, _labels(row)) for row in rows]


def _labels(row: dict[str, Any]) -> list[int]:
    """Older trainers leave masks in the rows, and make labels of them when a batch is put together."""
    if "labels" in row:
        return list(row["labels"])
    masks = [row[name] for name in ("assistant_masks", "completion_mask") if name in row]
    tokens = zip(row["input_ids"], *masks, strict=True)
    return [token if all(bits) else _UNSEEN for token, *bits in tokens]


def _text(tokenizer: Any, labels: Sequence[int]) -> str:
    found: str = tokenizer.decode([each for each in labels if each != _UNSEEN], clean_up_tokenization_spaces=False)
    return found


def _tokenizer() -> Any:
    """A token for each byte, and the two marks of the template."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    bare = Tokenizer(models.BPE(vocab={letter: number for number, letter in enumerate(letters)}, merges=[]))
    bare.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bare.decoder = decoders.ByteLevel()
    bare.add_special_tokens([AddedToken("<|im_start|>", special=True), AddedToken(_END, special=True)])
    made = PreTrainedTokenizerFast(tokenizer_object=bare, eos_token=_END, pad_token=_END, model_max_length=1 << 20)
    made.chat_template = _TEMPLATE
    return made


def _llama_factory(folder: Path, chats: dict[str, list[Any]]) -> str:
    """The entry of dataset_info.json leads through its converter to labels that are the replies."""
    from llamafactory.data import get_dataset, get_template_and_fix_tokenizer
    from llamafactory.hparams import DataArguments, ModelArguments
    from transformers import Seq2SeqTrainingArguments

    data = DataArguments(
        dataset="groundbox_train", dataset_dir=str(folder), template="chatml", cutoff_len=1 << 20, overwrite_cache=True,
        preprocessing_num_workers=None,
    )  # fmt: skip
    tokenizer = _tokenizer()
    template = get_template_and_fix_tokenizer(tokenizer, data)
    training = Seq2SeqTrainingArguments(output_dir="made", do_train=True, report_to=[], use_cpu=True)
    model = ModelArguments(model_name_or_path="none")
    found = get_dataset(template, model, data, training, stage="sft", tokenizer=tokenizer)["train_dataset"]
    wanted = [row["messages"][-1]["content"] + _END for row in chats["train"]]
    _need([_text(tokenizer, row["labels"]).rstrip("\n") for row in found] == wanted, "the replies that it learns")
    prompts = [_text(tokenizer, row["input_ids"]) for row in found]
    kept = all(row["messages"][0]["content"] in prompt for row, prompt in zip(chats["train"], prompts, strict=True))
    _need(kept, "the prompts that it shows")
    return f"{len(found)} chats of groundbox_train; the labels are the replies"


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1]).absolute(), sys.argv[2:]))
