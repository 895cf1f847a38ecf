"""gradlint: find PyTorch autograd pitfalls, in the source and while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradlint.runtime import Guard as Guard
    from gradlint.runtime import guard as guard

__version__ = "0.1.0"
__all__ = ["Guard", "__version__", "guard"]


def __getattr__(name: str) -> Any:
    if name in ("guard", "Guard"):
        import gradlint.runtime

        return getattr(gradlint.runtime, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
