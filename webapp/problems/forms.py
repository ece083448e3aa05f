"""The upload form. What the person typed comes back with the error beside it; nothing is lost."""

from __future__ import annotations

from django import forms

from webapp.common.errors import UserError
from webapp.problems.services import THREADS
from webapp.problems.upload import MAX_PROBLEM_FILE_BYTES
from workers.workspace.layout import MODEL, PROBLEM_TOML

_FIELD_OF = {
    MODEL: "model",
    "files": "model",
    PROBLEM_TOML: "spec",
    "title": "title",
    THREADS: THREADS,
}
"""Where an error about a part of an upload is shown."""


class SourceField(forms.CharField):
    """Text that is looked at in `check_upload`, which has a better sentence for a NUL character."""

    def run_validators(self, value: str) -> None:
        """None here."""


class UploadForm(forms.Form):
    """`model.py` pasted or chosen, and what belongs into `problem.toml`."""

    title = forms.CharField(required=False, max_length=120)
    model = SourceField(required=False, strip=False)
    model_file = forms.FileField(required=False, allow_empty_file=True)
    threads = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=256,
        error_messages={
            "invalid": "Write a whole number of threads, such as 1.",
            "min_value": "At least one thread is needed.",
            "max_value": "At most 256 threads can be asked for.",
        },
    )
    spec = SourceField(required=False, strip=False)
    optimise = forms.BooleanField(required=False)

    def clean_model_file(self) -> bytes | None:
        """The chosen file's bytes; None where none was chosen."""
        file = self.cleaned_data.get("model_file")
        if not file:
            return None
        if file.size > MAX_PROBLEM_FILE_BYTES:
            raise forms.ValidationError(
                f"{file.name} has {file.size:,} bytes; {MAX_PROBLEM_FILE_BYTES:,} are allowed. Is it the model's source?"
            )
        content: bytes = file.read()
        return content

    @property
    def title_given(self) -> str:
        return str(self.cleaned_data["title"])

    @property
    def wants_session(self) -> bool:
        return bool(self.cleaned_data["optimise"])

    def upload_files(self) -> dict[str, bytes]:
        """The files of the problem. A chosen file stands before pasted text, a spec before the thread count."""
        data = self.cleaned_data
        chosen = data["model_file"]
        files = {MODEL: data["model"].encode() if chosen is None else chosen}
        spec = data["spec"]
        if not spec.strip() and data["threads"] and data["threads"] > 1:
            spec = f"threads = {data['threads']}\n"
        if spec.strip():
            files[PROBLEM_TOML] = spec.encode()
        return files

    def show(self, error: UserError) -> None:
        """Put an error of the services beside the field that it is about."""
        field = _FIELD_OF.get(error.field)
        if error.field == THREADS and self.cleaned_data.get("spec", "").strip():
            field = "spec"  # it stood in place of the thread count
        self.add_error(field, error.sentence)

    @property
    def model_text(self) -> str:
        """What to fill the text area with: the chosen file as text where there was one, else what was pasted."""
        chosen = self.cleaned_data.get("model_file") if self.is_bound else None
        if chosen is not None:
            return str(chosen.decode("utf-8", errors="replace"))
        return str(self["model"].value() or "")
