"""docs/cli.md shows the help of every command as it is.

`python tests/docs/test_cli_page.py` writes the help into the page anew.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
BLOCK = re.compile(r"(?<=^## groundbox)((?: [a-z0-9]+)*)(\n.*?^```text\n)(.*?)(?=^```$)", re.MULTILINE | re.DOTALL)


def help_of(command):
    """What `groundbox … --help` prints on 80 columns."""
    environ = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1"}
    shown = subprocess.run(
        [sys.executable, "-m", "groundbox", *command.split(), "--help"],
        capture_output=True,
        text=True,
        check=True,
        env=environ,
    )
    return shown.stdout


def test_the_page_shows_what_help_says():
    shown = {found[1].strip(): found[3] for found in BLOCK.finditer(PAGE.read_text(encoding="utf-8"))}

    told = {command: help_of(command) for command in shown}
    assert shown == told, "docs/cli.md is not what help says; write it anew by `python tests/docs/test_cli_page.py`"


def test_every_command_is_on_the_page():
    listed = re.findall(r"^  ([a-z0-9]+) ", help_of("").partition("Commands:")[2], re.MULTILINE)
    sections = re.findall(r"^## groundbox ([a-z0-9]+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)

    assert sections == listed, "give each command of `groundbox --help` a section in docs/cli.md, in that order"


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(BLOCK.sub(lambda m: m[1] + m[2] + help_of(m[1]), text), encoding="utf-8")
