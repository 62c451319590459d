"""Ways out by SQL alone: files of the host, extensions, the configuration, other databases, exhaustion.

The engines refuse on their own, and the wall holds besides: the last tests take the engine's refusals away from
within, as a Python cell can, and look whether anything of the host is reached then.
"""

import pytest

import groundbox as gb

DUCKDB_READS = (
    "SELECT * FROM read_text('{path}')",
    "SELECT * FROM read_blob('{path}')",
    "SELECT * FROM read_csv('{path}', header = false)",
    "SELECT * FROM '{path}'",
    "SELECT * FROM sniff_csv('{path}')",
    "SELECT * FROM glob('{folder}/*')",
    "SELECT * FROM read_text('../../../../../../../..{path}')",
    "ATTACH '{path}' AS x (READ_ONLY)",
    "COPY t FROM '{path}'",
    "IMPORT DATABASE '{folder}'",
    "SELECT * FROM parquet_metadata('{path}')",
    "SELECT * FROM read_text('file://{path}')",
    "CREATE VIEW v AS SELECT * FROM read_text('{path}'); SELECT * FROM v",
    "CREATE MACRO m(p) AS TABLE SELECT * FROM read_text(p); SELECT * FROM m('{path}')",
    "PREPARE p AS SELECT * FROM read_text('{path}'); EXECUTE p",
    "SELECT * FROM query('SELECT * FROM read_text(''{path}'')')",
    "SELECT * FROM '{folder}/book.xlsx'",
)
SQLITE_READS = (
    "ATTACH '{path}' AS x; SELECT * FROM x.sqlite_schema",
    "ATTACH 'file:{path}?mode=ro' AS x",
    "ATTACH '..' || '{path}' AS x",
    "SELECT readfile('{path}')",
    "SELECT * FROM '{path}'",
    "SELECT * FROM '{folder}/secret.csv'",
    "SELECT * FROM '../../../../..{folder}/secret.csv'",
    "SELECT load_extension('{path}')",
    "CREATE VIRTUAL TABLE temp.x USING csv(filename='{path}')",
    "CREATE VIRTUAL TABLE temp.x USING fsdir('{folder}')",
    "CREATE TABLE x(a); SELECT fts3_tokenizer('simple', x'4141414141414141')",
)


@pytest.fixture
def box():
    with gb.Sandbox() as opened:
        opened.run("CREATE TABLE t (line VARCHAR)", language="sql")
        yield opened


@pytest.mark.parametrize(
    ("dialect", "attempt"),
    [("duckdb", attempt) for attempt in DUCKDB_READS] + [("sqlite", attempt) for attempt in SQLITE_READS],
)
def test_no_file_of_the_host_is_read(box, planted, nonce, everything, dialect, attempt):
    source = attempt.format(path=planted, folder=planted.rpartition("/")[0])

    execution = box.run(source, language="sql", dialect=dialect)

    assert nonce.encode() not in everything(execution)
    assert execution.outcome is gb.Outcome.ERROR
    assert box.run("SELECT 1 AS a", language="sql", dialect=dialect).ok


@pytest.mark.parametrize(
    "attempt",
    [
        "COPY (SELECT 1) TO '/tmp/out.csv'",
        "COPY (SELECT 1) TO '../out.csv'",
        "COPY (SELECT 1 AS a) TO '/tmp/out.xlsx'",
        "COPY (SELECT 1 AS a) TO '../out.xlsx'",
        "ATTACH '/tmp/out.db' AS x",
        "EXPORT DATABASE '/tmp/out'",
        "SET enable_external_access = true",
        "SET allowed_directories = ['/']",
        "SET lock_configuration = false",
        "RESET lock_configuration",
        "PRAGMA memory_limit = '100GB'",
        "SET threads = 64",
        "SET temp_directory = '/tmp/spill'",
        "SET log_query_path = '/tmp/log'",
        "PRAGMA enable_profiling",
        "SET allow_unsigned_extensions = true",
        "SET extension_directories = ['/tmp']",
        "SET home_directory = '/tmp'",
        "INSTALL httpfs",
        "INSTALL httpfs FROM 'http://127.0.0.1/x'",
        "FORCE INSTALL sqlite",
        "LOAD httpfs",
        "LOAD '/tmp/x.duckdb_extension'",
        "SELECT * FROM 'http://127.0.0.1:1/x.csv'",
        "SELECT * FROM 's3://bucket/x.parquet'",
        "ATTACH 'host=127.0.0.1' AS pg (TYPE postgres)",
        "CREATE PERSISTENT SECRET s (TYPE s3, KEY_ID 'x')",
    ],
)
def test_duckdb_stays_as_it_was_configured(box, attempt):
    execution = box.run(attempt, language="sql")

    settings = box.run(
        "SELECT name, value FROM duckdb_settings() WHERE name IN "
        "('enable_external_access', 'lock_configuration', 'allow_unsigned_extensions', 'temp_directory')",
        language="sql",
    )
    names = "'/tmp/out.csv', '/tmp/out.xlsx', '/tmp/out.db', '/tmp/out', '../out.csv', '../out.xlsx', '/tmp/log'"
    outside = box.run(f"import os; [path for path in ({names}) if os.path.exists(path)]")
    assert execution.outcome is gb.Outcome.ERROR
    assert {row["name"]: row["value"] for row in settings.value["application/vnd.dataresource+json"]["data"]} == {
        "enable_external_access": "false",
        "lock_configuration": "true",
        "allow_unsigned_extensions": "false",
        "temp_directory": "",
    }
    assert outside.text == "[]"


