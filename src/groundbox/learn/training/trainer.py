"""The steps of a training, by TRL's trainer: imports torch, and is imported when everything cheaper was looked at.

Who does what. TRL packs sequences and computes the loss, transformers' trainer takes the steps and writes checkpoints,
accelerate holds several processes together. Ours are what tells how far it is, when a checkpoint is due, which of
them is whole, and what becomes of a signal: the step under way is ended and kept, and a second signal ends at once.
All processes stop and write checkpoints at the same step, since they agree on both after each.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import itertools
import json
import logging
import math
import os
import signal
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import datasets
import pyarrow
import torch
import transformers
import trl

from groundbox.errors import GroundboxError, InvalidArgument
from groundbox.learn.training import checkpoints
from groundbox.learn.training.base import Base, has_bf16
from groundbox.learn.training.chats import Tokens
from groundbox.learn.training.recipe import Recipe

if TYPE_CHECKING:
    from groundbox.learn.training.run import Telling

_UNSEEN: Final = -100
"""The label of tokens that are not learnt."""
_KEPT: Final = 2
"""Checkpoints: the newest may be torn."""
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX = -1, -2, -4
"""Of malloc.h."""
_TOP_PAD_BYTES: Final = 128 << 20
_LOCAL: Final = {"local_files_only": True, "trust_remote_code": False}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Place:
    """Where a training leaves what it makes on the way.

    Attributes:
        folder: For checkpoints and files of TensorBoard.
        log: A line of JSON for each loss.
    """

    folder: Path
    log: Path
    tensorboard: bool


class LossLost(GroundboxError):
    """The loss is no number any more, so that further steps are of no use."""

    def __init__(self, step: int) -> None:
        super().__init__(
            f"the loss is no number at step {step}; what was learnt is lost. A smaller learning_rate, a longer warmup, "
            "a smaller gradient_clip or precision = \"fp32\" mends that most often, in another --out"
        )  # fmt: skip


def processes() -> int:
    """How many take part, as whoever launched us says."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_main() -> bool:
    """Tell whether this process speaks and writes for all."""
    return int(os.environ.get("RANK", "0")) == 0


def computes_in_bf16(recipe: Recipe) -> bool:
    """Tell whether is computed in 16 bits.

    Raises:
        InvalidArgument: It is asked for, and the GPU cannot.
    """
    if torch.cuda.is_available():
        able = torch.cuda.is_bf16_supported()
    else:
        able = has_bf16()
    if recipe.precision == "bf16" and torch.cuda.is_available() and not able:
        raise InvalidArgument("precision", 'this GPU does not compute in bf16; take precision = "fp32"')
    return able if recipe.precision == "auto" else recipe.precision == "bf16"


def device() -> str:
    """Where is computed, in words."""
    if torch.cuda.is_available():
        return str(torch.cuda.get_device_name())
    return f"{torch.get_num_threads()} threads of a processor"


def keep_freed_memory() -> bool:
    """Have this process keep what it frees, for what it allocates next; tell whether it will from now on.

    A step on processors allocates and frees the same large tensors again and again. By default glibc asks the kernel
    for each of more than 32 MiB, as logits are, and gives it back, so that each page is faulted in and zeroed anew.
    What is set is the whole process's, and cannot be taken back (mallopt(3)). Somebody's own settings are left alone.
    """
    if any(name.startswith("MALLOC_") and name.endswith("_") for name in os.environ) or "GLIBC_TUNABLES" in os.environ:
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries have none
    if mallopt is None:
        return False
    return all([mallopt(_M_MMAP_MAX, 0), mallopt(_M_TRIM_THRESHOLD, -1), mallopt(_M_TOP_PAD, _TOP_PAD_BYTES)])


def free_on_gpu() -> int | None:
    """Free bytes of the GPU; None without one."""
    return int(torch.cuda.mem_get_info()[0]) if torch.cuda.is_available() else None


