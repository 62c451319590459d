"""A recorded run told in English, every statement of it taken from the trace. Start in `narrator`."""
