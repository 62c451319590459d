"""OpenAI's containers, by OpenAI's client and request by request."""

import pytest

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
