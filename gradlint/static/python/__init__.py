"""The execution of Python: names, control flow, calls and its own containers."""
