"""The warm process that runners are forked from. Started as a process, never imported."""
