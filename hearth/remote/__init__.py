"""A house on another machine: the controller sends the project there, and it builds itself."""
