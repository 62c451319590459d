"""A model of 20,000 random weights with a tokenizer of bytes, and datasets of a few chats."""

import hashlib
import json
from collections.abc import Callable

import pytest

TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


class Telling:
    """Keeps what is said; `at` is called with each line."""

    progress: Callable[[str], None] | None = None

    def __init__(self, at=lambda words: None):
        self.said, self._at = [], at

    def line(self, words):
        self.said.append(words)
        self._at(words)


def chats(count, *, answer="Answer: {}"):
    return [[f"What is {n} + 1?", answer.format(n + 1)] for n in range(count)]


def dataset(folder, train, validation=(), *, table=True):
    """A folder as `dataset build` leaves it, but for the table, of which the digest alone is looked at here."""
    folder.mkdir()
    (folder / "samples.parquet").write_bytes(b"a table")
    for name, rows in (("sft.jsonl", train), ("sft-validation.jsonl", validation)):
        lines = [
            json.dumps({"messages": [{"role": "user", "content": asked}, {"role": "assistant", "content": told}]})
            for asked, told in rows
        ]
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    digests = {each.name: hashlib.sha256(each.read_bytes()).hexdigest() for each in sorted(folder.iterdir())}
    (folder / "report.json").write_text(json.dumps({"files": digests}))
    if not table:
        (folder / "samples.parquet").unlink()
    return folder


def tokenizer(template=TEMPLATE, end="<|im_end|>"):
    """A token for each byte, and the two marks of the template."""
    tokenizers = pytest.importorskip("tokenizers")
    transformers = pytest.importorskip("transformers")
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    bare = tokenizers.Tokenizer(tokenizers.models.BPE(vocab={each: n for n, each in enumerate(letters)}, merges=[]))
    bare.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    bare.decoder = tokenizers.decoders.ByteLevel()
    bare.add_special_tokens([tokenizers.AddedToken(each, special=True) for each in ("<|im_start|>", "<|im_end|>")])
    made = transformers.PreTrainedTokenizerFast(tokenizer_object=bare, eos_token=end)
    made.chat_template = template
    return made


def model(folder, *, positions=512, vocabulary=None, **how):
    """A Llama of two layers."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(1)
    torch.set_num_threads(1)
    known = tokenizer(**how)
    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = transformers.LlamaConfig(
        vocab_size=vocabulary or len(known), max_position_embeddings=positions, eos_token_id=known.eos_token_id,
        bos_token_id=None, **sizes,
    )  # fmt: skip
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    known.save_pretrained(folder)
    return folder
