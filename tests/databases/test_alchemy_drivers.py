"""Drivers as nobody would wish for, by a dialect of SQLAlchemy whose driver is written out here."""

import asyncio
import datetime
import decimal
import enum
import io
import threading
import time
import types
from pathlib import Path
from typing import Any

import pytest

from groundbox.databases import alchemy, alchemy_line
from groundbox.databases.answer import DatabaseUnavailable
from groundbox.databases.database import Database
from groundbox.databases.failure import failure_of

sqlalchemy = pytest.importorskip(
    "sqlalchemy", reason="SQLAlchemy is not installed: the extra `sqlalchemy` of groundbox brings it"
)

URL = "odd://reader:hidden%20word@db.example.org/shop?api_token=topsecret&host=10.1.2.3:1,second.example.org:2"


class Error(Exception):
    """What PEP 249 calls so."""


class Panic(BaseException):
    """As of drivers in Rust."""


class Worded(Error):
    """As of trino, whose last text is the query's number."""

    message = "line 1:8: Column 'nam' cannot be resolved"


class Cursor:
    """One result, or one failure, which may come late."""

    def __init__(self, connection):
        self.connection = connection
        self.description = connection.script.get("description")
        self.rowcount, self._rows = -1, list(connection.script.get("rows", ()))

    def execute(self, *arguments):
        self.connection.calls.append(("execute", *arguments))
        if waits := self.connection.script.get("waits"):
            waits.wait(10)
        if error := self.connection.script.get("error"):
            raise error

    def fetchmany(self, size):
        if error := self.connection.script.get("late error"):
            raise error
        taken, self._rows = self._rows[:size], self._rows[size:]
        return taken

    def close(self):
        if error := self.connection.script.get("closing error"):
            raise error


class Connection:
    """Counts what is asked of it."""

    def __init__(self, script, calls):
        self.script, self.calls = script, calls
        self.__dict__.update(script.get("attributes", {}))

    def cursor(self):
        cursor = Cursor(self)
        cursor.__dict__.update(self.script.get("cursor attributes", {}))
        return cursor

    def rollback(self):
        if self.calls:  # SQLAlchemy does it once before anything else
            self.calls.append(("rollback",))
            if error := self.script.get("closing error"):
                raise error

    def commit(self):
        self.calls.append(("commit",))

    def close(self):
        self.calls.append(("close",))
        if error := self.script.get("closing error"):
            raise error


class Driver:
    """What a test has the driver do, and what was asked of it."""

    def __init__(self):
        self.script, self.calls = {}, []

    def ask(self, sql="SELECT 1", **settings):
        return asyncio.run(alchemy.ask("shop", Database(url=URL, allow_powerful=True, **settings), sql))

    def gives(self, *rows, types=None):
        types = types or [None] * len(rows[0])
        self.script |= {"description": [(f"c{i}", kind) for i, kind in enumerate(types)], "rows": rows}


@pytest.fixture
def driver(monkeypatch):
    made = Driver()

    def connect(*arguments, **options):
        if error := made.script.get("refusal"):
            raise error
        return Connection(made.script, made.calls)

    module = types.SimpleNamespace(paramstyle="pyformat", Error=Error, connect=connect)

    class Dialect(sqlalchemy.engine.default.DefaultDialect):  # type: ignore[name-defined]  # its types are not read
        name, driver, supports_statement_cache = "odd", "odd", True
        import_dbapi = classmethod(lambda cls: module)

        def initialize(self, connection):
            """Asks nothing."""

    monkeypatch.setitem(sqlalchemy.dialects.registry.impls, "odd", lambda: Dialect)
    return made


def soon(condition):
    deadline = time.monotonic() + 10
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def threads():
    return [each for each in threading.enumerate() if each.name == "groundbox-alchemy"]


def test_a_statement_comes_to_the_driver_as_it_is_and_is_rolled_back(driver):
    driver.gives(["50 %"])

    answer = driver.ask("SELECT '%s 50 %' ;", setup=("SET a = '%s'",))

    assert answer.rows == [["50 %"]]
    assert driver.calls[:2] == [("execute", "SET a = '%s'"), ("execute", "SELECT '%s 50 %' ")]
    assert set(driver.calls[2:]) == {("rollback",), ("close",)}


