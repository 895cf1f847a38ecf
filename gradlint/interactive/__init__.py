"""In a notebook or an interactive session: ``%load_ext gradlint``."""
