"""Arithmetic of benchmarks/model_fleet.py, held against closed forms, conservation laws and its own simulation."""

import importlib.util
import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks/model_fleet.py"


def _load():
    spec = importlib.util.spec_from_file_location("model_fleet_for_tests", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


model = _load()
ONE_KIND = (model.Program("run", 10, 1),)


def station(given, name):
    return next(each for each in model.stations(given) if each.name == name)


def test_one_server_waits_as_in_m_m_1():
    found = model.wait(rate=80, service_s=0.01, servers=1)

    assert found.likely == pytest.approx(0.8)
    assert found.mean_s == pytest.approx(0.8 * 0.01 / 0.2)
    assert found.p99_s == pytest.approx(math.log(0.8 / 0.01) / (100 - 80))


def test_one_server_with_service_that_is_always_the_same_waits_half_as_long():
    half, whole = (model.wait(rate=80, service_s=0.01, servers=1, variation=each).mean_s for each in (0, 1))

    assert half == pytest.approx(whole / 2)  # Pollaczek and Khinchine


@pytest.mark.parametrize(
    ("servers", "offered", "likely"), [(2, 1, 1 / 3), (3, 2, 4 / 9), (10, 0, 0), (4, 4, 1), (4, 9, 1)]
)
def test_erlang_c_is_that_of_tables(servers, offered, likely):
    assert model.erlang_c(servers, offered) == pytest.approx(likely)


def test_what_is_asked_too_much_grows_without_end():
    assert model.wait(rate=101, service_s=0.01, servers=1) == model.Wait(1.0, math.inf, math.inf)


def test_a_mix_of_programs_has_their_mean_and_a_larger_variation_than_one_kind():
    mixed = model.Constants(programs=(model.Program("short", 1, 3), model.Program("long", 97, 1)))

    assert model.Constants(programs=ONE_KIND).service() == pytest.approx((0.010, 1))
    assert mixed.service()[0] == pytest.approx(0.025)
    assert mixed.service()[1] == pytest.approx((3 * 2 * 1e-6 + 2 * 0.097**2) / 4 / 0.025**2 - 1)


def test_lookups_are_none_for_who_asks_often_and_all_for_who_asks_seldom():
    assert model.lookups_a_request(gap_s=0, ttl_s=5) == 0
    assert model.lookups_a_request(gap_s=5, ttl_s=5) == 0.5
    assert model.lookups_a_request(gap_s=5, ttl_s=0) == 1


def test_live_sandboxes_are_rate_by_life_and_lost_ones_do_not_depend_on_the_number_of_nodes():
    given = model.Constants(sandboxes_an_hour=36_000, peak=3, life_s=100, node_mtbf_h=50)

    lost = [model.failures(replace(given, nodes=nodes))["sandboxes_lost_an_hour"] for nodes in (1, 100)]

    assert station(given, "places for sandboxes").demand == pytest.approx(10 * 3 * 100)
    assert lost == pytest.approx([20, 20])


def test_work_is_conserved_however_many_share_it():
    given = model.Constants()

    more = [replace(given, nodes=1), replace(given, nodes=50, gateways=9)]

    for name in ("processors of nodes", "loops of nodes", "loops of gateways", "links of gateways"):
        assert [station(each, name).demand for each in more] == pytest.approx([station(given, name).demand] * 2)


def test_as_many_as_are_needed_are_enough_and_one_less_is_not():
    given = model.Constants(sandboxes_an_hour=5e6)
    need = model.result(given)["needed"]

    def over(**changed):
        return [
            each
            for each in model.stations(replace(given, **changed))
            if each.kind in changed and each.load > each.target
        ]

    assert over(nodes=need["nodes"], gateways=need["gateways"]) == []
    assert over(nodes=need["nodes"] - 1) != []
    assert over(gateways=need["gateways"] - 1) != []


def test_the_rate_at_which_the_first_is_full_is_the_one_at_which_its_load_is_as_planned():
    given = model.Constants(nodes=400)
    found = model.result(given)

    at_most = replace(given, sandboxes_an_hour=found["sandboxes_an_hour_at_target"])
    first = station(at_most, found["first"])

    assert first.load == pytest.approx(first.target)
    assert all(each.load <= each.target + 1e-9 for each in model.stations(at_most))


def test_spare_nodes_are_those_of_the_binomial_distribution():
    assert model.spares(10, down=0, shortage=0.001) == 0
    assert model.spares(1, down=0.1, shortage=0.01) == 1  # both down: 0.01
    assert model.spares(1, down=0.1, shortage=0.0099) == 2
    assert model.spares(100, down=0.01, shortage=0.001) == 5


def test_costs_are_prices_by_numbers():
    given = model.Constants(
        nodes=10, node_price=2, gateways=3, gateway_price=0.5, catalogue_price=1, sandboxes_an_hour=5e5
    )

    found = model.result(given)

    assert found["cost_an_hour"]["given"] == pytest.approx(22.5)
    assert found["cost_a_million_sandboxes"]["given"] == pytest.approx(45)


def test_the_simulation_waits_as_the_formula_says_and_obeys_little():
    given = model.Constants(nodes=1, gateways=1, node_cores=4, programs=ONE_KIND)
    rate = 340.0

    placed = model.simulate(given, rate, choices=1, heartbeat_s=0, runs=100_000)

    said = model.wait(rate, 0.01, 4)
    assert placed.mean_s == pytest.approx(said.mean_s, rel=0.1)
    assert placed.p99_s == pytest.approx(said.p99_s, rel=0.1)
    assert placed.inside == pytest.approx(rate * placed.sojourn_s, rel=0.02)


def test_the_best_of_some_waits_less_than_chance_if_it_is_known_and_more_if_it_was_long_ago():
    given = model.Constants(nodes=10, gateways=4, node_cores=2, programs=ONE_KIND)
    rate = 0.7 * 10 * 2 / 0.01

    chance, known, own, long_ago = (
        model.simulate(given, rate, choices=choices, heartbeat_s=heartbeat_s, runs=20_000).mean_s
        for choices, heartbeat_s in ((1, 0), (3, 0), (3, math.inf), (3, 2))
    )

    assert known < own < chance < long_ago


def test_the_last_line_has_the_table_as_json_and_options_come_after_the_file(tmp_path):
    file = tmp_path / "measured.json"
    file.write_text(json.dumps({"gateway_request_ms": 1.0, "nodes": 7, "programs": [["run", 10, 1]]}))
    command = [sys.executable, SCRIPT, "--constants", file, "--nodes", "3", "--hinted", "--sandboxes-an-hour", "9e7"]

    done = subprocess.run(command, capture_output=True, text=True, check=True)

    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["constants"]["gateway_request_ms"], found["constants"]["nodes"]) == (1.0, 3)
    assert found["constants"]["programs"] == [["run", 10, 1]]
    assert f"first to be full: {found['first']}" in done.stdout
    assert found["stations"][0]["wait_mean_s"] is None
    assert "grows" in done.stdout


def test_a_constant_that_is_not_known_is_refused_by_name(tmp_path):
    file = tmp_path / "measured.json"
    file.write_text('{"gateway_requests_ms": 1.0}')

    done = subprocess.run([sys.executable, SCRIPT, "--constants", file], capture_output=True, text=True)

    assert done.returncode == 2
    assert done.stderr.endswith("no such constants: gateway_requests_ms\n")
