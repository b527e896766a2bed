"""Home Assistant's satellites: the Wyoming protocol over the same model in memory.

The protocol knows no keys and no encryption: whoever reaches the port is heard.
"""

from hearth_whisper.wyoming.limits import SatelliteLimits
from hearth_whisper.wyoming.server import Satellites, start

__all__ = ["SatelliteLimits", "Satellites", "start"]
