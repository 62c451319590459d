"""Builds on a Ray cluster of three machines of namespaces, which lose power, are cut off, and lose their head.

Whatever happens, the dataset is the same to the last byte as that of a build on one machine.
"""

import importlib.util
import os
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from groundbox.dataset import part_store

ROOT = Path(__file__).parents[2]
PROGRAMS = 40


def _load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


fleet_rig, rig_ray = _load("fleet_rig"), _load("rig_ray")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.needs_root(reason="machines are made of namespaces and links"),
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed (extra `ray`)"),
    pytest.mark.skipif(
        os.geteuid() == 0 and bool(fleet_rig.missing()), reason=f"a rig needs {', '.join(fleet_rig.missing())}"
    ),
]


class Built:
    """A build under way on a cluster of three machines."""

    def __init__(self, rig, folder, problems, here):
        self.rig, self.folder, self.problems, self.here = rig, folder, problems, here
        self.out = folder / "out"
        self.ray = rig_ray.RigRay(rig, folder)
        self.ray.start()
        self.process = None

    def begin(self, machine, parts=2):
        """Start it, and wait until so many of its parts are there."""
        self.process = self.ray.build(machine, self.problems, self.out)
        while self.process.poll() is None and len(self.parts()) < parts:
            time.sleep(0.05)
        assert self.process.poll() is None, self.told()

    def parts(self):
        """Times of the parts of the stage that runs programs, by name."""
        return {each.name: each.stat().st_mtime_ns for each in (self.out / part_store.FOLDER).glob("run-*.jsonl")}

    def told(self):
        """What the build said to people."""
        lines = (self.folder / "build.log").read_text().splitlines()
        return [line for line in lines if not line.startswith("{")]

    def is_as_here(self):
        return _contents(self.out) == _contents(self.here)


def _contents(out):
    files = [each for each in out.iterdir() if each.is_file() and each.name != "report.json"]
    return {each.name: each.read_bytes() for each in files}


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """Problems, and what a build of this machine alone makes of them."""
    folder = tmp_path_factory.mktemp("here")
    rows = (ROOT / "examples/problems/everyday.jsonl").read_text().splitlines()[:PROGRAMS]
    (folder / "problems.jsonl").write_text("\n".join(rows) + "\n")
    rig_ray.build_here(folder / "problems.jsonl", folder / "out")
    return folder


@pytest.fixture
def built(here, tmp_path):
    with fleet_rig.Rig(3, keep=[here, tmp_path]) as rig:
        yield Built(rig, tmp_path, here / "problems.jsonl", here / "out")


def test_a_machine_without_power_costs_its_shards_which_are_named_and_done_again(built):
    one, _, three = built.rig.machines
    built.begin(one)

    three.kill()
    assert built.process.wait(180) == 0, built.told()

    (line,) = built.told()
    assert line.startswith("groundbox: machine-3 (10.213.0.13, ")
    assert ": done again elsewhere" in line
    assert built.is_as_here()


def test_a_machine_that_is_cut_off_for_half_a_minute_costs_its_shards(built):
    one, _, three = built.rig.machines
    built.begin(one)

    three.cut()
    time.sleep(30)
    three.heal()
    assert built.process.wait(180) == 0, built.told()

    assert any("machine-3" in line and ": done again elsewhere" in line for line in built.told())
    assert built.is_as_here()


def test_a_driver_that_is_killed_is_started_again_and_no_part_is_made_twice(built):
    one, two, _ = built.rig.machines
    built.begin(one)

    built.process.kill()
    built.process.wait(30)
    kept = built.parts()
    built.begin(two, parts=len(kept) + 1)
    again = built.parts()
    assert built.process.wait(180) == 0, built.told()

    assert kept.items() <= again.items()
    assert built.is_as_here()


@pytest.mark.parametrize("how", ["kill", "cut"])
def test_without_its_head_a_build_ends_within_a_minute_says_so_and_goes_on_with_another(built, how):
    one, two, _ = built.rig.machines
    built.begin(two)

    since = time.monotonic()
    getattr(one, how)()
    status = built.process.wait(180)
    took_s = time.monotonic() - since
    kept = built.parts()
    for machine in built.rig.machines:  # as an operator does
        machine.heal()
        machine.kill()
        machine.boot()
    told = built.told()
    if status:
        built.ray.start()
        built.begin(one, parts=len(kept))
        assert built.process.wait(180) == 0, built.told()

    # What the two others had left may have been done before Ray's head was given up.
    assert status == 0 or "groundbox: Ray's head has not answered for" in told[-1]
    assert took_s < 60
    assert built.is_as_here()
