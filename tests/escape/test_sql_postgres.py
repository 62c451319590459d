"""What a hostile query may try against a real PostgreSQL: writing, files, programs, its own limits, other sessions.

Each attack runs as the role that docs/sql.md sets up. Those that only the role holds off are shown to work as a
superuser, who is refused unless the host insists.
"""

import pytest

import groundbox as gb
from groundbox.databases.answer import RoleTooPowerful
from groundbox.databases.database import Database


@pytest.fixture
def ask(postgres):
    with gb.Sandbox(databases={"shop": Database(url=postgres.url("reader"), timeout_s=3)}) as box:
        yield lambda source, **options: box.run(source, language="sql", database="shop", **options)


def state(postgres):
    """What an attack would change."""
    return postgres.execute(
        "SELECT (SELECT count(*) FROM orders), (SELECT sum(id) FROM orders), (SELECT count(*) FROM pg_class "
        "WHERE relnamespace = 'public'::regnamespace), (SELECT count(*) FROM pg_roles), "
        "(SELECT count(*) FROM pg_largeobject_metadata), (SELECT count(*) FROM pg_db_role_setting)"
    )


@pytest.mark.parametrize(
    "attempt",
    [
        "DROP TABLE orders",
        "SELECT 1; DROP TABLE orders",
        "SELECT 1; COMMIT; SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE; DELETE FROM orders",
        "COMMIT; DELETE FROM orders",
        "COMMIT",
        "SET TRANSACTION READ WRITE",
        "SET SESSION AUTHORIZATION admin",
        "SET ROLE admin",
        "WITH x AS (DELETE FROM orders RETURNING *) SELECT * FROM x",
        "SELECT * INTO stolen FROM orders",
        "EXPLAIN ANALYZE DELETE FROM orders",
        "EXPLAIN ANALYZE CREATE TABLE stolen AS SELECT 1",
        "/* SELECT */ DELETE FROM orders",
        "-- SELECT\nDELETE FROM orders",
        "TRUNCATE orders",
        "CREATE TEMP TABLE x (a int)",
        "DO $$ BEGIN COMMIT; DELETE FROM orders; END $$",
        "CALL pg_catalog.now()",
        "COPY orders TO PROGRAM 'id'",
        "COPY orders TO '/tmp/stolen'",
        "COPY (SELECT 1) TO STDOUT",
        "SELECT pg_read_file('/etc/passwd')",
        "SELECT pg_read_binary_file('postgresql.conf')",
        "SELECT pg_ls_dir('/')",
        "SELECT lo_import('/etc/passwd')",
        "SELECT lo_export(1, '/tmp/stolen')",
        "SELECT lo_from_bytea(0, 'x')",
        "SELECT lo_create(0)",
        "ALTER SYSTEM SET shared_preload_libraries = 'x'",
        "ALTER ROLE reader SUPERUSER",
        "SELECT pg_reload_conf()",
        "CREATE EXTENSION dblink",
        "CREATE FUNCTION f() RETURNS int LANGUAGE c AS '/tmp/x.so', 'f'",
        "LOAD '/tmp/x.so'",
        "SELECT rolpassword FROM pg_authid",
        "SELECT passwd FROM pg_shadow",
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity",
        "SELECT pg_cancel_backend(pid) FROM pg_stat_activity",
        "SELECT query_to_xml('DELETE FROM orders RETURNING 1', true, true, '')",
        "SELECT set_config('transaction_read_only', 'off', false)",
        "SELECT set_config('role', 'admin', false)",
        "SELECT set_config('session_authorization', 'admin', false)",
        "LISTEN x",
        "PREPARE p AS DELETE FROM orders",
        "LOCK TABLE orders",
        "SELECT * FROM orders FOR UPDATE",
    ],
)
def test_nothing_is_written_or_reached(ask, postgres, attempt):
    before = state(postgres)

    execution = ask(attempt)

    assert execution.outcome is gb.Outcome.ERROR, execution.text
    assert state(postgres) == before
    assert ask("SELECT count(*) AS n FROM orders").ok


def test_limits_cannot_be_lifted_from_within(ask):
    execution = ask("SELECT set_config('statement_timeout', '0', false), pg_sleep(30)")

    assert execution.outcome is gb.Outcome.TIMEOUT
    assert execution.usage.wall_s < 10


def test_nothing_stays_for_the_next_query(ask):
    ask("SELECT set_config('work_mem', '1GB', false), pg_advisory_lock(7)")

    execution = ask("SELECT current_setting('work_mem') AS m, pg_try_advisory_lock(7) AS free")

    assert execution.value["application/vnd.dataresource+json"]["data"] == [{"m": "4MB", "free": True}]


def test_credentials_are_nowhere_inside(postgres, everything):
    url = postgres.url("reader")
    with gb.Sandbox(databases={"shop": Database(url=url)}) as box:
        results = [
            box.run("SELECT current_user, nothing", language="sql", database="shop"),
            box.run("SELECT current_setting('password')", language="sql", database="shop"),
            box.run("import os, sys; print(dict(os.environ), open('/proc/self/cmdline').read(), os.listdir('/'))"),
            box.run(
                "import re\n"
                "found = []\n"
                "for line in open('/proc/self/maps'):\n"
                "    start, end = (int(x, 16) for x in line.split()[0].split('-'))\n"
                "    if 'r' in line.split()[1] and '[v' not in line:\n"
                "        try:\n"
                "            with open('/proc/self/mem', 'rb') as memory:\n"
                "                memory.seek(start)\n"
                "                found.append(bool(re.search(rb'must not l[e]ave', memory.read(end - start))))\n"
                "        except OSError: pass\n"
                "print(len(found) > 10, sum(found))"
            ),
        ]

    assert all(postgres.folder.encode() not in everything(result) for result in results)
    assert all(b"must not leave" not in everything(result) for result in results)
    assert results[3].stdout == "True 0\n"


