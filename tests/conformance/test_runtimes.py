"""Every language of ours against the public suite."""

from groundbox.testing.languages import Programs, RuntimeConformance


class TestShell(RuntimeConformance):
    language = "shell"
    programs = Programs(
        prints="echo hello",
        fails="true\nno-such-command",
        spins="while :; do :; done",
        heeds="sleep 600",
        ignores="trap '' INT TERM; while :; do :; done",
        hoards="x=xxxxxxxxxxxxxxxx; while :; do x=$x$x; done",
        floods="head -c 100000 /dev/zero | tr '\\0' x; echo",
        writes="echo hello > made.txt",
        reads="cat given.txt",
        leaves="setsid sleep 98761 & disown",
        script='echo "$1"; cat',
        exits="exit 3",
    )


class TestJavaScript(RuntimeConformance):
    language = "javascript"
    programs = Programs(
        prints="console.log('hello')",
        fails="1\nnull.x",
        spins="while (true) {}",
        heeds="await new Promise(resolve => setTimeout(resolve, 600000))",
        ignores="await 1; while (true) {}",
        hoards="const all = []; while (true) all.push(new Array(100000).fill(1.5))",
        floods="console.log('x'.repeat(100000))",
        writes="require('fs').writeFileSync('made.txt', 'hello\\n')",
        reads="console.log(require('fs').readFileSync('given.txt', 'utf8'))",
        leaves="require('child_process').spawn('sleep', ['98761'], { detached: true, stdio: 'ignore' }).unref()",
        script="process.stdout.write(process.argv[2] + '\\n' + require('fs').readFileSync(0))",
        exits="process.exit(3)",
        keeps="let kept = 42",
        recalls="kept",
    )


class TestJavaScriptScripts(RuntimeConformance):
    language = "javascript"
    default_mode = "script"
    programs = Programs(
        prints="console.log('hello')",
        fails="1\nnull.x",
        spins="while (true) {}",
        heeds="setTimeout(() => 0, 600000)",
        ignores="process.on('SIGINT', () => 0); while (true) {}",
        hoards="const all = []; while (true) all.push(new Array(100000).fill(1.5))",
        floods="console.log('x'.repeat(100000))",
        writes="require('fs').writeFileSync('made.txt', 'hello\\n')",
        reads="console.log(require('fs').readFileSync('given.txt', 'utf8'))",
    )


class TestDot(RuntimeConformance):
    """Graphs print nothing, make no file and read none but images; what is left is shown by tests/runtimes."""

    language = "dot"
    programs = Programs(fails="digraph {\na -> -> b }")


class _Sql(RuntimeConformance):
    """What SQL says is a table, here of one value; it prints nothing and starts no process."""

    language = "sql"

    def said(self, execution):
        assert execution.stdout == ""
        ((value,),) = (row.values() for row in execution.value["application/vnd.dataresource+json"]["data"])
        return f"{value}\n"


class TestDuckDB(_Sql):
    programs = Programs(
        prints="SELECT 'hello'",
        fails="SELECT 1;\nSELECT nope",
        spins="SELECT sum(a.range * b.range % 7) FROM range(10000000) a, range(10000000) b",
        heeds="SELECT sum(a.range * b.range % 7) FROM range(10000000) a, range(10000000) b",
        ignores="SELECT levenshtein(repeat('a', 200000), repeat('b', 200000))",
        hoards="CREATE TABLE x AS SELECT * FROM range(100000000000)",
        writes="COPY (SELECT 'hello') TO 'made.txt' (FORMAT csv, HEADER false)",
        reads="SELECT content FROM read_text('given.txt')",
        keeps="CREATE TABLE kept AS SELECT 42 AS a",
        recalls="FROM kept",
    )


class TestSQLite(_Sql):
    options = {"dialect": "sqlite"}
    programs = Programs(
        prints="SELECT 'hello'",
        fails="SELECT 1;\nSELECT nope",
        spins="WITH RECURSIVE r(a) AS (SELECT 1 UNION ALL SELECT a FROM r) SELECT count(*) FROM r",
        heeds="WITH RECURSIVE r(a) AS (SELECT 1 UNION ALL SELECT a FROM r) SELECT count(*) FROM r",
        ignores="WITH RECURSIVE r(a) AS (SELECT 1 UNION ALL SELECT a FROM r) SELECT count(*) FROM r",
        hoards="CREATE TABLE all_of_it AS WITH RECURSIVE r(a) AS (SELECT 1 UNION ALL SELECT a FROM r) "
        "SELECT randomblob(100000) AS b FROM r",
        keeps="CREATE TABLE kept AS SELECT 42 AS a",
        recalls="SELECT * FROM kept",
    )
