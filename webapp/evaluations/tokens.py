"""One-time tokens of jobs: the proof that an answer comes from whom we asked.

A token is derived from the secret key, the job and its fence, so that a lost hint can be sent again
while no table holds anything that could be used to forge an answer. It is good once, because the first
valid answer closes the job and each new attempt has another fence.
"""

from __future__ import annotations

from uuid import UUID

from django.utils.crypto import constant_time_compare, salted_hmac

_SALT = "webapp.evaluations.job"


def job_token(job_id: UUID, fence: int) -> str:
    """The token of one attempt."""
    return salted_hmac(_SALT, f"{job_id}:{fence}", algorithm="sha256").hexdigest()


def token_fits(job_id: UUID, fence: int, token: str) -> bool:
    """Whether a token was given out for this job and fence."""
    return constant_time_compare(token, job_token(job_id, fence))
