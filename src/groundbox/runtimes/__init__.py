"""One file per language: how a program of it becomes an order for the worker."""
