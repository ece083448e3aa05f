"""All rules by the name of their operator."""

from __future__ import annotations

from agent.codegen.lowering import Rule
from agent.codegen.rules_activations import ACTIVATION_RULES
from agent.codegen.rules_pointwise import POINTWISE_RULES
from agent.codegen.rules_rows import ROW_RULES
from agent.codegen.rules_views import VIEW_RULES

RULES: dict[str, Rule] = {**POINTWISE_RULES, **ACTIVATION_RULES, **ROW_RULES, **VIEW_RULES}
