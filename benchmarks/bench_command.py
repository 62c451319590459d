"""`groundbox run` from shell to shell, with the engine in the background warm, beside bubblewrap + python.

    python benchmarks/bench_command.py [RUNS]

Three programs: a print, a group-by of pandas, and a question to a small CSV in SQL (for bubblewrap, asked by duckdb
from Python). Then what the command imports, by the interpreter's own clock.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from measure import interleaved, machine, table
from peers import PANDAS, PRINT, peers

SQL = "SELECT region, sum(revenue) AS revenue FROM 'sales.csv' GROUP BY region ORDER BY region"
DUCKDB = f'import duckdb\nprint(duckdb.sql("""{SQL}"""))'
CSV = "region,revenue\n" + "".join(f"r{number % 5},{number}\n" for number in range(200))


def main() -> None:
    """Print a table for each program."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    machine()
    with tempfile.TemporaryDirectory() as folder, peers() as others:
        data = Path(folder) / "sales.csv"
        data.write_text(CSV)
        command = [sys.executable, "-m", "groundbox", "run"]
        environ = {name: value for name, value in os.environ.items() if name != "GROUNDBOX_ENGINE"}

        def ours(*arguments: str) -> None:
            subprocess.run([*command, *arguments], check=True, capture_output=True, env=environ)

        def bubblewrap(program: str) -> None:
            others["bubblewrap" if "bubblewrap" in others else "python -I"](program)

        at_csv = DUCKDB.replace("sales.csv", str(data))
        programs = {
            "print(1)": (["-c", PRINT], PRINT),
            "group-by of pandas": (["-c", PANDAS], PANDAS),
            "SQL on a small CSV": (["--language", "sql", "-c", SQL, "--file", str(data)], at_csv),
        }
        for title, (arguments, program) in programs.items():
            tasks = {"groundbox run": lambda arguments=arguments: ours(*arguments)}
            if not (title.startswith("SQL") and "bubblewrap" in others):  # its folder is closed to that
                tasks["bubblewrap + python"] = lambda program=program: bubblewrap(program)
            table(title, interleaved(tasks, runs), "groundbox run")
    print(f"\nimports of a call: {imports_ms():.0f} ms more than an empty program, least of five")


def imports_ms() -> float:
    """Milliseconds that the modules of a call take to import, by `-X importtime`."""
    least = []
    for _ in range(5):
        told = subprocess.run(
            [
                sys.executable,
                "-X",
                "importtime",
                "-c",
                "import groundbox.cli.entry, groundbox.remote.place, marshal, _signal, _socket",
            ],
            check=True,
            capture_output=True,
            text=True,
        ).stderr
        lines = re.findall(r"import time:\s+(\d+) \|\s+\d+ \| (\s*)(\S+)", told)
        after = [int(micro) for micro, _, name in lines]
        begun = next(number for number, (_, _, name) in enumerate(lines) if name == "site") + 1
        least.append(sum(after[begun:]) / 1000)
    return min(least)


if __name__ == "__main__":
    main()
