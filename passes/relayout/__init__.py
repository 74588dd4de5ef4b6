"""Relayouts: the search for the cheapest chain of steps, and its realisation."""
