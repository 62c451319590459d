"""Cells that a template runs once before it forks, so that no sandbox pays for a first time.

They exercise what programs commonly do: printing, values, failures with hints, tables,
pictures. Libraries take part only if the template has imported them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

_PLAIN = (
    "print(1 + 1)",
    "1 + 1",
    "x = [1, 'two', {'three': 3.0}]\nx",
    "display('shown')",
    "def f(n):\n    return 1 / n\nf(0)",
    "{'key': 1}['kei']",
    "undefined_name",
    "'text'.uper()",
    "int('x', wrong=1)",
    "open('no such file')",
    "import nothing_of_this_name",
    "x = (",
    "import json, re, datetime, collections, math, random",
)
_IPYTHON = ("%pwd", "%time 1 + 1", "%matplotlib inline", "len?")
_PANDAS = (
    "import pandas as pd, io\ndf = pd.read_csv(io.StringIO('a,b,c\\n1,x,0.5\\n2,y,1.5\\n3,x,'))",
    "df",
    "df.groupby('b')['c'].agg(['sum', 'mean']).reset_index()",
    "df.merge(df, on='a').sort_values('a').head()",
    "df.describe()",
    "df['nothing']",
)
_MATPLOTLIB = (
    "import matplotlib.pyplot as plt\n"
    "fig, ax = plt.subplots()\n"
    "ax.plot([1, 2, 3], label='a'); ax.bar([1, 2], [3, 4]); ax.set_title('t'); ax.set_xlabel('x')\n"
    "ax.legend(); ax.grid(True)\n"
    "plt.show()",
)
_SYMPY = ("import sympy\nsympy.sqrt(8) + sympy.Symbol('x') ** 2",)
_PLOTLY = ("import plotly.graph_objects as go\ngo.Figure(go.Bar(y=[1, 2]))",)


def cells_for_warmth(*, ipython: bool) -> Iterator[str]:
    """Sources to run, by what is imported."""
    yield from _PLAIN
    if ipython:
        yield from _IPYTHON
    for module, cells in (
        ("pandas", _PANDAS),
        ("matplotlib.pyplot", _MATPLOTLIB),
        ("sympy", _SYMPY),
        ("plotly.graph_objects", _PLOTLY),
    ):
        if module in sys.modules:
            yield from cells
