"""Sources of others are read without a word on stderr, and without a change for anybody else."""

import ast
import concurrent.futures
import subprocess
import sys
import warnings

import pytest

from groundbox.values.parsing import expression_of, module_of, symbols_of

WARNED = "x = '\\d'\n"


def test_a_source_is_read_without_its_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")

        trees = [ast.dump(tree) for tree in (module_of(WARNED), expression_of("'\\d'"))]
        symbols = symbols_of(WARNED)

    assert trees == [ast.dump(ast.parse(r"x = '\\d'")), ast.dump(ast.parse(r"'\\d'", mode="eval").body)]
    assert [each.get_name() for each in symbols.get_symbols()] == ["x"]


def test_what_others_read_is_warned_of_as_before():
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        module_of(WARNED)

        ast.parse(WARNED)

    assert len(shown) == 1


def test_many_readings_leave_one_filter():
    with warnings.catch_warnings():
        before = len(warnings.filters)

        with concurrent.futures.ThreadPoolExecutor(4) as threads:
            list(threads.map(module_of, [WARNED] * 200))
        added = len(warnings.filters) - before

    assert added in (0, 1)


@pytest.mark.parametrize("source", ["x = (", "x = \0"])
def test_what_is_no_python_is_told_as_ast_tells_it(source):
    with pytest.raises((SyntaxError, ValueError)):
        module_of(source)


@pytest.mark.parametrize(
    "module", ["groundbox.dataset.signature", "groundbox.trace.record.syntax", "groundbox.check.python.program"]
)
def test_readers_of_programs_print_nothing(module):
    readers = {
        "groundbox.dataset.signature": "tree_of",
        "groundbox.trace.record.syntax": "syntax_of",
        "groundbox.check.python.program": "parsed",
    }
    program = f"from {module} import {readers[module]}\n{readers[module]}({WARNED!r})"

    ran = subprocess.run([sys.executable, "-W", "always", "-c", program], capture_output=True, text=True, check=True)

    assert "escape" not in ran.stderr
