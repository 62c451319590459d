"""Writes down what the checks and a dataset build say today, so that a refactoring can be compared with its beginning.

    python scripts/dump_checks.py OUT [sql python answers dataset]

OUT gets one sorted text file for each part; `diff -r` of two such folders tells what a change changed. Recorded data is
taken from the folder that GROUNDBOX_DATA names, as far as it is there; what the repository ships is always looked at.
Nothing in the files depends on the clock, the number of processors or the order in which programs end.
"""

from __future__ import annotations

import argparse
import ast
import gzip
import hashlib
import importlib.util
import json
import os
import sqlite3
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import groundbox as gb
from groundbox.check import check_answer, check_python, check_sql
from groundbox.check.sql.files import FileDatabase

ROOT = Path(__file__).parents[1]
DATA = Path(os.environ.get("GROUNDBOX_DATA", "")) if os.environ.get("GROUNDBOX_DATA") else None
WALL_S = 600.0
"""Of one SQL check: more than any takes, so that the number of queries alone bounds it."""
DATASET_PROBLEMS = 40
DATASET_CASES = 3
AT_ONCE = 2

SHOP = """
CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT, city TEXT, age INTEGER);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER REFERENCES customer(id), total REAL, day TEXT);
INSERT INTO customer VALUES (1,'Ann','Paris',31),(2,'Bob','Rome',28),(3,'Eve','Paris',45),(4,'Joe',' Oslo ',45);
INSERT INTO orders VALUES (1,1,20.5,'2024-01-03'),(2,1,3,'2024-02-01'),(3,2,99.9,'2024-02-02'),(4,3,99.9,'2023-12-31');
"""
SHOP_QUERIES = (
    ("SELECT name FROM customer WHERE city = 'paris'", "Who lives in Paris?"),
    ("SELECT name FROM customer WHERE city = 'Oslo'", "Who lives in Oslo?"),
    ("SELECT name FROM customer WHERE age > 99", None),
    ("SELECT name FROM customer JOIN orders ON customer.id = orders.id", "Names of customers with an order"),
    ("SELECT city, COUNT(*) FROM customer LEFT JOIN orders ON customer.id = customer_id GROUP BY city", None),
    ("SELECT c.name, SUM(o.total) FROM customer c, orders o WHERE c.id = o.customer_id GROUP BY c.id", "Total of each"),
    ("SELECT DISTINCT age FROM customer", "List the ages of all customers"),
    ("SELECT name FROM customer ORDER BY age DESC LIMIT 1", "Who is the oldest customer?"),
    ("SELECT name FROM customer ORDER BY age LIMIT 1", "Who are the two oldest customers?"),
    ("SELECT name FROM customer WHERE age > 30", "Customers older than twenty-five"),
    ("SELECT name FROM customer WHERE age >= 45", "How many customers are at least forty five?"),
    ("SELECT name FROM customer WHERE name LIKE '%o%'", "Customers with an o in their name"),
    ("SELECT COUNT(*) FROM orders WHERE day > '2024'", "How many orders since 2024?"),
    ("SELECT COUNT(*) FROM orders WHERE total = 99.9", "How many orders are over one hundred?"),
    ("SELECT name FROM customer WHERE id IN (SELECT customer_id FROM orders WHERE total < 5)", "Who spent 3?"),
    ("SELECT name FROM customer WHERE city = 'Paris' AND city = 'Rome'", "Who lives in Paris or Rome?"),
    ("SELECT AVG(age) FROM customer", "What is the average and the maximum age?"),
    ("SELECT 3 / 2", None),
    ("SELECT FROM WHERE ((", None),
    ("DELETE FROM customer", None),
)

