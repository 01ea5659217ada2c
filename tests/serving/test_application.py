"""The service without a network: answers, refusals, measurements, access."""

import asyncio
import base64
import io
import json
import logging
import os
import random

import numpy as np
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount
from starlette.testclient import TestClient

from calibrant.errors import InputError
from calibrant.policies import Policy, guarantee
from calibrant.predictions import Predictions
from calibrant.serving import Limits, app

JSON = {"content-type": "application/json"}


@pytest.fixture
def client(predictor):
    with TestClient(app(predictor), base_url="http://localhost") as client:
        yield client


def post(client, content, **more):
    return client.post("/predict", json=content, **more)


class TestPredictions:
    def test_equal_to_the_predictor(self, client, predictor):
        texts = ["a", "a longer text", "a text that is much longer than others", "ü" * 10]
        found = post(client, {"texts": texts, "top_k": 2}).json()
        assert found["format"] == 1
        assert found["predictions"] == [p.to_dict() for p in predictor.predict(texts, top_k=2)]

    def test_one_text(self, client):
        (found,) = post(client, {"text": "a"}).json()["predictions"]
        assert found == {"label": "short", "confidence": pytest.approx(0.9), "accepted": True}

    def test_whole_numbers_with_a_point(self, client):
        """JSON has one kind of number, so 2.0 is a whole one, as in the schema."""
        found = [post(client, {"text": "a", "top_k": top_k}).json() for top_k in (2, 2.0)]
        assert found[0] == found[1]

    def test_below_the_least_confidence_nothing_is_accepted(self, client):
        (found,) = post(client, {"text": "a", "min_confidence": 0.95}).json()["predictions"]
        assert not found["accepted"]

    def test_a_target_risk_comes_with_its_guarantee(self, client, predictor):
        found = post(client, {"text": "a", "target_risk": 0.2}).json()
        assert found["predictions"][0]["accepted"]
        assert found["guarantee"]["threshold"] == predictor.threshold(0.2).threshold
        assert found["guarantee"]["meaning"] == str(predictor.threshold(0.2))

    def test_a_target_out_of_reach_accepts_nothing(self, client):
        found = post(client, {"text": "a", "target_risk": 0.01}).json()
        assert not found["predictions"][0]["accepted"]
        assert found["guarantee"]["threshold"] == "inf"

    def test_a_policy_decides(self, predictor):
        random = np.random.default_rng(0)
        labels = random.integers(3, size=500)
        wrong = random.random(500) < 0.1
        logits = np.log(np.where(np.eye(3)[(labels + wrong) % 3] == 1, 0.9, 0.05))
        valid = Predictions.from_logits(logits, labels, label_names=predictor.labels)
        policy = guarantee(valid, target_risk=0.2)
        with TestClient(app(predictor, policy=policy)) as client:
            found = post(client, {"text": "a"}).json()
            assert found["predictions"][0]["accepted"]
            assert found["guarantee"]["meaning"] == str(policy)
            both = post(client, {"text": "a", "target_risk": 0.1})
            assert both.status_code == 422
            assert "not both" in both.json()["error"]

    def test_a_text_has_the_same_randomised_set_in_every_request_and_in_python(self, predictor):
        known = {"classes": 3, "label_names": predictor.labels}
        known["settings"] = {"score": "aps", "randomised": True, "seed": 0}
        policy = Policy("coverage", 0.5, {"*": 0.45}, n=9, kept=0.5, **known)
        with TestClient(app(predictor, policy=policy)) as client:
            found = [post(client, {"text": text}).json()["predictions"][0] for text in "aba"]
            together = post(client, {"texts": ["another text, and longer", "a"]}).json()
        assert found[0] == found[2] == together["predictions"][1]
        (here,) = predictor.predict(["a"], policy=policy)
        assert found[0]["labels"] == list(here.labels)

    def test_a_policy_of_other_labels_is_refused_at_the_start(self, predictor):
        valid = Predictions.from_logits(
            np.eye(2)[[0, 1] * 200], [0, 1] * 200, label_names=("a", "b")
        )
        with pytest.raises(InputError):
            app(predictor, policy=guarantee(valid, target_risk=0.2))

    def test_one_bad_text_fails_alone(self, client):
        assert post(client, {"text": "boom"}).status_code == 500
        assert "Traceback" not in post(client, {"text": "boom"}).text
        assert post(client, {"text": "fine"}).status_code == 200


