"""``python -m gradlint``."""

import sys

from gradlint.cli import main

if __name__ == "__main__":
    sys.exit(main())
