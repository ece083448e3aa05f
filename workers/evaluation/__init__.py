"""The evaluation library's parent side: no torch, no Django, no Celery."""
