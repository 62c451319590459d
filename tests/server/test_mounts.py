"""Files that a server's operator shows: requests name them, and never a path."""

import pytest

import groundbox as gb
from groundbox.errors import InvalidArgument, ServerRefused
from groundbox.limits import MiB
from groundbox.server import service as of_service
from groundbox.server.keys import Key, Keys
from groundbox.server.refusals import Refused
from groundbox.server.service import Service
from groundbox.server.settings import Settings

from .conftest import serving

MAY = Key(id="may", owner="ada", scopes=frozenset(("run", "mounts")))
MAY_NOT = Key(id="may not", owner="bob", scopes=frozenset(("run",)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("shown")
    (made / "sales.csv").write_text("a\n120\n")
    return made


@pytest.fixture(scope="module")
def showing(folder, tmp_path_factory):
    log = tmp_path_factory.mktemp("showing") / "log"
    with serving(log, "--mount", f"{folder}:data", "--keys", log.with_name("keys.db")) as started:
        yield started


def test_a_request_names_what_the_operator_shows(showing):
    source = "print(open('/inputs/data/sales.csv').read().split()[1])\n"
    source += "try: open('/inputs/data/x', 'w')\nexcept OSError: print('read-only')"
    assert showing.run(source, mounts=["data"])["stdout"] == "120\nread-only\n"
    assert showing.run("import os; print(os.path.exists('/inputs'))")["stdout"] == "False\n"

    there = gb.connect(showing.url, showing.token)
    with there.Sandbox(mounts=["data", "data"]) as box:
        assert box.run("import os; os.listdir('/inputs/data')").text == "['sales.csv']"
    with there.Sandbox(mounts=["other"]) as box, pytest.raises(ServerRefused, match="shows data"):
        box.run("1")


def test_a_path_is_never_taken_from_a_request(showing, folder):
    with showing.client() as client:
        for asked in ({"data": str(folder)}, [str(folder)], ["/etc/hostname"], ["../data"], "data", [{"x": "/etc"}]):
            refused = client.post("/v1/run", json={"code": "1", "mounts": asked})
            assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_argument")
    with pytest.raises(InvalidArgument, match="groundbox serve --mount"):
        gb.connect(showing.url, showing.token).Sandbox(mounts={"data": folder})


def test_a_key_needs_the_scope(showing):
    with showing.client() as client:
        keys = {}
        for scopes in (["run"], ["run", "mounts"]):
            made = client.post("/v1/keys", json={"owner": "ada", "scopes": scopes}).json()
            keys[len(scopes)] = made["key"]
    answers = {}
    for count, token in keys.items():
        with showing.client(token) as client:
            answers[count] = client.post("/v1/run", json={"code": "1", "mounts": ["data"]})

    assert (answers[1].status_code, answers[1].json()["error"]["code"]) == (403, "scope_missing")
    assert answers[2].status_code == 200


def test_the_document_says_what_a_request_may_name(showing):
    with showing.client() as client:
        schemas = client.get("/v1/openapi.json").json()["components"]["schemas"]

    for name in ("RunAsked", "CreateAsked"):
        assert schemas[name]["properties"]["mounts"]["items"]["type"] == "string"
        assert schemas[name]["properties"]["mounts"]["maxItems"] == 16


def test_files_that_are_gone_are_the_operators_fault_and_told_without_their_path(tmp_path, caplog):
    shown = tmp_path / "secret-name"
    shown.write_text("x")
    service = Service(Settings(mounts={"data": str(shown)}), Keys(token=None))
    shown.unlink()

    with pytest.raises(Refused) as refused:
        service._made(MAY, {"mounts": ["data"]}, {})

    assert (refused.value.status, refused.value.code) == (503, "mounts_unavailable")
    assert "secret-name" not in refused.value.message
    assert "secret-name" in caplog.text


def test_a_key_has_a_few_sets_of_mounts_at_once(tmp_path):
    """Each set takes a template of its own."""
    names = [str(number) for number in range(of_service._MOST_KINDS + 1)]
    for name in names:
        (tmp_path / name).write_text(name)
    service = Service(Settings(mounts={name: str(tmp_path / name) for name in names}), Keys(token=None))

    kept = [service._made(MAY, {"mounts": [name]}, {}) for name in names[:-1]]
    with pytest.raises(Refused) as refused:
        service._made(MAY, {"mounts": names[-1:]}, {})
    with pytest.raises(Refused) as forbidden:
        service._made(MAY_NOT, {"mounts": names[:1]}, {})

    assert len(kept) == of_service._MOST_KINDS
    assert (refused.value.status, forbidden.value.status) == (429, 403)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"mounts": {"x": "/nothing/here"}}, "cannot be opened"),
        ({"mounts": {"a/b": "/etc/hostname"}}, "a name is one part of a path"),
        ({"mounts": {"x": "/etc/hostname"}, "backend": "landlock"}, "need the backend namespaces"),
    ],
)
def test_a_server_that_could_not_show_its_files_does_not_start(given, problem):
    with pytest.raises(InvalidArgument, match=f"^mounts: .*{problem}"):
        Settings(**given)
    assert Settings(body_bytes=MiB).mounts == {}
