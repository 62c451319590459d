"""One run of the experiment: a model of one arm and seed is trained and scored. Needs torch."""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from pathlib import Path
from typing import Any, Final

import click
import torch

from groundbox.dataset.files import published
from groundbox.errors import InvalidArgument
from groundbox.learn.experiment import data
from groundbox.learn.experiment.data import RUN, SCORES, run_folder
from groundbox.learn.experiment.plan import Plan
from groundbox.learn.experiment.scoring import Scored, score
from groundbox.learn.training.base import has_bf16
from groundbox.learn.transformer import (
    END,
    PAD,
    Shape,
    Text,
    Tokenizer,
    Training,
    Transformer,
    answers,
    parameters,
    train,
)  # fmt: skip

VOCABULARY: Final = "vocabulary.json"
DEVICES: Final = ("cpu", "cuda")
_TOLD_EVERY_S: Final = 20.0
_SMOOTHED: Final = 0.98
_CURVE_POINTS: Final = 100


def device_of(asked: str) -> str:
    """The device to compute on: a GPU where there is one, unless another is asked for.

    Raises:
        InvalidArgument: A GPU is asked for, and torch sees none.
    """
    if asked == "cuda" and not torch.cuda.is_available():
        raise InvalidArgument("--device", "torch sees no GPU here; leave --device out, or take --device cpu")
    return asked if asked in DEVICES else "cuda" if torch.cuda.is_available() else "cpu"


def learn_vocabulary(folder: Path, plan: Plan) -> None:
    """Write the vocabulary of all arms' texts, which is the same for each of them."""
    out = folder / VOCABULARY
    if not out.exists():
        runs = data.read(folder / f"{data.TRAINING}.jsonl")
        tokenizer = Tokenizer.learn(text for run in runs for text in (run.prompt, *(run.replies[a] for a in plan.arms)))
        with published(out) as file:
            file.write(json.dumps(tokenizer.pieces).encode())


def run(folder: Path, plan: Plan, arm: str, seed: int, device: str = "cpu") -> None:
    """Train and score a model, and write what came of it; a run that is there already stays as it is."""
    out = run_folder(folder, arm, seed)
    if (out / RUN).exists():
        return
    out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)  # runs stand beside each other, one to a processor: that is faster than two to a run
    tokenizer = Tokenizer(json.loads((folder / VOCABULARY).read_text()))
    runs = data.read(folder / f"{data.TRAINING}.jsonl")
    texts = [
        Text(prompt=tokenizer.encode(each.prompt), reply=[*tokenizer.encode(each.replies[arm]), END]) for each in runs
    ]
    fitting = [each for each in texts if len(each) <= plan.room]
    if not fitting:
        raise InvalidArgument("room", f"all {len(texts)} texts of {arm} are longer than {plan.room} tokens")
    shape = Shape(layers=plan.layers, width=plan.width, heads=plan.heads, context=plan.room)
    began = time.monotonic()
    told = _Telling(f"{arm} {seed}", plan.tokens)
    compiled = plan.compiled and device == "cpu"
    training = Training(tokens=plan.tokens, batch=plan.batch, seed=seed, compiled=compiled)
    model = train(fitting, len(tokenizer), shape, training, told, device=device)
    trained = time.monotonic() - began
    torch.save(model.state_dict(), out / "model.pt")
    scores = [each for split in data.SPLIT_NAMES for each in _scored(model, tokenizer, folder, split, arm)]
    if plan.drawn:
        scores += _scored(model, tokenizer, folder, data.SAME, arm, drawn=seed)
    with published(out / SCORES) as file:
        file.writelines(json.dumps(each.to_json()).encode() + b"\n" for each in scores)
    facts: dict[str, Any] = {
        "arm": arm,
        "seed": seed,
        "plan": dataclasses.asdict(plan),
        "parameters": parameters(model),
        "vocabulary": len(tokenizer),
        "texts": len(fitting),
        "too_long": len(texts) - len(fitting),
        "tokens_a_text": sum(map(len, fitting)) / len(fitting),
        "training_s": trained,
        "scoring_s": time.monotonic() - began - trained,
        "losses": told.curve,
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if device == "cuda" else device,
        "bf16": device != "cpu" or has_bf16(),
    }
    with published(out / RUN) as file:
        file.write(json.dumps(facts, indent=1).encode())


def _scored(
    model: Transformer, tokenizer: Tokenizer, folder: Path, split: str, arm: str, *, drawn: int | None = None
) -> list[Scored]:
    path = folder / f"{split}.jsonl"
    runs = [] if split == data.REAL and not path.exists() else data.read(path)  # that one need not be asked for
    prompts = [tokenizer.encode(each.prompt) for each in runs]
    asked = [number for number, prompt in enumerate(prompts) if len(prompt) < model.shape.context]
    found_replies = answers(model, [prompts[n] for n in asked], most=model.shape.context, drawn=drawn)
    told = dict(zip(asked, found_replies, strict=True))
    found = []
    for number, each in enumerate(runs):
        reply = told.get(number, [PAD])  # to what does not fit there is no reply
        tokens = [token for token in reply if token != PAD]
        finished = len(tokens) == len(reply)
        told_split = split if drawn is None else data.DRAWN
        found.append(score(arm, told_split, each, tokenizer.decode(tokens), tokens=len(tokens), finished=finished))
    return found


class _Telling:
    """Tells on stderr how a training goes on, and keeps a curve of its loss.

    Attributes:
        curve: Tokens seen, and the loss, smoothed.
    """

    def __init__(self, name: str, tokens: int) -> None:
        self.curve: list[tuple[int, float]] = []
        self._name, self._tokens = name, tokens
        self._loss: float | None = None
        self._told = time.monotonic()

    def __call__(self, seen: int, loss: float, seconds: float) -> None:
        self._loss = loss if self._loss is None else _SMOOTHED * self._loss + (1 - _SMOOTHED) * loss
        if seen >= len(self.curve) * self._tokens / _CURVE_POINTS:
            self.curve.append((seen, round(self._loss, 4)))
        if time.monotonic() - self._told < _TOLD_EVERY_S and seen < self._tokens:
            return
        self._told = time.monotonic()
        left = max(0, self._tokens - seen) * seconds / seen / 60
        click.echo(
            f"{self._name}: {seen:,} of {self._tokens:,} tokens, loss {self._loss:.3f}, "
            f"{seen / seconds:,.0f} tokens/s, {left:.0f} min left",
            err=True,
        )


if __name__ == "__main__":
    _folder, _arm, _seed, _device = sys.argv[1:]
    run(Path(_folder), data.read_plan(Path(_folder)), _arm, int(_seed), _device)
