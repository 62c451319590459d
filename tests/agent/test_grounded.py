import pytest

from groundbox.agent.checks import NoChecks
from groundbox.agent.events import Ending
from groundbox.agent.grounded import GroundedAgent
from groundbox.agent.messages import Call, Reply
from groundbox.agent.scripted import ScriptedModel
from groundbox.databases.database import Database
from groundbox.errors import InvalidArgument
from groundbox.sandbox.portal import PORTAL

TOTAL = "SELECT sum(amount) FROM orders"


def code(source):
    return Reply(calls=[Call(name="run_code", arguments={"code": source}, call_id="c")])


def test_files_are_there_and_named_to_the_model(tmp_path):
    (tmp_path / "host.txt").write_text("from the host")
    model = ScriptedModel([code("print(open('a.txt').read(), open('b/host.txt').read())"), "Both are read."])

    ended = PORTAL.call(
        GroundedAgent(model).ask("What is in them?", files={"a.txt": "text", "b/host.txt": tmp_path / "host.txt"})
    )

    assert ended.ending is Ending.ANSWERED
    assert ended.executions[0].stdout == "text from the host\n"
    assert "a.txt  4 bytes\nb/host.txt  13 bytes" in model.asked[0][1].text


def test_a_value_that_is_not_what_was_expected_is_told_before_it_is_used():
    expected = {"code": "120.5 - 200", "expect": {"type": "number", "min": 0}}
    model = ScriptedModel(
        [Reply(calls=[Call(name="run_code", arguments=expected, call_id="c")]), code("200 - 120.5"), "It is 79.5."]
    )

    ended = PORTAL.call(GroundedAgent(model).ask("How much is left of 200 after 120.5?"))

    assert "error contract.below_min: -79.5 is below 0" in model.asked[1][-1].text
    assert (ended.ending, ended.answer) == (Ending.ANSWERED, "It is 79.5.")


def test_a_process_that_ends_is_started_afresh_with_its_files():
    model = ScriptedModel(
        [code("open('kept', 'w').write('x'); import os; os._exit(7)"), code("open('kept').read()"), "x"]
    )

    ended = PORTAL.call(GroundedAgent(model).ask("?"))

    assert [execution.text for execution in ended.executions] == [None, "'x'"]
    assert "variables of earlier runs are gone" in model.asked[2][-1].text


def test_output_that_was_cut_can_be_read():
    read = Reply(calls=[Call(name="read_output", arguments={"handle": "1.stdout", "pattern": "needle"}, call_id="r")])
    model = ScriptedModel([code("for i in range(200_000): print(i, 'needle' if i == 123_456 else '')"), read, "Found."])

    PORTAL.call(GroundedAgent(model).ask("?"))

    assert 'left out; read_output("1.stdout")' in model.asked[1][-1].text
    assert "123457: 123456 needle" in model.asked[2][-1].text


def test_what_cannot_be_meant_is_refused_before_anything_is_asked():
    model = ScriptedModel(["x"])

    with pytest.raises(InvalidArgument):
        PORTAL.call(GroundedAgent(model).ask("?", files={"../a": "x"}))
    assert model.asked == []


def test_a_database_is_asked_by_its_name(postgres):
    query = Call(name="run_code", arguments={"code": TOTAL, "language": "sql", "database": "shop"}, call_id="c")
    unknown = Call(name="run_code", arguments={"code": TOTAL, "language": "sql", "database": "other"}, call_id="c")
    model = ScriptedModel([Reply(calls=[unknown]), Reply(calls=[query]), "It is 14.75."])
    database = Database(url=postgres.url("reader"))

    ended = PORTAL.call(GroundedAgent(model, databases={"shop": database}, checks=NoChecks()).ask("How much?"))

    assert ended.ending is Ending.ANSWERED
    assert "14.75" in ended.executions[-1].text
    assert "SQL reaches these databases by `database`: shop." in model.asked[0][0].text
    assert "'other'" in model.asked[1][-1].text
    assert postgres.folder not in str(model.asked)


def tried(*programs):
    return Reply(calls=[Call(name="try_programs", arguments={"programs": list(programs)}, call_id="t")])


def kept(run):
    return Reply(calls=[Call(name="keep_run", arguments={"run": run}, call_id="k")])


def test_each_of_several_programs_has_the_variables_and_files_to_itself():
    programs = [f"x.append({n}); open('f', 'a').write('{n}')" for n in (1, 2, 3)]
    look = "print(x, open('f').read())"
    model = ScriptedModel(
        [code("x = [0]; open('f', 'w').write('0')"), tried(*programs), code(look), kept(3), code(look), "x"]
    )

    ended = PORTAL.call(GroundedAgent(model, branches=3).ask("?"))

    assert [each.stdout for each in ended.executions] == ["", "", "", "", "[0] 0\n", "[0, 2] 02\n"]


def test_variables_that_were_worked_out_on_the_host_are_there_on_every_copy():
    model = ScriptedModel(
        [code("x = 6 * 7\nx"), tried("print([x])", "print({x})"), kept(3), code("print(x, 'on')"), "x"]
    )

    ended = PORTAL.call(GroundedAgent(model, branches=2).ask("?"))

    assert [each.stdout for each in ended.executions] == ["", "[42]\n", "{42}\n", "42 on\n"]


def test_a_program_that_fails_is_taken_back_where_that_is_asked_for():
    wrong = "x.append(1); open('f', 'w').write('half'); 1 / 0"
    look = "import os; print(x, os.path.exists('f'))"
    taken_back = ScriptedModel([code("x = []"), code(wrong), code(look), "x"])
    usual = ScriptedModel([code("x = []"), code(wrong), code(look), "x"])

    back = PORTAL.call(GroundedAgent(taken_back, rollback="on_error").ask("?"))
    left = PORTAL.call(GroundedAgent(usual).ask("?"))

    assert (back.executions[2].stdout, left.executions[2].stdout) == ("[] False\n", "[1] True\n")
    shown = taken_back.asked[2][-1].text
    assert shown.startswith("run 2 (python): failed, variables and files are as they were before it\n")
    assert "<files" not in shown


@pytest.mark.parametrize("branches", [0, 9, True, "2"])
def test_a_number_of_branches_that_cannot_be_meant_is_refused(branches):
    with pytest.raises(InvalidArgument, match="must be a whole number from 1 to 8"):
        GroundedAgent(ScriptedModel([]), branches=branches)