def known_kinds() -> Mapping[str, Any]:
    """Kinds of models that transformers has itself."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    return MODEL_FOR_CAUSAL_LM_MAPPING_NAMES


def tokenizer_of(base: Base) -> Any:
    """The tokenizer of a folder.

    Raises:
        InvalidArgument: It cannot be loaded without running code, or at all.
    """
    try:
        found = transformers.AutoTokenizer.from_pretrained(base.folder, **_LOCAL)
    except Exception as error:  # of any library, by what a file holds
        raise InvalidArgument("--model", f"no tokenizer can be loaded from {base.folder}: {_short(error)}") from None
    if found.pad_token_id is None and found.eos_token is not None:
        found.pad_token = found.eos_token  # padding is masked, whatever stands there
    return found


def versions() -> dict[str, str]:
    """Of what computes."""
    import accelerate
    import peft

    found = {each.__name__: str(each.__version__) for each in (torch, transformers, trl, peft, accelerate)}
    return {**found, "datasets": str(datasets.__version__)}


class Training:
    """One training, from loading the weights to saving them.

    Raises:
        InvalidArgument: The weights cannot be loaded, or the chats cannot be shared among processes.
    """

    def __init__(
        self, base: Base, recipe: Recipe, tokenizer: Any, train: Tokens, validation: Tokens, place: Place, tell: Telling
    ) -> None:
        self._base, self._recipe, self._tokenizer, self._place, self._tell = base, recipe, tokenizer, place, tell
        self.bf16 = computes_in_bf16(recipe)
        _quiet()
        if not torch.cuda.is_available():
            keep_freed_memory()
        if place.tensorboard:
            os.environ["TENSORBOARD_LOGGING_DIR"] = str(place.folder / "tensorboard")
        accumulation = recipe.accumulation(processes())
        arguments = self._arguments(accumulation, validated=bool(validation.ids))
        transformers.set_seed(recipe.seed)
        self._watch = _Watch(recipe, place, tell)
        self._trainer = _Trainer(
            model=self._model(),
            args=arguments,
            train_dataset=_rows(train),
            eval_dataset=_rows(validation) if validation.ids else None,
            processing_class=tokenizer,
            peft_config=_adapter(recipe) if recipe.method == "lora" else None,
            callbacks=[self._watch],
        )
        self._trainer.remove_callback(transformers.PrinterCallback)  # prints to stdout
        self.sequences = len(self._trainer.train_dataset)
        self.trained = sum(each.numel() for each in self._trainer.model.parameters() if each.requires_grad)

    def carry_out(self, start: checkpoints.Checkpoint | None) -> None:
        """Take the steps that are left.

        Raises:
            LossLost: The loss is no number.
            KeyboardInterrupt: A signal came; what was learnt is kept. Other signals go to whoever had them before.
        """
        self._watch.begin(start)
        if start is None and self._trainer.eval_dataset is not None:
            self._trainer.evaluate()
        with _signals(self._watch) as came:
            if start is not None and start.facts.get("last"):
                self._take_up(start.folder)
            else:
                self._trainer.train(resume_from_checkpoint=None if start is None else str(start.folder))
        if self._watch.stop:  # the handlers of before are back, and end each process in their way
            signal.raise_signal(came[0] if came else signal.SIGTERM)
        if self._trainer.eval_dataset is not None and not self._watch.validated_at(self._trainer.state.global_step):
            self._trainer.evaluate()

    def _take_up(self, folder: Path) -> None:
        """Load a checkpoint of the last step; the trainer would take one more from there."""
        self._trainer._load_from_checkpoint(str(folder))
        self._trainer.state = transformers.TrainerState.load_from_json(str(folder / "trainer_state.json"))

    @property
    def figures(self) -> dict[str, Any]:
        """What is worth telling on a card."""
        state = self._trainer.state
        return {"steps": state.global_step, "epochs": round(state.epoch or 0, 3), **self._watch.figures()}

    def save(self, folder: Path) -> None:
        """Write the tuned model, in the type that its weights had; adapters are merged, and kept beside it, too."""
        kept = getattr(torch, str(self._base_type()).removeprefix("torch."))
        if self._recipe.method == "lora":
            self._trainer.save_model(str(folder / "adapter"))
            if is_main():
                _merged(self._load(torch.float32), folder / "adapter").to(kept).save_pretrained(folder)
        else:
            state = self._trainer.accelerator.get_state_dict(self._trainer.model_wrapped)
            if is_main():
                model = self._trainer.accelerator.unwrap_model(self._trainer.model)
                model.config.use_cache = True  # TRL turns it off, and answers would be written without it
                cast = {name: value.to(kept) if value.is_floating_point() else value for name, value in state.items()}
                model.save_pretrained(folder, state_dict=cast)
                _say_type(folder / "config.json", str(kept).removeprefix("torch."))
        if is_main():
            self._tokenizer.save_pretrained(folder)
        self._trainer.accelerator.wait_for_everyone()

    def _arguments(self, accumulation: int, *, validated: bool) -> Any:
        recipe, cuda = self._recipe, torch.cuda.is_available()
        arguments = trl.SFTConfig(
            output_dir=str(self._place.folder / "checkpoints"),
            num_train_epochs=recipe.epochs,
            max_steps=recipe.max_steps or -1,
            per_device_train_batch_size=recipe.micro_batch_size,
            per_device_eval_batch_size=recipe.micro_batch_size,
            gradient_accumulation_steps=accumulation,
            learning_rate=recipe.learning_rate,
            lr_scheduler_type=recipe.schedule,
            warmup_steps=recipe.warmup,
            weight_decay=recipe.weight_decay,
            max_grad_norm=recipe.gradient_clip,
            optim=recipe.optimizer,
            bf16=self.bf16,
            use_cpu=not cuda,
            gradient_checkpointing=recipe.gradient_checkpointing,
            packing=recipe.packing,
            max_length=recipe.max_length if recipe.packing else None,
            eval_strategy="steps" if validated and recipe.validation_steps else "no",
            eval_steps=recipe.validation_steps,
            save_strategy="no",  # `_Watch` says when
            save_total_limit=_KEPT,
            logging_steps=recipe.log_steps,
            logging_first_step=True,
            logging_nan_inf_filter=False,
            report_to=["tensorboard"] if self._place.tensorboard else [],
            disable_tqdm=True,
            dataloader_pin_memory=cuda,
            seed=recipe.seed,
            data_seed=recipe.seed,
        )
        if processes() == 1 and arguments.n_gpu > 1:
            arguments._n_gpu = 1  # else the trainer spreads a model over all in one process, which TRL cannot
            self._tell.line(
                f"{torch.cuda.device_count()} GPUs are here and one is used; for all, begin the command with "
                f"`torchrun --nproc-per-node {torch.cuda.device_count()} -m groundbox train`"
            )
        return arguments

    def _model(self) -> Any:
        small = self.bf16 and self._recipe.method == "lora"  # weights that stay as they are lose nothing
        return self._load(torch.bfloat16 if small else torch.float32, attn_implementation=self._recipe.attention)

    def _load(self, kind: Any, **more: Any) -> Any:
        try:
            return transformers.AutoModelForCausalLM.from_pretrained(self._base.folder, dtype=kind, **_LOCAL, **more)
        except Exception as error:  # of any library, by what a file holds
            raise InvalidArgument(
                "--model", f"the weights in {self._base.folder} cannot be loaded: {_short(error)}"
            ) from None

    def _base_type(self) -> Any:
        config = transformers.AutoConfig.from_pretrained(self._base.folder, **_LOCAL)
        return config.dtype or "float32"


class _Trainer(trl.SFTTrainer):
    """TRL's, which writes no card of its own into checkpoints."""

    def create_model_card(self, *_: Any, **__: Any) -> None:
        """Do nothing."""


