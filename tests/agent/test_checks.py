import asyncio

import pytest

from groundbox.agent import checks
from groundbox.agent.checks import Ran, Receipts, UsualChecks, find
from groundbox.databases.database import Database
from groundbox.execution import Warning

FOUND = Warning(code="a.b", tier="warn", message="hm")


@pytest.fixture
def asked(monkeypatch):
    """What the checks were asked, with checks that find something."""
    calls = []

    def standing(name):
        def check(*arguments, **options):
            calls.append((name, arguments, options))
            return [FOUND]

        return check

    monkeypatch.setattr(checks, "find", standing)
    return calls


def ran(made, language, **options):
    return Ran(source="source", language=language, execution=made.execution(stdout="1"), options=options)


def test_programs_of_python_are_checked_with_what_came_of_them(made, asked):
    each = ran(made, "python")

    assert asyncio.run(UsualChecks().of_run(each, "How many?")) == [FOUND]
    assert asked == [("check_python", ("source", each.execution), {})]


def test_queries_of_a_database_are_checked_in_it_and_others_are_not(made, asked):
    shop = Database(url="postgresql://reader@host/shop")
    usual = UsualChecks(databases={"shop": shop})

    assert asyncio.run(usual.of_run(ran(made, "sql", database="shop"), "How many?")) == [FOUND]
    assert asyncio.run(usual.of_run(ran(made, "sql"), "How many?")) == ()
    assert asyncio.run(usual.of_run(ran(made, "shell"), "How many?")) == ()
    assert asked == [("check_sql", ("source",), {"database": shop, "question": "How many?"})]


def test_a_check_that_is_not_there_is_done_without(made, monkeypatch):
    assert find("check_nothing_of_this_name") is None

    monkeypatch.setattr(checks, "find", lambda name: None)
    assert asyncio.run(UsualChecks().of_run(ran(made, "python"), "")) == ()
    assert asyncio.run(UsualChecks().of_answer("42", [], "")) == Receipts()


def test_a_check_that_fails_is_told_and_ends_nothing(made, monkeypatch):
    def broken(*_, **__):
        raise ZeroDivisionError

    monkeypatch.setattr(checks, "find", lambda name: broken)

    (found,) = asyncio.run(UsualChecks().of_run(ran(made, "python"), ""))
    assert (found.code, found.tier) == ("check.failed", "note")
    assert "check_python failed" in found.message
    assert asyncio.run(UsualChecks().of_answer("42", [], "")) == Receipts()


def test_the_real_check_of_answers_finds_a_number_that_no_run_showed(made):
    if find("check_answer") is None:
        pytest.skip("groundbox.check.check_answer is not there")
    shown = [Ran(source="print(41)", language="python", execution=made.execution(stdout="41\n"))]

    assert asyncio.run(UsualChecks().of_answer("There are 41 rows.", shown, "How many?")).unsupported == []
    (claim,) = asyncio.run(UsualChecks().of_answer("There are 42387 rows.", shown, "How many?")).unsupported
    assert "42387" in claim.message
