"""Makes the gateway's package importable; what is tested here needs no LiteLLM."""

from __future__ import annotations

import sys
from pathlib import Path

SERVICES = Path(__file__).parents[3] / "services"
sys.path[:0] = [str(SERVICES / "gateway"), str(SERVICES / "serving")]
