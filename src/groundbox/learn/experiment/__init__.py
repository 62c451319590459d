"""An experiment: does a model that learns from proven narrations reason better than one that learns from other texts?

`python -m groundbox.learn.experiment --out DIR` makes programs (`data.py`), tells each run as every arm tells it
(`arms.py`), trains a transformer from scratch on each arm's texts (`groundbox.learn.transformer`), scores what it says
of programs that it never saw (`scoring.py`), and writes a table and a page of charts (`report.py`). Settings
stand in `plan.py`, hypotheses in `hypotheses.py`, figures in docs/experiment.md. Needs torch.
"""
