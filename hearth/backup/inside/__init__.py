"""Two programs that are handed to an instance as text; nothing here is imported by Hearth."""
