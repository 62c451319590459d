"""One sandbox, five languages: the files in examples/notebook run in their order and share one folder.

    python examples/notebook.py [FOLDER]        by default notebook-output

Shell, JavaScript and DOT need bash, Node and Graphviz on the host (`groundbox languages`).
FOLDER gets a chart, a diagram, a spreadsheet and a report in PDF.
"""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import groundbox as gb
from groundbox.cli.terminal import plain

CELLS = Path(__file__).with_name("notebook")
LANGUAGES = {".py": "python", ".sh": "shell", ".sql": "sql", ".js": "javascript"}
KEPT = ("revenue.png", "together.svg", "revenue.xlsx", "report.pdf")


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "notebook-output")
    folder.mkdir(parents=True, exist_ok=True)
    with gb.Sandbox(limits=gb.Limits(wall_s=60, memory_bytes=1024 * gb.MiB)) as box:
        for cell in sorted(CELLS.iterdir()):
            if cell.suffix not in LANGUAGES:
                continue
            tell(cell.name, box.run(cell.read_text(encoding="utf-8"), language=LANGUAGES[cell.suffix]))
            files = box.files.list()
            if "together.dot" in files and "together.svg" not in files:
                draw(box)
        for name in KEPT:
            (folder / name).write_bytes(box.files.read(name))
    print(f"\n{', '.join(KEPT)} are in {folder}")


def draw(box: gb.Sandbox) -> None:
    """The diagram whose source a cell wrote, put where the next cells find it."""
    execution = box.run(box.files.read("together.dot").decode(), language="dot")
    tell("together.dot", execution)
    picture = execution.displays[0]
    box.files.write("together.svg", str(picture.data["image/svg+xml"]))
    box.files.write("together.png", picture.png or b"")


def tell(name: str, execution: gb.Execution) -> None:
    """What a cell printed, gave and left."""
    print(f"\n{name} ({execution.language}): {execution.outcome.value}")
    said = execution.stdout + (execution.text or "")
    if execution.error is not None:
        said += execution.error.traceback
    print(textwrap.indent(plain(said.rstrip()), "    "))
    for artifact in execution.artifacts.values():
        print(f"    {artifact.path}: {artifact.about or artifact.media_type}")
    if not execution.ok:
        raise SystemExit(1)


if __name__ == "__main__":
    try:
        main()
    except gb.GroundboxError as problem:  # such as a sandbox that cannot be made here; the message says what to do
        print(f"groundbox: {problem}", file=sys.stderr)
        sys.exit(3)
