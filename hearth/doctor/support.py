"""Pack what a helper needs to see into one archive, without any secret.

Values that are known to be secret are replaced wherever they appear, also encoded; what looks like
a secret is replaced as well. The archive is searched for every known value before it is written.
"""

import base64
import contextlib
import html
import io
import json
import re
import shlex
import tarfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import quote, quote_plus

from hearth.catalogue.house import House
from hearth.doctor.examination import context_here, examine
from hearth.doctor.finding import Context
from hearth.files import write_atomic
from hearth.machine import engine, facts, systemd
from hearth.machine.secrets import SecretsError
from hearth.paths import RECEIPT_FOLDER
from hearth.project import Project
from hearth.render.units import CREDENTIALS_FOLDER
from hearth.smoke.receipt import version

GONE = "[left out]"
_LINES = 300
_FILE_BYTES, _FILES = 256 * 1024, 400
_COMMAND_S, _ALL_S = 20, 60
_SYSTEMCTL = ("/usr/bin/systemctl", "--no-pager")
# Shorter values would take ordinary words with them; no secret of a house is that short.
_SHORTEST = 8
_PROJECT_LOGS, _RECEIPTS = 3, 5
_RECORDS = "/var/lib/hearth/converged"
# What is no secret although a name such as `key` stands before it.
_WORDS = (
    r"(?!(?:random|given|key|keys|house|own|lan|true|false|null|none|yes|no|auto|all)\b"
    r"|\d{1,6}(?:\.\d+)?(?![\w.]))"
)
# From the start of a word only: a line of a megabyte must not take minutes.
_NAMES = (
    r"(?<![\w.-])[\w.-]{0,80}(?:passw(?:or)?d|passphrase|secret|token|api[_-]?key|_key"
    r"|auth(?:orization)?)[\w.-]{0,80}"
)
# Digits, capitals and small letters without order: what random bytes look like as text. Digests are
# in hex, and the names of models and programs have fewer changes between letters and digits.
_RANDOM = (
    r"(?<![A-Za-z0-9])(?=[A-Za-z0-9]{16})(?=[A-Za-z0-9]*[a-z])(?=[A-Za-z0-9]*[A-Z])"
    r"(?=(?:[A-Za-z]*[0-9]+(?![0-9])){3})"
)
_SETTING = rf"(?:- )?[\"']?(?:{_NAMES}|(?:user|cloud-init)\.[\w.-]+)[\"']?:"
_PATTERNS: Sequence[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]] = (
    # What is below such a setting in YAML: a text over several lines, a list, or more settings.
    (
        re.compile(
            rf"^(?P<in>[ \t]*)(?P<name>{_SETTING})[ \t]*(?:[>|][-+\d]*)?[ \t]*\n"
            r"(?P<below>(?:(?P=in)(?:[ \t]+|- )[^\n]*(?:\n|\Z)|[ \t]*\n)+)",
            re.I | re.M,
        ),
        lambda found: _below(found),
    ),
    (re.compile(rf"({_NAMES}[\"']?:[ \t]*)\[(?=[^\]\n]*[a-z])[^\]\n]*\]", re.I), rf"\1{GONE}"),
    # The environment of an instance, as Incus lists it.
    (re.compile(r"^(\s*environment\.[\w.-]+:[ \t]*)\S[^\n]*", re.M), rf"\1{GONE}"),
    # The hashes of passwords.
    (re.compile(r"\$(?:2[abxy]|argon2\w*|scrypt|y|[156])\$[\w./$=,+-]{16,}"), GONE),
    # Private keys, in a file or in a journal's line.
    (
        re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----", re.S),
        GONE,
    ),
    (re.compile(r"AGE-SECRET-KEY-1[0-9A-Z]+", re.I), GONE),
    (re.compile(r"\$ANSIBLE_VAULT;[^\n]*(?:\n[0-9a-f]+)*"), GONE),
    (re.compile(r"\b(Bearer|Basic)\s+[\w.~+/=-]{8,}", re.I), rf"\1 {GONE}"),
    (re.compile(r"\b(?:sk|pk|ghp|gho|hf|xox[abp])[-_][\w-]{8,}"), GONE),
    # The user and the password of an address, and the parameters of a request.
    (re.compile(r"(://)[^/\s:@]+:[^/\s@]+@"), rf"\1{GONE}@"),
    (
        re.compile(
            r"([?&](?:key|token|secret|password|sig|signature|code|auth)[\w-]*=)[^&\s\"']+", re.I
        ),
        rf"\1{GONE}",
    ),
    (re.compile(r"\beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*"), GONE),
    (re.compile(r"((?:Set-)?Cookie:\s*)[^\n]+", re.I), rf"\1{GONE}"),
    # NAME=value, "name": "value", name: value.
    (
        re.compile(
            rf"({_NAMES}[\"']?[ \t]*[:=][ \t]*)([\"']?){_WORDS}[^\s\"',;}}\]\[{{]{{4,}}\2", re.I
        ),
        rf"\1\2{GONE}\2",
    ),
    # A name and its value as words, as in a Caddyfile and in sentences of a log.
    (
        re.compile(
            rf"({_NAMES}[\"']?[ \t]+(?:(?:is|was)[ \t]+)?[\"']?)"
            r"(?=[^\s\d]*\d)(?=[^\sA-Za-z]*[A-Za-z])[\w+/=.~-]{12,}",
            re.I,
        ),
        rf"\1{GONE}",
    ),
    (re.compile(rf"(?<![\w+-])(?!sha\d+-)(?=[\w+-]*?{_RANDOM})[\w+-]+=*", re.A), GONE),
)
# What people write into a drop-in is theirs; systemd shows it in these places.
_VARIABLE = re.compile(r"(?:^|(?<=[\s\"']))([A-Za-z_]\w*)=")
_PRIVATE = re.compile(r"\s*(Environment|SetCredential(?:Encrypted)?)=(.*)", re.S)
_UNIT_FILE = re.compile(r"# /.*\.(?:service|conf)\n?")
Entries = Iterator[tuple[str, str]]


