"""Nouns of English: the singular of one."""

from __future__ import annotations


def singular(word: str) -> str:
    """A word, folded, without the ending of the plural and of the possessive: singers, singer's, cities, boxes."""
    word = word.casefold().removesuffix("'s")
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("ches", "shes", "xes", "sses")) and len(word) > 4:
        return word[:-2]
    # Not `this`, `gas` and `bus`; and two letters are left at least, since `is` and `as` are no plurals.
    if word.endswith("s") and not word.endswith(("ss", "us", "is", "as")) and len(word) > 2:
        return word[:-1]
    return word