def test_types_come_from_names_classes_and_values(driver):
    kind: Any = enum.Enum("kind", ["DB_TYPE_VARCHAR"])
    named = kind.DB_TYPE_VARCHAR
    moment = datetime.datetime(2024, 1, 1, 10, tzinfo=datetime.UTC)
    values = [
        "a",
        decimal.Decimal("1.50"),
        b"\x00\xff",
        moment,
        1,
        None,
        decimal.Decimal(2),
        None,
        {"k": [1]},
        "\udc80",
    ]
    driver.gives(values, types=[named, "NUMBER", 3, "DATE", "int", 7, 2, int, 8, "text"])

    answer = driver.ask()

    assert answer.failure is None
    assert answer.rows == [
        ["a", "1.50", "\\x00ff", "2024-01-01 10:00:00+00:00", 1, None, "2", None, '{"k": [1]}', "?"],
    ]
    assert [field.type for field in answer.fields] == [
        "DB_TYPE_VARCHAR",
        "decimal",
        "binary",
        "timestamp with time zone",
        "int",
        "unknown",
        "decimal",
        "integer",
        "dict",
        "text",
    ]


@pytest.mark.parametrize("value", ["1E+999999999", "-1E-999999999", "NaN", "Infinity"])
def test_a_decimal_of_many_digits_is_not_written_out(driver, value):
    driver.gives([decimal.Decimal(value)])

    assert driver.ask().rows == [[value]]


def test_a_map_by_what_json_has_no_keys_for_is_told_all_the_same(driver):
    driver.gives([{datetime.date(2024, 1, 1): 1}])

    assert driver.ask().rows == [["{datetime.date(2024, 1, 1): 1}"]]


class Large:
    """A large object that tells its size before it is read."""

    def __init__(self, content):
        self._content, self.was_read = content, False

    def size(self):
        return len(self._content)

    def read(self, offset=1, amount=None):
        self.was_read = True
        return self._content[offset - 1 :][:amount]


def test_large_objects_are_read_if_they_are_not_too_large(driver):
    driver.gives([Large("text"), io.BytesIO(b"\x01"), io.StringIO("file")])

    assert driver.ask(max_bytes=1000).rows == [["text", "\\x01", "file"]]


@pytest.mark.parametrize("value", [Large("x" * 2000), io.StringIO("x" * 2000), "x" * 2000, "é" * 600])
def test_a_row_that_is_too_large_is_a_failure_and_after_others_an_end(driver, value):
    driver.gives([value])
    alone = driver.ask(max_bytes=1000)
    driver.gives(["a"], [value])

    after = driver.ask(max_bytes=1000)

    assert alone.failure["type"] == "RowTooLarge"
    assert (after.rows, after.complete, after.failure) == ([["a"]], False, None)
    assert not getattr(value, "was_read", False)


def test_large_objects_of_one_row_are_read_until_they_are_too_large_together(driver):
    row = [Large("x" * 600) for _ in range(3)]
    driver.gives(row)

    answer = driver.ask(max_bytes=1000)

    assert answer.failure["type"] == "RowTooLarge"
    assert [value.was_read for value in row] == [True, False, False]


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (Error("no role reader with hidden word at db.example.org"), "Error", "no role reader with *** at ***"),
        (Error("odd://reader:hidden%20word@h, token topsecret"), "Error", "odd://reader:***@h, token ***"),
        (Error(207, b"Invalid column name 'nam'.DB-Lib"), "Error", "Invalid column name 'nam'.DB-Lib"),
        (Error(), "Error", ""),
        (ValueError("year 0 is out of range"), "ValueError", "year 0 is out of range"),
        (KeyError(3), "KeyError", "3"),
        (Panic("topsecret"), "Panic", "***"),
        (Error("line 1" + "1" * 5000 + ", column 1"), "Error", "line 1" + "1" * 1994),
        (Worded({"code": 1}, "20240101_query_id"), "Worded", "line 1:8: Column 'nam' cannot be resolved"),
        (Error("no answer of 10.1.2.3, of second.example.org:99"), "Error", "no answer of ***, of ***:99"),
    ],
)
@pytest.mark.parametrize("when", ["error", "late error"])
def test_whatever_a_driver_raises_is_a_failure_in_its_words_and_without_secrets(driver, error, kind, message, when):
    driver.gives(["a"])
    driver.script[when] = error

    answer = driver.ask("SELECT id, nam FROM t")

    assert (answer.failure["type"], answer.failure["message"]) == (kind, message)
    assert answer.failure["line"] == (1 if "nam" in message else None)
    assert "sqlalche" not in str(answer.failure)
    assert ("commit",) not in driver.calls


