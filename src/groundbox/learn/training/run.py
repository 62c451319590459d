"""A training from folders to a folder: looks at everything before the first step, and goes on where it was killed.

`--out` holds the tuned model when all is done, and under `training/` what is kept on the way: `settings.json`, which
other settings are refused against, `log.jsonl`, files for TensorBoard, and two checkpoints until the model is written.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import importlib.util
import json
import os
import platform
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from groundbox.dataset import files, optional_imports
from groundbox.errors import GroundboxError, InvalidArgument
from groundbox.learn.training import base as bases
from groundbox.learn.training import card, chats, checkpoints
from groundbox.learn.training.recipe import Recipe
from groundbox.version import own_version

WORK: Final = "training"
SETTINGS: Final = "settings.json"
LOG: Final = "log.jsonl"
EXTRA: Final = "'groundbox[train]'"
_LIBRARIES: Final = ("torch", "transformers", "datasets", "accelerate", "trl", "peft", "pyarrow")
_OFFLINE: Final = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE", "HF_HUB_DISABLE_TELEMETRY")
_FREE_TO_CHANGE: Final = ("checkpoint_s", "checkpoint_steps", "log_steps")
"""Keys of a recipe that do not change what comes of it."""
_GIB: Final = 1 << 30
_LOCK: Final = ".lock"


class Telling(Protocol):
    """Words for people, of the main process alone."""

    @property
    def progress(self) -> Callable[[str], None] | None:
        """Takes a line that the next one replaces; None where nothing can be replaced."""

    def line(self, words: str) -> None:
        """Say what stays."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Order:
    """One training.

    Attributes:
        any_memory: Begin even where the estimate says that memory does not suffice.
    """

    dataset: Path
    model: Path
    out: Path
    recipe: Recipe
    any_memory: bool = False


def check_libraries() -> None:
    """Make sure that all libraries are there, and that none of them asks a network.

    Raises:
        ExtraMissing: One is not installed.
    """
    os.environ.update(dict.fromkeys(_OFFLINE, "1"))
    for name in _LIBRARIES:
        optional_imports.need(name, "to train a model", install=EXTRA)


def train(order: Order, tell: Telling) -> dict[str, Any]:
    """Carry out a training, or what is left of it; the facts of the model's card.

    Raises:
        ExtraMissing: A library is not installed.
        InvalidArgument: Something does not fit, before the first step.
        OSError: The disk is full, say; what was trained is kept.
    """
    check_libraries()
    from groundbox.learn.training import trainer

    recipe = order.recipe
    corpus, base = chats.corpus(order.dataset), bases.read(order.model)
    bases.check_code(base, trainer.known_kinds())
    recipe.accumulation(trainer.processes())
    if base.positions is not None and recipe.max_length > base.positions:
        raise InvalidArgument(
            "max_length",
            f"{recipe.max_length} tokens are more than the {base.positions} positions that {base.name} knows; take "
            f"--max-length {base.positions} or less",
        )
    with _opened(order.out, _settings(corpus, base, recipe), main=trainer.is_main()):
        done = card.read(order.out)
        if done is not None:
            tell.line(f"{order.out} is done already; nothing was computed")
            return done
        return _Run(order, corpus, base, tell).carry_out()


