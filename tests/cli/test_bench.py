"""`groundbox bench` measures and says so in a table or as JSON; what it measured is PERFORMANCE.md's."""

import json


def test_bench_measures_every_kind(command):
    ran = command("bench", "--profile", "bare", "--runs", "3", "--json")

    rows = [json.loads(line) for line in ran.stdout.splitlines()]
    assert (ran.code, ran.stderr) == (0, "")
    assert [(row["snippet"], row["kind"]) for row in rows] == [
        ("start", "template"),
        ("print", "fresh"),
        ("print", "second cell"),
        ("print", "2 at once"),
        ("print", "8 at once"),
    ]
    assert all(0 < row["p50_ms"] <= row["p95_ms"] for row in rows if "p50_ms" in row)
    assert all(row["runs_per_s"] > 0 for row in rows if "runs_per_s" in row)


def test_bench_shows_a_table(command):
    ran = command("bench", "--profile", "bare", "--runs", "2")

    lines = ran.stdout.splitlines()
    assert ran.code == 0
    assert lines[0].endswith("; profile bare; 2 runs each")
    assert lines[1].split() == ["p50", "p95", "rate"]
    assert len(lines) == 7
