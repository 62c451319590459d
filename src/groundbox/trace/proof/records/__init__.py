"""What happened in a run, indexed."""
