"""What an analysis asked of a project, so that it can be told later whether it would come to the same."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Footprint:
    """The questions, each with its answer, of types that ``marshal`` knows."""

    files: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    """By path, where it leads and the digest of what stands there."""
    imports: dict[tuple[str, int, str], str | None] = field(default_factory=dict)
    """By folder of the importing file, level and name: the path that an import statement means."""
    packages: dict[str, bool] = field(default_factory=dict)
    """By folder, whether it is a regular package."""
