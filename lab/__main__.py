"""``python -m lab`` is the same as ``lab``."""

from lab.cli import main

if __name__ == "__main__":
    main()
