"""A fresh environment, the wheel, no torch: does an exported model translate there, and how large is it all?

Builds the wheel of this checkout, installs it with its core dependencies into a new virtual environment
(needs a package index), and runs `--help`, `info`, `translate` and `evaluate` there on an exported model.

    python benchmarks/translate/wheel_without_torch.py MODEL --source test.en --reference test.de
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--reference", type=Path, required=True)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--wheel-dir", place, ROOT)
        wheel = next(place.glob("transduce-*.whl"))
        venv.create(place / "env", with_pip=True)
        python, command = place / "env/bin/python", place / "env/bin/transduce"
        before = size(place / "env")
        run(python, "-m", "pip", "install", "-q", wheel)
        assert run(python, "-c", "import importlib.util as u; print(u.find_spec('torch'))") == "None\n"
        assert "translate" in run(command, "--help")
        assert "## CTranslate2 export" in run(command, "info", arguments.model)
        lines = arguments.source.read_bytes()
        out = run(command, "translate", arguments.model, "--engine", "ctranslate2", stdin=lines)
        assert out.count("\n") == lines.count(b"\n")
        test = ("--source", arguments.source, "--reference", arguments.reference, "--json")
        bleu = json.loads(run(command, "evaluate", arguments.model, *test))["bleu"]["value"]
        record = {
            "wheel_mb": round(wheel.stat().st_size / 1e6, 2),
            "installed_mb": round((size(place / "env") - before) / 1e6, 1),
            "largest_mb": largest(place / "env"),
            "bleu": bleu,
            "python": sys.version.split()[0],
        }
        print(json.dumps(record))


def run(*command, stdin: bytes | None = None) -> str:
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(Path.home())}
    result = subprocess.run(
        [str(word) for word in command],
        input=stdin,
        capture_output=True,
        env=environment,
        cwd="/",
        check=False,
    )
    assert result.returncode == 0, result.stderr.decode()
    return result.stdout.decode()


def size(directory: Path) -> int:
    return sum(
        file.stat().st_size for file in directory.rglob("*") if file.is_file() and not file.is_symlink()
    )


def largest(environment: Path) -> dict[str, float]:
    packages = next(environment.glob("lib/python*/site-packages"))
    sizes = {path.name: round(size(path) / 1e6, 1) for path in packages.iterdir() if path.is_dir()}
    return dict(sorted(sizes.items(), key=lambda item: -item[1])[:6])


if __name__ == "__main__":
    main()
