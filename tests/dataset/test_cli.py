"""`groundbox dataset` as programs see it: exit status, stdout, stderr, and what it leaves behind."""

import contextlib
import json
import multiprocessing
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

from groundbox.cli import dataset as commands
from groundbox.dataset.executor import LocalExecutor, Shard


class _Nothing:
    def __call__(self, shard):
        return {}


ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "problems"


def groundbox(*arguments):
    command = [sys.executable, "-m", "groundbox", "dataset", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def problems(tmp_path_factory):
    path = tmp_path_factory.mktemp("problems") / "few.jsonl"
    rows = (EXAMPLES / "everyday.jsonl").read_text().splitlines(keepends=True)
    path.write_text("".join(rows[7:10]))
    return path


@pytest.fixture(scope="module")
def built(problems, tmp_path_factory):
    out = tmp_path_factory.mktemp("built") / "out"
    return out, groundbox("build", "--problems", problems, "--out", out, "--json")


def test_a_build_prints_its_report_and_writes_its_files(built):
    out, ran = built

    report = json.loads(ran.stdout)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert report == json.loads((out / "report.json").read_text())
    assert report["items"] == 15
    assert report["runnable"] == report["traced"] == 15
    assert report["claims"]["proven"] > 0
    assert sorted(each.name for each in out.iterdir()) == [
        ".shards", "README.md", "dataset_info.json", "dropped.jsonl", "report.html", "report.json",
        "samples.parquet", "sft-test.jsonl", "sft-validation.jsonl", "sft.jsonl",
    ]  # fmt: skip


def test_a_sound_dataset_is_verified(built):
    out, _ = built

    ran = groundbox("verify", out)

    assert (ran.returncode, ran.stdout) == (0, "")
    assert ran.stderr.endswith("verified, 0 differences\n")


def test_a_dataset_that_differs_ends_with_1_and_says_what(built, tmp_path):
    out, _ = built
    copy = tmp_path / "copy"
    copy.mkdir()
    for each in out.iterdir():
        if each.is_file():
            (copy / each.name).write_bytes(each.read_bytes())
    (copy / "dropped.jsonl").write_text("{}\n")

    ran = groundbox("verify", copy, "--json")

    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    assert ran.returncode == 1
    assert lines[0] == {"where": "dropped.jsonl", "what": "file", "detail": "it is not as it was written"}
    assert lines[-1]["differences"] == 1


def test_words_for_people_go_to_stderr(built, problems):
    out, _ = built

    ran = groundbox("build", problems, "--out", out)

    assert (ran.returncode, ran.stdout) == (0, "")
    assert ran.stderr.startswith("groundbox: ")
    assert f"of 15 items in {out}" in ran.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "Missing option '--out'"),
        (("--out", "{tmp}/x"), "name at least one file with --problems"),
        (("--out", "{tmp}/x", "nowhere.jsonl"), "problems: nowhere.jsonl does not exist"),
        (
            ("--out", "{out}", "{problems}", "--seed", "1"),
            "out: {out} holds a build with other arguments (seed: 0 there",
        ),
        (("--out", "{problems}", "{problems}"), "out: {problems} is not a folder"),
        (("--out", "{tmp}/x", "{problems}", "--licence", "MIT"), "--licence: 'MIT' is not FILE=NAME"),
        (("--out", "{tmp}/x", "{problems}", "--task", "poem"), "'poem' is not one of"),
        (("--out", "{tmp}/x", "{problems}", "--containment", "2"), "2.0 is not in the range"),
    ],
)
def test_bad_usage_ends_with_2_and_says_how(built, problems, tmp_path, arguments, complaint):
    names = {"out": built[0], "problems": problems, "tmp": tmp_path}

    ran = groundbox("build", *(each.format(**names) for each in arguments))

    assert (ran.returncode, ran.stdout) == (2, "")
    assert complaint.format(**names) in ran.stderr
    assert not (tmp_path / "x").exists()


def test_a_folder_without_a_dataset_is_bad_usage(tmp_path):
    ran = groundbox("verify", tmp_path)

    assert ran.returncode == 2
    assert "holds no finished dataset" in ran.stderr


def test_a_missing_library_is_named_with_the_way_to_get_it(tmp_path, problems):
    hidden = "import sys; sys.modules['rensa'] = None; from groundbox.cli.main import main; main()"

    ran = subprocess.run(
        [sys.executable, "-c", hidden, "dataset", "build", problems, "--out", tmp_path / "x"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert ran.returncode == 3
    assert ran.stderr == (
        "groundbox: rensa is needed to find near-duplicate programs, and not installed: "
        "pip install pyarrow rensa httpx\n"
    )


def test_what_counts_tokens_is_not_of_the_extra_and_is_named_by_itself(tmp_path, problems):
    hidden = "import sys; sys.modules['tokenizers'] = None; from groundbox.cli.main import main; main()"

    ran = subprocess.run(
        [sys.executable, "-c", hidden, "dataset", "build", problems, "--out", tmp_path / "x", "--tokenizer", problems],
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert ran.returncode == 3
    assert ran.stderr == "groundbox: tokenizers is needed to count tokens, and not installed: pip install tokenizers\n"


def test_the_libraries_are_not_imported_before_they_are_needed():
    source = "import sys, groundbox.cli.dataset; print(sorted({'pyarrow', 'rensa'} & sys.modules.keys()))"

    ran = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)

    assert ran.stdout == "[]\n"


def test_the_part_of_a_reply_that_the_readme_shows_is_of_the_first_of_the_examples(tmp_path):
    with (EXAMPLES / "everyday.jsonl").open() as examples:
        (tmp_path / "everyday.jsonl").write_text(next(examples))
    shown = re.search(r"there says among others:\n\n> (.*)\n", (ROOT / "README.md").read_text())

    ran = groundbox("build", tmp_path / "everyday.jsonl", "--out", tmp_path / "out")

    first = json.loads((tmp_path / "out" / "sft.jsonl").read_text().partition("\n")[0])
    assert ran.returncode == 0
    assert len(shown[1]) > 100
    assert shown[1] in first["messages"][1]["content"]


def test_the_number_of_inputs_to_make_is_taken(tmp_path):
    words = ["--problems", "x", "--out", str(tmp_path), "--made-inputs", "3"]
    # click keeps the names of the help option that it sees first, for all tests of this process
    given = commands.build.make_context("build", words, help_option_names=["-h", "--help"]).params

    assert commands._options((), given).made_inputs == 3


@pytest.mark.parametrize("fault", [None, ValueError])
def test_the_processes_that_computed_are_ended_with_the_work(fault):
    executor, others = LocalExecutor(1), multiprocessing.active_children()

    async def work():
        await executor.compute(_Nothing(), Shard(stage="s", number=0, payload=None))
        if fault:
            raise fault

    with pytest.raises(fault) if fault else contextlib.nullcontext():
        commands._carried_out(work(), types.SimpleNamespace(executor=executor))  # type: ignore[arg-type]  # all that is read

    assert [each for each in multiprocessing.active_children() if each not in others] == []
