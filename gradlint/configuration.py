"""Configuration: ``[tool.gradlint]`` of the nearest ``pyproject.toml``, or ``gradlint.toml``, which wins beside it.

Every file is checked under the configuration nearest to it, as Ruff does; the command line wins over all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gradlint.cachedir import NAMES
from gradlint.disk import Disk
from gradlint.refusal import Refusal
from gradlint.settings import Settings, read_settings


class Configuration:
    """Finds and reads the settings that hold for a folder, each file once.

    Args:
        path: the one file to use for everything, instead of the nearest.
        isolated: use no file at all.
        override: what the command line changes in settings, whichever file they come from.
        disk: what files are read from.
    """

    def __init__(
        self,
        path: Path | None = None,
        *,
        isolated: bool = False,
        override: Callable[[Settings], Settings] = lambda settings: settings,
        disk: Disk | None = None,
    ) -> None:
        self.disk = disk or Disk()
        self._override = override
        self._folders: dict[Path, Settings] = {}
        self._fixed: Settings | None = None
        if isolated:
            self._fixed = override(Settings())
        elif path is not None:
            if self.disk.kind(path) is None:
                raise Refusal(f"{path}: no such configuration file")
            self._fixed = override(read_settings(path, self.disk.read) or Settings(path.absolute()))

    def of_folder(self, folder: Path) -> Settings:
        """The settings for the files in ``folder`` (an absolute path).

        Raises:
            Refusal: a configuration file that cannot be read or has something unknown in it.
        """
        if self._fixed is not None:
            return self._fixed
        new: list[Path] = []
        above, settings = folder, self._folders.get(folder)
        while settings is None:  # no call for each folder: they may be nested more deeply than calls
            new.append(above)
            settings = self._read_in(above)
            if settings is None:
                at_top = above.parent == above
                above = above.parent
                settings = self._override(Settings()) if at_top else self._folders.get(above)
        self._folders.update(dict.fromkeys(new, settings))
        return settings

    def _read_in(self, folder: Path) -> Settings | None:
        for name in NAMES:
            path = folder / name
            settings = read_settings(path, self.disk.read) if self.disk.is_file(path) else None
            if settings is not None:
                return self._override(settings)
        return None
