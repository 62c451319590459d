"""The card of a tuned model: `groundbox.json` for programs, which is written last, and `README.md` for people."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from groundbox.dataset import files
from groundbox.learn.evaluation.trained import CARD

README: Final = "README.md"
RECIPE: Final = "recipe.toml"


def publish(folder: Path, facts: Mapping[str, Any]) -> None:
    """Write both into the model's folder; with `groundbox.json` the folder counts as done."""
    files.publish(folder / README, readme(folder.resolve().name, facts).encode())
    files.publish(folder / CARD, json.dumps(facts, indent=1, ensure_ascii=False).encode() + b"\n")


def read(folder: Path) -> dict[str, Any] | None:
    """The facts of a folder that is done; None where it is not."""
    try:
        told = json.loads((folder / CARD).read_bytes())
    except (OSError, ValueError):
        return None
    return told if isinstance(told, dict) else None


def readme(name: str, facts: Mapping[str, Any]) -> str:
    """The card as Markdown, with the metadata that model hubs read."""
    dataset, base, figures = facts["dataset"], facts["base"], facts["figures"]
    how = "all weights" if facts["recipe"]["method"] == "full" else "adapters of low rank, merged into the weights"
    left_out, longest = dataset["left_out"], facts["recipe"]["max_length"]
    return "\n".join(
        [
            "---",
            f"base_model: {json.dumps(base['name'])}",
            f"datasets: [{json.dumps(dataset['name'])}]",
            "library_name: transformers",
            "pipeline_tag: text-generation",
            "---",
            f"# {name}",
            "",
            f"{base['name']} ({base['kind']}, {base['parameters']:,} parameters), fine-tuned by groundbox on the "
            f"dataset {dataset['name']}: {how}, loss on the replies only.",
            "The terms of that model and the licences of that dataset's programs apply to it.",
            "",
            "## What it was made of",
            "",
            "| | |",
            "|---|---|",
            f"| dataset | {dataset['name']}, SHA-256 of its samples `{dataset['digest']}` |",
            f"| chats | {dataset['chats']['train']:,} to train on, {dataset['chats']['validation']:,} to validate on"
            + (f"; {left_out:,} were longer than {longest:,} tokens and left out |" if left_out else " |"),
            *(f"| weights | `{file}`, SHA-256 `{digest}` |" for file, digest in base["files"].items()
              if file.endswith(".safetensors")),
            f"| computed on | {facts['device']}, {facts['processes']} process{'es' if facts['processes'] > 1 else ''}, "
            f"{facts['precision']} |",
            f"| versions | {', '.join(f'{name} {version}' for name, version in facts['versions'].items())} |",
            "",
            "## What came of it",
            "",
            "| | |",
            "|---|---|",
            f"| steps | {figures['steps']:,} ({figures['epochs']:g} epochs), {figures['tokens']:,} tokens, "
            f"{figures['seconds']:,.0f} s |",
            *(_loss("loss on replies", figures.get("loss"))),
            *(_loss("loss on the validation split", figures.get("validation_loss"))),
            "",
            "Losses say how well replies of this dataset are foretold, and nothing of how well the model reasons:",
            "`groundbox eval model --folder . --suite …` measures that, and says which questions it was trained on.",
            "",
            "## To repeat it",
            "",
            "```console",
            f"$ {facts['command']}",
            "```",
            "",
            f"`{RECIPE}` lies beside this file:",
            "",
            "```toml",
            *(f"{key} = {json.dumps(value)}" for key, value in facts["recipe"].items()),
            "```",
            "",
        ]
    )  # fmt: skip


def _loss(name: str, told: Mapping[str, float] | None) -> list[str]:
    return [f"| {name} | {told['first']:.4f} at first, {told['last']:.4f} in the end |"] if told else []
