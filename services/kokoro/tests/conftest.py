"""The tests import the package beside them, whether it is installed or not."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
