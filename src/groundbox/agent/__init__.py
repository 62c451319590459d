"""The agent: its loop, what a model is told of a run, and groundbox inside other frameworks."""
