"""Two runs compared, from folders that are written here."""

import dataclasses
import json
import re

import pytest

from groundbox.dataset import files
from groundbox.errors import InvalidArgument
from groundbox.learn.evaluation.compare import compare, lines
from groundbox.learn.evaluation.page import page
from groundbox.learn.evaluation.report import figures
from groundbox.learn.evaluation.results import Result, opened
from groundbox.learn.evaluation.steps import Steps


def steps(told, borne_out, follows=True):
    false = 2 if borne_out < told else None
    return Steps(
        told=told, borne_out=borne_out, refuted=told - borne_out, sentences=4, first_false=false,
        first_unproven=false, follows=follows,
    )  # fmt: skip


def result(name, right, *, tokens=10, group="", steps=None, reply="Answer: 3"):
    return Result(
        id=name, group=group, right=right, reason="right" if right else "wrong", detail="", answer="3", reply=reply,
        finish="stop", prompt_tokens=5, completion_tokens=tokens, repeated=0.1, steps=steps, no_steps="",
    )  # fmt: skip


def written(folder, found, *, versions=None, **settings):
    settings = {"suite": "s", "prompts": "p", "model": {"by": "endpoint"}, "request": {}, **settings}
    with opened(folder, settings, versions or {"groundbox": "1"}) as results:
        for each in found:
            results.add(each)
        results.finish([each.id for each in found], figures(found))
    return folder


def test_pairs_are_tested_and_differences_have_intervals(tmp_path):
    a = [result(f"q{n}", n < 10, tokens=100, steps=steps(4, 2)) for n in range(30)]
    b = [result(f"q{n}", n < 10 or n >= 21, tokens=40, steps=steps(2, 2)) for n in range(31)]

    found = compare(written(tmp_path / "a", a), written(tmp_path / "b", b))

    facts = found.facts
    assert (facts["pairs"], facts["only_in_a"], facts["only_in_b"]) == (30, 0, 1)
    assert facts["right"] == {"both": 10, "only_a": 0, "only_b": 9, "neither": 11}
    assert facts["mcnemar_p"] == pytest.approx(2 / 2**9, rel=1e-3)
    accuracy = facts["differences"]["accuracy"]
    assert (accuracy["a"], accuracy["b"], accuracy["by"]) == (0.3333, 0.6333, 0.3)
    assert accuracy["interval"][0] > 0.1
    assert accuracy["interval"][1] < 0.5
    assert facts["differences"]["tokens"]["interval"] == [-60, -60]
    assert (facts["differences"]["step_truth"]["a"], facts["differences"]["step_truth"]["b"]) == (0.5, 1.0)
    assert compare(tmp_path / "a", tmp_path / "b").facts == facts
    assert "right: both 10, only A 0, only B 9, neither 11; McNemar p = 0.00391" in lines(found)


def test_groups_are_compared_too(tmp_path):
    a = [result(f"q{n}", n % 2 == 0, group="xy"[n % 2]) for n in range(8)]
    b = [result(f"q{n}", True, group="xy"[n % 2]) for n in range(8)]

    facts = compare(written(tmp_path / "a", a), written(tmp_path / "b", b)).facts

    assert facts["groups"]["x"]["right"] == {"both": 4, "only_a": 0, "only_b": 0, "neither": 0}
    assert facts["groups"]["y"]["right"] == {"both": 0, "only_a": 0, "only_b": 4, "neither": 0}


def test_runs_that_cannot_be_compared_are_refused(tmp_path):
    a = written(tmp_path / "a", [result("q", True)])

    with pytest.raises(InvalidArgument, match="different suites"):
        compare(a, written(tmp_path / "b", [result("q", True)], suite="t"))
    with pytest.raises(InvalidArgument, match="different questions or words of the same suite"):
        compare(a, written(tmp_path / "c", [result("q", True)], prompts="r"))
    with pytest.raises(InvalidArgument, match="no answered question in common"):
        compare(a, written(tmp_path / "d", [result("r", True)]))
    with pytest.raises(InvalidArgument, match="holds no results"):
        compare(a, tmp_path / "none")
    with opened(tmp_path / "e", {}, {}):
        pass
    with pytest.raises(InvalidArgument, match="has not been finished"):
        compare(a, tmp_path / "e")


