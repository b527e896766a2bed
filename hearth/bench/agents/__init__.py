"""How well a model calls the house's own tools: fifty tasks, the same for each model."""
