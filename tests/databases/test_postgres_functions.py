"""Where in a statement of PostgreSQL a function of the database may be called."""

import time

import pytest

from groundbox.databases.postgres_functions import Function, first_called

OWN = Function(False, "own", "public.own(integer)", True)
TWO = Function(False, "two", "public.two(integer, integer)", False)
ODD = Function(False, 'An "odd" name', 'public."An ""odd"" name"()', True)
LOCK = Function(True, "pg_advisory_lock", "pg_catalog.pg_advisory_lock(bigint)", True)


@pytest.mark.parametrize(
    ("function", "sql"),
    [
        (OWN, "SELECT own(1)"),
        (OWN, 'SELECT "own"\n\t (1)'),
        (OWN, "SELECT OWN /* a */ (1)"),
        (OWN, "SELECT own -- a\n(1)"),
        (OWN, "SELECT t.own FROM t"),
        (OWN, 'SELECT t . "own" FROM t'),
        (OWN, "SELECT t./* a */own FROM t"),
        (OWN, "SELECT t.-- a\r\n own FROM t"),
        (OWN, f"SELECT t.{' ' * 1000}own FROM t"),
        (OWN, "SELECT 'it is own (1)'"),
        (TWO, "SELECT two(1, 2)"),
        (ODD, 'SELECT "An ""odd"" name"()'),
        (LOCK, "SELECT 1 AS pg_advisory_lock"),
    ],
)
def test_a_place_where_a_call_can_be_is_found(function, sql):
    assert first_called([function], sql, {"pg_advisory_lock"} & {*sql.split()}) == function


@pytest.mark.parametrize(
    ("function", "sql"),
    [
        (OWN, "SELECT own, amount + own AS total FROM t WHERE own > 1"),
        (OWN, "SELECT known(1), own_name(2), my_own (3), t.owner FROM t"),
        (OWN, "SELECT id -- as its own ers say\n, own FROM t"),
        (TWO, "SELECT t.two FROM t"),
        (ODD, "SELECT an odd name"),
    ],
)
def test_a_column_of_the_same_name_is_not_a_call(function, sql):
    assert first_called([function], sql, set()) is None


@pytest.mark.parametrize("unit", ["own ", "own  \n ", "own,\n\n\n\n"])
def test_the_time_stays_in_proportion_to_the_length(unit):
    def taken(chars):
        begun = time.process_time()
        first_called([Function(False, "own", "", True)], "(" + unit * (chars // len(unit)), set())
        return time.process_time() - begun

    assert taken(1 << 20) < 80 * max(taken(1 << 15), 0.001)
