"""Where the programs under attack are."""

import sys
from pathlib import Path

for _name in ("agents", "broker", "fetcher", "serving"):
    sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "services" / _name))
