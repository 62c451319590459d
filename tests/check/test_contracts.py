"""Contracts of results: what breaks them is told, and contracts that cannot be meant are refused."""

import time

import pytest

from groundbox.check import check_contract
from groundbox.check.contracts import Contract
from groundbox.check.patterns import Pattern
from groundbox.errors import InvalidArgument
from groundbox.execution import Artifacts, Execution, Isolation, Outcome, Usage
from groundbox.values.codec import RESULT_MIME

TABLE = "application/vnd.dataresource+json"


def execution(stdout="", value=None, outcome=Outcome.OK):
    return Execution(
        execution_id="x", language="python", outcome=outcome, exit_code=0, exit_signal=None, stdout=stdout, stderr="",
        dropped_bytes={}, value=value, error=None, displays=[], artifacts=Artifacts(), warnings=[],
        usage=Usage(wall_s=0, cpu_s=0, peak_memory_bytes=0, start_s=0, warm=True),
        isolation=Isolation(backend="bare", layers=[]),
    )  # fmt: skip


def text(value):
    return execution(value={"text/plain": value})


def table(rows, **more):
    names = list(rows[0]) if rows else []
    fields = [{"name": name} for name in names]
    data = {"schema": {"fields": fields}, "data": rows, "row_count": len(rows), "truncated": False, **more}
    return execution(value={"text/plain": "…", TABLE: data})


def codes(warnings):
    return [warning.code.removeprefix("contract.") for warning in warnings]


@pytest.mark.parametrize(
    ("shown", "expect", "found"),
    [
        ("3.5", {"type": "number"}, []),
        ("3.5", {"type": "number", "min": 0, "max": 4, "unit": "EUR"}, []),
        ("-3.5", {"type": "number", "min": 0}, ["below_min"]),
        ("30", {"type": "number", "max": 4}, ["above_max"]),
        ("np.float64(3.5)", {"type": "number", "min": 3}, []),
        ("'€3,500.50'", {"type": "number", "max": 4000, "unit": "EUR"}, []),
        ("'$3,500.50'", {"type": "number", "unit": "EUR"}, ["unit"]),
        ("'3,500.50 USD'", {"type": "number", "unit": "EUR"}, ["unit"]),
        ("nan", {"type": "number"}, ["not_finite"]),
        ("inf", {"type": "number", "min": 0}, ["not_finite"]),
        ("'many'", {"type": "number"}, ["type"]),
        ("True", {"type": "number"}, ["type"]),
        ("3.5", {"type": "integer"}, ["type"]),
        ("3", {"type": "integer", "min": 3, "max": 3}, []),
        ("None", {"type": "number"}, ["null"]),
        ("None", {"type": "number", "nullable": True}, []),
        ("True", {"type": "boolean"}, []),
        ("1", {"type": "boolean"}, ["type"]),
        ("'north'", {"type": "string", "one_of": ["north", "south"]}, []),
        ("'North'", {"type": "string", "one_of": ["north", "south"]}, ["not_one_of"]),
        ("'A-17'", {"type": "string", "pattern": r"[A-Z]-\d+"}, []),
        ("'A-17x'", {"type": "string", "pattern": r"[A-Z]-\d+"}, ["pattern"]),
        ("'abc'", {"type": "string", "min_length": 4}, ["too_short"]),
        ("'abc'", {"type": "string", "max_length": 2}, ["too_long"]),
        ("'2024-03-05'", {"type": "date", "min": "2024-01-01", "max": "2024-12-31"}, []),
        ("datetime.date(2023, 3, 5)", {"type": "date", "min": "2024-01-01"}, ["below_min"]),
        ("Timestamp('2025-03-05 00:00:00')", {"type": "date", "max": "2024-12-31"}, ["above_max"]),
        ("'5 March'", {"type": "date"}, ["type"]),
    ],
)
def test_a_value_keeps_its_contract_or_breaks_it(shown, expect, found):
    assert codes(check_contract(text(shown), expect)) == found


def test_the_last_printed_line_is_the_value_of_a_script():
    assert codes(check_contract(execution(stdout="working\n42\n\n"), {"type": "integer", "min": 42, "max": 42})) == []
    assert codes(check_contract(execution(), {"type": "integer"})) == ["no_result"]


