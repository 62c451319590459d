"""Recipes: what a file says, what options change, and what cannot be meant."""

import dataclasses

import pytest

from groundbox.errors import InvalidArgument
from groundbox.learn.training import recipe


def refusal(call, *given):
    with pytest.raises(InvalidArgument) as caught:
        call(*given)
    return str(caught.value)


def test_options_change_what_a_file_says_and_the_file_what_is_usual(tmp_path):
    path = tmp_path / "r.toml"
    path.write_text("epochs = 2\nseed = 7  # of ours\n")

    found = recipe.read(str(path), dict(map(recipe.value_of, ["seed=8", "method=lora", "lora_targets=q_proj,v_proj"])))

    assert found == recipe.Recipe(epochs=2, seed=8, method="lora", lora_targets="q_proj,v_proj", learning_rate=2e-4)


def test_a_recipe_written_down_is_the_same_when_read(tmp_path):
    asked = dataclasses.replace(recipe.Recipe(), learning_rate=3e-5, max_steps=7, lora_targets="a,b", packing=False)
    (tmp_path / "r.toml").write_text(asked.toml())

    assert recipe.read(str(tmp_path / "r.toml"), {}) == asked


@pytest.mark.parametrize("name", recipe.recipes())
def test_recipes_of_ours_are_read_by_name(name):
    assert recipe.read(name, {}) != recipe.Recipe()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("learning_rat=1", "--set: a recipe has no 'learning_rat'; learning_rate was meant, perhaps"),
        ("epochs", "--set: 'epochs' is not KEY=VALUE, such as learning_rate=1e-5"),
        ("epochs=0", "--set: epochs is 0, and has to be above 0"),
        ("epochs=nan", "--set: epochs is NaN, and has to be a number"),
        ("epochs=many", '--set: epochs is "many", and has to be a number'),
        ("batch_size=1.5", "--set: batch_size is 1.5, and has to be a whole number"),
        ("batch_size=true", "--set: batch_size is true, and has to be a whole number"),
        ("packing=yes", '--set: packing is "yes", and has to be true or false'),
        ("warmup=1", "--set: warmup is 1, and has to be a share, from 0 to below 1"),
        ("method=qlora", '--set: method is "qlora", and has to be one of full, lora'),
        ("max_length=7", "--set: max_length is 7, and has to be at least 8"),
        ("lora_targets=1", "--set: lora_targets is 1, and has to be a text"),
    ],
)
def test_what_cannot_be_meant_is_refused(given, words):
    assert refusal(recipe.value_of, given) == words


def test_a_config_that_is_none_is_refused(tmp_path):
    (tmp_path / "r.toml").write_text("epochs = ")
    (tmp_path / "b.toml").write_bytes(b"\xff")
    (tmp_path / "k.toml").write_text("[model]\nepochs = 1\n")

    assert "is no TOML" in refusal(recipe.read, str(tmp_path / "r.toml"), {})
    assert "is no text in UTF-8" in refusal(recipe.read, str(tmp_path / "b.toml"), {})
    assert "a recipe has no 'model'; there are method" in refusal(recipe.read, str(tmp_path / "k.toml"), {})
    assert "recipes of ours are qwen3-4b" in refusal(recipe.read, "qwen4", {})


def test_a_step_is_the_same_for_one_process_and_for_eight():
    asked = recipe.Recipe(batch_size=32, micro_batch_size=2)

    assert [asked.accumulation(count) for count in (1, 8, 16)] == [16, 2, 1]
    assert "by 3 processes with micro_batch_size 2; take a multiple of 6" in refusal(asked.accumulation, 3)
