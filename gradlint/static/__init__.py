"""The static witness: executes source text abstractly, without ever importing it."""
