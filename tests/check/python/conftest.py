"""The pairs of programs are importable as `python_pairs_before` and `python_pairs_after`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
