"""Configuration data for every program, derived from the house."""
