"""Prove the house on the machine it was built on: the smoke tests, and the receipt they leave."""
