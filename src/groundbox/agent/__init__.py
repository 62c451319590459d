"""Turning runs into grounded answers: what a model is shown, and the loop around it."""
