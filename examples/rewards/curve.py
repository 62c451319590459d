"""Draw the rewards that `grpo.py` wrote: dots for steps, a line for the mean of five.

python curve.py run.jsonl curve.svg
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

WIDTH, HEIGHT, LEFT, BOTTOM = 640, 280, 46, 38
_TEXT = "font-family='sans-serif' font-size='12' fill='#333'"


def curve(rewards: list[float]) -> str:
    """The chart as SVG; rewards are from 0 to 1."""

    def x(step: float) -> float:
        return LEFT + (WIDTH - LEFT - 12) * step / len(rewards)

    def y(reward: float) -> float:
        return 12 + (HEIGHT - BOTTOM - 12) * (1 - reward)

    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {HEIGHT}' width='{WIDTH}' height='{HEIGHT}'>"
    ]
    parts.append(f"<rect width='{WIDTH}' height='{HEIGHT}' fill='white'/>")
    for tick in (0, 0.25, 0.5, 0.75, 1):
        parts.append(f"<line x1='{LEFT}' x2='{WIDTH - 12}' y1='{y(tick):.1f}' y2='{y(tick):.1f}' stroke='#ddd'/>")
        parts.append(f"<text x='{LEFT - 6}' y='{y(tick) + 4:.1f}' text-anchor='end' {_TEXT}>{tick:g}</text>")
    for step in range(0, len(rewards) + 1, 10):
        parts.append(f"<text x='{x(step):.1f}' y='{HEIGHT - 20}' text-anchor='middle' {_TEXT}>{step}</text>")
    parts.append(f"<text x='{(WIDTH + LEFT) / 2}' y='{HEIGHT - 4}' text-anchor='middle' {_TEXT}>step</text>")
    for number, reward in enumerate(rewards, 1):
        parts.append(f"<circle cx='{x(number):.1f}' cy='{y(reward):.1f}' r='2.5' fill='#9ab'/>")
    means = [
        sum(rewards[max(0, at - 4) : at + 1]) / len(rewards[max(0, at - 4) : at + 1]) for at in range(len(rewards))
    ]
    line = " ".join(f"{x(number):.1f},{y(mean):.1f}" for number, mean in enumerate(means, 1))
    parts.append(f"<polyline points='{line}' fill='none' stroke='#06c' stroke-width='2'/>")
    return "\n".join([*parts, "</svg>", ""])


def main() -> None:
    """Read the steps, write the chart."""
    rows = [json.loads(line) for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()]
    Path(sys.argv[2]).write_text(curve([row["reward"] for row in rows if "reward" in row]), encoding="utf-8")


if __name__ == "__main__":
    main()