@pytest.mark.parametrize("expect", [{"type": kind} for kind in ("integer", "string", "date", "boolean")])
@pytest.mark.parametrize(
    "made_up",
    [
        text("0x" + "f" * 3900),
        text("[0x" + "f" * 3900 + "]"),
        execution(value={RESULT_MIME: {"int": "0x" + "f" * 5000}, "text/plain": "…"}),
        execution(stdout="-0x" + "f" * 3900),
    ],
)
def test_an_integer_that_python_does_not_write_is_told_as_text(made_up, expect):
    found = [] if expect["type"] == "string" else ["type"]

    assert codes(check_contract(made_up, expect)) == found


@pytest.mark.parametrize("shown", ["{[1]}", "{{}: 1}"])
def test_a_set_or_dict_that_python_cannot_make_is_told_as_text(shown):
    assert codes(check_contract(execution(stdout=shown), {"type": "number"})) == ["type"]
    assert codes(check_contract(text(shown), {"type": "string", "one_of": [shown]})) == []


def test_a_failed_run_has_no_result():
    [warning] = check_contract(execution(outcome=Outcome.TIMEOUT), {"type": "number"})

    assert (warning.code, warning.tier, warning.evidence) == ("contract.no_result", "error", {"outcome": "timeout"})


def test_a_table_with_one_cell_is_a_value():
    assert codes(check_contract(table([{"n": 7}]), {"type": "number", "min": 8})) == ["below_min"]


ROWS = [{"id": 1, "region": "north", "revenue": 10.5}, {"id": 2, "region": None, "revenue": 4.5}]


@pytest.mark.parametrize(
    ("expect", "found"),
    [
        ({"columns": ["id", "region", "revenue"], "extra_columns": False}, []),
        ({"columns": {"id": "integer", "region": "string", "revenue": "number"}}, []),
        ({"columns": ["id"], "extra_columns": False}, ["extra_columns"]),
        ({"columns": ["Id"]}, ["column_missing"]),
        ({"columns": {"revenue": "integer"}}, ["column_type"]),
        ({"columns": {"region": "date"}}, ["column_type"]),
        ({"unique": "id"}, []),
        ({"unique": ["nothing"]}, ["column_missing"]),
        ({"not_null": ["id"]}, []),
        ({"not_null": ["id", "region"]}, ["null"]),
        ({"min_rows": 2, "max_rows": 2}, []),
        ({"min_rows": 3}, ["too_few_rows"]),
        ({"max_rows": 1}, ["too_many_rows"]),
        ({"totals": {"revenue": 15}}, []),
        ({"totals": {"revenue": 30}}, ["total"]),
    ],
)
def test_a_table_keeps_its_contract_or_breaks_it(expect, found):
    assert codes(check_contract(table(ROWS), {"type": "table", **expect})) == found


def test_repeated_keys_are_told():
    rows = [{"a": 1, "b": 1}, {"a": 1, "b": 2}, {"a": 1, "b": 2}]

    [warning] = check_contract(table(rows), {"type": "table", "unique": ["a", "b"]})

    assert warning.message == "1 keys of a, b stand in several rows, such as 1, 2 in 2"


def test_numbers_beyond_all_floats_are_whole_and_have_no_sum():
    rows = table([{"a": 10**400, "b": 1e308}, {"a": 1, "b": 1e308}])

    kinds = check_contract(rows, {"type": "table", "columns": {"a": "integer", "b": "integer"}})
    sums = check_contract(rows, {"type": "table", "totals": {"a": 3, "b": 3}})

    assert codes(kinds) == []
    assert codes(sums) == ["total_unknown", "total_unknown"]


def test_a_table_that_is_shown_in_part_is_not_passed_in_silence():
    part = table(ROWS, truncated=True, row_count=5000)

    assert codes(check_contract(part, {"type": "table", "unique": ["id"]})) == ["partly_checked"]
    assert codes(check_contract(part, {"type": "table", "totals": {"revenue": 15}})) == ["total_unknown"]
    assert codes(check_contract(part, {"type": "table", "max_rows": 100})) == ["too_many_rows"]


def test_no_table_is_no_table():
    assert codes(check_contract(text("3"), {"type": "table"})) == ["type"]