class _Run:
    """The work in an opened folder."""

    def __init__(self, order: Order, corpus: chats.Corpus, base: bases.Base, tell: Telling) -> None:
        self._order, self._corpus, self._base, self._tell = order, corpus, base, tell
        self._work = order.out / WORK

    def carry_out(self) -> dict[str, Any]:
        from groundbox.learn.training import trainer

        recipe, tell = self._order.recipe, self._tell
        tokenizer = trainer.tokenizer_of(self._base)
        train, validation = self._tokens(tokenizer)
        bf16 = trainer.computes_in_bf16(recipe)
        self._check_memory(trainer.free_on_gpu(), max(map(len, train.ids)), bf16=bf16)
        if trainer.is_main():  # which alone writes, and has made the folder; others may come here before it has
            self._check_disk()
        start = self._start()
        tensorboard = importlib.util.find_spec("tensorboard") is not None
        if not tensorboard:
            tell.line("no files for TensorBoard are written, because it is not installed: pip install tensorboard")
        place = trainer.Place(folder=self._work, log=self._work / LOG, tensorboard=tensorboard)
        with _told(self._order.out):
            training = trainer.Training(self._base, recipe, tokenizer, train, validation, place, tell)
            how = (
                f"{training.trained:,} of {self._base.parameters:,} weights"
                if recipe.method == "lora"
                else "all weights"
            )
            tell.line(
                f"{len(train.ids):,} chats ({train.count:,} tokens, {train.learnt:,} learnt) in {training.sequences:,} "
                f"sequences; {how}, {'bf16' if bf16 else 'fp32'}, {trainer.device()}"
            )
            facts = self._facts(training, train, validation)  # what fails here costs no training
            training.carry_out(start)
            return self._publish(training, facts | {"figures": training.figures})

    def _tokens(self, tokenizer: Any) -> tuple[chats.Tokens, chats.Tokens]:
        recipe, corpus = self._order.recipe, self._corpus
        ends = chats.ends_of(tokenizer, self._base.generation, self._base.vocabulary, self._base.folder)
        train = chats.tokens(corpus.chats["train"], tokenizer, ends, recipe.max_length)
        asked = corpus.chats[chats.VALIDATION][: recipe.validation_samples]
        validation = chats.tokens(asked, tokenizer, ends, recipe.max_length)
        if not train.ids:
            raise InvalidArgument(
                "max_length",
                f"all {train.too_long} chats of {corpus.name} are longer than {recipe.max_length} tokens (the longest "
                f"has {train.longest}); take a larger --max-length",
            )
        if train.too_long:
            self._tell.line(
                f"{train.too_long} of {train.too_long + len(train.ids)} chats are longer than {recipe.max_length} "
                f"tokens and are left out, not cut; the longest has {train.longest}"
            )
        if not corpus.checked:
            self._tell.line(f"{corpus.folder} has no report.json, so nothing says whether its files are as written")
        return train, validation

    def _check_memory(self, on_gpu: int | None, longest: int, *, bf16: bool) -> None:
        """Refuse what does not fit, by an estimate.

        Raises:
            InvalidArgument: It is more than is free.
        """
        recipe = self._order.recipe
        longest = recipe.max_length if recipe.packing else longest
        wanted = bases.memory(self._base, recipe, bf16=bf16, longest=longest, gpu=on_gpu is not None)
        here = int(os.environ.get("LOCAL_WORLD_SIZE", "1")) if on_gpu is None else 1
        free = bases.free_bytes() if on_gpu is None else on_gpu
        if wanted.total * here <= free or self._order.any_memory:
            return
        shards = os.environ.get("ACCELERATE_USE_FSDP") or os.environ.get("ACCELERATE_USE_DEEPSPEED")
        if shards:  # each process holds a part; how large depends on what is split
            return
        where = "memory" if on_gpu is None else "the GPU"
        each = f", for each of {here} processes" if here > 1 else ""
        smaller = self._smaller(longest, free // here, bf16=bf16, gpu=on_gpu is not None)
        raise InvalidArgument(
            "memory",
            f"a step takes {wanted.words()}{each}, and {free / _GIB:.1f} GiB of {where} are free. "
            f"{smaller} --any-memory begins all the same",
        )

    def _smaller(self, longest: int, free: int, *, bf16: bool, gpu: bool) -> str:
        """What would take less, with its numbers."""
        recipe, found = self._order.recipe, []
        tries: list[tuple[str, dict[str, Any]]] = [
            ("--set micro_batch_size=1", {"micro_batch_size": 1}),
            ("--set gradient_checkpointing=true", {"gradient_checkpointing": True}),
            ("--method lora", {"method": "lora"}),
            ("--method lora --set gradient_checkpointing=true", {"method": "lora", "gradient_checkpointing": True}),
        ]
        for words, change in tries:
            smaller = dataclasses.replace(recipe, **change)
            total = bases.memory(self._base, smaller, bf16=bf16, longest=longest, gpu=gpu).total
            if smaller != recipe:
                found.append(f"{words} takes about {total / _GIB:.1f} GiB")
            if smaller != recipe and total <= free:
                return f"{found[-1]}."
        return f"{'; '.join(found[-1:])}, so take a smaller model, a shorter --max-length, or another machine."

    def _check_disk(self) -> None:
        """Refuse to begin where checkpoints and the model have no room.

        Raises:
            InvalidArgument: The disk has less.
        """
        recipe = self._order.recipe
        weights = self._base.parameters if recipe.method == "full" else 0  # those of adapters are few
        wanted = 3 * 12 * weights + self._base.bytes  # two checkpoints and the one that replaces the first
        have = sum(each.stat().st_size for each in (self._work / "checkpoints").rglob("*") if each.is_file())
        free = shutil.disk_usage(self._order.out).free + have
        if wanted > free:
            raise InvalidArgument(
                "--out",
                f"{self._order.out} has room for {free / _GIB:.1f} GiB, and checkpoints and the model take about "
                f"{wanted / _GIB:.1f} GiB; name a folder on a larger disk, or take --method lora",
            )

    def _start(self) -> checkpoints.Checkpoint | None:
        from groundbox.learn.training import trainer

        start, torn = checkpoints.newest(self._work / "checkpoints", remove=trainer.is_main())
        for each in torn:
            self._tell.line(f"{each}; what is gone on with is the one before")
        if start is not None:
            self._tell.line(f"goes on from step {start.step}")
            before = start.facts.get("processes", 1)
            if before != trainer.processes():
                self._tell.line(
                    f"{before} processes took the steps before and {trainer.processes()} take those that follow: chats "
                    "are shared out otherwise than they would have been"
                )
        return start

    def _facts(self, training: Any, train: chats.Tokens, validation: chats.Tokens) -> dict[str, Any]:
        from groundbox.learn.training import trainer

        recipe, corpus, base = self._order.recipe, self._corpus, self._base
        count = trainer.processes()
        return {
            "dataset": {
                "name": corpus.name, "digest": corpus.digest, "folder": str(corpus.folder),
                "files": dict(corpus.digests), "chats": {"train": len(train.ids), "validation": len(validation.ids)},
                "left_out": train.too_long, "tokens": train.count, "tokens_learnt": train.learnt,
            },
            "base": {
                "name": base.name, "folder": str(base.folder), "kind": base.kind, "parameters": base.parameters,
                "files": base.digests(),
            },
            "recipe": recipe.given(),
            "command": command(corpus.folder, base.folder, count),
            "processes": count,
            "device": trainer.device(),
            "precision": "bf16" if training.bf16 else "fp32",
            "versions": _versions(),
        }  # fmt: skip

    def _publish(self, training: Any, facts: dict[str, Any]) -> dict[str, Any]:
        """Write the model beside what was kept on the way, its card last, and remove checkpoints."""
        from groundbox.learn.training import trainer

        out, partial = self._order.out, self._work / "model"
        if trainer.is_main():
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
        training.save(partial)
        if not trainer.is_main():
            return facts
        for each in sorted(partial.iterdir()):
            if each.name == "adapter":
                shutil.rmtree(out / each.name, ignore_errors=True)
                for surplus in ("README.md", "training_args.bin"):
                    (each / surplus).unlink(missing_ok=True)
            each.replace(out / each.name)
        partial.rmdir()
        files.publish(out / card.RECIPE, self._order.recipe.toml().encode())
        card.publish(out, facts)
        shutil.rmtree(self._work / "checkpoints", ignore_errors=True)
        return facts


def command(dataset: Path, model: Path, processes: int) -> str:
    """What repeats a training, typed in the folder of its model."""
    launcher = ["torchrun", "--nproc-per-node", str(processes), "-m"] if processes > 1 else []
    words = [*launcher, "groundbox", "train", str(dataset), "--model", str(model), "--config", card.RECIPE]
    return shlex.join([*words, "--out", "../again"])


def _versions() -> dict[str, str]:
    from groundbox.learn.training import trainer

    return {
        "groundbox": own_version(), "python": platform.python_version(), **trainer.versions()
    }  # fmt: skip


def _settings(corpus: chats.Corpus, base: bases.Base, recipe: Recipe) -> dict[str, Any]:
    """All that decides what comes of a training."""
    kept = {name: value for name, value in recipe.given().items() if name not in _FREE_TO_CHANGE}
    return {"dataset": dict(corpus.digests), "model": base.digests(), "recipe": kept}


@contextlib.contextmanager
def _opened(out: Path, settings: Mapping[str, Any], *, main: bool) -> Iterator[None]:
    """The folder, for this training alone.

    Raises:
        InvalidArgument: It holds something else or another training, or another process is at work there.
    """
    if not main:  # the main process holds the folder for all
        yield
        return
    work = out / WORK
    if out.exists() and not out.is_dir():
        raise InvalidArgument("--out", f"{out} is no folder")
    if out.is_dir() and not (work / SETTINGS).exists() and any(each.name != WORK for each in out.iterdir()):
        raise InvalidArgument("--out", f"{out} is not empty, and holds no training of ours; name another folder")
    try:
        work.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidArgument("--out", f"{out} cannot be made: {error.strerror}") from None
    with files.locked(work / _LOCK, InvalidArgument("--out", f"another training is at work in {out}")):
        _check_settings(out, settings)
        yield


def _check_settings(out: Path, settings: Mapping[str, Any]) -> None:
    path = out / WORK / SETTINGS
    kept = any((out / WORK / "checkpoints").glob("checkpoint-*")) or card.read(out) is not None
    if not path.exists() or not kept:  # what was refused, or killed at once, binds nobody
        files.publish(path, json.dumps(settings, indent=1).encode() + b"\n")
        return
    try:
        found = json.loads(path.read_bytes())
        parts = {name: dict(found[name]) for name in settings}
    except (OSError, ValueError, LookupError, TypeError):
        raise InvalidArgument("--out", f"{path} cannot be read; name another folder") from None
    told = [
        f"{name} ({files.differences(parts[name], settings[name])})"
        for name in settings
        if parts[name] != settings[name]
    ]
    if told:
        raise InvalidArgument(
            "--out", f"{out} holds another training, which differs in {'; '.join(told)}; name another folder"
        )


@contextlib.contextmanager
def _told(out: Path) -> Iterator[None]:
    """Have libraries fail in our words where a disk is full or memory runs out; each has errors of its own for that."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        words = str(error)
        if isinstance(error, MemoryError) or "out of memory" in words or "can't allocate memory" in words:
            raise GroundboxError(
                f"memory ran out ({words.splitlines()[0][:200] if words else 'MemoryError'}); --method lora, "
                "--set gradient_checkpointing=true and a shorter --max-length take less, in another --out"
            ) from None
        if "No space left" in words or "file write failed" in words or "os error 28" in words:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(out)) from None
        raise
