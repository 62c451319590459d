"""Which native tracer an environment gets: a prebuilt one that fits, else one compiled here, else none; and why."""

import asyncio
import importlib.util
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import NamedTuple

import pytest

import groundbox as gb
from groundbox import tracer as tracers
from groundbox.cli.doctor import _environment
from groundbox.guest.trace.native import build as native
from groundbox.sandbox import catalog, environments
from groundbox.sandbox.engine import Setup, current
from groundbox.sandbox.environments import tracer
from groundbox.trace import native as natives
from groundbox.trace import prebuilt, recorder
from groundbox.tracer import Native, Origin, TracedRun

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
    (natives._folder(made, tracer.folder()) / "told.json").unlink()
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
    told = natives._folder(made, tracer.folder()) / "told.json"

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


class Fake:
    """A tracer of another package: it has no native part, and its traces are the bytes that the guest wrote."""

    def __init__(self):
        self.asked, self.memories = [], []

    def for_environment(self, environment, folder, *, effort):
        self.asked.append((environment.name, folder, effort))
        return Native(None, Origin(None, ("it needs none",)))

    def memory(self, options):
        self.memories.append(FakeMemory())
        return self.memories[-1]

    def read(self, memory, run):
        return FakeTrace(os.pread(memory.copy, 1 << 20, 8), run)

    def loads(self, data, core=None):
        return FakeTrace(data, None)


class FakeMemory:
    def __init__(self):
        self.descriptor = os.memfd_create("fake")
        self.copy = os.dup(self.descriptor)
        os.ftruncate(self.descriptor, 1 << 20)

    def order(self):
        return {"soft_events": 100, "max_events": 100, "core": "plain"}

    def is_large(self):
        return False


class FakeTrace(NamedTuple):
    body: bytes
    run: TracedRun | None

    def summary(self):
        return {"bytes": len(self.body)}


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Installs a package with a tracer, and chooses it."""
    made = Fake()
    monkeypatch.setitem(sys.modules, "their_tracer", made)
    facts = tmp_path / "their_tracer-1.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: their-tracer\nVersion: 1\n")
    (facts / "entry_points.txt").write_text(f"[{tracers.ENTRY_POINTS}]\ntheirs = their_tracer\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv(tracers.CHOSEN_BY, "theirs")
    tracers._loaded.cache_clear()
    yield made
    tracers._loaded.cache_clear()


def test_another_package_brings_its_own_tracer(fake):
    with gb.Sandbox(profile="bare", hash_seed=5) as box:
        execution = box.run("s = 0\nfor i in range(3):\n    s += i", trace=True)

    records = [json.loads(line) for line in execution.trace.body.rstrip(b"\0").splitlines()]
    assert execution.outcome is gb.Outcome.OK
    assert {"line", "end"} <= {record["k"] for record in records}
    assert execution.trace.run._replace(python="", source="", why="") == TracedRun(
        source="", filename="main.py", mode="cell", call=None, args=(), kwargs={}, python="", hash_seed=5,
        outcome="ok", why="", core="plain",
    )  # fmt: skip
    assert fake.asked == [("default", tracer.folder(), "copy")]
    assert execution.to_dict()["trace"] == {"bytes": len(execution.trace.body)}


def test_what_an_environment_is_told_of_its_tracer_comes_from_the_tracer(fake):
    made = environments.get("default")

    assert tracer.standing(made) == (None, ("it needs none",))
    assert (tracer.find(made), tracer.ensure(made)) == (None, None)
    assert [effort for _, _, effort in fake.asked] == ["find", "find", "build"]


def test_an_unknown_tracer_is_refused_before_the_program_runs(monkeypatch):
    monkeypatch.setenv(tracers.CHOSEN_BY, "nobodys")

    with pytest.raises(gb.InvalidArgument, match="trace: there is no tracer 'nobodys'; installed are groundbox"):
        gb.run("1", trace=True)


def test_groundboxs_own_tracer_is_found_by_its_entry_point():
    own: tracers.Tracer = recorder

    assert tracers.find() is own


def test_a_checkout_has_its_tracer_whatever_its_metadata_say(tmp_path):
    """Those of an editable installation are as old as it is."""
    program = "from groundbox import tracer; print(tracer.find().__name__)"
    command = [sys.executable, "-S", "-c", program]  # without site-packages there is no metadata
    root = Path(tracers.__file__).parents[1]
    packages = tmp_path / "packages"
    packages.mkdir()
    for name in ("msgspec",):
        (packages / name).symlink_to(Path(importlib.util.find_spec(name).origin).parent)

    found = subprocess.run(
        command, env={"PYTHONPATH": f"{root}:{packages}"}, capture_output=True, text=True, check=False
    )

    assert found.stdout == "groundbox.trace.recorder\n", found.stderr


def test_a_trace_in_a_sandbox_that_began_without_one_has_the_native_tracer():
    if tracer.find(environments.get("default")) is None:
        pytest.skip("the environment has no native tracer")
    with gb.Sandbox(profile="bare") as box:
        box.run("x = 1")
        execution = box.run("x += 1", trace=gb.TraceOptions(core="native"))
        script = box.run("print(2)", mode="script", trace=gb.TraceOptions(core="native"))

    assert (execution.trace.core, script.trace.core) == ("native", "native")
