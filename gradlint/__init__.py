"""gradlint: find PyTorch autograd pitfalls, in the source and while it runs."""

from __future__ import annotations

TYPE_CHECKING = False  # typing costs a run that has nothing to do more than the rest of it
if TYPE_CHECKING:
    from typing import Any

    from gradlint.runtime import Guard as Guard
    from gradlint.runtime import guard as guard

__version__ = "0.1.0"
__all__ = ["Guard", "__version__", "guard"]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    if name in ("guard", "Guard"):
        import gradlint.runtime

        return getattr(gradlint.runtime, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
