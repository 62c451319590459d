"""A PostgreSQL server of the tests' own: made by initdb as an ordinary user, on a socket in a folder of its own."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

PASSWORD = "a word that must not leave the host"
SHOP = """
CREATE TABLE customers (id integer PRIMARY KEY, name text NOT NULL);
CREATE TABLE orders (id integer PRIMARY KEY, customer_id integer REFERENCES customers, amount numeric(9,2), day date);
INSERT INTO customers VALUES (1, 'Ada'), (2, 'Grace');
INSERT INTO orders VALUES (1, 1, 10.50, '2024-01-01'), (2, 1, 4.25, '2024-01-02'), (3, 2, NULL, NULL);
"""


class Server(NamedTuple):
    """A running server."""

    folder: str

    def url(self, role: str, password: str = PASSWORD, database: str = "shop") -> str:
        """Where `role` is let in."""
        return f"postgresql://{role}:{password.replace(' ', '%20')}@/{database}?host={self.folder}"

    @property
    def own(self) -> str:
        """A database for groundbox's own tables (keys, catalogues), which roles that ask the shop must not find."""
        return self.url("admin", database="groundbox")

    def execute(self, sql: str, database: str = "shop") -> list[tuple]:
        """Run as superuser."""
        import psycopg

        with psycopg.connect(self.url("admin", database=database), autocommit=True) as connection:
            cursor = connection.execute(sql)
            return cursor.fetchall() if cursor.description else []


def programs() -> Path | None:
    """Where initdb and postgres are."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    return Path(on_path).parent if on_path else None


@contextlib.contextmanager
def running(bin_folder: Path, role_script: str) -> Iterator[Server]:
    """A server with a database `shop` and the role of the documented script; gone afterwards."""
    user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
    who = {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    folder = tempfile.mkdtemp(prefix="gbpg-", dir="/var/tmp")
    if user is not None:
        os.chown(folder, user.pw_uid, user.pw_gid)
    password_file = f"{folder}/password"
    Path(password_file).write_text(PASSWORD)
    os.chmod(password_file, 0o644)
    data = f"{folder}/data"
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "cwd": "/", **who}
    init = ["-U", "admin", "--auth=scram-sha-256", f"--pwfile={password_file}", "--no-sync", "-E", "UTF8"]
    subprocess.run([bin_folder / "initdb", "-D", data, *init], check=True, **quiet)
    options = ["-k", folder, "-c", "listen_addresses=", "-c", "fsync=off", "-c", "shared_buffers=16MB"]
    process = subprocess.Popen([bin_folder / "postgres", "-D", data, *options], stderr=subprocess.DEVNULL, **quiet)
    try:
        server = Server(folder)
        _wait_for(server)
        server.execute("CREATE DATABASE shop", "postgres")
        server.execute("CREATE DATABASE groundbox", "postgres")
        for statement in f"{SHOP};{role_script}".split(";\n"):
            if statement.strip():
                server.execute(statement)
        yield server
    finally:
        process.terminate()
        process.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for(server: Server) -> None:
    import time

    import psycopg

    for attempt in range(200):
        try:
            server.execute("SELECT 1", "postgres")
            return
        except psycopg.OperationalError:
            if attempt == 199:
                raise
            time.sleep(0.05)
