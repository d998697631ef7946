"""The API that looks inside, as a page sees it: numbers, labels, limits, problems."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
import threading

import numpy as np
import pytest
import safetensors.numpy
from starlette.testclient import TestClient

from lens.lens_models import SENTENCE, TEXTS
from serve.looked_into import EVENTS, write_log, write_run
from transduce.lens import Lens
from transduce.serve.app import create_app
from transduce.serve.code_view import COMPONENTS
from transduce.serve.lens_service import LensService, LensSettings
from transduce.serve.settings import ServeSettings

URL = "/api/v1/traces"
BYTES = {"Accept": "application/x-safetensors"}
JSON = {"Accept": "application/json"}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("runs") / "en-xx").parent


@pytest.fixture(scope="module")
def open_page():
    def opened(*models, **limits):
        app = create_app(ServeSettings(models=models, engine="auto", watch_seconds=0, lazy=True))
        app.state.lenses = LensService(models, LensSettings(**limits))
        return TestClient(app, base_url="http://localhost", raise_server_exceptions=False)

    return opened


@pytest.fixture(scope="module")
def page(run, open_page):
    return open_page(run / "model")


@pytest.fixture(scope="module")
def posted(page):
    answer = page.post(URL, json={"text": SENTENCE})
    assert answer.status_code == 201
    return answer


@pytest.fixture(scope="module")
def here(run):
    """The same trace without a server."""
    return Lens.load(run / "model").trace(SENTENCE)


def arrays(answer):
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/x-safetensors"
    return safetensors.numpy.load(answer.content)


def metadata(content: bytes) -> dict[str, str]:
    size = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + size])["__metadata__"]


def problem(answer, status, kind):
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert body["type"].endswith(":" + kind)
    return body


def test_a_trace_is_what_the_lens_says(posted, here):
    body = posted.json()
    assert posted.headers["location"] == body["links"]["self"] == f"{URL}/{body['id']}"
    assert body["translation"] == here.translation
    assert [token["id"] for token in body["src"]] == here.done.source.tolist()
    assert [token["id"] for token in body["tgt"]] == [token.id for token in here.target]
    assert body["rows"] == {"encoder": len(here.source), "decoder": here.num_rows}
    assert body["score"] == pytest.approx(here.hypothesis.score, abs=1e-6)
    assert [step["logp"] for step in body["steps"]] == pytest.approx(
        list(here.hypothesis.token_log_probs), abs=1e-4
    )
    assert body["hypotheses"][0]["text"] == here.translation
    assert len({found["text"] for found in body["hypotheses"]}) == len(body["hypotheses"])


def test_a_head_in_both_encodings_is_the_models(page, posted, here):
    url = posted.json()["links"]["head"] + "?kind=cross&layer=1&head=1"
    answer, seen = page.get(url, headers=BYTES), here.head("cross", 1, 1)
    found = arrays(answer)
    for part in ("scores", "weights", "q", "k", "v"):
        assert found[part].dtype == np.float32
        np.testing.assert_allclose(found[part], getattr(seen, part).numpy(), atol=1e-5)
    assert found["mask"].dtype == np.uint8
    assert found["mask"].tolist() == seen.mask.int().tolist()
    assert found["q_tokens"].tolist() == [token.id for token in seen.q_tokens]
    assert found["k_tokens"].tolist() == [token.id for token in seen.k_tokens]
    about = metadata(answer.content)
    assert (about["q_side"], about["k_side"], about["tau"]) == ("tgt", "src", "1.0")
    plain = page.get(url, headers=JSON).json()
    assert plain["metadata"]["layer"] == 1
    for name, tensor in plain["tensors"].items():
        assert np.array(tensor["data"]).reshape(tensor["shape"]) == pytest.approx(found[name])


@pytest.mark.parametrize("kind", ["enc_self", "dec_self", "cross"])
def test_thumbnails_and_figures_of_all_heads(page, posted, here, kind):
    found = arrays(page.get(posted.json()["links"]["overview"], params={"kind": kind}, headers=BYTES))
    for layer in range(2):
        for head in range(2):
            weights = here.head(kind, layer, head).weights.numpy()
            # No side is longer than a thumbnail's here.
            np.testing.assert_allclose(found["thumb"][layer, head] / 255, weights, atol=0.5 / 255 + 1e-6)
            entropy, largest, diagonal, sink, previous = found["stats"][layer, head]
            rows = np.where(weights > 0, -weights * np.log(np.maximum(weights, 1e-30)), 0).sum(1)
            assert entropy == pytest.approx(rows.mean(), abs=1e-5)
            assert largest == pytest.approx(weights.max(1).mean(), abs=1e-5)
            place = 0 if kind == "dec_self" else -1
            assert sink == pytest.approx(weights[:, place].mean(), abs=1e-5)
            if kind != "cross":
                assert diagonal == pytest.approx(np.diag(weights).mean(), abs=1e-5)
                assert previous == pytest.approx(np.diag(weights, -1).sum() / len(weights), abs=1e-5)


def test_thumbnails_do_not_grow_with_the_text(page):
    body = page.post(URL, json={"text": "the light " * 30, "target": "das Licht " * 25}).json()
    found = arrays(page.get(body["links"]["overview"], params={"kind": "cross"}, headers=BYTES))
    assert found["thumb"].shape == (2, 2, 32, 32)
    assert min(body["rows"].values()) > 32
    full = arrays(page.get(body["links"]["head"] + "?kind=cross&layer=0&head=0", headers=BYTES))
    assert found["thumb"][0, 0].max() == round(255 * float(full["weights"].max()))


def test_steps_logits_and_the_tree(page, posted, here):
    links = posted.json()["links"]
    table = page.get(links["steps"], params={"k": 7}).json()
    assert [len(step["top"]) for step in table["steps"]] == [7] * here.num_rows
    assert table["chosen_nodes"] == here.chosen_nodes
    nodes = [node for step in table["search"] for node in step["nodes"]]
    assert [node["n"] for node in nodes] == list(range(len(here.watched.nodes)))
    assert table["search"][1]["cache"]["self"]["bytes"] == here.watched.caches[1].self_bytes
    for step in table["steps"]:
        logits = arrays(page.get(links["logits"], params={"step": step["step"]}, headers=BYTES))["logits"]
        assert step["logsumexp"] == pytest.approx(np.log(np.exp(logits.astype(float)).sum()), abs=1e-5)
        top = step["top"][0]
        assert top["logit"] == pytest.approx(float(logits[top["id"]]), abs=1e-5)
        assert top["logp"] == pytest.approx(top["logit"] - step["logsumexp"], abs=1e-5)
        assert sum(np.exp(t["logp"]) for t in step["top"]) + step["rest"] == pytest.approx(1, abs=1e-5)
    node = here.chosen_nodes[0]
    after = arrays(page.get(links["logits"], params={"node": node}, headers=BYTES))["logits"]
    np.testing.assert_allclose(after, here.logits(step=1).numpy(), atol=1e-5)


def test_shapes_and_the_logit_lens(page, posted, here):
    links = posted.json()["links"]
    walk = page.get(links["shapes"]).json()
    assert [entry["name"] for entry in walk["walk"]] == [entry.name for entry in here.shapes().entries]
    assert walk["symbols"]["S"]["size"] == len(here.source)
    layers = page.get(links["lens"], params={"k": 3}).json()["layers"]
    assert [layer["layer"] for layer in layers] == [-1, 0, 1]
    last = page.get(links["steps"], params={"k": 3}).json()["steps"]
    assert [row["top"] for row in layers[-1]["rows"]] == [step["top"] for step in last]


def test_occlusion_and_tensors_by_name(page, posted, here):
    links = posted.json()["links"]
    found = arrays(page.get(links["occlusion"], headers=BYTES))
    np.testing.assert_allclose(found["drop"], here.occlusion().numpy(), atol=1e-5)
    assert found["drop"].shape == (len(found["q_tokens"]), len(found["k_tokens"]))
    name = "encoder.layers.1.self_attention.weights"
    walked = arrays(page.get(links["tensors"], params={"name": name}, headers=BYTES))
    np.testing.assert_allclose(walked[name][0, 1], here.head("enc_self", 1, 1).weights.numpy(), atol=1e-6)


def test_what_was_compared_is_not_kept_alive_by_what_came_of_it(page, posted):
    body = page.post(posted.json()["links"]["what_if"], json={}).json()
    kept = page.app.state.lenses.find(body["id"])
    assert kept.trace.parent is None
    assert page.get(body["links"]["self"]).json() == body
    again = page.post(body["links"]["what_if"], json={}).json()
    assert again["parent"] == body["id"]


def test_what_if_nothing_changes_nothing_changes(page, posted):
    answer = page.post(posted.json()["links"]["what_if"], json={})
    assert answer.status_code == 201
    body = answer.json()
    assert body["parent"] == posted.json()["id"]
    assert body["difference"]["same"]
    assert body["difference"]["log_prob_now"] == body["difference"]["parent_log_prob"]
    for kind in ("enc_self", "cross"):
        urls = [b["links"]["head"] + f"?kind={kind}&layer=1&head=0" for b in (body, posted.json())]
        new, old = (page.get(url, headers=BYTES).content for url in urls)
        assert new == old


def test_what_if_heads_are_taken_out_as_in_python(page, posted, here):
    from transduce.lens import HeadName, Interventions, MaskChange, Temperature

    asked = {
        "ablate": [{"kind": "cross", "layer": 1, "head": h} for h in (0, 1)],
        "tau": [{"kind": "dec_self", "tau": 0.5}],
        "mask": [{"kind": "enc_self", "layer": 0, "hide": [1]}],
        "fixed": True,
    }
    body = page.post(posted.json()["links"]["what_if"], json=asked).json()
    same = Interventions(
        tuple(HeadName("cross", 1, h) for h in (0, 1)),
        (Temperature("dec_self", None, 0.5),),
        (MaskChange("enc_self", 0, (1,)),),
    )
    now = [token["logp_now"] for token in body["difference"]["tokens"]]
    assert now == pytest.approx(here.scored(same), abs=1e-5)
    assert body["difference"]["log_prob_now"] != pytest.approx(
        body["difference"]["parent_log_prob"], abs=1e-3
    )
    assert body["interventions"]["tau"] == [{"kind": "dec_self", "layer": None, "tau": 0.5}]


def test_what_if_another_word_is_forced(page, posted):
    links = posted.json()["links"]
    step = page.get(links["steps"], params={"k": 5}).json()["steps"][1]
    other = next(t["id"] for t in step["top"] if t["kind"] == "text" and t["id"] != step["chosen"]["id"])
    force = [posted.json()["tgt"][1]["id"], other]
    body = page.post(links["what_if"], json={"force": force}).json()
    assert [token["id"] for token in body["tgt"][1:3]] == force
    assert body["difference"]["first_difference"] == 2


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text[:12])
def test_texts_of_all_kinds(page, text):
    body = page.post(URL, json={"text": text}).json()
    shown = "".join(token["text"] for token in body["src"])
    assert not any(mark in shown for mark in ("\u2581", "<0x", "\ufffd"))
    assert len(body["src"]) == body["rows"]["encoder"]
    for token in body["src"][:-1]:
        start, end = token["span"]
        assert 0 <= start <= end <= len(text)


def test_a_trace_never_changes_and_says_so(page, posted):
    url = posted.json()["links"]["head"] + "?kind=cross&layer=0&head=0"
    first = page.get(url, headers=BYTES)
    assert first.headers["cache-control"].startswith("private, immutable")
    again = page.get(url, headers={**BYTES, "If-None-Match": first.headers["etag"]})
    assert again.status_code == 304
    assert again.content == b""
    other = page.get(url, headers=JSON)
    assert other.headers["etag"] != first.headers["etag"]
    assert page.get(posted.json()["links"]["self"]).json() == posted.json()


def test_the_model_describes_itself(page, run):
    body = page.get("/api/v1/model").json()
    assert (body["name"], body["trained"], body["available"]) == ("en-xx", True, True)
    assert body["config"]["d_model"] == 32
    assert body["heads"]["cross"] == {"layers": 2, "heads": 2}
    assert body["limits"]["source_tokens"] == 256
    assert body["models"] == ["en-xx"]

    def formulas(part):
        yield part["formula"]
        for child in part["children"]:
            yield from formulas(child)

    assert {name for name in formulas(body["modules"]) if name} <= body["formulas"].keys()
    import xml.etree.ElementTree as ET

    for formula in body["formulas"].values():
        assert ET.fromstring(formula["mathml"]).tag == "math"


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        ({"text": ""}, 422, "cannot-follow"),
        ({"text": "  "}, 422, "cannot-follow"),
        ({}, 422, "invalid-request"),
        ({"text": "x", "colour": 1}, 422, "invalid-request"),
        ({"text": "x" * 2001}, 413, "too-long"),
        ({"text": "x y " * 200}, 413, "too-long"),
        ({"text": "x", "target": "y z " * 200}, 413, "too-long"),
        ({"text": "x", "decode": {"beam": 9}}, 413, "too-long"),
        ({"text": "x", "decode": {"beam": 0}}, 422, "invalid-request"),
        ({"text": "x", "decode": {"beam": 2, "n_best": 3}}, 422, "cannot-follow"),
        ({"text": "x", "decode": {"temperature": 0}}, 422, "invalid-request"),
        ({"text": "x", "force": [99999]}, 422, "no-such-token"),
        ({"text": "x", "force": [3]}, 422, "cannot-follow"),
        ({"text": "\ud800"}, 422, "invalid-request"),
    ],
)
def test_what_cannot_be_traced_is_a_problem_with_its_reason(page, body, status, kind):
    found = problem(
        page.post(URL, content=json.dumps(body), headers={"Content-Type": "application/json"}), status, kind
    )
    if status == 413:
        assert str(found["limit"]) in found["detail"]


def test_texts_up_to_the_limit_are_taken(page):
    encode = page.app.state.lenses.lens(None).translator.tokenizers[0].encode
    text = " ".join(["light"] * 300)
    while len(encode(text)) > 256:
        text = text[:-1]
    assert len(encode(text)) == 256
    body = page.post(URL, json={"text": text, "target": "x"}).json()
    assert body["rows"]["encoder"] == 257
    found = problem(page.post(URL, json={"text": text + " x", "target": "x"}), 413, "too-long")
    assert f"{len(encode(text + ' x'))} tokens" in found["detail"]


@pytest.mark.parametrize(
    ("part", "params", "status", "kind"),
    [
        ("head", {"kind": "cross", "layer": 2, "head": 0}, 422, "no-such-part"),
        ("head", {"kind": "cross", "layer": 0, "head": 2}, 422, "no-such-part"),
        ("head", {"kind": "self", "layer": 0, "head": 0}, 422, "invalid-request"),
        ("head", {"kind": "cross"}, 422, "invalid-request"),
        ("overview", {"kind": "x"}, 422, "invalid-request"),
        ("logits", {"step": 999}, 404, "no-step"),
        ("logits", {"node": 99999}, 404, "no-step"),
        ("steps", {"k": 51}, 422, "too-many-tokens"),
        ("steps", {"k": 0}, 422, "invalid-request"),
        ("lens", {"layer": 2}, 422, "no-such-part"),
    ],
)
def test_what_a_trace_has_not_is_a_problem(page, posted, part, params, status, kind):
    problem(page.get(posted.json()["links"][part], params=params, headers=JSON), status, kind)


def test_there_is_no_such_trace_or_model(page):
    for part in ("", "/shapes", "/steps", "/head?kind=cross&layer=0&head=0"):
        found = problem(page.get(f"{URL}/0123{part}"), 404, "no-trace")
        assert "16" in found["detail"]
    problem(page.post(f"{URL}/0123/what-if", json={}), 404, "no-trace")
    problem(page.get("/api/v1/model", params={"model": "nobody"}), 404, "no-model")


def test_json_of_large_arrays_is_refused_with_the_number(run, open_page):
    page = open_page(run / "model", json_values=300)
    body = page.post(URL, json={"text": SENTENCE}).json()
    url = body["links"]["head"] + "?kind=cross&layer=0&head=0"
    size = sum(array.size for array in arrays(page.get(url, headers=BYTES)).values())
    found = problem(page.get(url, headers=JSON), 413, "too-many-values")
    assert found["limit"] == 300
    assert str(size) in found["detail"]


def test_traces_are_let_go_by_number_size_and_age(run, open_page, monkeypatch):
    page = open_page(run / "model", traces=2)
    links = [page.post(URL, json={"text": text}).json()["links"]["self"] for text in ("a", "b")]
    assert page.get(links[0]).status_code == 200  # used: the other goes first
    page.post(URL, json={"text": "c"})
    assert [page.get(link).status_code for link in links] == [200, 404]
    assert page.delete(links[0]).status_code == 204
    problem(page.get(links[0]), 404, "no-trace")
    small = open_page(run / "model", trace_bytes=1)
    first = small.post(URL, json={"text": "a"}).json()["links"]["self"]
    assert small.get(first).status_code == 200  # the one just made stays
    small.post(URL, json={"text": "b"})
    assert small.get(first).status_code == 404
    old = open_page(run / "model", trace_seconds=-1.0)
    gone = old.post(URL, json={"text": "a"}).json()["links"]["self"]
    problem(old.get(gone), 404, "no-trace")


def test_a_full_queue_answers_429(run, open_page):
    page = open_page(run / "model", queue=0)
    lenses = page.app.state.lenses
    page.post(URL, json={"text": "a"})
    inside, go_on = threading.Event(), threading.Event()

    def slow(*args, **kwargs):
        inside.set()
        assert go_on.wait(30)
        raise RuntimeError("enough")

    lens = lenses.lens(None)
    lens.trace = slow
    with page:
        first = threading.Thread(target=lambda: page.post(URL, json={"text": "a"}))
        first.start()
        assert inside.wait(30)
        answer = page.post(URL, json={"text": "b"})
        go_on.set()
        first.join()
    found = problem(answer, 429, "lens-busy")
    assert answer.headers["retry-after"] == "1"
    assert found["limit"] == 0


def test_without_a_model_an_untrained_one_stands_in_and_says_so(open_page):
    page = open_page()
    body = page.get("/api/v1/model").json()
    assert (body["name"], body["trained"]) == ("untrained", False)
    assert "untrained" in body["note"]
    traced = page.post(URL, json={"text": "I love you. 我爱你 爿"}).json()
    assert traced["trained"] is False
    head = page.get(traced["links"]["head"] + "?kind=enc_self&layer=2&head=3", headers=BYTES)
    assert arrays(head)["weights"].shape == (traced["rows"]["encoder"],) * 2
    problem(page.get("/api/v1/training"), 404, "no-log")
    assert page.get("/api/v1/models").json()["models"] == []
    found = problem(page.post("/api/v1/translate", json={"text": "x"}), 404, "no-model")
    assert "transduce serve runs/en-de" in found["detail"]


def test_an_export_alone_cannot_be_looked_into_and_says_how_to(served, open_page):
    page = open_page(served)
    body = page.get("/api/v1/model").json()
    assert body["available"] is False
    assert "model.safetensors" in body["note"]
    found = problem(page.post(URL, json={"text": "x"}), 501, "lens-unavailable")
    assert "export" in found["detail"]


def test_without_torch_it_says_how_to_get_it(run, open_page, monkeypatch):
    monkeypatch.setattr("transduce.lens.Lens.load", _no_torch)
    found = problem(open_page(run / "model").post(URL, json={"text": "x"}), 501, "lens-unavailable")
    assert "pip install 'transduce[train]'" in found["detail"]


def _no_torch(*args, **kwargs):
    raise ImportError("No module named 'torch'", name="torch")


def test_a_model_that_changed_on_disk_is_loaded_again(tmp_path, open_page):
    model = write_run(tmp_path / "run")
    page = open_page(model)
    before = page.post(URL, json={"text": SENTENCE}).json()
    fresh = write_run(tmp_path / "other", seed=5)
    (fresh / "model.safetensors").replace(model / "model.safetensors")
    after = page.post(URL, json={"text": SENTENCE}).json()
    assert before["score"] != after["score"]
    assert page.get(before["links"]["shapes"]).status_code == 200


@pytest.mark.parametrize(
    "changes",
    [
        {"position": "learned", "max_len": 300},
        {"position": "rotary"},
        {"sinusoid": "halves", "position_offset": 2},
    ],
)
def test_positions_are_the_models_own(tmp_path, open_page, changes):
    page = open_page(write_run(tmp_path / "run", **changes))
    found = arrays(page.get("/api/v1/positions", params={"length": 6}, headers=BYTES))
    lens = page.app.state.lenses.lens(None)
    about = page.get("/api/v1/positions", params={"length": 6}).json()
    assert about["kind"] == changes.get("position", "sinusoidal")
    if about["kind"] == "rotary":
        width = lens.config.key_width
        angles = np.arange(6)[:, None] / 10000 ** (np.arange(0, width, 2) / width)
        np.testing.assert_allclose(found["angles"], angles, atol=1e-5)
        np.testing.assert_allclose(found["cos"], np.cos(angles), atol=1e-5)
        np.testing.assert_allclose(found["sin"], np.sin(angles), atol=1e-5)
    elif about["kind"] == "learned":
        np.testing.assert_array_equal(found["table"], lens.body.source_position.weight[:6].detach().numpy())
        problem(page.get("/api/v1/positions", params={"length": 301}), 422, "no-such-part")
    else:
        np.testing.assert_allclose(found["table"], lens.body.source_position.table[:6].numpy(), atol=1e-6)
        assert found["table"][0, 0] == pytest.approx(np.sin(2))
    problem(page.get("/api/v1/positions", params={"length": 5001}), 413, "too-long")


@pytest.mark.parametrize("name", COMPONENTS)
def test_code_is_the_source_of_what_runs(page, name):
    body = page.get(f"/api/v1/code/{name}").json()
    found = getattr(importlib.import_module(f"transduce.{COMPONENTS[name]}"), name)
    assert body["source"] == inspect.getsource(inspect.unwrap(found))
    assert body["sha256"] == hashlib.sha256(body["source"].encode()).hexdigest()
    assert body["last"] - body["first"] + 1 == body["source"].count("\n")
    assert body["file"].startswith("transduce/")
    import html
    import re

    assert html.unescape(re.sub(r"<[^>]*>", "", body["html"])) == body["source"]


def test_every_component_that_the_walk_names_can_be_read(page, posted):
    listed = {entry["name"] for entry in page.get("/api/v1/code").json()["components"]}
    walk = page.get(posted.json()["links"]["shapes"]).json()["walk"]
    assert {entry["component"] for entry in walk} <= listed

    def components(part):
        yield part["component"]
        for child in part["children"]:
            yield from components(child)

    assert set(components(page.get("/api/v1/model").json()["modules"])) - {None} <= listed
    problem(page.get("/api/v1/code/os"), 404, "no-component")


def test_the_training_log_grows(page, run):
    first = page.get("/api/v1/training").json()
    assert [event["event"] for event in first["events"]] == ["train", "validate", "train"]
    assert first["events"][2]["learning_rate"] is None
    assert "trace" not in first["events"][2]
    assert (first["next"], first["running"], first["run"]) == (3, True, "en-xx")
    more = [*EVENTS, {"event": "crash", "error": "secret"}, {"event": "stop", "step": 40, "reason": "done"}]
    write_log(run, more, tail='{"event": "tra')
    second = page.get("/api/v1/training", params={"after": first["next"]}).json()
    assert [event["event"] for event in second["events"]] == ["stop"]
    assert (second["next"], second["running"]) == (5, False)
    write_log(run, EVENTS)


def test_a_model_without_its_run_has_no_log(served, open_page):
    found = problem(open_page(served).get("/api/v1/training"), 404, "no-log")
    assert "log.jsonl" in found["detail"]


WRONG = [
    b"", b"{", b"[]", b"null", b'"x"', b"\xff\xfe", b"[" * 5000, b'{"text":1}', b'{"text":null}',
    b'{"text":["x"]}', b'{"text":"x\\u0000"}', b'{"text":"\\ud800"}', b'{"text":"x","decode":3}',
    b'{"text":"x","decode":{"mode":"magic"}}', b'{"text":"x","decode":{"beam":"4"}}',
    b'{"text":"x","decode":{"beam":-1}}', b'{"text":"x","decode":{"beam":1e400}}',
    b'{"text":"x","decode":{"mode":"sample","n_best":100000}}', b'{"text":"x","decode":{"n_best":9}}',
    b'{"text":"x","decode":{"length_penalty":NaN}}', b'{"text":"x","decode":{"length_penalty":Infinity}}',
    b'{"text":"x","decode":{"temperature":1e-400}}', b'{"text":"x","decode":{"seed":-1}}',
    b'{"text":"x","decode":{"top_p":0}}', b'{"text":"x","decode":{"max_len":0}}',
    b'{"text":"x","decode":{"max_len":1}}', b'{"text":"x","force":[1e9]}', b'{"text":"x","force":[-1]}',
    b'{"text":"x","force":["a"]}', b'{"text":"x","force":7}', b'{"text":"x","force":[4],"target":"y"}',
    b'{"text":"x","target":7}',
]  # fmt: skip
WRONG_CHANGES = [
    b"{", b"[]", b'{"ablate":{}}', b'{"ablate":[{}]}', b'{"ablate":[{"kind":"cross","layer":0}]}',
    b'{"ablate":[{"kind":"cross","layer":99999999999999999999,"head":0}]}',
    b'{"ablate":[{"kind":"self","layer":0,"head":0}]}', b'{"tau":[{"kind":"cross","tau":0}]}',
    b'{"tau":[{"kind":"cross","tau":NaN}]}', b'{"tau":[{"kind":"cross","layer":7,"tau":1}]}',
    b'{"tau":[{"kind":"cross","tau":"1"}]}', b'{"mask":[{"kind":"cross","causal":false}]}',
    b'{"mask":[{"kind":"cross","hide":[-1]}]}', b'{"mask":[{"kind":"cross","hide":[0.5]}]}',
    b'{"force":[123456]}', b'{"force":[4],"fixed":true}', b'{"fixed":"yes"}', b'{"x":1}',
]  # fmt: skip


@pytest.mark.parametrize("body", WRONG)
def test_a_wrong_request_is_a_problem(page, body):
    answer = page.post(URL, content=body, headers={"Content-Type": "application/json"})
    assert 400 <= answer.status_code < 500, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["detail"]
    assert "Traceback" not in answer.text


@pytest.mark.parametrize("body", WRONG_CHANGES)
def test_a_wrong_change_is_a_problem(page, posted, body):
    url = posted.json()["links"]["what_if"]
    answer = page.post(url, content=body, headers={"Content-Type": "application/json"})
    assert 400 <= answer.status_code < 500, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["detail"]


def test_every_answer_that_came_is_declared(page, posted):
    """What OpenAPI says of each route holds the statuses that the tests above saw."""
    paths = page.get("/openapi.json").json()["paths"]
    for path, statuses in {
        "/api/v1/model": {"200", "404"},
        "/api/v1/traces": {"201", "400", "413", "422", "429", "501"},
        "/api/v1/traces/{trace_id}/head": {"200", "404", "413", "422", "429"},
        "/api/v1/traces/{trace_id}/what-if": {"201", "404", "413", "422", "429"},
        "/api/v1/code/{component}": {"200", "404"},
        "/api/v1/training": {"200", "404", "422"},
    }.items():
        for operation in paths[path].values():
            assert statuses <= operation["responses"].keys(), path
