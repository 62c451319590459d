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


@pytest.fixture
def hidden(postgres):
    """Views of the administrator whose definitions call what a statement may not call by name."""
    calls = {
        "loosened": "set_config('statement_timeout', '0', false)",
        "enlarged": "set_config('work_mem', '1GB', false), pg_try_advisory_lock(7)",
        **{
            f"set_{name}_{number}": f"set_config('{name}', '{value}', false)"
            for name, values in CONFUSING.items()
            for number, value in enumerate(values)
        },
    }
    for name, call in calls.items():
        postgres.execute(f"CREATE VIEW {name} AS SELECT * FROM (SELECT {call}) AS x")
        postgres.execute(f"GRANT SELECT ON {name} TO reader")
    yield
    postgres.execute(f"DROP VIEW {', '.join(calls)}")


CONFUSING = {
    "client_encoding": ("SQL_ASCII", "SJIS", "LATIN1", "MULE_INTERNAL"),
    "client_min_messages": ("debug5",),
    "bytea_output": ("escape",),
    "datestyle": ("SQL, DMY", "German"),
    "intervalstyle": ("iso_8601",),
    "standard_conforming_strings": ("off",),
    "timezone": ("Asia/Kathmandu",),
    "extra_float_digits": ("-15",),
}
"""Settings that change how a server writes its answer."""


@pytest.mark.parametrize("view", [f"set_{name}_{n}" for name, values in CONFUSING.items() for n in range(len(values))])
def test_a_setting_that_changes_how_answers_are_written_harms_only_the_query(hidden, ask, view):
    values = "'é' AS t, '\\xdead5c00'::bytea AS b, day, now() AS n, day - now() AS i, 0.1::float8 AS f"

    execution = ask(f"SELECT s.*, {values} FROM {view} AS s, orders")
    failed = ask(f"SELECT s.*, 1 / (id - id) AS é FROM {view} AS s, orders")

    assert execution.ok or "Traceback" not in execution.error.traceback, execution.error
    assert failed.error.type in ("DivisionByZero", "FeatureNotSupported")
    assert "é" in ask("SELECT 'é' AS t").text


def test_limits_cannot_be_lifted_from_within(hidden, ask):
    execution = ask("SELECT *, pg_sleep(30) FROM loosened")

    assert execution.outcome is gb.Outcome.TIMEOUT
    assert execution.usage.wall_s < 10


def test_nothing_stays_for_the_next_query(hidden, ask, postgres):
    assert ask("SELECT * FROM enlarged").ok

    execution = ask("SELECT current_setting('work_mem') AS m")

    assert execution.value["application/vnd.dataresource+json"]["data"] == [{"m": "4MB"}]
    assert postgres.execute("SELECT pg_try_advisory_lock(7)") == [(True,)]


EFFECTS = [
    "SELECT pg_advisory_lock(1)",
    "SELECT count(pg_advisory_lock(i)) FROM generate_series(1, 10) i",
    'SELECT "pg_advisory_lock" (1)',
    "SELECT pg_catalog.pg_advisory_lock(1)",
    'SELECT "pg_catalog" /* a */ . -- b\n "pg_advisory_lock" /* c */ (1)',
    "SELECT PG_Advisory_Lock(1)",
    "SELECT (1::bigint).pg_advisory_lock",
    "SELECT g.pg_advisory_lock FROM generate_series(1::bigint, 3) AS g",
    "SELECT * FROM pg_advisory_lock(1)",
    "SELECT id FROM orders ORDER BY pg_advisory_lock(id)::text",
    "SELECT id FROM orders WHERE pg_try_advisory_lock(id)",
    'SELECT U&"pg_advisory\\005flock"(1)',
    "SELECT u&\"pg_advisory!005flock\" (1) UESCAPE '!'",
    "SELECT E'\\''\n'\\' AS a, pg_advisory_lock(1)::text, E'\\''\n'\\'",
    "SELECT $a$ ' $a$, pg_advisory_lock(1), ' '",
    "SELECT 1 /* /* */ ' */, pg_advisory_lock(1) -- '",
    "SELECT pg_advisory_xact_lock_shared(1)",
    "EXPLAIN ANALYZE SELECT pg_advisory_lock(1)",
    "VALUES (pg_advisory_lock(1))",
    "SELECT query_to_xml('SELECT pg_adv' || 'isory_lock(1)', true, true, '')",
    "SELECT * FROM ts_stat('SELECT pg_adv' || 'isory_lock(1)')",
    "SELECT pg_notify('a', 'b')",
    "SELECT pg_export_snapshot()",
    "SELECT pg_logical_emit_message(false, 'a', 'b')",
    "SELECT set_config('client_encoding', 'SQL_ASCII', false), 'é'",
    "SELECT pg_terminate_backend(1)",
    "SELECT pg_cancel_backend(1)",
    "SELECT own(1)",
    "SELECT own /**/ (1)",
    "SELECT (1).own",
    "SELECT g . /**/ own FROM generate_series(1, 3) AS g",
    "SELECT g.-- a\nown FROM generate_series(1, 3) AS g",
    "SELECT public.own(id) FROM orders",
    'SELECT "Own Name"()',
    "SELECT a_name_that_is_as_long_as_names_may_be_for_this_server_is_it_not_so(1)",
]


