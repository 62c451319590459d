"""Runs the programs in examples/programs, shows what happened, and writes it into a folder to open.

    python examples/demo.py [FOLDER]        by default demo-output

Each program is a few cells, separated by `# %%`, that run one after another in one sandbox.
The folder gets index.html, which needs nothing but itself, and the files that the programs made.
"""

from __future__ import annotations

import ast
import dataclasses
import shutil
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from demo_page import page

import groundbox as gb
from groundbox.cli import report
from groundbox.cli.results import Written, write
from groundbox.cli.terminal import plain

PROGRAMS = Path(__file__).with_name("programs")
LIMITS = gb.Limits(wall_s=20, memory_bytes=512 * gb.MiB, disk_bytes=64 * gb.MiB)
SHORTER = {"5_endless.py": dataclasses.replace(LIMITS, wall_s=1.0)}


@dataclasses.dataclass(frozen=True)
class Shown:
    """One program and what became of its cells."""

    name: str
    about: str
    cells: Sequence[str]
    executions: Sequence[gb.Execution]
    written: Sequence[Written]


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "demo-output")
    begun = time.monotonic()
    shown = [demonstrate(program, folder) for program in sorted(PROGRAMS.glob("*.py"))]
    (folder / "index.html").write_text(page(shown), encoding="utf-8")
    count = sum(len(each.executions) for each in shown)
    print(f"\n{count} cells of {len(shown)} programs in {time.monotonic() - begun:.1f} s")
    print(f"open {folder / 'index.html'}")


def demonstrate(program: Path, folder: Path) -> Shown:
    """Run one program, show it, and write its files to a folder of its own."""
    about, cells = read(program)
    print(f"\n\033[1m{program.name}\033[0m  {about}" if sys.stdout.isatty() else f"\n{program.name}  {about}")
    executions, written = [], []
    with gb.Sandbox(limits=SHORTER.get(program.name, LIMITS)) as box:
        for number, cell in enumerate(cells, 1):
            executions.append(box.run(cell))
            place = folder / program.stem / (f"cell-{number}" if len(cells) > 1 else "")
            shutil.rmtree(place, ignore_errors=True)
            written.append(write(executions[-1], place))
            for line in words(executions[-1], written[-1]):
                print(textwrap.indent(plain(line), "    │ "))
    return Shown(program.stem, about, cells, executions, written)


def read(program: Path) -> tuple[str, list[str]]:
    """What a program says about itself, and its cells."""
    text = program.read_text(encoding="utf-8")
    first, *cells = text.split("# %%\n")
    return ast.get_docstring(ast.parse(first)) or "", [cell.strip() + "\n" for cell in cells]


def words(execution: gb.Execution, written: Written) -> Iterator[str]:
    """An execution as it is shown in a terminal."""
    for text in (execution.stdout, execution.stderr, execution.text):
        if text:
            yield text.rstrip("\n")
    yield from report.lines(execution, mode="cell", written=written)
    yield report.summary(execution).removeprefix("groundbox: ")


if __name__ == "__main__":
    main()
