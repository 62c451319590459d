"""Counts how often each finding of groundbox.check.check_sql is right, on recorded queries of models.

    python scripts/calibrate_sql_checks.py FOLDER [--write] [--variants]

FOLDER has predictions.jsonl (one object a line: db, question, gold, system, predicted, result: right, wrong or error)
and db/NAME.sqlite. `--write` writes src/groundbox/check/sql/calibration.json, which the package ships. Tables are
printed as Markdown. Queries that fail are left out: they are not silently wrong.

"Other databases" means that the tiers of a database's queries come from counts without that database.
`--variants` also chooses how findings add up without that database, among VARIANTS, and prints what comes of it.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from groundbox.check.sql.budget import Budget
from groundbox.check.sql.calibration import ALONE, DISAGREEING, SITUATIONS, TIERS, Counts, Table
from groundbox.check.sql.checking import Look, look
from groundbox.check.sql.files import FileDatabase
from groundbox.check.sql.schema import Schema
from groundbox.check.sql.source import QueryFailed, Rows

TABLE = Path(__file__).parents[1] / "src/groundbox/check/sql/calibration.json"

DATABASES: dict[str, int] = {}
VARIANTS = tuple(itertools.product((0.0, 0.25, 0.5, 0.75), (0.6, 0.7), (0.75, 0.8, 0.85)))
"""`FURTHER`, `UNPROVEN_AT_MOST` and what together makes an error."""

LEAST_PRECISION = 0.86
"""Of a variant on the databases that it is chosen by; the one of them with the highest recall is taken."""


class Remembering:
    """A database that asks each query once."""

    def __init__(self, database: FileDatabase) -> None:
        self._database, self.dialect = database, database.dialect
        self._known: dict[tuple[str, int], Rows | QueryFailed] = {}

    def schema(self) -> Schema:
        return self._database.schema()

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


class Seen:
    """One recorded query in one situation, with the codes that were found.

    Attributes:
        other: The system whose query was the second candidate, or "".
    """

    def __init__(self, record: dict[str, Any], found: Look, other: str = "") -> None:
        self.db, self.question, self.system, self.other = record["db"], record["question"], record["system"], other
        self.wrong, self.situation = record["result"] == "wrong", found.situation
        self.codes = {each.code for each in found.findings}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", action="store_true", help="write the table that the package ships")
    parser.add_argument("--variants", action="store_true", help="choose how findings add up without each database")
    options = parser.parse_args()
    begun = time.monotonic()
    seen = looked_at(options.folder)
    alone = [each for each in seen if not each.other]
    left_out = left_out_tiers(seen)
    print_rules(alone)
    print_tiers(seen, left_out)
    print_candidates(seen, left_out)
    if options.variants:
        print_variants(alone)
    print(f"\n{len(alone)} queries, {sum(each.wrong for each in alone)} wrong, {time.monotonic() - begun:.0f} s")
    if options.write:
        write(seen)


def looked_at(folder: Path) -> list[Seen]:
    """Every query that runs, alone and with each other system's query for the same question."""
    records = [json.loads(line) for line in (folder / "predictions.jsonl").read_text(encoding="utf-8").splitlines()]
    seen = []
    for db in sorted({record["db"] for record in records}):
        here = [record for record in records if record["db"] == db]
        with FileDatabase(folder / "db" / f"{db}.sqlite", "sqlite") as database:
            source = Remembering(database)
            for record in here:
                if record["result"] != "error":
                    seen += _seen(record, source, [other for other in here if _pairs(record, other)])
    return seen


def _pairs(record: dict[str, Any], other: dict[str, Any]) -> bool:
    return bool(record["id"] == other["id"] and record["system"] != other["system"])


def _seen(record: dict[str, Any], source: Remembering, others: list[dict[str, Any]]) -> list[Seen]:
    def looked(*candidates: str) -> Look:
        budget = Budget(source, max_queries=60, wall_s=30.0, max_rows=5000)
        return look(record["predicted"], source, budget, record["question"], candidates)

    pairs = [Seen(record, looked(other["predicted"]), other["system"]) for other in others]
    return [Seen(record, looked()), *pairs]


def counted(seen: Sequence[Seen]) -> Table:
    """What was counted for each code on each database."""
    fired: dict[str, dict[str, list[Seen]]] = defaultdict(lambda: defaultdict(list))
    for each in seen:
        for code in each.codes:
            fired[code][each.db].append(each)
    return Table(
        {code: {db: _counts(here) for db, here in sorted(by_db.items())} for code, by_db in sorted(fired.items())},
        share_of_wrong(seen),
    )


