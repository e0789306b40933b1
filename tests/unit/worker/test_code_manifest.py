# SPDX-License-Identifier: BSD-3-Clause
"""Which files of a module or package go to other machines."""

import hashlib
import os
import sys

import pytest

from cellspan._code import ignores, manifest
from cellspan._code.listing import Lister
from files import write


def of(root, name, hashes=None):
    found = Lister().listing([str(root)])
    return manifest.of_places(found.roots(name), found.places[name], hashes or manifest.Hashes())


def files(root, name):
    return [os.path.relpath(row[0], root) for row in of(root, name).files]


def left(root, name):
    return {os.path.relpath(path, root): why for path, _, why in of(root, name).left}


def test_a_module_and_a_package_with_its_data(tmp_path):
    write(tmp_path, "pkg/__init__.py", "pkg/sub/data.json", "pkg/py.typed", "pkg/__pycache__/x.pyc", "other.py", **{"helper": "x = 1\n"})
    found = of(tmp_path, "helper")
    assert found.files == [[str(tmp_path / "helper.py"), 6, hashlib.sha256(b"x = 1\n").hexdigest(), 0o644]] and found.roots == [str(tmp_path)]
    assert files(tmp_path, "pkg") == ["pkg/__init__.py", "pkg/py.typed", "pkg/sub/data.json"]


def test_the_digest_stands_for_names_contents_and_modes(tmp_path):
    write(tmp_path, "pkg/__init__.py", **{"pkg/a": "1"})
    before = of(tmp_path, "pkg").digest
    assert of(tmp_path, "pkg").digest == before
    os.chmod(tmp_path / "pkg/a.py", 0o755)
    second = of(tmp_path, "pkg").digest
    os.rename(tmp_path / "pkg/a.py", tmp_path / "pkg/b.py")
    third = of(tmp_path, "pkg").digest
    (tmp_path / "pkg/b.py").write_text("2")
    assert len({before, second, third, of(tmp_path, "pkg").digest}) == 4


def test_what_never_goes(tmp_path):
    names = ".env .env.local prod.env id_rsa id_ed25519.pub server.pem tls.KEY store.p12 credentials credentials.json secrets.toml".split()
    names += ".netrc .pypirc .git-credentials a.ipynb .pgpass .Renviron .bash_history kubeconfig client_secret_1.json my.kdbx terraform.tfstate.backup env.production x.gpg".split()
    names += "prod.tfvars dev.auto.tfvars.json .terraformrc service-account.json service_account-prod.json AuthKey_1.p8 my_secret_key.asc Private.ASC token.json".split()
    folders = ".git/config .hg/x node_modules/x.js env/pyvenv.cfg env/lib/a.py .ipynb_checkpoints/a.py __pycache__/a.pyc .hidden/x".split()
    write(tmp_path, "pkg/__init__.py", *(f"pkg/{name}" for name in names + folders))
    write(tmp_path, "pkg/id_to_label.json", "pkg/tokenizer.json", "pkg/token.json.md")
    os.symlink("id_rsa", tmp_path / "pkg/keyfile.py")
    write(tmp_path, "pkg/secrets/db.json", "pkg/sub/Credentials/aws", "pkg/in/secrets/deep/vault.py", "pkg/in/secrets/deep/a.json")
    names += ["keyfile.py", "secrets", "sub/Credentials"]
    assert files(tmp_path, "pkg") == ["pkg/__init__.py", "pkg/id_to_label.json", "pkg/in/secrets/deep/a.json", "pkg/in/secrets/deep/vault.py",
                                      "pkg/token.json.md", "pkg/tokenizer.json"]
    assert sorted(left(tmp_path, "pkg")) == sorted(f"pkg/{name}" for name in names)


def test_of_asc_files_private_keys_never_go(tmp_path):
    write(tmp_path, "pkg/__init__.py")
    (tmp_path / "pkg/dem_10m.asc").write_text("ncols 4\nnrows 6\n")
    (tmp_path / "pkg/release.asc").write_text("-----BEGIN PGP PUBLIC KEY BLOCK-----\n")
    (tmp_path / "pkg/backup.ASC").write_text("\n-----BEGIN PGP PRIVATE KEY BLOCK-----\n")
    os.symlink("backup.ASC", tmp_path / "pkg/key.txt")
    os.mkfifo(tmp_path / "pkg/pipe.asc")
    assert files(tmp_path, "pkg") == ["pkg/__init__.py", "pkg/dem_10m.asc", "pkg/release.asc"]
    assert left(tmp_path, "pkg") == dict.fromkeys(("pkg/backup.ASC", "pkg/key.txt"), "private keys are never sent")