REFUSED = [
    (b"{", 400, "not valid JSON"),
    (b"\xff", 400, "not valid JSON"),
    (b"", 400, "not valid JSON"),
    (b'{"text": NaN}', 400, "NaN"),
    (b"[" * 100_000, 400, "not valid JSON"),
    (b"[]", 422, "a list"),
    (b"null", 422, "null"),
    (b"{}", 422, "'text' or a list 'texts'"),
    (b'{"text": "a", "texts": ["a"]}', 422, "Give either"),
    (b'{"text": "a", "text": "b"}', 400, "the field 'text' occurs twice"),
    (b'{"text": "a", "top_k": {"x": 1, "x": 2}}', 400, "the field 'x' occurs twice"),
    ('{"text": "ü"}'.encode("latin-1"), 400, "not valid JSON"),
    ('{"text": "ü"}'.encode("utf-16"), 400, "not valid JSON"),
    (b'{"texts": "a"}', 422, "must be a list"),
    (b'{"texts": []}', 422, "empty"),
    (b'{"texts": ["a", 3]}', 422, "text 1 must be a text"),
    (b'{"text": null}', 422, "got null"),
    (b'{"text": "\\ud800"}', 422, "surrogate"),
    (b'{"text": "a", "topk": 1}', 422, "Unknown field 'topk'"),
    (b'{"text": "a", "\\ud800": 1}', 422, "Unknown field '?'"),
    (b'{"text": "a", "top_k": true}', 422, "whole number"),
    (b'{"text": "a", "top_k": 1.5}', 422, "whole number"),
    (b'{"text": "a", "top_k": 0}', 422, "at least 1"),
    (b'{"text": "a", "min_confidence": 2}', 422, "[0, 1]"),
    (b'{"text": "a", "target_risk": 0}', 422, "target risk"),
    (b'{"text": "a", "target_risk": 1e999}', 422, "a number"),
    (b'{"text": "a", "top_k": 1' + b"0" * 400 + b"}", 422, "a whole number"),
    (b'{"text": "a", "level": -1' + b"0" * 400 + b"}", 422, "a number"),
    (b'{"text": "a", "maps": true}', 422, "Unknown field 'maps'"),
    (b'{"text": "a", "level": "high"}', 422, "a text"),
    (b'{"text": "a", "level": 1}', 422, "between 0 and 1"),
    (b'{"text": "a", "level": 0}', 422, "between 0 and 1"),
]


class TestRefusals:
    @pytest.mark.parametrize(("body", "status", "words"), REFUSED)
    def test_bad_bodies(self, client, body, status, words):
        answer = client.post("/predict", content=body, headers=JSON)
        assert (answer.status_code, list(answer.json())) == (status, ["error"])
        assert words in answer.json()["error"]

    def test_other_content(self, client):
        assert client.post("/predict", data={"text": "a"}).status_code == 415
        assert client.get("/predict").status_code == 405
        refused = client.delete("/report")
        assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD, POST")
        assert client.get("/nothing").status_code == 404

    @pytest.mark.parametrize(("size", "status"), [(99, 200), (100, 200), (101, 413)])
    def test_the_length_of_a_text(self, predictor, size, status):
        client = TestClient(app(predictor, limits=Limits(characters=100)))
        assert post(client, {"text": "a" * size}).status_code == status

    @pytest.mark.parametrize(("count", "status"), [(3, 200), (4, 200), (5, 413)])
    def test_the_number_of_texts(self, predictor, count, status):
        client = TestClient(app(predictor, limits=Limits(inputs=4)))
        assert post(client, {"texts": ["a"] * count}).status_code == status

    def test_the_size_of_the_body_with_and_without_its_length(self, predictor):
        client = TestClient(app(predictor, limits=Limits(body=50)))
        body = json.dumps({"text": "a" * 60}).encode()
        assert client.post("/predict", content=body, headers=JSON).status_code == 413
        parts = (body[i : i + 9] for i in range(0, len(body), 9))  # Sent in chunks, no length.
        assert client.post("/predict", content=parts, headers=JSON).status_code == 413

    def test_a_prediction_that_takes_too_long(self, slow_predictor):
        client = TestClient(app(slow_predictor, limits=Limits(seconds=0.02)))
        answer = post(client, {"text": "a"})
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")

    def test_limits_are_positive(self):
        with pytest.raises(ValueError, match="queue"):
            Limits(queue=0)

    def test_no_body_whatsoever_is_a_defect(self, client):
        """Thousands of damaged requests: each gets an answer of 2xx or 4xx."""
        noise = random.Random(0)
        good = b'{"texts": ["a", "b"], "top_k": 2, "level": 0.9}'
        for _ in range(int(os.environ.get("CALIBRANT_REQUESTS", "1500"))):
            body = bytearray(good)
            for _ in range(noise.randrange(1, 6)):
                place = noise.randrange(len(body))
                body[place : place + noise.randrange(3)] = bytes(
                    noise.randrange(256) for _ in range(noise.randrange(3))
                )
            answer = client.post("/predict", content=bytes(body), headers=JSON)
            assert answer.status_code in (200, 400, 422), (bytes(body), answer.text)