class _Watch(transformers.TrainerCallback):
    """Says how far the training is, writes the log, and decides when checkpoints are written and when to stop.

    Attributes:
        stop: Set by a signal of any process, after the step under way at the latest.
    """

    def __init__(self, recipe: Recipe, place: Place, tell: Telling) -> None:
        self.stop = False
        self._recipe, self._place, self._tell = recipe, place, tell
        self._lines: list[dict[str, Any]] = []
        self._before = {"tokens": 0, "seconds": 0.0}
        self._tokens = 0
        self._rate = 0.0
        self._begun = self._saved = time.monotonic()
        self._first = 0
        self._loss = math.nan

    def begin(self, start: checkpoints.Checkpoint | None) -> None:
        """Take up the log where a checkpoint was written; later lines are of steps that are taken again."""
        step = -1 if start is None else start.step
        lines = _lines(self._place.log)
        self._lines = [line for line in lines if line["step"] <= step] if start is not None else []
        if start is not None:
            self._before = {name: start.facts.get(name, 0) for name in self._before}
        if is_main():
            self._place.log.write_text("".join(json.dumps(line) + "\n" for line in self._lines))

    def validated_at(self, step: int) -> bool:
        """Tell whether the loss on the validation split is known for a step."""
        return any(line["step"] == step and "validation_loss" in line for line in self._lines)

    def figures(self) -> dict[str, Any]:
        """Losses at the begin and the end, tokens and seconds of all processes and attempts."""
        losses = [line["loss"] for line in self._lines if "loss" in line]
        validation = [line["validation_loss"] for line in self._lines if "validation_loss" in line]
        found: dict[str, Any] = dict(self._spent())
        for name, told in (("loss", losses), ("validation_loss", validation)):
            if told:
                found[name] = {"first": told[0], "last": told[-1]}
        return found

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """See TrainerCallback."""
        self._begun = self._saved = time.monotonic()
        self._first = state.global_step

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """See TrainerCallback."""
        last = state.global_step >= state.max_steps
        due, stop = _agreed(self._due(state.global_step) or last or self.stop, self.stop)
        self.stop = self.stop or stop
        control.should_save = due
        control.should_log = (
            control.should_log or due
        )  # so that the tokens noted with a checkpoint are those of its step
        control.should_training_stop = control.should_training_stop or stop
        if self._tell.progress is not None:
            self._tell.progress(self._line(state))

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """See TrainerCallback."""
        told = dict(logs or {})
        self._tokens = int(told.get("num_tokens", self._tokens))
        self._rate = self._tokens / max(time.monotonic() - self._begun, 1e-9)
        line: dict[str, Any] = {"step": state.global_step}
        names = {"loss": "loss", "eval_loss": "validation_loss", "learning_rate": "learning_rate",
                 "grad_norm": "gradient_norm", "mean_token_accuracy": "token_accuracy"}  # fmt: skip
        line |= {ours: float(told[name]) for name, ours in names.items() if name in told}
        if len(line) == 1 or not {"loss", "validation_loss"} & line.keys():
            return
        line |= self._spent()
        self._lines.append(line)
        if is_main():
            with self._place.log.open("a") as file:
                file.write(json.dumps(line) + "\n")
        for name in ("loss", "validation_loss"):
            if not math.isfinite(line.get(name, 0.0)):
                raise LossLost(state.global_step)
        self._loss = line.get("loss", self._loss)
        if "validation_loss" in line:
            self._tell.line(f"step {state.global_step}: validation loss {line['validation_loss']:.4f}")
        elif self._tell.progress is None:
            self._tell.line(self._line(state))

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """See TrainerCallback."""
        if processes() > 1:
            torch.distributed.barrier()  # each process writes a file of its own
        if is_main():
            folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            last = state.global_step >= state.max_steps
            checkpoints.seal(folder, {**self._spent(), "processes": processes(), "last": last})
        self._saved = time.monotonic()

    def _due(self, step: int) -> bool:
        if self._recipe.checkpoint_steps:
            return step % self._recipe.checkpoint_steps == 0
        return time.monotonic() - self._saved >= self._recipe.checkpoint_s

    def _spent(self) -> dict[str, Any]:
        seconds = self._before["seconds"] + time.monotonic() - self._begun
        return {"tokens": int(self._before["tokens"] + self._tokens), "seconds": round(seconds, 1)}

    def _line(self, state: Any) -> str:
        """`step 12 of 90 (13 %), loss 0.4123, 1234 tokens/s, 12:34 left`."""
        step, total, took = state.global_step, state.max_steps, time.monotonic() - self._begun
        text = f"step {step} of {total} ({100 * step // max(total, 1)} %)"
        if math.isfinite(self._loss):
            text += f", loss {self._loss:.4f}"
        if step > self._first and took > 0:
            left = round((total - step) * took / (step - self._first))
            clock = (
                f"{left // 3600}:{left // 60 % 60:02d}:{left % 60:02d}"
                if left >= 3600
                else f"{left // 60}:{left % 60:02d}"
            )
            text += f", {self._rate:.0f} tokens/s" if self._rate else ""
            text += f", {clock} left"
        return text


