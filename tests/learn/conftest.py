"""Evaluations and rewards by executors are importable as `judging_fakes`, also in processes that are started."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
