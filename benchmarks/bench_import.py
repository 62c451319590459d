"""How long `import groundbox` takes in a fresh interpreter, against `import pydantic`.

    python benchmarks/bench_import.py [RUNS]

The start of the interpreter itself is measured alike, interleaved, and taken off both.
"""

from __future__ import annotations

import importlib.util
import statistics
import subprocess
import sys
import time

from measure import machine

_IMPORTS = {"nothing": "pass", "groundbox": "import groundbox", "groundbox.run": "import groundbox; groundbox.run"}


def taken(code: str) -> float:
    """Seconds from start to end of an interpreter that does this."""
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - begun


def main() -> None:
    """One line for each import: its median over that of an interpreter that imports nothing."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 21
    imports = dict(_IMPORTS)
    if importlib.util.find_spec("pydantic"):
        imports["pydantic"] = "import pydantic"
    machine()
    times: dict[str, list[float]] = {name: [] for name in imports}
    for number in range(runs + 1):
        for name, code in imports.items():
            spent = taken(code)
            if number:
                times[name].append(spent)
    medians = {name: statistics.median(each) * 1e3 for name, each in times.items()}
    print(f"\n{'':16}{'ms':>8}{'over nothing':>14}   ({runs} interleaved runs)")
    for name, median in medians.items():
        print(f"{name:16}{median:8.1f}{median - medians['nothing']:14.1f}")
    if "pydantic" in medians:
        ours, theirs = (medians[name] - medians["nothing"] for name in ("groundbox", "pydantic"))
        print(f"ratio of the imports: {ours / theirs:.2f}")


if __name__ == "__main__":
    main()
