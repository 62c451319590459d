"""Counts how often each finding of groundbox.check.check_sql is right, on recorded queries of models.

    python scripts/calibrate_sql_checks.py FOLDER [--write]

FOLDER has predictions.jsonl (one object a line: db, id, question, gold, system, predicted, result: right, wrong or
error) and db/NAME.sqlite. Queries that fail are left out: they are not silently wrong. Tables are printed as Markdown;
`--write` writes them into docs/checks.md, between their marks, and the tiers into
src/groundbox/check/sql/calibration.json, which the package ships.

"Other databases" means that the tiers of a database's queries come from counts without that database.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from groundbox.check.sql.calibration import ALONE, DISAGREEING, SITUATIONS, Counts
from groundbox.check.sql.checking import compared, look
from groundbox.check.sql.files import FileDatabase
from groundbox.check.sql.finding import Budget, Context
from groundbox.check.sql.query import NotTakenApart, Query
from groundbox.check.sql.rules import all_codes
from groundbox.check.sql.source import QueryFailed, Rows, Schema
from groundbox.check.tiers import ERROR_FROM, TIERS, measured

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "src/groundbox/check/sql/calibration.json"
PAGE = ROOT / "docs/checks.md"
BARS = (0.65, 0.7, 0.75, 0.8, 0.85)
LEAST_PRECISION = 0.85
PROCESSES = 2
REFERENCE = "the reference"
Flagged = Sequence[tuple["Seen", bool]]


class Seen(NamedTuple):
    """One recorded query in one situation, with the codes that were found.

    Attributes:
        other: The system whose query was the second candidate, or "".
    """

    db: str
    question: int
    system: str
    other: str
    is_wrong: bool
    situation: str
    codes: frozenset[str]


class Remembering:
    """A database that is asked each query once, and for its schema once."""

    def __init__(self, database: FileDatabase) -> None:
        self._database, self.dialect, self._schema = database, database.dialect, database.schema()
        self._known: dict[tuple[str, int], Rows | QueryFailed] = {}

    def schema(self) -> Schema:
        return self._schema

    def query(self, sql: str, *, max_rows: int, timeout_s: float) -> Rows:
        key = (sql, max_rows)
        if key not in self._known:
            try:
                self._known[key] = self._database.query(sql, max_rows=max_rows, timeout_s=timeout_s)
            except QueryFailed as failure:
                self._known[key] = failure
        known = self._known[key]
        if isinstance(known, QueryFailed):
            raise known
        return known


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", action="store_true", help="write the tiers and the tables of the docs")
    options = parser.parse_args()
    if not (options.folder / "predictions.jsonl").is_file():
        parser.error(f"{options.folder}: has no predictions.jsonl, with a recorded query on each line, beside db/")
    everything = looked_at(options.folder)
    seen = [each for each in everything if each.system != REFERENCE]
    without = {db: counted_by_situation([each for each in seen if each.db != db]) for db in names(seen)}
    alone = [each for each in seen if not each.other]
    tables = {
        "tiers": tier_lines(alone, without, counted_by_situation(seen)),
        "databases": database_lines(alone, without),
        "bars": bar_lines(alone, without),
        "rules": rule_lines(alone, without),
        "candidates": candidate_lines([each for each in seen if each.other], without),
    }
    for name, lines in tables.items():
        print(f"<!-- {name} -->", *lines, f"<!-- end of {name} -->\n", sep="\n")
    print(f"{len(alone)} queries, {sum(each.is_wrong for each in alone)} wrong, {len(names(alone))} databases")
    references = [tier(each, without[each.db]) for each in everything if each.system == REFERENCE]
    print(f"{references.count('error')} of {len(references)} references have an error, by counts from other databases")
    if options.write:
        TABLE.write_text(as_json(seen), encoding="utf-8")
        PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8"), tables), encoding="utf-8")


def looked_at(folder: Path) -> list[Seen]:
    """Every query that runs, alone and with each other system's query for the same question; and each reference."""
    records = [json.loads(line) for line in (folder / "predictions.jsonl").read_text(encoding="utf-8").splitlines()]
    by_db = defaultdict(list)
    for record in records:
        by_db[record["db"]].append(record)
    largest_first = sorted(by_db, key=lambda db: -len(by_db[db]))
    with ProcessPoolExecutor(PROCESSES) as processes:
        found = processes.map(_looked_at_one, [(folder / f"db/{db}.sqlite", by_db[db]) for db in largest_first])
        return sorted((each for part in found for each in part), key=lambda each: each[:4])


