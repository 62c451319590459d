"""Types of CSV files in DuckDB, looked at before a query reads the file.

DuckDB guesses types from the first 20,480 lines and casts what comes after: 01234 becomes 1234, and 1.5 becomes 2. Of
days with two digits for the year it takes the first order of day, month and year that fits: 04/07/20 is in 2004. If
none of the first lines has quotes, those of later lines are a part of the text. None of this is an error. So a file is
looked at to its end, once for each version of it, and a column that its guess would change is read as what all lines
allow, or as text. The statement then names the types: a type that the program names itself is left alone.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from .statement import quoted, unquoted

_READERS: Final = ("read_csv", "read_csv_auto")
_ENDINGS: Final = (".csv", ".tsv")
_OWN_TYPES: Final = frozenset(
    {"all_varchar", "auto_detect", "column_types", "columns", "dtypes", "sample_size", "types", "union_by_name"}
)
"""Arguments of a program that says itself which types there are."""
_SAMPLE_LINES: Final = 20_480
_MOST_BYTES: Final = 64 << 20
"""Looking at a larger file to its end would take seconds."""
_MOST_CHANGED: Final = 20
_PARTS: Final = re.compile(r"%([ymdY])(\W)%([ymdY])\2%([ymdY])")
_FORM: Final = re.compile(r"(?:date|timestamp)_?format\s*[:=]", re.IGNORECASE)
"""A program that names the form of days itself."""
_QUOTE: Final = re.compile(r"\b(?:quote|escape)\s*[:=]", re.IGNORECASE)
_NO_QUOTE: Final = "(empty)"
"""DuckDB's word for no sign of quotes."""
_ORDERS: Final = ("ymd", "dmy", "mdy")
_WITH_YEAR: Final = r"^\s*[+-]?\d{4,}[-/]"
_BEFORE_A_TABLE: Final = frozenset({"from", "join"})
_ONE_TABLE: Final = frozenset({"describe", "summarize"})
_OTHERS: Final = frozenset({"attach", "copy", "export", "import", "insert", "install", "load"})
"""Statements in which a text behind FROM may be no table."""
_CLAUSES: Final = frozenset({"select", "from", "where", "group", "having", "order", "limit", "on", "using", "values"})


class Token(NamedTuple):
    """A token of a statement, with its place among the bytes."""

    at: int
    word: str
    is_name: bool


class Change(NamedTuple):
    """A column that is read as another type than DuckDB guesses.

    Attributes:
        reason: `later` for lines behind the first ones, `day` for days that can be read in several ways. Without a
            column, `quote` if only later lines have quotes, which are the `type`, and `large` for a file that was not
            looked at.
    """

    file: str
    column: str
    guessed: str
    type: str
    reason: str


class CsvTypes:
    """What files were found to hold.

    Attributes:
        changes: Those of the statements since the list was emptied.
    """

    def __init__(self, duckdb: Any, connection: Any, workdir: str) -> None:
        self._duckdb, self._connection, self._workdir = duckdb, connection, workdir
        self._known: dict[str, tuple[tuple[int, int], list[Change]]] = {}
        self.changes: list[Change] = []

    def rewrite(self, text: str, tokens: Callable[[str], Iterator[Token]], taken: Callable[[], set[str]]) -> str:
        """Return the statement with the types of columns that DuckDB would change.

        Args:
            taken: Gives the names of tables, which come before files.
        """
        folded = text.casefold()
        if not any(ending in folded for ending in (*_ENDINGS, *_READERS)):
            return text
        data, edits = text.encode(), []
        for begin, end, arguments, is_call, around in _sources(list(tokens(text)), data):
            changes = self._changes(arguments)
            if not changes or (not is_call and unquoted(arguments) in taken()):
                continue
            self.changes += [change for change in changes if change not in self.changes]
            types = ", ".join(f"{_text(each.column)}: {_text(each.type)}" for each in changes if each.column)
            quote = "".join(f", quote = {_text(each.type)}" for each in changes if each.reason == "quote")
            call = f"read_csv({arguments}{quote}{f', types = {{{types}}}' if types else ''})"
            edits.append((begin, end, call if is_call else around.format(call)))
        for begin, end, new in reversed(edits):
            data = data[:begin] + new.encode() + data[end:]
        return data.decode()

    def _changes(self, arguments: str) -> list[Change]:
        """The columns to read as another type; a file that cannot be looked at has none."""
        file = unquoted(re.match(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"", arguments)[0])  # type: ignore[index]
        path = os.path.join(self._workdir, file)
        try:
            state = os.stat(path)
        except (OSError, ValueError):
            return []
        if not stat.S_ISREG(state.st_mode):
            return []
        version = (state.st_mtime_ns, state.st_size)
        if arguments not in self._known or self._known[arguments][0] != version:
            found = []
            if state.st_size <= _MOST_BYTES:
                found = self._look(arguments, file, path)
            else:
                self.changes.append(Change(file, "", "", "", "large"))  # once for each version of the file
            self._known[arguments] = (version, found)
        return self._known[arguments][1]

    def _look(self, arguments: str, file: str, path: str) -> list[Change]:
        given = "'" + unquoted(arguments).replace("'", "''") + "'" if arguments[0] == '"' else arguments
        first = self._sniffed(given)
        if first is None:
            return []
        columns, day, quote = first
        wide = self._sniffed(f"{given}, sample_size = -1") if _is_longer(path) else None
        later = wide[0] if wide is not None and wide[0].keys() == columns.keys() else columns
        changes = []
        if wide is not None and quote == _NO_QUOTE != wide[2] and not _QUOTE.search(given):
            changes.append(Change(file, "", "", wide[2], "quote"))
        for name, kind in columns.items():
            if later[name] != kind:
                changes.append(Change(file, name, kind, later[name], "later"))
            elif (
                kind.startswith(("DATE", "TIMESTAMP"))
                and not _FORM.search(given)
                and self._is_doubtful(given, name, kind, day)
            ):
                changes.append(Change(file, name, kind, "VARCHAR", "day"))
        return changes[:_MOST_CHANGED]

    def _sniffed(self, arguments: str) -> tuple[dict[str, str], str, str] | None:
        """Columns with their types, the form of days, and the sign of quotes; None if DuckDB cannot say."""
        row = self._first_row(f"SELECT Columns, DateFormat, Quote FROM sniff_csv({arguments})")
        if row is None:
            return None
        return {each["name"]: each["type"] for each in row[0]}, row[1] or "", row[2] or ""

    def _is_doubtful(self, given: str, column: str, kind: str, day: str) -> bool:
        """Return whether days have years of two digits, and can be read in another way than DuckDB guesses."""
        source, name = f"read_csv({given}, all_varchar = true)", quoted(column)
        if kind != "DATE":
            short = f"SELECT {name} FROM {source} WHERE {name} IS NOT NULL LIMIT {_SAMPLE_LINES}"
            return bool(self._first(f"SELECT count(*) FROM ({short}) WHERE NOT regexp_matches({name}, '{_WITH_YEAR}')"))
        parts = _PARTS.search(day)
        if parts is None or "y" not in parts.groups():
            return False
        forms = [parts[2].join(f"%{letter}" for letter in order) for order in _ORDERS]
        fits = ", ".join(
            f"coalesce(bool_and(try_strptime({name}, {_text(_PARTS.sub(form, day))}) IS NOT NULL), false)"
            for form in forms
        )
        found = self._first(f"SELECT [{fits}] FROM {source} WHERE {name} IS NOT NULL")
        return isinstance(found, list) and sum(map(bool, found)) > 1

    def _first(self, sql: str) -> Any:
        row = self._first_row(sql)
        return None if row is None else row[0]

    def _first_row(self, sql: str) -> Any:
        """Return the first row; None if DuckDB reports an error, which the statement itself will have, too."""
        try:
            return self._connection.execute(sql).fetchone()
        except self._duckdb.InterruptException:
            raise
        except self._duckdb.Error:
            return None


