"""Training data made from runs: problems in, samples whose every claim was checked against a trace out."""
