"""The realtime voice server: OpenAI's Realtime protocol over the house's speech and models."""
