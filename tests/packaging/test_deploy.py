"""Files of deploy/ say what the programs that read them understand, and what groundbox takes."""

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import time
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="the extra `server` is not installed here")

from groundbox.cli.gateway import gateway
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


def options(arguments, command=serve, least=()):
    """Arguments as a command reads them, without its defaults; it refuses those that it does not know.

    Args:
        least: Arguments without which it does not go.
    """
    given = command.make_context(command.name, list(arguments)).params
    usual = command.make_context(command.name, list(least)).params
    return {name: value for name, value in given.items() if value != usual[name]}


def section(file, name="Service"):
    """Pairs of a section of a unit, with continued lines joined."""
    text = (DEPLOY / file).read_text().replace("\\\n", " ").partition(f"[{name}]\n")[2].partition("\n[")[0]
    return [tuple(line.split("=", 1)) for line in text.splitlines() if line and not line.startswith("#")]


def manifest(file):
    """Objects of a manifest by kind and name."""
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed here")
    return {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all((DEPLOY / file).read_text())}


def pod_of(workload):
    """Template of its pods, and the spec of its only container."""
    template = workload["spec"].get("template") or workload["spec"]["podTemplate"]
    (container,) = template["spec"]["containers"]
    return template, container


def variables(container, secrets):
    """Values of variables that arguments of a container may name, as the kubelet sets them in."""
    told = {each["name"]: each["valueFrom"]["fieldRef"]["fieldPath"] for each in container.get("env", [])}
    for source in container["envFrom"]:
        told |= secrets["Secret", source["secretRef"]["name"]]["stringData"]
    return told


def expanded(arguments, values):
    """Arguments with `$(NAME)` as the kubelet would have it; KeyError for a name that it would leave as it is."""
    return [re.sub(r"\$\((\w+)\)", lambda found: values[found[1]], each) for each in arguments]


@pytest.fixture(scope="module")
def unit():
    """Pairs of the unit's section `Service`."""
    return section("groundbox.service")


@pytest.fixture(scope="module")
def objects():
    """Objects of the manifest by kind."""
    return {kind: each for (kind, _), each in manifest("kubernetes.yaml").items()}


@pytest.fixture(scope="module")
def fleet():
    """Objects of the fleet's manifest by kind and name."""
    return manifest("kubernetes-fleet.yaml")


@pytest.fixture(scope="module")
def pool():
    """Objects for agent-sandbox by kind and name."""
    return manifest("agent-sandbox.yaml")


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


def test_the_gateways_unit_starts_a_gateway_that_this_groundbox_knows():
    service = section("groundbox-gateway.service")
    usual = dict(each[1].split("=", 1) for each in service if each[0] == "Environment")

    program, command, *arguments = shlex.split(dict(service)["ExecStart"].replace("$GROUNDBOX_GATEWAY_OPTIONS", ""))

    assert (program, command) == ("/opt/groundbox/bin/groundbox", "gateway")
    arguments = [re.sub(r"\$\{(\w+)\}", lambda found: usual[found[1]], each) for each in arguments]
    assert options(arguments, gateway, ["--catalogue=x"]) == {
        "catalogue": "/var/lib/groundbox-gateway/fleet.db",
        "keys": "/var/lib/groundbox-gateway/keys.db",
        "lease_s": 20.0,
        "log_json": True,
    }


def test_options_of_an_operator_come_after_those_of_the_units():
    arguments = ["--catalogue", "x", "--host", "127.0.0.1", "--host", "10.0.0.1"]

    assert options(arguments, gateway, ["--catalogue=x"]) == {"host": "10.0.0.1"}
    for file, name in (
        ("groundbox.service", "$GROUNDBOX_OPTIONS"),
        ("groundbox.service.d/node.conf", "$GROUNDBOX_OPTIONS"),
        ("groundbox-gateway.service", "$GROUNDBOX_GATEWAY_OPTIONS"),
    ):
        assert dict(section(file))["ExecStart"].endswith(f" {name}")


def test_a_node_of_systemd_has_a_command_of_its_own_without_keys():
    commands = [value for name, value in section("groundbox.service.d/node.conf") if name == "ExecStart"]

    assert commands[0] == ""  # systemd.service(5): the list of groundbox.service is emptied
    program, command, *arguments = shlex.split(commands[1].replace("$GROUNDBOX_OPTIONS", ""))
    assert (program, command) == ("/opt/groundbox/bin/groundbox", "serve")
    assert options(arguments) == {
        "host": "${GROUNDBOX_NODE_ADDRESS}",
        "port": 8001,
        "join": "${GROUNDBOX_GATEWAY}",
        "audit": Path("/var/lib/groundbox/audit.jsonl"),
        "log_json": True,
    }