class TestAccess:
    def test_the_token(self, predictor):
        client = TestClient(app(predictor, token="secret"))
        for headers in (
            {},
            {"Authorization": "Bearer wrong"},
            {"Authorization": "Basic secret"},
            {"Authorization": "Bearer sécret".encode()},
            {"Authorization": "Bearer"},
        ):
            assert post(client, {"text": "a"}, headers=headers).status_code == 401
            for path in ("/metrics", "/about", "/openapi.json", "/report"):
                assert client.get(path, headers=headers).status_code == 401
        assert client.get("/healthz").status_code == 200
        assert client.get("/").status_code == 200

        right = {"Authorization": "Bearer secret"}
        assert post(client, {"text": "a"}, headers=right).status_code == 200
        assert client.get("/metrics", headers=right).status_code == 200

    @pytest.mark.parametrize("token", ["", "söcret", "two words", "line\n"])
    def test_a_token_that_no_header_can_carry(self, predictor, token):
        with pytest.raises(InputError, match="token"):
            app(predictor, token=token)

    @pytest.mark.parametrize(
        "headers",
        [
            {"Origin": "http://evil.example"},
            {"Origin": "null"},
            {"Origin": "http://["},
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "same-site"},
        ],
    )
    def test_other_sites_are_refused(self, client, headers):
        assert post(client, {"text": "a"}, headers=headers).status_code == 403
        assert client.get("/about", headers=headers).status_code == 403

    def test_an_allowed_origin(self, predictor):
        client = TestClient(app(predictor, origins=["https://a.example"]))
        headers = {"Origin": "https://a.example", "Sec-Fetch-Site": "cross-site"}
        assert post(client, {"text": "a"}, headers=headers).status_code == 200

    def test_the_browser_of_an_allowed_origin_gets_the_answer(self, predictor):
        """A browser asks first whether it may send JSON and a token, and reads one header."""
        site = "https://a.example"
        client = TestClient(app(predictor, origins=[site], token="secret"))
        asks = {
            "Origin": site,
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization,content-type",
        }
        assert client.options("/predict", headers=asks).status_code == 200
        headers = {"Origin": site, "Authorization": "Bearer secret"}
        answer = post(client, {"text": "a"}, headers=headers)
        assert answer.headers["access-control-allow-origin"] == site
        other = client.options("/predict", headers={**asks, "Origin": "https://b.example"})
        assert other.status_code == 400
        assert "access-control-allow-origin" not in other.headers

    def test_nobody_keeps_answers(self, client):
        """They have texts of people."""
        assert post(client, {"text": "a"}).headers["cache-control"] == "no-store"

    def test_hosts(self, predictor):
        client = TestClient(app(predictor, hosts=("localhost", "[::1]")))
        for host, status in (
            ("localhost", 200), ("localhost:8000", 200), ("[::1]:8000", 200), ("LOCALHOST", 200),
            ("rebound.example", 421), ("rebound.example:8000", 421),
        ):  # fmt: skip
            assert post(client, {"text": "a"}, headers={"Host": host}).status_code == status

    def test_nothing_else_can_be_read(self, client):
        for path in ("/static/../application.py", "/static/%2e%2e%2fapplication.py", "/static/x"):
            assert client.get(path).status_code == 404


