"""What every error of the server must look like."""

from __future__ import annotations


def is_problem(response, status, kind=None):
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert problem["status"] == status
    assert problem["title"]
    assert problem["detail"]
    assert problem["type"].startswith("urn:transduce:problem:")
    if kind:
        assert problem["type"].endswith(kind)
    return problem
