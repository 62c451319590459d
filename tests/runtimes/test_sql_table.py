"""The bundle that the host makes of what a guest tells of a result, which is a claim."""

import pickle

import msgspec
import pytest

import groundbox as gb
from groundbox.guest.sql.result import MIME
from groundbox.runtimes import sql_table

TABLE = "application/vnd.dataresource+json"
TOLD = {
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
    made = []
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
        {"columns": [["n" * 2000, "INTEGER", "integer", "int32"]] * 2},
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


def test_no_text_is_much_longer_than_what_it_is_made_of():
    """Blanks fill each row up to the longest name; names are bounded, so that a frame cannot fill the host's memory."""
    columns = [["n" * 1100, "t" * 1100, "any", "object"]] * 100
    told = {**TOLD, "columns": columns, "cells": [["<" * 1100] * 100] * 100, "column_count": 100}

    bundle = sql_table.bundle_of(told)

    assert len(bundle["text/plain"]) < 1_000_000
    assert len(bundle["text/html"]) < 5 * len(msgspec.json.encode(told))


def test_a_name_of_any_length_is_a_column():
    with gb.Sandbox() as box:
        execution = box.run(f'SELECT 1 AS "{"a" * 3000}", 2 AS b', language="sql")

    [row] = execution.value[TABLE]["data"]
    assert list(row) == [f"{'a' * 1000}… (3000 characters)", "b"]
    assert execution.ok


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
