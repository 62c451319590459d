"""A small shop, in a SQLite file that is opened in a sandbox as any other."""

import contextlib
import sqlite3
from urllib.parse import unquote, urlsplit

import pytest

from groundbox.check.sql.files import FileDatabase
from groundbox.databases.database import Database

SCRIPT = """
CREATE TABLE customer (customer_id INTEGER PRIMARY KEY, name TEXT, city TEXT, age INTEGER, is_member TEXT);
CREATE TABLE product (product_id INTEGER PRIMARY KEY, title TEXT, brand TEXT, brand_country TEXT,
                      price REAL, stock TEXT);
CREATE TABLE town (town TEXT PRIMARY KEY, country TEXT, population INTEGER);
INSERT INTO town VALUES ('Paris', 'FR', 2100000), ('Lyon', 'FR', 520000), ('Rome', 'IT', 2800000),
                        ('Delft', 'NL', 104000), (' Oslo', 'NO', 700000);
CREATE TABLE orders (order_id INTEGER PRIMARY KEY, customer_id INTEGER REFERENCES customer (customer_id),
                     placed TEXT, total REAL, status TEXT);
CREATE TABLE item (order_id INTEGER REFERENCES orders (order_id), product_id INTEGER REFERENCES product (product_id),
                   amount INTEGER, colour TEXT, PRIMARY KEY (order_id, product_id));
CREATE TABLE review (customer_id INTEGER REFERENCES customer (customer_id), stars INTEGER, words TEXT);
INSERT INTO customer VALUES (1, 'Ada', 'Paris', 36, 'T'), (2, 'Grace', 'Rome', 45, 'F'), (3, 'Alan', 'Paris', 41, 'T'),
                            (4, 'Edsger', 'Delft', 45, 'F'), (5, 'Barbara', ' Oslo', 30, 'T'),
                            (6, 'Ada', 'Rome', 28, 'F');
INSERT INTO product VALUES (1, 'Blue Lamp', 'Lumen', 'DE', 20.0, '9'), (2, 'Red Chair', 'Sedes', 'IT', 55.5, '10'),
                           (3, 'Oak Table', 'Sedes', 'IT', 120.0, '100'), (4, 'Lamp', 'Lumen', 'DE', 12.0, '7');
INSERT INTO orders VALUES (101, 1, '2024-01-05', 75.5, 'open'), (102, 1, '2024-02-07', 20.0, 'paid'),
                          (103, 2, '2024-02-09', 120.0, 'paid'), (104, 3, '2024-03-01', 12.0, 'sent'),
                          (105, 3, '2024-03-02', 20.0, 'paid'), (106, NULL, '2024-03-09', 20.0, 'open');
INSERT INTO item VALUES (101, 1, 1, 'red'), (101, 2, 1, 'blue'), (102, 1, 1, 'red'), (103, 3, 1, 'blue'),
                        (104, 4, 1, 'green'), (105, 1, 1, 'blue'), (106, 1, 1, 'red');
INSERT INTO review VALUES (1, 5, 'good'), (1, 4, 'fine'), (2, 3, NULL), (3, 5, 'good');
"""


def made(path, script=SCRIPT):
    """The path, with the database of a script in it."""
    with sqlite3.connect(path) as connection:
        connection.executescript(script)
    connection.close()
    return path


@pytest.fixture(scope="session")
def shop_file(tmp_path_factory):
    return made(tmp_path_factory.mktemp("shop") / "shop.db")


@pytest.fixture(scope="session")
def shop(shop_file):
    pytest.importorskip("sqlglot", reason="sqlglot is not installed: the extra `check` of groundbox brings it")
    with FileDatabase(shop_file, "sqlite") as database:
        yield database


def statements(script, dialect):
    """Those of a script that is written for SQLite, in words that an engine knows."""
    if dialect != "sqlite":
        script = script.replace(" TEXT", " VARCHAR(40)").replace(" REAL", " DOUBLE PRECISION")
    if dialect == "mysql":
        script = script.replace('"', "`")
    return [each for each in script.split(";\n") if each.strip()]


@pytest.fixture(scope="session")
def database_of(request, tmp_path_factory):
    """Makes a database of a script in one engine; skips where that is not installed."""
    with contextlib.ExitStack() as opened:

        def make(dialect, script, name):
            if dialect in ("postgres", "mysql"):
                return _on_server(dialect, script, name, request)
            path = tmp_path_factory.mktemp(name) / f"{name}.{dialect}"
            _made(path, dialect, script)
            return opened.enter_context(FileDatabase(path, dialect))

        yield make


def _made(path, dialect, script):
    if dialect == "sqlite":
        connection = sqlite3.connect(path)
    else:
        duckdb = pytest.importorskip(
            "duckdb", reason="duckdb is not installed: the extra `data` of groundbox brings it"
        )
        connection = duckdb.connect(str(path))
    for statement in statements(script, dialect):
        connection.execute(statement)
    connection.commit()
    connection.close()


def _on_server(dialect, script, name, request):
    from groundbox.check.sql.opening import ServerDatabase

    server = request.getfixturevalue("postgres" if dialect == "postgres" else "mariadb")
    role = "reader" if dialect == "postgres" else f"{name}_reader"  # who has nothing to do with other tests
    server.execute(f"CREATE DATABASE {name}")
    for statement in statements(script, dialect):
        server.execute(statement, name)
    if dialect == "postgres":
        server.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader", name)
    else:
        password = unquote(urlsplit(server.url(role)).password)
        server.execute(f"CREATE USER {role}@localhost IDENTIFIED BY '{password}'")
        server.execute(f"GRANT SELECT ON {name}.* TO {role}@localhost")
    url = server.url(role).replace("/shop?", f"/{name}?")
    return ServerDatabase(Database(url=url, allow_powerful=True), dialect)
