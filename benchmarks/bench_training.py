"""Steps of `groundbox train` on processors with and without the memory that it frees kept for it.

    .venv-train/bin/python benchmarks/bench_training.py MODEL DATASET [ROUNDS] [STEPS]

In turn, each in a process of its own: the training as it is, and with glibc's own defaults (a setting of `MALLOC_*_`
that is there already is left alone). Told are tokens a second of all steps but the first, as the training itself logs
them, the system's share of the processor time, and the peak of memory. Both take the same steps; their losses are
compared.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from measure import machine

MAPPED = {"MALLOC_MMAP_MAX_": "65536"}
"""The default, said."""


class Trained(NamedTuple):
    """One training.

    Attributes:
        rate: Tokens a second.
        system: The kernel's share of the processor time, of the whole process.
        peak: The most memory it held, in bytes.
        losses: Of each step.
    """

    rate: float
    system: float
    peak: int
    losses: list[float]


def trained(model: str, dataset: str, steps: int, more: dict[str, str]) -> Trained:
    """Train in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [
                sys.executable, "-m", "groundbox", "train", dataset, "--model", model, "--max-steps", str(steps),
                "--max-length", "1024", "--batch-size", "2", "--set", "log_steps=1", "--set", "validation_samples=1",
                "--out", f"{folder}/out",
            ],
            env={**os.environ, **more}, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        _, status, used = os.wait4(process.pid, 0)
        if status:
            raise SystemExit(f"the training ended with status {status}")
        log = [json.loads(line) for line in Path(folder, "out", "training", "log.jsonl").read_text().splitlines()]
    told = [each for each in log if "loss" in each]
    return Trained(
        rate=(told[-1]["tokens"] - told[0]["tokens"]) / (told[-1]["seconds"] - told[0]["seconds"]),
        system=used.ru_stime / (used.ru_stime + used.ru_utime),
        peak=used.ru_maxrss << 10,
        losses=[each["loss"] for each in told],
    )


def main() -> None:
    """Print both, and the ratio of their medians."""
    model, dataset = sys.argv[1:3]
    rounds, steps = (int(each) for each in [*sys.argv[3:], *("3", "8")[len(sys.argv) - 3 :]])
    machine()
    kept: list[Trained] = []
    mapped: list[Trained] = []
    for _ in range(rounds):
        kept.append(trained(model, dataset, steps, {}))
        mapped.append(trained(model, dataset, steps, MAPPED))
    for name, found in (("kept", kept), ("glibc's defaults", mapped)):
        rate = statistics.median(each.rate for each in found)
        share = statistics.median(each.system for each in found)
        peak = max(each.peak for each in found) / (1 << 30)
        print(f"{name:18} {rate:8.1f} tokens/s, the system {share:5.1%}, at most {peak:.1f} GiB")
    ratio = statistics.median(each.rate for each in kept) / statistics.median(each.rate for each in mapped)
    same = all(each.losses == kept[0].losses for each in kept + mapped)
    print(f"ratio of medians   {ratio:8.2f}, losses {'the same' if same else 'differ'}")


if __name__ == "__main__":
    main()