def _sources(tokens: Sequence[Token], data: bytes) -> Iterator[tuple[int, int, str, bool, str]]:
    """Each file that a statement reads: begin and end among the bytes, arguments, whether it is a call, and a form."""
    words = [token.word.casefold() for token in tokens]
    if not words or (words[0] in _OTHERS and words[1:2] != ["("]):
        return
    clauses = [""]
    for i, token in enumerate(tokens):
        word, before = words[i], words[i - 1] if i else ""
        if word == "(":
            clauses.append(clauses[-1] if before in ("from", "join", ",") else "")
        elif word == ")":
            clauses = clauses[:-1] or [""]
        elif word in _CLAUSES or word in _BEFORE_A_TABLE:
            clauses[-1] = "from" if word == "join" else word
        elif word in _READERS and words[i + 1 : i + 2] == ["("]:
            end = _end_of_call(words, i + 1)
            if end is not None and _is_file(tokens[i + 2].word) and words[i + 3] in (",", ")"):
                arguments = data[tokens[i + 2].at : tokens[end].at].decode().strip()
                if _OWN_TYPES.isdisjoint(words[i + 3 : end]):
                    yield token.at, tokens[end].at + 1, arguments, True, ""
        elif _is_file(token.word) and unquoted(token.word).casefold().endswith(_ENDINGS):
            is_listed = before == "," and clauses[-1] == "from"
            size = len(token.word.encode())
            if before in _ONE_TABLE:
                yield token.at, token.at + size, token.word, False, "SELECT * FROM {}"
            elif before in _BEFORE_A_TABLE or is_listed:
                following = tokens[i + 1] if i + 1 < len(tokens) else None
                named = following is not None and (following.is_name or following.word.casefold() == "as")
                alias = quoted(unquoted(token.word).rpartition("/")[2].partition(".")[0])
                form = "{}" if named else "{} AS " + alias.replace("{", "{{").replace("}", "}}")
                yield token.at, token.at + size, token.word, False, form


def _end_of_call(words: Sequence[str], opening: int) -> int | None:
    """The place of the bracket that closes a call; None if the call has another one in it, or no end."""
    for i in range(opening + 1, len(words)):
        if words[i] == "(":
            return None
        if words[i] == ")":
            return i if i > opening + 1 else None
    return None


def _is_file(word: str) -> bool:
    """Return whether a token is the name of one file, without a pattern."""
    return len(word) > 2 and word[0] in "'\"" and word[-1] == word[0] and not set(word) & set("*?[")


def _is_longer(path: str) -> bool:
    """Return whether a file has more lines than DuckDB looks at."""
    lines = 0
    with open(path, "rb") as file:
        while lines <= _SAMPLE_LINES and (part := file.read(1 << 20)):
            lines += part.count(b"\n") or part.count(b"\r")
    return lines > _SAMPLE_LINES


def _text(value: str) -> str:
    """A text as a literal."""
    return "'" + value.replace("'", "''") + "'"
