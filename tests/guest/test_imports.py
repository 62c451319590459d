"""The profile of a program is read from its imports, quickly and without parsing it."""

import time

import pytest

from groundbox.guest.python.imports import profile_for


@pytest.mark.parametrize(
    "source",
    [
        "",
        "print(1 + 1)",
        "import os, sys as system",
        "from collections.abc import Mapping",
        "from __future__ import annotations\nimport json",
        "if True: import re; import math",
        "x = 7 % 3\nprint(f'{x}%')\ny = not x != 2",
        "important = 1\nfrom_here = 2",
        "import importlib\nimportlib.import_module('json')",
        "def f():\n    from . import sibling",
        "x = (",
    ],
)
def test_the_standard_library_needs_nothing_more(source):
    assert profile_for(source) == "bare"


@pytest.mark.parametrize(
    "source",
    [
        "import numpy",
        "import os, numpy as np",
        "from pandas.io import json",
        "try:\n    import torch\nexcept ImportError: pass",
        "if True: import numpy",
        "x = 1; import numpy",
        "import importlib\nimportlib.import_module('numpy')",
        "__import__('numpy')",
        "display(1)",
        "get_ipython()",
        "%time 1",
        "%%bash\nls",
        "!ls",
        "files = !ls",
        "x = %pwd",
        "print?",
        "?print",
        "import numpy\nx = (",
    ],
)
def test_everything_else_is_science(source):
    assert profile_for(source) == "science"


def test_a_very_long_source_is_not_read():
    source = "x = 1\n" * 10_000_000
    start = time.perf_counter()

    assert profile_for(source) == "science"
    assert time.perf_counter() - start < 0.05


@pytest.mark.parametrize(
    "piece", ["import ", "a;", "a:", "(", "%", "from x", " " * 50 + "!", "\n" + " " * 300, "import os,"]
)
def test_a_hostile_source_takes_linear_time(piece):
    source = piece * (1_000_000 // len(piece))
    start = time.perf_counter()

    profile_for(source)

    assert time.perf_counter() - start < 2
