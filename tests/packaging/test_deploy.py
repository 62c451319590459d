"""Files of deploy/ say what the programs that read them understand, and what `groundbox serve` takes."""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="the extra `server` is not installed here")

from groundbox.cli.serve import serve

DEPLOY = Path(__file__).parents[2] / "deploy"
LEFT_OUT = {
    "MemoryDenyWriteExecute",
    "PrivateNetwork",
    "PrivateUsers",
    "ProcSubset",
    "ProtectControlGroups",
    "ProtectHostname",
    "ProtectKernelLogs",
    "ProtectKernelTunables",
    "ProtectProc",
    "RestrictNamespaces",
    "SystemCallFilter",
}


def options(arguments):
    """Arguments as `groundbox serve` reads them, without its defaults; it refuses those that it does not know."""
    given = serve.make_context("serve", list(arguments)).params
    usual = serve.make_context("serve", []).params
    return {name: value for name, value in given.items() if value != usual[name]}


@pytest.fixture(scope="module")
def unit():
    """Pairs of the unit's section `Service`, with continued lines joined."""
    text = (DEPLOY / "groundbox.service").read_text().replace("\\\n", " ").partition("[Service]")[2].partition("[")[0]
    return [tuple(line.split("=", 1)) for line in text.splitlines() if line and not line.startswith("#")]


@pytest.fixture(scope="module")
def objects():
    """Objects of the manifest by kind."""
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed here")
    return {each["kind"]: each for each in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())}


def test_the_unit_starts_a_server_that_this_groundbox_knows(unit):
    program, command, *arguments = shlex.split(dict(unit)["ExecStart"].replace("$GROUNDBOX_OPTIONS", ""))

    assert (program, command) == ("/opt/groundbox/bin/groundbox", "serve")
    assert options(arguments) == {
        "keys": "/var/lib/groundbox/keys.db",
        "audit": Path("/var/lib/groundbox/audit.jsonl"),
        "log_json": True,
    }


def test_hardening_that_the_unit_leaves_out_is_named_there_with_its_reason(unit):
    comments = re.findall(r"^#.*$", (DEPLOY / "groundbox.service").read_text(), re.MULTILINE)

    assert LEFT_OUT & {name for name, _ in unit} == set()
    assert {name for name in LEFT_OUT if f"{name}=" not in "\n".join(comments)} == set()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze here")
def test_systemd_understands_every_line_of_the_unit(tmp_path):
    text = (DEPLOY / "groundbox.service").read_text()
    (tmp_path / "groundbox.service").write_text(text.replace("/opt/groundbox/bin/groundbox", "/bin/true"))

    checked = subprocess.run(
        ["systemd-analyze", "verify", "--recursive-errors=no", str(tmp_path / "groundbox.service")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "SYSTEMD_LOG_LEVEL": "warning"},
    )

    complaints = [line for line in checked.stderr.splitlines() if "groundbox.service" in line]
    assert [line for line in complaints if "Unknown key 'DelegateSubgroup'" not in line] == []  # new in systemd 254


def test_the_container_starts_a_server_that_this_groundbox_knows():
    text = (DEPLOY / "Containerfile").read_text()

    told = [re.findall(r'"([^"]*)"', line) for line in re.findall(r"^(?:ENTRYPOINT|CMD) (\[.*\])$", text, re.MULTILINE)]

    (program, command, *first), default = told
    assert (program, command) == ("groundbox", "serve")
    assert options([*first, *default]) == {"host": "0.0.0.0", "log_json": True, "backend": "landlock"}


def test_the_pod_starts_a_server_that_this_groundbox_knows(objects):
    (container,) = objects["Deployment"]["spec"]["template"]["spec"]["containers"]

    assert options(container["args"]) == {
        "keys": "/var/lib/groundbox/keys.db",
        "audit": Path("/var/lib/groundbox/audit.jsonl"),
        "allow_name": (
            "groundbox",
            "groundbox.groundbox",
            "groundbox.groundbox.svc",
            "groundbox.groundbox.svc.cluster.local",
        ),
    }


def test_the_pod_has_no_privileges_and_what_user_namespaces_need(objects):
    pod = objects["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]

    assert (pod["hostUsers"], pod["automountServiceAccountToken"]) == (False, False)
    assert pod["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 10001,
        "runAsGroup": 10001,
        "fsGroup": 10001,
        "seccompProfile": {"type": "Unconfined"},
        "appArmorProfile": {"type": "Unconfined"},
    }
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
        "procMount": "Unmasked",
    }


def test_probes_ask_by_a_name_that_the_server_hears(objects):
    (container,) = objects["Deployment"]["spec"]["template"]["spec"]["containers"]
    probes = {name: container[name]["httpGet"] for name in ("startupProbe", "readinessProbe", "livenessProbe")}

    assert {name: probe["path"] for name, probe in probes.items()} == {
        "startupProbe": "/readyz",
        "readinessProbe": "/readyz",
        "livenessProbe": "/livez",
    }
    assert all(probe["httpHeaders"] == [{"name": "Host", "value": "localhost"}] for probe in probes.values())


def test_the_parts_of_the_manifest_name_each_other(objects):
    deployment, service = objects["Deployment"], objects["Service"]
    pod = deployment["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    labels = pod["metadata"]["labels"]

    assert service["spec"]["selector"] == deployment["spec"]["selector"]["matchLabels"] == labels
    assert objects["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"] == labels
    assert {each["targetPort"] for each in service["spec"]["ports"]} == {each["name"] for each in container["ports"]}
    assert container["envFrom"] == [{"secretRef": {"name": objects["Secret"]["metadata"]["name"]}}]
    assert pod["spec"]["runtimeClassName"] == objects["RuntimeClass"]["metadata"]["name"]
    assert {each["name"] for each in container["volumeMounts"]} == {each["name"] for each in pod["spec"]["volumes"]}
    assert (
        pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"]
        == (objects["PersistentVolumeClaim"]["metadata"]["name"])
    )


def test_nobody_serves_with_the_key_that_the_manifest_comes_with(objects):
    from groundbox.errors import InvalidArgument
    from groundbox.server.keys import check_token

    with pytest.raises(InvalidArgument):
        check_token(objects["Secret"]["stringData"]["GROUNDBOX_API_KEY"])


@pytest.mark.parametrize("version", ["1.33", "1.37"])
def test_every_object_is_one_by_the_published_schema(objects, version):
    schemas = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed here")

    for each in objects.values():
        schemas.validate(each, version, strict=True)
