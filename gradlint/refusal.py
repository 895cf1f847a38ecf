"""Refusals: why something asked for cannot be done."""

from __future__ import annotations


class Refusal(Exception):  # noqa: N818 -- what was asked for is at fault, not the program
    """A request that cannot be met (an unknown key, rule or path), told in one line that names what and where."""
