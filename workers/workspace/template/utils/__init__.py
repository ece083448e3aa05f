"""The judge's commands in this workspace: compile, verification, profiling."""
