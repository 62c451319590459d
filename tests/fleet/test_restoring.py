"""Sandboxes whose files another node goes on with, when theirs is lost."""

import re
from pathlib import Path
from typing import Any

import pytest

import groundbox as gb
import groundbox.remote.sandbox
from groundbox.errors import InvalidArgument, SandboxClosed, SandboxLost
from groundbox.fleet.snapshots import Snapshots, SnapshotsUnavailable, packed, unpacked


@pytest.fixture
def kept_fleet(fleet_of, tmp_path):
    """A fleet of two nodes that keep snapshots in one folder."""
    (tmp_path / "kept").mkdir()
    with fleet_of() as fleet:
        fleet.kept = tmp_path / "kept"
        for name in ("ada", "bob"):
            fleet.start_node(name, "--snapshots", fleet.kept)
        fleet.until_ready("ada", "bob")
        yield fleet


def node_of(fleet, box):
    return {each["tag"]: each["name"] for each in fleet.status()}[id_of(box)[:12]]


def id_of(box: Any) -> str:
    return box.asynchronous._id


def lose(fleet, name):
    fleet.nodes[name].kill()
    fleet.until(lambda: fleet.node(name)["state"] == "lost")


def test_files_go_on_at_another_node_and_the_loss_of_variables_is_said(kept_fleet):
    fleet = kept_fleet
    with gb.connect(fleet.gateway.url, api_key=fleet.token, on_lost="restore") as there, there.Sandbox() as box:
        box.run(
            "x = 1\nopen('made.txt', 'w').write('by a program')\n"
            "import os; os.mkdir('sub'); open('sub/b', 'wb').write(bytes(3))"
        )
        box.files.write("put.txt", "by hand")
        box.files.remove("sub/b")
        lose(fleet, node_of(fleet, box))

        told = box.run("print(open('made.txt').read(), open('put.txt').read())")
        variables = box.run("x")
        box.run("open('made.txt', 'a').write(' and more')")

        assert told.stdout == "by a program by hand\n"
        assert [each.code for each in told.warnings] == ["session.restored"]
        assert variables.error.type == "NameError"
        assert [each for each in variables.warnings if each.code == "session.restored"] == []


@pytest.mark.slow
def test_the_example_of_the_page_is_kept(kept_fleet, monkeypatch):
    page = (Path(__file__).parents[2] / "docs" / "fleet.md").read_text(encoding="utf-8")
    [example] = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    monkeypatch.setenv("GROUNDBOX_API_KEY", kept_fleet.token)
    kept = []
    monkeypatch.setattr(gb.remote.sandbox.RemoteSandbox, "close", _noting(kept, kept_fleet.kept))

    exec(example.replace("http://10.0.0.1:8000", kept_fleet.gateway.url), {})

    assert [unpacked(data) for data in kept] == [{"state.json": b"{}"}]


def _noting(kept, folder):
    """`RemoteSandbox.close` that first reads the snapshots which it drops."""
    close = gb.remote.sandbox.RemoteSandbox.close

    async def noted(box):
        kept.extend(each.read_bytes() for each in folder.glob("*/*.tar"))
        await close(box)

    return noted


@pytest.mark.slow
def test_it_is_restored_again_and_again(kept_fleet):
    fleet = kept_fleet
    with gb.connect(fleet.gateway.url, api_key=fleet.token, on_lost="restore") as there, there.Sandbox() as box:
        box.run("open('n', 'w').write('1')")
        first = node_of(fleet, box)
        lose(fleet, first)
        box.run("open('n', 'a').write('2')")
        fleet.start_node("eve", "--snapshots", fleet.kept)
        fleet.until_ready("eve")
        [other] = {"ada", "bob"} - {first}
        lose(fleet, other)

        assert box.run("print(open('n').read())").stdout == "12\n"
        second = fleet.start_gateway()
        with second.client() as client:
            fleet.until(lambda: client.get("/readyz").status_code == 200)
            assert client.get(f"/v1/sandboxes/{id_of(box)}").status_code == 200


