"""examples/notebook.py: five languages over one folder, and what is left of it."""

import subprocess
import sys
from pathlib import Path

import pytest

from groundbox.sandbox import languages

EXAMPLES = Path(__file__).parents[2] / "examples"
ABSENT = [str(languages.missing(name)) for name in ("shell", "javascript", "dot") if languages.missing(name)]
pytestmark = pytest.mark.skipif(bool(ABSENT), reason="; ".join(ABSENT))


def test_the_notebook_leaves_a_chart_a_diagram_a_spreadsheet_and_a_report(tmp_path):
    ran = subprocess.run([sys.executable, EXAMPLES / "notebook.py", tmp_path], capture_output=True, text=True)

    assert (ran.returncode, ran.stderr) == (0, "")
    cells = ["1_orders.py", "2_look.sh", "3_revenue.sql", "4_together.js", "together.dot", "6_report.py"]
    assert [line.split(" ")[0] for line in ran.stdout.splitlines() if line.endswith("): ok")] == cells
    assert "6000 lines of 2885 orders" in ran.stdout
    assert "report.pdf: 2 pages" in ran.stdout
    assert "revenue.xlsx: 1 sheet: " in ran.stdout
    assert (tmp_path / "revenue.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")
    assert (tmp_path / "revenue.xlsx").read_bytes().startswith(b"PK")
    assert ">honey</text>" in (tmp_path / "together.svg").read_text()
