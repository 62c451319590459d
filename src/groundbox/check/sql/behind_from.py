"""What a query of a sandbox names behind FROM without a table being there: files, sheets, DataFrames, as tables.

`'sales.csv'`, `"sales.csv"` and `'book.xlsx#Sheet 2'` are names to sqlglot; `read_csv('sales.csv', delim = ';')`
becomes one, which is its own text. All keep their letters, which tell two files or variables apart.

Nobody declares keys of a file. A set of columns counts as a key when no two rows are alike in it now: rules ask for
keys to learn whether a join repeats rows, and in these data it does not. What could not be asked counts as a key, too,
so that nothing is said of it. Rules that take a key for what somebody meant leave such a table alone
(`Table.declares`): a column may differ in each row by chance.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from groundbox.check.sql.parts import Select, sqlglot_module
from groundbox.check.sql.schema import Schema, Table

READERS: Final = frozenset(
    {
        *("read_csv", "read_csv_auto", "read_parquet", "parquet_scan", "read_xlsx"),
        *("read_json", "read_json_auto", "read_ndjson", "read_ndjson_auto"),
    }
)
_MOST_SOURCES: Final = 8
_MOST_SETS: Final = 8


def calls_named(tree: Any) -> list[str]:
    """The names of calls that read files; the calls in the tree are turned into them."""
    exp = sqlglot_module("expressions")
    called = [(table, _call(table)) for table in tree.find_all(exp.Table)]
    for table, name in called:
        if name:
            table.set("this", exp.to_identifier(name, quoted=True))
    return [name for _, name in called if name]


def _call(table: Any) -> str:
    """The call that stands behind FROM, as text; "" when it is none that reads a file."""
    exp = sqlglot_module("expressions")
    if not isinstance(table.this, exp.Func) or table.this.find(exp.Query) is not None:
        return ""
    name, opening, rest = table.this.sql(dialect="duckdb").partition("(")
    return f"{name.casefold()}{opening}{rest}" if name.casefold() in READERS else ""


def names_in(tree: Any) -> list[str]:
    """The names behind FROM that may stand for something without a schema, as they are spelled."""
    exp = sqlglot_module("expressions")
    own = {each.alias.casefold() for each in tree.find_all(exp.CTE)}
    tables = [table for table in tree.find_all(exp.Table) if isinstance(table.this, exp.Identifier) and not table.db]
    names = dict.fromkeys(table.name for table in tables if table.name.casefold() not in own)
    folded = [name.casefold() for name in names]
    return [name for name in names if folded.count(name.casefold()) == 1][:_MOST_SOURCES]


def keep_spelling(tree: Any, dialect: str, schema: Schema) -> None:
    """Let names keep their letters when the tree is qualified, and give files the alias that the engine gives them."""
    exp = sqlglot_module("expressions")
    for table in tree.find_all(exp.Table):
        call = _call(table) if dialect == "duckdb" else ""
        known = schema.table(call or table.name) if not table.db else None
        if known is None or known.declares:
            continue
        if call:
            table.set("this", exp.to_identifier(call, quoted=True))
        table.this.meta["case_sensitive"] = True
        alias = _alias(table.name) if dialect == "duckdb" else ""
        if alias and not table.alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))


def _alias(name: str) -> str:
    """The alias of a file in DuckDB: its name up to the first point, or the function; "" for other names."""
    function = name.partition("(")[0]
    if function in READERS:
        return function
    if "." not in name or ".xlsx" in name.casefold():
        return ""
    return name.rpartition("/")[2].partition(".")[0]


def key_candidates(selects: list[Select]) -> dict[str, list[tuple[str, ...]]]:
    """Folded name of a table to the sets of columns that may be its key: each that it is joined by, and all of them."""
    found: dict[str, dict[tuple[str, ...], None]] = {}
    for select in selects:
        for alias, table in select.tables.items():
            if table.declares:
                continue
            sets = found.setdefault(table.name.casefold(), {})
            joined = dict.fromkeys(_joined(select, alias))
            sets |= dict.fromkeys((column,) for column in joined)
            fixed = joined | dict.fromkeys(_compared(select, alias)) if joined else {}
            if len(fixed) > 1:
                sets[tuple(fixed)] = None
    return {name: list(sets)[:_MOST_SETS] for name, sets in found.items() if sets}


def _joined(select: Select, alias: str) -> Iterator[str]:
    for edge in select.edges:
        yield from (ref.column for ref in (edge.left, edge.right) if edge.kind == "join" and ref.alias == alias)


def _compared(select: Select, alias: str) -> Iterator[str]:
    for each in select.predicates:
        if each.ref.alias == alias and each.operator == "=" and not each.in_or:
            yield each.ref.column


def repeats_query(table: Table, sets: list[tuple[str, ...]]) -> str:
    """A query for one row: for each set of columns whether two rows are alike in it."""

    def quoted(name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    asked: list[str] = []
    for columns in sets:
        names = [quoted(column) for column in columns]
        given = " AND ".join(f"{name} IS NOT NULL" for name in names)
        groups = f"SELECT 1 FROM {quoted(table.name)} WHERE {given} GROUP BY {', '.join(names)} HAVING count(*) > 1"
        asked.append(f"EXISTS({groups}) AS repeats_{len(asked)}")
    return f"SELECT {', '.join(asked)}"
