"""A build that a test can kill: `python killed_build.py PROBLEMS OUT WORKERS|HOST:PORT [PARTS]`."""

import asyncio
import sys
from pathlib import Path

import dataset_fakes

from groundbox.dataset.build import Tools, build
from groundbox.dataset.executor import LocalExecutor
from groundbox.dataset.options import BuildOptions


def executor(told):
    if ":" in told:
        from groundbox.dataset.ray_executor import RayExecutor

        return RayExecutor(told)
    return LocalExecutor(int(told))


if __name__ == "__main__":
    tools = Tools(
        runner=dataset_fakes.FakeRunner(pause_s=0.001),
        executor=executor(sys.argv[3]),
        narrator=dataset_fakes.tell,
        prover=dataset_fakes.prove,
        parts=sys.argv[4] if len(sys.argv) > 4 else None,
    )
    asyncio.run(build(BuildOptions(problems=(Path(sys.argv[1]),)), Path(sys.argv[2]), tools))
