"""The runtime witness: watches a training loop under ``gradlint.guard``."""
