"""Tasks: questions that one trace answers, each with a checker that can be run."""
