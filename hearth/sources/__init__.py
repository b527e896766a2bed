"""Everything that comes from outside: fetched, verified by digest, installed whole or not at all.

Installing needs nothing but Python's own library, `zstd` and `uv`; fetching needs httpx, which is
therefore imported only by whoever fetches (`hearth.sources.download`).
"""

from hearth.sources.archive import install_archive
from hearth.sources.errors import SourceError
from hearth.sources.model import Fetched, Limits, Source, address_of
from hearth.sources.plain import Plain, install_files
from hearth.sources.programs import Installed, is_installed
from hearth.sources.python import install_python, python_digest

__all__ = [
    "Fetched",
    "Installed",
    "Limits",
    "Plain",
    "Source",
    "SourceError",
    "address_of",
    "install_archive",
    "install_files",
    "install_python",
    "is_installed",
    "python_digest",
]
