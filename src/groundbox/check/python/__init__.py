"""Python programs that run and are quietly wrong."""
