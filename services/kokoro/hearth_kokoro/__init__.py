"""An OpenAI-compatible Kokoro server whose speech starts at once and never stutters."""
