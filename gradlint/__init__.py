"""gradlint: find PyTorch autograd pitfalls, in the source and while it runs."""

# No import stands here, not even of __future__: python -m gradlint would look for it in the current folder first.

TYPE_CHECKING = False  # typing costs a run that has nothing to do more than the rest of it
if TYPE_CHECKING:
    from typing import Any

    from IPython.core.interactiveshell import InteractiveShell

    from gradlint.runtime import Guard as Guard
    from gradlint.runtime import guard as guard

left_out: str | None = None  #: the current folder, where ``python -m gradlint`` has taken it off ``sys.path``

__version__ = "0.1.0"
__all__ = ["Guard", "__version__", "guard"]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> "Any":
    if name in ("guard", "Guard"):
        import gradlint.runtime

        return getattr(gradlint.runtime, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load_ipython_extension(shell: "InteractiveShell") -> None:
    """What ``%load_ext gradlint`` does: the magics ``%%gradlint`` and ``%gradlint_guard``."""
    from gradlint.interactive.magics import load

    load(shell)


def unload_ipython_extension(shell: "InteractiveShell") -> None:
    """What ``%unload_ext gradlint`` does: an end to the magics, and to the guard if it watches."""
    from gradlint.interactive.magics import unload

    unload(shell)
