"""Abstract program states: values, worlds, how they join, and when two of them are the same."""