def share_of_wrong(seen: Sequence[Seen]) -> float:
    """The share of wrong queries, whatever was found."""
    return sum(each.wrong for each in seen) / max(len(seen), 1)


def _counts(fired: Sequence[Seen]) -> Counts:
    wrong = sum(each.wrong for each in fired)
    return Counts(queries=len(fired), wrong=wrong, questions=len({each.question for each in fired}))


def by_situation(seen: Sequence[Seen]) -> dict[str, list[Seen]]:
    """The queries of each situation; a pair without a result to compare is in none."""
    return {
        situation: [each for each in seen if each.situation == situation and bool(each.other) == (situation != ALONE)]
        for situation in SITUATIONS
    }


def counted_by_situation(seen: Sequence[Seen]) -> dict[str, Table]:
    """A table for each situation."""
    return {situation: counted(here) for situation, here in by_situation(seen).items()}


def tier(each: Seen, tables: dict[str, Table]) -> str:
    """The tier of a query by its findings, or ""."""
    return tables[each.situation].tier_together(each.codes)


def left_out_tiers(seen: Sequence[Seen]) -> list[str]:
    """The tier of each query, from counts without its database."""
    without = {db: counted_by_situation([each for each in seen if each.db != db]) for db in {each.db for each in seen}}
    return [tier(each, without[each.db]) for each in seen]


