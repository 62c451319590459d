"""How a model is trained: numbers of a TOML file, changed by options of the command, each checked before hours of work.

A recipe says how many sequences make a step, not how many each processor takes at once; so one file holds for one
processor and for eight, and `accumulation` works out what is left.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Final

from groundbox.errors import InvalidArgument

METHODS: Final = ("full", "lora")
PRECISIONS: Final = ("auto", "bf16", "fp32")
SCHEDULES: Final = ("cosine", "linear", "constant", "constant_with_warmup")
OPTIMIZERS: Final = ("adamw_torch", "adamw_torch_fused", "adafactor")
ATTENTIONS: Final = ("sdpa", "eager", "flash_attention_2")
_RECIPES: Final = "groundbox.learn.training"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe:
    """All that decides what a training makes of a model and a dataset, but for these two.

    Attributes:
        method: `full` changes all weights, `lora` adapters beside them, which are merged in the end.
        epochs: Passes over the chats; a fraction ends within one.
        max_steps: So many steps in place of the epochs; the learning rate falls over these.
        max_length: Tokens of a chat, and of a sequence into which chats are packed. Longer chats are left out.
        packing: Several chats in a sequence, none of which sees another.
        batch_size: Sequences of a step, of all processes together.
        micro_batch_size: Sequences that one process computes at once.
        warmup: Share of the steps in which the learning rate rises.
        precision: `bf16` computes in 16 bits and keeps the weights in 32; `auto` does where the processor has it.
        gradient_checkpointing: Computes activations again rather than keeping them: less memory, a third more time.
        lora_targets: `all-linear`, or names of modules with commas between.
        validation_samples: Most chats of the validation split on which the loss is told; 0: none.
        validation_steps: Steps from one such loss to the next; None: at the begin and the end.
        checkpoint_s: Seconds from one checkpoint to the next.
        checkpoint_steps: Steps from one checkpoint to the next, in place of seconds.
        log_steps: Steps from one line of the log to the next.
    """

    method: str = "full"
    epochs: float = 3.0
    max_steps: int | None = None
    max_length: int = 4096
    packing: bool = True
    batch_size: int = 32
    micro_batch_size: int = 1
    learning_rate: float = 1e-5
    schedule: str = "cosine"
    warmup: float = 0.03
    weight_decay: float = 0.0
    gradient_clip: float = 1.0
    optimizer: str = "adamw_torch"
    precision: str = "auto"
    gradient_checkpointing: bool = False
    attention: str = "sdpa"
    lora_rank: int = 16
    lora_alpha: float = 32.0
    lora_dropout: float = 0.0
    lora_targets: str = "all-linear"
    validation_samples: int = 256
    validation_steps: int | None = None
    checkpoint_s: float = 900.0
    checkpoint_steps: int | None = None
    log_steps: int = 10
    seed: int = 0

    def accumulation(self, processes: int) -> int:
        """Micro-batches of one process that make a step.

        Raises:
            InvalidArgument: The processes cannot share a step evenly.
        """
        at_once = self.micro_batch_size * processes
        if self.batch_size % at_once:
            raise InvalidArgument(
                "batch_size",
                f"{self.batch_size} sequences of a step cannot be shared evenly by {processes} processes with "
                f"micro_batch_size {self.micro_batch_size}; take a multiple of {at_once}",
            )
        return self.batch_size // at_once

    def toml(self) -> str:
        """The same as a file for `--config`, with every value."""
        lines = (f"{name} = {json.dumps(value)}" for name, value in self.given().items())
        return "\n".join(lines) + "\n"

    def given(self) -> dict[str, Any]:
        """Values by name; TOML has no None, so these are left out."""
        return {name: value for name, value in dataclasses.asdict(self).items() if value is not None}


_FIELDS: Final = {field.name: str(field.type) for field in dataclasses.fields(Recipe)}
_CHOICES: Final[Mapping[str, Sequence[str]]] = {
    "method": METHODS, "precision": PRECISIONS, "schedule": SCHEDULES, "optimizer": OPTIMIZERS, "attention": ATTENTIONS,
}  # fmt: skip
_AT_LEAST: Final[Mapping[str, float]] = {
    "max_steps": 1, "max_length": 8, "batch_size": 1, "micro_batch_size": 1, "lora_rank": 1, "validation_samples": 0,
    "validation_steps": 1, "checkpoint_steps": 1, "log_steps": 1, "weight_decay": 0, "seed": 0,
}  # fmt: skip
_ABOVE_0: Final = ("epochs", "learning_rate", "gradient_clip", "lora_alpha", "checkpoint_s")
_SHARES: Final = ("warmup", "lora_dropout")


def recipes() -> list[str]:
    """Names of the recipes that come with groundbox."""
    found = resources.files(_RECIPES).joinpath("recipes").iterdir()
    return sorted(each.name.removesuffix(".toml") for each in found if each.name.endswith(".toml"))


def read(config: str | None, changes: Mapping[str, Any]) -> Recipe:
    """A recipe of a file, or of ours by its name, with what the options change.

    Args:
        config: A path, or the name of a recipe of ours where no such file is; None: the defaults.
        changes: Values by name, as `value_of` reads them.

    Raises:
        InvalidArgument: There is none, it is no TOML, or a value cannot be meant.
    """
    values = {} if config is None else _parsed(config)
    for where, given in (("--config", values), ("--set", changes)):
        for name, value in given.items():
            _check(where, name, value)
    found = Recipe(**{**values, **changes})
    if found.method == "lora" and "learning_rate" not in {**values, **changes}:
        found = dataclasses.replace(found, learning_rate=2e-4)  # adapters begin at nothing, and bear steps as large
    return found


def value_of(text: str, option: str = "--set") -> tuple[str, Any]:
    """Read `KEY=VALUE`; a value that is no TOML is a text.

    Args:
        option: Named where it cannot be meant.

    Raises:
        InvalidArgument: It is not of this form, or there is no such key.
    """
    name, equals, told = text.partition("=")
    name, told = name.strip(), told.strip()
    if not equals or not name:
        raise InvalidArgument(option, f"{text!r} is not KEY=VALUE, such as learning_rate=1e-5")
    try:
        value = tomllib.loads(f"value = {told}\n")["value"]
    except tomllib.TOMLDecodeError:
        value = told
    _check(option, name, value)
    return name, value


def _parsed(config: str) -> dict[str, Any]:
    path, ours = Path(config), recipes()
    try:
        if not path.exists() and config in ours:
            text = resources.files(_RECIPES).joinpath("recipes", f"{config}.toml").read_text(encoding="utf-8")
        else:
            text = path.read_text(encoding="utf-8")
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidArgument("--config", f"{config} is no TOML: {error}") from None
    except UnicodeDecodeError:
        raise InvalidArgument("--config", f"{config} is no text in UTF-8") from None
    except OSError as error:
        why = f"{config} cannot be read: {error.strerror}; recipes of ours are {', '.join(ours)}"
        raise InvalidArgument("--config", why) from None


def _check(where: str, name: str, value: Any) -> None:
    if name not in _FIELDS:
        near = difflib.get_close_matches(name, _FIELDS, 1)
        meant = f"; {near[0]} was meant, perhaps" if near else f"; there are {', '.join(_FIELDS)}"
        raise InvalidArgument(where, f"a recipe has no {name!r}{meant}")
    kind = _FIELDS[name]
    problem = _WRONG[kind.removesuffix(" | None")](value) or _out_of_bounds(name, value)
    if problem:
        raise InvalidArgument(where, f"{name} is {json.dumps(value, default=str)[:100]}, and {problem}")


def _whole(value: Any) -> str:
    return "" if isinstance(value, int) and not isinstance(value, bool) else "has to be a whole number"


def _number(value: Any) -> str:
    fits = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < float("inf")
    return "" if fits else "has to be a number"


_WRONG: Final[Mapping[str, Callable[[Any], str]]] = {
    "str": lambda value: "" if isinstance(value, str) else "has to be a text",
    "bool": lambda value: "" if isinstance(value, bool) else "has to be true or false",
    "int": _whole,
    "float": _number,
}


def _out_of_bounds(name: str, value: Any) -> str:
    if name in _CHOICES and value not in _CHOICES[name]:
        return f"has to be one of {', '.join(_CHOICES[name])}"
    if name in _AT_LEAST and value < _AT_LEAST[name]:
        return f"has to be at least {_AT_LEAST[name]:g}"
    if name in _ABOVE_0 and value <= 0:
        return "has to be above 0"
    if name in _SHARES and not 0 <= value < 1:
        return "has to be a share, from 0 to below 1"
    return ""