class TestTheRest:
    def test_measurements(self, client):
        post(client, {"texts": ["a", "b", "c"], "min_confidence": 0.95})
        post(client, {"text": "a"})
        post(client, {"text": 1})
        lines = client.get("/metrics").text.splitlines()
        found = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        assert found['calibrant_requests_total{path="/predict",status="200"}'] == "2.0"
        assert found['calibrant_requests_total{path="/predict",status="422"}'] == "1.0"
        assert found["calibrant_accepted_total"] == "1.0"
        assert found["calibrant_abstained_total"] == "3.0"
        assert found['calibrant_confidence_bucket{le="0.8"}'] == "0.0"
        assert found["calibrant_confidence_count"] == "4.0"
        assert float(found["calibrant_mean_confidence"]) == pytest.approx(0.9)
        assert float(found["calibrant_mean_confidence_validation"]) == pytest.approx(0.9)
        assert float(found["calibrant_confidence_drift"]) == pytest.approx(0, abs=1e-12)

    def test_two_services_share_no_counters(self, predictor):
        clients = [TestClient(app(predictor)) for _ in range(2)]
        post(clients[0], {"text": "a"})
        assert "calibrant_accepted_total 1.0" in clients[0].get("/metrics").text
        assert "calibrant_accepted_total 0.0" in clients[1].get("/metrics").text

    def test_the_log_has_no_texts_unless_asked(self, predictor, caplog):
        caplog.set_level(logging.INFO, "calibrant.serving")
        post(TestClient(app(predictor)), {"text": "private words"})
        fields = [r.fields for r in caplog.records]
        assert fields[0]["status"] == 200
        assert fields[0]["inputs"] == 1
        assert "private" not in str(fields)
        post(TestClient(app(predictor, log_texts=True)), {"text": "private words"})
        assert caplog.records[-1].fields["texts"] == ["private words"]

    def test_the_schema_names_each_option(self, client):
        schema = client.get("/openapi.json").json()
        body = schema["paths"]["/predict"]["post"]["requestBody"]["content"]
        properties = body["application/json"]["schema"]["properties"]
        assert set(properties) == {
            "text", "texts", "top_k", "min_confidence", "target_risk", "level",
        }  # fmt: skip

    @pytest.mark.parametrize("token", [None, "secret"])
    def test_the_schema_has_each_address_and_who_may_ask(self, predictor, token):
        """The document says of each address whether it needs the token, and the service agrees."""
        service = app(predictor, token=token)
        client, key = TestClient(service), {"Authorization": "Bearer secret"}
        schema = client.get("/openapi.json", headers=key).json()
        routes = {(one.path, name) for one in service.routes for name in one.methods - {"HEAD"}}
        known = {(path, name.upper()) for path, one in schema["paths"].items() for name in one}
        assert known == routes
        for path, name in routes:
            described = schema["paths"][path][name.lower()]
            needed = described.get("security", schema.get("security", []))
            assert all(set(one) <= set(schema["components"]["securitySchemes"]) for one in needed)
            answer = client.request(name, path.format(name="page.css"), content=b"token=secret")
            assert (answer.status_code == 401) == bool(needed), path
            assert str(answer.status_code) in described["responses"], path
            kind = answer.headers["content-type"].split(";")[0]
            content = described["responses"][str(answer.status_code)].get("content", {kind: {}})
            assert kind in content, path

    @pytest.mark.parametrize("policy", [False, True])
    def test_what_the_page_needs_follows_the_schema(self, predictor, policy):
        jsonschema = pytest.importorskip("jsonschema")
        sets = Policy("coverage", 0.5, {"*": 0.5}, n=9, kept=0.5, classes=3)
        client = TestClient(app(predictor, policy=sets if policy else None))
        described = client.get("/openapi.json").json()["paths"]["/about"]["get"]
        schema = described["responses"]["200"]["content"]["application/json"]["schema"]
        about = client.get("/about").json()
        jsonschema.validate(about, schema, jsonschema.Draft202012Validator)
        assert about["sets"] == policy

    def test_what_the_page_needs(self, client, predictor):
        about = client.get("/about").json()
        assert about["labels"] == ["short", "middle", "long"]
        assert [risk["target"] for risk in about["risks"]][-1] == 0.3
        assert about["risks"][-1]["threshold"] == predictor.threshold(0.3).threshold

    def test_mounted_into_another_application(self, predictor):
        outer = Starlette(routes=[Mount("/model", app(predictor))])
        with TestClient(outer) as client:
            assert client.post("/model/predict", json={"text": "a"}).status_code == 200
            assert client.get("/model/").status_code == 200

    @pytest.mark.parametrize("token", [None, "secret"])
    def test_the_form_of_the_report_needs_a_token_where_there_is_one(self, predictor, token):
        client = TestClient(app(predictor, token=token))
        key = {"Authorization": f"Bearer {token}"}
        found = client.get("/openapi.json", headers=key).json()["paths"]["/report"]["post"]
        form = found["requestBody"]["content"]["application/x-www-form-urlencoded"]["schema"]
        assert form.get("required", []) == ([] if token is None else ["token"])

    def test_mounted_into_fastapi(self, predictor):
        fastapi = pytest.importorskip("fastapi")
        outer = fastapi.FastAPI()
        outer.mount("/model", app(predictor))
        with TestClient(outer) as client:
            assert client.post("/model/predict", json={"text": "a"}).status_code == 200
            assert client.get("/model").status_code == 200
            assert client.get("/openapi.json").json()["info"]["title"] == "FastAPI"
            assert client.get("/model/openapi.json").json()["info"]["title"] == "calibrant"

    def test_a_form_opens_the_report(self, predictor, tmp_path):
        report = tmp_path / "report.html"
        report.write_text("<p>Report")
        client = TestClient(app(predictor, report=report, token="se+&cret"))
        assert client.get("/report").status_code == 401
        for given in ({}, {"token": ""}, {"token": "other"}, {"token": "ü"}):
            assert client.post("/report", data=given).status_code == 401
        assert client.post("/report", content=b"token=\xff").status_code == 401
        token = {"token": "se+&cret"}
        assert client.post("/report", data=token).text == "<p>Report"
        other = {"Origin": "http://evil.example"}
        assert client.post("/report", data=token, headers=other).status_code == 403

    def test_versions_of_starlette_that_keep_no_route(self, predictor):
        """Only newer versions put the route into the scope."""
        routes = {route.path: route for route in app(predictor).routes}
        asked = {"type": "http", "method": "GET", "path": "/healthz", "headers": []}
        answer = asyncio.run(routes["/healthz"].endpoint(Request(asked)))
        assert answer.status_code == 200

    def test_a_client_that_leaves_is_no_defect(self, predictor, caplog):
        service, sent = app(predictor), []
        asked = {"type": "http", "method": "POST", "path": "/predict", "query_string": b""}
        asked["headers"] = [(b"host", b"x"), (b"content-type", b"application/json")]
        given = [{"type": "http.request", "body": b"{", "more_body": True}]

        async def receive():
            return given.pop() if given else {"type": "http.disconnect"}

        async def send(message):
            sent.append(message)

        asyncio.run(service(asked, receive, send))
        assert sent[0]["status"] == 400
        assert "defect" not in caplog.text

    def test_the_report(self, predictor, tmp_path):
        assert TestClient(app(predictor)).get("/report").status_code == 404
        report = tmp_path / "report.html"
        report.write_text("<p>Report")
        answer = TestClient(app(predictor, report=report)).get("/report")
        assert answer.text == "<p>Report"
        assert "sandbox" in answer.headers["content-security-policy"]


