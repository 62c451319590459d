"""Readers of problem files, one per format."""
