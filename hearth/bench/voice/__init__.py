"""Measures calls: how soon the house answers, when it takes a pause for an end, what calls cost."""
