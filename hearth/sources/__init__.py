"""Every download: fetched, verified by digest, and installed whole or not at all.

Installing needs only Python's own library, `zstd` and `uv`; fetching needs httpx.
"""

from hearth.catalogue.house import Source
from hearth.sources.source import Fetched, Limits, SourceError, Store, address_of

__all__ = ["Fetched", "Limits", "Source", "SourceError", "Store", "address_of"]
