"""What exit codes mean."""

from __future__ import annotations

CLEAN, FINDINGS, COULD_NOT = 0, 1, 2
INTERRUPTED = 130  #: by Ctrl-C, as shells have it
