"""Narrations by a language model: traces in, prose out, proven like any other."""
