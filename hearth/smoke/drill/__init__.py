"""The drill: members of aliases broken on purpose, beside the house, to see who answers then."""
