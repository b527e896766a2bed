"""Makes the gateway's package importable; what is tested here needs no LiteLLM."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "services" / "gateway"))
