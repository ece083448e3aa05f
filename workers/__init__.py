"""The workshop: builds, verifies and times kernels. Runs with torch and the standard library alone."""