def test_a_module_goes_whatever_its_name(tmp_path):
    write(tmp_path, "pkg/__init__.py", "pkg/credentials.py", "pkg/id_tools.py", "pkg/_version.py", ".git/x")
    (tmp_path / ".gitignore").write_text("_version.py\n*.so\n")
    assert files(tmp_path, "pkg") == ["pkg/__init__.py", "pkg/_version.py", "pkg/credentials.py", "pkg/id_tools.py"]


def test_ignore_files_hold_for_data(tmp_path):
    write(tmp_path, ".git/x", "pkg/__init__.py", "pkg/a.csv", "pkg/b.bin", "pkg/keep.bin", "pkg/out/c.txt", "pkg/sub/d.txt", "pkg/sub/e.dat")
    (tmp_path / ".gitignore").write_text("# comment\n*.bin\n!keep.bin\nout/\n")
    (tmp_path / "pkg/sub/.cellspanignore").write_text("/d.txt\n")
    assert files(tmp_path, "pkg") == ["pkg/__init__.py", "pkg/a.csv", "pkg/keep.bin", "pkg/sub/e.dat"]


def test_too_much_data_is_left_out_with_a_line(tmp_path, monkeypatch):
    monkeypatch.setattr(manifest, "DATA_MOST", 10 << 20)
    write(tmp_path, "pkg/__init__.py", "pkg/model.bin")
    with open(tmp_path / "pkg/model.bin", "r+b") as file:
        file.truncate(11 << 20)
    read = []
    monkeypatch.setattr(manifest, "scan", lambda path, old=manifest.scan: read.append(path) or old(path))
    write(tmp_path, "pkg/conf.json")
    assert files(tmp_path, "pkg") == ["pkg/__init__.py", "pkg/conf.json"] and "10 MiB" in left(tmp_path, "pkg")["pkg/model.bin"]
    assert not any(path.endswith(".bin") for path in read)
    for k in range(3):
        with open(tmp_path / f"pkg/part{k}.bin", "wb") as file:
            file.truncate(4 << 20)
    assert files(tmp_path, "pkg") == ["pkg/__init__.py"] and "10 MiB" in left(tmp_path, "pkg")["pkg"]
    assert not any(path.endswith(".bin") for path in read)


def test_a_project_of_10_gb_is_not_read(tmp_path):
    write(tmp_path, "pkg/__init__.py", "pkg/weights/one.bin", "data/raw/two.bin", "data/load.py")
    for name in ("pkg/weights/one.bin", "data/raw/two.bin"):  # holes: they take no room here
        os.truncate(tmp_path / name, 5 << 30)
    assert files(tmp_path, "pkg") == ["pkg/__init__.py"] and files(tmp_path, "data") == ["data/load.py"]
    assert list(left(tmp_path, "pkg")) == ["pkg/weights/one.bin"]


def test_a_folder_without_init_sends_modules_and_the_data_of_packages_in_it(tmp_path):
    write(tmp_path, "space/a.py", "space/big.csv", "space/pkg/__init__.py", "space/pkg/table.csv", "space/pkg/in/x.csv", "space/raw/b.csv")
    assert files(tmp_path, "space") == ["space/a.py", "space/pkg/__init__.py", "space/pkg/in/x.csv", "space/pkg/table.csv"]


def test_links(tmp_path):
    write(tmp_path, "p/pkg/__init__.py", "p/pkg/real/x.py", "p/lib/y.py", "out/one.py", "out/folder/z.py", "out/.env")
    links = {"one.py": "../../out/one.py", "folder": "../../out/folder", "lib": "../lib", "again": "real", "circle": "..", "plain.txt": "../../out/.env"}
    for name, target in links.items():
        os.symlink(target, tmp_path / "p/pkg" / name)
    os.symlink("nothing", tmp_path / "p/pkg/dangling.py")
    os.symlink(".", tmp_path / "p/pkg/real/self")
    assert files(tmp_path / "p", "pkg") == ["pkg/__init__.py", "pkg/again/x.py", "pkg/lib/y.py", "pkg/one.py", "pkg/real/x.py"]
    assert sorted(left(tmp_path / "p", "pkg")) == ["pkg/folder", "pkg/plain.txt"]


def test_a_linked_package_goes_under_the_links_path(tmp_path):
    write(tmp_path, "real/__init__.py", "real/sub/a.py", "p/x.py")
    os.symlink("../real", tmp_path / "p/pkg")
    assert files(tmp_path / "p", "pkg") == ["pkg/__init__.py", "pkg/sub/a.py"]


