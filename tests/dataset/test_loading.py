"""The shapes that trainers load as they are; `scripts/check_trainers.py` tries the trainers themselves."""

import json
from pathlib import Path

import pytest
from test_build import built

from groundbox.dataset import sample_files
from groundbox.dataset.options import BuildOptions

EXAMPLES = Path(__file__).parents[2] / "examples" / "problems"
BREAKS = "one\u2028two\u2029three\x85four\x0bfive\x0csix\x1cseven\rend"
"""Every character that some reader of lines takes for the end of one."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("loading")
    rows = [json.loads(line) for line in (EXAMPLES / "everyday.jsonl").read_text().splitlines()]
    rows[0]["problem_description"] = BREAKS
    (made / "problems.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    built(made / "out", BuildOptions(problems=(made / "problems.jsonl",)))
    return made / "out"


def chats(path):
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def test_a_chat_is_a_question_and_a_reply_and_each_line_has_the_same_keys(folder):
    rows = chats(folder / "sft.jsonl")

    assert {tuple(row) for row in rows} == {("messages", "id", "task", "claims")}
    assert {tuple(each["role"] for each in row["messages"]) for row in rows} == {("user", "assistant")}
    assert {tuple(each) for row in rows for each in row["messages"]} == {("role", "content")}
    assert all(each["content"].strip() for row in rows for each in row["messages"])


def test_arrow_reads_the_chats_as_datasets_does_with_one_schema_for_all_splits(folder):
    arrow = pytest.importorskip("pyarrow.json", reason="pyarrow comes with groundbox[data]")
    files = [path for path in folder.glob("sft*.jsonl") if path.stat().st_size]

    tables = [arrow.read_json(path) for path in files]

    assert len({str(table.schema) for table in tables}) == 1
    assert [table.to_pylist() for table in tables] == [chats(path) for path in files]


def test_no_line_of_a_chat_file_can_be_taken_for_two(folder):
    text = (folder / "sft.jsonl").read_bytes().decode()

    assert BREAKS in chats(folder / "sft.jsonl")[0]["messages"][0]["content"]
    assert len(text.splitlines()) == text.count("\n")


def test_card_and_dataset_info_name_the_files_of_all_splits_that_have_lines(folder):
    with_lines = {split for split in ("train", "validation", "test") if chats(folder / sample_files.chat_file(split))}
    _, front, _ = (folder / "README.md").read_text().split("---\n", 2)
    entries = json.loads((folder / "dataset_info.json").read_text())

    listed = front.partition("  data_files:\n")[2].splitlines()
    assert listed == [
        line
        for split in ("train", "validation", "test")
        if split in with_lines
        for line in (f"  - split: {split}", f"    path: {sample_files.chat_file(split)}")
    ]
    assert {name: entry["file_name"] for name, entry in entries.items()} == {
        f"groundbox_{split}": sample_files.chat_file(split) for split in with_lines
    }
    assert "train" in with_lines
    assert with_lines != {"train", "validation", "test"}, "a split without lines is what this is about"


def test_an_entry_of_llama_factory_tells_roles_and_contents_as_the_chats_have_them(folder):
    entry = json.loads((folder / "dataset_info.json").read_text())["groundbox_train"]

    assert entry == {
        "file_name": "sft.jsonl",
        "formatting": "sharegpt",
        "columns": {"messages": "messages"},
        "tags": {"role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant"},
    }
