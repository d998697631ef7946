"""LibreTranslate's own server with our exported model: what it reads, made here, and nothing downloaded.

Its models are packages of argos-translate: a directory with CTranslate2's files, a SentencePiece model and
`metadata.json`. Its sentence splitter (MiniSBD) comes from the network, so the package brings a stub in its
place, an ONNX graph that never ends a sentence: less work than the real one, in LibreTranslate's favour. Two
packages are needed, or it looks for more at the start; both are the same model here.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

__all__ = ["command", "environment", "write_packages"]

_PEER = "libretranslate"


def command(peers: Path, port: int, languages: tuple[str, str]) -> list[str]:
    """How it is started: its defaults, without web page and documents."""
    program = str(peers / _PEER / "bin" / _PEER)
    return [
        program, "--host", "127.0.0.1", "--port", str(port), "--load-only", ",".join(languages),
        "--disable-files-translation", "--disable-web-ui",
    ]  # fmt: skip


def environment(work: Path) -> dict[str, str]:
    """Everything it reads and writes lies in `work`."""
    own = str((work / _PEER).resolve())
    names = ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "HOME")
    return {**os.environ, **dict.fromkeys(names, own), "ARGOS_PACKAGES_DIR": f"{own}/packages"}


def write_packages(work: Path, model: Path, languages: tuple[str, str]) -> None:
    """Make both packages of an exported model with a joint tokenizer.

    Raises:
        FileNotFoundError: the model has no export, or no joint tokenizer.
    """
    packages = work / _PEER / "packages"
    shutil.rmtree(packages, ignore_errors=True)
    for source, target in (languages, languages[::-1]):
        package = packages / f"translate-{source}_{target}"
        shutil.copytree(model / "ct2", package / "model", ignore=shutil.ignore_patterns("*.model"))
        shutil.copy(model / "tokenizer.model", package / "sentencepiece.model")
        about = {
            "package_version": "1.0", "argos_version": "1.9", "from_code": source, "from_name": source,
            "to_code": target, "to_name": target,
        }  # fmt: skip
        (package / "metadata.json").write_text(json.dumps(about))
        (package / "minisbd").mkdir()
        _write_splitter(package / "minisbd" / "one_sentence.onnx")


def _write_splitter(path: Path) -> None:
    """MiniSBD's form (units and features of characters in, five scores for each out), always class 0."""
    import onnx
    from onnx import TensorProto, helper

    score = [1.0, 0.0, 0.0, 0.0, 0.0]
    nodes = [
        helper.make_node("Cast", ["units"], ["real"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["real", "last"], ["column"]),
        helper.make_node("Mul", ["column", "zeros"], ["nothing"]),
        helper.make_node("Add", ["nothing", "score"], ["scores"]),
    ]
    constants = [
        helper.make_tensor("last", TensorProto.INT64, [1], [2]),
        helper.make_tensor("zeros", TensorProto.FLOAT, [1, 1, 5], [0.0] * 5),
        helper.make_tensor("score", TensorProto.FLOAT, [1, 1, 5], score),
    ]
    inputs = [
        helper.make_tensor_value_info("units", TensorProto.INT64, ["batch", "len"]),
        helper.make_tensor_value_info("features", TensorProto.FLOAT, ["batch", "len", "features"]),
    ]
    outputs = [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", "len", 5])]
    graph = helper.make_graph(nodes, "one_sentence", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    config = {"feat_funcs": ["space_before"], "max_seqlen": 1000, "batch_size": 1}
    units = ["<PAD>", "<UNK>", "<EMPTY>", "<ROOT>"]
    vocab = {"_id2unit": units, "_unit2id": {unit: number for number, unit in enumerate(units)}}
    facts = {"lang_code": "any", "config": json.dumps(config), "vocab": json.dumps(vocab)}
    helper.set_model_props(model, facts)
    onnx.save(model, str(path))
