"""Judge a page's Content-Security-Policy: what may it load, and whom may it tell?"""

from __future__ import annotations

# What a page brings along or makes itself.
_OWN = frozenset({"'self'", "'none'", "blob:", "data:"})
# What lets a page run what it holds; whether a script may be among it is judged apart.
_MANNERS = frozenset({"'unsafe-inline'", "'wasm-unsafe-eval'", "'report-sample'"})
# Each of the last two stands for itself, and the first one for those that are missing.
_SCRIPTS = ("script-src", "script-src-elem", "script-src-attr")
# What a page can make of a text; as a picture it does no harm.
_TEXT = frozenset({"blob:", "data:"})
_DIGESTS = ("'sha256-", "'sha384-", "'sha512-", "'nonce-")
# These have no default: left out, everything is allowed.
_WITHOUT_DEFAULT = ("base-uri", "form-action", "frame-ancestors")


def violations(policy: str, fqdn: str) -> list[str]:
    """Return why a policy does not keep a page of `fqdn` to its own house, each in one line."""
    rules = {
        words[0].lower(): words[1:]
        for words in (rule.split() for rule in policy.split(";"))
        if words
    }
    found = [f"{name} is missing" for name in _missing(rules)]
    for name, sources in rules.items():
        found += [f"{name} lets {source} in" for source in sources if not _own(source, fqdn)]
    for name in _SCRIPTS:
        found += _open_to_text(name, rules.get(name, []))
    if "script-src" not in rules:
        found += _open_to_text("default-src", rules.get("default-src", []))
    # A page's own scripts make workers out of what they have: those are blobs.
    if "data:" in _lower(rules.get("worker-src", [])):
        found.append("worker-src lets a script in that is a text: data:")
    return found


def _open_to_text(name: str, sources: list[str]) -> list[str]:
    """Return how a rule for scripts lets in what the page's own server never sent."""
    said = _lower(sources)
    found = []
    if "'unsafe-eval'" in said:
        found.append(f"{name} lets scripts be made of text")
    # A browser that knows digests leaves the general permission out of account.
    if "'unsafe-inline'" in said and not any(word.startswith(_DIGESTS) for word in said):
        found.append(f"{name} lets scripts stand in the text of a page")
    found += [f"{name} lets a script in that is a text: {word}" for word in _TEXT & set(said)]
    return sorted(found)


def _lower(sources: list[str]) -> list[str]:
    return [source.lower() for source in sources]


def _missing(rules: dict[str, list[str]]) -> list[str]:
    return [name for name in ("default-src", *_WITHOUT_DEFAULT) if name not in rules]


def _own(source: str, fqdn: str) -> bool:
    known = source.lower()
    own_addresses = (f"https://{fqdn}", f"wss://{fqdn}", "'unsafe-eval'")
    return known in _OWN | _MANNERS or known in own_addresses or known.startswith(_DIGESTS)