def _looked_at_one(asked: tuple[Path, list[dict[str, Any]]]) -> list[Seen]:
    path, records = asked
    seen = []
    with FileDatabase(path, "sqlite") as database:
        source = Remembering(database)
        for reference in {record["id"]: record for record in records}.values():
            found = next(_situations({**reference, "predicted": reference["gold"]}, (), source))
            seen.append(Seen(reference["db"], reference["id"], REFERENCE, "", False, *found[1:]))
        for record in (record for record in records if record["result"] != "error"):
            others = [each for each in records if each["id"] == record["id"] and each["system"] != record["system"]]
            for other, situation, codes in _situations(record, others, source):
                system = other["system"] if other else ""
                of = record["db"], record["id"], record["system"], system, record["result"] == "wrong"
                seen.append(Seen(*of, situation, codes))
    return seen


def _situations(
    record: dict[str, Any], others: Sequence[dict[str, Any]], source: Remembering
) -> Iterator[tuple[dict[str, Any] | None, str, frozenset[str]]]:
    """A query alone and beside each other one, with the codes that are found then."""
    budget = Budget(source, max_queries=60, wall_s=30.0, max_rows=5000)
    found = look(record["predicted"], source, budget, record["question"])
    codes = frozenset(each.code for each in found.findings)
    yield None, found.situation, codes
    try:
        query = Query(record["predicted"], source.dialect, source.schema())
    except NotTakenApart:
        return
    context = Context(query=query, schema=source.schema(), budget=budget, question=None)
    for other in others:
        situation, more = compared(context, [other["predicted"]])
        yield other, situation, codes | {each.code for each in more}


def names(seen: Sequence[Seen]) -> list[str]:
    """The databases."""
    return sorted({each.db for each in seen})


