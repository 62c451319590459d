"""Protocols whose sandboxes have a loopback of their own, on a server whose backend can give none."""

import httpx
import pytest

from ..conftest import TOKEN, serving

REQUESTS = {
    "/v1/run": {"code": "print(6 * 7)"},
    "/run_code": {"code": "print(6 * 7)"},
    "/run_jupyter": {"cells": ["print(6 * 7)"]},
}


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    waived = ["--waive", "uid"]  # a guest's user id may not enter the folder of the environment everywhere
    log, headers = tmp_path_factory.mktemp("landlock") / "log", {"Authorization": f"Bearer {TOKEN}"}
    with (
        serving(log, "--backend", "landlock", *waived) as server,
        httpx.Client(base_url=server.url, headers=headers, timeout=120) as client,
    ):
        answer = client.post("/v1/run", json={"code": "1"})
        if answer.status_code == 503:
            pytest.skip(f"landlock runs nothing here: {answer.json()['message']}")
        yield client


@pytest.mark.parametrize("path", REQUESTS)
def test_a_program_runs(client, path):
    answer = client.post(path, json=REQUESTS[path])

    assert answer.status_code == 200, answer.text
    assert "42\\n" in answer.text


def test_a_sandbox_of_e2b_runs_code(client):
    made = client.post("/v2/sandboxes", json={"templateID": "code-interpreter-v1"})
    assert made.status_code == 201, made.text
    headers = {"E2b-Sandbox-Id": made.json()["sandboxID"], "X-Access-Token": made.json()["envdAccessToken"]}

    answer = client.post("/execute", json={"code": "print(6 * 7)"}, headers=headers)

    assert answer.status_code == 200, answer.text
    assert "42\\n" in answer.text


def test_a_sandbox_of_e2b_that_asks_for_hosts_is_refused(client):
    asked = {"templateID": "base", "network": {"allowOut": ["pypi.org"]}}

    answer = client.post("/v2/sandboxes", json=asked)

    assert answer.status_code == 400
    assert "the backend landlock cannot give any" in answer.json()["message"]
