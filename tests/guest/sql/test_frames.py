"""Which DataFrames a statement may mean, told without a look at its tokens."""

import pytest

import groundbox as gb
from groundbox.guest.sql import frames
from groundbox.guest.sql.frames import Variables

TABLE = "application/vnd.dataresource+json"


class Frame:
    """Stands for a DataFrame."""


@pytest.fixture
def variables(monkeypatch):
    monkeypatch.setattr(frames, "is_frame", lambda value: isinstance(value, Frame))
    return lambda **values: Variables(lambda: values)


@pytest.mark.parametrize("text", ["FROM sales", 'FROM "sales"', "SELECT 'sales'", "FROM salesmen"])
def test_a_frame_that_stands_in_the_text_may_be_meant(variables, text):
    assert variables(sales=Frame(), other=1).may_be_named(text)


def test_what_is_no_frame_is_not_meant(variables):
    assert not variables(sales=[1], other=Frame()).may_be_named("FROM sales")
    assert not variables(sales=Frame()).may_be_named("FROM Sales")


def test_a_result_that_is_no_frame_yet_may_be_meant(variables):
    several = variables()
    several.owe(["_sql", "result"], None)

    assert several.may_be_named("FROM result")
    assert not several.may_be_named("FROM other")


def test_a_name_that_is_written_otherwise_in_quotes_may_be_meant(variables):
    assert variables(**{'a"b': Frame()}).may_be_named('FROM "a""b"')
    assert Variables(lambda: {1: Frame()}).may_be_named("SELECT 1")  # type: ignore[dict-item]  # globals() can hold it


def test_of_very_many_variables_any_may_be_meant(variables):
    assert variables(**{f"v{number}": number for number in range(1000)}).may_be_named("SELECT 1")


@pytest.mark.parametrize("name", ['"a""b"', '"a b"', "ä", "frame"])
def test_a_frame_of_any_name_is_read(name):
    made = name.strip('"').replace('""', '"')
    with gb.Sandbox() as box:
        box.run(f"import pandas as pd; globals()[{made!r}] = pd.DataFrame({{'v': [7]}})")
        execution = box.run(f"SELECT v FROM {name}", language="sql")

    assert execution.ok, execution.error
    assert execution.value[TABLE]["data"] == [{"v": 7}]
