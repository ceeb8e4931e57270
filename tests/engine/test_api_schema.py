"""schemathesis against /openapi.json and a real server: no answer that the schema doesn't foresee, and no failure."""

from __future__ import annotations

from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.openapi.checks import JsonSchemaError, UndefinedStatusCode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from tests.engine.conftest import Process

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
DEPENDENT = (
    *("best_of", "stream_options", "min_tokens", "stop_token_ids", "logit_bias", "tool_choice", "top_logprobs"),
    *("response_format", "structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar"),
    *("max_completion_tokens", "continue_final_message"),
)
PATHS = ["/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize"]


def document(server: Process, mode: GenerationMode = GenerationMode.NEGATIVE) -> Any:
    told = requests.get(f"{server.url}/openapi.json", timeout=5).json()
    for name in ("CompletionRequest", "ChatRequest"):
        body = told["components"]["schemas"][name]
        # A deadline that has passed is answered 504, rightly.
        del body["properties"]["deadline_s"]
        if mode is GenerationMode.POSITIVE:
            # Else most are 128 answers of 500 tokens, or refused for two fields that don't go together.
            few = {"n": {"enum": [1, 2]}, "max_tokens": {"type": "integer", "minimum": 1, "maximum": 8}}
            body["properties"] = {
                name: each for name, each in body["properties"].items() if name not in DEPENDENT
            } | few
            body["required"].append("max_tokens")
    return told


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: str(mode.value))
@pytest.mark.parametrize("path", PATHS)
def test_bodies_of_all_kinds_are_answered_as_the_schema_says(server: Process, path: str, mode: GenerationMode) -> None:
    schema = schemathesis.openapi.from_dict(document(server, mode))
    statuses = []

    @settings(max_examples=60, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(schema[path]["POST"].as_strategy(generation_mode=mode))
    def check(case: schemathesis.Case) -> None:
        statuses.append(case.call_and_validate(base_url=server.url, checks=CHECKS).status_code)

    check()
    assert len(statuses) >= 20
    if mode is GenerationMode.POSITIVE:
        assert 200 in statuses, "nothing that was sent made sense"


def test_what_needs_no_body_is_answered_as_the_schema_says(server: Process) -> None:
    schema = schemathesis.openapi.from_dict(document(server))
    tried = 0
    for result in schema.get_all_operations():
        operation = result.ok()
        if operation.path in PATHS:
            continue

        @settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck), database=None)
        @given(operation.as_strategy())
        def check(case: schemathesis.Case) -> None:
            case.call_and_validate(base_url=server.url, checks=CHECKS[:-1])

        check()
        tried += 1
    assert tried >= 9


def test_the_schema_is_complete_enough_to_fail(server: Process) -> None:
    """A schema that allows anything would pass all of the above."""
    told = document(server)
    del told["paths"]["/v1/completions"]["post"]["responses"]["400"]
    bare = {"model": "tiny", "prompt": "a", "max_tokens": 0}
    case = schemathesis.openapi.from_dict(told)["/v1/completions"]["POST"].Case(
        body=bare, media_type="application/json"
    )
    with pytest.raises((UndefinedStatusCode, schemathesis.core.failures.FailureGroup)):
        case.call_and_validate(base_url=server.url, checks=[status_code_conformance])
    told["components"]["schemas"]["Detokenized"]["properties"]["prompt"] = {"type": "integer"}
    case = schemathesis.openapi.from_dict(told)["/detokenize"]["POST"].Case(
        body={"tokens": [5]}, media_type="application/json"
    )
    with pytest.raises((JsonSchemaError, schemathesis.core.failures.FailureGroup)):
        case.call_and_validate(base_url=server.url, checks=[response_schema_conformance])
