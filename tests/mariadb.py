"""A MariaDB server of the tests' own: made by mariadb-install-db as an ordinary user, on a socket in its own folder."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

PASSWORD = "a word that must not leave the host"
SHOP = """
CREATE DATABASE shop;
USE shop;
CREATE TABLE customers (id integer PRIMARY KEY, name varchar(40) NOT NULL);
CREATE TABLE orders (
    id integer PRIMARY KEY, customer_id integer, amount decimal(9,2), day date,
    FOREIGN KEY (customer_id) REFERENCES customers (id)
);
INSERT INTO customers VALUES (1, 'Ada'), (2, 'Grace');
INSERT INTO orders VALUES (1, 1, 10.50, '2024-01-01'), (2, 1, 4.25, '2024-01-02'), (3, 2, NULL, NULL);
CREATE TABLE log (line text) ENGINE=MyISAM;
CREATE SEQUENCE numbers;
CREATE FUNCTION writes() RETURNS integer MODIFIES SQL DATA BEGIN INSERT INTO log VALUES ('called'); RETURN 1; END;
CREATE PROCEDURE deletes() MODIFIES SQL DATA BEGIN DELETE FROM orders; END;
"""


class Server(NamedTuple):
    """A running server."""

    folder: str
    certificate: str | None = None

    def url(self, role: str, password: str = PASSWORD) -> str:
        """Where `role` is let in."""
        return f"mysql://{role}:{quote(password)}@/shop?unix_socket={self.folder}/socket"

    def execute(self, sql: str, database: str | None = "shop") -> list[tuple]:
        """Run as the server's administrator."""
        import pymysql

        with contextlib.closing(
            pymysql.connect(
                user="admin", password=PASSWORD, unix_socket=f"{self.folder}/socket", database=database, autocommit=True
            )
        ) as connection:
            cursor = connection.cursor()
            cursor.execute(sql)
            return list(cursor.fetchall())


def programs() -> tuple[str, str] | None:
    """The program that makes a server's files, and the server."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
    found = shutil.which("mariadb-install-db", path=path), shutil.which("mariadbd", path=path)
    return found if all(found) else None


@contextlib.contextmanager
def running(programs: tuple[str, str], role_script: str) -> Iterator[Server]:
    """A server with a database `shop` and the role of the documented script; gone afterwards."""
    install, serve = programs
    user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
    who = {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    folder = tempfile.mkdtemp(prefix="gbmy-", dir="/var/tmp")
    if user is not None:
        os.chown(folder, user.pw_uid, user.pw_gid)
    common = ["--no-defaults", f"--datadir={folder}/data"]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": "/", **who}
    subprocess.run([install, *common, "--auth-root-authentication-method=normal"], check=True, **quiet)
    options = [
        f"--socket={folder}/socket",
        f"--pid-file={folder}/pid",
        f"--tmpdir={folder}",
        "--skip-networking",
        "--innodb-buffer-pool-size=16M",
        "--innodb-flush-log-at-trx-commit=0",
        "--secure-file-priv=",
        "--local-infile=1",
    ]
    certificate = _certificate(folder, quiet)
    if certificate is not None:
        options += [f"--ssl-cert={certificate}", f"--ssl-key={folder}/key.pem"]
    process = subprocess.Popen([serve, *common, *options], **quiet)
    try:
        server = Server(folder, certificate)
        _set_up(server, process)
        for statement in f"{SHOP}{role_script}".replace("END;\n", "END\n;\n").split(";\n"):
            if statement.strip() and statement.strip() != "USE shop":
                server.execute(statement, None if statement.lstrip().startswith("CREATE DATABASE") else "shop")
        yield server
    finally:
        process.terminate()
        process.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


def _certificate(folder: str, quiet: dict) -> str | None:
    """Made for localhost, and signed by itself."""
    if shutil.which("openssl") is None:
        return None
    files = ["-keyout", f"{folder}/key.pem", "-out", f"{folder}/certificate.pem"]
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", "2"]
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *files, *subject], check=True, **quiet)
    return f"{folder}/certificate.pem"


def _set_up(server: Server, process: subprocess.Popen) -> None:
    """Wait until it answers, and make its administrator."""
    import pymysql

    for _ in range(600):
        try:
            connection = pymysql.connect(user="root", unix_socket=f"{server.folder}/socket")
            break
        except pymysql.OperationalError:
            if process.poll() is not None:
                raise
            time.sleep(0.05)
    else:
        raise TimeoutError("MariaDB does not answer")
    with contextlib.closing(connection):
        connection.cursor().execute(f"GRANT ALL ON *.* TO admin@localhost IDENTIFIED BY '{PASSWORD}' WITH GRANT OPTION")