@pytest.mark.slow
def test_commands_of_both_units_make_a_fleet(tmp_path):
    from tests.fleet.conftest import SECRET, TOKEN, Process

    names = {
        "GROUNDBOX_CATALOGUE": str(tmp_path / "fleet.db"),
        "GROUNDBOX_KEYS": str(tmp_path / "keys.db"),
        "GROUNDBOX_NODE_ADDRESS": "127.0.0.1",
    }

    def started(file, more):
        line = dict(section(file))["ExecStart"].replace("/var/lib/groundbox", str(tmp_path))
        _, *words = shlex.split(re.sub(r"\$GROUNDBOX_(GATEWAY_)?OPTIONS", more, line))
        words = [re.sub(r"\$\{(\w+)\}", lambda found: names[found[1]], each) for each in words]
        environ = {"GROUNDBOX_API_KEY": TOKEN, "GROUNDBOX_JOIN_SECRET": SECRET}
        return Process(words, tmp_path / "log", environ)

    with contextlib.ExitStack() as ending:
        asked = started("groundbox-gateway.service", "--port 0")
        ending.callback(asked.end)
        names["GROUNDBOX_GATEWAY"] = asked.url
        node = started("groundbox.service.d/node.conf", "--port 0 --node-name ada")
        ending.callback(node.end)
        with asked.client() as client:
            end = time.monotonic() + 60
            while client.get("/readyz").status_code != 200 and time.monotonic() < end:
                time.sleep(0.1)
            told = client.post("/v1/run", json={"code": "print(6 * 7)"}).json()
            nodes = client.get("/v1/fleet").json()

    assert told["stdout"] == "42\n"
    assert (nodes["lease_s"], [each["name"] for each in nodes["nodes"]]) == (20.0, ["ada"])


def test_a_gateway_of_systemd_has_nothing_that_it_does_not_need():
    service = section("groundbox-gateway.service")
    comments = "\n".join(re.findall(r"^#.*$", (DEPLOY / "groundbox-gateway.service").read_text(), re.MULTILINE))

    assert LEFT_OUT - {name for name, _ in service} == {"PrivateNetwork"}
    assert "PrivateNetwork=" in comments
    assert dict(service)["EnvironmentFile"] == "/etc/groundbox/gateway.env"  # without a `-`: it has to be there


def complaints(folder, name):
    """Lines of `systemd-analyze verify` about a unit of deploy/, with its drop-ins, whose program is here."""
    activated = [DEPLOY / "groundbox.service"] if name.endswith(".socket") else []
    for each in [DEPLOY / name, *DEPLOY.glob(f"{name}.d/*.conf"), *activated]:
        copy = folder / each.relative_to(DEPLOY)
        copy.parent.mkdir(exist_ok=True)
        copy.write_text(each.read_text().replace("/opt/groundbox/bin/groundbox", "/bin/true"))
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--recursive-errors=no", str(folder / name)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "SYSTEMD_LOG_LEVEL": "warning", "SYSTEMD_UNIT_PATH": f"{folder}:"},
    )
    lines = [line for line in checked.stderr.splitlines() if name in line]
    return [line for line in lines if "Unknown key 'DelegateSubgroup'" not in line]  # new in systemd 254


needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze here")


@needs_systemd
@pytest.mark.parametrize("name", ["groundbox.service", "groundbox-gateway.service", "groundbox.socket"])
def test_systemd_understands_every_line_of_the_units(tmp_path, name):
    assert complaints(tmp_path, name) == []


@needs_systemd
def test_systemd_reads_the_drop_in_of_nodes(tmp_path, monkeypatch):
    deploy = tmp_path / "deploy"
    shutil.copytree(DEPLOY, deploy)
    (deploy / "groundbox.service.d" / "node.conf").write_text("[Service]\nNoSuchLine=1\n")
    monkeypatch.setitem(globals(), "DEPLOY", deploy)

    (told,) = complaints(tmp_path, "groundbox.service")

    assert "node.conf" in told
    assert "NoSuchLine" in told


