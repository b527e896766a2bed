"""Fetches one public page for an agent of the house, within limits, and returns its text."""
