"""The examples of docs/adapters run, each with its framework."""

import contextlib
import importlib
import io
import re
from pathlib import Path

import pytest

PAGES = sorted((Path(__file__).parents[3] / "docs" / "adapters").glob("*.md"))
ADAPTERS = [page for page in PAGES if page.stem != "README"]


@pytest.mark.parametrize("page", ADAPTERS, ids=lambda page: page.stem)
def test_the_examples_of_a_page_run(page):
    try:
        importlib.import_module(f"groundbox.agent.adapters.{page.stem}")
    except ModuleNotFoundError as error:
        if error.name.startswith("groundbox"):
            raise
        pytest.skip(f"{error.name} is not installed here: make adapters")
    text = page.read_text(encoding="utf-8")
    blocks = list(re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))

    assert blocks
    for block in blocks:
        line = text.count("\n", 0, block.start(1))
        code = compile("\n" * line + block[1], str(page), "exec")
        with contextlib.redirect_stdout(io.StringIO()):
            exec(code, {"__name__": "__main__"})


def test_every_adapter_has_its_page_and_the_index_names_it():
    adapters = Path(importlib.import_module("groundbox.agent.adapters").__file__).parent
    names = {path.stem for path in adapters.glob("*.py")} - {
        "__init__",
        "hostcalls",
        "interpreter",
        "telling",
        "workplace",
    }
    index = PAGES[0].read_text(encoding="utf-8")

    assert {page.stem for page in ADAPTERS} == names
    assert set(re.findall(r"^\| \[(\w+)\.md\]", index, re.MULTILINE)) == names
