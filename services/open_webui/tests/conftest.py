"""The package stands beside its tests; nothing need be installed."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
