"""Lets an upstream Kokoro-FastAPI stream: a patch that shows itself first and can be taken back."""

from hearth_kokoro_patch.errors import PatchError
from hearth_kokoro_patch.planning import Change, Plan, State, plan, state, take_back
from hearth_kokoro_patch.steps import ALL, STEPS

# Goes up whenever the same steps make other files, so that a house builds them anew.
VERSION = "1"

__all__ = [
    "ALL",
    "STEPS",
    "VERSION",
    "Change",
    "PatchError",
    "Plan",
    "State",
    "plan",
    "state",
    "take_back",
]