def print_rules(alone: Sequence[Seen]) -> None:
    counts = counted(alone)
    wrong = sum(each.wrong for each in alone)
    dbs = sorted({each.db for each in alone})
    without = [counted([each for each in alone if each.db != db]) for db in dbs]
    print(
        "| finding | queries | questions | databases | precision | recall | expected | tier | tiers with one "
        "database left out |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for code in sorted(counts.codes, key=counts.expected, reverse=True):
        told, tiers = counts.of(code), [table.tier(code) for table in without]
        stable = ", ".join(f"{name} {tiers.count(name)}" for name in TIERS if name in tiers)
        print(
            f"| `{code}` | {told.queries} | {told.questions} | {len(counts.databases(code))} | {told.precision:.2f} "
            f"| {told.wrong / wrong:.3f} | {counts.expected(code):.2f} | {counts.tier(code)} | {stable} |"
        )


def print_tiers(seen: Sequence[Seen], left_out: Sequence[str]) -> None:
    tables = counted_by_situation(seen)
    print("\n| tier | counts from | precision | recall | of right queries |")
    print("|---|---|---|---|---|")
    for name, tiers in (("other databases", left_out), ("the same queries", [tier(each, tables) for each in seen])):
        told = [(each, tier) for each, tier in zip(seen, tiers, strict=True) if not each.other]
        for sort, of in (("error", ("error",)), ("error or warn", ("error", "warn"))):
            print(f"| {sort} | {name} | {figures([(each, tier in of) for each, tier in told])} |")
    print(
        "\n| database | queries | wrong | error: precision | recall | of right | error or warn: precision | "
        "recall | of right |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    means = []
    for db in sorted({each.db for each in seen}):
        here = [(each, tier) for each, tier in zip(seen, left_out, strict=True) if not each.other and each.db == db]
        error, both = ([(each, tier in of) for each, tier in here] for of in (("error",), ("error", "warn")))
        print(f"| {db} | {len(here)} | {sum(each.wrong for each, _ in here)} | {figures(error)} | {figures(both)} |")
        means.append([float(figure) for figure in f"{figures(error)} | {figures(both)}".split(" | ")])
    mean = [sum(column) / len(means) for column in zip(*means, strict=True)]
    print(f"| mean | | | {' | '.join(f'{figure:.3f}' for figure in mean)} |")


def print_variants(alone: Sequence[Seen]) -> None:
    """What comes of variants that are chosen without the database that they are counted on."""
    dbs = sorted({each.db for each in alone})
    of_all: list[tuple[Seen, bool]] = []
    print("\n| database | chosen without it: further, unproven, from | precision | recall | of right queries |")
    print("|---|---|---|---|---|")
    for db in dbs:
        rest, here = [each for each in alone if each.db != db], [each for each in alone if each.db == db]
        chosen = _best(rest)
        told = _told(here, counted(rest), chosen)
        of_all += told
        print(f"| {db} | {', '.join(map(str, chosen))} | {figures(told)} |")
    print(f"| all | | {figures(of_all)} |")
    print(f"\nchosen with all of them: {_best(alone)}")


def _best(seen: Sequence[Seen]) -> tuple[float, float, float]:
    told: dict[tuple[float, float, float], list[tuple[Seen, bool]]] = {variant: [] for variant in VARIANTS}
    for db in {each.db for each in seen}:
        table = counted([each for each in seen if each.db != db])
        here = [each for each in seen if each.db == db]
        for variant in VARIANTS:
            told[variant] += _told(here, table, variant)
    counts = {variant: _caught(flags) for variant, flags in told.items()}
    precise = [variant for variant in VARIANTS if counts[variant][0] >= LEAST_PRECISION * counts[variant][1]]
    return max(precise or VARIANTS, key=lambda variant: (counts[variant][0], -counts[variant][1]))


def _told(here: Sequence[Seen], table: Table, variant: tuple[float, float, float]) -> list[tuple[Seen, bool]]:
    further, unproven, least = variant
    told = []
    for each in here:
        share = table.together(each.codes, further=further, unproven_at_most=unproven) if each.codes else 0.0
        told.append((each, share >= least or any(table.tier(code) == "error" for code in each.codes)))
    return told


def _caught(told: Sequence[tuple[Seen, bool]]) -> tuple[int, int]:
    """How many wrong queries are flagged, and how many of any kind."""
    return sum(each.wrong for each, flag in told if flag), sum(flag for _, flag in told)


def figures(told: Sequence[tuple[Seen, bool]]) -> str:
    """Precision, recall, and the share of right queries that are flagged."""
    caught, fired = _caught(told)
    wrong = sum(each.wrong for each, _ in told)
    return (
        f"{caught / max(fired, 1):.3f} | {caught / max(wrong, 1):.3f} | "
        f"{(fired - caught) / max(len(told) - wrong, 1):.3f}"
    )


def print_candidates(seen: Sequence[Seen], left_out: Sequence[str]) -> None:
    """For each system, its queries with those of one other as the second candidate; tiers from other databases."""
    print(
        "\n| system | second candidate | wrong | disagree: precision | recall | of right | error or warn: "
        "precision | recall | of right |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    pairs = [(each, tier) for each, tier in zip(seen, left_out, strict=True) if each.other]
    for one in [*sorted({each.system for each, _ in pairs}), ""]:
        for other in [*sorted({each.other for each, _ in pairs}), ""]:
            here = [(each, tier) for each, tier in pairs if one in ("", each.system) and other in ("", each.other)]
            if not here or (one == "") != (other == ""):
                continue
            base = sum(each.wrong for each, _ in here) / len(here)
            apart = figures([(each, each.situation == DISAGREEING) for each, _ in here])
            both = figures([(each, tier in ("error", "warn")) for each, tier in here])
            print(f"| {one or 'all'} | {other or 'all'} | {base:.2f} | {apart} | {both} |")


def write(seen: Sequence[Seen]) -> None:
    alone = [each for each in seen if not each.other]
    about = {
        "made by": "scripts/calibrate_sql_checks.py",
        "of": "recorded queries of language models for development questions of Spider, over SQLite",
        "systems": sorted({each.system for each in alone}),
        "queries": len(alone),
        "wrong": sum(each.wrong for each in alone),
        "questions": len({(each.db, each.question) for each in alone}),
        "databases": len({each.db for each in alone}),
    }
    situations = {
        situation: {code: _plain(table, code) for code in table.codes}
        for situation, table in counted_by_situation(seen).items()
    }
    of_any = {situation: round(share_of_wrong(here), 4) for situation, here in by_situation(seen).items()}
    TABLE.write_text(_lines(about, of_any, situations), encoding="utf-8")
    print(f"wrote {TABLE}")


def _lines(about: dict[str, Any], of_any: dict[str, float], situations: dict[str, Any]) -> str:
    """JSON with a line for each code."""
    parts = []
    for situation, codes in situations.items():
        rows = ",\n".join(f"   {json.dumps(code)}: {json.dumps(told)}" for code, told in codes.items())
        parts.append(f"  {json.dumps(situation)}: {{\n{rows}\n  }}")
    told = ",\n".join(parts)
    head = f' "about": {json.dumps(about)},\n "of any": {json.dumps(of_any)},\n'
    return f'{{\n{head} "situations": {{\n{told}\n }}\n}}\n'


def _plain(table: Table, code: str) -> dict[str, Any]:
    """Database to counts; databases go by number, since nothing depends on their names."""
    return {
        f"database {DATABASES.setdefault(db, len(DATABASES) + 1)}": dataclasses.asdict(table.on(code, db))
        for db in table.databases(code)
    }


if __name__ == "__main__":
    main()
