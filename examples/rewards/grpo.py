"""GRPO with rewards of groundbox: a small model learns to write functions that pass hidden cases.

    python grpo.py MODEL --steps 40 --out run.jsonl --save tuned
    python grpo.py --problems problems.jsonl

MODEL is a folder of a chat model that transformers loads, such as SmolLM2-135M-Instruct. Needs torch and trl (1.16 was
used). Each step samples eight programs for each of two problems; the reward is the share of cases that a program gets
right. Before and after, eight samples are drawn for every problem, also for those that are not trained on. Lines are
written as they come, so that a run that is ended early has them; `--minutes` ends the training by itself.

The second form writes the problems for `groundbox eval model --suite mbpp:problems.jsonl`, by which the folder from
before and the saved one are compared.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from groundbox.learn.rewards.rewarding import LIMITS, Rewards

PROBLEMS = {
    "square": ("(n)", "returns the square of n", lambda n: n * n, [(2,), (5,), (-3,), (0,)]),
    "add": ("(a, b)", "returns the sum of a and b", lambda a, b: a + b, [(1, 2), (0, 0), (-4, 9)]),
    "is_even": ("(n)", "returns True if n is even and False if it is odd", lambda n: n % 2 == 0, [(2,), (7,), (0,)]),
    "largest": ("(a, b)", "returns the larger of a and b", max, [(1, 2), (5, 3), (-1, -4)]),
    "length": ("(text)", "returns how many characters text has", len, [("",), ("abc",), ("hello world",)]),
    "last": ("(items)", "returns the last item of the list items", lambda x: x[-1],
             [([1],), ([3, 4],), (["a", "b", "c"],)]),
    "total": ("(items)", "returns the sum of the numbers in the list items", sum, [([],), ([4],), ([1, 2, 3],)]),
    "shout": ("(text)", "returns text in capital letters", str.upper, [("a",), ("Hello",), ("x y",)]),
    "double": ("(n)", "returns twice n", lambda n: 2 * n, [(1,), (0,), (-7,)]),
    "first": ("(items)", "returns the first item of the list items", lambda x: x[0],
              [([1],), ([3, 4],), (["a", "b"],)]),
    "absolute": ("(n)", "returns the absolute value of n", abs, [(3,), (-3,), (0,)]),
    "is_positive": ("(n)", "returns True if n is above 0, else False", lambda n: n > 0, [(3,), (-3,), (0,)]),
}  # fmt: skip
HELD_OUT = ("double", "first", "absolute", "is_positive")


def rows(names: Iterable[str]) -> list[dict[str, Any]]:
    """Prompts with the columns that the reward wants."""
    found = []
    for name in names:
        arguments, what, right, given = PROBLEMS[name]
        cases = [{"args": list(each), "expected": right(*each)} for each in given]
        asked = f"Write a Python function `{name}{arguments}` that {what}. Reply with the code only."
        prompt = [{"role": "user", "content": asked}]
        found.append({"prompt": prompt, "entry_point": name, "cases": json.dumps(cases)})
    return found


def write_problems(path: Path) -> None:
    """Write all problems as MBPP has them; the ids of those that are not trained on begin with `held-out`."""
    with path.open("w", encoding="utf-8") as file:
        for name, (arguments, what, right, given) in PROBLEMS.items():
            shown = ", ".join(part.strip() for part in arguments.strip("()").split(","))
            tests = [f"assert {name}({', '.join(map(repr, each))}) == {right(*each)!r}" for each in given]
            row = {"task_id": f"held-out-{name}" if name in HELD_OUT else name, "test_list": tests}
            text = f"Write a Python function `{name}{arguments}` that {what}."
            code = f"def {name}({shown}):\n    ...\n"
            file.write(json.dumps({**row, "text": text, "code": code, "test_setup_code": ""}) + "\n")


def score(model: Any, tokenizer: Any, names: Iterable[str], rewards: Rewards, samples: int) -> dict[str, float]:
    """Mean reward of each problem over so many samples."""
    import torch

    found = {}
    for row in rows(names) if samples else ():
        text = tokenizer.apply_chat_template(row["prompt"], tokenize=False, add_generation_prompt=True)
        given = tokenizer(text, return_tensors="pt", add_special_tokens=False).to(model.device)
        with torch.no_grad():
            told = model.generate(**given, max_new_tokens=64, do_sample=True, num_return_sequences=samples)
        texts = tokenizer.batch_decode(told[:, given["input_ids"].shape[1] :], skip_special_tokens=True)
        got = rewards.cases(texts, [row["cases"]] * samples, [row["entry_point"]] * samples)
        known = [each for each in got if each is not None]
        found[row["entry_point"]] = sum(known) / max(1, len(known))
    return found


def main() -> None:
    """Train, and write one line of JSON for each step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, nargs="?")
    parser.add_argument("--problems", type=Path)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--samples", type=int, default=8, help="of each problem, before and after; 0 for none")
    parser.add_argument("--batch", type=int, default=16, help="programs of a step, eight for each problem")
    parser.add_argument("--tokens", type=int, default=64, help="longest reply")
    parser.add_argument("--learning-rate", type=float, default=1e-5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--save", type=Path)
    asked = parser.parse_args()
    if asked.problems is not None:
        write_problems(asked.problems)
    if asked.model is not None:
        if asked.out is None:
            parser.error("--out names the file for the lines of the run")
        train(asked)
    elif asked.problems is None:
        parser.error("name a model, or --problems")


def train(asked: argparse.Namespace) -> None:
    """Score, train, score and save."""
    import torch
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    torch.manual_seed(asked.seed)
    random.seed(asked.seed)
    tokenizer = AutoTokenizer.from_pretrained(asked.model)
    model = AutoModelForCausalLM.from_pretrained(asked.model, dtype=torch.float32)
    model = model.to("cuda" if torch.cuda.is_available() else "cpu")
    rewards = Rewards(limits=LIMITS, partial=True)
    trained = [name for name in PROBLEMS if name not in HELD_OUT]
    begun = time.monotonic()

    class Lines(TrainerCallback):  # type: ignore[misc]
        """Writes each step, and ends the training when its time is over."""

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **more: Any) -> None:
            if logs and "reward" in logs:
                kept = {name: logs.get(name) for name in ("reward", "reward_std", "step_time")}
                write({"step": state.global_step, **kept})

        def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            control.should_training_stop |= time.monotonic() - begun > 60 * asked.minutes

    with asked.out.open("w", encoding="utf-8") as file:

        def write(row: dict[str, Any]) -> None:
            file.write(json.dumps(row) + "\n")
            file.flush()

        torch.manual_seed(asked.seed)
        before = {each: score(model, tokenizer, names, rewards, asked.samples) for each, names in _parts(trained)}
        write({"before": before})
        begun = time.monotonic()
        options = GRPOConfig(
            output_dir=str(asked.out.with_suffix("")),
            max_steps=asked.steps,
            per_device_train_batch_size=asked.batch,
            num_generations=8,
            max_completion_length=asked.tokens,
            learning_rate=asked.learning_rate,
            lr_scheduler_type="constant",
            beta=0.0,
            bf16=torch.backends.cpu.get_cpu_capability() != "DEFAULT" or torch.cuda.is_available(),
            use_cpu=not torch.cuda.is_available(),
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            seed=asked.seed,
        )
        trainer = GRPOTrainer(
            model=model, reward_funcs=rewards.cases, args=options, train_dataset=Dataset.from_list(rows(trained)),
            processing_class=tokenizer, callbacks=[Lines()],
        )  # fmt: skip
        trainer.train()
        if asked.save is not None:
            trainer.model.to(torch.bfloat16).save_pretrained(asked.save)
            tokenizer.save_pretrained(asked.save)
            trainer.model.to(torch.float32)
        torch.manual_seed(asked.seed)
        after = {
            each: score(trainer.model, tokenizer, names, rewards, asked.samples) for each, names in _parts(trained)
        }
        write({"after": after, "failures": rewards.failures})
    for part in before if asked.samples else ():
        print(part, *(f"{sum(each[part].values()) / len(each[part]):.2f}" for each in (before, after)))


def _parts(trained: list[str]) -> list[tuple[str, Iterable[str]]]:
    return [("trained", trained), ("held out", HELD_OUT)]


if __name__ == "__main__":
    main()
