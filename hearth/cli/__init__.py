"""The command `hearth`: a thin layer over ansible-playbook, pytest and the engine."""
