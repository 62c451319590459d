"""Runs the recorded conversations of examples/conversations anew and writes down what their programs show now.

    python scripts/record_conversations.py [NAME…]

Replies and files stay as they are. What differs from run to run (receipts with their times) is left out.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from groundbox.agent import transcript
from groundbox.agent.grounded import GroundedAgent
from groundbox.agent.scripted import ScriptedModel
from groundbox.agent.transcript import Recording

FOLDER = Path(__file__).parents[1] / "examples" / "conversations"
CHANGING = {"observed": ("receipt",), "ended": ("receipts", "spent", "dollars")}


def main() -> None:
    for path in sorted(FOLDER.glob("*.jsonl")):
        if len(sys.argv) < 2 or path.stem in sys.argv[1:]:
            first = json.loads(path.read_text(encoding="utf-8").split("\n", 1)[0])
            lines = [first, *asyncio.run(again(transcript.read(path)))]
            path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
            print(f"{path.name}: {lines[-1]['ending']}, {len(lines[-1]['unsupported'])} claims without receipt")


async def again(recording: Recording) -> list[dict[str, Any]]:
    """The events of a recording, with what its programs show now."""
    copies: dict[str, Any] = {"branches": recording.branches, "rollback": recording.rollback}
    agent = GroundedAgent(ScriptedModel(recording.replies), **copies)
    events = [transcript.line(event) async for event in agent.stream(recording.question, files=recording.files)]
    kept = [{name: each[name] for name in each if name not in CHANGING.get(each["event"], ())} for each in events]
    return [each for each in kept if each["event"] != "started"]


if __name__ == "__main__":
    main()
