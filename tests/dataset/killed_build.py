"""A build that a test can kill: `python killed_build.py PROBLEMS OUT WORKERS`."""

import asyncio
import sys
from pathlib import Path

import dataset_fakes

from groundbox.dataset.build import Tools, build
from groundbox.dataset.executor import LocalExecutor
from groundbox.dataset.options import BuildOptions

if __name__ == "__main__":
    tools = Tools(
        runner=dataset_fakes.FakeRunner(pause_s=0.001),
        executor=LocalExecutor(int(sys.argv[3])),
        narrator=dataset_fakes.tell,
        prover=dataset_fakes.prove,
    )
    asyncio.run(build(BuildOptions(problems=(Path(sys.argv[1]),)), Path(sys.argv[2]), tools))
