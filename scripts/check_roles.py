"""Refuse a role whose argument specification and defaults name different variables."""

import sys
from pathlib import Path

import yaml

ROLES = Path(__file__).resolve().parent.parent / "roles"


def keys_of_defaults(role: Path) -> set[str]:
    """Return the variables that a role has a default for."""
    path = role / "defaults" / "main.yml"
    return set(yaml.safe_load(path.read_text()) or {}) if path.exists() else set()


def specification(role: Path) -> dict[str, dict[str, object]]:
    """Return the options that a role's specification describes."""
    path = role / "meta" / "argument_specs.yml"
    if not path.exists():
        return {}
    specs = (yaml.safe_load(path.read_text()) or {}).get("argument_specs", {})
    return dict(specs.get("main", {}).get("options", {}) or {})


def problems(role: Path) -> list[str]:
    """Return what is wrong with one role, one line each."""
    path = f"roles/{role.name}/meta/argument_specs.yml"
    if not (role / "meta" / "argument_specs.yml").exists():
        return [f"{path}: missing: describe every variable of the role there"]
    defaults, spec = keys_of_defaults(role), specification(role)
    # What the caller must give can have no default.
    optional = {name for name, option in spec.items() if not option.get("required")}
    found = [
        f"{path}: {name} has a default and no description" for name in sorted(defaults - set(spec))
    ]
    found += [
        f"roles/{role.name}/defaults/main.yml: {name} is described as optional and has no default"
        for name in sorted(optional - defaults)
    ]
    found += [
        f"roles/{role.name}/defaults/main.yml: {name} is required and has a default all the same"
        for name in sorted((set(spec) - optional) & defaults)
    ]
    foreign = sorted(name for name in spec if not name.startswith(f"{role.name}_"))
    return found + [f"{path}: {name} does not begin with the role's name" for name in foreign]


def main() -> int:
    """Check every role and say how many there are."""
    roles = sorted(path for path in ROLES.iterdir() if (path / "tasks").is_dir())
    found = [line for role in roles for line in problems(role)]
    print("\n".join(found or [f"{len(roles)} roles: specifications and defaults agree"]))
    return 1 if found or not roles else 0


if __name__ == "__main__":
    sys.exit(main())
