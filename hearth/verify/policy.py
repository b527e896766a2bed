"""Judge a page's Content-Security-Policy: what may it load, and whom may it tell?"""

from __future__ import annotations

# What a page brings along or makes itself.
_OWN = frozenset({"'self'", "'none'", "blob:", "data:"})
# What lets a page run what it holds; whether a script may be among it is judged apart.
_MANNERS = frozenset(
    {"'unsafe-inline'", "'wasm-unsafe-eval'", "'strict-dynamic'", "'report-sample'"}
)
_DIGESTS = ("'sha256-", "'sha384-", "'sha512-", "'nonce-")
# These have no default: left out, everything is allowed.
_WITHOUT_DEFAULT = ("base-uri", "form-action", "frame-ancestors")


def lapses(policy: str, fqdn: str) -> list[str]:
    """Return why a policy does not keep a page of `fqdn` to its own house, each in one line."""
    rules = {
        words[0].lower(): words[1:]
        for words in (rule.split() for rule in policy.split(";"))
        if words
    }
    found = [f"{name} is missing" for name in _missing(rules)]
    for name, sources in rules.items():
        found += [f"{name} lets {source} in" for source in sources if not _own(source, fqdn)]
    scripts = rules.get("script-src", rules.get("default-src", []))
    if "'unsafe-eval'" in scripts:
        found.append("scripts may be made of text")
    # A browser that knows digests leaves the general permission out of account.
    if "'unsafe-inline'" in scripts and not any(word.startswith(_DIGESTS) for word in scripts):
        found.append("scripts may stand in the text of a page")
    return found


def _missing(rules: dict[str, list[str]]) -> list[str]:
    return [name for name in ("default-src", *_WITHOUT_DEFAULT) if name not in rules]


def _own(source: str, fqdn: str) -> bool:
    known = source.lower()
    own_addresses = (f"https://{fqdn}", f"wss://{fqdn}", "'unsafe-eval'")
    return known in _OWN | _MANNERS or known in own_addresses or known.startswith(_DIGESTS)
