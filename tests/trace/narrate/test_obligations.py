"""At full detail nothing that was recorded is left out, and at every detail what is claimed is in the text."""

from __future__ import annotations

import ast

import pytest

from groundbox.trace.narrate.narration import ClaimKind
from groundbox.trace.narrate.narrator import narrate
from groundbox.trace.record import schema

UNNAMED = ("<lambda>", "<genexpr>", "<listcomp>", "<setcomp>", "<dictcomp>")


def told_activations(trace):
    return [
        activation
        for activation in trace.structure.activations.values()
        if activation.name.rpartition(".")[2] not in (*UNNAMED, "<module>") and not activation.class_body
    ]


def refs(told, *kinds):
    return {ref for claim in told.claims if claim.kind in kinds for ref in claim.refs}


def test_every_return_is_told(program):
    told = narrate(program, detail="full")

    returns = {activation.last for activation in told_activations(program) if activation.outcome == "return"}
    assert returns <= refs(told, ClaimKind.RETURN, ClaimKind.ANSWER)


def test_every_branch_is_told(program):
    told = narrate(program, detail="full")

    branches = {
        step.step
        for activation in told_activations(program)
        for step in activation.steps()
        if isinstance(step.statement, ast.If) and step.condition is not None
    }
    assert branches <= refs(told, ClaimKind.CONDITION)


def test_every_test_of_a_loop_is_told(program):
    told = narrate(program, detail="full")

    tests = {
        step.step
        for activation in told_activations(program)
        if activation.frame not in {record.f for record in program.records if isinstance(record, schema.Yield)}
        for step in activation.steps()
        if isinstance(step.statement, ast.While) and step.condition is not None
    }
    assert tests <= refs(told, ClaimKind.CONDITION)


def test_every_final_value_is_told(program):
    told = narrate(program, detail="full")

    frames = {activation.frame for activation in told_activations(program)}
    last = {
        (record.f, record.name): ref
        for ref, record in enumerate(program.records)
        if isinstance(record, schema.Set) and record.f in frames
    }
    values = {claim.subject: claim for claim in told.claims if claim.kind is ClaimKind.VALUE}
    assert {name for _, name in last} <= values.keys()
    state = program.state_at(len(program.records) - 1)
    atoms = {
        (name, state.text(program.records[ref].v))
        for (_, name), ref in last.items()
        if not isinstance(program.records[ref].v, dict)
    }
    assert atoms <= {(claim.subject, claim.value) for claim in told.claims}


def test_every_change_of_an_object_is_told(program):
    told = narrate(program, detail="full")

    frames = {activation.frame for activation in told_activations(program)}
    changes = {
        ref
        for frame in frames
        for step in program.structure.activations[frame].steps()
        for ref in step.effects
        if isinstance(program.records[ref], schema.Mutate)
    }
    assert changes <= refs(told, ClaimKind.MUTATION)


@pytest.mark.parametrize("style", ["prose", "steps"])
@pytest.mark.parametrize("detail", ["brief", "parts", "normal", "full"])
def test_what_is_claimed_of_a_name_is_in_the_sentence(program, detail, style):
    told = narrate(program, detail=detail, style=style)

    for sentence in told.sentences:
        for claim in sentence.claims:
            if claim.kind in (ClaimKind.VALUE, ClaimKind.MUTATION, ClaimKind.OUTPUT, ClaimKind.ANSWER):
                assert claim.value in sentence.text, claim
                assert claim.subject in sentence.text, claim


@pytest.mark.parametrize("detail", ["brief", "parts", "normal", "full"])
def test_a_value_is_told_as_the_record_has_it(program, detail):
    told = narrate(program, detail=detail)

    for claim in told.claims:
        record = program.records[claim.refs[0]] if len(claim.refs) == 1 else None
        if claim.kind is ClaimKind.VALUE and isinstance(record, schema.Set) and not isinstance(record.v, dict):
            assert (claim.subject, claim.value) == (record.name, program.state_at(claim.refs[0]).text(record.v))


def test_evidence_lies_in_the_trace(program):
    told = narrate(program, detail="full")

    assert all(claim.refs for claim in told.claims)
    assert all(0 <= ref < len(program.records) for claim in told.claims for ref in claim.refs)