SHOWN = """\
   region  units  revenue
0   North    120  4807.5
1   South     95  3120.25
2    East    210  8650.0
total revenue: 16577.75
rows: 3 from 2024-03-01 to 2024-03-31, updated 5 Mar 2024 at 14:05
share of East: 52.18%
"""
ANSWERS = (
    "The total revenue is 16,577.75, and the East has 52.18% of it.",
    "Revenue came to about $16.6 thousand; 16.577,75 € in European writing.",
    "Three regions sold 425 units: one hundred and twenty, ninety-five and two hundred ten.",
    "East sold more than twice as many units as South (2.2 times).",
    "The North's revenue is 4,807.50; South's is 3120; East's 8.65k. That is 1.2 million in all.",
    "Units fell by 21 % from 120 to 95, or by a fifth; the third region has 210.",
    "The first region is North, the 2nd South, the third East. Ranked second is South.",
    "Data runs from March 1, 2024 to 31 March 2024 (Q1 2024), updated on 5/3/2024 at 14:05.",
    "Updated on 2024-03-05; April 2024 and Q2 2024 are not in it; May 7 is not either.",
    "On 1 March there were a dozen rows, half of them old; two thirds were new; ¾ are blank.",
    "Twenty-five, twenty five, one two, a hundred, two hundred and forty, three million, nineteen ninety-nine.",
    "1.234 and 1,234 and 1'234 and 12,34,567 and 1 234 and 3.2e4 and 5×10^3 and 1.2.3 and -7 and (120) and <5.",
    "The mean is 141.67, the median 120; nearly 200, over 80, at least 95, up to 210 and ~430 units.",
    'Region "North" has `units` 120; see report.csv and "West". In Python 3.12 the answer is `df.sum()`.',
    "| region | units |\n|---|---|\n| North | 120 |\n| West | 77 |\n\n1. North leads.\n2. West follows with 77.",
    "Step 3 of 4: zero errors, none missing, no 13th row, once, twice, thrice, a couple, several, single.",
    "Anna Smith, O'Brien and 'Mr Jones' sold 95 units in New York between 9 and 17 o'clock.",
    "Im Norden 120 Stück, insgesamt 16.577,75 EUR, 52,18 %.",
    "Eleven of twelve; fourth quarter of 2024; 1st quarter of 2024; FY24; the 1990s; 80/20; 45/95.",
    "Seven hundred thousand, five billion, one trillion; minus three; forty-two percent; zero point five.",
)
ASKED = "What did each region sell in 2024, and who are the top three?"


def main() -> None:
    """Write the parts that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parts: dict[str, Callable[[Path], Iterator[str]]] = {
        "sql": sql, "python": python, "answers": answers, "dataset": dataset,
    }  # fmt: skip
    parser.add_argument("parts", nargs="*", choices=[[], *parts], metavar="PART", help=", ".join(parts))
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    for name in asked.parts or parts:
        lines = sorted(parts[name](asked.out))
        (asked.out / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        print(f"{name}: {len(lines)} lines", file=sys.stderr)


class HostDatabase:
    """A SQLite file that we trust, read in this process: thousands of queries are to be asked of each."""

    dialect = "sqlite"

    def __init__(self, connection: sqlite3.Connection, schema: Any) -> None:
        self._connection, self._schema = connection, schema
        self._known: dict[tuple[str, int], Any] = {}
        connection.text_factory = lambda data: data.decode(errors="replace")

    def schema(self) -> Any:
        """The schema, as the sandboxed reader has told it."""
        return self._schema

    def query(self, sql: str, *, max_rows: int, timeout_s: float) -> Any:
        """See `groundbox.check.sql.source.Database`; each query is asked once."""
        from groundbox.check.sql.source import QueryFailed

        key = sql, max_rows
        if key not in self._known:
            self._known[key] = self._asked(sql, max_rows)
        if isinstance(self._known[key], str):
            raise QueryFailed(self._known[key])
        return self._known[key]

    def _asked(self, sql: str, max_rows: int) -> Any:
        from groundbox.check.sql.source import Rows

        try:
            cursor = self._connection.execute(sql)
            rows = cursor.fetchmany(max_rows + 1)
        except (sqlite3.Error, sqlite3.Warning) as error:
            return str(error)
        columns = [column[0] for column in cursor.description or ()]
        return Rows(columns, [tuple(row) for row in rows[:max_rows]], len(rows) <= max_rows)


def sql(out: Path) -> Iterator[str]:
    """Findings of each recorded query, alone and beside another system's; and of queries of a small shop."""
    path = out / "shop.sqlite"
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as connection:
        connection.executescript(SHOP)
    connection.close()
    yield from _looked_at(path, [(f"shop {n:02}", text, asked, ()) for n, (text, asked) in enumerate(SHOP_QUERIES)])
    path.unlink()
    folder = None if DATA is None else DATA / "sql-predictions"
    if folder is None or not folder.exists():
        return
    records = [json.loads(line) for line in (folder / "predictions.jsonl").read_text(encoding="utf-8").splitlines()]
    by_db: dict[str, list[Any]] = defaultdict(list)
    for record in records:
        by_db[record["db"]].append(record)
    for db, recorded in sorted(by_db.items()):
        queries: list[tuple[str, str, str | None, tuple[str, ...]]] = []
        for n, each in enumerate(recorded):
            name = f"{db} {each['id']:04} {each['system']}"
            other = recorded[(n + 1) % len(recorded)]
            queries.append((name, each["predicted"], each["question"], ()))
            if other["id"] == each["id"]:
                queries.append(
                    (f"{name} + {other['system']}", each["predicted"], each["question"], (other["predicted"],))
                )
        yield from _looked_at(folder / "db" / f"{db}.sqlite", queries)


def _looked_at(path: Path, queries: list[tuple[str, str, str | None, tuple[str, ...]]]) -> Iterator[str]:
    with FileDatabase(path, "sqlite") as file:
        schema = file.schema()
    connection = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    database = HostDatabase(connection, schema)
    for name, text, question, candidates in queries:
        found = check_sql(text, database=database, question=question, candidates=candidates, wall_s=WALL_S)
        yield f"{name}: {_warnings(found)}"
    connection.close()