def test_what_a_driver_raises_at_the_end_is_no_matter_and_in_no_log(driver, caplog):
    driver.gives(["a"])
    driver.script["closing error"] = Error("hidden word is gone from db.example.org")

    assert driver.ask().rows == [["a"]]
    assert soon(lambda: not threads())
    assert caplog.records == []


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ({"refusal": Error("cannot connect with hidden word")}, "it cannot be reached as configured"),
        ({"error": Error("no hidden word")}, "it refused statement 1 of `setup` (Error)"),
        ({"attributes": {"autocommit": True}}, "its driver commits each statement by itself"),
    ],
)
def test_a_password_stands_in_no_message_and_no_variable_of_a_traceback(driver, script, reason):
    driver.script |= script

    with pytest.raises(DatabaseUnavailable) as refused:
        driver.ask(setup=["SET ROLE reader IDENTIFIED BY topsecret"])

    assert str(refused.value).startswith(f"database 'shop': {reason}")
    assert (refused.value.__cause__, refused.value.__context__) == (None, None)
    ours = [each.frame for each in refused.traceback if each.path.parent == Path(alchemy.__file__).parent]
    assert ours
    told = [f"{frame.code.name} {name}={value!r}" for frame in ours for name, value in frame.f_locals.items()]
    assert [each for each in told if "hidden" in each or "topsecret" in each] == []


def test_an_address_with_a_plugin_is_not_asked(driver):
    database = Database(url=f"{URL}&plugin=other", allow_powerful=True)

    with pytest.raises(DatabaseUnavailable, match="its URL names a plugin"):
        asyncio.run(alchemy.ask("shop", database, "SELECT 1"))


def test_a_statement_without_rows_is_told(driver):
    assert driver.ask("SHOW x").failure["message"] == "the statement gives no rows"


@pytest.mark.parametrize(
    "attributes",
    [
        {"autocommit": True},
        {"autocommit": print, "get_autocommit": lambda: 1},
        {"autocommit": print, "autocommit_state": "true"},
    ],
)
def test_a_connection_that_commits_by_itself_is_not_asked(driver, attributes):
    driver.script["attributes"] = attributes

    with pytest.raises(DatabaseUnavailable, match="its driver commits each statement by itself"):
        driver.ask()


@pytest.mark.parametrize("place", ["attributes", "cursor attributes"])
@pytest.mark.parametrize("way", ["cancel", "cancel_safe", "interrupt"])
def test_what_ends_a_statement_is_found_where_the_driver_has_it(driver, place, way):
    ended = threading.Event()
    driver.script |= {"waits": ended, place: {way: ended.set}, "error": Error("cancelled")}

    answer = driver.ask(timeout_s=0.2)

    assert (answer.timed_out, answer.failure["message"]) == (True, "the query was stopped at 0.2 s")
    assert soon(lambda: not threads())


def test_a_driver_that_cannot_cancel_is_told_and_its_thread_rolls_back_when_it_comes_back(driver, monkeypatch):
    monkeypatch.setattr(alchemy_line, "_CANCEL_S", 0.3)
    over = threading.Event()
    driver.script["waits"] = over

    answer = driver.ask(timeout_s=0.2)
    calls = list(driver.calls)
    over.set()

    assert answer.failure["message"] == (
        "the query was left at 0.2 s, and may go on on the server: its driver did not end it"
    )
    assert calls == [("execute", "SELECT 1")]
    assert soon(lambda: not threads())
    assert set(driver.calls[1:]) == {("rollback",), ("close",)}


def test_a_cancel_that_blocks_or_fails_holds_up_nobody(driver, monkeypatch):
    monkeypatch.setattr(alchemy_line, "_CANCEL_S", 0.6)
    over = threading.Event()
    called = []

    def cancel():
        called.append(1)
        over.wait(10)
        raise Error("late")

    driver.script |= {"waits": over, "attributes": {"cancel": cancel}}

    assert driver.ask(timeout_s=0.2).timed_out
    over.set()
    assert soon(lambda: not threads())
    assert called == [1]


