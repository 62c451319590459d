"""The trusted base imports nothing else of ours: the contract of pyproject.toml, and ways around it."""

import ast
import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[1]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
OPTIONS = next(each for each in SETTINGS["contracts"] if each.get("id") == "trusted-base")
PAGE = ROOT / "docs/security/trusted-base.md"
SCRIPTS = {"groundbox.template.boot"}
"""Not importable: they do their work at once."""


def _closed_contract():
    spec = importlib.util.spec_from_file_location("closed_contract", ROOT / "scripts/closed_contract.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["closed_contract"] = module
    spec.loader.exec_module(module)
    return module


contract = _closed_contract()


@pytest.fixture(scope="module")
def graph():
    return grimp.build_graph("groundbox", include_external_packages=True, cache_dir=None)


def _checked(graph):
    made = contract.ClosedContract("trusted base", SETTINGS, {**OPTIONS, "name": "trusted base"})
    return made.check(graph, verbose=False)


def _base(graph):
    return contract.members(graph, OPTIONS["modules"])


def test_the_base_imports_nothing_of_ours_outside_itself(graph):
    assert _checked(graph).kept


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("groundbox.jail.enter", "groundbox.execution"),
        ("groundbox.sandbox.worker", "groundbox.sandbox.sandbox"),
        ("groundbox.template.serve", "groundbox.guest.worker"),
        ("groundbox.sandbox.egress.proxy", "groundbox.trace.record.reading"),
        ("groundbox.guestjson", "click"),
    ],
)
def test_one_more_import_breaks_the_contract(graph, importer, imported):
    graph.add_import(importer=importer, imported=imported, line_number=1, line_contents=f"import {imported}")
    try:
        check = _checked(graph)
    finally:
        graph.remove_import(importer=importer, imported=imported)

    assert not check.kept
    assert check.metadata["crossings"] == [(importer, imported)]


def test_a_list_that_is_out_of_date_breaks_the_contract(graph):
    options = {"name": "n", "modules": ["groundbox.jail", "groundbox.gaol"]}
    check = contract.ClosedContract("n", SETTINGS, options).check(graph, verbose=False)
    assert (check.kept, check.metadata["missing"]) == (False, ["groundbox.gaol"])

    options = {
        "name": "n",
        "modules": ["groundbox.jail"],
        "ignore_imports": ["groundbox.jail.enter -> groundbox.errors"],
    }
    check = contract.ClosedContract("n", SETTINGS, options).check(graph, verbose=False)
    assert (check.kept, check.metadata["unused"]) == (False, [("groundbox.jail.enter", "groundbox.errors")])


def test_lint_imports_finds_an_import_inside_a_function(tmp_path):
    package = tmp_path / "walled"
    (package / "wall").mkdir(parents=True)
    for file in ("__init__.py", "wall/__init__.py", "outside.py"):
        (package / file).write_text("")
    (package / "wall" / "stone.py").write_text("import os\n\n\ndef late():\n    from walled import outside\n")
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts/closed_contract.py").write_text((ROOT / "scripts/closed_contract.py").read_text())
    (tmp_path / "pyproject.toml").write_text(
        '[tool.importlinter]\nroot_packages = ["walled"]\ninclude_external_packages = true\n'
        'contract_types = ["closed: scripts.closed_contract.ClosedContract"]\n'
        '[[tool.importlinter.contracts]]\nname = "the wall stands alone"\ntype = "closed"\nmodules = ["walled.wall"]\n'
    )
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]

    broken = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    (package / "wall" / "stone.py").write_text("import os\n")
    kept = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert broken.returncode == 1
    assert "walled.wall.stone imports walled.outside (line 5), which is outside the set" in broken.stdout
    assert kept.returncode == 0, kept.stdout


def test_ignored_imports_are_for_type_checkers_alone():
    ignored = [each.split(" -> ") for each in OPTIONS["ignore_imports"]]
    graph = grimp.build_graph(
        "groundbox", include_external_packages=True, exclude_type_checking_imports=True, cache_dir=None
    )
    assert ignored
    for importer, imported in ignored:
        assert not graph.direct_import_exists(importer=importer, imported=imported)


def test_importing_the_base_loads_nothing_else_of_ours(graph):
    base = _base(graph)
    program = "import sys\n" + "".join(f"import {name}\n" for name in sorted(base - SCRIPTS))
    program += "print(*[name for name in sys.modules if name.partition('.')[0] == 'groundbox'])"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()

    parents = {name.rpartition(".")[0] for name in base} | {"groundbox"}
    assert set(loaded) >= base - SCRIPTS
    assert set(loaded) - base - parents == set()


def test_the_base_imports_by_name_only_what_the_host_has_named(graph):
    """A module that is found by its name is no import to a linter."""
    found, named = [], []
    for module in sorted(_base(graph)):
        path = Path(importlib.util.find_spec(module).origin)
        for node in ast.walk(ast.parse(path.read_text())):
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if called in ("importlib.import_module", "import_module", "__import__", "runpy.run_module", "exec", "eval"):
                found.append((module, called))
            text = str(node.value) if isinstance(node, ast.Constant) else ""
            if text.startswith("groundbox.") and text in graph.modules:
                named.append((module, text))

    assert found == [
        ("groundbox.template.guest_code", "importlib.import_module"),
        ("groundbox.template.warm", "importlib.import_module"),
    ]
    assert named == []


def _sections():
    """The sections of the page for reviewers: heading, lines that it claims, files of its table."""
    text = PAGE.read_text()
    for heading, claimed, body in re.findall(
        r"^## (\d\. [^\n]*) \(([\d,]+) lines\)$(.*?)(?=^## |\Z)", text, re.M | re.S
    ):
        rows = re.findall(r"^\| (`[^|]*) \|", body, re.M)
        yield (
            heading,
            int(claimed.replace(",", "")),
            [name for row in rows for name in re.findall(r"`([^`]+\.py)`", row)],
        )


def test_the_page_for_reviewers_lists_the_files_of_the_contract(graph):
    packages = ROOT / "src" / "groundbox"
    base = {Path(importlib.util.find_spec(name).origin) for name in _base(graph)}
    listed = [name for _, _, files in _sections() for name in files]

    assert sorted(listed) == sorted(str(path.relative_to(packages)) for path in base)


@pytest.mark.parametrize(("claimed", "files"), [pytest.param(*each[1:], id=each[0]) for each in _sections()])
def test_the_page_for_reviewers_says_how_much_there_is_to_read(claimed, files):
    lines = sum(len((ROOT / "src/groundbox" / name).read_text().splitlines()) for name in files)

    assert claimed == pytest.approx(lines, rel=0.2), f"write {lines} lines, rounded"


def test_the_page_for_reviewers_can_be_read_at_one_sitting():
    assert len(re.findall(r"[\w'’./()-]+", PAGE.read_text())) <= 1200
