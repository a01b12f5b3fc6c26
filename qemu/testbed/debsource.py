# SPDX-License-Identifier: GPL-2.0
"""Sources of programs that Debian has, unpacked in the cache, for tests that build and run them.

The version is that of the installed release, with Debian's patches or, if wanted, without. apt runs
with a configuration of its own, as for sid (source.py), so the configuration of the system does not need
deb-src.
"""

import re
import shutil
import subprocess
from pathlib import Path

from . import paths, source
from .errors import TestbedError
from .source import locked, say


def unpack(package: str, upstream: bool = False) -> Path:
    """Fetches and unpacks source package @package, once; returns its directory. @upstream: without Debian's patches."""
    base = paths.cache_dir() / "src"
    tree = base / (f"{package}-upstream" if upstream else package)
    with locked(base / f"{package}.lock"):
        if not tree.exists():
            half = base / f"{package}.half"
            shutil.rmtree(half, ignore_errors=True)
            half.mkdir(parents=True)
            say(f"fetching the source of {package}")
            _fetch(package, half, upstream)
            (half / "tree").rename(tree)
            shutil.rmtree(half)
    return tree


def _fetch(package: str, half: Path, upstream: bool) -> None:
    codename = re.search(r"^VERSION_CODENAME=\"?(\w+)",
                         Path("/etc/os-release").read_text(encoding="utf-8"), re.MULTILINE)
    for mirror in source.mirrors():
        options = source.private(half / "apt", "system.sources")
        for directory in ("lists/partial", "cache/archives/partial"):
            (half / "apt" / directory).mkdir(parents=True, exist_ok=True)
        (half / "apt" / "system.sources").write_text(
            f"Types: deb-src\nURIs: {mirror}\nSuites: {codename.group(1) if codename else 'stable'}\n"
            f"Components: main\nSigned-By: {source.KEYRING}\n")
        if source.run("apt-get", *options, "-q", "update", "--error-on=any") and \
           source.run("apt-get", *options, "-q", "source", "--download-only",
                      *(["--tar-only"] if upstream else []), package, cwd=half):
            break
    else:
        raise TestbedError(f"cannot fetch the source of {package}; see the messages of apt-get above")
    # apt-get has checked the signature, of the list of sources and so of each file.
    if upstream:
        (half / "tree").mkdir()
        subprocess.run(["tar", "-x", "--strip-components=1", "-C", half / "tree", "-f", next(half.glob("*.orig.tar.*"))],
                       check=True)
        return
    subprocess.run(["dpkg-source", "--no-check", "-x", next(half.glob("*.dsc")), half / "tree"],
                   check=True, stdout=subprocess.DEVNULL)
