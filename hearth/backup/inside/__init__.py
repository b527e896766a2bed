"""Two programs that are sent to an instance as text; Hearth imports only `NameValidator`."""