@pytest.mark.parametrize(
    ("expect", "message"),
    [
        (3, r"expect: must be a dict such as \{'type': 'number'\}, not 3"),
        ({}, r"expect\['type'\]: must be one of number, integer, .*, not None"),
        ({"type": "float"}, r"expect\['type'\]: must be one of"),
        (
            {"type": "number", "minimum": 3},
            r"expect\['minimum'\]: is no key of a number; it has type, nullable, min, max",
        ),
        ({"type": "number", "min": "3"}, r"expect\['min'\]: must be a number, not '3'"),
        ({"type": "number", "min": 4, "max": 3}, r"expect\['min'\]: is above expect\['max'\]"),
        ({"type": "date", "min": "soon"}, r"expect\['min'\]: must be a date such as '2024-03-05'"),
        ({"type": "string", "one_of": []}, r"expect\['one_of'\]: must be a list of texts"),
        ({"type": "string", "pattern": "(a"}, r"expect\['pattern'\]: has a \( that nothing closes"),
        ({"type": "string", "pattern": r"(a)\1"}, r"expect\['pattern'\]: has \\1, which is not known"),
        ({"type": "string", "min_length": -1}, r"expect\['min_length'\]: must be a whole number from 0"),
        ({"type": "table", "columns": {"a": "int"}}, r"expect\['columns'\]\['a'\]: must be one of number"),
        ({"type": "table", "totals": {"a": "1"}}, r"expect\['totals'\]\['a'\]: must be a number"),
        ({"type": "table", "min_rows": 2, "max_rows": 1}, r"expect\['min_rows'\]: is above"),
        ({"type": "table", "columns": ["a"], "extra_columns": False, "unique": ["b"]}, "which is none of the columns"),
        ({"type": "number", "nullable": 1}, r"expect\['nullable'\]: must be a bool"),
    ],
)
def test_a_contract_that_cannot_be_meant_names_the_key(expect, message):
    with pytest.raises(InvalidArgument, match=message):
        check_contract(text("1"), expect)


def test_a_checked_contract_is_a_value():
    expect = {"type": "string", "pattern": "a+"}

    assert Contract.of(expect) == Contract.of(expect)
    assert check_contract(text("'aa'"), Contract.of(expect)) == []


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("abc", ["abc"], ["ab", "abcd", ""]),
        ("^a$", ["a"], ["b"]),
        ("a*b+c?", ["b", "aabbc", "bc"], ["a", "c", "bcc"]),
        ("(ab|c)+", ["ab", "cab"], ["", "a"]),
        ("a{2}", ["aa"], ["a", "aaa"]),
        ("a{2,}", ["aa", "aaaa"], ["a"]),
        ("a{1,3}", ["a", "aaa"], ["", "aaaa"]),
        ("a{0}", [""], ["a"]),
        ("(a{2}){2,3}", ["aaaa", "aaaaaa"], ["aa", "aaaaa"]),
        (r"\d+\.\d\d", ["12.50"], ["12.5", "12x50"]),
        (r"[^a-c\d]x", ["zx"], ["ax", "1x"]),
        (r"[]a]", ["]", "a"], ["b"]),
        (r"[a-]", ["-", "a"], ["b"]),
        (r"(?:x|)y", ["xy", "y"], ["x"]),
        (r"\w+\s\S", ["ab c"], ["ab  c d"]),
        (".", ["ä"], ["\n", "ab"]),
    ],
)
def test_patterns(pattern, yes, no):
    found = Pattern.of("pattern", pattern)

    assert [found.matches(one) for one in yes] == [True] * len(yes)
    assert [found.matches(one) for one in no] == [False] * len(no)


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", "(a*)*b", "a*a*a*a*a*a*b", "((a?){20})+b"])
def test_the_time_of_a_pattern_grows_with_the_text_only(pattern):
    found = Pattern.of("pattern", pattern)

    def cost(size):
        start = time.process_time()
        assert not found.matches("a" * size)
        return time.process_time() - start

    small = min(cost(500) for _ in range(3))

    assert cost(4000) < max(0.2, 24 * small)


@pytest.mark.parametrize(
    "pattern", ["a" * 501, "a{1001}", "(a{1000}){1000}", "(" * 40, "a**", "*", "[a", "a)", "\\", "a{x}"]
)
def test_a_pattern_that_is_not_known_is_refused(pattern):
    with pytest.raises(InvalidArgument, match="pattern: "):
        Pattern.of("pattern", pattern)
