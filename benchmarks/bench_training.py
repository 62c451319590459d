"""Steps of `groundbox train` on processors with and without the memory that it frees kept for it.

    .venv-train/bin/python benchmarks/bench_training.py MODEL DATASET [ROUNDS] [STEPS]

In turn, each in a process of its own: the training as it is, and with glibc's own defaults (a setting of `MALLOC_*_`
that is there already is left alone). Told are tokens a second of all steps but the first, as the training itself logs
them, and the system's share of the processor time. Both take the same steps; their losses are compared.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from measure import machine

MAPPED = {"MALLOC_MMAP_MAX_": "65536"}
"""The default, said."""


def trained(model: str, dataset: str, steps: int, more: dict[str, str]) -> tuple[float, float, list[float]]:
    """Tokens a second, the system's share, and the losses."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [
                sys.executable, "-m", "groundbox", "train", dataset, "--model", model, "--max-steps", str(steps),
                "--max-length", "1024", "--batch-size", "2", "--set", "log_steps=1", "--set", "validation_samples=1",
                "--out", f"{folder}/out",
            ],
            check=True, env={**os.environ, **more}, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        log = [json.loads(line) for line in Path(folder, "out", "training", "log.jsonl").read_text().splitlines()]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    system, user = after.ru_stime - before.ru_stime, after.ru_utime - before.ru_utime
    told = [each for each in log if "loss" in each]
    rate = (told[-1]["tokens"] - told[0]["tokens"]) / (told[-1]["seconds"] - told[0]["seconds"])
    return rate, system / (system + user), [each["loss"] for each in told]


def main() -> None:
    """Print both, and the ratio of their medians."""
    model, dataset = sys.argv[1:3]
    rounds, steps = (int(each) for each in [*sys.argv[3:], *("3", "8")[len(sys.argv) - 3 :]])
    machine()
    kept, mapped = [], []
    for _ in range(rounds):
        kept.append(trained(model, dataset, steps, {}))
        mapped.append(trained(model, dataset, steps, MAPPED))
    for name, found in (("kept", kept), ("glibc's defaults", mapped)):
        rates, shares, _ = zip(*found, strict=True)
        print(f"{name:18} {statistics.median(rates):8.1f} tokens/s, the system {statistics.median(shares):5.1%}")
    ratio = statistics.median(each[0] for each in kept) / statistics.median(each[0] for each in mapped)
    print(f"ratio of medians   {ratio:8.2f}, losses {'the same' if kept[0][2] == mapped[0][2] else 'differ'}")


if __name__ == "__main__":
    main()
