"""The same bad uploads through the page and through REST: one sentence each, and nothing is kept but the text."""

from __future__ import annotations

import html
import json
import re

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from tests.webapp.conftest import MODEL, People
from tests.webapp.problems.uploads import REFUSALS
from webapp.api.tokens import make_token
from webapp.evaluations.models import Evaluation, Job
from webapp.problems.models import Problem
from webapp.studio.models import Session


def is_text(*contents: bytes) -> bool:
    try:
        return all(content.decode() is not None for content in contents)
    except UnicodeDecodeError:
        return False


# The form takes the spec as text and no third file; the whole site takes no larger text than 12 MiB.
FORMS = [
    name
    for name, (files, _) in REFUSALS.items()
    if "setup.py" not in files and is_text(files.get("problem.toml", b""))
]
TEXTS = [
    name
    for name in FORMS
    if is_text(*REFUSALS[name][0].values()) and len(REFUSALS[name][0].get("model.py", b"")) < 10**7
]


@pytest.fixture
def client(people: People) -> Client:
    signed_in = Client()
    signed_in.force_login(people.owner)
    return signed_in


def nothing_is_kept() -> bool:
    rows = (Problem, Evaluation, Job, Session)
    return not any(kind.objects.exists() for kind in rows)  # type: ignore[attr-defined]


def complaint(page: str) -> tuple[str, str]:
    """The one sentence that the form shows, and the name of the field that it marks."""
    sentences = re.findall(r'role="alert">.*?<span>([^<]+)</span>', page)
    marked = re.findall(r'name="(\w+)"[^>]*aria-invalid="true"', page)
    assert (len(sentences), len(marked)) == (1, 1), (sentences, marked)
    return html.unescape(sentences[0]), marked[0]


@pytest.mark.parametrize("name", FORMS)
def test_a_chosen_file_is_refused_at_once_with_its_field_marked(name: str, client: Client) -> None:
    files, expected = REFUSALS[name]
    chosen = SimpleUploadedFile("model.py", files.get("model.py", b""))
    spec = files.get("problem.toml", b"").decode()
    answer = client.post(
        "/problems/new/",
        {"title": "Kept", "model_file": chosen, "spec": spec, "optimise": "on"},
    )
    sentence, field = complaint(answer.content.decode())
    assert expected in sentence
    assert field in (("spec",) if "problem.toml" in files else ("model", "model_file"))
    assert 'value="Kept"' in answer.content.decode()
    assert nothing_is_kept()


@pytest.mark.parametrize("name", TEXTS)
def test_pasted_text_is_refused_at_once_and_comes_back(name: str, client: Client) -> None:
    files, expected = REFUSALS[name]
    model = files.get("model.py", b"").decode()
    spec = files.get("problem.toml", b"").decode()
    answer = client.post("/problems/new/", {"model": model, "spec": spec, "optimise": "on"})
    page = answer.content.decode()
    sentence, field = complaint(page)
    assert expected in sentence
    assert field == ("spec" if "problem.toml" in files else "model")
    assert f">\n{html.escape(model)}</textarea>" in page
    assert html.escape(spec) in page
    assert nothing_is_kept()


@pytest.mark.parametrize(
    "name", [name for name in REFUSALS if is_text(*REFUSALS[name][0].values())]
)
def test_rest_gives_the_same_sentence(name: str, people: People) -> None:
    files, expected = REFUSALS[name]
    text = json.dumps({"files": {path: content.decode() for path, content in files.items()}})
    answer = post(people, text)
    body = answer.json()
    assert answer.headers["Content-Type"] == "application/problem+json"
    if len(text) > 12 << 20:
        assert (answer.status_code, body["status"]) == (413, 413)
        assert "The request is larger than 12.0 MiB" in body["detail"]
    else:
        assert (answer.status_code, body["status"]) == (400, 400)
        assert expected in body["detail"]
        assert "\n" not in body["detail"]
    assert nothing_is_kept()


ODD_BODIES = {
    "no JSON": ("not json", "JSON"),
    "nested without end": ("[" * 100_000, "nested too deeply"),
    "a list": ("[1, 2]", "Expected a dictionary"),
    "no files": ("{}", "files is missing"),
    "files in a list": (json.dumps({"files": ["model.py"]}), "Expected a dictionary"),
    "a number for a file": (json.dumps({"files": {"model.py": [1]}}), "Not a valid string"),
    "half a character": (json.dumps({"files": {"model.py": "x = '\ud800'"}}), "not UTF-8 text"),
    "half a title": (
        json.dumps({"files": {"model.py": MODEL.decode()}, "title": "\ud800"}),
        "D800",
    ),
    "a long title": (
        json.dumps({"files": {"model.py": MODEL.decode()}, "title": "x" * 999}),
        "500",
    ),
    "a NUL title": (json.dumps({"files": {"model.py": MODEL.decode()}, "title": "\0"}), "Null"),
    "an odd number": ('{"files": NaN}', "JSON"),
    "a path": (
        json.dumps({"files": {"../../x": "x", "model.py": MODEL.decode()}}),
        "../../x cannot",
    ),
}


@pytest.mark.parametrize("name", ODD_BODIES)
def test_rest_refuses_odd_bodies(name: str, people: People) -> None:
    text, expected = ODD_BODIES[name]
    answer = post(people, text)
    assert answer.status_code == 400
    assert expected in answer.json()["detail"]
    assert nothing_is_kept()


def test_text_that_is_too_large_for_the_site_is_told_so(client: Client) -> None:
    answer = client.post("/problems/new/", {"model": "#" * (13 << 20)})
    assert answer.status_code == 413
    assert b"larger than 12.0 MiB" in answer.content
    assert nothing_is_kept()


def test_other_unreadable_requests_keep_their_page(client: Client) -> None:
    answer = client.post("/problems/new/", {f"field{n}": "x" for n in range(1100)})
    assert answer.status_code == 400
    assert b"This request could not be read" in answer.content


def post(people: People, text: str):  # type: ignore[no-untyped-def]
    token = make_token(people.owner, "test")[1]
    return Client(raise_request_exception=False).post(
        "/api/v1/problems",
        text,
        content_type="application/json",
        headers={"authorization": f"Bearer {token}"},
    )
