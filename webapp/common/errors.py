"""What a person did that cannot be done."""

from __future__ import annotations


class UserError(Exception):
    """Bad input or a wrong moment; the text is one sentence that says what to do and is safe to show.

    `field` names the part of the form or JSON body that it is about, where there is one.
    """

    def __init__(self, sentence: str, field: str = "") -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.field = field