class SupportError(Exception):
    """One line for a person: why no archive was written."""


@dataclass(frozen=True, slots=True)
class Packed:
    """A written archive: its bytes, its files, and how many secrets were replaced."""

    size: int
    files: int
    redacted: int


class Redactor:
    """Replaces secrets in texts, and counts them."""

    def __init__(self, known: Iterable[str]) -> None:
        """Take the values that are known to be secret, as they are."""
        forms = {form for value in known for form in _forms(value) if len(form) >= _SHORTEST}
        # The longest first: one may contain another.
        self._known = sorted(forms, key=len, reverse=True)
        self.count = 0

    def clean(self, text: str) -> str:
        """Return a text without secrets."""
        before = text.count(GONE)
        for value in self._known:
            text = text.replace(value, GONE)
        for pattern, instead in _PATTERNS:
            text = pattern.sub(instead, text)
        self.count += text.count(GONE) - before
        return text

    def leaks(self, content: bytes) -> bool:
        """Return whether a known value is left."""
        return any(value.encode() in content for value in self._known)


def _forms(value: str) -> Iterator[str]:
    """Yield a value as programs write it: as it is, line by line, quoted and encoded."""
    value = value.strip()
    yield value
    yield from (line.strip() for line in value.splitlines() if "-----" not in line)
    # JSON, Python, YAML and HTML.
    yield from (json.dumps(value)[1:-1], repr(value)[1:-1], value.replace("'", "''"))
    yield html.escape(value)
    for coded in (quote(value, safe=""), quote(value), quote_plus(value)):
        yield coded
        yield re.sub("%..", lambda found: found[0].lower(), coded)
    raw = value.encode()
    yield from _base64_forms(raw)
    yield from (raw.hex(), raw.hex().upper())


def _base64_forms(raw: bytes) -> Iterator[str]:
    """Yield bytes in base64, alone and in the middle of others, as a password after its user."""
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        yield encode(raw).decode().rstrip("=")
        for before, shared in ((0, 0), (1, 2), (2, 3)):
            coded = encode(b"\0" * before + raw).decode()
            # The letters at both ends depend on what is beside it.
            yield (coded.rstrip("=")[:-1] if coded.endswith("=") else coded)[shared:]


def _below(found: re.Match[str]) -> str:
    """Return a setting without what is below it, unless that is only the kinds of secrets."""
    kinds = (line.rpartition(":")[2].strip() for line in found["below"].splitlines())
    if all(kind in ("", "random", "given") for kind in kinds):
        return found[0]
    return f"{found['in']}{found['name']}\n{found['in']}  {GONE}\n"


