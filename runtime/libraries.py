"""Findings in code of installed packages, which the user cannot change: told where the user's own code calls it.

The package a program is part of is its own, wherever it is installed.
"""

from __future__ import annotations

from dataclasses import replace

from gradlint.finding import Finding, Related, Site

from .frames import FrameSite, package_of


def placed(finding: Finding, at: Site, concerns_values: bool) -> Finding:
    """The finding, at the user's call where its own place lies in an installed package.

    It is the package's own, and says so in ``library``, unless other places of its story lie in the user's code.

    Args:
        finding: as a rule made it.
        at: its place, as the guard met it.
        concerns_values: it is about the numbers of a training, which are the user's whatever code computes them.
    """
    inside = finding.location
    package = package_of(inside.filename)
    if not package:
        return finding
    own = any(not package_of(other.location.filename) for other in finding.related)
    caller = at.caller if isinstance(at, FrameSite) else None
    if caller is not None:
        related = (Related(f"in {package}, called from there", inside), *finding.related)
        finding = replace(finding, location=caller.locate(), related=related, inside=inside)
    return finding if own or concerns_values else replace(finding, library=package)
