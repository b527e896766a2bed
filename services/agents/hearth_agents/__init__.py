"""A team of agents behind OpenAI's interface, for one house."""

import os

# Before the SDK is imported: it would send traces to OpenAI, and log what models read and write.
os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"
os.environ["OPENAI_AGENTS_DONT_LOG_MODEL_DATA"] = "1"
os.environ["OPENAI_AGENTS_DONT_LOG_TOOL_DATA"] = "1"