def test_compiled_modules_go_if_they_are_for_this_python(tmp_path):
    own, other = "cpython-%d%d-x86_64-linux-gnu" % sys.version_info[:2], "cpython-27-x86_64-linux-gnu"
    write(tmp_path, "pkg/__init__.py", f"pkg/a.{own}.so", f"pkg/a.{other}.so", "pkg/b.abi3.so", "pkg/c.so", "pkg/libx.so.1.2")
    assert files(tmp_path, "pkg") == ["pkg/__init__.py", f"pkg/a.{own}.so", "pkg/b.abi3.so", "pkg/c.so", "pkg/libx.so.1.2"]
    assert "version of Python" in left(tmp_path, "pkg")[f"pkg/a.{other}.so"]


def test_names_that_are_not_utf8_and_what_is_no_file(tmp_path):
    write(tmp_path, "pkg/__init__.py")
    (tmp_path / os.fsdecode(b"pkg/caf\xe9.txt")).touch()
    os.mkfifo(tmp_path / "pkg/pipe")
    os.mkfifo(tmp_path / "pkg/pipe.py")
    assert files(tmp_path, "pkg") == ["pkg/__init__.py"] and len(left(tmp_path, "pkg")) == 1


def test_a_file_is_read_again_only_if_it_has_changed(tmp_path, monkeypatch):
    write(tmp_path, **{"helper": "1"})
    os.utime(tmp_path / "helper.py", (1, 1))
    hashes, read = manifest.Hashes(), []
    monkeypatch.setattr(manifest, "scan", lambda path, old=manifest.scan: read.append(path) or old(path))
    first = of(tmp_path, "helper", hashes).digest
    assert of(tmp_path, "helper", hashes).digest == first and len(read) == 1
    (tmp_path / "helper.py").write_text("2")
    os.utime(tmp_path / "helper.py", (1, 2))
    assert of(tmp_path, "helper", hashes).digest != first and len(read) == 2


def test_a_young_file_is_read_again_though_its_time_is_the_same(tmp_path):
    write(tmp_path, **{"helper": "1"})
    hashes = manifest.Hashes()
    first, now = of(tmp_path, "helper", hashes).digest, os.stat(tmp_path / "helper.py")
    (tmp_path / "helper.py").write_text("2")
    os.utime(tmp_path / "helper.py", ns=(now.st_atime_ns, now.st_mtime_ns))
    assert of(tmp_path, "helper", hashes).digest != first


@pytest.mark.parametrize("changes, good", [(1, True), (manifest.TRIES, False)])
def test_a_file_that_changes_while_it_is_read(tmp_path, monkeypatch, changes, good):
    write(tmp_path, **{"helper": "1"})
    left = [changes]

    def identity(found, old=manifest._identity):
        if left[0] and found.st_size == os.stat(tmp_path / "helper.py").st_size and os.path.samestat(found, os.stat(tmp_path / "helper.py")):
            left[0] -= 1
            (tmp_path / "helper.py").write_text("1" * (10 + left[0]))
        return old(found)

    monkeypatch.setattr(manifest, "_identity", identity)
    now = os.stat(tmp_path / "helper.py")
    if good:
        left[0] = changes
        digest, size, _ = manifest.Hashes().of(str(tmp_path / "helper.py"), now)
        assert size == 10 and digest == hashlib.sha256(b"1" * 10).hexdigest()
    else:
        monkeypatch.setattr(manifest, "scan", lambda path: (None, "", b""))
        with pytest.raises(manifest.Unsendable, match="helper.py changes while it is read"):
            manifest.Hashes().of(str(tmp_path / "helper.py"), now)


def test_too_many_files(tmp_path, monkeypatch):
    write(tmp_path, "pkg/__init__.py", *(f"pkg/m{k}.py" for k in range(5)))
    monkeypatch.setattr(manifest, "FILES_MOST", 3)
    with pytest.raises(manifest.Unsendable, match="too many"):
        of(tmp_path, "pkg")


def test_a_folder_with_very_many_files_does_not_keep_its_package_from_going(tmp_path, monkeypatch):
    monkeypatch.setattr(manifest, "ENTRIES_MOST", 10)
    monkeypatch.setattr(manifest, "WATCHED_ALL", 2)
    write(tmp_path, "pkg/__init__.py", *(f"pkg/data/{k}/x.bin" for k in range(20)), "pkg/late/__init__.py", "pkg/late/a.py")
    found = Lister().listing([str(tmp_path)])
    watched = []
    made = manifest.of_places(found.roots("pkg"), found.places["pkg"], manifest.Hashes(), watch=lambda folder, only: watched.append(folder))
    assert [os.path.relpath(row[0], tmp_path) for row in made.files if row[0].endswith(".py")] == ["pkg/__init__.py", "pkg/late/__init__.py", "pkg/late/a.py"]
    assert all("over 10 files" in why for _, _, why in made.left) and len(made.left) == 20
    assert sorted(watched) == sorted(map(str, [tmp_path / "pkg", tmp_path / "pkg/data", tmp_path / "pkg/late"])) and made.folders == set(watched)


