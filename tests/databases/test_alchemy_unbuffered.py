"""A driver that has nothing to cancel by, and reads what is left of a result before anything else: PyMySQL."""

import asyncio
import threading
import time

import pytest

from groundbox.databases import alchemy
from groundbox.databases.database import Database

sqlalchemy = pytest.importorskip(
    "sqlalchemy", reason="SQLAlchemy is not installed: the extra `sqlalchemy` of groundbox brings it"
)

LONG = "SELECT seq, repeat('x', 1000) FROM seq_1_to_1000000000"


def soon(condition):
    deadline = time.monotonic() + 30
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def threads():
    return [each for each in threading.enumerate() if each.name == "groundbox-alchemy"]


def running(mariadb):
    return [row for row in mariadb.execute("SHOW PROCESSLIST") if row[1] == "reader"]


@pytest.fixture
def database(mariadb):
    sqlalchemy.dialects.registry.register("elsewhere_unbuffered", "sqlalchemy.dialects.mysql.pymysql", "dialect")
    url = mariadb.url("reader").replace("mysql://", "elsewhere_unbuffered://").replace("@/", "@localhost/")
    return Database(url=url, allow_powerful=True, max_rows=10, timeout_s=1)


def test_the_rest_of_a_result_is_not_read(database, mariadb):
    answers = [asyncio.run(alchemy.ask("shop", database, LONG)) for _ in range(5)]

    assert [(len(answer.rows), answer.complete) for answer in answers] == [(10, False)] * 5
    assert soon(lambda: not threads())
    assert soon(lambda: not running(mariadb))


def test_a_connection_that_waits_loses_its_socket(database, mariadb):
    answer = asyncio.run(alchemy.ask("shop", database, "SELECT sleep(60)"))

    assert answer.failure["message"] == (
        "the query was left at 1 s, and may go on on the server: its driver did not end it"
    )
    assert soon(lambda: not threads())
