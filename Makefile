# Each command sets up what it needs by itself; see README.md.
#   make up PORT=8001            another port
#   make demo EXAMPLE=softmax    another example
#   make test ARGS="-k export"   some tests
PYTHON ?= python3

.PHONY: up demo test check bench

up:
	@$(PYTHON) -m launch up $(if $(PORT),--port $(PORT))

demo:
	@$(PYTHON) -m launch demo $(if $(EXAMPLE),--example $(EXAMPLE))

test:
	@$(PYTHON) -m launch test -- $(ARGS)

check bench:
	@$(PYTHON) -m launch $@
