"""Makes the packages of the agents' server and of the broker importable."""

from __future__ import annotations

import sys
from pathlib import Path

SERVICES = Path(__file__).parents[3] / "services"
sys.path[:0] = [str(SERVICES / name) for name in ("agents", "broker", "serving")]
