"""Programs as the rules look at them: tree, flow, where data comes in, and what the run showed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

from groundbox.check.python.flow import Flow, Steps, keyword_of
from groundbox.execution import Execution
from groundbox.values.parsing import module_of

_READING_NAMES: Final = """
    open input urlopen read_text read_bytes loadtxt genfromtxt fromfile fetchall fetchone load_workbook ZipFile connect
"""
_NAMES: Final = frozenset(_READING_NAMES.split())
_ORIGIN_NAMES: Final = """
    json.load csv.reader csv.DictReader pickle.load numpy.load sys.stdin.read sys.stdin.readline
    sys.stdin.readlines yaml.safe_load yaml.load toml.load tomllib.load requests.get requests.post duckdb.sql glob.glob
    os.listdir
"""
_ORIGINS: Final = frozenset(_ORIGIN_NAMES.split())
_ATTRIBUTES: Final = ("sys.stdin", "sys.argv", "os.environ")


def is_source(node: ast.AST, flow: Flow) -> bool:
    """Tell whether an expression brings data from outside into the program."""
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
    """Tell whether an expression may be anything: a name that the program does not make, or code of elsewhere."""
    if isinstance(node, ast.Name):
        return not flow.is_known(node.id) and not node.id.startswith("(")
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name | ast.Attribute):
        return isinstance(node, ast.Call)
    root: ast.expr = node.func
    while isinstance(root, ast.Attribute):
        root = root.value
    return isinstance(root, ast.Name) and root.id in flow.modules


def _mode(call: ast.Call) -> str:
    given = keyword_of(call, "mode") or (call.args[1] if len(call.args) > 1 else None)
    return given.value if isinstance(given, ast.Constant) and isinstance(given.value, str) else ""


MOST_SOURCE_CHARS: Final = 50_000
MOST_TEXT_CHARS: Final = 200_000
_MAGIC: Final = re.compile(r"^([ \t]*)[%!](?!=).*$", re.MULTILINE)


class Program:
    """
    Attributes:
        steps: What looking at it takes is counted here.
        nodes: Every node of the tree.
        outgoing: Ids of the nodes that something shown depends on.
    """

    def __init__(self, source: str, tree: ast.Module, execution: Execution, *, steps: Steps) -> None:
        """Read a program.

        Raises:
            Exhausted: It takes more steps than are left.
            RecursionError: It is nested deeper than anybody writes.
        """
        self.steps, self.source, self.tree, self.execution = steps, source, tree, execution
        self.flow = Flow(tree, cell=execution.value is not None, steps=self.steps)
        if self.flow.is_cut:
            raise RecursionError
        self.nodes = list(self.steps.walk(tree))
        self.outgoing = {id(node) for node in self.flow.outgoing()}

    def calls(self) -> Iterator[tuple[ast.Call, str]]:
        """Every call, with the dotted name of what is called."""
        for node in self.nodes:
            if isinstance(node, ast.Call):
                self.steps.take()
                yield node, self.flow.origin(node.func)

    def output(self) -> str:
        """Return what was printed, and the value, as text; the beginning and the end of much."""
        text = f"{self.execution.stdout}\n{self.execution.text or ''}"
        return text if len(text) <= MOST_TEXT_CHARS else text[: MOST_TEXT_CHARS // 2] + text[-MOST_TEXT_CHARS // 2 :]


def parsed(source: str) -> ast.Module | None:
    """The tree of a program, lines for the shell left out; None when it is no Python."""
    return _tree(source) or _tree(_MAGIC.sub(r"\1pass", source))


def _tree(text: str) -> ast.Module | None:
    try:
        return module_of(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
