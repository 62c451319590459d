"""What `check_answer` says of single statements."""

import pytest

from groundbox.check import check_answer
from groundbox.errors import InvalidArgument


def test_a_number_is_found_where_it_was_printed(transcripts):
    runs = [transcripts.execution(stdout="a 1\n"), transcripts.execution(stdout="x\nrevenue 1234.5\n")]

    report = check_answer("The revenue is 1,234.5.", runs)

    [mention] = report.mentions
    assert (mention.support.execution, mention.support.part, mention.support.where) == (1, "stdout", "line 2")
    assert (mention.text, mention.start, mention.end) == ("1,234.5", 15, 22)
    assert report.ok


def test_an_unsupported_number_is_a_warning_with_its_place(transcripts):
    report = check_answer("Revenue: 99.", [transcripts.execution(stdout="revenue 98\n")])

    [warning] = report.warnings
    assert (warning.code, warning.tier) == ("answer.unsupported_number", "error")
    assert warning.evidence["text"] == "99"
    assert not report.ok
    assert report.to_dict()["counts"]["unsupported"] == 1


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("It has 1,234.5 units.", "1,234.5"),
        ("It has 1'234.5 units.", "1'234.5"),
        ("It has 1.234,5 units.", "1.234,5"),
        ("It has 1\u202f234.5 units.", "1\u202f234.5"),
        ("It has 1.2345e3 units.", "1.2345e3"),
        ("It has 1.2345 × 10^3 units.", "1.2345 × 10^3"),
        ("It has **1234.5** units.", "1234.5"),
        ("It has `1234.5` units.", "1234.5"),
        ("It has 1\u200b234.5 units.", "1234.5"),
        ("It has \x1b[1m1234.5\x1b[0m units.", "1234.5"),
    ],
)
def test_every_way_to_write_a_number_is_the_same_number(check, answer, text):
    assert check(answer, "units 1234.5\n") == {text: "exact"}
    assert check(answer, "units 1235.5\n") == {text: "unsupported"}


@pytest.mark.parametrize(
    ("answer", "stdout", "verdict"),
    [
        ("The loss is (1,500).", "profit -1500\n", "exact"),
        ("It changed by −7.25 points.", "change -7.25\n", "exact"),
        ("About 12 % left.", "churn 0.1198\n", "derivable"),
        ("Twenty-five people came.", "people 25\n", "exact"),
        ("Two hundred and forty people came.", "people 240\n", "exact"),
        ("It took 2.5 minutes.", "took 150 s\n", "derivable"),
        ("It took 3.5 minutes.", "took 150 s\n", "unsupported"),
        ("Over 1,200 came.", "visitors 1250\n", "derivable"),
        ("Over 1,300 came.", "visitors 1250\n", "unsupported"),
        ("Nearly 1,300 came.", "visitors 1250\n", "derivable"),
        ("Exactly 1,300 came.", "visitors 1250\n", "unsupported"),
    ],
)
def test_a_number_holds_or_not(check, answer, stdout, verdict):
    assert list(check(answer, stdout).values()) == [verdict]


def test_a_small_number_that_merely_stands_somewhere_supports_nothing(check):
    many = "\n".join(
        f"{name} {n}" for n, name in enumerate(["ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen"], 3)
    )

    assert check("There are 7 broken wheels.", many)["7"] == "unsupported"
    assert check("There are 7 foxes among the eel.", many)["7"] == "exact"


def test_a_derivation_is_spelled_out(transcripts):
    report = check_answer("From 200 to 250: 25 % more.", [transcripts.execution(stdout="before 200\nafter 250\n")])

    assert [m.support.derivation for m in report.mentions] == ["", "", "from 200 to 250"]