@pytest.mark.slow
def test_a_sandbox_that_was_closed_is_not_restored_and_leaves_no_files(kept_fleet):
    fleet = kept_fleet
    with (
        gb.connect(fleet.gateway.url, api_key=fleet.token, on_lost="restore") as there,
        fleet.gateway.client() as client,
    ):
        box = there.Sandbox()
        box.run("open('n', 'w').write('1')")
        name, path = node_of(fleet, box), f"/v1/sandboxes/{id_of(box)}"
        before = len(list(fleet.kept.glob("*/*.tar")))
        box.close()
        left = list(fleet.kept.rglob("*"))
        lose(fleet, name)

        assert before == 1
        assert left == []
        assert client.get(path).status_code == 410
        with pytest.raises(SandboxClosed):
            box.run("1")


@pytest.mark.slow
def test_without_the_wish_a_lost_sandbox_stays_lost(kept_fleet):
    fleet = kept_fleet
    with gb.connect(fleet.gateway.url, api_key=fleet.token) as there:
        box = there.Sandbox()
        box.run("open('n', 'w').write('1')")
        lose(fleet, node_of(fleet, box))

        with pytest.raises(SandboxLost):
            box.run("1")
        assert list(fleet.kept.iterdir()) == []


@pytest.mark.slow
def test_another_key_does_not_get_what_is_restored(kept_fleet):
    fleet = kept_fleet
    with (
        gb.connect(fleet.gateway.url, api_key=fleet.token, on_lost="restore") as there,
        fleet.gateway.client() as client,
    ):
        other = client.post("/v1/keys", json={"owner": "mallory"}).json()["key"]
        box = there.Sandbox()
        box.run("open('n', 'w').write('1')")
        lose(fleet, node_of(fleet, box))

        with fleet.gateway.client(other) as mallory:
            assert mallory.get(f"/v1/sandboxes/{id_of(box)}/files/n").status_code == 410
            headers = {"groundbox-fleet-restore": f"{id_of(box)} 2", "groundbox-on-lost": "fail"}
            assert mallory.post("/v1/sandboxes", json={}, headers=headers).json()["sandbox_id"] != id_of(box)
        assert box.run("print(open('n').read())").stdout == "1\n"


def test_servers_and_fleets_without_snapshots_refuse_the_wish(fleet):
    def made_at(url):
        with gb.connect(url, api_key=fleet.token, on_lost="restore") as there:
            there.Sandbox().run("1")

    with pytest.raises(InvalidArgument, match="keep no snapshots"):
        made_at(fleet.gateway.url)
    with pytest.raises(InvalidArgument, match="this server is none"):
        made_at(fleet.nodes["ada"].url)
    with pytest.raises(InvalidArgument, match="must be 'fail' or 'restore'"):
        gb.connect(fleet.gateway.url, on_lost="retry")  # type: ignore[arg-type]  # refused


def test_a_late_snapshot_of_an_older_generation_is_never_read(tmp_path):
    kept = Snapshots(str(tmp_path))
    kept.put("a", 2, 1, {"n": b"new"})

    kept.put("a", 1, 9, {"n": b"late, of a node that was believed dead"})

    assert kept.latest("a", 3) == {"n": b"new"}


def test_a_snapshot_has_all_files_and_only_the_newest_stays(tmp_path):
    kept = Snapshots(str(tmp_path))
    files = {"a.txt": b"1", "b/ü \n.bin": bytes(300), "c" * 200: b""}

    kept.put("a", 1, 1, {"old": b""})
    kept.put("a", 1, 2, files)

    assert kept.latest("a", 2) == files
    assert len(list(tmp_path.rglob("*.tar"))) == 1
    assert kept.latest("a", 1) is None
    assert kept.latest("b", 2) is None
    kept.put("a", 2, 1, {"later": b""})
    kept.drop("a", 1)
    assert kept.latest("a", 3) == {"later": b""}
    (tmp_path / "a" / "000002-000000002.tar.tmp").write_bytes(b"half")
    kept.drop("a", 2)
    assert list(tmp_path.iterdir()) == []


def test_a_torn_snapshot_is_said_to_be_torn():
    with pytest.raises(SnapshotsUnavailable, match="torn"):
        unpacked(packed({"a": bytes(5000)})[:700])


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InvalidArgument, match="is no folder"):
        Snapshots(str(tmp_path / "none"))
