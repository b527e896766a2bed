"""The fixed places of a house on its machine, for every package that needs them."""

from pathlib import Path

# For people and for the pages.
ROOT_CERTIFICATE = Path("/etc/hearth/pki/root.crt")
RECEIPT_FOLDER = Path("/var/lib/hearth/receipt")
DOWNLOADS = Path("/var/cache/hearth/downloads")
PROGRAMS = Path("/var/lib/hearth/programs")
# The one unit of the house that belongs to no service and to no part.
FIREWALL_UNIT = "hearth-firewall.service"
