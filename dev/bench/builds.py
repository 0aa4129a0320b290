"""Builds of the `silicide` program to compare: binaries that are there, or revisions of this repository.

A revision is built once, in a clone in the cache folder: the checkout, its target folder and the binaries stay there. The clone
borrows the repository's objects, so any commit of the repository can be checked out, and the work tree is not touched.
"""
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

import engines


def resolve(name):
    """Returns the build that `name` means: the path of a binary, or a revision, which is built. `Failed` if it is neither."""
    path = pathlib.Path(name)
    if path.is_file():
        if not os.access(path, os.X_OK):
            raise engines.Failed(f"{name} can't be executed")
        return describe(name, path.resolve())
    try:
        commit = git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    except engines.Failed:
        raise engines.Failed(f"{name} is neither a file nor a revision of {engines.ROOT}") from None
    return describe(name, built(commit)) | {"commit": git("describe", "--always", "--tags", commit)}


def describe(name, binary):
    """A build as it is stored: the name that was given, the binary, its version, and a hash of its bytes."""
    version = engines.run([binary, "--version"]).strip()
    return {"name": name, "binary": str(binary), "version": version, "sha256": hashlib.sha256(binary.read_bytes()).hexdigest()[:12]}


def title(build):
    """One line: the name, the version, the commit if there is one, the hash of the binary."""
    commit = f", commit {build['commit']}" if "commit" in build else ""
    return f"{build['name']}: {build['version']}{commit}, sha256 {build['sha256']}"


def git(*arguments, folder=engines.ROOT):
    return engines.run(["git", "-C", folder, *arguments]).strip()


def built(commit):
    """Returns the binary of a commit, built if it is not in the cache folder."""
    folder = engines.cache() / "builds"
    binary, source = folder / f"silicide-{commit[:12]}", folder / "source"
    if binary.exists():
        return binary
    engines.say(f"building {commit[:12]} in {folder}, which takes some minutes")
    if not source.exists():
        engines.run(["git", "clone", "--quiet", "--shared", "--no-checkout", engines.ROOT, source])
    git("checkout", "--quiet", "--force", "--detach", commit, folder=source)
    command = ["cargo", "build", "--release", "--locked", "--quiet", "-p", "silicide-cli"]
    environment = os.environ | {"CARGO_TARGET_DIR": str(folder / "target")}
    if subprocess.run(command, cwd=source, env=environment, stdout=sys.stderr).returncode:
        raise engines.Failed(f"{commit[:12]} does not build")
    # A name that exists is a whole file.
    whole = binary.with_suffix(".part")
    shutil.copy2(folder / "target" / "release" / "silicide", whole)
    whole.rename(binary)
    return binary
