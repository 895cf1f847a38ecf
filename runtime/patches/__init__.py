"""Replacements in torch, process-wide, while a guard watches, and undone with the last one."""