def test_rows_that_nobody_waits_for_are_not_fetched(driver):
    def endless(size):
        time.sleep(0.05)
        return [["a"]]

    driver.gives(["a"])
    driver.script["cursor attributes"] = {"fetchmany": endless}

    assert driver.ask(timeout_s=0.3).timed_out
    assert soon(lambda: not threads())


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 1 COMMIT DELETE FROM t",
        "SELECT 1\nROLLBACK DELETE FROM t",
        "SELECT 1 exec('x')",
        "SELECT 1COMMIT DELETE FROM t",
        "SELECT 1eROLLBACK DELETE FROM t",
        "SELECT 0xKill 55",
        "SELECT '\u00e9'COMMIT",
        "SELECT 1 WAITFOR DELAY '1:00'",
        "SELECT 1 SET IMPLICIT_TRANSACTIONS OFF DELETE FROM t",
        "SELECT 1 SET ANSI_DEFAULTS OFF DELETE FROM t",
        "SELECT 1 SET CHAINED OFF DELETE FROM t",
        "SELECT 'to commit'",
        "SELECT 1 /* truncate */",
    ],
)
def test_a_second_statement_with_nothing_before_it_is_refused(driver, query):
    answer = driver.ask(query)

    assert "may begin another statement here" in answer.failure["message"]
    assert driver.calls == []


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("-- \rINSERT INTO t --\nSELECT 1", "ends the line for some servers only"),
        ("-- a\r\n-- \u2028INSERT INTO t --\nSELECT 1", "ends the line for some servers only"),
        ("/*T! RENAME TABLE a TO b -- */ SELECT 1", "is one that some servers run"),
    ],
)
def test_a_comment_that_servers_read_in_different_ways_is_refused_before_the_first_word(driver, query, word):
    answer = driver.ask(query)

    assert word in answer.failure["message"]
    assert driver.calls == []


@pytest.mark.parametrize("query", ["-- a\r\nSELECT 1", "\r\fSELECT 1", "-- a\nSELECT '\r' -- \r", "/* a! */ SELECT 1"])
def test_a_comment_that_servers_read_in_one_way_is_asked(driver, query):
    driver.gives(["a"])

    assert driver.ask(query).rows == [["a"]]


def test_a_statement_chained_to_another_is_refused_where_the_server_chains(driver, monkeypatch):
    driver.gives(["a"])
    query = "SELECT '{}' ->> 'a'"
    monkeypatch.setitem(sqlalchemy.dialects.registry.impls, "snowflake", sqlalchemy.dialects.registry.impls["odd"])
    chaining = Database(url=URL.replace("odd", "snowflake"), allow_powerful=True)

    asked = driver.ask(query)
    driver.calls.clear()
    refused = asyncio.run(alchemy.ask("shop", chaining, "SELECT 1 ->> DROP TABLE t"))

    assert asked.rows == [["a"]]
    assert refused.failure["message"].startswith("->> begins another statement here")
    assert driver.calls == []


def test_a_statement_that_is_too_long_to_be_looked_through_is_refused(driver):
    driver.gives(["a"])
    most = "SELECT 1".ljust(1 << 20)

    assert driver.ask(most).rows == [["a"]]
    assert "more than 1 MiB" in driver.ask(f"{most} ").failure["message"]


@pytest.mark.parametrize(
    "query", ["SELECT committed, rollback_at FROM executions", "SELECT 1 AS xcommit, x1kill, commit_"]
)
def test_a_name_with_such_a_word_in_it_is_asked(driver, query):
    driver.gives(["a"])

    assert driver.ask(query).rows == [["a"]]


@pytest.mark.parametrize(
    ("message", "hint"),
    [
        ("Table unknown\n-ORDER_S\n-At line 1, column 15", "Did you mean `orders`?"),
        ("Invalid object name 'order_s'.", "Did you mean `orders`?"),
        ("SQL compilation error: Object 'ORDER_S' does not exist or not authorized.", "Did you mean `orders`?"),
        ('ORA-00942: table or view "SCOTT"."ORDER_S" does not exist', "Did you mean `orders`?"),
        ("Column unknown\n-O.AMOUN\n-At line 1, column 8", "Did you mean `amount of orders`?"),
        ("Invalid column name 'amoun'.", "Did you mean `amount of orders`?"),
        ("error line 1 at position 7 invalid identifier 'AMOUN'", "Did you mean `amount of orders`?"),
        ('ORA-00904: "O"."AMOUN": invalid identifier', "Did you mean `amount of orders`?"),
    ],
)
def test_the_words_of_other_servers_are_understood(message, hint):
    failure = failure_of("Error", message, sql="SELECT amoun FROM orders o", known={"orders": ["id", "amount"]})

    assert failure["hints"][0] == hint
