"""Two programs that are handed to an instance as text; Hearth itself imports only `put.Names`."""
