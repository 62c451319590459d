"""OpenAI's containers, by OpenAI's client and request by request."""

import pytest
from starlette.testclient import TestClient

from groundbox.protocols import containers
from groundbox.server.application import application
from groundbox.server.keys import Keys
from groundbox.server.service import Service
from groundbox.server.settings import Settings

PATH = "/v1/containers"


@pytest.fixture
def made(client):
    """The id of a new container, which is deleted after the test."""
    answer = client.post(PATH, json={"name": "test"})
    assert answer.status_code == 200, answer.text
    yield answer.json()["id"]
    client.delete(f"{PATH}/{answer.json()['id']}")


def test_the_client_of_openai_makes_containers_and_handles_their_files(server, client):
    openai = pytest.importorskip("openai", reason="openai is not installed here: make clients")
    asking = openai.OpenAI(base_url=f"{server.url}/v1", api_key=server.token, max_retries=0)

    box = asking.containers.create(
        name="work", memory_limit="1g", expires_after={"anchor": "last_active_at", "minutes": 5}
    )
    shown = asking.containers.retrieve(box.id)
    listed = [each.id for each in asking.containers.list(name="work", limit=1)]
    sent = asking.containers.files.create(box.id, file=("in.csv", b"a,b\n1,2\n"))
    client.post(
        f"/v1/sandboxes/{box.id}/run", json={"code": "open('out.txt', 'w').write(open('/mnt/data/in.csv').read())"}
    )
    files = {each.path: (each.source, each.bytes) for each in asking.containers.files.list(box.id, limit=1)}
    made = next(each for each in asking.containers.files.list(box.id) if each.path.endswith("out.txt"))
    content = asking.containers.files.content.retrieve(made.id, container_id=box.id).content
    same = asking.containers.files.retrieve(made.id, container_id=box.id)
    asking.containers.files.delete(sent.id, container_id=box.id)
    left = [each.path for each in asking.containers.files.list(box.id)]
    asking.containers.delete(box.id)
    with pytest.raises(openai.NotFoundError) as gone:
        asking.containers.retrieve(box.id)

    assert (box.name, box.status, box.memory_limit, box.expires_after.minutes) == ("work", "running", "1g", 5)
    assert (shown.id, listed) == (box.id, [box.id])
    assert (sent.path, sent.bytes, sent.source) == ("/mnt/data/in.csv", 8, "user")
    assert files == {"/mnt/data/in.csv": ("user", 8), "/mnt/data/out.txt": ("assistant", 8)}
    assert (content, same.to_dict()) == (b"a,b\n1,2\n", made.to_dict())
    assert left == ["/mnt/data/out.txt"]
    assert (gone.value.code, gone.value.body["message"]) == ("not_found", "there is no such sandbox")


def test_what_there_is_not_is_refused_in_the_shape_of_openai(client, made):
    told = [
        client.post(PATH, json={}),
        client.post(PATH, json={"name": "x", "file_ids": ["file-1"]}),
        client.post(PATH, json={"name": "x", "skills": [{}]}),
        client.post(PATH, json={"name": "x", "memory_limit": "2g"}),
        client.post(PATH, json={"name": "x", "memory_limit": "64g"}),
        client.post(PATH, json={"name": "x", "network_policy": {"type": "allowlist", "allowed_domains": ["10.0.0.1"]}}),
        client.post(PATH, json={"name": "x", "expires_after": {"anchor": "last_active_at", "minutes": 0}}),
        client.post(f"{PATH}/{made}/files", json={"file_id": "file-1"}),
        client.post(f"{PATH}/{made}/files", files={"other": b"x"}),
        client.get(PATH, params={"limit": "0"}),
        client.get(PATH, params={"order": "up"}),
    ]

    assert [each.status_code for each in told] == [400] * len(told)
    assert all(each.json()["error"].keys() >= {"code", "message"} for each in told)


def test_the_name_of_a_file_is_never_a_path(client, made):
    sent = client.post(f"{PATH}/{made}/files", files={"file": ("../../etc/passwd", b"x")})
    dots = client.post(f"{PATH}/{made}/files", files={"file": ("a/..", b"x")})

    assert (sent.json()["path"], dots.status_code) == ("/mnt/data/passwd", 400)


def test_files_come_as_bytes_that_no_browser_shows(client, made):
    sent = client.post(f"{PATH}/{made}/files", files={"file": ("x.html", b"<script>")}).json()

    answer = client.get(f"{PATH}/{made}/files/{sent['id']}/content")

    assert answer.content == b"<script>"
    assert answer.headers["content-disposition"] == "attachment"
    assert "sandbox" in answer.headers["content-security-policy"]