def counted(seen: Sequence[Seen]) -> dict[str, Counts]:
    """What follows for each code."""
    told: dict[str, dict[str, dict[int, list[bool]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for each in seen:
        for code in each.codes:
            told[code][each.db][each.question].append(each.is_wrong)
    return {code: _counts(databases) for code, databases in sorted(told.items())}


def _counts(databases: Mapping[str, Mapping[int, Sequence[bool]]]) -> Counts:
    ordered = [databases[db] for db in sorted(databases)]
    shares = {str(n): [sum(each) / len(each) for each in of.values()] for n, of in enumerate(ordered)}
    queries = [each for of in ordered for answers in of.values() for each in answers]
    return Counts(**dataclasses.asdict(measured(shares)), queries=len(queries), wrong=sum(queries))


def counted_by_situation(seen: Sequence[Seen]) -> dict[str, dict[str, Counts]]:
    """The same in each situation; a pair without a result to compare is in none."""
    by_situation = {
        situation: [each for each in seen if each.situation == situation and bool(each.other) == (situation != ALONE)]
        for situation in SITUATIONS
    }
    return {situation: counted(here) for situation, here in by_situation.items()}


def tier(each: Seen, tables: Mapping[str, Mapping[str, Counts]]) -> str:
    """The strongest tier of a query's findings, or ""."""
    table = tables[each.situation]
    found = [table[code].tier_of(code) if code in table else "note" for code in each.codes]
    return min(found, key=TIERS.index, default="")


class Figures(NamedTuple):
    """What flags come to; `precision` is None without any."""

    precision: float | None
    recall: float
    of_right: float

    @classmethod
    def of(cls, told: Flagged) -> Figures:
        wrong = sum(each.is_wrong for each, _ in told)
        caught, fired = sum(each.is_wrong for each, flag in told if flag), sum(flag for _, flag in told)
        precision = caught / fired if fired else None
        return cls(precision, caught / max(wrong, 1), (fired - caught) / max(len(told) - wrong, 1))

    def __str__(self) -> str:
        precision = "–" if self.precision is None else f"{self.precision:.3f}"
        return f"{precision} | {self.recall:.3f} | {self.of_right:.3f}"


class Summary(NamedTuple):
    """The means over databases, those without a flag skipped for the precision; and all queries together."""

    mean: Figures
    pooled: Figures
    most_of_right: float

    @classmethod
    def of(cls, told: Flagged) -> Summary:
        each = [Figures.of([item for item in told if item[0].db == db]) for db in names([seen for seen, _ in told])]
        precisions = [one.precision for one in each if one.precision is not None]
        mean = Figures(
            sum(precisions) / len(precisions) if precisions else None,
            sum(one.recall for one in each) / len(each),
            sum(one.of_right for one in each) / len(each),
        )
        return cls(mean, Figures.of(told), max(one.of_right for one in each))


SORTS: Mapping[str, tuple[str, ...]] = {"error": ("error",), "error or warn": ("error", "warn")}
Without = Mapping[str, Mapping[str, Mapping[str, Counts]]]


def tier_lines(alone: Sequence[Seen], without: Without, all_tables: Mapping[str, Mapping[str, Counts]]) -> list[str]:
    lines = [
        "| tier | counts from | mean over databases: precision | recall | of right queries | at most "
        "| all queries: precision | recall | of right queries |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    other: Callable[[Seen], str] = lambda each: tier(each, without[each.db])  # noqa: E731
    same: Callable[[Seen], str] = lambda each: tier(each, all_tables)  # noqa: E731
    for name, tier_of in (("other databases", other), ("the same", same)):
        told = [(each, tier_of(each)) for each in alone]
        for sort, of in SORTS.items():
            found = Summary.of([(each, tier in of) for each, tier in told])
            lines.append(f"| {sort} | {name} | {found.mean} | {found.most_of_right:.3f} | {found.pooled} |")
    return lines


def database_lines(alone: Sequence[Seen], without: Without) -> list[str]:
    lines = [
        "| database | queries | wrong | error: precision | recall | of right | error or warn: precision | recall "
        "| of right |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for db in names(alone):
        told = [(each, tier(each, without[db])) for each in alone if each.db == db]
        figures = [str(Figures.of([(each, tier in of) for each, tier in told])) for of in SORTS.values()]
        lines.append(f"| {db} | {len(told)} | {sum(each.is_wrong for each, _ in told)} | {' | '.join(figures)} |")
    return lines


def bar_lines(alone: Sequence[Seen], without: Without) -> list[str]:
    """What other bars of `error` come to, and the bar that is chosen for each database from the others alone."""
    lines = [
        "| bar of error | mean over databases: precision | recall | of right queries | all queries: precision "
        "| recall | of right queries |",
        "|---|---|---|---|---|---|---|",
    ]
    for bar in BARS:
        found = Summary.of([(each, _reaches(each, without[each.db][ALONE], bar)) for each in alone])
        lines.append(f"| {bar} | {found.mean} | {found.pooled} |")
    chosen = {db: _best_bar([each for each in alone if each.db != db]) for db in names(alone)}
    found = Summary.of([(each, _reaches(each, without[each.db][ALONE], chosen[each.db])) for each in alone])
    told = ", ".join(f"{bar}: {list(chosen.values()).count(bar)}" for bar in BARS if bar in chosen.values())
    return [*lines, f"| chosen without the database ({told}) | {found.mean} | {found.pooled} |"]


def _reaches(each: Seen, table: Mapping[str, Counts], bar: float) -> bool:
    return any(code in table and table[code].tier_of(code, error_from=bar) == "error" for code in each.codes)


def _best_bar(seen: Sequence[Seen]) -> float:
    """The bar with the highest recall at a mean precision of `LEAST_PRECISION`, each database by the others again."""
    tables = {db: counted([each for each in seen if each.db != db]) for db in names(seen)}
    found = {bar: Summary.of([(each, _reaches(each, tables[each.db], bar)) for each in seen]).mean for bar in BARS}
    precise = [bar for bar in BARS if (found[bar].precision or 0) >= LEAST_PRECISION]
    return max(precise or [ERROR_FROM], key=lambda bar: (found[bar].recall, bar))


def rule_lines(alone: Sequence[Seen], without: Without) -> list[str]:
    lines = [
        "| finding | what it says | tier | precision | at least | questions | databases | queries | wrong "
        "| tiers with one database left out |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    found, says = counted(alone), all_codes()
    for code in sorted(found, key=lambda code: (TIERS.index(found[code].tier_of(code)), -found[code].lower)):
        told = found[code]
        others = [tables[ALONE][code].tier_of(code) for tables in without.values() if code in tables[ALONE]]
        stable = ", ".join(f"{name} {others.count(name)}" for name in TIERS if name in others)
        lines.append(
            f"| `{code}` | {says[code]} | {told.tier_of(code)} | {told.precision:.2f} | {told.lower:.2f} "
            f"| {told.questions} | {told.databases} | {told.queries} | {told.wrong} | {stable} |"
        )
    return lines


def candidate_lines(pairs: Sequence[Seen], without: Without) -> list[str]:
    """For each system, its queries with those of all others as the second candidate."""
    lines = [
        "| system | wrong | disagree: precision | recall | of right | error: precision | recall | of right "
        "| error or warn: precision | recall | of right |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    told = [(each, tier(each, without[each.db])) for each in pairs]
    for system in [*sorted({each.system for each in pairs}), ""]:
        here = [(each, tier) for each, tier in told if system in ("", each.system)]
        apart = Figures.of([(each, each.situation == DISAGREEING) for each, _ in here])
        figures = [str(Figures.of([(each, tier in of) for each, tier in here])) for of in SORTS.values()]
        share = sum(each.is_wrong for each, _ in here) / len(here)
        lines.append(f"| {system or 'all'} | {share:.2f} | {apart} | {' | '.join(figures)} |")
    return lines


def as_json(seen: Sequence[Seen]) -> str:
    """The table that the package ships, with a line for each code."""
    alone = [each for each in seen if not each.other]
    about = {
        "made by": "scripts/calibrate_sql_checks.py",
        "of": "recorded queries of language models for development questions of Spider, over SQLite",
        "systems": sorted({each.system for each in alone}),
        "queries": len(alone),
        "wrong": sum(each.is_wrong for each in alone),
        "questions": len({(each.db, each.question) for each in alone}),
        "databases": len(names(alone)),
    }
    parts = []
    for situation, codes in counted_by_situation(seen).items():
        rows = ",\n".join(f"   {json.dumps(code)}: {json.dumps(_rounded(counts))}" for code, counts in codes.items())
        parts.append(f"  {json.dumps(situation)}: {{\n{rows}\n  }}")
    told = ",\n".join(parts)
    return f'{{\n "about": {json.dumps(about)},\n "situations": {{\n{told}\n }}\n}}\n'


def _rounded(counts: Counts) -> dict[str, Any]:
    return {name: round(value, 4) for name, value in dataclasses.asdict(counts).items()}


def with_tables(page: str, tables: Mapping[str, Sequence[str]]) -> str:
    """The page with the tables between their marks."""
    for name, lines in tables.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        before, _, rest = page.partition(begin)
        page = "".join([before, begin, *(f"{line}\n" for line in lines), end, rest.partition(end)[2]])
    return page


if __name__ == "__main__":
    main()
