"""What a value is, when two are the same, and what an expression is worth. Knows neither a trace nor a text."""