class TestImages:
    @pytest.fixture
    def seen(self):
        return []

    @pytest.fixture
    def images(self, predictor, seen):
        class OfPictures(type(predictor)):
            unit = "images"

            def scored(self, inputs):
                seen.extend(picture.size for picture in inputs)
                return super().scored(["x" * picture.width for picture in inputs])

        return TestClient(app(OfPictures(), limits=Limits(pixels=400)))

    def picture(self, width, height=5, kind="PNG"):
        image = pytest.importorskip("PIL.Image").new("RGB", (width, height))
        image.save(file := io.BytesIO(), kind)
        return file.getvalue()

    def test_base64_data_urls_and_bodies(self, images, seen):
        encoded = base64.b64encode(self.picture(15)).decode()
        answers = [
            post(images, {"image": encoded}),
            post(images, {"images": [f"data:image/png;base64,{encoded}"]}),
            images.post(
                "/predict",
                content=self.picture(15, kind="JPEG"),
                headers={"content-type": "image/jpeg"},
            ),
        ]
        assert [a.json()["predictions"][0]["label"] for a in answers] == ["middle"] * 3
        assert seen == [(15, 5)] * 3

    @pytest.mark.parametrize(
        ("image", "status"),
        [("/etc/passwd", 422), ("@@", 422), ("", 422), ("aGVsbG8=", 422), (1, 422)],
    )
    def test_what_is_no_image(self, images, image, status):
        assert post(images, {"image": image}).status_code == status

    @pytest.mark.parametrize(("height", "status"), [(19, 200), (20, 200), (21, 413)])
    def test_the_number_of_pixels(self, images, height, status):
        encoded = base64.b64encode(self.picture(20, height)).decode()
        assert post(images, {"image": encoded}).status_code == status

    @pytest.mark.parametrize(("count", "status"), [(7, 200), (8, 200), (9, 413)])
    def test_the_pixels_of_all_images_together(self, images, count, status):
        encoded = base64.b64encode(self.picture(20, 20)).decode()
        assert post(images, {"images": [encoded] * count}).status_code == status

    def test_formats_that_start_programs_are_not_read(self, images):
        """Pillow would start Ghostscript for this one."""
        body = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 15 5\n%%EndComments\n"
        answer = images.post("/predict", content=body, headers={"content-type": "image/png"})
        assert answer.status_code == 422

    def test_a_damaged_picture(self, images):
        body = self.picture(15)[:40]
        answer = images.post("/predict", content=body, headers={"content-type": "image/png"})
        assert answer.status_code == 422
