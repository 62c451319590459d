"""Traces as text: for models that are trained on it, for people at a terminal, for tests."""
