"""The files in `deploy`, checked by the schemas of Kubernetes, and the server with their arguments."""

from __future__ import annotations

import copy
import json
import os
import re
import shlex
import signal
import subprocess
import urllib.error
import urllib.request
from importlib import resources
from pathlib import Path

import pytest
from conftest import DIGITS, ROOT, deadline

REASON = "kubernetes-validate is not installed: `cargo xtask test --engines` installs it"
kubernetes_validate = pytest.importorskip("kubernetes_validate", reason=REASON)

import jsonschema  # noqa: E402
import referencing  # noqa: E402
import yaml  # noqa: E402

DEPLOY = ROOT / "deploy"
VERSIONS = ["1.30", "1.37"]
"""An older version of Kubernetes and that of the schemas."""

FORMAT = {
    "type": "object",
    "required": ["name"],
    "additionalProperties": False,
    "properties": {
        "name": {"type": "string"},
        "version": {"type": "string", "pattern": r"^\d+(\.\d+){0,2}$"},
        "autoSelect": {"type": "boolean"},
        "priority": {"type": "integer", "minimum": 1},
    },
}

RUNTIME = {
    "type": "object",
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "additionalProperties": False,
    "properties": {
        "apiVersion": {"const": "serving.kserve.io/v1alpha1"},
        "kind": {"enum": ["ServingRuntime", "ClusterServingRuntime"]},
        "metadata": {"$ref": "kubernetes#/$defs/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"},
        "spec": {
            "type": "object",
            "required": ["containers", "supportedModelFormats"],
            "additionalProperties": False,
            "properties": {
                "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "supportedModelFormats": {"type": "array", "minItems": 1, "items": FORMAT},
                "protocolVersions": {"type": "array", "items": {"enum": ["v1", "v2", "grpc-v1", "grpc-v2"]}},
                "multiModel": {"type": "boolean"},
                "disabled": {"type": "boolean"},
                "containers": {
                    "type": "array",
                    "minItems": 1,
                    "items": {"$ref": "kubernetes#/$defs/io.k8s.api.core.v1.Container"},
                },
                "volumes": {"type": "array", "items": {"$ref": "kubernetes#/$defs/io.k8s.api.core.v1.Volume"}},
                "nodeSelector": {"type": "object", "additionalProperties": {"type": "string"}},
                "tolerations": {"type": "array", "items": {"$ref": "kubernetes#/$defs/io.k8s.api.core.v1.Toleration"}},
            },
        },
    },
}
"""`ServingRuntime` of KServe 0.17, without the fields of ModelMesh and of several nodes."""


def documents(name: str) -> dict[str, dict]:
    """The documents of a file by kind."""
    found = list(yaml.safe_load_all((DEPLOY / name).read_text()))
    assert len({document["kind"] for document in found}) == len(found)
    return {document["kind"]: document for document in found}


def validate(document: dict, version: str) -> None:
    """Compares a document with its schema; unknown fields are errors."""
    if document["kind"] != "ServingRuntime":
        kubernetes_validate.validate(document, version, strict=True)
        return
    folder = resources.files("kubernetes_validate") / "kubernetes-json-schema"
    (folder,) = (
        path for path in folder.iterdir() if re.fullmatch(rf"v{re.escape(version)}\.?\d*-local-strict", path.name)
    )
    definitions = referencing.Resource(
        contents=json.loads((folder / "_definitions.json").read_text()),
        specification=referencing.jsonschema.DRAFT202012,
    )
    registry = referencing.Registry().with_resource("kubernetes", definitions)
    jsonschema.Draft202012Validator(RUNTIME, registry=registry).validate(document)


def container(document: dict) -> dict:
    spec = document["spec"]
    (container,) = (spec["template"]["spec"] if "template" in spec else spec)["containers"]
    return container


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("name", "kinds"),
    [("kubernetes.yaml", ["Deployment", "Service"]), ("kserve-serving-runtime.yaml", ["ServingRuntime"])],
)
def test_the_files_have_the_form_of_their_kinds(name, kinds, version):
    found = documents(name)
    assert list(found) == kinds
    for document in found.values():
        validate(document, version)


def changed(document: dict, path: str, value: object) -> dict:
    """A copy with another value at a path, or without it."""
    document = copy.deepcopy(document)
    *parents, name = path.split("/")
    target = document
    for parent in parents:
        target = target[int(parent)] if parent.isdigit() else target[parent]
    if value is None:
        del target[name]
    else:
        target[name] = value
    return document


@pytest.mark.parametrize(
    ("name", "kind", "path", "value"),
    [
        ("kubernetes.yaml", "Deployment", "spec/replicas", "two"),
        ("kubernetes.yaml", "Deployment", "spec/selector", None),
        ("kubernetes.yaml", "Deployment", "spec/template/spec/containers/0/readinesProbe", {}),
        ("kubernetes.yaml", "Deployment", "spec/template/spec/containers/0/livenessProbe/httpGet/port", None),
        (
            "kubernetes.yaml",
            "Deployment",
            "spec/template/spec/containers/0/securityContext/readOnlyRootFilesystem",
            "yes",
        ),
        ("kubernetes.yaml", "Service", "spec/ports/0/port", "http"),
        ("kserve-serving-runtime.yaml", "ServingRuntime", "spec/protocolVersions", ["v3"]),
        ("kserve-serving-runtime.yaml", "ServingRuntime", "spec/supportedModelFormats/0/name", None),
        ("kserve-serving-runtime.yaml", "ServingRuntime", "spec/supportedModelFormats/0/priority", 0),
        ("kserve-serving-runtime.yaml", "ServingRuntime", "spec/containers/0/name", None),
        ("kserve-serving-runtime.yaml", "ServingRuntime", "spec/containers/0/arguments", []),
    ],
)
def test_wrong_documents_are_found(name, kind, path, value):
    with pytest.raises(jsonschema.ValidationError):
        validate(changed(documents(name)[kind], path, value), VERSIONS[-1])


