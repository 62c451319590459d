"""Checks of SQL in the sandbox that it ran in."""

import asyncio
import dataclasses

import pytest

from groundbox.agent import asking, checks
from groundbox.agent.checks import Ran, UsualChecks
from groundbox.agent.grounded import GroundedAgent
from groundbox.agent.messages import Call, Reply
from groundbox.agent.reply import Run
from groundbox.agent.scripted import ScriptedModel
from groundbox.agent.session import Session
from groundbox.agent.turn import Bounds
from groundbox.errors import SandboxLost
from groundbox.sandbox.portal import PORTAL

pytest.importorskip("sqlglot", reason="sqlglot is not installed: the extra `check` of groundbox brings it")
CUSTOMERS = "id,name,city\n1,Ada,Paris\n2,Grace,Rome\n3,Alan,Paris\n4,Alan Kay,Oslo\n"


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """What is found here must not depend on how busy the machine is."""
    monkeypatch.setattr(asking, "WALL_S", 60.0)


def program(source, language="python"):
    return Reply(calls=[Call(name="run_code", arguments={"code": source, "language": language}, call_id="c")])


def sql(source):
    return program(source, "sql")


def conversation(*replies, question="Who lives in Paris?"):
    """What the model was asked in the end, and the runs."""
    model = ScriptedModel([*replies, "Ada and Alan."])

    async def collect():
        agent = GroundedAgent(model, bounds=Bounds(max_mends=0))
        return [event async for event in agent.stream(question, files={"customers.csv": CUSTOMERS})]

    events = PORTAL.call(collect())
    return [event for event in events if hasattr(event, "observation")], model


def test_a_literal_in_the_wrong_case_over_a_file_is_told():
    (wrong, right), model = conversation(
        sql("SELECT name FROM 'customers.csv' WHERE city = 'paris'"),
        sql("SELECT name FROM 'customers.csv' WHERE city = 'Paris'"),
    )

    assert wrong.decision.verdict == "retry"
    assert "sql.value_absent: customers.csv.city holds 'Paris', not 'paris'" in model.asked[1][-1].text
    assert (right.decision.verdict, right.findings) == ("accept", [])


def test_a_literal_in_the_wrong_case_over_a_data_frame_is_told():
    (_, wrong), _ = conversation(
        program("import pandas as pd; people = pd.read_csv('customers.csv')"),
        sql("SELECT name FROM people WHERE city = 'paris'"),
    )

    assert [finding.code for finding in wrong.findings] == ["sql.value_absent", "sql.empty_result"]


def test_the_engine_of_the_query_is_asked(made):
    box = made.box(made.execution())
    query = dataclasses.replace(ran(made, box), options={"dialect": "sqlite"})

    asyncio.run(UsualChecks().of_run(query, "?"))

    assert {options["dialect"] for _, _, options in box.ran} == {"sqlite"}


def test_variables_of_the_conversation_stay_as_the_query_left_them():
    (_, told), _ = conversation(
        sql("SELECT name FROM 'customers.csv' WHERE city = 'paris'"),
        program("len(result), len(_sql)"),
    )

    assert told.execution.text == "(0, 0)"


@pytest.mark.parametrize(
    "source",
    [
        "SELECT * FROM 'customers.csv' LIMIT 2",
        "SELECT DISTINCT city FROM 'customers.csv'",
        "SELECT count(*) AS n FROM 'customers.csv'",
        "SELECT city FROM 'customers.csv'",
        "SELECT id FROM 'customers.csv' WHERE name LIKE '%Alan%'",
    ],
)
def test_a_look_at_the_data_is_not_taken_for_the_answer(source):
    (looked,), _ = conversation(sql(source))

    assert (looked.decision.verdict, looked.findings) == ("accept", [])


@pytest.mark.parametrize(
    "source",
    [
        "CREATE TABLE t AS SELECT * FROM 'customers.csv' WHERE city = 'paris'",
        "COPY (SELECT * FROM 'customers.csv' WHERE city = 'paris') TO 'out.csv'",
        "CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (1); SELECT a FROM t WHERE a = 1 AND a = 2",
        "DESCRIBE SELECT * FROM 'customers.csv'",
        "DESCRIBE ALL",
        "SUMMARIZE 'customers.csv'",
        "SELECT nextval('numbers') WHERE 1 = NULL",
    ],
)
def test_what_is_no_query_that_only_reads_is_left_alone(made, source):
    box = made.box(made.execution())

    found = asyncio.run(UsualChecks().of_run(ran(made, box, source), "Who lives in Paris?"))

    assert (found, box.ran) == ((), [])


def test_a_query_that_took_long_is_not_run_again(made):
    box = made.box(made.execution())
    took = made.execution(wall_s=asking.WALL_S)

    found = asyncio.run(UsualChecks().of_run(dataclasses.replace(ran(made, box), execution=took), "?"))

    assert (found, box.ran) == ((), [])


def test_queries_of_a_check_are_counted_and_timed(made):
    box = made.box(made.execution(value="1"))
    now = [0.0]

    async def ask():
        aside = asking.Aside(box, asyncio.get_running_loop(), clock=lambda: now[0])
        for _ in range(asking.MOST_QUERIES):
            await asyncio.to_thread(aside.run, "SELECT 1", wall_s=60, aside=True)
        with pytest.raises(asking.NotAsked):
            await asyncio.to_thread(aside.run, "SELECT 1", wall_s=60)
        late = asking.Aside(box, asyncio.get_running_loop(), clock=lambda: now[0])
        now[0] = asking.WALL_S
        with pytest.raises(asking.NotAsked):
            await asyncio.to_thread(late.run, "SELECT 1", wall_s=60)

    asyncio.run(ask())
    assert len(box.ran) == asking.MOST_QUERIES
    assert box.ran[0] == ("python", "SELECT 1", {"wall_s": asking.WALL_S, "aside": True})


def test_a_sandbox_that_is_lost_meanwhile_ends_the_check_without_a_finding(made):
    box = made.box(SandboxLost("gone"))

    assert asyncio.run(UsualChecks().of_run(ran(made, box), "?")) == []


def test_who_is_cancelled_leaves_no_query_behind(made):
    class Slow(made.box):  # type: ignore[name-defined]  # a class that a fixture made
        ended = False

        async def run(self, source, **options):
            self.ran.append(source)
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.ended = True

    async def cancelled():
        task = asyncio.create_task(UsualChecks().of_run(ran(made, box), "?"))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    box, begun = Slow(), asyncio.Event()
    asyncio.run(cancelled())

    assert (len(box.ran), box.ended) == (1, True)


def test_the_next_program_waits_for_the_check(made):
    order = []

    class Slow(checks.NoChecks):
        async def of_run(self, ran, question):
            order.append(f"check {ran.source}")
            await asyncio.sleep(0)
            order.append(f"checked {ran.source}")
            return ()

    async def both():
        session = Session(made.box(made.execution()), checks=Slow(), bounds=Bounds())
        await asyncio.gather(*(session.run(Run(source=each, language="python")) for each in "ab"))

    asyncio.run(both())
    assert order == ["check a", "checked a", "check b", "checked b"]


def ran(made, box, source="SELECT name FROM 'customers.csv' WHERE city = 'paris'"):
    return Ran(source=source, language="sql", execution=made.execution(value="x"), box=box)
