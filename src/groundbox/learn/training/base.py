"""The model that a training begins with, known from its folder before its weights are loaded, and the memory it takes.

The headers of safetensors files say which weights there are and how long the file has to be, so a torn file is told
before anything is computed. Weights as pickles are not read, and no code of the folder is ever run.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from groundbox.dataset import files
from groundbox.errors import InvalidArgument
from groundbox.learn.training.recipe import Recipe

CONFIG: Final = "config.json"
GENERATION: Final = "generation_config.json"
_MOST_HEADER_BYTES: Final = 100_000_000
_READ: Final = frozenset({".json", ".jinja", ".txt", ".model", ".safetensors"})
_GIB: Final = 1 << 30


@dataclasses.dataclass(frozen=True, kw_only=True)
class Base:
    """A model's folder.

    Attributes:
        kind: Of model, as transformers calls it.
        parameters: Numbers in its weights.
        bytes: Of its weights on the disk.
        config: Of its text, where it has parts.
        generation: What its folder says of generation; {} without.
    """

    folder: Path
    name: str
    kind: str
    parameters: int
    bytes: int
    config: Mapping[str, Any]
    generation: Mapping[str, Any]

    @property
    def vocabulary(self) -> int:
        """Tokens for which it has weights."""
        return int(self.config["vocab_size"])

    @property
    def positions(self) -> int | None:
        """Longest text that it has seen; None where its folder does not say."""
        told = self.config.get("max_position_embeddings")
        return told if isinstance(told, int) and told > 0 else None

    def digests(self) -> dict[str, str]:
        """Digests of the files that make it what it is, by name."""
        found = sorted(each for each in self.folder.iterdir() if each.suffix in _READ and each.is_file())
        return {each.name: files.digest(each) for each in found}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Memory:
    """What one process takes, in bytes, by an estimate that is held against measured runs in docs/learn.md.

    Attributes:
        weights: As they are computed with.
        training: Gradients and what the optimizer keeps.
        activations: Of the largest micro-batch, with the numbers that it has for each token of the vocabulary.
        rest: A process that has loaded the libraries.
    """

    weights: int
    training: int
    activations: int
    rest: int

    @property
    def total(self) -> int:
        """All together."""
        return self.weights + self.training + self.activations + self.rest

    def words(self) -> str:
        """In GiB, part by part."""
        parts = ("weights", "training", "activations", "rest")
        told = ", ".join(f"{name} {getattr(self, name) / _GIB:.1f}" for name in parts)
        return f"about {self.total / _GIB:.1f} GiB ({told.replace('training', 'gradients and optimizer')})"


def read(folder: Path) -> Base:
    """Look at a model's folder.

    Raises:
        InvalidArgument: It holds no model that can be trained here.
    """
    if not (folder / CONFIG).is_file():
        adapter = (folder / "adapter_config.json").is_file()
        what = "an adapter without its model; merge it into that first" if adapter else f"no model: it has no {CONFIG}"
        raise InvalidArgument(
            "--model", f"{folder} holds {what}. Name a folder on this machine as `save_pretrained` of transformers "
            "writes it; nothing is downloaded"
        )  # fmt: skip
    config = _json(folder / CONFIG)
    generation = _json(folder / GENERATION) if (folder / GENERATION).is_file() else {}
    if "quantization_config" in config:
        raise InvalidArgument(
            "--model", f"the weights in {folder} are quantized; name the folder with the model in 16 or 32 bits"
        )
    kind = config.get("model_type")
    text = config.get("text_config")
    text = text if isinstance(text, dict) else config
    if not isinstance(kind, str) or not isinstance(text.get("vocab_size"), int):
        raise InvalidArgument("--model", f"{folder / CONFIG} names no model_type or no vocab_size")
    parameters, size = _weights(folder)
    return Base(
        folder=folder.resolve(), name=folder.resolve().name, kind=kind, parameters=parameters, bytes=size,
        config=text, generation=generation,
    )  # fmt: skip


def check_code(base: Base, known: Mapping[str, Any]) -> None:
    """Refuse a model that is known by code of its folder alone.

    Args:
        known: Kinds of models that transformers has.

    Raises:
        InvalidArgument: It is such a model.
    """
    if base.kind not in known:
        raise InvalidArgument(
            "--model",
            f"transformers knows no models of type {base.kind!r}; such a model runs code of its own folder, which is "
            "never done here. Take a model of a type that transformers has, or a newer transformers",
        )


def memory(base: Base, recipe: Recipe, *, bf16: bool, longest: int, gpu: bool = False) -> Memory:
    """Estimate what one process takes.

    Args:
        bf16: Whether is computed in 16 bits.
        longest: Tokens of the longest sequence.
        gpu: Where the loss is computed by a kernel of its own, in fewer pieces.
    """
    lora = recipe.method == "lora"
    trained = _adapters(base, recipe.lora_rank) if lora else base.parameters
    weights = base.parameters * (2 if lora and bf16 else 4) + (4 * trained if lora else 0)
    if bf16 and not lora:
        weights += 2 * base.parameters  # in 16 bits beside those in 32, for as long as a step takes
    per_weight = 4 if recipe.optimizer == "adafactor" else 12  # a gradient, and two moments of it
    return Memory(
        weights=weights,
        training=per_weight * trained,
        activations=_activations(base, recipe, bf16=bf16, longest=longest)
        + (2 if gpu else 6) * 4 * min(longest * recipe.micro_batch_size, _LOGITS_AT_ONCE) * base.vocabulary,
        rest=_REST_BYTES,
    )


_REST_BYTES: Final = 700 << 20
"""A process that has loaded torch, transformers and TRL, and computed a step of a model of no size."""
_LOGITS_AT_ONCE: Final = 4096
"""Tokens for which TRL computes a number for every token of the vocabulary at a time."""


def _activations(base: Base, recipe: Recipe, *, bf16: bool, longest: int) -> int:
    """What each layer keeps of each token until its gradient is known."""
    layers, width = _number(base, "num_hidden_layers", "n_layer"), _number(base, "hidden_size", "n_embd")
    inner = _number(base, "intermediate_size", "n_inner") or 4 * width
    heads = _number(base, "num_attention_heads", "n_head")
    count, size = longest * recipe.micro_batch_size, 2 if bf16 else 4
    # Twice in 32 bits for each of two norms; queries, keys, values, the attention's result, and its projection.
    layer = count * (width * (5 * size + 16) + 4 * inner * size)
    # Packed sequences of a micro-batch stand in one row, and are kept apart by a mask of all pairs.
    pairs = count * count if recipe.packing else longest * count
    scores = 4 * pairs * (heads if recipe.attention == "eager" else 1)
    if recipe.gradient_checkpointing:
        return layers * count * width * size + layer + scores
    return layers * (layer + (scores if recipe.attention == "eager" else 0)) + scores


def _adapters(base: Base, rank: int) -> int:
    """Numbers in adapters of all linear layers but the last."""
    layers, width = _number(base, "num_hidden_layers", "n_layer"), _number(base, "hidden_size", "n_embd")
    inner = _number(base, "intermediate_size", "n_inner") or 4 * width
    return layers * rank * (8 * width + 3 * (width + inner))


def _number(base: Base, *names: str) -> int:
    """The first of these that the configuration has; 0 without."""
    return next((told for name in names if isinstance(told := base.config.get(name), int)), 0)


def free_bytes() -> int:
    """Memory that a process may still take: what the machine has free, or less where a control group bounds it."""
    found = [_meminfo("MemAvailable")]
    place = _cgroup()
    while place is not None and place != Path("/sys/fs/cgroup"):
        most, used = _count(place / "memory.max"), _count(place / "memory.current")
        if most is not None and used is not None:
            found.append(max(0, most - used + _inactive(place)))
        place = place.parent
    return min(found)


def has_bf16() -> bool:
    """Tell whether the processor computes with numbers of 16 bits; one that does not takes several times as long."""
    import torch

    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


def _meminfo(name: str) -> int:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return 1 << 62
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:")), 1 << 62)


def _cgroup() -> Path | None:
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None
    own = next((line[3:] for line in lines if line.startswith("0::/")), None)
    return None if own is None else Path("/sys/fs/cgroup") / own.strip("/")


def _count(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # there is none, or it is "max"
        return None


def _inactive(place: Path) -> int:
    """Bytes of files in memory that the kernel gives up when it is asked for more."""
    try:
        lines = (place / "memory.stat").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("inactive_file ")), 0)


def _json(path: Path) -> dict[str, Any]:
    try:
        told = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise InvalidArgument("--model", f"{path} cannot be read: {str(error)[:200]}") from None
    if not isinstance(told, dict):
        raise InvalidArgument("--model", f"{path} holds no object")
    return told


def _weights(folder: Path) -> tuple[int, int]:
    """Numbers and bytes of all weights, by the headers of their files."""
    found = sorted(folder.glob("*.safetensors"))
    missing = [name for name in _indexed(folder) if not (folder / name).is_file()]
    if not found or missing:
        pickled = any(folder.glob("pytorch_model*.bin"))
        lack = f"lacks {', '.join(missing[:3])}" if missing else "has no weights (*.safetensors)"
        more = "; weights as pickles (.bin) are not read: save them with `save_pretrained`" if pickled else ""
        raise InvalidArgument("--model", f"{folder} {lack}{more}")
    counts = [_header(path) for path in found]
    return sum(count for count, _ in counts), sum(size for _, size in counts)


def _indexed(folder: Path) -> set[str]:
    path = folder / "model.safetensors.index.json"
    if not path.is_file():
        return set()
    names = _json(path).get("weight_map")
    return {name for name in map(str, names.values()) if "/" not in name} if isinstance(names, dict) else set()


def _header(path: Path) -> tuple[int, int]:
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            (length,) = struct.unpack("<Q", file.read(8))
            told = json.loads(file.read(length)) if length <= min(size, _MOST_HEADER_BYTES) else None
        tensors = [each for name, each in told.items() if name != "__metadata__"] if isinstance(told, dict) else None
        if tensors is None:
            raise ValueError("its header is longer than the file")
        end = max((int(each["data_offsets"][1]) for each in tensors), default=0)
        count = sum(math.prod(map(int, each["shape"])) for each in tensors)
    except (OSError, ValueError, LookupError, TypeError, struct.error) as error:
        raise InvalidArgument("--model", f"{path} is no file of weights: {str(error)[:200]}; copy it anew") from None
    if size != 8 + length + end:
        raise InvalidArgument(
            "--model", f"{path} is torn: it has {size} bytes and should have {8 + length + end}; copy it anew"
        )
    return count, end