def test_a_line_that_another_process_is_writing_is_not_cut_off(tmp_path):
    a = written(tmp_path / "a", [result("q", True)])
    path = a / "results.jsonl"
    path.write_bytes(path.read_bytes() + b'{"id": "r", "gr')
    before = path.read_bytes()

    assert compare(a, a).facts["pairs"] == 1
    assert path.read_bytes() == before


def test_runs_judged_by_other_versions_or_of_another_source_say_so(tmp_path):
    found = [result("q", True), result("r", False)]
    a = written(tmp_path / "a", found, versions={"groundbox": "1", "judges": "1"}, source={"name": "x", "sha256": "5"})
    b = written(tmp_path / "b", found, versions={"groundbox": "1", "judges": "2"}, source={"name": "y", "sha256": "6"})

    compared = compare(a, b)

    assert compared.facts["differs"] == {"sha256": ["5", "6"], "version of judges": ["1", "2"]}
    cautious = [line for line in lines(compared) if line.startswith("CAUTION: ")]
    assert cautious[1].startswith("CAUTION: the runs were judged by other versions: judges 1 (A) and 2 (B)")
    assert cautious[0].startswith("CAUTION: the runs were asked about another source: sha256 5 (A) and 6 (B)")
    assert "judged by other versions: judges 1 (A) and 2 (B)" in page(compared)
    assert compare(a, a).facts["differs"] == {}


def test_graded_replies_are_compared_by_their_metrics_alone(tmp_path):
    graded = [dataclasses.replace(result(f"q{n}", None), metrics={"points": n / 10, "texts": ["a"]}) for n in range(9)]
    better = [dataclasses.replace(each, metrics={"points": each.metrics["points"] + 0.25}) for each in graded]

    found = compare(written(tmp_path / "a", graded), written(tmp_path / "b", better))

    assert found.facts["differences"]["accuracy"] is None
    assert found.facts["metrics"]["points"]["interval"] == [0.25, 0.25]
    assert "points: A 0.4000, B 0.6500, B - A +0.2500 (+0.2500 to +0.2500)" in lines(found)
    assert "Replies are graded" in page(found)


def test_results_of_other_versions_are_gone_before_the_new_versions_are_written(tmp_path, monkeypatch):
    folder = written(tmp_path / "a", [result("q", True)])
    publish = files.publish

    def killed(path, data):
        if path.name == "settings.json":
            raise KeyboardInterrupt
        publish(path, data)

    monkeypatch.setattr(files, "publish", killed)
    with pytest.raises(KeyboardInterrupt):
        written(folder, [], versions={"groundbox": "2"})
    monkeypatch.undo()

    settings = {"suite": "s", "prompts": "p", "model": {"by": "endpoint"}, "request": {}}
    with opened(folder, settings, {"groundbox": "1"}) as again:
        assert again.kept == {}


def test_the_page_shows_charts_and_replies_as_text(tmp_path):
    evil = "<script>alert(1)</script>"
    a = [result("<b>q</b>", True, steps=steps(4, 2), reply=evil), result("r", False)]
    b = [result("<b>q</b>", False, steps=steps(4, 4)), result("r", False)]

    text = page(compare(written(tmp_path / "a", a), written(tmp_path / "b", b)))

    assert "<script" not in text
    assert "<b>q" not in text
    assert "&lt;script&gt;alert(1)" in text
    assert text.count("<svg") >= 8
    titles = re.findall(r"<h2>(.*?)</h2>", text)
    assert titles[:4] == ["Accuracy", "Difference, B - A", "Who is right", "What came of the replies"]
    assert "2 of 4 claims borne out, first false in sentence 2" in text


def test_results_survive_the_way_to_the_disk(tmp_path):
    row = result("q", True, steps=steps(4, 3), reply="x \ud800 \u2028 y")
    written(tmp_path / "a", [row])

    (line,) = (tmp_path / "a" / "results.jsonl").read_bytes().splitlines()

    assert json.loads(line)["steps"]["borne_out"] == 3
