"""The tracer inside the guest. It writes the records of docs/trace.md. Standard library only."""
