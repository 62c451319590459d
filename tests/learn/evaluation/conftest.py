"""The scripted endpoint of the datasets' tests is importable as `endpoint_fakes`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "dataset"))
