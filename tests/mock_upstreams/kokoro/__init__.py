"""Made-up weights of Kokoro-82M: the real graph, shapes, file names and cost, random numbers.

Speech from them is noise of a realistic length, so that structure and speed can be tested.
"""

import os

# onnxruntime's wheels report to Microsoft unless this is set before they are imported.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

from tests.mock_upstreams.kokoro.files import prepare

__all__ = ["prepare"]
