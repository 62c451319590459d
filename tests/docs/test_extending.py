"""Each example of docs/contributing/extending.md runs: a file more than the tree has, its test, and no edit."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "contributing" / "extending.md"
PACKAGES = """
import importlib, pathlib
for path in pathlib.Path({added!r}).rglob("*.py"):
    package = ".".join(path.relative_to({added!r}).parts[1:-1])  # without src/
    importlib.import_module(package).__path__.append(str(path.parent))
"""
"""Puts added files beside those of their packages, as they would lie in the tree."""


def examples():
    """Pairs of an added file and its test, each with its path in the tree."""
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n# (\S+\.py)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [pytest.param(blocks[n], blocks[n + 1], id=blocks[n][0]) for n in range(0, len(blocks), 2)]


@pytest.mark.parametrize(("added", "test"), examples())
def test_an_example_is_one_file_and_one_test(tmp_path, added, test):
    tree, plugins, tests = tmp_path / "tree", tmp_path / "plugins", tmp_path / "tests"
    for folder in (tree, plugins, tests):
        folder.mkdir()
    path, source = added
    file = tree / path if path.startswith("src/") else plugins / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(source, encoding="utf-8")
    named = plugins / "example-1.dist-info"
    named.mkdir()
    (named / "METADATA").write_text("Metadata-Version: 2.1\nName: example\nVersion: 1\n", encoding="utf-8")
    if file.parent == plugins:
        name, _, kind = file.stem.partition("_")
        entry = {
            "runtime": f"[groundbox.runtimes]\n{name} = {file.stem}\n",
            "tracer": f"[groundbox.tracers]\n{name} = {file.stem}\n",
        }.get(kind, f"[groundbox.protocols]\n{name} = {file.stem}:PROTOCOL\n")
        (named / "entry_points.txt").write_text(entry, encoding="utf-8")
    (tests / "conftest.py").write_text(PACKAGES.format(added=str(tree)), encoding="utf-8")
    (tests / Path(test[0]).name).write_text(test[1], encoding="utf-8")

    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tests), str(tests)],
        cwd=tests, env={**os.environ, "PYTHONPATH": str(plugins)}, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert "1 passed" in ran.stdout, ran.stdout + ran.stderr


def test_there_is_an_example_of_each_kind():
    headings = re.findall(r"^## (.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)

    assert headings == ["A dataset task", "An SQL rule", "A language", "A protocol", "A tracer", "An adapter"]
    assert len(examples()) == len(headings)