def test_containers_of_another_key_and_sandboxes_of_other_protocols_are_not_found(server, client, sandbox, made):
    other = client.post("/v1/keys", json={"owner": "somebody else"}).json()["key"]
    sent = client.post(f"{PATH}/{made}/files", files={"file": ("x", b"x")}).json()["id"]
    with server.client(other) as asking:
        told = [
            asking.get(f"{PATH}/{made}"),
            asking.delete(f"{PATH}/{made}"),
            asking.get(f"{PATH}/{made}/files"),
            asking.get(f"{PATH}/{made}/files/{sent}/content"),
            asking.post(f"{PATH}/{made}/files", files={"file": ("x", b"x")}),
        ]
        listed = asking.get(PATH).json()

    assert [each.status_code for each in told] == [404] * 5
    assert listed == {"object": "list", "data": [], "first_id": None, "last_id": None, "has_more": False}
    assert client.get(f"{PATH}/{sandbox.rsplit('/', 1)[-1]}").status_code == 404


@pytest.mark.parametrize(
    "body",
    [
        {"name": "x" * 1025},
        {"network_policy": {"type": "allowlist", "allowed_domains": ["x"] * 1001}},
        {"network_policy": {"type": "allowlist", "allowed_domains": ["x" * 1025]}},
        {"file_ids": ["x"] * 101},
        {"skills": [{}] * 101},
        {"expires_after": {"minutes": 1e308}},
        {"expires_after": {"minutes": -1}},
    ],
    ids=lambda each: str(each)[:40],
)
def test_a_field_that_is_too_long_is_refused(client, body):
    answer = client.post("/v1/containers", json={"name": "x", **body})

    assert answer.status_code == 400
    assert len(answer.content) < 1000


@pytest.mark.parametrize("limit", ["0", "101", "00000000000100", "9" * 5000, "-1", "1.5", ""])
def test_a_page_has_a_hundred_items_at_most(client, made, limit):
    answers = [client.get(path, params={"limit": limit}) for path in ("/v1/containers", f"/v1/containers/{made}/files")]

    assert [each.status_code for each in answers] == [400, 400]


def test_files_that_programs_made_are_not_remembered(client, made, server):
    sandbox = f"/v1/sandboxes/{made}"
    client.post(f"/v1/containers/{made}/files", files={"file": ("mine", b"1")})
    client.post(f"{sandbox}/run", json={"code": "for n in range(300): open(f'made{n}', 'w').close()"})
    pages, after = [], None
    while after is None or pages[-1]["has_more"]:
        params = {"limit": 100, "order": "asc", **({"after": after} if after else {})}
        pages.append(client.get(f"/v1/containers/{made}/files", params=params).json())
        after = pages[-1]["last_id"]

    files = [each for page in pages for each in page["data"]]
    assert (len(files), len({each["id"] for each in files})) == (301, 301)
    assert [each["path"] for each in files if each["source"] == "user"] == ["/mnt/data/mine"]
    assert all(each["created_at"] > 0 for each in files)


def test_a_container_remembers_its_last_uploads():
    state = containers._State(containers._Asked(name="x"))

    for number in range(1500):
        state.note(f"f{number}")
    state.note("f600")

    assert len(state.uploaded) == 1000
    assert list(state.uploaded)[-2:] == ["f1499", "f600"]


def test_what_is_remembered_of_uploads_is_counted_to_their_key():
    service = Service(Settings(protocols=["containers"]), Keys(token="k" * 20))
    with TestClient(
        application(service), headers={"Authorization": f"Bearer {'k' * 20}", "Host": "localhost"}
    ) as asking:
        made = asking.post(PATH, json={"name": "x"}).json()["id"]
        empty = service.ledger.taken_bytes("owner")
        sent = [asking.post(f"{PATH}/{made}/files", files={"file": (name, b"1")}).json() for name in ("a", "b", "a")]
        two = service.ledger.taken_bytes("owner")
        asking.delete(f"{PATH}/{made}/files/{sent[0]['id']}")
        one = service.ledger.taken_bytes("owner")
        asking.post(f"/v1/sandboxes/{made}/run", json={"code": "import os; os.remove('b')"})
        asking.get(f"{PATH}/{made}/files")
        none = service.ledger.taken_bytes("owner") - sum(each.size_bytes for each in service.records._records.values())
        asking.delete(f"{PATH}/{made}")

    assert (two - empty, one - empty, none - empty) == (1000, 500, 0)
