"""The examples of README.md, docs/serving.md and docs/wires/ run as they are printed, against a server."""

import ast
import asyncio
import contextlib
import inspect
import io
import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", ROOT / "docs" / "serving.md", *sorted((ROOT / "docs" / "wires").glob("*.md"))]
ADDRESS = "127.0.0.1:8000"


def examples():
    """Fenced blocks of Python that ask a server, or stand on the page of a wire."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for found in re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            if ADDRESS in found[1] or page.parent.name == "wires":
                line = text.count("\n", 0, found.start(1))
                yield pytest.param(line, found[1], id=f"{page.relative_to(ROOT)}:{line}")


@pytest.mark.parametrize(("line", "source"), list(examples()))
def test_an_example_runs_against_a_server(server, monkeypatch, line, source):
    address = server.url.removeprefix("http://")
    monkeypatch.setenv("GROUNDBOX_API_KEY", server.token)
    monkeypatch.setenv("E2B_API_URL", server.url)
    monkeypatch.setenv("E2B_SANDBOX_URL", server.url)
    monkeypatch.setenv("E2B_API_KEY", server.token)
    source = source.replace(ADDRESS, address).replace("/KEY/", f"/{server.token}/")
    source = source.replace("gb_…", server.token).replace('api_key="…"', f'api_key="{server.token}"')
    code = compile("\n" * line + source, "example", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    names = {"__name__": "__main__", "KEY": server.token}
    printed = io.StringIO()

    try:
        with contextlib.redirect_stdout(printed):
            result = eval(code, names)
            if inspect.iscoroutine(result):
                asyncio.run(result)
    except ImportError as error:
        if error.name is None or error.name.startswith("groundbox"):
            raise
        pytest.skip(f"{error.name} is not installed here: make clients")
    finally:
        os.environ.pop("E2B_DEBUG", None)

    if re.search(r"^ *print\(", source, re.MULTILINE):
        assert ("42" if "6 * 7" in source else "") in printed.getvalue()
        assert printed.getvalue().strip()


def test_there_are_examples():
    assert len(list(examples())) >= 8
