"""Where data comes into a program."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Final

from groundbox.check.python.flow import Flow

_NAMES: Final = frozenset(
    [
        "open",
        "input",
        "urlopen",
        "read_text",
        "read_bytes",
        "loadtxt",
        "genfromtxt",
        "fromfile",
        "fetchall",
        "fetchone",
        "load_workbook",
        "ZipFile",
        "connect",
    ]
)
_ORIGINS: Final = frozenset(
    [
        "json.load",
        "csv.reader",
        "csv.DictReader",
        "pickle.load",
        "numpy.load",
        "numpy.loadtxt",
        "numpy.genfromtxt",
        "numpy.fromfile",
        "sys.stdin.read",
        "sys.stdin.readline",
        "sys.stdin.readlines",
        "yaml.safe_load",
        "yaml.load",
        "toml.load",
        "tomllib.load",
        "requests.get",
        "requests.post",
        "sqlite3.connect",
        "duckdb.connect",
        "duckdb.sql",
        "glob.glob",
        "os.listdir",
    ]
)
_ATTRIBUTES: Final = ("sys.stdin", "sys.argv", "os.environ")


def is_source(node: ast.AST, flow: Flow) -> bool:
    """Whether an expression brings data from outside into the program."""
    if isinstance(node, ast.Attribute):
        return flow.origin(node) in _ATTRIBUTES
    if not isinstance(node, ast.Call):
        return False
    origin = flow.origin(node.func)
    last = origin.rpartition(".")[2]
    if last == "open" and _mode(node).startswith(("w", "a", "x")):
        return False
    return origin in _ORIGINS or last in _NAMES or last.startswith("read_")


def is_opaque(node: ast.AST, flow: Flow) -> bool:
    """Whether an expression may be anything: a name that the program does not make, or code that it does not hold."""
    if isinstance(node, ast.Name):
        return not flow.is_known(node.id) and not node.id.startswith("(")
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name | ast.Attribute):
        return isinstance(node, ast.Call)
    root: ast.expr = node.func
    while isinstance(root, ast.Attribute):
        root = root.value
    return isinstance(root, ast.Name) and root.id in flow.modules


def sources(nodes: Iterable[ast.AST], flow: Flow) -> list[ast.expr]:
    """Those of `nodes` that bring data in."""
    return [node for node in nodes if isinstance(node, ast.expr) and is_source(node, flow)]


def _mode(call: ast.Call) -> str:
    given = call.args[1] if len(call.args) > 1 else None
    for keyword in call.keywords:
        given = keyword.value if keyword.arg == "mode" else given
    return given.value if isinstance(given, ast.Constant) and isinstance(given.value, str) else ""