POWERS = [
    ("SUPERUSER", "is a superuser"),
    ("CREATEROLE", "may create roles"),
    ("CREATEDB", "may create databases"),
    ("REPLICATION", "may replicate"),
    ("BYPASSRLS", "passes by row security"),
    ("IN ROLE pg_read_server_files", "is a member of pg_read_server_files"),
    ("IN ROLE pg_write_server_files", "is a member of pg_write_server_files"),
    ("IN ROLE pg_execute_server_program", "is a member of pg_execute_server_program"),
    ("IN ROLE pg_signal_backend", "is a member of pg_signal_backend"),
    ("IN ROLE pg_write_all_data", "may write public.orders"),
    ("IN ROLE admin", "is a member of admin"),
]
GRANTS = [
    ("GRANT UPDATE ON orders TO strong", "may write public.orders"),
    ("GRANT INSERT (id) ON orders TO strong", "may write public.orders"),
    ("GRANT CREATE ON SCHEMA public TO strong", "may create in schema public"),
    ("GRANT CREATE ON DATABASE shop TO strong", "may create schemas"),
    ("GRANT EXECUTE ON FUNCTION pg_read_file(text) TO strong", "may call pg_read_file"),
    ("GRANT EXECUTE ON FUNCTION lo_export(oid, text) TO strong", "may call lo_export"),
    (
        "GRANT EXECUTE ON FUNCTION pg_logical_emit_message(boolean, text, text) TO strong",
        "may call pg_logical_emit_message",
    ),
    (
        "CREATE FUNCTION public.of_a_superuser() RETURNS text SECURITY DEFINER LANGUAGE sql "
        "AS 'SELECT pg_read_file(''x'')'",
        "may call public.of_a_superuser, which runs as a superuser",
    ),
    ("CREATE TABLE public.mine (a int); ALTER TABLE public.mine OWNER TO strong", "owns public.mine"),
]


@pytest.fixture
def strong(postgres):
    """Makes a role that may more; it and what it owns is gone afterwards."""

    def make(attributes="", grant=""):
        postgres.execute(f"CREATE ROLE strong LOGIN PASSWORD '{_password(postgres)}' {attributes}")
        postgres.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO strong")
        for statement in filter(None, grant.split("; ")):
            postgres.execute(statement)
        return postgres.url("strong")

    yield make
    postgres.execute("DROP FUNCTION IF EXISTS public.of_a_superuser()")
    postgres.execute("DROP OWNED BY strong")
    postgres.execute("DROP ROLE strong")


def _password(postgres):
    return postgres.url("x").partition("//x:")[2].partition("@")[0].replace("%20", " ")


@pytest.mark.parametrize(("attributes", "power"), POWERS)
def test_a_role_that_is_too_powerful_is_refused_by_name(strong, attributes, power):
    _is_refused(strong(attributes), power)


@pytest.mark.parametrize(("grant", "power"), GRANTS)
def test_a_grant_that_is_too_powerful_is_refused_by_name(strong, grant, power):
    _is_refused(strong(grant=grant), power)


def _is_refused(url, power):
    with gb.Sandbox(databases={"shop": Database(url=url)}) as box:
        with pytest.raises(RoleTooPowerful) as refused:
            box.run("SELECT 1", language="sql", database="shop")
        assert power in refused.value.powers
        assert box.run("1 + 1").text == "2"


def test_the_override_says_so_in_every_result_and_still_writes_nothing(strong, postgres):
    """The control for attacks that only the role holds off: a superuser reads the server's files."""
    database = Database(url=strong("SUPERUSER"), allow_powerful=True, timeout_s=2, max_bytes=100_000)
    before = state(postgres)

    with gb.Sandbox(databases={"shop": database}) as box:
        read = box.run("SELECT pg_read_file('PG_VERSION') AS v", language="sql", database="shop")
        written = box.run("SELECT lo_from_bytea(0, 'x')", language="sql", database="shop")
        deleted = box.run("WITH x AS (DELETE FROM orders RETURNING 1) TABLE x", language="sql", database="shop")
        late = box.run("SELECT pg_sleep(60)", language="sql", database="shop")
        wide = box.run("SELECT repeat('x', 1000000)", language="sql", database="shop")
        card = box.run("DESCRIBE ALL", language="sql", database="shop")

    assert read.ok
    assert (late.outcome, wide.error.type) == (gb.Outcome.TIMEOUT, "RowTooLarge")
    for execution in (read, written, deleted, late, wide, card):
        assert [warning.code for warning in execution.warnings] == ["sql.powerful_role"]
        assert execution.warnings[0].tier == "error"
        assert "is a superuser" in execution.warnings[0].message
    assert deleted.error.type == "ReadOnlySqlTransaction"
    assert state(postgres) == before
