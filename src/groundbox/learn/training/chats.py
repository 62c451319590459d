"""The chats of a dataset's folder, held against their digests, as tokens that a model sees and tokens that it learns.

A chat is written by the model's own template. What it learns is the reply with the token that ends a turn, and no token
of the question: the words before are tokenized as they stand when the model is asked, so a token never spans both.
A chat that is too long is left out and counted, because its end is where the answer stands.
"""

from __future__ import annotations

import dataclasses
import json
from array import array
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from groundbox.dataset import files
from groundbox.dataset.build import REPORT
from groundbox.dataset.sample_files import SAMPLES, chat_file
from groundbox.dataset.selection import TRAIN
from groundbox.errors import InvalidArgument

VALIDATION: Final = "validation"
_AT_ONCE: Final = 512
"""Chats that are tokenized together."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Corpus:
    """A dataset's folder, whose files are as they were written.

    Attributes:
        name: Of the folder.
        digest: Of its samples, or where it has none of its training chats: names it on cards.
        digests: Of the chat files that are used, by name.
        checked: Whether there was a report to hold the files against.
        chats: Messages by split.
    """

    folder: Path
    name: str
    digest: str
    digests: Mapping[str, str]
    checked: bool
    chats: Mapping[str, list[list[dict[str, str]]]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tokens:
    """The chats of a split as tokens, in their order.

    Attributes:
        ids: Tokens of each chat.
        begins: Where in each the reply begins.
        too_long: How many chats were left out.
        longest: Tokens of the longest of all, also of those left out.
    """

    ids: list[array[int]]
    begins: list[int]
    too_long: int = 0
    longest: int = 0

    @property
    def count(self) -> int:
        """Tokens of all chats."""
        return sum(map(len, self.ids))

    @property
    def learnt(self) -> int:
        """Tokens that count in the loss."""
        return self.count - sum(self.begins)


def corpus(folder: Path) -> Corpus:
    """Read the chats of a dataset's folder.

    Raises:
        InvalidArgument: It holds no dataset, a file is not as it was written, or there is nothing to train on.
    """
    if not (folder / chat_file(TRAIN)).is_file():
        raise InvalidArgument(
            "DATASET", f"{folder} holds no {chat_file(TRAIN)}; name the folder that `groundbox dataset build` wrote"
        )
    names = [name for name in (chat_file(TRAIN), chat_file(VALIDATION), SAMPLES) if (folder / name).is_file()]
    found = {name: _digest(folder / name) for name in names}
    written = _written(folder)
    changed = [name for name, digest in (written or {}).items() if found.get(name, digest) != digest]
    if changed:
        raise InvalidArgument(
            "DATASET",
            f"{' and '.join(changed)} in {folder} changed after the dataset was built: {REPORT} has another digest. "
            "Copy the folder anew, or build it again; `groundbox dataset verify` tells what differs",
        )
    chats = {split: list(_chats(folder / chat_file(split))) for split in (TRAIN, VALIDATION)}
    if not chats[TRAIN]:
        raise InvalidArgument("DATASET", f"{folder / chat_file(TRAIN)} has no chat to train on")
    used = {name: digest for name, digest in found.items() if name != SAMPLES}
    digest = (written or {}).get(SAMPLES) or found.get(SAMPLES) or found[chat_file(TRAIN)]
    return Corpus(
        folder=folder.resolve(), name=folder.resolve().name, digest=digest, digests=used, checked=written is not None,
        chats=chats,
    )  # fmt: skip


def tokens(chats: Sequence[list[dict[str, str]]], tokenizer: Any, ends: frozenset[int], most: int) -> Tokens:
    """Tokenize chats by the model's template.

    Args:
        tokenizer: Of transformers.
        ends: Tokens that end a turn.
        most: Tokens of a chat.

    Raises:
        InvalidArgument: The template does not fit: it changes replies, or does not end them.
    """
    ids: list[array[int]] = []
    begins: list[int] = []
    too_long = longest = 0
    for start in range(0, len(chats), _AT_ONCE):
        written = [_written_by(tokenizer, chat) for chat in chats[start : start + _AT_ONCE]]
        befores = _ids(tokenizer, [before for before, _ in written])
        wholes = _ids(tokenizer, [before + rest for before, rest in written])
        rests = _ids(tokenizer, [rest for _, rest in written])
        for before, whole, rest in zip(befores, wholes, rests, strict=True):
            # Tokenizers that write a space at the begin of a text would write one within this.
            learnt = _ended(whole[len(before) :] if whole[: len(before)] == before else rest, ends, tokenizer)
            longest = max(longest, len(before) + len(learnt))
            if len(before) + len(learnt) > most:
                too_long += 1
                continue
            ids.append(array("i", before + learnt))
            begins.append(len(before))
    return Tokens(ids=ids, begins=begins, too_long=too_long, longest=longest)


def ends_of(tokenizer: Any, generation: Mapping[str, Any], vocabulary: int, folder: Path) -> frozenset[int]:
    """Tokens that end a turn, of a tokenizer that fits its model.

    Args:
        generation: The folder's generation_config.json.
        vocabulary: Tokens for which the model has weights.

    Raises:
        InvalidArgument: It has no template, more tokens than the model, or none that ends a turn.
    """
    if tokenizer.chat_template is None:
        raise InvalidArgument(
            "--model",
            f"the tokenizer in {folder} has no chat template, so nothing says how a question and its answer are "
            "written; copy chat_template.jinja of the model's instruct version there",
        )
    if len(tokenizer) > vocabulary:
        raise InvalidArgument(
            "--model",
            f"the tokenizer in {folder} has {len(tokenizer)} tokens, and the model has weights for {vocabulary}: they "
            "are not of one model; copy the tokenizer's files from where the weights are from",
        )
    told = generation.get("eos_token_id")
    ends = {told} if isinstance(told, int) else set(told or ())
    if tokenizer.eos_token_id is not None:
        ends.add(tokenizer.eos_token_id)
    if not ends:
        raise InvalidArgument(
            "--model",
            f"neither the tokenizer in {folder} nor generation_config.json names a token that ends an answer "
            "(eos_token): a model trained so would not know where to stop",
        )
    return frozenset(ends)


def _written(folder: Path) -> dict[str, str] | None:
    """Digests that the report has; None without a report."""
    if not (folder / REPORT).is_file():
        return None
    try:
        report = json.loads((folder / REPORT).read_bytes())
        digests = {str(name): str(digest) for name, digest in report["files"].items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        raise InvalidArgument("DATASET", f"{folder / REPORT} is no report of a dataset; build it again") from None
    for name in (chat_file(TRAIN), chat_file(VALIDATION)):
        if name in digests and not (folder / name).is_file():
            raise InvalidArgument("DATASET", f"{folder} lacks {name}, which its {REPORT} names; copy the folder anew")
    return {name: digest for name, digest in digests.items() if name.endswith(".jsonl") or name == SAMPLES}


def _digest(path: Path) -> str:
    try:
        return files.digest(path)
    except OSError as error:
        raise InvalidArgument("DATASET", f"{path} cannot be read: {error.strerror}") from None


def _chats(path: Path) -> Iterator[list[dict[str, str]]]:
    if not path.is_file():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                told = json.loads(line)["messages"]
                messages = [{"role": str(each["role"]), "content": each["content"]} for each in told]
                right = messages[-1]["role"] == "assistant" and all(isinstance(m["content"], str) for m in messages)
            except (ValueError, LookupError, TypeError):
                right = False
            if not right or len(messages) < 2 or not messages[-1]["content"]:
                raise InvalidArgument(
                    "DATASET", f"{path}, line {number}: no chat that ends with an answer of role `assistant`"
                )
            yield messages


def _written_by(tokenizer: Any, chat: list[dict[str, str]]) -> tuple[str, str]:
    """What a template writes before the reply, and from there on."""
    try:
        before = str(tokenizer.apply_chat_template(chat[:-1], tokenize=False, add_generation_prompt=True))
        whole = str(tokenizer.apply_chat_template(chat, tokenize=False))
    except Exception as error:  # of the template's language, of which a template may raise any
        raise InvalidArgument("--model", f"its chat template fails on a chat: {str(error)[:300]}") from None
    if not whole.startswith(before) or chat[-1]["content"].strip() not in whole[len(before) :]:
        raise InvalidArgument(
            "--model",
            "its chat template does not write an answer as it stands after the prompt that it makes for one, so what "
            "is learnt would not be what is asked for later; take the template of the model's instruct version",
        )
    return before, whole[len(before) :]


def _ids(tokenizer: Any, texts: list[str]) -> list[list[int]]:
    found: list[list[int]] = tokenizer(texts, add_special_tokens=False)["input_ids"]
    return found


def _ended(learnt: list[int], ends: frozenset[int], tokenizer: Any) -> list[int]:
    """A reply up to the token that ends it; what a template writes between turns is none of it."""
    place = next((at for at in range(len(learnt) - 1, -1, -1) if learnt[at] in ends), None)
    if place is None or tokenizer.decode(learnt[place + 1 :], skip_special_tokens=True).strip():
        names = ", ".join(map(repr, tokenizer.convert_ids_to_tokens(sorted(ends))))
        raise InvalidArgument(
            "--model",
            f"its chat template ends an answer with none of the tokens that stop the model ({names}), so it would "
            "learn to go on for ever; set eos_token of the tokenizer to the token that ends a turn in the template",
        )
    return learnt[: place + 1]
