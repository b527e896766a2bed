"""The services that a proposed services.yml adds, as records of services to be removed.

YAML is handled as nodes, which keep each scalar as it was written: `on` stays `on`.
"""

from collections.abc import Sequence

import yaml

_MAP, _TEXT, _BOOL = (f"tag:yaml.org,2002:{kind}" for kind in ("map", "str", "bool"))
# Where a service is called, and by whom, means nothing for what is removed.
_DROPPED = ("present", "needs", "uses")


def services_added(proposed: str, *known: str) -> list[str]:
    """Return the names of the services in the first text which none of the others has."""
    names = {key.value for text in known for key, _ in _services(text)[1].value}
    return [key.value for key, _ in _services(proposed)[1].value if key.value not in names]


def as_removed(old: str, proposed: str, names: Sequence[str]) -> str:
    """Return the old services.yml with these records of the proposed one, each `present: false`."""
    root, services = _services(old)
    for key, record in _services(proposed)[1].value:
        if key.value in names and isinstance(record, yaml.MappingNode):
            kept = [(name, one) for name, one in record.value if name.value not in _DROPPED]
            absent = yaml.ScalarNode(_TEXT, "present"), yaml.ScalarNode(_BOOL, "false")
            services.value.append((key, yaml.MappingNode(_MAP, [*kept, absent])))
    return yaml.serialize(root)


def _services(text: str) -> tuple[yaml.MappingNode, yaml.MappingNode]:
    """Return the document and its section `services`, which is made where there is none."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if not isinstance(root, yaml.MappingNode):
        root = yaml.MappingNode(_MAP, [])
    found = next((one for key, one in root.value if key.value == "services"), None)
    if not isinstance(found, yaml.MappingNode):
        found = yaml.MappingNode(_MAP, [])
        root.value = [pair for pair in root.value if pair[0].value != "services"]
        root.value.append((yaml.ScalarNode(_TEXT, "services"), found))
    return root, found
