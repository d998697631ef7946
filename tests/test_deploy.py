"""What stands in deploy/: as far as it can be read here, it says what the service understands."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import tomllib

import pytest
import typer

from digits import ROOT
from transduce.cli import app

DEPLOY = ROOT / "deploy"


def serve_options():
    command = typer.main.get_command(app).commands["serve"]
    return {name for parameter in command.params for name in parameter.opts if name.startswith("--")}


def is_understood(words):
    """Whether `transduce serve` has every option among `words`."""
    assert {word for word in words if word.startswith("--")} <= serve_options()


@pytest.fixture
def unit():
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str
    parser.read(DEPLOY / "transduce.service", encoding="utf-8")
    return parser


def test_the_unit_runs_the_service_as_nobody_special(unit):
    service = unit["Service"]
    program, verb, *words = shlex.split(service["ExecStart"])
    assert (program.rpartition("/")[2], verb) == ("transduce", "serve")
    is_understood(words)
    assert words[words.index("--host") + 1] == "127.0.0.1"
    assert service["User"] not in ("", "root")
    assert service["CapabilityBoundingSet"] == ""
    for name in ("NoNewPrivileges", "PrivateTmp", "PrivateDevices", "ProtectHome", "RestrictNamespaces"):
        assert service[name] == "yes"
    assert service["ProtectSystem"] == "strict"
    assert int(service["TimeoutStopSec"]) > 30  # what runs is finished first
    assert unit["Install"]["WantedBy"]


def instructions():
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    lines = re.sub(r"\\\n", " ", re.sub(r"(?m)^#.*\n", "", text)).split("\n")
    return [tuple(line.split(maxsplit=1)) for line in lines if line.strip()]


def read_by_the_build():
    """Files beside `pyproject.toml` without which no wheel is built."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    hook = project["tool"]["hatch"]["build"]["hooks"]["custom"]["path"]
    return [hook, project["project"]["readme"], *project["project"]["license-files"]]


def test_the_container_is_small_and_not_root():
    known = "FROM WORKDIR COPY ARG RUN USER ENV EXPOSE ENTRYPOINT CMD STOPSIGNAL HEALTHCHECK".split()  # noqa: SIM905
    found = instructions()
    assert {name for name, _ in found} <= set(known)
    bases = [rest.split()[0] for name, rest in found if name == "FROM"]
    assert all(re.fullmatch(r"[\w.-]+/[\w./-]+:[\w.-]+", base) for base in bases)
    assert next(rest for name, rest in reversed(found) if name == "USER").split(":")[0] not in ("0", "root")
    installs = [rest for name, rest in found if name == "RUN" and "pip" in rest]
    assert installs
    assert not any("torch" in rest or "train" in rest for rest in installs)
    entry, command = (json.loads(next(r for n, r in found if n == name)) for name in ("ENTRYPOINT", "CMD"))
    assert entry == ["transduce", "serve"]
    is_understood(command)
    copied = [word for name, rest in found if name == "COPY" for word in rest.split()[:-1]]
    assert all((ROOT / word).exists() for word in copied)
    assert set(copied) >= {"pyproject.toml", "page", "src", *read_by_the_build()}
    assert "Not built where it was written" in (DEPLOY / "Containerfile").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "directives"),
    [
        ("Caddyfile", ["flush_interval -1", "reverse_proxy 127.0.0.1:8000", "max_size 10MB"]),
        ("nginx.conf", ["proxy_buffering off;", "proxy_pass http://transduce;", "client_max_body_size 10m;"]),
    ],
)
def test_proxies_pass_events_on_and_bound_bodies(name, directives):
    text = re.sub(r"(?m)#.*$", "", (DEPLOY / name).read_text(encoding="utf-8"))
    assert text.count("{") == text.count("}")
    if name == "nginx.conf":
        for line in text.split("\n"):
            assert not line.strip() or line.rstrip()[-1] in "{};"
    for directive in directives:
        assert directive in text
    for words in re.findall(r"Start the service with (.*)", (DEPLOY / name).read_text(encoding="utf-8")):
        is_understood(shlex.split(words))
