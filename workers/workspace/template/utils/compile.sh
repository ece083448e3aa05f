#!/bin/bash
# Builds the kernels and their binding; see utils/judge.py for the options and exit codes.
cd "$(dirname "$0")/.." && exec python3 -m utils.compile "$@"
