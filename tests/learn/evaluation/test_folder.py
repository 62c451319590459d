"""Models in folders, tiny and with random weights. `make training` has what they need."""

import asyncio
import time

import pytest

from groundbox.endpoint.chat import RequestRefused
from groundbox.errors import InvalidArgument
from groundbox.learn.evaluation import asking
from groundbox.learn.evaluation.suites import Question

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

QUESTIONS = [Question(id=str(n), prompt="what is " + "1 + " * n + "1?") for n in range(4)]


def saved(folder, *, positions=512, end="<end>"):
    """A folder with a Llama of two layers that knows the bytes."""
    torch.manual_seed(1)
    known = tokenizers.Tokenizer(tokenizers.models.BPE())
    known.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    known.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, special_tokens=["<end>"])
    known.train_from_iterator(["what is 1?"], trainer)
    transformers.PreTrainedTokenizerFast(tokenizer_object=known, eos_token=end).save_pretrained(folder)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = transformers.LlamaConfig(vocab_size=300, max_position_embeddings=positions, eos_token_id=0, **sizes)
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def folder_of(path, out, *, most=12, at_once=4):
    options = {"temperature": 0.0, "max_tokens": most, "seed": 0}
    return asking.Folder(path, options, at_once=at_once, store=out / asking.ANSWERS)


def answers(folder):
    async def main():
        async with asking.closing(folder) as source:
            return await asyncio.gather(*map(source.answer, QUESTIONS), return_exceptions=True)

    return asyncio.run(main())


@pytest.mark.parametrize("end", ["<end>", None])
def test_a_batch_answers_as_one_after_the_other_and_nothing_is_computed_twice(tmp_path, end):
    path = saved(tmp_path / "m", end=end)

    together = answers(folder_of(path, tmp_path / "a"))
    alone = answers(folder_of(path, tmp_path / "b", at_once=1))

    assert together == alone
    assert len({each.text for each in together}) > 1
    assert [each.prompt_tokens for each in together] == sorted({each.prompt_tokens for each in together})
    assert all(each.cached for each in answers(folder_of(path, tmp_path / "a")))


def test_a_question_without_room_is_refused_and_the_others_are_answered(tmp_path):
    longest = 14 + 12
    fits = answers(folder_of(saved(tmp_path / "m", positions=longest), tmp_path / "a"))
    found = answers(folder_of(saved(tmp_path / "n", positions=longest - 1), tmp_path / "b"))

    assert fits[3].prompt_tokens == 14
    assert found[:3] == fits[:3]
    assert isinstance(found[3], RequestRefused)
    assert "the model's 25 positions; ask with a smaller --max-tokens" in str(found[3])


def test_a_batch_under_way_ends_when_the_work_does(tmp_path):
    folder = folder_of(saved(tmp_path / "m", positions=10**7, end=None), tmp_path / "o", most=10**6)

    async def main():
        async with asking.closing(folder) as source:
            asking_it = asyncio.ensure_future(source.answer(QUESTIONS[0]))
            await asyncio.wait([asking_it], timeout=1)
            asking_it.cancel()

    begun = time.monotonic()
    asyncio.run(main())

    assert time.monotonic() - begun < 20


def test_torn_weights_and_a_tokenizer_of_another_model_are_refused_before_anything_is_written(tmp_path):
    path = saved(tmp_path / "m")
    weights = path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:2000])

    with pytest.raises(InvalidArgument, match="cannot be loaded"):
        folder_of(path, tmp_path / "o")

    assert not (tmp_path / "o").exists()


def test_a_text_without_a_template_begins_as_the_tokenizer_has_it(tmp_path):
    path = saved(tmp_path / "m")
    known = tokenizers.Tokenizer.from_file(str(path / "tokenizer.json"))
    known.post_processor = tokenizers.processors.TemplateProcessing(single="<end> $A", special_tokens=[("<end>", 0)])
    before = answers(folder_of(path, tmp_path / "a"))
    known.save(str(path / "tokenizer.json"))

    after = answers(folder_of(path, tmp_path / "b"))

    assert [each.prompt_tokens for each in after] == [each.prompt_tokens + 1 for each in before]
