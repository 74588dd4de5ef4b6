"""Lowering dtensor operations to StableHLO."""
