"""The judge: owns inputs, comparison, clock and verdict. It runs no user code."""
