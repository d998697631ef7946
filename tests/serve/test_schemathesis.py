"""The OpenAPI document against the service: every route answers as it says, whatever is sent."""

from __future__ import annotations

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from live_server import live_server
from served_models import write_torch_model

LIMITS = ["--max-text-characters", "200", "--max-texts", "10", "--max-beam-size", "4"]
# Fields that exclude each other, languages that no model has: a schema cannot say that, a problem does.
BEYOND_SCHEMA = [positive_data_acceptance]
MODES = [GenerationMode.NEGATIVE, GenerationMode.POSITIVE]  # what only has a path cannot be asked wrongly
EXAMPLES = 8  # of each route and mode


@pytest.mark.slow
def test_the_service_answers_as_its_document_says(tmp_path):
    """Not by schemathesis' own plugin, which the newest pytest does not take."""
    model = write_torch_model(tmp_path / "model")  # one that can be looked into
    with live_server(model, *LIMITS) as server:
        schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
        operations = [result.ok() for result in schema.get_all_operations()]
        assert len(operations) >= 10
        for operation in operations:
            for mode in MODES[operation.method != "post" :]:
                answers_as_told(operation.as_strategy(generation_mode=mode))


def answers_as_told(cases):
    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(case=cases)
    def answers(case):
        case.call_and_validate(timeout=30, excluded_checks=BEYOND_SCHEMA)

    answers()
