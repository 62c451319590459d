"""Sources of scorers, read for what may execute a text."""

import functools
import importlib.util
import sys

import pytest

from groundbox.learn.evaluation.executing import executing


def loaded(folder, name, source):
    """The function `score` of a module with this source."""
    path = folder / f"{name}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module.score


@pytest.fixture
def load(tmp_path):
    names = []

    def load(name, source):
        names.append(name)
        return loaded(tmp_path, name, source)

    yield load
    for name in names:
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("def score(doc, said):\n    return eval(said[0])", "2 eval"),
        ("def score(doc, said):\n    exec(said[0])", "2 exec"),
        ("import builtins\nrun = builtins.exec\ndef score(doc, said):\n    return run(said[0])", "2 exec"),
        ("import os\ndef score(doc, said):\n    return os.system(said[0])", "3 system"),
        ("def score(doc, said):\n    import subprocess\n    return 0", "2 subprocess"),
        ("def helper(text):\n    from sympy.parsing import x\ndef score(doc, said):\n    return 0", "2 sympy.parsing"),
        ("class Any:\n    def check(self, text): return __import__(text)\nscore = Any().check", "2 __import__"),
    ],
)
def test_what_may_execute_a_text_is_named_by_its_line(load, source, found, tmp_path):
    assert executing([load("scores", source)], []) == f"{tmp_path}/scores.py:{found}"


def test_what_only_compares_is_let_through(load):
    source = "import re\ndef score(doc, said):\n    return bool(re.compile('a').match(said[0])) and model.eval()"

    assert executing([functools.partial(load("scores", source), 1)], []) == ""


def test_what_a_task_imports_from_beside_it_is_read_too(load, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    load("helps", "def run(text):\n    return eval(text)\nscore = run")
    score = load("scores", "from helps import run\ndef score(doc, said):\n    return run(said[0])")

    assert executing([score], []) == ""  # of somebody else
    assert executing([score], [tmp_path]) == f"{tmp_path}/helps.py:2 eval"


def test_a_function_of_no_module_is_not_trusted():
    score = eval("lambda doc, said: 1", {"__name__": "nowhere"})

    assert executing([score], []).endswith("is of no file that can be read")
