"""The fixed places of a house on its machine, for every package that needs them."""

import os
from pathlib import Path

# "compose" in a command for the house of containers, which `hearth up --compose` sets: such a house
# has a folder of its own.
FORM = os.environ.get("HEARTH_FORM", "")
COMPOSE = Path("/var/lib/hearth/compose")
# Caddy's storage: each root has a folder, and each site one in it.
SITE_CERTIFICATES = Path("/var/lib/hearth/caddy")
# For people and for the pages.
ROOT_CERTIFICATE = COMPOSE / "root.crt" if FORM else Path("/etc/hearth/pki/root.crt")
RECEIPT_FOLDER = COMPOSE / "receipt" if FORM else Path("/var/lib/hearth/receipt")
# What the last tests of the house measured.
RECEIPT = "receipt.json"
# Beside it: each figure over the kept receipts; the page and `hearth doctor` read it.
TREND = "trend.json"
# Beside it: what `hearth plan` measured and proposed last; the page shows it.
PLAN = "plan.json"
# And what `hearth bench llm` measured last.
BENCH_LLM = "bench-llm.json"
# Names the address that devices were told when the house was last converged.
TRUST_CONFIG = Path("/etc/hearth/trust.json")
DOWNLOADS = Path("/var/cache/hearth/downloads")
PROGRAMS = Path("/var/lib/hearth/programs")
# The one unit of the house that belongs to no service and to no part.
FIREWALL_UNIT = "hearth-firewall.service"
# The house as it was last converged, without secrets.
HOUSE_FILE = Path("/etc/hearth/house.json")
# What the last run of site.yml changed.
LAST_RUN = Path("/var/lib/hearth/last-run.json")
# The watcher's snapshot, metrics and socket, in memory; and what it remembers.
WATCH_FOLDER = Path("/run/hearth-watch")
WATCH_STATE = Path("/var/lib/hearth/watch")
# It loads that one again, and opens the rules of Docker.
FIREWALL_WATCH_UNIT = "hearth-firewall-watch.service"
WATCH_UNIT = "hearth-watch.service"
# One line for each thing that an agent asked of the house.
AUDIT_LOG = Path("/var/lib/hearth/broker/audit.jsonl")
# Proposals that wait for a person, and the passkeys of the people who may approve.
APPROVALS = Path("/var/lib/hearth/approvals")
