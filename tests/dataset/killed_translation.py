"""A translation that a test can kill: `python killed_translation.py DATASET OUT URL`."""

import asyncio
import sys
from pathlib import Path

import dataset_fakes

from groundbox.dataset.build import Tools
from groundbox.dataset.executor import LocalExecutor
from groundbox.dataset.translation.dataset import translate_dataset
from groundbox.dataset.translation.endpoint import Endpoint
from groundbox.dataset.translation.options import TranslateOptions

if __name__ == "__main__":
    tools = Tools(
        runner=dataset_fakes.FakeRunner(pause_s=0.001),
        executor=LocalExecutor(2),
        narrator=dataset_fakes.tell,
        prover=dataset_fakes.prove,
        telling_prover=dataset_fakes.prove_foreign,
    )
    asyncio.run(
        translate_dataset(
            Path(sys.argv[1]),
            Path(sys.argv[2]),
            TranslateOptions(model="m", tells="prose", at_once=4),
            tools,
            lambda cache: Endpoint(sys.argv[3], "m", at_once=4, cache=cache),
        )
    )
