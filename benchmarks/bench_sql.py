"""SQL over a CSV file of 1,000,000 rows in the workdir, and small queries after it, against DuckDB called directly.

python benchmarks/bench_sql.py [RUNS]

DuckDB directly: the environment's own interpreter outside of any wall, a connection that stays open, as many threads as
in the sandbox, the result as a DataFrame, timed by that process itself. Ours is timed from `run` to the whole result.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from measure import interleaved, machine, table

import groundbox as gb
from groundbox.sandbox import environments

ROWS = 1_000_000
BLOCK = 10
LIMITS = gb.Limits(memory_bytes=1024 * gb.MiB, wall_s=120, cpu_s=120)
FILE_QUERY = "SELECT region, count(*) AS n, sum(revenue) AS total FROM 'sales.csv' GROUP BY region ORDER BY region"
SMALL = {
    "SELECT 42": "SELECT 42 AS answer",
    "group by over a table": FILE_QUERY.replace("'sales.csv'", "sales"),
    "100 rows": "SELECT * FROM sales LIMIT 100",
}
PEER = """
import json, sys, time
import pandas, duckdb
con = duckdb.connect(config={"threads": sys.argv[1], "memory_limit": sys.argv[2]})
for line in sys.stdin:
    sql = json.loads(line)
    begun = time.perf_counter()
    con.execute(sql).df()
    print(time.perf_counter() - begun, flush=True)
"""


def sales() -> str:
    """A million sales, the same in every run of this program."""
    chance = random.Random(7)
    regions = ["north", "south", "east", "west", "centre"]
    lines = (
        f"{n},{regions[chance.randrange(5)]},{chance.random() * 1000:.2f},2024-{1 + n % 12:02}-{1 + n % 28:02}"
        for n in range(ROWS)
    )
    return "id,region,revenue,day\n" + "\n".join(lines) + "\n"


@contextlib.contextmanager
def directly(folder: str, threads: int) -> Iterator[Callable[[str], float]]:
    """DuckDB in a process of its own: a query to the seconds that it took there."""
    memory = f"{int((LIMITS.memory_bytes or 0) * 0.6)}B"
    command = [str(environments.get().python), "-c", PEER, str(threads), memory]
    with subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        pipes = process.stdin, process.stdout

        def ask(sql: str) -> float:
            print(json.dumps(sql), file=pipes[0], flush=True)
            return float(pipes[1].readline())

        yield ask
        pipes[0].close()


async def timed(box: gb.AsyncSandbox, sql: str) -> float:
    """Seconds inside an event loop."""
    begun = asyncio.get_running_loop().time()
    execution = await box.run(sql, language="sql")
    taken = asyncio.get_running_loop().time() - begun
    assert execution.ok, execution.error
    return taken


def main() -> None:
    """A table for the file, then one for each small query with the difference of medians."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    machine()
    text = sales()
    loop = asyncio.new_event_loop()
    box = gb.AsyncSandbox(limits=LIMITS)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:  # a tmpfs, as the workdir is
        Path(folder, "sales.csv").write_text(text)
        loop.run_until_complete(box.files.write("sales.csv", text))
        setting = loop.run_until_complete(box.run("SELECT current_setting('threads') AS n", language="sql"))
        assert setting.value is not None
        threads = setting.value["application/vnd.dataresource+json"]["data"][0]["n"]
        with directly(folder, threads) as ask:
            print(f"{len(text) / 1e6:.0f} MB, {threads} threads")
            compare("1,000,000-row CSV", FILE_QUERY, runs, loop, box, ask)
            table_of_it = "CREATE TABLE sales AS SELECT * FROM 'sales.csv'"
            loop.run_until_complete(timed(box, table_of_it))
            ask(table_of_it)
            for title, sql in SMALL.items():
                compare(title, sql, runs * 4, loop, box, ask)
    loop.run_until_complete(box.close())
    loop.run_until_complete(loop.shutdown_asyncgens())


def compare(
    title: str,
    sql: str,
    runs: int,
    loop: asyncio.AbstractEventLoop,
    box: gb.AsyncSandbox,
    ask: Callable[[str], float],
) -> None:
    """One table, and what ours costs on top."""
    taken = interleaved(
        {"groundbox": lambda: loop.run_until_complete(timed(box, sql)), "DuckDB directly": lambda: ask(sql)}, runs
    )
    table(title, taken, "groundbox")
    tell("with pauses", *taken.values())
    if sql != FILE_QUERY:
        blocks = [
            (loop.run_until_complete(one_after_another(box, sql)), [ask(sql) for _ in range(BLOCK)])
            for _ in range(runs // 2)  # blocks differ more than the queries in one
        ]
        tell(f"{BLOCK} at once", *(list(itertools.chain(*side)) for side in zip(*blocks, strict=True)))


async def one_after_another(box: gb.AsyncSandbox, sql: str) -> list[float]:
    """As a session that is busy sees it, with warm caches."""
    return [await timed(box, sql) for _ in range(BLOCK)]


def tell(how: str, ours: Sequence[float], theirs: Sequence[float]) -> None:
    """The ratio and the difference of the medians."""
    mine, its = statistics.median(ours), statistics.median(theirs)
    print(
        f"{how}: {mine * 1e3:.2f} and {its * 1e3:.2f} ms, ratio {mine / its:.2f}, {(mine - its) * 1e3:.2f} ms over it"
    )


if __name__ == "__main__":
    main()
