"""docs/deployment.md names every metric that a server has, and each field of its audit log."""

import json
import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "deployment.md").read_text(encoding="utf-8")


def named_below(heading):
    """Names in the first column of the first table below a heading."""
    table = PAGE.partition(f"\n## {heading}\n")[2].partition("\n| ")[2].partition("\n\n")[0]
    return {name for line in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", line.split("|")[1])}


def test_every_metric_is_on_the_page(server, client):
    server.run("1")

    told = client.get("/metrics").text

    names = set(re.findall(r"^# TYPE (\w+)", told, re.MULTILINE))
    assert {name for name in names if not name.endswith("_created")} == named_below("Metrics")


def test_every_field_of_the_audit_log_is_on_the_page(server):
    server.run("1 / 0")

    lines = (server.folder / "audit.jsonl").read_text().splitlines()

    told = {name for line in lines for name in json.loads(line)}
    assert told - named_below("Audit log") == set()
