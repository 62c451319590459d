"""Where replies come from: an endpoint, a folder with a model, or a file in which they were recorded.

Replies of an endpoint or a folder are kept as they come, each a line on the disk under the digest of its whole request
(`groundbox.dataset.translation.answer_cache`), so that none is asked for twice; a line that a kill tore is cut off and
asked for again. A recorded file is its own store.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from groundbox.dataset.translation.answer_cache import Cache, Reply, digest
from groundbox.dataset.translation.endpoint import Endpoint
from groundbox.endpoint.answer import sendable
from groundbox.endpoint.chat import EndpointFailed, RequestRefused
from groundbox.errors import ExtraMissing, InvalidArgument
from groundbox.learn.evaluation import records
from groundbox.learn.evaluation.suites import Question

ANSWERS: Final = "answers.jsonl"
_FINISH: Final = "stop"
_TEXTS: Final = ("reply", "response", "completion", "text")
"""Keys under which a recorded file may have a reply."""


class NotRecorded(EndpointFailed):
    """A recorded file has no reply to this question."""


class Source(Protocol):
    """Answers questions. Safe to be called many times at once."""

    async def answer(self, question: Question) -> Reply:
        """The reply to a question.

        Raises:
            EndpointFailed: There is none; `RequestRefused` where there is none to this question alone.
        """


class _Store:
    """Replies by the digest of their request. A reply is in the file at once, so that a kill of the process loses none.

    The disk is waited for in a thread, by all replies that came meanwhile together: one at a time would hold up the
    others for some milliseconds each.
    """

    def __init__(self, path: Path) -> None:
        self._cache = Cache(path)
        self._syncing: asyncio.Task[None] | None = None
        self._written = False

    def get(self, key: str) -> Reply | None:
        return self._cache.get(key)

    def put(self, key: str, reply: Reply) -> None:
        self._cache.write(key, reply)
        self._written = True
        if self._syncing is None or self._syncing.done():
            self._syncing = asyncio.ensure_future(self._sync())

    async def close(self) -> None:
        if self._syncing is not None:
            await asyncio.gather(self._syncing, return_exceptions=True)
        self._cache.sync()
        self._cache.close()

    async def _sync(self) -> None:
        while self._written:
            self._written = False
            await asyncio.to_thread(self._cache.sync)


class Asked:
    """An endpoint, whose connection is entered before and closed after.

    Args:
        endpoint: Without a cache of its own.
        request: Keys that every request has, the model among them; they are part of what a reply is kept under.
        fixed: Keys that no question has its own value of: those which whoever asks has set, or left out.
    """

    def __init__(
        self, endpoint: Endpoint, request: Mapping[str, Any], store: Path, *, fixed: Collection[str] = ()
    ) -> None:
        self._endpoint, self._request, self._fixed = endpoint, dict(request), frozenset(fixed)
        self._store = _Store(store)

    async def answer(self, question: Question) -> Reply:
        """See Source.answer."""
        own = {name: value for name, value in question.options.items() if name not in self._fixed}
        key = digest({**self._request, **own, "messages": messages(question)})
        known = self._store.get(key)
        if known is not None:
            return known
        reply = await self._endpoint.answer(messages(question), options=own)
        self._store.put(key, reply)
        return reply

    async def close(self) -> None:
        """End the work with the file."""
        await self._store.close()


class Recorded:
    """Replies of a file: lines of `{"id", "reply"}`, with `finish`, `prompt_tokens`, `completion_tokens` if known.

    Attributes:
        others: How many lines answer no question of the suite.

    Raises:
        InvalidArgument: The file cannot be read, has an id twice, or answers no question.
    """

    def __init__(self, path: Path, known: Collection[str]) -> None:
        self._replies: dict[str, Reply] = {}
        self.others = 0
        for place, row in records.rows("--recorded", path):
            name = records.text("--recorded", place, row, "id")
            if name not in known:
                self.others += 1
                continue
            if name in self._replies:
                raise InvalidArgument("--recorded", f"{place} answers {name!r} a second time")
            key = next((key for key in _TEXTS if key in row), _TEXTS[0])
            self._replies[name] = Reply(
                text=sendable(records.text("--recorded", place, row, key)),
                finish=str(row.get("finish") or row.get("finish_reason") or _FINISH)[:100],
                prompt_tokens=_count(row.get("prompt_tokens")),
                completion_tokens=_count(row.get("completion_tokens")),
                cached=True,
            )
        if not self._replies:
            raise InvalidArgument("--recorded", f"{path} has no reply to a question of this suite")

    async def answer(self, question: Question) -> Reply:
        """See Source.answer."""
        try:
            return self._replies[question.id]
        except KeyError:
            raise NotRecorded("the file has no reply to it") from None


class Folder:
    """A model in a folder, as transformers' `save_pretrained` writes it, computed in this process.

    Questions that wait are answered in one batch, `at_once` at most. Nothing is loaded from anywhere else, and no code
    of the folder is run.

    Args:
        options: `temperature` (0 takes the likeliest token each time), `max_tokens`, `seed`; part of what a reply is
            kept under. At a temperature a reply depends on the others of its batch, too.
    """

    def __init__(self, folder: Path, options: Mapping[str, Any], *, at_once: int, store: Path) -> None:
        self._torch, transformers = _library("torch"), _library("transformers")
        if not (folder / "config.json").is_file():
            raise InvalidArgument("--folder", f"{folder} holds no model of transformers: it has no config.json")
        kept = {"local_files_only": True, "trust_remote_code": False}
        try:
            self._tokenizer = transformers.AutoTokenizer.from_pretrained(folder, padding_side="left", **kept)
            self._model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="auto", **kept)
        except Exception as error:  # of any library: SafetensorError, say, is no kind of those that are usual
            raise InvalidArgument("--folder", f"the model in {folder} cannot be loaded: {str(error)[:500]}") from None
        if len(self._tokenizer) > self._model.get_input_embeddings().weight.shape[0]:
            raise InvalidArgument(
                "--folder",
                f"the tokenizer in {folder} has {len(self._tokenizer)} tokens and the model knows "
                f"{self._model.get_input_embeddings().weight.shape[0]}; they are not of one model",
            )
        if self._tokenizer.pad_token_id is None:
            self._tokenizer.pad_token = self._tokenizer.eos_token or self._tokenizer.convert_ids_to_tokens(0)  # masked
        self._positions: int | None = getattr(self._model.config, "max_position_embeddings", None)
        self._device = "cuda" if self._torch.cuda.is_available() else "cpu"
        self._model = self._model.to(self._device).eval()
        self._identity = {"folder": str(folder.resolve()), **options}
        self._options, self._at_once = options, at_once
        self._waiting: list[tuple[Question, asyncio.Future[Reply]]] = []
        self._path, self._closed = store, False
        self._task: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Begin the work with the file of replies; before, nothing is written."""
        self._store = _Store(self._path)

    async def answer(self, question: Question) -> Reply:
        """See Source.answer."""
        key = digest({**self._identity, **question.options, "messages": messages(question)})
        known = self._store.get(key)
        if known is not None:
            return known
        self._check_room(question)
        coming: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting.append((question, coming))
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._work())
        reply = await coming
        self._store.put(key, reply)
        return reply

    async def close(self) -> None:
        """End the work: a batch under way ends with its next token."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
        await self._store.close()

    async def _work(self) -> None:
        await asyncio.sleep(0)  # all that come in this turn of the loop go into the first batch
        while self._waiting:
            options = self._waiting[0][0].options
            batch = [each for each in self._waiting if each[0].options == options][: self._at_once]
            taken = set(map(id, batch))
            self._waiting = [each for each in self._waiting if id(each) not in taken]
            try:
                replies = await asyncio.to_thread(self._generate, [question for question, _ in batch])
            except Exception as error:
                for _, coming in batch:
                    if not coming.done():
                        coming.set_exception(EndpointFailed(_trouble(error)))
                continue
            for (_, coming), reply in zip(batch, replies, strict=True):
                if not coming.done():
                    coming.set_result(reply)

    def _generate(self, questions: list[Question]) -> list[Reply]:
        torch, options = self._torch, {**self._options, **questions[0].options}
        most = int(options["max_tokens"])
        given = self._tokens(questions, return_tensors="pt", padding=True).to(self._device)
        given.pop("token_type_ids", None)
        temperature = float(options.get("temperature") or 0)
        how = {"do_sample": True, "temperature": temperature} if temperature else {"do_sample": False}
        torch.manual_seed(int(options.get("seed") or 0))
        with torch.inference_mode():
            told = self._model.generate(
                **given, max_new_tokens=most, pad_token_id=self._tokenizer.pad_token_id, **how,
                stopping_criteria=[self._stops],
            )  # fmt: skip
        new = told[:, given["input_ids"].shape[1] :]
        return [
            self._reply(row, int(mask.sum()), options.get("stop") or ())
            for row, mask in zip(new.tolist(), given["attention_mask"], strict=True)
        ]

    def _stops(self, tokens: Any, scores: Any, **more: Any) -> Any:
        """Tell transformers, after each token, which replies of the batch go no further."""
        return self._torch.full((len(tokens),), self._closed, dtype=self._torch.bool, device=tokens.device)

    def _check_room(self, question: Question) -> None:
        """Refuse a question that has no room, as endpoints do: on a GPU, a position too many ends all later work.

        Raises:
            RequestRefused: Its tokens and `max_tokens` are more than the model has positions.
        """
        count = len(self._tokens([question])["input_ids"][0])
        most = int({**self._options, **question.options}["max_tokens"])
        if self._positions is not None and count + most > self._positions:
            raise RequestRefused(
                f"its {count} tokens and --max-tokens {most} are more than the model's {self._positions} positions; "
                "ask with a smaller --max-tokens"
            )

    def _tokens(self, questions: list[Question], **how: Any) -> Any:
        """Tokens of prompts. A template writes the special ones that begin a text; without one the tokenizer does."""
        texts = [self._templated(question) for question in questions]
        return self._tokenizer(texts, add_special_tokens=self._tokenizer.chat_template is None, **how)

    def _templated(self, question: Question) -> str:
        if self._tokenizer.chat_template is None:
            return question.prompt if question.messages else question.prompt + "\n"
        conversation = messages(question)
        goes_on = conversation[-1]["role"] == "assistant"  # the reply is to go on from there
        how = {"continue_final_message": True} if goes_on else {"add_generation_prompt": True}
        return str(self._tokenizer.apply_chat_template(conversation, tokenize=False, **how))

    def _reply(self, tokens: list[int], prompt_tokens: int, stop: Sequence[str]) -> Reply:
        ends = self._model.generation_config.eos_token_id
        ends = {ends} if isinstance(ends, int) else set(ends or ())
        ends.add(self._tokenizer.eos_token_id)
        place = next((at for at, token in enumerate(tokens) if token in ends), None)
        own = tokens if place is None else tokens[:place]
        text = self._tokenizer.decode(own, skip_special_tokens=True)
        kept = before(text, stop)
        return Reply(
            text=sendable(kept),
            finish="length" if place is None and kept == text else _FINISH,
            prompt_tokens=prompt_tokens,
            completion_tokens=len(own) + (place is not None),
        )


def messages(question: Question) -> list[dict[str, str]]:
    """The conversation that a question is."""
    return [dict(each) for each in question.messages] or [{"role": "user", "content": question.prompt}]


def before(text: str, stop: Sequence[str]) -> str:
    """A text up to the first of some strings, as endpoints end it there; "" ends nothing."""
    return text[: min((place for each in stop if each and (place := text.find(each)) >= 0), default=len(text))]


@contextlib.asynccontextmanager
async def connected(
    endpoint: Endpoint, request: Mapping[str, Any], store: Path, *, fixed: Collection[str] = ()
) -> AsyncIterator[Source]:
    """The endpoint as a source; see `Asked`."""
    async with endpoint:
        asked = Asked(endpoint, request, store, fixed=fixed)
        try:
            yield asked
        finally:
            await asked.close()


@contextlib.asynccontextmanager
async def closing(source: Recorded | Folder) -> AsyncIterator[Source]:
    """A source that needs no connection."""
    if isinstance(source, Folder):
        source.open()
    try:
        yield source
    finally:
        if isinstance(source, Folder):
            await source.close()


def _trouble(error: Exception) -> str:
    words = f"{type(error).__name__}: {str(error)[:300]}"
    if "out of memory" in words.lower() or isinstance(error, MemoryError):
        return f"too little memory ({words}); a smaller --concurrency or --max-tokens takes less"
    return words


def _library(name: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError:
        raise ExtraMissing(name, "to run a model from its folder", "torch transformers") from None


def _count(told: Any) -> int:
    return told if isinstance(told, int) and not isinstance(told, bool) and 0 <= told <= 2**53 else 0
