"""Start Open WebUI's pipelines server so that it downloads, moves and changes nothing.

A pipeline may use `ask`, `ask_agent` and `PipelineError`.
"""

from hearth_pipelines.client import ask, ask_agent
from hearth_pipelines.errors import PipelineError

__all__ = ["PipelineError", "ask", "ask_agent"]
