"""`groundbox eval` as it is called."""

import json
import subprocess
import sys
from pathlib import Path

PROBLEMS = Path(__file__).parents[1] / "learn" / "evaluation" / "problems.jsonl"


def called(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "groundbox", "eval", *map(str, arguments)], capture_output=True, text=True, check=False
    )


def test_canonical_solutions_score_one_and_wrong_ones_less(tmp_path):
    rows = [json.loads(line) for line in PROBLEMS.read_text().splitlines()]
    samples = tmp_path / "s.jsonl"
    lines = [{"task_id": r["task_id"], "completion": r["canonical_solution"]} for r in rows]
    lines += [{"task_id": r["task_id"], "completion": "    return None\n"} for r in rows]
    samples.write_text("".join(json.dumps(line) + "\n" for line in lines))

    ran = called("humaneval", "--samples", samples, "--problems", PROBLEMS, "--out", tmp_path / "o.jsonl", "--json")

    assert ran.returncode == 0, ran.stderr
    report = json.loads(ran.stdout)
    assert report == {
        "problems": 4, "samples": 8, "pass@1": 0.5, "pass@10": None, "pass@100": None,
        "reasons": {"passed": 4, "failed": 4},
    }  # fmt: skip
    told = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    assert [one["passed"] for one in told] == [True] * 4 + [False] * 4


def test_samples_may_hold_their_problems(tmp_path):
    row = json.loads(PROBLEMS.read_text().splitlines()[0])
    samples = tmp_path / "s.jsonl"
    samples.write_text(json.dumps({**row, "completion": row["canonical_solution"]}) + "\n")

    ran = called("humaneval", "--samples", samples, "--k", 1)

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == ["problems   1", "samples    1", "pass@1     1.0000"]


def test_pal(tmp_path):
    samples = tmp_path / "p.jsonl"
    samples.write_text(
        '{"question": "q", "program": "def solution():\\n    return 3", "answer": 3}\n'
        '{"question": "q", "program": "print(4)", "answer": 3}\n'
    )

    ran = called("pal", "--samples", samples, "--json")

    assert json.loads(ran.stdout) == {"samples": 2, "right": 1, "accuracy": 0.5, "reasons": {"right": 1, "wrong": 1}}


def test_a_bad_file_is_bad_usage(tmp_path):
    ran = called("pal", "--samples", tmp_path / "none.jsonl")

    assert ran.returncode == 2
    assert "--samples" in ran.stderr