@needs_systemd
def test_systemd_finds_little_that_a_gateway_is_exposed_to():
    judged = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", str(DEPLOY / "groundbox-gateway.service")],
        capture_output=True,
        text=True,
        check=False,
    )
    if "offline" in judged.stderr:
        pytest.skip(f"this systemd judges no files: {judged.stderr.strip()}")

    (level,) = re.findall(r"Overall exposure level for groundbox-gateway.service: (\d+\.\d)", judged.stdout)
    assert float(level) <= 1.2


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


def test_gateways_of_the_cluster_start_as_this_groundbox_knows(fleet):
    _, container = pod_of(fleet["Deployment", "groundbox-gateway"])

    arguments = expanded(container["args"], variables(container, fleet))

    assert container["command"] == ["groundbox", "gateway"]
    assert options(arguments, gateway, ["--catalogue=x"]) == {
        "host": "0.0.0.0",
        "catalogue": "postgresql://groundbox@replace-me.invalid/groundbox?sslmode=require",
        "keys": "postgresql://groundbox@replace-me.invalid/groundbox?sslmode=require",
        "lease_s": 30.0,
        "log_json": True,
        "allow_name": (
            "groundbox-gateway",
            "groundbox-gateway.groundbox-fleet",
            "groundbox-gateway.groundbox-fleet.svc",
            "groundbox-gateway.groundbox-fleet.svc.cluster.local",
        ),
    }


def test_nodes_of_the_cluster_start_as_this_groundbox_knows(fleet):
    _, container = pod_of(fleet["DaemonSet", "groundbox-node"])

    arguments = expanded(container["args"], variables(container, fleet))

    assert container["command"] == ["groundbox", "serve"]
    assert options(arguments) == {
        "host": "status.podIP",
        "join": "http://groundbox-gateway:8000",
        "node_name": "spec.nodeName",
        "audit": Path("/var/lib/groundbox/audit.jsonl"),
        "log_json": True,
    }


def test_nodes_find_gateways_by_a_name_and_a_port_of_their_service(fleet):
    service = fleet["Service", "groundbox-gateway"]
    template, container = pod_of(fleet["Deployment", "groundbox-gateway"])
    _, node = pod_of(fleet["DaemonSet", "groundbox-node"])

    (join,) = [each.partition("=")[2] for each in node["args"] if each.startswith("--join=")]
    (port,) = service["spec"]["ports"]

    assert join == f"http://{service['metadata']['name']}:{port['port']}"
    assert f"--allow-name={service['metadata']['name']}" in container["args"]
    assert service["spec"]["selector"] == template["metadata"]["labels"]
    assert port["targetPort"] == container["ports"][0]["name"]


def test_pods_of_the_fleet_have_the_labels_that_others_choose_them_by(fleet):
    for kind in ("Deployment", "DaemonSet"):
        ((_, name),) = [each for each in fleet if each[0] == kind]
        template, container = pod_of(fleet[kind, name])
        chosen = {"app.kubernetes.io/name": name}

        assert fleet[kind, name]["spec"]["selector"]["matchLabels"] == template["metadata"]["labels"] == chosen
        assert fleet["NetworkPolicy", name]["spec"]["podSelector"]["matchLabels"] == chosen
        mounted = {each["name"] for each in container.get("volumeMounts", [])}
        assert mounted == {each["name"] for each in template["spec"].get("volumes", [])}
    assert fleet["PodDisruptionBudget", "groundbox-gateway"]["spec"]["selector"]["matchLabels"] == {
        "app.kubernetes.io/name": "groundbox-gateway"
    }


def test_nodes_of_the_cluster_stand_behind_the_wall_of_the_single_pod(fleet, objects):
    template, container = pod_of(fleet["DaemonSet", "groundbox-node"])
    single, alone = pod_of(objects["Deployment"])

    for name in ("runtimeClassName", "hostUsers", "automountServiceAccountToken", "securityContext"):
        assert template["spec"][name] == single["spec"][name]
    assert container["securityContext"] == alone["securityContext"]
    assert fleet["RuntimeClass", "groundbox"] == objects["RuntimeClass"]


