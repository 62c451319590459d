"""The taskset `groundbox-coding` for verifiers: `--env.taskset.id groundbox-coding --env.taskset.path rows.jsonl`."""

from groundbox.learn.rewards.for_verifiers import CodingTaskset

__all__ = ["CodingTaskset"]
