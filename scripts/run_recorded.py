"""Run recorded programs through the engine and compare with what was recorded.

    python scripts/run_recorded.py pyedu problems.jsonl        lines with refcode, funcname and ios
    python scripts/run_recorded.py cruxeval cruxeval.jsonl     lines with code, input and output
    python scripts/run_recorded.py humaneval HumanEval.jsonl.gz

Every case runs in a sandbox of its own. Inputs travel as data, never as source.
Prints one line per case that differs, and the counts; `--differences FILE` keeps them as JSON lines.
`--plain PYTHON` runs each case that differs once more with that interpreter and no sandbox, under the same hash
seed, to tell what the engine did from what the data says.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import gzip
import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import groundbox as gb

_CALL = """
import json, sys
_case = json.load(open("case.json"))
_names = {"__name__": "program"}
exec(compile(open("program.py").read(), "program.py", "exec"), _names)
_result = _names[_case["function"]](**_case["input"])
json.dump(_result, open("result.json", "w"))
"""
_EVALUATE = """
import json
_case = json.load(open("case.json"))
_names = {"__name__": "program"}
exec(compile(open("program.py").read(), "program.py", "exec"), _names)
_result = eval(f"f({_case['input']})", _names)
json.dump(_result == eval(_case["output"], _names), open("result.json", "w"))
"""


class Case(NamedTuple):
    """One program with one input; `expected` is compared with result.json when that is made."""

    name: str
    source: str
    files: dict[str, str]
    expected: Any


def pyedu(lines: Iterator[dict[str, Any]]) -> Iterator[Case]:
    """A call of the main function for every recorded input."""
    for number, item in enumerate(lines):
        for index, case in enumerate(item["ios"]):
            data = {"function": item["funcname"], "input": case["input"]}
            files = {"program.py": item["refcode"], "case.json": json.dumps(data)}
            yield Case(f"{number}/{index}", _CALL, files, case["output"])


def cruxeval(lines: Iterator[dict[str, Any]]) -> Iterator[Case]:
    """f(input) == output, both as Python expressions."""
    for item in lines:
        files = {"program.py": item["code"], "case.json": json.dumps(item)}
        yield Case(item["id"], _EVALUATE, files, True)


def humaneval(lines: Iterator[dict[str, Any]]) -> Iterator[Case]:
    """The canonical solution under its tests."""
    for item in lines:
        source = f"{item['prompt']}{item['canonical_solution']}\n{item['test']}\ncheck({item['entry_point']})\n"
        yield Case(item["task_id"], source, {}, None)


async def run(case: Case, limit: asyncio.Semaphore) -> tuple[Case, gb.Execution]:
    """One case in a fresh sandbox; hash seed fixed, so that set order is the same every time."""
    async with limit:
        profile = "science" if "numpy" in str(case.files) + case.source else "bare"
        limits = gb.Limits(wall_s=90, cpu_s=60)
        return case, await gb.run_async(
            case.source, files=case.files, mode="script", limits=limits, profile=profile, hash_seed=0
        )


def difference(case: Case, execution: gb.Execution) -> str:
    """Why the case differs, or an empty text."""
    if not execution.ok:
        assert execution.error is not None
        return f"{execution.outcome.value}: {execution.error.type}: {execution.error.message[:120]}"
    if case.expected is None:
        return ""
    found = json.loads(execution.artifacts["result.json"].read())
    return "" if found == case.expected else f"got {str(found)[:80]}, recorded {str(case.expected)[:80]}"


def plain_result(python: str, case: Case) -> str:
    """What the interpreter alone makes of the case: its result, or how it failed."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in case.files.items():
            Path(folder, name).write_text(text)
        try:
            done = subprocess.run(
                [python, "-s", "-P", "-c", case.source],
                cwd=folder,
                env={"PYTHONHASHSEED": "0", "PATH": "/usr/bin:/bin"},
                capture_output=True,
                timeout=90,
            )
        except subprocess.TimeoutExpired:
            return "timeout"
        if done.returncode:
            return "error: " + done.stderr.decode().strip().splitlines()[-1].partition(":")[0]
        return "result: " + Path(folder, "result.json").read_text()


def sandbox_result(execution: gb.Execution) -> str:
    """The same of an execution."""
    if execution.outcome is gb.Outcome.TIMEOUT:
        return "timeout"
    if not execution.ok:
        assert execution.error is not None
        return f"error: {execution.error.type}"
    return "result: " + execution.artifacts["result.json"].read().decode()


async def main() -> None:
    """Read, run, compare, count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["pyedu", "cruxeval", "humaneval"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--differences", type=Path)
    parser.add_argument("--plain", metavar="PYTHON")
    options = parser.parse_args()
    opener = gzip.open if options.file.suffix == ".gz" else open
    with opener(options.file, "rt") as file:
        items = [json.loads(line) for line in file]
    cases = list({"pyedu": pyedu, "cruxeval": cruxeval, "humaneval": humaneval}[options.kind](iter(items)))
    begun, limit = time.monotonic(), asyncio.Semaphore(4)
    counts: collections.Counter[str] = collections.Counter()
    kept = []
    for task in asyncio.as_completed([run(case, limit) for case in cases]):
        case, execution = await task
        why = difference(case, execution)
        kind = "equal" if not why else execution.outcome.value if not execution.ok else "different"
        counts[kind] += 1
        if why:
            item = {"case": case.name, "why": why, "outcome": execution.outcome.value}
            if options.plain:
                plain = await asyncio.to_thread(plain_result, options.plain, case)
                item["plain"] = "same" if plain == sandbox_result(execution) else plain[:200]
                counts[f"of these without a sandbox: {'same' if item['plain'] == 'same' else 'other'}"] += 1
            print(f"{case.name}: {why}" + (f" [plain: {item['plain']}]" if options.plain else ""), flush=True)
            kept.append(item)
    if options.differences:
        options.differences.write_text("".join(json.dumps(item) + "\n" for item in kept))
    taken = time.monotonic() - begun
    print(f"{len(items)} programs, {len(cases)} cases in {taken:.1f} s: {dict(counts)}")


if __name__ == "__main__":
    asyncio.run(main())
