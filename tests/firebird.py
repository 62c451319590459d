"""A Firebird server of the tests' own: made by isql-fb as an ordinary user, on a port of loopback."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

PASSWORD = "a word that must not leave the host"
SHOP = """
CREATE TABLE customers (id integer PRIMARY KEY, name varchar(40) NOT NULL);
CREATE TABLE orders (
    id integer PRIMARY KEY, customer_id integer REFERENCES customers, amount numeric(9,2), ordered date
);
CREATE TABLE log (line varchar(40));
CREATE SEQUENCE numbers;
COMMIT;
INSERT INTO customers VALUES (1, 'Ada');
INSERT INTO customers VALUES (2, 'Grace');
INSERT INTO orders VALUES (1, 1, 10.50, '2024-01-01');
INSERT INTO orders VALUES (2, 1, 4.25, '2024-01-02');
INSERT INTO orders VALUES (3, 2, NULL, NULL);
SET TERM ^ ;
CREATE PROCEDURE writes RETURNS (done integer) AS BEGIN INSERT INTO log VALUES ('called'); done = 1; SUSPEND; END^
SET TERM ; ^
COMMIT;
"""
CONFIGURATION = """
RemoteServicePort = {port}
RemoteBindAddress = 127.0.0.1
IpcName = {folder}/ipc
SecurityDatabase = {folder}/security.fdb
DatabaseAccess = Restrict {folder}
ServerMode = Super
AuthServer = Srp
UserManager = Srp
UdfAccess = None
ExternalFileAccess = None
"""


class Server(NamedTuple):
    """A running server."""

    folder: str
    port: int

    def url(self, role: str, password: str = PASSWORD) -> str:
        """Where `role` is let in."""
        address = f"127.0.0.1:{self.port}/{self.folder}/shop.fdb"
        return f"firebird+firebird://{role}:{quote(password)}@{address}?charset=UTF8"

    def execute(self, sql: str) -> list[tuple]:
        """Run as the server's administrator."""
        from firebird.driver import connect

        address = f"127.0.0.1/{self.port}:{self.folder}/shop.fdb"
        with connect(address, user="SYSDBA", password=PASSWORD) as connection:
            cursor = connection.cursor()
            cursor.execute(sql)
            rows = list(cursor.fetchall()) if cursor.description else []
            connection.commit()
            return rows


def programs() -> tuple[str, str, Path] | None:
    """The server, the program that makes its files, and the folder of its plugins."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
    found = shutil.which("firebird", path=path), shutil.which("isql-fb", path=path)
    plugins = sorted(Path("/usr/lib").glob("*/firebird/3.0/plugins"))
    return (*found, plugins[-1].parent) if all(found) and plugins else None


@contextlib.contextmanager
def running(programs: tuple[str, str, Path], role_script: str) -> Iterator[Server]:
    """A server with a database `shop` and the role of the documented script; gone afterwards."""
    serve, make, installed = programs
    user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
    who = {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    folder = tempfile.mkdtemp(prefix="gbfb-", dir="/var/tmp")
    server = Server(folder, _free_port())
    for name in ("intl", "plugins", "plugins.conf", "firebird.msg"):
        os.symlink(installed / name, f"{folder}/{name}")
    Path(f"{folder}/databases.conf").touch()
    Path(f"{folder}/firebird.conf").write_text(CONFIGURATION.format(port=server.port, folder=folder))
    Path(f"{folder}/make.sql").write_text(_script(folder, role_script))
    if user is not None:
        os.chown(folder, user.pw_uid, user.pw_gid)
    environment = {"FIREBIRD": folder, "FIREBIRD_LOCK": folder, "FIREBIRD_TMP": folder, "PATH": "/usr/bin:/bin"}
    quiet: dict[str, Any] = {
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
        "cwd": folder,
        "env": environment,
        **who,
    }
    subprocess.run([make, "-quiet", "-bail", "-input", f"{folder}/make.sql"], check=True, **quiet)
    process = subprocess.Popen([serve], **quiet)
    try:
        _wait_for(server, process)
        yield server
    finally:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:  # it waits for who is connected
            process.kill()
            process.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


def _script(folder: str, role_script: str) -> str:
    """What makes both databases; who made them and runs it is the administrator, without a password yet."""
    return (
        f"CREATE DATABASE '{folder}/security.fdb' USER 'SYSDBA';\nCOMMIT;\n"
        f"CREATE DATABASE '{folder}/shop.fdb' USER 'SYSDBA' DEFAULT CHARACTER SET UTF8;\n"
        f"CREATE USER sysdba PASSWORD '{PASSWORD}';\n{SHOP}{role_script}COMMIT;\n"
    )


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


def _wait_for(server: Server, process: subprocess.Popen) -> None:
    from firebird.driver import DatabaseError

    for _ in range(200):
        try:
            server.execute("SELECT 1 FROM rdb$database")
            return
        except DatabaseError:
            if process.poll() is not None:
                raise
            time.sleep(0.05)
    raise TimeoutError("Firebird does not answer")
