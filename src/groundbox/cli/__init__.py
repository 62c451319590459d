"""The command line: one module per command, each found by the name of its command."""
