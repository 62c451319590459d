"""The small transformer: its answers, that it learns, and a run of the experiment from prepared texts. Needs torch."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed here; `make training` runs this")

from groundbox.errors import InvalidArgument  # noqa: E402
from groundbox.learn import transformer  # noqa: E402
from groundbox.learn.experiment.__main__ import _train  # noqa: E402
from groundbox.learn.experiment.data import DRAWN, RUN, SAME, SCORES, TRAINING, Run, keep_plan, run_folder  # noqa: E402
from groundbox.learn.experiment.plan import SPLITS, Plan  # noqa: E402
from groundbox.learn.experiment.running import device_of, learn_vocabulary, run  # noqa: E402
from groundbox.learn.transformer import (  # noqa: E402
    END,
    PAD,
    Muon,
    Shape,
    Text,
    Tokenizer,
    Training,
    Transformer,
    answers,
    computing,
    train,
)

TINY = Plan(
    arms=("direct",), tokens=3_000, layers=1, width=32, heads=2, batch=256, room=48, compiled=False, programs=1
)  # fmt: skip


def test_texts_come_back_from_their_tokens_and_digits_stand_alone() -> None:
    text = "def f(a):\n    return a // 12\n\nf(-3)\n1. `a` is set to `a - 1` = 3.\nAnswer: 4"
    tokenizer = Tokenizer.learn([text] * 5)
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert len(tokenizer.encode("1234")) == 4
    assert tokenizer.decode(tokenizer.encode("unheard-of words")) == "unheard-of words"
    assert tokenizer.decode(tokenizer.encode("é")) == ""
    assert Tokenizer(tokenizer.pieces).encode(text) == tokenizer.encode(text)


def random_model(seed: int = 0) -> Transformer:
    torch.manual_seed(seed)
    model = Transformer(50, Shape(layers=2, width=48, heads=3, context=64))
    model.eval()
    for weight in model.parameters():
        if weight.ndim == 2:
            torch.nn.init.normal_(weight, std=0.3)
    return model


def test_answers_are_the_same_together_alone_and_without_a_cache() -> None:
    model, prompts = random_model(), [[5, 6, 7], [9, 3, 4, 8, 2, 11], [20]]
    together = answers(model, prompts, most=12)
    assert together == [answers(model, [prompt], most=12)[0] for prompt in prompts]
    for prompt, found in zip(prompts, together, strict=True):
        tokens = list(prompt)
        for _ in range(12):
            with computing("cpu"), torch.no_grad():
                tokens.append(model(torch.tensor([tokens]))[0, -1].argmax().item())
        assert tokens[len(prompt) :] == found[:12]


def test_a_reply_that_is_cut_ends_with_padding_and_one_that_ends_does_not() -> None:
    model = random_model()
    assert answers(model, [[5, 6, 7]], most=4)[0][-1] == PAD
    with torch.no_grad():
        model.embedding.weight[END] = 100 * model.embedding.weight.abs().sum(0)
    found = answers(model, [[5, 6, 7], [8, 9]], most=4)
    assert all(PAD not in reply or len(reply) == 5 for reply in found)


@pytest.mark.parametrize("shape", [(8, 24), (24, 8), (8, 8)])
@pytest.mark.parametrize("bf16", [True, False])
def test_muon_steps_as_that_of_torch(shape: tuple[int, int], bf16: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transformer, "has_bf16", lambda: bf16)
    torch.manual_seed(0)
    ours = torch.nn.Parameter(torch.randn(shape))
    theirs = torch.nn.Parameter(ours.detach().clone())
    pairs = [(ours, Muon([ours], rate=0.1)), (theirs, torch.optim.Muon([theirs], lr=0.1, weight_decay=0.01))]
    for _ in range(4):
        gradient = torch.randn(shape)
        for matrix, optimizer in pairs:
            matrix.grad = gradient.clone()
            optimizer.step()

    assert torch.allclose(ours, theirs, atol=1e-6 if bf16 else 0.02)


def copying(count: int) -> list[Text]:
    drawn = torch.randint(4, 14, (count, 6), generator=torch.Generator().manual_seed(0)).tolist()
    return [Text(prompt=[2, *each, 3], reply=[*each, END]) for each in drawn]


def test_it_learns_to_copy_and_the_same_seed_gives_the_same_model() -> None:
    shape = Shape(layers=2, width=48, heads=3, context=32)
    training = Training(tokens=60_000, batch=512, compiled=False)
    texts = copying(400)
    model = train(texts[:360], 14, shape, training)
    held_out = texts[360:]
    found = answers(model, [each.prompt for each in held_out], most=8)
    right = sum(reply == list(each.reply[:-1]) for reply, each in zip(found, held_out, strict=True))
    assert right >= 30

    short = dataclasses.replace(training, tokens=2_000)
    first, second, other = (
        train(texts, 14, shape, each).embedding.weight for each in (short, short, dataclasses.replace(short, seed=1))
    )
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


def prepared(tmp_path: Path) -> None:
    lines = [
        Run(id=str(n), prompt=f"f({n})\n", answer=str(n), steps=4, replies={"direct": f"Answer: {n}"}, trace=None)
        for n in range(8)
    ]
    too_long = dataclasses.replace(lines[0], id="long", prompt="f(0)\n" * 40)
    for name, some in ((TRAINING, lines), (SAME, [*lines[:3], too_long])):
        text = "".join(json.dumps(each.to_json()) + "\n" for each in some)
        (tmp_path / f"{name}.jsonl").write_text(text)
    for name in SPLITS:
        (tmp_path / f"{name}.jsonl").touch()
    learn_vocabulary(tmp_path, TINY)


def test_a_run_is_trained_and_scored_once(tmp_path: Path) -> None:
    prepared(tmp_path)
    run(tmp_path, TINY, "direct", 0)
    folder = run_folder(tmp_path, "direct", 0)
    facts = json.loads((folder / RUN).read_text())
    scores = [json.loads(line) for line in (folder / SCORES).read_text().splitlines()]
    assert facts["losses"][-1][1] < facts["losses"][0][1]
    assert [each["id"] for each in scores] == ["0", "1", "2", "long"]
    assert (scores[-1]["right"], scores[-1]["finished"], scores[-1]["tokens"]) == (False, False, 0)

    before = (folder / RUN).stat().st_mtime_ns
    run(tmp_path, TINY, "direct", 0)
    assert (folder / RUN).stat().st_mtime_ns == before


def test_drawn_replies_are_scored_beside_the_likeliest_and_repeat_by_seed(tmp_path: Path) -> None:
    prepared(tmp_path)
    run(tmp_path, dataclasses.replace(TINY, drawn=True), "direct", 0)
    scores = [json.loads(line) for line in (run_folder(tmp_path, "direct", 0) / SCORES).read_text().splitlines()]
    assert [(each["id"], each["split"]) for each in scores] == [
        (name, split) for split in (SAME, DRAWN) for name in ("0", "1", "2", "long")
    ]

    model, prompts = random_model(), [[5, 6, 7], [9, 3, 4, 8, 2, 11]]
    first, again, other = (answers(model, prompts, most=20, drawn=seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_a_gpu_is_taken_where_there_is_one_and_asking_for_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert [device_of(asked) for asked in ("auto", "cpu", "cuda")] == ["cuda", "cpu", "cuda"]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert [device_of(asked) for asked in ("auto", "cpu")] == ["cpu", "cpu"]
    with pytest.raises(InvalidArgument, match="torch sees no GPU here"):
        device_of("cuda")


def test_a_model_that_cannot_be_trained_is_named_and_the_others_are_trained(tmp_path: Path) -> None:
    prepared(tmp_path)
    plan = dataclasses.replace(TINY, seeds=(0, 1), room=4)
    keep_plan(tmp_path, plan, None)
    assert asyncio.run(_train(tmp_path, plan, plan.arms, plan.seeds, 2)) == [
        "direct 0 (status 1)",
        "direct 1 (status 1)",
    ]

    with pytest.raises(InvalidArgument, match="all 8 texts of direct are longer than 4 tokens"):
        run(tmp_path, plan, "direct", 0)