def without_drop_ins(text: str) -> str:
    """Return a unit as systemd shows it, without the values that people's drop-ins set.

    Hearth writes no drop-in for a program, and no secret into the environment of a unit.
    """
    lines, ours, private = list[str](), True, False
    for line in text.splitlines(keepends=True):
        if _UNIT_FILE.fullmatch(line):
            ours = ".d/" not in line
        named = _PRIVATE.match(line)
        # `systemctl show` merges all of them, and names no file.
        private = private or bool(named and not (ours and text.startswith("# /")))
        lines.append(_names_only(line) if private else line)
        # A setting may go on in the next line.
        private = private and line.rstrip("\n").endswith("\\")
    return "".join(lines)


def _names_only(line: str) -> str:
    """Return the names of a line with an environment or credentials."""
    named = _PRIVATE.match(line)
    setting, values = (f"{named[1]}=", named[2]) if named else ("  ", line)
    if setting.startswith("SetCredential"):
        names = [f"{values.partition(':')[0]}:{GONE}"]
    else:
        names = [f"{name}={GONE}" for name in _VARIABLE.findall(values)] or [GONE]
    more = " \\" if line.rstrip("\n").endswith("\\") else ""
    return f"{setting}{' '.join(names)}{more}\n"


def pack(project: Project, path: Path, say: Callable[[str], None]) -> Packed:
    """Write the archive; nothing in it is a secret that this house knows.

    Raises:
        SupportError: a known secret would be in it, or the file cannot be written.
    """
    context = context_here(project)
    redactor = Redactor(known_secrets(project, context.house))
    stream, files = io.BytesIO(), 0
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, text in collect(project, context, say):
            content = redactor.clean(text).encode(errors="replace")
            if redactor.leaks(content):
                raise SupportError(f"{name} still holds a secret: no archive was written")
            entry = tarfile.TarInfo(redactor.clean(f"hearth-support/{name}"))
            entry.size, entry.mtime, entry.mode = len(content), int(time.time()), 0o600
            archive.addfile(entry, io.BytesIO(content))
            files += 1
    try:
        write_atomic(path.absolute(), stream.getvalue(), 0o600)
    except OSError as error:
        raise SupportError(f"{path}: {error.strerror}: name another file by --to") from None
    return Packed(len(stream.getvalue()), files, redactor.count)


def known_secrets(project: Project, house: House) -> set[str]:
    """Return every secret value of this house: of its vault, and what programs were handed."""
    found = set[str]()
    # Without a vault, what was handed to the programs is still known.
    with contextlib.suppress(SecretsError):
        found |= {*project.vault.values().values()}
    found.add(facts.text_of(project.vault.password_file))
    # The files that systemd hands in, on the machine and in each instance.
    each = 'cat "$file" 2>/dev/null && printf "\\0"'
    show = f"for file in {CREDENTIALS_FOLDER}/*/*; do {each}; done; :"
    for place in _places(house):
        output = _output(place, "/bin/sh", "-c", show)
        for content in output.split("\0"):
            found |= {content, *_values_in(content)}
    return {value for value in found if len(value.strip()) >= _SHORTEST}


def _values_in(content: str) -> Iterator[str]:
    """Yield the values of a credential that is a JSON object, or lines of NAME=value."""
    try:
        document = json.loads(content)
    except ValueError:
        for line in content.splitlines():
            yield line.partition("=")[2].strip().strip("\"'")
        return
    for value in document.values() if isinstance(document, dict) else ():
        if isinstance(value, str):
            yield value


def collect(project: Project, context: Context, say: Callable[[str], None]) -> Entries:
    """Yield the name and the text of each file; what cannot be read is said in its place."""
    house = context.house
    say("findings and states")
    yield "doctor.json", _json([one.as_json() for one in examine(context)])
    yield "status.json", _json([asdict(row) for row in context.rows()])
    yield "models.json", _json(context.models().as_json())
    about = {"hearth": version(project), **asdict(facts.machine()), **facts.versions()}
    yield "versions.json", _json(about)
    kept = sorted(RECEIPT_FOLDER.glob("*/*.json"))[-_RECEIPTS:]
    for path in (*sorted(RECEIPT_FOLDER.glob("*.json")), *kept):
        yield f"receipts/{path.relative_to(RECEIPT_FOLDER)}", _text(path)
    for path in sorted(project.inventory.rglob("*.yml")):
        # The vault is encrypted, and stays where it is all the same.
        if path != project.vault.path:
            yield f"inventory/{path.relative_to(project.inventory)}", _text(path)
    for kind in ("up", "verify", "doctor"):
        for path in sorted(project.logs.glob(f"{kind}-*.log"))[-_PROJECT_LOGS:]:
            yield f"logs/{path.name}", _text(path)
    say("journals and configuration")
    with ThreadPoolExecutor(4) as pool:
        for entries in pool.map(lambda place: [*_of_place(house, place)], _places(house)):
            yield from entries


