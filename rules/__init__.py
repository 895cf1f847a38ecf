"""The rules: one file for each pitfall, named by its slug."""