def _agreed(*flags: bool) -> tuple[bool, ...]:
    """The same flags for all processes: each is set where one has set it."""
    if processes() == 1 or not torch.distributed.is_initialized():
        return flags
    where = "cuda" if torch.distributed.get_backend() == "nccl" else "cpu"
    told = torch.tensor([int(flag) for flag in flags], device=where)
    torch.distributed.all_reduce(told, op=torch.distributed.ReduceOp.MAX)
    return tuple(bool(each) for each in told.tolist())


@contextlib.contextmanager
def _signals(watch: _Watch) -> Iterator[list[int]]:
    """Have SIGINT, SIGTERM and SIGHUP end the step under way first; yields the one that came."""
    came: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    before = {number: handler for number, handler in before.items() if handler is not signal.SIG_IGN}  # as nohup has it

    def take(number: int, _: FrameType | None) -> None:
        came.append(number)
        watch.stop = True
        for each, handler in before.items():
            signal.signal(each, handler)  # a second one ends at once

    for number in before:
        signal.signal(number, take)
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _rows(tokens: Tokens) -> Any:
    """A table of the datasets library; tokens stay in it as they are, four bytes each."""
    flat = bytearray().join(each.tobytes() for each in tokens.ids)
    labels = bytearray(flat)
    at, blank = 0, _UNSEEN.to_bytes(4, sys.byteorder, signed=True)
    for each, begin in zip(tokens.ids, tokens.begins, strict=True):
        labels[4 * at : 4 * (at + begin)] = blank * begin
        at += len(each)
    offsets = pyarrow.array([0, *itertools.accumulate(map(len, tokens.ids))], pyarrow.int32())
    columns = {
        name: pyarrow.ListArray.from_arrays(
            offsets, pyarrow.Array.from_buffers(pyarrow.int32(), at, [None, pyarrow.py_buffer(bytes(data))])
        )
        for name, data in (("input_ids", flat), ("labels", labels))
    }
    return datasets.Dataset(pyarrow.table(columns))