def _places(house: House) -> list[str | None]:
    return [None, *(one.instance for one in house.services.values() if one.address)]


def _of_place(house: House, place: str | None) -> Entries:
    """Yield units, journals and configuration of the machine or of one instance."""
    base = f"instances/{place}" if place else "machine"
    owned = (one for one in house.services.values() if one.address and one.system == place)
    units = [one.unit for one in ([] if place else house.parts.values())]
    units += [one.unit for one in owned]
    wanted = {} if place else {f"machine/{name}.txt": argv for name, argv in _COMMANDS.items()}
    wanted[f"{base}/units.txt"] = (*_SYSTEMCTL, "list-units", "--all")
    for unit in units:
        wanted[f"{base}/{unit}.log"] = (*systemd.journal_argv(unit), f"--lines={_LINES}")
        # With every drop-in, and what systemd makes of it.
        wanted[f"{base}/{unit}.txt"] = (*_SYSTEMCTL, "cat", unit)
        wanted[f"{base}/{unit}.status"] = (*_SYSTEMCTL, "show", unit)
    for path in _managed(place):
        wanted[f"{base}/files{path}"] = ("/usr/bin/head", f"--bytes={_FILE_BYTES}", "--", path)
    # One command for all: each one in an instance costs a fifth of a second.
    script = "\n".join(
        f"printf '\\036%s\\037' {shlex.quote(name)}; {shlex.join(argv)} 2>&1"
        for name, argv in wanted.items()
    )
    output = _output(place, "/bin/sh", "-c", f"{script}\n:", within_s=_ALL_S)
    named = dict(part.partition("\037")[::2] for part in output.split("\036")[1:])
    for name in wanted:
        text = named.get(name, output if not named else "(not read)\n")
        shows_unit = name.endswith((".service.txt", ".service.status"))
        yield name, without_drop_ins(text) if shows_unit else text


_COMMANDS: Mapping[str, tuple[str, ...]] = {
    "addresses": ("/usr/sbin/ip", "-brief", "address"),
    "routes": ("/usr/sbin/ip", "route"),
    "listeners": ("/usr/bin/ss", "-Hlntup"),
    "firewall": ("/usr/sbin/nft", "--terse", "list", "ruleset"),
    "instances": ("/usr/bin/incus", "list", "--format=yaml"),
    "containers": ("/usr/bin/podman", "ps", "--all", "--format=json"),
    "disks": ("/usr/bin/df", "-h"),
    "memory": ("/usr/bin/free", "-m"),
    "kernel": ("/usr/bin/journalctl", "--dmesg", "--no-pager", f"--lines={_LINES}"),
}


def _managed(place: str | None) -> list[str]:
    """Return the files that Hearth wrote there, from its own records."""
    records = _output(place, "/bin/sh", "-c", f"cat {_RECORDS}/*.json")
    found: list[str] = []
    for line in records.splitlines():
        try:
            found += [str(path) for path in json.loads(line)["files"]]
        except (ValueError, KeyError, TypeError):
            continue
    return sorted({path for path in found if not path.startswith(CREDENTIALS_FOLDER)})[:_FILES]


def _output(place: str | None, *argv: str, within_s: float = _COMMAND_S) -> str:
    """Return what a command prints, or why it could not run."""
    try:
        done = engine.execute(place, argv, timeout=within_s)
    except engine.EngineError as error:
        return f"(not read: {error})\n"
    return done.stdout if done.stdout or not done.returncode else f"(not read: {done.stderr})\n"


def _text(path: Path) -> str:
    try:
        with path.open("rb") as source:
            return source.read(_FILE_BYTES).decode(errors="replace")
    except OSError as error:
        return f"(not read: {error.strerror})\n"


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n"
