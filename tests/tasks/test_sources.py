import pytest

from tap.errors import UserError
from tap.tasks import sources
from tap.tasks.sources import Source, UnavailableError


def gives(path):
    return Source(f"source {path}", lambda: path)


def fails(reason):
    def fetch():
        raise UnavailableError(reason)

    return Source("absent", fetch)


def refuse_bad(path):
    if "bad" in str(path):
        raise UserError(f"{path}: wrong content")
    return path


def test_first_right_source_wins(tmp_path):
    chain = [fails("not here"), gives(tmp_path / "bad"), gives(tmp_path / "good"), gives(tmp_path / "later")]
    assert sources.first_accepted("data", chain, refuse_bad, "name one") == tmp_path / "good"


def test_every_reason_is_told_when_none_works(tmp_path):
    with pytest.raises(UserError) as error:
        sources.first_accepted("data", [fails("no network"), gives(tmp_path / "bad")], refuse_bad, "name a folder")
    assert all(part in str(error.value) for part in ("no network", "wrong content", "name a folder", "absent"))


def test_a_named_source_is_not_replaced(tmp_path):
    with pytest.raises(UserError, match="nowhere does not exist"):
        sources.first_accepted("data", [sources.named_path(tmp_path / "nowhere"), gives(tmp_path)], refuse_bad, "x")
    (tmp_path / "bad").mkdir()
    with pytest.raises(UserError, match="wrong content"):
        sources.first_accepted("data", [sources.named_path(tmp_path / "bad"), gives(tmp_path)], refuse_bad, "x")


def test_missing_tools_are_reasons(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnavailableError, match="no apt-get"):
        sources.debian_package("some-package", "usr", tmp_path).fetch()
    monkeypatch.setattr(sources.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UnavailableError, match="neither pip nor uv"):
        sources.python_wheel("some", "1.0", tmp_path).fetch()


def test_a_failing_tool_says_its_last_line(tmp_path, monkeypatch):
    tool = tmp_path / "apt-get"
    tool.write_text("#!/bin/sh\necho trying >&2\necho 'E: no such package' >&2\nexit 100\n")
    tool.chmod(0o755)
    (tmp_path / "dpkg-deb").symlink_to(tool)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(UnavailableError, match="E: no such package"):
        sources.debian_package("some-package", "usr", tmp_path / "work").fetch()


def test_download_takes_the_first_url_that_answers(tmp_path, unused_server):
    served, base = unused_server
    (served / "a.bin").write_bytes(b"x" * 70_000)
    files = {"a.bin": (f"{base}/missing.bin", f"{base}/a.bin")}
    folder = sources.public_download(files, tmp_path, timeout_s=5).fetch()
    assert (folder / "a.bin").read_bytes() == b"x" * 70_000
    with pytest.raises(UnavailableError, match=r"missing\.bin: HTTPError"):
        sources.public_download({"b.bin": (f"{base}/missing.bin",)}, tmp_path, timeout_s=5).fetch()


@pytest.fixture
def unused_server(tmp_path_factory, monkeypatch):
    """A local web server of one folder."""
    import functools
    import http.server
    import threading

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    served = tmp_path_factory.mktemp("served")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(served))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield served, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
