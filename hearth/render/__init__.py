"""Everything that programs read, made out of the house."""
