"""Tests a new environment on its own interpreter: imports what was asked for and does a little real work.

Run as `python -I -B selftest.py RESULTS IMPORT[|IMPORT]…`; of alternatives, one has to work.
Writes one JSON line to RESULTS before each test (`{"test": NAME}`)
and one after it (`{"test": NAME, "failed": null or WHY}`), so that a crash has a name too.
Also fills the folder $MPLCONFIGDIR with matplotlib's list of fonts, which takes seconds to make,
and `plotly` beside it with plotly.js, once as pages hold it and once as kaleido's browser reads it.
"""

from __future__ import annotations

import functools
import gzip
import importlib
import importlib.util
import io
import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any, TextIO


def main(results: TextIO, imports: list[str]) -> None:
    """Runs every test, whatever the ones before came to."""
    for entry in imports:
        alternatives = entry.split("|")
        _test(results, f"import {' or '.join(alternatives)}", functools.partial(_import, alternatives))
    for package, work in WORK.items():
        if importlib.util.find_spec(package) is not None:
            _test(results, f"use {package}", work)


def _test(results: TextIO, name: str, work: Callable[[], Any]) -> None:
    print(json.dumps({"test": name}), file=results, flush=True)
    failed = None
    try:
        work()
    except BaseException as error:  # SystemExit too: this boundary reports whatever a package does
        failed = "".join(traceback.format_exception_only(error)).strip()
    print(json.dumps({"test": name, "failed": failed}), file=results, flush=True)


def _import(alternatives: list[str]) -> None:
    for name in alternatives[:-1]:
        try:
            importlib.import_module(name)
            return
        except Exception:  # the last one's failure is the one that is reported
            continue
    importlib.import_module(alternatives[-1])


def _matplotlib() -> None:
    plt = importlib.import_module("matplotlib.pyplot")
    figure, axes = plt.subplots()
    axes.plot([1, 2, 3], [3, 1, 2])
    axes.set_title("title")
    file = io.BytesIO()
    figure.savefig(file, format="png")
    plt.close(figure)
    assert file.getvalue().startswith(b"\x89PNG"), "the plot is no PNG"


def _pandas() -> None:
    pandas = importlib.import_module("pandas")
    sums = pandas.DataFrame({"k": ["a", "b", "a"], "v": [1, 2, 3]}).groupby("k").v.sum()
    assert sums.to_dict() == {"a": 4, "b": 2}, f"group-by came to {sums.to_dict()}"


def _duckdb() -> None:
    duckdb = importlib.import_module("duckdb")
    rows = duckdb.connect().execute("SELECT sum(x) FROM (VALUES (1), (2)) AS t(x)").fetchall()
    assert rows == [(3,)], f"the sum came to {rows}"


def _fpdf() -> None:
    fpdf = importlib.import_module("fpdf")
    document = fpdf.FPDF()
    document.add_page()
    document.set_font("helvetica", size=12)
    document.cell(text="one line")
    assert bytes(document.output()).startswith(b"%PDF"), "the document is no PDF"


_MISSING_IN_CHROMIUM_88 = """
Object.hasOwn ||= (object, key) => Object.prototype.hasOwnProperty.call(object, key);
for (const kind of [Array, String, Object.getPrototypeOf(Uint8Array)])
  kind.prototype.at ||= function (index) {
    const whole = Math.trunc(index) || 0;
    return this[whole < 0 ? this.length + whole : whole];
  };
"""
"""What plotly.js 4 calls and the browser of kaleido 0.2.1 does not have."""


def _plotly() -> None:
    figure = importlib.import_module("plotly.graph_objects").Figure(data=[{"type": "bar", "y": [1, 2]}])
    assert json.loads(figure.to_json())["data"][0]["type"] == "bar", "the figure lost its trace"
    library = importlib.import_module("plotly.offline").get_plotlyjs()
    folder = os.path.join(os.path.dirname(os.environ["MPLCONFIGDIR"]), "plotly")
    os.makedirs(folder, mode=0o755, exist_ok=True)
    for name, data in (
        ("plotly.min.js.gz", gzip.compress(library.encode(), 9, mtime=0)),
        ("kaleido-plotly.js", (_MISSING_IN_CHROMIUM_88 + library).encode()),
    ):
        with open(os.path.join(folder, name), "wb") as file:
            file.write(data)


WORK = {"matplotlib": _matplotlib, "plotly": _plotly, "pandas": _pandas, "duckdb": _duckdb, "fpdf": _fpdf}


if __name__ == "__main__":
    with open(sys.argv[1], "w", encoding="utf-8") as results:
        main(results, sys.argv[2:])
