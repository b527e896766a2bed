"""Hearth turns one bare Debian machine into a private AI house."""