def test_gateways_of_the_cluster_are_what_the_level_restricted_asks_for(fleet):
    template, container = pod_of(fleet["Deployment", "groundbox-gateway"])

    assert template["spec"]["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 10001,
        "runAsGroup": 10001,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    assert not {"hostNetwork", "hostPID", "hostIPC", "volumes"} & set(template["spec"])


def test_gateways_of_the_cluster_are_asked_before_a_node_is_ready(fleet):
    """Nodes join through the Service, which has the gateways that are ready; /readyz of one asks for a node."""
    _, container = pod_of(fleet["Deployment", "groundbox-gateway"])

    assert container["readinessProbe"]["httpGet"]["path"] == "/livez"
    for name in ("readinessProbe", "livenessProbe"):
        assert container[name]["httpGet"]["httpHeaders"] == [{"name": "Host", "value": "localhost"}]


def test_no_node_of_the_cluster_has_the_owners_key(fleet):
    _, container = pod_of(fleet["DaemonSet", "groundbox-node"])

    assert container["envFrom"] == [
        {"secretRef": {"name": "groundbox-node"}},
        {"secretRef": {"name": "groundbox-join"}},
    ]
    assert {kind for kind, _ in fleet} & {"Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"} == set()
    for kind in ("Deployment", "DaemonSet"):
        ((_, name),) = [each for each in fleet if each[0] == kind]
        assert pod_of(fleet[kind, name])[0]["spec"]["automountServiceAccountToken"] is False


def test_nodes_of_the_cluster_are_asked_by_gateways_alone_and_ask_nobody_else(fleet):
    policies = {name: each["spec"] for (kind, name), each in fleet.items() if kind == "NetworkPolicy"}
    gateways = [{"podSelector": {"matchLabels": {"app.kubernetes.io/name": "groundbox-gateway"}}}]

    assert policies["groundbox-nothing"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    assert policies["groundbox-node"]["ingress"] == [{"ports": [{"port": "http"}], "from": gateways}]
    assert policies["groundbox-node"]["egress"] == [{"ports": [{"port": 8000}], "to": gateways}]


def test_nobody_serves_with_the_secrets_that_the_fleets_manifest_comes_with(fleet):
    from groundbox.errors import InvalidArgument
    from groundbox.fleet.joining import check_secret
    from groundbox.server.keys import check_token

    for name in ("groundbox-gateway", "groundbox-node"):
        with pytest.raises(InvalidArgument):
            check_token(fleet["Secret", name]["stringData"]["GROUNDBOX_API_KEY"])
    with pytest.raises(InvalidArgument):
        check_secret(fleet["Secret", "groundbox-join"]["stringData"]["GROUNDBOX_JOIN_SECRET"])


def test_no_database_has_the_address_that_the_fleets_manifest_comes_with(fleet):
    pytest.importorskip("psycopg", reason="psycopg is not installed here")
    from groundbox.fleet.catalogue import Catalogue, CatalogueUnavailable

    url = fleet["Secret", "groundbox-gateway"]["stringData"]["GROUNDBOX_CATALOGUE"]

    with pytest.raises(CatalogueUnavailable):
        Catalogue(url, lease_s=6.0).nodes()


def test_machines_of_the_pool_start_a_server_that_this_groundbox_knows(pool):
    _, container = pod_of(pool["SandboxTemplate", "groundbox"])

    arguments = expanded(container["args"], variables(container, pool))

    assert container["command"] == ["groundbox", "serve"]
    assert options(arguments) == {
        "host": "status.podIP",
        "backend": "landlock",
        "log_json": True,
        "allow_name": ("metadata.name.groundbox-sandboxes.svc.cluster.local",),
    }


def test_nobody_claims_a_machine_with_the_key_that_the_pools_manifest_comes_with(pool):
    from groundbox.errors import InvalidArgument
    from groundbox.server.keys import check_token

    with pytest.raises(InvalidArgument):
        check_token(pool["Secret", "groundbox"]["stringData"]["GROUNDBOX_API_KEY"])


def test_parts_of_the_pool_name_each_other(pool):
    template, container = pod_of(pool["SandboxTemplate", "groundbox"])

    assert pool["SandboxWarmPool", "groundbox"]["spec"]["sandboxTemplateRef"] == {"name": "groundbox"}
    assert pool["SandboxClaim", "example"]["spec"]["warmPoolRef"] == {"name": "groundbox"}
    assert {each["name"] for each in container["volumeMounts"]} == {
        each["name"] for each in template["spec"]["volumes"]
    }
    assert {each["metadata"].get("namespace") for (kind, _), each in pool.items() if kind != "Namespace"} == {
        "groundbox-sandboxes"
    }


def test_machines_of_the_pool_reach_nothing(pool):
    spec = pool["SandboxTemplate", "groundbox"]["spec"]

    assert spec["networkPolicyManagement"] == "Managed"
    assert set(spec["networkPolicy"]) == {"ingress"}  # without `egress` the controller's policy lets nothing out


def struct(*required, **fields):
    """JSON schema of an object that has these fields and no others."""
    return {"type": "object", "properties": fields, "required": list(required), "additionalProperties": False}


def one_of(*words):
    return {"enum": list(words)}


ANYTHING = {"type": "object"}
"""Schema of what Kubernetes' own schemas are asked about."""
TEXT, FLAG, COUNT = {"type": "string"}, {"type": "boolean"}, {"type": "integer", "minimum": 0}
MADE_FOR_CLAIMS = one_of("Allowed", "Overrides", "Disallowed")
AGENT_SANDBOX = {
    "SandboxTemplate": struct(
        "podTemplate",
        podTemplate=struct("spec", metadata=struct(labels=ANYTHING, annotations=ANYTHING), spec=ANYTHING),
        service=FLAG,
        networkPolicyManagement=one_of("Managed", "Unmanaged"),
        networkPolicy=struct(ingress={"type": "array"}, egress={"type": "array"}),
        envVarsInjectionPolicy=MADE_FOR_CLAIMS,
        volumeClaimTemplatesPolicy=MADE_FOR_CLAIMS,
        volumeClaimTemplates={"type": "array"},
    ),
    "SandboxWarmPool": struct(
        "sandboxTemplateRef",
        replicas=COUNT,
        sandboxTemplateRef=struct("name", name=TEXT),
        updateStrategy=struct(type=one_of("Recreate", "OnReplenish")),
    ),
    "SandboxClaim": struct(
        "warmPoolRef",
        warmPoolRef=struct("name", name=TEXT),
        lifecycle=struct(
            shutdownTime={"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$"},
            shutdownPolicy=one_of("Delete", "DeleteForeground", "Retain"),
            ttlSecondsAfterFinished=COUNT,
        ),
        additionalPodMetadata=struct(labels=ANYTHING, annotations=ANYTHING),
        env={"type": "array", "items": struct("name", "value", name=TEXT, value=TEXT, containerName=TEXT)},
        volumeClaimTemplates={"type": "array"},
    ),
}
"""Fields of `spec` in extensions.agents.x-k8s.io/v1beta1, as agent-sandbox 0.5.6 names them."""


def test_objects_of_the_pool_have_the_fields_of_agent_sandbox(pool):
    schemas = pytest.importorskip("jsonschema", reason="jsonschema is not installed here")
    of_agent_sandbox = {kind: each for (kind, _), each in pool.items() if kind.startswith("Sandbox")}

    assert set(of_agent_sandbox) == set(AGENT_SANDBOX)
    for kind, each in of_agent_sandbox.items():
        assert set(each) == {"apiVersion", "kind", "metadata", "spec"}
        assert each["apiVersion"] == "extensions.agents.x-k8s.io/v1beta1"
        schemas.validate(each["spec"], AGENT_SANDBOX[kind])


@pytest.mark.parametrize("version", ["1.33", "1.37"])
def test_every_object_is_one_by_the_published_schema(objects, version):
    schemas = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed here")

    for each in objects.values():
        schemas.validate(each, version, strict=True)


@pytest.mark.parametrize("version", ["1.33", "1.37"])
def test_every_object_of_the_fleet_is_one_by_the_published_schema(fleet, version):
    schemas = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed here")

    for each in fleet.values():
        schemas.validate(each, version, strict=True)


@pytest.mark.parametrize("version", ["1.33", "1.37"])
def test_what_agent_sandbox_makes_of_the_template_is_a_pod_and_a_policy(pool, version):
    schemas = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed here")
    spec = pool["SandboxTemplate", "groundbox"]["spec"]
    pod = {"apiVersion": "v1", "kind": "Pod", **spec["podTemplate"]}
    chosen = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    policy = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "made"},
        "spec": {**chosen, **spec["networkPolicy"]},
    }

    for each in (pod, policy, pool["Namespace", "groundbox-sandboxes"], pool["Secret", "groundbox"]):
        schemas.validate(each, version, strict=True)