def test_the_parts_of_the_deployment_belong_together():
    found = documents("kubernetes.yaml")
    pod = found["Deployment"]["spec"]["template"]
    server = container(found["Deployment"])
    assert (
        found["Deployment"]["spec"]["selector"]["matchLabels"]
        == pod["metadata"]["labels"]
        == found["Service"]["spec"]["selector"]
    )
    volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
    assert {mount["name"] for mount in server["volumeMounts"]} == volumes.keys()
    assert "secretName" in volumes["token"]["secret"]
    ports = {port["name"] for port in server["ports"]}
    assert {port["targetPort"] for port in found["Service"]["spec"]["ports"]} <= ports
    assert {server[probe]["httpGet"]["port"] for probe in ("livenessProbe", "readinessProbe")} <= ports
    arguments = dict(argument.removeprefix("--").split("=") for argument in server["args"] if "=" in argument)
    assert arguments["threads"] == server["resources"]["limits"]["cpu"]
    drain = float(arguments["drain-delay"]) + float(arguments["drain-timeout"])
    assert pod["spec"]["terminationGracePeriodSeconds"] > drain
    runtime = documents("kserve-serving-runtime.yaml")["ServingRuntime"]["spec"]
    assert {form["name"] for form in runtime["supportedModelFormats"]} == {"tenon", "onnx", "tflite"}
    assert runtime["protocolVersions"] == ["v2", "grpc-v2"]


@pytest.mark.parametrize(
    ("name", "kind"), [("kubernetes.yaml", "Deployment"), ("kserve-serving-runtime.yaml", "ServingRuntime")]
)
def test_containers_have_no_rights(name, kind):
    document = documents(name)[kind]
    context = container(document)["securityContext"]
    context |= document["spec"].get("template", {}).get("spec", {}).get("securityContext", {})
    assert context["runAsNonRoot"] and context["readOnlyRootFilesystem"] and not context["allowPrivilegeEscalation"]
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert context["runAsUser"] == int(instructions()["USER"].split(":")[0]) > 0


def instructions() -> dict[str, str]:
    """The last of each instruction of the Containerfile."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Containerfile").read_text(), flags=re.MULTILINE)
    return dict(line.split(" ", 1) for line in text.splitlines() if line)


def test_the_image_has_the_program_of_the_release():
    found = instructions()
    assert json.loads(found["ENTRYPOINT"]) == ["tenon"] and json.loads(found["CMD"])[0] == "serve"
    pattern = shlex.split(found["ADD"])[0]
    version = re.search(r'^version = "(.*)"$', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)[1]
    # The archive of a release; its source distribution has another name.
    assert Path(f"tenon-{version}-x86_64-linux.tar.gz").match(pattern) and not Path(f"tenon-{version}.tar.gz").match(
        pattern
    )
    images = {
        container(documents(name)[kind])["image"]
        for name, kind in (("kubernetes.yaml", "Deployment"), ("kserve-serving-runtime.yaml", "ServingRuntime"))
    }
    assert images == {f"tenon:{version}"}


def commands() -> dict[str, list[str]]:
    """The arguments of `tenon` of each file."""
    return {
        "Containerfile": json.loads(instructions()["CMD"]),
        "kubernetes.yaml": container(documents("kubernetes.yaml")["Deployment"])["args"],
        "kserve-serving-runtime.yaml": container(documents("kserve-serving-runtime.yaml")["ServingRuntime"])["args"],
    }


# The command of the Python package has no server.
@pytest.mark.skipif("TENON_COMMAND" not in os.environ, reason="TENON_COMMAND does not name the program tenon")
@pytest.mark.parametrize("name", ["Containerfile", "kubernetes.yaml", "kserve-serving-runtime.yaml"])
def test_the_server_starts_with_the_arguments(name, tmp_path):
    models = tmp_path / "models"
    models.mkdir()
    (models / "digits.onnx").write_bytes(DIGITS.read_bytes())
    token = "0123456789abcdef"
    (tmp_path / "token").write_text(token + "\n")
    arguments = []
    for argument in commands()[name]:
        argument = re.sub(r"^/(mnt/)?models$", str(models), argument)
        argument = re.sub(r"/run/secrets/\S+", str(tmp_path / "token"), argument)
        arguments.append(argument.replace("0.0.0.0:8080", "0.0.0.0:0").replace("--drain-delay=5", "--drain-delay=0"))
    assert str(models) in arguments and any("0.0.0.0:0" in argument for argument in arguments)
    command = [os.environ["TENON_COMMAND"], *arguments, "--json"]
    with deadline(60), subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            port = int(json.loads(server.stdout.readline())["http"].rsplit(":", 1)[1].split("/")[0])

            def status(path: str, **headers: str) -> int:
                request = urllib.request.Request(
                    f"http://127.0.0.1:{port}{path}", headers={"Host": "tenon.example", **headers}
                )
                try:
                    return urllib.request.urlopen(request, timeout=10).status
                except urllib.error.HTTPError as error:
                    return error.code

            if name != "Containerfile":
                (document,) = (found for found in documents(name).values() if found["kind"] != "Service")
                for probe in ("livenessProbe", "readinessProbe"):
                    assert status(container(document)[probe]["httpGet"]["path"]) == 200
            has_token = any("--token-file" in argument for argument in arguments)
            assert status("/v2/models/digits") == (401 if has_token else 200)
            assert status("/v2/models/digits", Authorization=f"Bearer {token}") == 200
        finally:
            server.send_signal(signal.SIGTERM)
        assert server.wait(30) == 0
