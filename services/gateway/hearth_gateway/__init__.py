"""LiteLLM behind the house's keys, names and deadlines."""
