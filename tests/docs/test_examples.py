"""Every Python example of README.md and docs/ runs, and says what is true."""

import contextlib
import importlib.util
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from groundbox.jail import probe

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
ADAPTERS = sorted((ROOT / "docs" / "adapters").glob("*.md"))
"""Their examples need frameworks, and run with these: tests/agent/adapters."""
SERVED = "127.0.0.1:8000"
"""Examples that ask a server run with one, and with the clients of others: tests/server/protocols/test_pages.py."""
MODEL = "http://localhost:11434/v1"
"""Examples that ask a model run with one that is scripted, below."""
FLEET = "10.0.0.1:8000"
"""Those that ask a fleet run with one: tests/fleet/test_restoring.py."""


_SPEC = importlib.util.spec_from_file_location("endpoint_fakes", ROOT / "tests/dataset/endpoint_fakes.py")
_FAKES = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(_FAKES)
serving = _FAKES.serving


def blocks(language):
    """Fenced blocks of one language, each with the place it stands at."""
    return list(found_in(PAGES, language))


def found_in(pages, language):
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for found in re.finditer(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            line = text.count("\n", 0, found.start(1))
            if any(place in found[1] for place in (SERVED, FLEET, MODEL)):
                continue
            yield pytest.param(line, found[1], id=f"{page.relative_to(ROOT)}:{line}")


@pytest.mark.parametrize(("line", "source"), blocks("python"))
def test_an_example_runs(line, source):
    if 'backend="gvisor"' in source and not probe.gvisor().works:
        pytest.skip(f"gvisor: {probe.gvisor().detail}")
    code = compile("\n" * line + source, "example", "exec")

    with contextlib.redirect_stdout(io.StringIO()):
        exec(code, {"__name__": "__main__"})


def test_the_tool_loop_of_the_readme_answers_by_what_a_run_shows(capsys):
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    [source] = [block for block in re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S) if MODEL in block]
    calls = [("c1", "total = sum(n * n for n in range(100))"), ("c2", "totl"), ("c3", "total")]
    messages = [
        {"content": None, "tool_calls": [{"id": number, "function": {"arguments": json.dumps({"code": program})}}]}
        for number, program in calls
    ]
    bodies = []

    def answer(body, key):
        bodies.append(body)
        return (
            200,
            {},
            {"choices": [{"message": messages[len(bodies) - 1] if len(bodies) < 4 else {"content": "It is 328350."}}]},
        )

    with serving(answer) as (url, _):
        exec(source.replace(MODEL, url), {"__name__": "__main__"})

    assert capsys.readouterr().out == "It is 328350.\n"
    shown = [each["content"] for each in bodies[-1]["messages"] if each.get("role") == "tool"]
    assert "NameError: name 'totl' is not defined" in shown[1]
    assert "hint: Did you mean `total`?" in shown[1]
    assert "\n328350\n" in shown[2]
    assert len(source.splitlines()) <= 24


def test_there_are_examples():
    assert len(blocks("python")) >= 7


def test_the_first_run_of_the_readme_is_as_shown():
    shown = blocks("console")[0].values[1]
    command, *expected = shown.splitlines()
    code = re.fullmatch(r"\$ groundbox run -c '(.*)'", command)[1]

    ran = subprocess.run(
        [sys.executable, "-m", "groundbox", "run", "-c", code], capture_output=True, text=True, check=False
    )

    assert ran.stdout == ""
    assert ran.stderr.splitlines()[:-1] == expected[:-1]


def test_every_link_to_a_file_leads_somewhere():
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in PAGES + ADAPTERS
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]

    assert broken == []


def test_every_test_that_a_page_names_exists():
    named = {
        (page.name, name)
        for page in PAGES + ADAPTERS
        for name in re.findall(r"`(test_\w+)`", page.read_text(encoding="utf-8"))
    }
    existing = set()
    for file in (ROOT / "tests").rglob("test_*.py"):
        existing |= {file.stem, *re.findall(r"def (test_\w+)", file.read_text(encoding="utf-8"))}

    assert sorted((page, name) for page, name in named if name not in existing) == []