def _warnings(found: list[gb.Warning]) -> str:
    told = [[each.code, each.tier, each.message, each.hint, each.evidence] for each in found]
    return json.dumps(told, ensure_ascii=False, default=repr, sort_keys=True)


def python(out: Path) -> Iterator[str]:
    """Findings of each program, run once; pairs of wrong and right programs that the tests hold, and recorded ones."""
    programs = list(_programs())
    with ThreadPoolExecutor(AT_ONCE) as threads:
        yield from threads.map(_program_told, programs)


def _program_told(program: tuple[str, str, dict[str, Any]]) -> str:
    name, source, options = program
    execution = gb.run(source, checks=True, **options)
    observed = _warnings([each for each in execution.warnings if each.code.startswith(("python.", "pandas."))])
    return f"{name}: {execution.outcome.value} {_warnings(check_python(source, execution))} observed {observed}"


def _programs() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path in sorted((ROOT / "tests/check/python").glob("python_pairs_*.py")):
        for n, node in enumerate(ast.walk(ast.parse(path.read_text(encoding="utf-8")))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.count("\n") > 1:
                yield f"{path.stem} {n:05}", node.value, {}
    if DATA is None:
        return
    for n, line in enumerate((DATA / "pyedu-514.jsonl").read_text(encoding="utf-8").splitlines()):
        item = json.loads(line)
        call = {"mode": "call", "call": item["funcname"], "kwargs": item["ios"][0]["input"]}
        yield f"pyedu {n:03}", item["refcode"], call
    with gzip.open(DATA / "HumanEval.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            item = json.loads(line)
            solved = item["prompt"] + item["canonical_solution"]
            yield item["task_id"], f"{solved}\n{item['test']}\ncheck({item['entry_point']})\n", {}


def answers(out: Path) -> Iterator[str]:
    """What is found in each answer, and where it comes from: answers written for this, and recorded ones."""
    path = ROOT / "tests/check/answers/transcripts.py"
    spec = importlib.util.spec_from_file_location("transcripts", path)
    assert spec is not None
    assert spec.loader is not None
    transcripts = importlib.util.module_from_spec(spec)
    sys.modules["transcripts"] = transcripts
    spec.loader.exec_module(transcripts)
    runs = [transcripts.execution(stdout=SHOWN)]
    for n, text in enumerate(ANSWERS):
        yield f"written {n:02}: {_told(check_answer(text, runs))}"
        yield f"written {n:02} asked: {_told(check_answer(text, runs, question=ASKED, programs=['rows = 77']))}"
    for file in sorted(transcripts.FOLDER.glob("*.txt")):
        for each in transcripts.read(file.name):
            told = _told(check_answer(each.answer, each.executions, question=each.question))
            yield f"{file.stem} {each.name}: {told}"
    narrations = None if DATA is None else DATA / "narrations" / "narrations.jsonl"
    if narrations is not None and narrations.exists():
        for n, line in enumerate(narrations.read_text(encoding="utf-8").splitlines()):
            texts = [each for each in json.loads(line).values() if isinstance(each, str) and len(each) > 100]
            for place, text in enumerate(texts):
                yield f"narration {n:03}.{place}: {_told(check_answer(text, runs))}"


def _told(report: Any) -> str:
    return json.dumps(report.to_dict(), ensure_ascii=False, default=repr, sort_keys=True)


def dataset(out: Path) -> Iterator[str]:
    """Digests of the files of a build of the bundled problems and some recorded ones, and what its report says."""
    folder = out / "build"
    subprocess.run(["rm", "-rf", folder], check=True)
    problems = sorted((ROOT / "examples/problems").glob("*.jsonl"))
    if DATA is not None:
        some = out / "pyedu-some.jsonl"
        lines = (DATA / "pyedu-514.jsonl").read_text(encoding="utf-8").splitlines()[:DATASET_PROBLEMS]
        some.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        problems.append(some)
    command = [sys.executable, "-m", "groundbox", "dataset", "build", *map(str, problems), "--out", str(folder)]
    subprocess.run(
        [*command, "--samples-per-item", "9", "--cases", str(DATASET_CASES), "--workers", str(AT_ONCE)], check=True
    )
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.name != "report.json":
            yield f"{path.name}: {hashlib.sha256(path.read_bytes()).hexdigest()}"
    report = json.loads((folder / "report.json").read_bytes())
    for name, value in report.items():
        if name not in ("seconds", "per_cpu_hour", "files"):
            yield f"report {name}: {json.dumps(value, ensure_ascii=False, sort_keys=True)}"


if __name__ == "__main__":
    main()
