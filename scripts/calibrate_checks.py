"""How often each rule of `check_python` and each observer speaks up on programs that are right.

    python scripts/calibrate_checks.py [--pyedu FILE] [--cruxeval FILE] [--humaneval FILE] [--folder DIR] [--show CODE]

Each program runs in a fresh sandbox with `checks=True`, and only those whose recorded answer comes out are counted, so
that an alarm on one of them is a false alarm unless a look at the program says otherwise. `--show CODE` prints them.
"""

from __future__ import annotations

import argparse
import ast
import collections
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import groundbox as gb
from groundbox.check import check_determinism, check_python
from groundbox.check.python.check import EVIDENCE


class Recorded(NamedTuple):
    """A program with what it answers; `answer` is None where ending well is the proof."""

    name: str
    source: str
    options: dict[str, Any]
    answer: Any = None


def pyedu(path: Path) -> Iterator[Recorded]:
    """Functions with their inputs, of which the first is run."""
    for number, item in enumerate(map(json.loads, path.read_text().splitlines()), 1):
        case = item["ios"][0]
        call = {"mode": "call", "call": item["funcname"], "kwargs": case["input"]}
        yield Recorded(f"pyedu {number}", item["refcode"], call, case["output"])


def cruxeval(path: Path) -> Iterator[Recorded]:
    """Functions whose call is a cell's last expression."""
    for item in map(json.loads, path.read_text().splitlines()):
        source = f"{item['code']}\n\nassert f({item['input']}) == {item['output']}\nf({item['input']})\n"
        yield Recorded(f"cruxeval {item['id']}", source, {})


def humaneval(path: Path) -> Iterator[Recorded]:
    """Reference solutions with their tests."""
    with gzip.open(path, "rt") as lines:
        for item in map(json.loads, lines):
            solved = item["prompt"] + item["canonical_solution"]
            yield Recorded(item["task_id"], f"{solved}\n{item['test']}\ncheck({item['entry_point']})\n", {})


def folder(path: Path) -> Iterator[Recorded]:
    """Python files that are to end well."""
    for file in sorted(path.rglob("*.py")):
        yield Recorded(str(file.relative_to(path)), file.read_text(), {})


def main() -> None:
    """Run all and print the counts."""
    parser = argparse.ArgumentParser()
    readers = {"pyedu": pyedu, "cruxeval": cruxeval, "humaneval": humaneval, "folder": folder}
    for name in readers:
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--show", action="append", default=[], help="a code, or `all`")
    parser.add_argument("--determinism", type=int, default=0, metavar="N", help="also run the first N again")
    asked = parser.parse_args()
    for name, reader in readers.items():
        path = getattr(asked, name)
        if path is not None:
            _report(name, reader(path), asked.show, asked.determinism)


def _report(name: str, programs: Iterator[Recorded], show: list[str], again: int) -> None:
    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    total = right = silent = 0
    for program in programs:
        total += 1
        execution = gb.run(program.source, checks=True, **program.options)
        if not _is_right(execution, program):
            continue
        right += 1
        warnings = [*execution.warnings, *check_python(program.source, execution)]
        if right <= again:
            warnings += check_determinism(program.source, **program.options)
        silent += not [warning for warning in warnings if warning.code in EVIDENCE]
        counts.update({(warning.code, warning.tier) for warning in warnings})
        for warning in warnings:
            if warning.code in show or "all" in show:
                print(f"--- {program.name} {warning.code}: {warning.message}\n{program.source}\n")
    print(f"{name}: {total} programs, {right} of them run and answer as recorded, {silent} without a counted finding")
    for (code, tier), count in sorted(counts.items()):
        print(f"  {code:32}{tier:6}{count:6}{count / right:8.2%}")


def _is_right(execution: gb.Execution, program: Recorded) -> bool:
    if not execution.ok:
        return False
    if program.answer is None:
        return True
    text = execution.text or ""
    try:
        return bool(_plain(ast.literal_eval(text)) == program.answer)
    except (ValueError, SyntaxError):
        return text == str(program.answer)


def _plain(value: Any) -> Any:
    """As it would be after a passage through JSON."""
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError):
        return value


if __name__ == "__main__":
    main()
