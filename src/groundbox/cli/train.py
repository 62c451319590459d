"""`groundbox train`: fine-tunes a model's folder on a dataset's folder."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from groundbox.cli.ending import can_go_on, ends_tidily, say
from groundbox.cli.terminal import one_line

_folder = click.Path(path_type=Path, file_okay=False)


@click.command()
@click.argument("dataset", type=_folder, metavar="DATASET")
@click.option("--model", required=True, type=_folder, metavar="DIR", help="A model of transformers on this machine.")
@click.option("--out", required=True, type=_folder, metavar="DIR2", help="The tuned model; goes on with what is there.")
@click.option("--config", metavar="FILE", help="A recipe in TOML, or the name of one of ours: qwen3-4b.")
@click.option("--method", metavar="NAME", help="full: all weights; lora: adapters, merged in the end.")
@click.option("--epochs", metavar="N", help="Passes over the chats.")
@click.option("--max-steps", metavar="N", help="So many steps in place of epochs.")
@click.option("--max-length", metavar="N", help="Tokens of a chat; longer ones are left out.")
@click.option("--batch-size", metavar="N", help="Sequences of a step, of all processes together.")
@click.option("--learning-rate", metavar="N", help="The highest.")
@click.option("--seed", metavar="N", help="Of the order of chats, and of adapters.")
@click.option("--set", "more", multiple=True, metavar="KEY=VALUE", help="Any key of a recipe.")
@click.option("--any-memory", is_flag=True, help="Begin where the estimate says that memory does not suffice, too.")
@click.option("--json", "as_json", is_flag=True, help="JSON on stdout, and nothing else there.")
@ends_tidily
def train(
    dataset: Path, model: Path, out: Path, config: str | None, more: Sequence[str], *, any_memory: bool, as_json: bool,
    **given: str | None,
) -> int:  # fmt: skip
    """Fine-tunes a model on the chats of a dataset: full or by adapters, with the loss on replies only.

    DATASET is the folder that `dataset build` wrote. Nothing is downloaded, and no code of a folder is run. Killed
    and started again with the same arguments, it goes on from its last whole checkpoint. For several processes or
    GPUs begin with `torchrun --nproc-per-node N -m groundbox train`.
    """
    from groundbox.learn.training import recipe, run

    changes = dict(map(recipe.value_of, more))
    options = {name: value for name, value in given.items() if value is not None}
    changes |= dict(recipe.value_of(f"{name}={value}", _option(name)) for name, value in options.items())
    asked = recipe.read(config, changes)
    order = run.Order(dataset=dataset, model=model, out=out, recipe=asked, any_memory=any_memory)
    run.check_libraries()
    telling = _Telling()
    with can_go_on(out, "trained", telling.end):
        facts = run.train(order, telling)
    telling.end()
    if telling.main:
        _tell(facts, out, as_json=as_json)
    return 0


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


class _Telling:
    """Lines on stderr, of the main process alone; on a terminal the last one is replaced while steps are taken."""

    def __init__(self) -> None:
        self.main = int(os.environ.get("RANK", "0")) == 0
        self._width = 0
        self.progress: Callable[[str], None] | None = self._replace if self.main and sys.stderr.isatty() else None

    def line(self, words: str) -> None:
        """Say what stays."""
        self.end()
        if self.main:
            say(one_line(words))

    def end(self) -> None:
        """End the line that is replaced."""
        if self._width:
            sys.stderr.write("\n")
            sys.stderr.flush()
        self._width = 0

    def _replace(self, words: str) -> None:
        sys.stderr.write("\r" + words.ljust(self._width))
        sys.stderr.flush()
        self._width = len(words)


def _tell(facts: dict[str, Any], out: Path, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(facts), flush=True)
        return
    figures = facts["figures"]
    click.echo(f"steps       {figures['steps']} ({figures['epochs']:g} epochs, {figures['tokens']} tokens)")
    for name, words in (("loss", "loss"), ("validation_loss", "validation")):
        if told := figures.get(name):
            click.echo(f"{words:<11} {told['first']:.4f} -> {told['last']:.4f}")
    say(f"wrote {one_line(str(out))}; what it was made of is in README.md there")