def _adapter(recipe: Recipe) -> Any:
    import peft

    targets = recipe.lora_targets
    return peft.LoraConfig(
        r=recipe.lora_rank,
        lora_alpha=recipe.lora_alpha,
        lora_dropout=recipe.lora_dropout,
        target_modules=targets if targets == "all-linear" else [name.strip() for name in targets.split(",")],
        task_type="CAUSAL_LM",
    )


def _merged(model: Any, adapter: Path) -> Any:
    import peft

    return peft.PeftModel.from_pretrained(model, str(adapter)).merge_and_unload(safe_merge=True)


def _say_type(path: Path, kind: str) -> None:
    """Have a configuration name the type of the weights, which were cast beside the model."""
    config = json.loads(path.read_text())
    config.pop("torch_dtype", None)
    path.write_text(json.dumps({**config, "dtype": kind}, indent=2) + "\n")


def _lines(path: Path) -> list[dict[str, Any]]:
    """Lines of a log, of which a kill may have torn the last."""
    found = []
    for line in path.read_text().splitlines() if path.is_file() else ():
        try:
            told = json.loads(line)
        except ValueError:
            continue
        if isinstance(told, dict) and isinstance(told.get("step"), int):
            found.append(told)
    return found


def _quiet() -> None:
    """Have libraries say errors alone."""
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    datasets.logging.set_verbosity_error()
    datasets.disable_progress_bars()
    logging.getLogger("trl").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module=r"(torch|transformers|trl|peft|accelerate)\b")


def _short(error: Exception) -> str:
    return str(error).strip()[:500] or type(error).__name__