@pytest.mark.parametrize(
    "attempt",
    [
        "ATTACH '/tmp/out.db' AS x",
        "VACUUM INTO '/tmp/out.db'",
        "VACUUM INTO '../out.db'",
        "SELECT writefile('/tmp/out.db', 'x')",
        "PRAGMA writable_schema = ON",
        "PRAGMA hard_heap_limit = 0",
        "PRAGMA trusted_schema = ON",
        "PRAGMA temp_store_directory = '/etc'",
        "PRAGMA journal_mode = OFF",
        "PRAGMA mmap_size = 100000000000",
        "SELECT * FROM pragma_hard_heap_limit(0)",
        "UPDATE sqlite_schema SET sql = 'x'",
        "INSERT INTO sqlite_schema VALUES ('table', 'x', 'x', 1, 'x')",
        ".shell id",
        "SELECT edit('x', 'sh')",
        "SELECT zeroblob(2000000000)",
    ],
)
def test_sqlite_refuses_what_reaches_out_or_changes_its_rules(box, attempt):
    execution = box.run(f"CREATE TABLE s (a); {attempt}", language="sql", dialect="sqlite")

    outside = box.run("import os; os.path.exists('/tmp/out.db') or os.path.exists('../out.db')")
    assert execution.outcome is gb.Outcome.ERROR
    assert outside.text == "False"


def test_a_link_in_the_workdir_leads_sqlite_nowhere_else(box):
    box.run("import os; os.symlink('/tmp', 'away')")

    execution = box.run("ATTACH 'away/out.db' AS x; CREATE TABLE x.t (a)", language="sql", dialect="sqlite")

    assert execution.outcome is gb.Outcome.ERROR
    assert box.run("os.path.exists('/tmp/out.db')").text == "False"


def test_a_file_that_tells_functions_to_run_is_not_trusted(box):
    """A view in a stranger's file may call functions; only harmless ones are run for it."""
    box.run(
        "import sqlite3; c = sqlite3.connect('evil.db'); c.execute('create table t(a)');"
        "c.execute(\"create view v as select load_extension('x') as a\"); c.commit(); c.close()"
    )

    execution = box.run("ATTACH 'evil.db' AS evil; SELECT * FROM evil.v", language="sql", dialect="sqlite")

    assert execution.outcome is gb.Outcome.ERROR


def test_with_the_engines_own_refusals_gone_the_wall_holds(box, planted, nonce, everything):
    """The control: the same engines, opened without any setting, read what is there, and the host's file is not."""
    box.files.write("seen.txt", nonce[:8])
    execution = box.run(
        "import duckdb, sqlite3\n"
        "con = duckdb.connect()\n"
        "print(con.execute(\"SELECT content FROM read_text('seen.txt')\").fetchall())\n"
        f"for path in ({planted!r}, '/etc/shadow'):\n"
        "    try: print(con.execute(f\"SELECT content FROM read_text('{path}')\").fetchall())\n"
        "    except Exception as error: print(type(error).__name__)\n"
        "try: con.execute('INSTALL httpfs')\n"
        "except Exception as error: print(type(error).__name__)\n"
    )

    assert f"[('{nonce[:8]}',)]" in execution.stdout
    assert nonce.encode() not in everything(execution)
    assert all(line in ("[]", "IOException") for line in execution.stdout.splitlines()[1:3])
    assert execution.stdout.splitlines()[-1] in ("IOException", "HTTPException")


@pytest.mark.parametrize(
    "bomb",
    [
        "SELECT repeat('x', 2000000000)",
        "SELECT list(a.range) FROM range(100000) a, range(100000) b",
        "CREATE TABLE x AS SELECT * FROM range(100000000000)",
        "SELECT count(*) FROM range(1000000000) a, range(1000000000) b WHERE a.range % 7 = b.range % 11",
        "COPY (SELECT * FROM range(100000000000)) TO 'full.csv'",
    ],
)
def test_a_bomb_ends_within_the_limits(bomb):
    with gb.Sandbox(limits=gb.Limits(wall_s=5, memory_bytes=256 * gb.MiB, disk_bytes=32 * gb.MiB)) as box:
        execution = box.run(bomb, language="sql")

        assert execution.outcome in (gb.Outcome.TIMEOUT, gb.Outcome.MEMORY, gb.Outcome.ERROR)
        assert execution.usage.wall_s < 10
        assert (execution.usage.peak_memory_bytes or 0) <= 256 * gb.MiB
        if execution.state != "kept":
            box.restart()
        assert box.run("SELECT 1 AS a", language="sql").ok
