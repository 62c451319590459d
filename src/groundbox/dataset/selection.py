"""Selection: items that would teach little, and the split that a problem belongs to."""

from __future__ import annotations

import ast
import dataclasses
import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from groundbox.dataset import deduplication, signature
from groundbox.dataset.item import Answer, Item
from groundbox.dataset.problem import Problem

QUALITY: Final = "quality"
# Modules whose results depend on the machine, or that end runs in ways that no trace shows.
_MODULES: Final = frozenset(
    {"ctypes", "gc", "multiprocessing", "shutil", "signal", "socket", "subprocess", "threading"}
)
_CALLS: Final = {
    "os": frozenset(
        [
            "_exit",
            "abort",
            "chmod",
            "chown",
            "execl",
            "execle",
            "execlp",
            "execv",
            "execve",
            "execvp",
            "fork",
            "forkpty",
            "kill",
            "killpg",
            "link",
            "mkdir",
            "makedirs",
            "popen",
            "posix_spawn",
            "putenv",
            "remove",
            "removedirs",
            "rename",
            "renames",
            "replace",
            "rmdir",
            "spawnl",
            "spawnv",
            "symlink",
            "system",
            "truncate",
            "unlink",
            "walk",
            "listdir",
            "scandir",
            "getcwd",
            "environ",
            "getenv",
            "getpid",
        ]
    ),
    "sys": frozenset(["setprofile", "settrace", "_getframe", "setrecursionlimit", "monitoring", "modules"]),
    "pathlib": frozenset({"Path"}),
    "tempfile": frozenset(["mkstemp", "mkdtemp", "TemporaryFile", "NamedTemporaryFile", "TemporaryDirectory"]),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Taste:
    """Bounds of what is kept.

    Attributes:
        most_steps: Recorded lines of a run.
        most_same: Largest share of one problem's items that may have one and the same answer.
        enough: A problem with fewer items is not asked whether its answers differ.
        most_answer_chars: Length of the answer's text.
    """

    most_steps: int = 10_000
    most_same: float = 0.8
    enough: int = 3
    most_answer_chars: int = 2000


def judge(problem: Problem, items: Sequence[Item], taste: Taste) -> list[Item]:
    """The items in their order, those dropped which teach little."""
    reaching = outside(problem.source)
    judged = [item if item.drop else _alone(item, reaching, taste) for item in items]
    return _together(judged, taste)


def outside(source: str) -> str:
    """Name what a program reaches for outside itself, such as files and processes; "" where it keeps to its input."""
    tree = signature.tree_of(source)
    return "" if tree is None else next(_reaches(tree), "")


def _alone(item: Item, reaching: str, taste: Taste) -> Item:
    answer, traced = item.answer, item.traced
    if answer is None or traced is None:
        return item
    if reaching:
        return item.dropped(QUALITY, "reaches-outside", f"it uses {reaching}")
    if answer.fault is None and not answer.stdout and answer.value is None:
        return item.dropped(QUALITY, "trivial-output", "it returns None and prints nothing")
    if answer.fault is None and not answer.text and not answer.stdout:
        return item.dropped(QUALITY, "output-not-a-literal", f"it returns {str(answer.value)[:200]}")
    if len(answer.text) + len(answer.stdout) > taste.most_answer_chars:
        chars = len(answer.text) + len(answer.stdout)
        return item.dropped(QUALITY, "long-output", f"{chars} characters, {taste.most_answer_chars} are allowed")
    if traced.steps > taste.most_steps:
        how = "folded" if traced.folded else "not folded"
        return item.dropped(QUALITY, "long-trace", f"{traced.steps} steps, {how}; {taste.most_steps} are allowed")
    return item


def _together(items: Sequence[Item], taste: Taste) -> list[Item]:
    left = [item for item in items if item.drop is None]
    if len(left) < taste.enough:
        return list(items)
    # Counted among what is left: items that were dropped for themselves say nothing of the program.
    told = [_told(item) for item in left]
    (commonest, count), *_ = Counter(told).most_common(1)
    others = len(left) - count
    # With a share of 0.8, four of the commonest answer may stand beside each other one; the small term keeps a product
    # such as 3.9999999999999996 from being cut to 3.
    if others:
        most = max(1, int(others * taste.most_same / (1 - taste.most_same) + 1e-9))
        why = ("few-distinct-outputs", f"{count} inputs give the same")
    else:
        most, why = 0, ("constant-output", f"all {count} inputs give the same")
    same = [id(item) for item, each in zip(left, told, strict=True) if each == commonest]
    return [item.dropped(QUALITY, *why) if id(item) in same[most:] else item for item in items]


def _told(item: Item) -> str:
    answer: Answer | None = item.answer
    return "" if answer is None else repr((answer.value, answer.stdout, answer.fault and answer.fault.type))


def _reaches(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name.partition(".")[0] in _MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module:
            top = node.module.partition(".")[0]
            if top in _MODULES:
                yield node.module
            yield from (f"{top}.{each.name}" for each in node.names if each.name in _CALLS.get(top, ()))
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.attr in _CALLS.get(node.value.id, ()):
                yield f"{node.value.id}.{node.attr}"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open":
            yield "open"


TRAIN: Final = "train"
SPLITS: Final = (TRAIN, "validation", "test")
_BITS: Final = 53


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shares:
    """Shares of the problems that are kept apart from training."""

    validation: float = 0.05
    test: float = 0.05


def split(problem: Problem, shares: Shares) -> str:
    """The split of a problem: `train`, `validation` or `test`.

    Problems with one and the same statement go together, however their programs differ.
    """
    # By the statement: other solutions of one task must not be in training and test.
    said = " ".join(deduplication.words(problem.statement)) or deduplication.digest(
        deduplication.normalised(problem.source)
    )
    # A hash and no draw, so that a problem stays in its split when others are added to the build. 53 bits, which a
    # float holds exactly.
    place = int.from_bytes(hashlib.sha256(said.encode()).digest()[:8], "big") >> (64 - _BITS)
    share = place / 2**_BITS
    if share < shares.test:
        return "test"
    return "validation" if share < shares.test + shares.validation else TRAIN
