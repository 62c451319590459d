"""Environment variables of sandboxes and runs: every program sees them, and nothing else keeps them."""

import logging

import pytest

import groundbox as gb
from groundbox.errors import InvalidArgument
from groundbox.sandbox.variables import MOST_BYTES, MOST_VARIABLES, checked_variables

SHOW = {
    "python cell": ("import os; print(os.environ['REGION'])", {}),
    "python script": ("import os; print(os.environ['REGION'])", {"mode": "script"}),
    "a child of python": ("import os; os.system('echo $REGION')", {"mode": "script"}),
    "shell": ("echo $REGION", {"language": "shell"}),
    "javascript": ("console.log(process.env.REGION)", {"language": "javascript"}),
    "a cell of javascript": ("console.log(process.env.REGION)", {"language": "javascript", "mode": "cell"}),
}


@pytest.mark.parametrize(("source", "options"), SHOW.values(), ids=SHOW.keys())
def test_every_program_of_a_sandbox_has_its_variables(source, options):
    with gb.Sandbox(env={"REGION": "eu"}) as box:
        assert box.run(source, **options).stdout == "eu\n"
        box.run("1")
        assert box.run(source, **options).stdout == "eu\n"
    assert gb.run(source, env={"REGION": "eu"}, **options).stdout == "eu\n"


def test_a_started_process_has_them_before_any_run():
    with gb.Sandbox(env={"REGION": "eu"}) as box:
        assert b"".join(chunk.data for chunk in box.start("echo $REGION").output()) == b"eu\n"


def test_they_are_there_after_a_restart_and_in_forks():
    with gb.Sandbox(env={"REGION": "eu"}, restart="auto", branching=True) as box:
        box.run("import os; os.kill(os.getpid(), 9)")
        assert box.run("import os; os.environ['REGION']").text == "'eu'"
        [fork] = box.fork(1)
        with fork:
            assert fork.run("os.environ['REGION']").text == "'eu'"


def test_what_a_program_sets_stays_and_what_a_run_is_given_goes():
    with gb.Sandbox(env={"REGION": "eu"}) as box:
        box.run("import os; os.environ['REGION'] = 'us'")
        assert box.run("os.environ['REGION']").text == "'us'"
        given = box.run("os.environ['REGION'], os.environ['STAGE']", env={"REGION": "asia", "STAGE": "test"})
        assert given.text == "('asia', 'test')"
        assert box.run("os.environ['REGION'], 'STAGE' in os.environ").text == "('us', False)"


def test_a_script_is_given_variables_of_its_own_before_and_after_cells():
    with gb.Sandbox(env={"REGION": "eu"}) as box:
        for _ in range(2):
            script = box.run(
                "import os; print(os.environ['REGION'], os.environ['STAGE'])", mode="script", env={"STAGE": "a"}
            )
            assert script.stdout == "eu a\n"
            assert box.run("import os; 'STAGE' in os.environ").text == "False"


def test_one_sandbox_does_not_see_the_variables_of_another():
    gb.run("1", env={"REGION": "eu"})

    assert gb.run("import os; 'REGION' in os.environ").text == "False"


@pytest.mark.parametrize(
    "env",
    [
        {"A=B": "secret-value"},
        {"": "secret-value"},
        {"1A": "secret-value"},
        {"A": "secret-value\0"},
        {"A": b"secret-value"},
        {1: "secret-value"},
        "A=secret-value",
        {"A": "secret-value" * MOST_BYTES},
        {f"A{number}": "secret-value" for number in range(MOST_VARIABLES + 1)},
    ],
)
def test_variables_that_cannot_be_are_refused_without_their_values(env):
    for make in (lambda: gb.Sandbox(env=env), lambda: gb.run("1", env=env)):
        with pytest.raises(InvalidArgument, match="^env: ") as refused:
            make()
        assert "secret-value" not in str(refused.value)


def test_the_most_variables_are_accepted():
    env = {f"A{number}": "x" for number in range(MOST_VARIABLES - 1)}
    env["REST"] = "x" * (MOST_BYTES - sum(len(name) + 1 for name in env) - 4)

    assert checked_variables(env) == env
    with pytest.raises(InvalidArgument):
        checked_variables({**env, "REST": env["REST"] + "x"})


def test_a_value_is_in_no_log_and_no_result(caplog):
    with caplog.at_level(logging.DEBUG), gb.Sandbox(env={"TOKEN": "secret-value"}) as box:
        execution = box.run("import os; len(os.environ['TOKEN'])")

    assert execution.text == "12"
    assert "secret-value" not in caplog.text + execution.to_json() + repr(box.asynchronous)


def test_a_run_that_asks_for_more_time_than_its_sandbox_has_is_told():
    with gb.Sandbox(limits=gb.Limits(wall_s=5)) as box:
        more, less = box.run("1", wall_s=60), box.run("1", wall_s=2)

    assert [(warning.code, warning.message) for warning in more.warnings] == [
        ("run.limit_cut", "wall_s=60 is more than the limit of the sandbox, so the run had wall_s=5")
    ]
    assert less.warnings == ()


def test_a_refused_service_of_the_host_names_tools():
    for network in (None, gb.Network(loopback=True)):
        error = gb.run("import socket; socket.create_connection(('localhost', 5432))", network=network).error

        assert any("Sandbox(tools=[function])" in hint for hint in error.hints)
