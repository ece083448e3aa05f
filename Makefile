# Each command sets up what it needs by itself; see README.md.
PYTHON ?= python3

.PHONY: up demo test check bench

up demo test check bench:
	@$(PYTHON) -m launch $@
