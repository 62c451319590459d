"""Which native tracer an environment gets: a prebuilt one that fits, else one compiled here, else none; and why."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from groundbox.cli.doctor import _environment
from groundbox.guest.trace.native import build as native
from groundbox.sandbox import catalog, environments
from groundbox.sandbox.engine import Setup, current
from groundbox.sandbox.environments import prebuilt, tracer

PYTHON = Path(sys._base_executable)  # type: ignore[attr-defined]  # typeshed has it not
WITH_COMPILER = os.environ["PATH"]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    made = native.build(PYTHON, tmp_path_factory.mktemp("compiled"))
    if isinstance(made, native.NotBuilt):
        pytest.skip(made.reason)
    return made


@pytest.fixture
def came_with_it(compiled, tmp_path, monkeypatch):
    """What a wheel for this platform brings, with the tracer for this interpreter only."""
    folder = tmp_path / "tracers"
    folder.mkdir()
    (folder / compiled.name).write_bytes(compiled.read_bytes())
    (folder / prebuilt.MADE_FROM).write_text(json.dumps({"sources_sha256": native.sources_sha256()}))
    monkeypatch.setattr(prebuilt, "FOLDER", folder)
    return folder / compiled.name


@pytest.fixture
def taken(tmp_path):
    """What came of asking for a prebuilt tracer, and what it left in the folder."""

    def take(interpreter=PYTHON):
        into = tmp_path / "into"
        into.mkdir()
        made = prebuilt.take(interpreter, into)
        return made.reason if isinstance(made, native.NotBuilt) else made, sorted(each.name for each in into.iterdir())

    return take


@pytest.fixture
def environment(tmp_path, monkeypatch):
    """Makes one, where no compiler is found."""
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "nothing").mkdir()
    monkeypatch.setenv("GROUNDBOX_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.delenv("CC", raising=False)
    return lambda: environments.create("tiny", lock=tmp_path / "empty.txt", python=PYTHON)


def test_a_prebuilt_tracer_that_fits_is_copied(came_with_it, taken, tmp_path):
    assert taken() == (tmp_path / "into" / came_with_it.name, [came_with_it.name])
    assert (tmp_path / "into" / came_with_it.name).read_bytes() == came_with_it.read_bytes()


def test_one_of_other_sources_is_not(came_with_it, taken):
    came_with_it.with_name(prebuilt.MADE_FROM).write_text('{"sources_sha256": "0123456789abcdef"}')

    assert taken() == ("the prebuilt tracers were made from other C sources (0123456789ab)", [])


def test_one_for_another_interpreter_is_not(came_with_it, taken):
    came_with_it.rename(came_with_it.with_name("_groundbox_tracer.cpython-39-riscv64-linux-gnu.so"))

    assert taken() == (f"there is no prebuilt {came_with_it.name}", [])


def test_one_that_does_not_load_is_not(came_with_it, taken):
    came_with_it.write_text("not a library")

    reason, left = taken()

    assert reason.startswith(f"the prebuilt {came_with_it.name} does not load: {came_with_it.name}: ")
    assert left == []


def test_one_that_ends_the_process_is_not(came_with_it, taken):
    content = came_with_it.read_bytes()
    came_with_it.write_bytes(content[: len(content) // 3])

    reason, left = taken()

    assert reason.startswith(f"the prebuilt {came_with_it.name} ended its trial by signal ")
    assert left == []


def test_one_that_ends_the_process_as_if_all_were_well_is_not(came_with_it, taken, tmp_path):
    source = tmp_path / "ends.c"
    source.write_text("#include <stdlib.h>\n__attribute__((constructor)) static void end(void) { exit(0); }\n")
    subprocess.run([*native._compiler(), "-shared", "-fPIC", "-o", came_with_it, source], check=True)

    assert taken() == (f"the prebuilt {came_with_it.name} ended its trial with status 0", [])


@pytest.mark.parametrize("status", [0, 3])
def test_one_whose_trial_ends_without_a_word_is_not(came_with_it, taken, tmp_path, status):
    wrapper = tmp_path / "python"
    wrapper.write_text(f'#!/bin/sh\ncase "$*" in *trial.py*) exit {status};; esac\nexec {PYTHON} "$@"\n')
    wrapper.chmod(0o755)

    assert taken(wrapper) == (f"the prebuilt {came_with_it.name} ended its trial with status {status}", [])


def test_one_that_writes_other_records_is_not(came_with_it, taken):
    content = came_with_it.read_bytes()
    assert b'"raise"' in content
    came_with_it.write_bytes(content.replace(b'"raise"', b'"raisd"'))

    assert taken() == (f"the prebuilt {came_with_it.name} does not write what the plain core writes", [])


def test_without_a_compiler_the_prebuilt_tracer_is_used(came_with_it, environment):
    made = environment()

    assert tracer.find(made).read_bytes() == came_with_it.read_bytes()
    assert tracer.standing(made) == ("prebuilt", ())
    assert _environment("tiny")["tracer"] == {"origin": "prebuilt", "passed_over": ()}
    assert _environment("tiny")["detail"].endswith(", native tracer prebuilt")


def test_a_prebuilt_tracer_that_does_not_fit_is_compiled_in_its_place(came_with_it, environment, monkeypatch, compiled):
    came_with_it.unlink()
    monkeypatch.setenv("PATH", WITH_COMPILER)

    made = environment()

    reason = f"there is no prebuilt {came_with_it.name}"
    assert tracer.find(made).name == compiled.name
    assert tracer.standing(made) == ("compiled", (reason,))
    assert _environment("tiny")["detail"].endswith(f", native tracer compiled ({reason})")


def test_without_both_it_is_told_why_and_what_to_do(environment):
    made = environment()

    standing = tracer.standing(made)
    facts = _environment("tiny")
    assert tracer.find(made) is None
    assert (standing.origin, standing.passed_over[0]) == (None, "this groundbox came without prebuilt tracers")
    assert standing.passed_over[1].startswith(("no C compiler: $CC is not set", "no headers: "))
    assert facts["works"] is True
    assert facts["detail"].endswith(f", {standing.words}")
    assert facts["mend"].endswith("the headers of this Python, then: groundbox environment update tiny")


def test_an_environment_of_an_older_groundbox_gets_it_when_a_trace_is_asked_for(environment, request):
    made = environment()
    before = tracer.for_a_trace(made)
    (tracer._folder(made) / "told.json").unlink()
    came_with_it = request.getfixturevalue("came_with_it")

    assert before is None
    assert tracer.standing(made).passed_over == (
        "none was made ready yet; `groundbox environment create` or `update` does",
    )
    assert tracer.for_a_trace(made).read_bytes() == came_with_it.read_bytes()
    assert tracer.standing(made) == ("prebuilt", ())


def test_what_did_not_fit_is_not_tried_for_every_trace(came_with_it, environment):
    good = came_with_it.read_bytes()
    came_with_it.write_text("not a library")
    made = environment()
    came_with_it.write_bytes(good)

    assert tracer.for_a_trace(made) is None
    assert tracer.ensure(made) is not None


def test_what_failed_for_a_reason_that_passes_is_tried_again(came_with_it, environment, monkeypatch):
    monkeypatch.setattr(prebuilt, "_WITHIN_S", 0)
    made = environment()
    told = tracer._folder(made) / "told.json"

    assert tracer.for_a_trace(made) is None
    assert not told.exists()
    monkeypatch.setattr(prebuilt, "_WITHIN_S", 60)
    assert tracer.for_a_trace(made).name == came_with_it.name
    assert [each.name for each in told.parent.iterdir() if each.name.startswith(".")] == []


def test_the_loop_goes_on_while_one_is_taken_for_two_callers(monkeypatch):
    """It ends only if the loop runs beside the attempt, and lets it go on."""
    calls, loop_ran = [], threading.Event()

    def slow(environment):
        calls.append((environment.name, loop_ran.wait(10)))

    async def two():
        engine = await current()
        asyncio.get_running_loop().call_later(0, asyncio.get_running_loop().call_soon, loop_ran.set)
        return await asyncio.gather(*(engine._recipe(Setup(traced=True, hash_seed=seed), catalog) for seed in (1, 2)))

    monkeypatch.setattr(tracer, "for_a_trace", slow)
    recipes = asyncio.run(two())

    assert calls == [("default", True)]
    assert [recipe.tracer for recipe in recipes] == ["", ""]
