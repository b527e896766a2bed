"""Clients of a house's services, shared by the smoke tests and the benchmarks."""
