"""What the controller's own settings become on the house's own machine."""

import io
import tarfile
from pathlib import Path

import yaml

from hearth.catalogue.pipelines import FOLDER

LOCK = "sources.lock.yml"
# The digests of what was brought last.
_SENT = "local/.sent"


def take_settings(inventory: str, judged: str = "true") -> str:
    """Return the shell line that replaces `local` there by the tar that it reads.

    Only whole settings come into their place: a broken connection must not lose the digests of
    first sight, which are nowhere else. Settings that somebody made there are lost to nobody: with
    one that did not come by this line and that the tar does not have, it refuses. Where it does
    not, it does `judged` before it changes one of them.
    """
    refusal = (
        f"{inventory}/local has settings that did not come from here ($theirs): take into "
        "inventory/local here what shall stay of them, delete them there, then say this again"
    )
    return (
        f"set -e; cd {inventory}; rm -rf local.new; mkdir -p local local.new/local/{FOLDER}; "
        f"tar -x -C local.new; : >>{_SENT}; theirs=; for old in local/*.yml local/{FOLDER}/*; do "
        f'[ ! -f "$old" ] || [ "$old" = local/{LOCK} ] || cmp -s "$old" "local.new/$old" || '
        f'grep -qxF "$(sha256sum <"$old")" {_SENT} || '
        'theirs="$theirs${theirs:+ }${old#local/}"; '
        f'done; [ -z "$theirs" ] || {{ rm -r local.new; echo "{refusal}" >&2; exit 1; }}; '
        f"{judged}; "
        # Known before they come: a hand-over that is cut off is no change of somebody there.
        f'for new in local.new/local/*.yml local.new/local/{FOLDER}/*; do [ ! -f "$new" ] || '
        f'sha256sum <"$new"; done >local.new/sent; cat local.new/sent >>{_SENT}; '
        'for old in local/*.yml; do [ -e "local.new/$old" ] || rm -f "$old"; done; '
        'for new in local.new/local/*.yml; do [ ! -e "$new" ] || mv "$new" local/; done; '
        f"rm -rf local/{FOLDER}; mv local.new/local/{FOLDER} local/; mv local.new/sent {_SENT}; "
        "rm -r local.new"
    )


def local_settings(folder: Path, recorded: str) -> bytes:
    """Pack `inventory/local` for the other machine.

    Args:
        folder: The controller's own settings.
        recorded: The lock file there: digests trusted on first use are the house's own and stay.

    Returns:
        A tar whose only top entry is `local/`.
    """
    documents = {path.name: yaml.safe_load(path.read_text()) or {} for path in folder.glob("*.yml")}
    for record in (documents.get("machines.yml", {}).get("machines") or {}).values():
        # There the house is at home; with this line it would go looking for itself.
        record.pop("reach", None)
    lock = yaml.safe_load(recorded) or {}
    for section, entries in documents.get(LOCK, {}).items():
        lock[section] = {**lock.get(section, {}), **(entries or {})}
    if lock:
        documents[LOCK] = lock
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, document in sorted(documents.items()):
            text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True).encode()
            entry = tarfile.TarInfo(f"local/{name}")
            entry.size, entry.mode = len(text), 0o600
            archive.addfile(entry, io.BytesIO(text))
        for path in sorted((folder / FOLDER).glob("*.py")):
            archive.add(path, f"local/{FOLDER}/{path.name}")
    return packed.getvalue()