@pytest.fixture
def own(postgres):
    """Functions of the shop: some declared volatile, as all are unless their owner says otherwise."""
    cut = "a_name_that_is_as_long_as_names_may_be_for_this_server_is_it_not_so"
    names = ["own(integer)", '"Own Name"()', f"{cut}(integer)", "amount(integer)"]
    for name in names:
        postgres.execute(f"CREATE FUNCTION {name} RETURNS integer LANGUAGE sql AS 'SELECT pg_backend_pid()'")
    postgres.execute("CREATE FUNCTION declared(integer) RETURNS integer STABLE LANGUAGE sql AS 'SELECT 1'")
    yield
    postgres.execute(f"DROP FUNCTION {', '.join(names)}, declared(integer)")


@pytest.mark.parametrize("attempt", EFFECTS)
def test_a_function_that_can_do_more_than_read_is_refused(ask, own, attempt):
    execution = ask(attempt)

    assert execution.outcome is gb.Outcome.ERROR, execution.text
    assert execution.error.type == "ReadOnly", execution.error
    assert "Nothing was run" in execution.error.message


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT now(), random(), clock_timestamp(), gen_random_uuid(), pg_sleep(0), pg_relation_size('orders')",
        "SELECT count(*) FROM orders TABLESAMPLE system (100)",
        "SELECT declared(1), sum(amount), max(day) FROM orders GROUP BY id",
        "SELECT amount, amount + 1 AS own, id FROM orders WHERE amount > 1 ORDER BY own",
        "SELECT id -- (own)\nFROM orders",
        "SELECT * FROM pg_stat_activity, pg_locks",
    ],
)
def test_a_function_that_only_reads_is_called(ask, own, statement):
    execution = ask(statement)

    assert execution.ok, execution.error


def test_a_refused_function_of_the_shop_is_called_once_its_owner_declares_it(ask, own, postgres):
    refused = ask("SELECT own(1)").error

    remedy = refused.message.partition("its owner can say so: ")[2]
    postgres.execute(remedy)

    assert remedy == "ALTER FUNCTION public.own(integer) STABLE"
    assert ask("SELECT own(1)").ok


def test_the_override_runs_such_a_function_and_every_result_says_so(postgres):
    database = Database(url=postgres.url("reader"), allow_powerful=True)

    with gb.Sandbox(databases={"shop": database}) as box:
        execution = box.run("SELECT pg_advisory_lock(1)", language="sql", database="shop")

    assert execution.ok
    assert "can call pg_catalog.pg_advisory_lock(bigint), which is VOLATILE" in execution.warnings[0].message


def test_a_role_with_only_what_every_new_server_grants_is_accepted(postgres, strong):
    url = strong()
    postgres.execute("GRANT CREATE ON SCHEMA public TO PUBLIC")  # as every server did before version 15
    try:
        with gb.Sandbox(databases={"shop": Database(url=url)}) as box:
            execution = box.run("SELECT count(*) FROM orders", language="sql", database="shop")
            created = box.run("CREATE TABLE mine (a int)", language="sql", database="shop")
            stored = box.run("SELECT 1 INTO mine", language="sql", database="shop")
    finally:
        postgres.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")

    assert execution.ok
    assert (created.error.type, stored.error.type) == ("ReadOnly", "ReadOnlySqlTransaction")


def test_a_query_makes_no_write_of_others_fail(postgres, strong):
    """A role may have a stricter isolation, in which reads take locks of their own."""
    url = strong()
    postgres.execute("ALTER ROLE strong SET default_transaction_isolation = 'serializable'")

    with gb.Sandbox(databases={"shop": Database(url=url)}) as box:
        execution = box.run(
            "SELECT (SELECT count(*) FROM orders), count(*) AS n FROM pg_locks WHERE mode = 'SIReadLock'",
            language="sql",
            database="shop",
        )

    assert execution.value["application/vnd.dataresource+json"]["data"][0]["n"] == 0


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
