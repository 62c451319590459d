"""A small language model from scratch, on one page: tokens, a decoder, its training on replies, and greedy answers.

It is for experiments that compare texts and not models: some million parameters and tokens, two cores. The parts are
known ones: RMS norms, normalised queries and keys, squared ReLU, tied embeddings; matrices are trained by Muon
(orthogonalised momentum), the rest by AdamW. Where things stand is told by a forget gate in each head (arXiv
2503.02130) and not by rotations: the latest value of a name is then found after half of the tokens. Needs torch.
"""

from __future__ import annotations

import collections
import dataclasses
import math
import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional

from groundbox.learn.training.base import has_bf16

PAD: Final = 0
END: Final = 1
_SPECIAL: Final = 2
_PIECES: Final = re.compile(
    r"\n *| ?(?:==|!=|<=|>=|//|\*\*|\.\.\.|Answer:) ?|\d|[^\W\d]+(?: (?=\w))?| ?[^\w\s] ?|\s", re.ASCII
)
"""Digits stand alone, so that numbers of any length are read the same way; a line's indentation is one token; signs
take the spaces around them along, so that a name is the same token in code and in a sentence."""


class Tokenizer:
    """Words and signs of a text as numbers; what the vocabulary lacks is spelt in characters.

    Args:
        pieces: The vocabulary; `learn` finds one.
    """

    def __init__(self, pieces: Sequence[str]) -> None:
        self.pieces = list(pieces)
        self._texts = [*[""] * _SPECIAL, *self.pieces]
        self._ids = {text: number for number, text in enumerate(self._texts) if number >= _SPECIAL}

    @classmethod
    def learn(cls, texts: Iterable[str], *, least: int = 5) -> Tokenizer:
        """Make a vocabulary of the pieces that occur `least` times, all ASCII, and every character of the texts."""
        counts = collections.Counter(piece for text in texts for piece in _PIECES.findall(text))
        characters = {chr(code) for code in range(32, 127)} | {"\n"} | {char for piece in counts for char in piece}
        return cls(sorted(characters | {piece for piece, count in counts.items() if count >= least}))

    def __len__(self) -> int:
        return len(self._texts)

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, without `END`. Characters that were never seen are left out."""
        found: list[int] = []
        for piece in _PIECES.findall(text):
            whole = self._ids.get(piece)
            found += [whole] if whole is not None else [self._ids[char] for char in piece if char in self._ids]
        return found

    def decode(self, tokens: Iterable[int]) -> str:
        """The text of tokens."""
        return "".join(self._texts[token] for token in tokens)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shape:
    """Size of a model. `width` is a multiple of `heads`."""

    layers: int = 4
    width: int = 192
    heads: int = 6
    context: int = 768


_SORTED: Final = 2048
"""Texts that are sorted by length, so that those of a batch are of like lengths."""
_NEAR: Final = 3
"""Tokens just before each that its attention looks with, and is looked for by: what follows a name is then found by the
name in one layer, where it would take two (the short convolution of arXiv 2212.14052 and 2512.17351)."""


class _Attention(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.near = nn.Parameter(0.3 * torch.randn(_NEAR, shape.width))
        self.mixed = nn.Linear(shape.width, 3 * shape.width, bias=False)
        self.gate = nn.Linear(shape.width, shape.heads)
        self.out = nn.Linear(shape.width, shape.width, bias=False)
        nn.init.zeros_(self.gate.weight)
        with torch.no_grad():
            self.gate.bias.copy_(torch.linspace(0.0, 6.0, shape.heads))  # keeps from half to nearly all, token by token

    def forward(self, x: Tensor, cache: list[Tensor] | None, mask: Tensor | None) -> Tensor:
        batch, length, width = x.shape
        around = torch.cat([cache[3] if cache else x.new_zeros(batch, _NEAR, width), x], 1)
        for back, weight in enumerate(self.near.to(x.dtype), 1):
            x = x + weight * around[:, _NEAR - back : _NEAR - back + length]
        parts = self.mixed(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        query, key, value = _normed(parts[0]), _normed(parts[1]), parts[2]
        kept = functional.logsigmoid(self.gate(x).float()).transpose(1, 2)
        if cache is not None:
            if cache:
                key, value = torch.cat([cache[0], key], 2), torch.cat([cache[1], value], 2)
                kept = torch.cat([cache[2], kept], 2)
            cache[:] = [key, value, kept, around[:, -_NEAR:]]
        if mask is None:
            mask = torch.ones(length, length, dtype=torch.bool, device=x.device).tril()
        since = kept.cumsum(2)
        bias = since[:, :, -length:, None] - since[:, :, None, :]
        bias = bias.masked_fill(~mask, float("-inf")).to(query.dtype)
        mixed = functional.scaled_dot_product_attention(query, key, value, bias)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class _Block(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.attention = _Attention(shape)
        self.rise = nn.Linear(shape.width, 4 * shape.width, bias=False)
        self.fall = nn.Linear(4 * shape.width, shape.width, bias=False)

    def forward(self, x: Tensor, cache: list[Tensor] | None, mask: Tensor | None) -> Tensor:
        x = x + self.attention(_normed(x), cache, mask)
        return x + self.fall(_squared(functional.relu(self.rise(_normed(x)))))


class Transformer(nn.Module):
    """A decoder. `forward` takes tokens (batch, length) and gives logits (batch, length, vocabulary)."""

    def __init__(self, vocabulary: int, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.embedding = nn.Embedding(vocabulary, shape.width)
        self.blocks = nn.ModuleList(_Block(shape) for _ in range(shape.layers))
        nn.init.normal_(self.embedding.weight, std=0.02)
        for name, weight in self.named_parameters():
            if _is_matrix(name):
                last = "out" in name or "fall" in name
                nn.init.normal_(weight, std=(0.5 if last else 1.0) / math.sqrt(weight.shape[1]))

    def forward(self, tokens: Tensor, caches: list[list[Tensor]] | None = None, keep: Tensor | None = None) -> Tensor:
        """Give the logits.

        Args:
            caches: A list for each block, empty at first, that holds what is needed of the tokens of earlier calls.
            keep: With caches: (batch, length of all calls), False for padding, which stands on the left.
        """
        length = tokens.shape[1]
        begin = 0 if keep is None else keep.shape[1] - length
        x, mask = _normed(self.embedding(tokens)), None
        if keep is not None:
            causal = torch.ones(length, begin + length, dtype=torch.bool, device=x.device).tril(begin)
            mask = (causal & keep[:, None]) | torch.eye(begin + length, dtype=torch.bool, device=x.device)[begin:]
            mask = mask[:, None]
        for number, block in enumerate(self.blocks):
            if keep is not None:
                x = x * keep[:, begin:, None]
            x = block(x, None if caches is None else caches[number], mask)
        return functional.linear(_normed(x), self.embedding.weight).float()


def _is_matrix(name: str) -> bool:
    """Tell whether a parameter is what Muon is for: a matrix between layers."""
    return not any(part in name for part in ("embedding", "near", "gate"))


def _squared(x: Tensor) -> Tensor:
    return x * x


def _normed(x: Tensor) -> Tensor:
    return functional.rms_norm(x, (x.shape[-1],))


_NEWTON_SCHULZ: Final = (3.4445, -4.7750, 2.0315)
_MOMENTUM: Final = 0.95
_DECAY: Final = 0.01


class Muon(torch.optim.Optimizer):
    """Steps along the momentum of a matrix with all singular values near 1 (https://kellerjordan.github.io/posts/muon).

    As `torch.optim.Muon`, but with numbers of 16 bits only where the processor or GPU has them: elsewhere torch's takes
    twenty times as long, which is most of a training.
    """

    def __init__(self, matrices: Iterable[Tensor], rate: float) -> None:
        super().__init__(matrices, {"lr": rate})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        """Change each matrix by its gradient."""
        for group in self.param_groups:
            alike: dict[torch.Size, list[Tensor]] = {}
            for matrix in group["params"]:
                alike.setdefault(matrix.shape, []).append(matrix)
            for (rows, columns), matrices in alike.items():  # together: a GPU would wait for the calls otherwise
                means = [self.state[each].setdefault("mean", torch.zeros_like(each)) for each in matrices]
                for each, mean in zip(matrices, means, strict=True):
                    mean.lerp_(each.grad, 1 - _MOMENTUM)
                along = _orthogonal(torch.stack([each.grad for each in matrices]).lerp(torch.stack(means), _MOMENTUM))
                for each, step in zip(matrices, along, strict=True):
                    each.mul_(1 - group["lr"] * _DECAY)
                    each.add_(step, alpha=-group["lr"] * max(1.0, rows / columns) ** 0.5)


def _orthogonal(matrices: Tensor) -> Tensor:
    """Each matrix (number, rows, columns) with its singular values near 1."""
    first, second, third = _NEWTON_SCHULZ
    x = matrices.bfloat16() if matrices.is_cuda or has_bf16() else matrices
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)
    is_high = x.shape[-2] > x.shape[-1]
    x = x.mT if is_high else x
    for _ in range(5):
        squared = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(squared, squared, squared, beta=second, alpha=third), x, beta=first)
    return x.mT if is_high else x


@dataclasses.dataclass(frozen=True, kw_only=True)
class Training:
    """How a model is trained.

    Attributes:
        tokens: Tokens seen, prompts and replies, without padding; the same texts come again when they are used up.
        batch: Tokens of a step, about.
        rate: Of AdamW; Muon's is four times as large.
        warm, cool: Shares of the tokens in which the rate rises and falls.
        compiled: Whether torch compiles the model, which needs a C++ compiler and makes it about twice as fast.
    """

    tokens: int
    batch: int = 2048
    rate: float = 3e-3
    warm: float = 0.02
    cool: float = 0.4
    seed: int = 0
    compiled: bool = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class Text:
    """A prompt and its reply as tokens; what is learnt is the reply."""

    prompt: Sequence[int]
    reply: Sequence[int]

    def __len__(self) -> int:
        return len(self.prompt) + len(self.reply)


def train(
    texts: Sequence[Text], vocabulary: int, shape: Shape, training: Training,
    progress: Callable[[int, float, float], None] = lambda tokens, loss, seconds: None, *, device: str = "cpu",
) -> Transformer:  # fmt: skip
    """Train a new model on replies. Texts longer than the context must have been left out.

    Args:
        device: Where it is computed, and where the model stays; it begins with the same weights on each.
    """
    torch.manual_seed(training.seed)
    model = Transformer(vocabulary, shape).to(device)
    matrices = [weight for name, weight in model.named_parameters() if _is_matrix(name)]
    others = [weight for name, weight in model.named_parameters() if not _is_matrix(name)]
    optimizers: list[torch.optim.Optimizer] = [
        Muon(matrices, rate=4 * training.rate),
        torch.optim.AdamW(others, lr=training.rate, betas=(0.9, 0.95), weight_decay=0.0, fused=True),
    ]
    usual = [group["lr"] for optimizer in optimizers for group in optimizer.param_groups]
    seen, began = 0, time.monotonic()
    forward = torch.compile(model, dynamic=True) if training.compiled else model
    for batch in _batches(texts, training):
        done = seen / training.tokens
        if done >= 1:
            break
        share = min(1.0, (done + 1e-4) / training.warm, max(0.05, (1 - done) / training.cool))
        for group, rate in zip((g for each in optimizers for g in each.param_groups), usual, strict=True):
            group["lr"] = rate * share
        with computing(device):
            loss = _loss(forward, batch, device)
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        seen += sum(map(len, batch))
        progress(seen, loss.item(), time.monotonic() - began)
    return model.eval()


def _loss(model: Callable[[Tensor], Tensor], batch: Sequence[Text], device: str) -> Tensor:
    """Mean loss of the replies' tokens."""
    length = max(map(len, batch))
    tokens = torch.full((len(batch), length), PAD)
    wanted = torch.full((len(batch), length), PAD)
    for row, text in enumerate(batch):
        tokens[row, : len(text)] = torch.tensor([*text.prompt, *text.reply])
        wanted[row, len(text.prompt) - 1 : len(text) - 1] = torch.tensor(text.reply)
    chosen = (wanted.flatten() != PAD).nonzero().flatten()
    logits = model(tokens.to(device)).flatten(0, 1)[chosen.to(device)]
    return functional.cross_entropy(logits, wanted.flatten()[chosen].to(device))


def _batches(texts: Sequence[Text], training: Training) -> Iterator[list[Text]]:
    """Batches of like lengths, in random order, for ever."""
    random_ = random.Random(training.seed)
    order = list(texts)
    while True:
        random_.shuffle(order)
        batches = []
        for begin in range(0, len(order), _SORTED):
            batch: list[Text] = []
            for text in sorted(order[begin : begin + _SORTED], key=len):
                if batch and (len(batch) + 1) * len(text) > training.batch:
                    batches.append(batch)
                    batch = []
                batch.append(text)
            batches.append(batch)
        random_.shuffle(batches)
        yield from batches


@torch.inference_mode()
def answers(
    model: Transformer, prompts: Sequence[Sequence[int]], *, most: int, together: int = 128, drawn: int | None = None
) -> list[list[int]]:
    """Give a reply to each prompt, token by token, without `END`: the likeliest tokens, or some by their chances.

    Args:
        drawn: A seed; each token is then drawn by chance, with the probability that the model gives it.
        most: Tokens after which a reply is cut off, earlier where the context ends. It then has no end of its own,
            and ends with `PAD`.
        together: Prompts that are answered at once.
    """
    if drawn is not None:
        torch.manual_seed(drawn)
    order = sorted(range(len(prompts)), key=lambda number: len(prompts[number]))
    found: dict[int, list[int]] = {}
    for begin in range(0, len(order), together):
        chosen = order[begin : begin + together]
        replies = _replies(model, [prompts[number] for number in chosen], most, drawn=drawn is not None)
        found.update(zip(chosen, replies, strict=True))
    return [found[number] for number in range(len(prompts))]


def _replies(model: Transformer, prompts: Sequence[Sequence[int]], most: int, *, drawn: bool) -> list[list[int]]:
    length, device = max(map(len, prompts)), model.embedding.weight.device
    tokens = torch.tensor([[PAD] * (length - len(prompt)) + list(prompt) for prompt in prompts], device=device)
    keep = torch.tensor([[False] * (length - len(prompt)) + [True] * len(prompt) for prompt in prompts], device=device)
    replies: list[list[int]] = [[] for _ in prompts]
    alive = list(range(len(prompts)))
    caches: list[list[Tensor]] = [[] for _ in model.blocks]
    for _ in range(min(most, model.shape.context - length)):
        with computing(device.type):
            logits = model(tokens, caches, keep)[:, -1]
        chosen = torch.multinomial(logits.softmax(-1), 1)[:, 0] if drawn else logits.argmax(-1)
        going = [place for place, token in enumerate(chosen.tolist()) if token != END]
        if len(going) < len(alive):
            chosen, keep = chosen[going], keep[going]
            caches = [[part[going] for part in cache] for cache in caches]
            alive = [alive[place] for place in going]
        if not alive:
            break
        for place, token in zip(alive, chosen.tolist(), strict=True):
            replies[place].append(token)
        tokens = chosen[:, None]
        keep = functional.pad(keep, (0, 1), value=True)
    for place in alive:
        replies[place].append(PAD)
    return replies


def computing(device: str) -> torch.autocast:
    """Compute with numbers of 16 bits, on a GPU and where the processor has them."""
    return torch.autocast(device, torch.bfloat16, enabled=device != "cpu" or has_bf16())


def parameters(model: Any) -> int:
    """How many numbers a model has."""
    return sum(weight.numel() for weight in model.parameters())
