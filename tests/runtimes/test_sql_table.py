"""The bundle that the host makes of what a guest tells of a result, which is a claim."""

import json
import pickle
from typing import Any

import pytest

import groundbox as gb
from groundbox.guest.sql.result import MIME
from groundbox.runtimes import sql_table

TABLE = "application/vnd.dataresource+json"
TOLD: dict[str, Any] = {
    "columns": [["n", "INTEGER", "integer", "int32"], ["<b>", "VARCHAR", "string", "str"]],
    "cells": [[1, None], ["x\ny", "<i>"]],
    "row_count": 2,
    "column_count": 2,
    "complete": True,
    "name": "result",
    "page": "LIMIT and OFFSET",
}


def test_the_forms_of_a_result_say_the_same():
    bundle = sql_table.bundle_of(TOLD)

    assert list(bundle) == ["text/plain", "text/html", TABLE]
    assert bundle["text/plain"] == (
        "      n  <b>\nINTEGER  VARCHAR\n----------------\n      1  x\\ny\n   NULL  <i>\n(2 rows × 2 columns)"
    )
    assert '<th title="VARCHAR">&lt;b&gt;</th>' in bundle["text/html"]
    assert "<td>NULL</td><td>&lt;i&gt;</td>" in bundle["text/html"]
    assert bundle[TABLE]["data"] == [{"n": 1, "<b>": "x\ny"}, {"n": None, "<b>": "<i>"}]


def test_a_form_is_made_once_and_only_when_it_is_looked_at(monkeypatch):
    made: Any = []
    counted = {mime: lambda rows, mime=mime: made.append(mime) or mime for mime in sql_table._FORMS}
    monkeypatch.setattr(sql_table, "_FORMS", counted)
    bundle = sql_table.bundle_of(TOLD)

    assert TABLE in bundle
    assert len(bundle) == 3
    assert "text/markdown" not in bundle
    assert bundle.get("text/markdown") is None
    assert made == []
    assert [bundle["text/plain"], bundle["text/plain"]] == ["text/plain"] * 2
    assert made == ["text/plain"]


def test_a_bundle_is_as_good_as_a_dict():
    bundle = sql_table.bundle_of(TOLD)

    assert bundle == dict(bundle) == pickle.loads(pickle.dumps(bundle))
    assert repr(bundle) == repr(dict(bundle))
    assert bundle != sql_table.bundle_of({**TOLD, "row_count": 3})


@pytest.mark.parametrize(
    "change",
    [
        {"columns": None},
        {"columns": [["n", "INTEGER", "integer", "int32"]]},
        {"columns": TOLD["columns"] * 60, "cells": TOLD["cells"] * 60},
        {"cells": [[1], ["a", "b"]]},
        {"cells": [[1] * 101, ["a"] * 101]},
        {"cells": [[{}], ["a"]]},
        {"row_count": -1},
        {"row_count": True},
        {"complete": 1},
        {"name": "x" * 300},
        {"page": None},
    ],
)
def test_what_is_no_table_is_refused(change):
    with pytest.raises(ValueError):
        sql_table.bundle_of({**TOLD, **change})


def lengths(bundle):
    return [len(bundle["text/plain"]), len(bundle["text/html"]), len(json.dumps(bundle[TABLE]))]


@pytest.mark.parametrize("wide", [{"name": 1500}, {"kind": 4000}, {"name": 400, "kind": 2000}])
def test_names_that_forms_would_repeat_too_often_are_too_large(wide):
    """They fill each row of data, their width each line of a text: a frame must not fill the host's memory so."""
    columns = [["n" * wide.get("name", 1), "t" * wide.get("kind", 1), "any", "object"]] * 10
    told = {**TOLD, "columns": columns, "cells": [["x"] * 100] * 10, "column_count": 10, "row_count": 100}

    assert max(lengths(sql_table.bundle_of(told))) < 2 * sql_table.MOST_NAME_CHARS

    bundle = sql_table.bundle_of({**told, "columns": columns * 10, "cells": told["cells"] * 10, "column_count": 100})
    assert dict(bundle) == {
        "text/plain": "too large to show: 100 rows × 100 columns with long names or types; "
        "select fewer, rename them, or look at the DataFrame `result`"
    }


def test_cells_that_markup_would_make_far_longer_are_not_marked_up():
    told = {**TOLD, "cells": [["'" * 1_500_000], ["b"]], "row_count": 1}
    plain = {**told, "cells": [["x" * 1_500_000], ["b"]]}

    assert sql_table.bundle_of(told)["text/html"] == (
        "<div>\n<p>too large to show as HTML: over 8000000 characters; "
        "all are in the DataFrame `result`: result.iloc[0:]</p>\n</div>"
    )
    assert len(sql_table.bundle_of(told)["text/plain"]) < 1000
    assert max(lengths(sql_table.bundle_of(plain))) < 1_600_000


def test_the_longest_cells_of_the_widest_result_are_shown():
    cells = [["x" * 1025] * 100] * 100
    told = {**TOLD, "columns": TOLD["columns"] * 50, "cells": cells, "column_count": 100, "row_count": 100}

    assert cells[0][0] in sql_table.bundle_of(told)["text/html"]


def test_a_query_of_long_names_and_many_rows_is_too_large_to_show():
    names = ", ".join(f'i AS "{chr(128512) * 995}{number:03d}"' for number in range(100))
    with gb.Sandbox() as box:
        execution = box.run(f"SELECT {names} FROM range(100) t(i)", language="sql")
        held = box.run("result.shape")

    assert execution.text.startswith("too large to show: 100 rows × 100 columns")
    assert len(json.dumps(execution.to_dict())) < 10_000
    assert held.text == "(100, 100)"


def test_a_name_of_any_length_is_a_column():
    with gb.Sandbox() as box:
        execution = box.run(f'SELECT 1 AS "{"a" * 3000}", 2 AS b', language="sql")

    assert execution.ok
    assert execution.value[TABLE]["data"] == [{"a" * 3000: 1, "b": 2}]


def test_a_program_that_tells_no_table_is_shown_as_what_it_told():
    """Python code of the sandbox can change what tells results; the host takes it for a claim and says so."""
    with gb.Sandbox() as box:
        box.run("SELECT 1 AS n", language="sql")
        changed = box.run(
            "import gc\n"
            "types = [each for each in gc.get_objects() if isinstance(each, type)]\n"
            "[cls] = [each for each in types if each.__name__ == 'Result' and hasattr(each, 'told')]\n"
            f"cls.told = lambda self: {{{MIME!r}: {{'columns': 'all of them'}}}}"
        )
        execution = box.run("SELECT 1 AS n", language="sql")
        after = box.run("6 * 7")

    assert changed.ok, changed.error
    assert execution.value == {MIME: {"columns": "all of them"}}
    assert [warning.code for warning in execution.warnings] == ["language.unread"]
    assert after.text == "42"
