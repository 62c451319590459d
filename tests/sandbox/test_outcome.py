"""What the host adds to a guest's own account of its failure."""

import groundbox as gb
from groundbox.sandbox import environments


def test_a_missing_module_is_told_with_the_environment_that_has_it(monkeypatch):
    monkeypatch.setattr(environments, "which_has", lambda name: ["maths"] if name == "z3" else [])

    execution = gb.run("import z3.solver")

    assert execution.error.type == "ModuleNotFoundError"
    assert execution.error.hints[-1] == "The environment 'maths' has it: environment='maths' or --environment maths."


def test_a_missing_module_that_no_environment_has_gets_no_such_hint():
    execution = gb.run("import no_module_of_this_name")

    assert not any("The environment" in hint for hint in execution.error.hints)
