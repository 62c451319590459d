"""The dataset card, README.md: what is in the folder, where it comes from, and how to load it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from groundbox.dataset.narration import LEFT_OUT
from groundbox.dataset.sample_files import chat_file
from groundbox.dataset.selection import SPLITS
from groundbox.dataset.tasks.registry import task_of


def card(facts: Mapping[str, Any], *, told_by: str = "") -> str:
    """The card as Markdown with the metadata that dataset hubs read.

    Args:
        told_by: The model whose words the tellings are, and how it was asked; "" for groundbox itself.
    """
    return "\n".join(
        [
            *_metadata(facts),
            "# Execution-grounded samples",
            "",
            f"{facts['samples']} samples from {facts['kept']} runs of Python programs, made by groundbox.",
            *(
                [f"The tellings were written by {told_by}; the terms of that model apply to them, too."]
                if told_by
                else []
            ),
            "Each run was recorded in a sandbox; each sample's telling was checked claim by claim against the record.",
            f"{facts['claims']['proven']} of {facts['claims']['total']} claims are proven; "
            f"{facts['claims']['uncheckable']} speak of what the record does not hold, such as what a library returned "
            "in the middle of a line. None is contradicted.",
            *_mended(facts["mended"]),
            "`groundbox dataset verify .` runs every program again and says what differs.",
            "",
            "## Files",
            "",
            "- `samples.parquet`: all samples with program, input, answer, check, digest of the trace, and origin.",
            *(f"- `{chat_file(split)}`: chats of the split `{split}`." for split in SPLITS),
            "- `dropped.jsonl`: every item that is not in here, with stage and reason.",
            "- `report.json`, `report.html`: counts and measures.",
            "- `dataset_info.json`: the entries that LLaMA-Factory needs.",
            "",
            "No problem is in two splits.",
            "",
            "## Tasks",
            "",
            "| task | samples | what is asked |",
            "|---|---|---|",
            *(f"| {task} | {count} | {task_of(task).about} |" for task, count in facts["samples_by_task"].items()),
            "",
            "Every reply ends with a line `Answer: …`. The column `check` says how an answer is judged, "
            "as data for `groundbox.dataset.tasks.checking`.",
            "",
            *_sources(facts),
            *_training(),
        ]
    )


def _metadata(facts: Mapping[str, Any]) -> list[str]:
    files = [
        f"  - split: {split}\n    path: {chat_file(split)}" for split in SPLITS if split in facts["samples_by_split"]
    ]
    return [
        "---",
        "language: [en]",
        "task_categories: [text-generation]",
        "tags: [code, execution-traces]",
        f"license: {_licence(facts)}",
        # Without them the hub would take every .jsonl file, dropped.jsonl as well, for data.
        *(["configs:", "- config_name: default", "  data_files:", *files] if files else []),
        "---",
        "",
    ]


def _mended(mended: Mapping[str, Any]) -> list[str]:
    if not mended["sentences"]:
        return []
    return [
        f"In {mended['items']} of the tellings {mended['sentences']} sentences that could not be proven are left out: "
        f"“{LEFT_OUT}” stands for each (column `left_out`)."
    ]


def _licence(facts: Mapping[str, Any]) -> str:
    # A hub takes one licence for a dataset; of several, `other` sends the reader to the table below.
    names = list(facts["samples_by_licence"])
    return names[0].lower() if len(names) == 1 and names[0] != "not stated" else "other"


def _sources(facts: Mapping[str, Any]) -> list[str]:
    return [
        "## Sources and licences",
        "",
        "The programs and statements keep the licences of their sources; the column `licence` has that of each row.",
        "`not stated` means that the source does not say: find out before you publish.",
        "",
        "| file | samples |",
        "|---|---|",
        *(f"| {name} | {count} |" for name, count in facts["samples_by_source"].items()),
        "",
        "| licence | samples |",
        "|---|---|",
        *(f"| {name} | {count} |" for name, count in facts["samples_by_licence"].items()),
        "",
    ]


def _training() -> list[str]:
    return [
        "## Training",
        "",
        'A line of `sft.jsonl` is `{"messages": [{"role": "user", …}, {"role": "assistant", …}], "id": …, "task": …}`.',
        "The answer is the last line of a reply, and trainers cut what is too long for them at its end: "
        "`report.json` has the lengths.",
        "",
        "TRL reads `messages` as they are; `assistant_only_loss` keeps programs and questions out of the loss:",
        "",
        "```python",
        "from datasets import load_dataset",
        "from trl import SFTConfig, SFTTrainer",
        "",
        'chats = load_dataset(".", split="train")  # this folder; or its name on a hub',
        "options = SFTConfig(max_length=8192, assistant_only_loss=True)",
        "SFTTrainer(model=..., args=options, train_dataset=chats).train()",
        "```",
        "",
        "LLaMA-Factory, whose entries are in `dataset_info.json`:",
        "",
        "```yaml",
        "dataset_dir: .  # this folder",
        "dataset: groundbox_train",
        "cutoff_len: 8192",
        "```",
        "",
    ]