def test_few_digits_are_not_derived_from_a_large_table(check):
    table = "\n".join(f"row{n} {n * n * 37 % 1009}" for n in range(1, 60))

    assert check("The gap is 12 %.", table) == {"12 %": "unsupported"}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("1. Load the data", "numbering of a list"),
        ("I did it in two steps.", "counts parts of the answer"),
        ("It needs Python 3.12 at least.", "a version"),
        ("The file is UTF-8.", "part of a name"),
        ("As ISO 8601 says.", "the name of a standard"),
        ("See Table 2 below.", "the number of a section, a table or a step"),
        ("The 95 % confidence interval is wide.", "a level of confidence"),
        ("No one of them.", "a pronoun"),
    ],
)
def test_a_number_that_claims_nothing_is_told_as_such(transcripts, answer, reason):
    report = check_answer(answer, [transcripts.execution(stdout="x\n")])

    assert [(str(m.verdict), m.reason) for m in report.mentions] == [("no_claim", reason)]


def test_what_the_question_says_is_given(check):
    assert check("Of the 500 you named, 40.", "hits 40\n", question="Which of my 500 rows?") == {
        "500": "given",
        "40": "exact",
    }


def test_an_ambiguous_date_is_noted(transcripts):
    report = check_answer("On 3/4/2024.", [transcripts.execution(stdout="2024-04-03\n")])

    assert [str(m.verdict) for m in report.mentions] == ["exact"]
    assert [w.code for w in report.warnings] == ["answer.ambiguous_date"]
    assert report.warnings[0].evidence["readings"] == ["2024-03-04", "2024-04-03"]


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("March 3, 2024", "exact"),
        ("3rd of March 2024", "exact"),
        ("2024-03-03", "exact"),
        ("March 2024", "derivable"),
        ("Q1 2024", "derivable"),
        ("the first quarter of 2024", "derivable"),
        ("First Quarter of 2024", "derivable"),
        ("the first-quarter 2024", "derivable"),
        ("the second quarter 2024", "unsupported"),
        ("March 4, 2024", "unsupported"),
        ("Q2 2024", "unsupported"),
        ("April 2024", "unsupported"),
    ],
)
def test_dates(check, text, verdict):
    assert list(check(f"It was {text}.", "on 2024-03-03 at noon\n").values()) == [verdict]


def test_a_number_is_found_in_the_cut_part_of_an_output(transcripts):
    class Handle:
        def read(self, offset=0, size=1 << 20):
            return (b"head\n" + b"x" * 100_000 + b"\nhidden 987654\n" + b"y" * 100_000)[offset : offset + size]

    run = transcripts.execution(
        stdout="head\n… 200000 bytes left out …\nyyy\n", outputs={"stdout": Handle()},
        dropped_bytes={"stdout": 200_000, "stderr": 0},
    )  # fmt: skip

    report = check_answer("The result is 987,654, not 987,655.", [run])

    assert [str(m.verdict) for m in report.mentions] == ["exact", "unsupported"]
    assert report.mentions[0].support.where == "line 3"


def test_a_number_beyond_those_that_are_kept_is_found_all_the_same(transcripts):
    text = "".join(f"{n}\n" for n in range(100_000, 160_000))

    class Handle:
        def read(self, offset=0, size=1 << 20):
            return text.encode()[offset : offset + size]

    run = transcripts.execution(stdout=text, outputs={"stdout": Handle()})

    report = check_answer("The last one is 159,999, the next would be 170,001.", [run])

    assert [str(m.verdict) for m in report.mentions if m.text != "one"] == ["exact", "unsupported"]
    assert report.dropped == {"numbers shown": 10_003}  # with the three of what the run cost


def test_names_of_code_are_looked_for_in_the_programs(check):
    assert check("`net_total` holds it, `gross` does not.", "1\n", programs=["net_total = 3"]) == {
        "`net_total`": "no_claim",
        "`gross`": "unsupported",
    }


def test_the_same_answer_gives_the_same_report(transcripts):
    runs = [transcripts.execution(stdout="a 10\nb 20\nc 35\n")]

    reports = [check_answer("Total 65, mean 21.7, and 99.", runs).to_dict() for _ in range(2)]

    assert reports[0] == reports[1]


def test_an_answer_that_is_too_long_is_refused():
    with pytest.raises(InvalidArgument, match="check it in parts"):
        check_answer("1" * 2_000_001, [])
