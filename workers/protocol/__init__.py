"""Shared message types as versioned JSON. Standard library only; everything else stands on this storey."""
