"""GRPO with rewards of groundbox: a small model learns to write functions that pass hidden cases.

    python grpo.py MODEL --steps 40 --out run.jsonl

MODEL is a folder of a chat model that transformers loads, such as SmolLM2-135M-Instruct. Needs torch and trl (1.16 was
used). Each step samples eight programs for each of two problems; the reward is the share of cases that a program gets
right. Before and after, four samples are drawn for every problem, also for those that are not trained on.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

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


def score(model: Any, tokenizer: Any, names: Iterable[str], rewards: Rewards, samples: int) -> dict[str, float]:
    """Mean reward of each problem over so many samples."""
    found = {}
    for row in rows(names):
        text = tokenizer.apply_chat_template(row["prompt"], tokenize=False, add_generation_prompt=True)
        given = tokenizer(text, return_tensors="pt", add_special_tokens=False)
        with torch.no_grad():
            told = model.generate(**given, max_new_tokens=64, do_sample=True, num_return_sequences=samples)
        texts = tokenizer.batch_decode(told[:, given["input_ids"].shape[1] :], skip_special_tokens=True)
        got = rewards.cases(texts, [row["cases"]] * samples, [row["entry_point"]] * samples)
        known = [each for each in got if each is not None]
        found[row["entry_point"]] = sum(known) / max(1, len(known))
    return found


def main() -> None:
    """Train, and write one line of JSON for each step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--learning-rate", type=float, default=1e-5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    torch.manual_seed(asked.seed)
    random.seed(asked.seed)
    tokenizer = AutoTokenizer.from_pretrained(asked.model)
    model = AutoModelForCausalLM.from_pretrained(asked.model, dtype=torch.float32)
    rewards = Rewards(limits=LIMITS, partial=True)
    trained = [name for name in PROBLEMS if name not in HELD_OUT]
    before = {each: score(model, tokenizer, names, rewards, asked.samples) for each, names in _parts(trained)}
    data = rows(trained)
    options = GRPOConfig(
        output_dir=str(asked.out.with_suffix("")),
        max_steps=asked.steps,
        per_device_train_batch_size=16,
        num_generations=8,
        max_completion_length=64,
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
        model=model, reward_funcs=rewards.cases, args=options, train_dataset=Dataset.from_list(data),
        processing_class=tokenizer,
    )  # fmt: skip
    trainer.train()
    after = {each: score(trainer.model, tokenizer, names, rewards, asked.samples) for each, names in _parts(trained)}
    with asked.out.open("w", encoding="utf-8") as file:
        for entry in trainer.state.log_history:
            if "reward" in entry:
                kept = {"step": entry["step"], "reward": entry["reward"], "reward_std": entry["reward_std"]}
                file.write(json.dumps({**kept, "step_time": entry.get("step_time")}) + "\n")
        file.write(json.dumps({"before": before, "after": after, "failures": rewards.failures}) + "\n")
    for part in before:
        print(part, *(f"{sum(each[part].values()) / len(each[part]):.2f}" for each in (before, after)))


def _parts(trained: list[str]) -> list[tuple[str, Iterable[str]]]:
    return [("trained", trained), ("held out", HELD_OUT)]


if __name__ == "__main__":
    main()
