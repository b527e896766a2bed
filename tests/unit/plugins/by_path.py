"""Plugins and modules as Ansible loads them: by their path, for they are in no package."""

import importlib.util
from types import ModuleType

from tests.role_data import ROOT


def plugin(kind: str, name: str) -> ModuleType:
    """Import ansible/plugins/KIND/NAME.py afresh."""
    path = ROOT / "ansible/plugins" / kind / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"hearth_plugin_{kind}_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
