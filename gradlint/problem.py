"""Problems: why something asked for could not be done."""

from __future__ import annotations


class Problem(Exception):  # noqa: N818 -- of the request, not of the program
    """A request that cannot be met (an unknown key, rule or path), told in one line that names what and where."""
