"""What a look at a CSV file does when DuckDB fails."""

from types import SimpleNamespace

import pytest

from groundbox.guest.sql.csv_types import CsvTypes


class Error(Exception):
    pass


class InterruptException(Error):
    pass


class Connection:
    def __init__(self, error):
        self._error = error

    def execute(self, sql):
        raise self._error


def look(folder, error):
    """Have the file looked at that a query reads, while DuckDB fails."""
    (folder / "a.csv").write_text("a\n1\n")
    duckdb = SimpleNamespace(Error=Error, InterruptException=InterruptException)
    types = CsvTypes(duckdb, Connection(error), str(folder))
    return types._changes("'a.csv'")


def test_a_file_that_duckdb_cannot_read_has_no_changes(tmp_path):
    assert look(tmp_path, Error("Invalid Input Error: Invalid unicode")) == []


@pytest.mark.parametrize("error", [InterruptException("INTERRUPT Error"), RuntimeError("a fault"), MemoryError()])
def test_an_interrupt_and_faults_of_others_are_not_taken_for_a_broken_file(tmp_path, error):
    with pytest.raises(type(error)):
        look(tmp_path, error)
