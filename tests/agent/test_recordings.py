"""The recorded conversations in examples/, with their programs really run."""

from pathlib import Path
from typing import Any

import pytest

from groundbox.agent import transcript
from groundbox.agent.events import Ending, Observed
from groundbox.agent.grounded import GroundedAgent
from groundbox.agent.scripted import ScriptedModel
from groundbox.sandbox.portal import PORTAL

FOLDER = Path(__file__).parents[2] / "examples" / "conversations"


def replay(name):
    recording = transcript.read(FOLDER / f"{name}.jsonl")

    async def collect():
        copies: dict[str, Any] = {"branches": recording.branches, "rollback": recording.rollback}
        agent = GroundedAgent(ScriptedModel(recording.replies), **copies)
        return [event async for event in agent.stream(recording.question, files=recording.files)]

    events = PORTAL.call(collect())
    return recording, [event for event in events if isinstance(event, Observed)], events[-1]


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.jsonl")))
def test_a_recording_shows_what_was_recorded_and_is_answered(name):
    recording, observed, ended = replay(name)

    differences = [transcript.difference(recording.observations[each.run], each.observation.text) for each in observed]
    assert differences == [""] * len(recording.observations)
    assert ended.ending is Ending.ANSWERED
    assert list(ended.unsupported) == []


def test_an_error_is_mended():
    _, observed, _ = replay("mended_error")

    assert [each.decision.verdict for each in observed] == ["accept", "retry", "accept"]
    assert "did you mean `'revenue'`?" in observed[1].observation.text
    page = FOLDER.parents[1] / "docs" / "agent.md"
    assert f"```text\n{observed[1].observation.text}\n```" in page.read_text(encoding="utf-8")


def test_a_silent_error_is_caught_and_mended():
    _, observed, _ = replay("silent_error")

    assert [each.execution.ok for each in observed] == [True, True, True]
    assert "note pandas.merge_multiplied: line 3: " in observed[1].observation.text
    assert "pandas.merge_multiplied" not in observed[2].observation.text
    assert observed[1].execution.value["text/plain"] != observed[2].execution.value["text/plain"]


def test_sql_leads_to_a_chart():
    _, observed, _ = replay("sql_chart")

    assert [each.execution.language for each in observed] == ["sql", "sql", "python", "sql"]
    assert [picture.name for picture in observed[2].observation.pictures] == ["display 1"]


def test_a_wrong_step_is_taken_back():
    """Without going back, the amounts that had been changed would be changed twice."""
    _, observed, _ = replay("wrong_step")

    head = observed[1].observation.text.splitlines()[0]
    assert head == "run 2 (python): failed, variables and files are as they were before it"
    assert observed[2].execution.stdout == "11 invoices, from 9.9 to 230.75\n"


def test_of_three_ways_one_is_gone_on_from():
    _, observed, _ = replay("side_by_side")

    assert [each.beside for each in observed] == [(), (2, 3, 4), (2, 3, 4), (2, 3, 4), ()]
    assert observed[4].execution.text == "np.float64(11.02)"
