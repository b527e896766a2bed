"""Start Open WebUI's pipelines server so that it downloads, moves and changes nothing.

A pipeline may use `ask` and `PipelineError`.
"""

from hearth_pipelines.client import ask
from hearth_pipelines.errors import PipelineError

__all__ = ["PipelineError", "ask"]