def test_a_very_large_file_is_refused_and_very_many_are_not_listed(tmp_path, monkeypatch):
    write(tmp_path, "pkg/__init__.py", "lib.py", *(f"pkg/{k}.pem" for k in range(20)))
    monkeypatch.setattr(manifest, "FILE_MOST", 1)
    monkeypatch.setattr(manifest, "LEFT_MOST", 10)
    assert len(of(tmp_path, "pkg").left) == 10
    (tmp_path / "lib.py").write_text("too long")
    with pytest.raises(manifest.Unsendable, match="lib.py has over 0 GiB"):
        of(tmp_path, "lib")
    with pytest.raises(manifest.Unsendable, match="lib.py has over 0 GiB"):
        manifest.of_path(str(tmp_path / "lib.py"), manifest.Hashes())


def test_a_file_that_may_not_be_read(tmp_path, monkeypatch):
    write(tmp_path, "pkg/__init__.py", "pkg/secret.py")

    def denied(path, old=manifest.scan):
        if path.endswith("secret.py"):
            raise PermissionError(13, "Permission denied", path)
        return old(path)

    monkeypatch.setattr(manifest, "scan", denied)
    assert files(tmp_path, "pkg") == ["pkg/__init__.py"] and left(tmp_path, "pkg") == {"pkg/secret.py": "Permission denied"}


def test_what_the_user_names_goes_with_all_that_is_in_it(tmp_path):
    write(tmp_path, "data/a.csv", "data/.config/b", "data/.git/c", "data/.ssh/config", "data/id_rsa", "data/venv/pyvenv.cfg", ".env", ".git/x")
    (tmp_path / ".gitignore").write_text("data\n")
    digest = manifest.of_path(str(tmp_path / "data"), manifest.Hashes()).digest
    os.makedirs(tmp_path / "data" / "empty" / "below")
    found = manifest.of_path(str(tmp_path / "data"), manifest.Hashes())
    assert found.empty == [str(tmp_path / "data" / "empty"), str(tmp_path / "data" / "empty" / "below")] and found.digest != digest
    assert [os.path.relpath(row[0], tmp_path) for row in found.files] == ["data/.config/b", "data/a.csv"] and len(found.left) == 1
    assert [row[0] for row in manifest.of_path(str(tmp_path / ".env"), manifest.Hashes()).files] == [str(tmp_path / ".env")]
    with pytest.raises(FileNotFoundError):
        manifest.of_path(str(tmp_path / "nothing"), manifest.Hashes())


@pytest.mark.parametrize(
    "text, names",
    [
        ("import a, b.c as d\nfrom e.f import g", "a b e"),
        ("def f():\n    import x\n    from y import (\n  z)", "x y"),
        ("from . import a\nfrom .b import c\nimportant = 1\nprint('import q')", ""),
        ("try:\n\timport a as b\nexcept ImportError: pass", "a"),
    ],
)
def test_imports_in_a_text(text, names):
    assert manifest.imports_in(text.encode()) == frozenset(names.split())


@pytest.mark.parametrize(
    "line, path, folder, named",
    [
        ("*.bin", "a/b.bin", False, True), ("/a", "b/a", False, False), ("/a", "a", False, True), ("a/b", "x/a/b", False, False),
        ("**/x", "a/b/x", False, True), ("a/**", "a/b/c", False, True), ("a/**/c", "a/c", False, True), ("out/", "out", False, False),
        ("out/", "out", True, True), ("[ab].txt", "b.txt", False, True), ("[!ab].txt", "b.txt", False, False), ("a?.c", "ab.c", False, True),
        ("\\#x", "#x", False, True), ("*", "a/b", False, True),
    ],
)
def test_patterns_of_ignore_files(line, path, folder, named):
    pattern, only_folders, _ = ignores.parsed(line)
    assert (pattern.match(path) is not None and (folder or not only_folders)) == named


@pytest.mark.parametrize("line", ["", "# text", "   ", "/", "!"])
def test_lines_of_ignore_files_that_name_nothing(line):
    assert ignores.parsed(line) is None
