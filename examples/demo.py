"""Runs the programs in examples/programs, shows what happened, and writes it into a folder to open.

    python examples/demo.py [FOLDER]        by default demo-output

Each program is a few cells, separated by `# %%`, that run one after another in one sandbox.
Then the recorded conversations are gone through again, whose programs really run: in one an error is met and mended,
in another a run ends well and is wrong, which a check finds; a wrong step is taken back, and of three ways tried side
by side one is gone on from. Their pages are in FOLDER/conversations.
Then the problems in examples/problems become a small dataset of proven reasoning, in FOLDER/dataset,
and one of them a page to step through.
FOLDER/index.html shows the programs and leads to all else that was made; it needs nothing but its folder.
"""

from __future__ import annotations

import ast
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import textwrap
import time
import webbrowser
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from demo_page import page

import groundbox as gb
from groundbox.cli import report
from groundbox.cli.results import Written, write
from groundbox.cli.terminal import plain

PROGRAMS = Path(__file__).with_name("programs")
CONVERSATIONS = Path(__file__).with_name("conversations")
PROBLEMS = Path(__file__).with_name("problems") / "everyday.jsonl"
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


class Also(NamedTuple):
    """A page that the index leads to."""

    kind: str
    about: str
    page: Path


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "demo-output")
    begun = time.monotonic()
    shown = [demonstrate(program, folder) for program in sorted(PROGRAMS.glob("*.py"))]
    count = sum(len(each.executions) for each in shown)
    print(f"\n{count} cells of {len(shown)} programs in {time.monotonic() - begun:.1f} s")
    also = [converse(each, folder / "conversations" / each.stem) for each in sorted(CONVERSATIONS.glob("*.jsonl"))]
    also += [build_dataset(folder / "dataset"), step_through(folder / "trace.html")]
    index = folder / "index.html"
    index.write_text(page(shown, also, folder), encoding="utf-8")
    print(f"\nopen {index}, which leads to everything that was made")
    if sys.stdout.isatty() and os.environ.get("DISPLAY"):
        webbrowser.open(index.absolute().as_uri())


def converse(recording: Path, folder: Path) -> Also:
    """Go through a recorded conversation; only the model's part of it is recorded."""
    print(f"\n{recording.name}  What the model wrote is recorded; its programs run now, and it answers.", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    kept = ("--out", folder, "--save", folder / "transcript.jsonl", "--html", folder / "conversation.html")
    command("ask", "--replay", recording, *kept)
    with recording.open(encoding="utf-8") as lines:
        question = json.loads(next(lines))["question"]
    return Also("A conversation", question, folder / "conversation.html")


def build_dataset(folder: Path) -> Also:
    """Make a dataset, show one sample of it."""
    print(f"\n{PROBLEMS.name}  Problems become reasoning in which every claim is proven.")
    shutil.rmtree(folder, ignore_errors=True)
    command("dataset", "build", PROBLEMS, "--out", folder)
    with (folder / "sft.jsonl").open(encoding="utf-8") as samples:
        messages = json.loads(next(samples))["messages"]
    for message in messages:
        print(textwrap.indent(f"{message['role']}:\n{message['content']}", "    │ "))
    about = "Problems that became training data: programs run, their runs told in sentences, every sentence proven."
    return Also("A dataset", about, folder / "report.html")


def step_through(page_file: Path) -> Also:
    """Write the page of one run: the first problem with its first input."""
    with PROBLEMS.open(encoding="utf-8") as problems:
        problem = json.loads(next(problems))
    program = page_file.with_suffix(".py")
    program.write_text(problem["refcode"].rstrip("\n") + "\n", encoding="utf-8")
    arguments = json.dumps(problem["ios"][0]["input"])
    command("trace", program, "--call", problem["funcname"], "--args", arguments, "--html", page_file)
    return Also(
        "A run, step by step", "One of these problems: every line, every value, forwards and backwards.", page_file
    )


def command(*words: object) -> None:
    """Run a command of groundbox; it tells what it does itself."""
    subprocess.run([sys.executable, "-m", "groundbox", *map(str, words)], check=True)


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
    try:
        main()
    except gb.GroundboxError as problem:  # such as a sandbox that cannot be made here; the message says what to do
        print(f"groundbox: {problem}", file=sys.stderr)
        sys.exit(3)
