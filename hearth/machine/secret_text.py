"""The text inside the vault: names and values as YAML that Ansible loads and people edit."""

from collections.abc import Mapping
from pathlib import Path

import yaml

KEY = "hearth_secrets"


class SecretsError(Exception):
    """One line for a person: what is wrong with which file, and what to do."""


class _Unsafe(str):
    """A value that Ansible must not read as a template."""

    __slots__ = ()


class _Dumper(yaml.SafeDumper):
    """Writes `!unsafe` before values that look like templates."""


class _Loader(yaml.SafeLoader):  # the safe loader, plus one tag that is a plain string
    """Reads `!unsafe` as the string it stands before."""


def _write_unsafe(dumper: yaml.SafeDumper, value: _Unsafe) -> yaml.ScalarNode:
    return dumper.represent_scalar("!unsafe", str(value), style="'")


def _read_unsafe(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> str:
    return str(loader.construct_scalar(node))


_Dumper.add_representer(_Unsafe, _write_unsafe)
_Loader.add_constructor("!unsafe", _read_unsafe)


def dump(values: Mapping[str, str]) -> str:
    """The text of a vault with these secrets."""
    # Ansible trusts vars files as templates: a brace in somebody's password must stay a brace.
    marked = {n: _Unsafe(v) if "{" in v else v for n, v in sorted(values.items())}
    return yaml.dump({KEY: marked}, Dumper=_Dumper, sort_keys=True, allow_unicode=True)


def parse(plain: str, path: Path) -> dict[str, str]:
    """The mapping in the vault's text; SecretsError when somebody edited it into something else."""
    try:
        loaded = yaml.load(plain, Loader=_Loader)  # noqa: S506 - a subclass of the safe loader
    except yaml.YAMLError as error:
        # The parser's text quotes the line, which is a secret.
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1})" if mark else ""
        raise SecretsError(f"{path}: not YAML inside{where}: `ansible-vault edit` it") from None
    values = loaded.get(KEY) if isinstance(loaded, dict) else None
    if not isinstance(values, dict) or set(loaded) != {KEY}:
        raise SecretsError(
            f"{path}: it must hold one mapping, {KEY}, of names to values: `ansible-vault edit` it"
        )
    for name, value in values.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise SecretsError(
                f"{path}: secret {name} is not text: quote its value with `ansible-vault edit`"
            )
    return values
