"""Every regular expression of the server, its protocols and the fleet takes linear time on any text.

Each pattern is found in the source, with the method that it is used by, and tried with texts that are made of its own
characters: repeated, in pairs, after its beginning, and with an end that does not match. What is measured is processor
time of the thread, with a bound that linear patterns keep a hundred times over and quadratic ones miss by far.
"""

import ast
import importlib
import itertools
import re
import re._constants as codes  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
import time
from pathlib import Path

import pytest

import groundbox

SOURCE = Path(groundbox.__file__).parent
PACKAGES = ("server", "protocols", "fleet")
METHODS = ("match", "fullmatch", "search", "finditer", "findall", "sub", "subn", "split")
CHARS = 20_000
MOST_S = 0.3


def modules():
    for package in PACKAGES:
        for path in sorted((SOURCE / package).rglob("*.py")):
            name = ".".join(("groundbox", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")
            yield importlib.import_module(name), ast.parse(path.read_text(encoding="utf-8"))


def patterns():
    """Pattern and method, of every pattern that is compiled by a module or written in a call."""
    compiled, used, found = [], {}, set()
    for module, tree in modules():
        compiled += [(name, each) for name, each in vars(module).items() if isinstance(each, re.Pattern)]
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            of = node.func.value
            name = of.id if isinstance(of, ast.Name) else of.attr if isinstance(of, ast.Attribute) else ""
            if node.func.attr in METHODS:
                used.setdefault(name, set()).add(node.func.attr)
                if name == "re" and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str):
                    found.add((re.compile(node.args[0].value), node.func.attr))
    for name, pattern in compiled:
        found |= {(pattern, method) for method in used.get(name, ("search",))}
    return sorted(found, key=lambda each: (str(each[0].pattern), each[1]))


def samples(parsed):
    """A character for each place of a pattern."""
    for code, value in parsed:
        if code is codes.LITERAL:
            yield chr(value)
        elif code is codes.NOT_LITERAL or code is codes.ANY:
            yield "a"
        elif code is codes.IN:
            yield from (
                chr(each) for kind, told in value for each in (told if kind is codes.RANGE else (told,)) if kind in
                (codes.LITERAL, codes.RANGE)
            )  # fmt: skip
            yield from (
                {codes.CATEGORY_SPACE: " ", codes.CATEGORY_DIGIT: "1"}.get(told, "a")
                for kind, told in value
                if kind in (codes.CATEGORY, codes.NEGATE)
            )
        elif code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            yield from samples(value[2])
        elif code is codes.SUBPATTERN:
            yield from samples(value[3])
        elif code is codes.BRANCH:
            for each in value[1]:
                yield from samples(each)
        elif code in (codes.ASSERT, codes.ASSERT_NOT):
            yield from samples(value[1])


def texts(pattern):
    text = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    chars = list(dict.fromkeys([*samples(parser.parse(text, pattern.flags & ~re.UNICODE)), " "]))[:14]
    start = "".join(itertools.takewhile(lambda each: each.isalnum() or each in "/_-", text.lstrip("^\\A(?:")))
    for one, other in itertools.product(chars, repeat=2):
        for body in (one * CHARS, (one + other) * (CHARS // 2), other + one * CHARS):
            for end in ("\0", other + "\0"):
                yield start + body + end


@pytest.mark.parametrize(
    ("pattern", "method"), [pytest.param(*each, id=f"{each[0].pattern!r:.60}-{each[1]}") for each in patterns()]
)
def test_a_pattern_takes_linear_time(pattern, method):
    call = getattr(pattern, method)
    for text in dict.fromkeys(texts(pattern)):
        given = text if isinstance(pattern.pattern, str) else text.encode("latin-1", "replace")
        arguments = (given[:0], given) if method in ("sub", "subn") else (given,)
        begun = time.thread_time()
        result = call(*arguments)
        if method == "finditer":
            list(result)
        took_s = time.thread_time() - begun

        assert took_s < MOST_S, (pattern.pattern, method, text[:40], took_s)


def test_the_patterns_are_found():
    assert len(patterns()) > 30


def test_a_quadratic_pattern_is_noticed():
    with pytest.raises(AssertionError):
        test_a_pattern_takes_linear_time(re.compile(r"(\^|~)?\s*v?(\*|x|\d+)"), "finditer")
