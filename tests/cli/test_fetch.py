#!/usr/bin/env python3
"""test_fetch.py: models of the Hugging Face hub by name, from a server on this machine that answers like the hub.

    test_fetch.py path/to/fovea
"""
import fcntl
import hashlib
import http.server
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, ".."))
import counted

MODEL = os.path.join(HERE, "..", "data", "golden", "models", "vit-01")
NAME = "owner/tiny-vit"
FOLDER = "models--owner--tiny-vit"
COMMIT, NEWER = "1" * 40, "2" * 40


def git_sha1(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Hub(http.server.ThreadingHTTPServer):
    """The hub's answers to requests for files: small ones are sent, links lead from large ones to a store."""
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answer)
        self.files = {}    # name: bytes
        self.commit = COMMIT
        self.asked = []    # (method, path, headers)
        self.faults = []   # functions (answer, data, begin) -> whether they have answered, each used once
        self.refusal = None  # (status, code) for every file
        self.extra = {}
        self.moved = False

    @property
    def url(self):
        return "http://127.0.0.1:%d" % self.server_port


class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, data=b"", **headers):
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), value)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def handle(self):
        try:
            super().handle()
        except ConnectionError:  # the client has seen enough
            pass

    def do_HEAD(self):
        self.answer()

    def do_GET(self):
        self.answer()

    def answer(self):
        hub = self.server
        hub.asked.append((self.command, self.path, dict(self.headers)))
        parts = self.path.strip("/").split("/")
        if parts[0] == "store":
            return self.contents(next(d for d in hub.files.values() if hashlib.sha256(d).hexdigest() == parts[1]))
        if hub.moved and parts[0] == "owner":
            return self.reply(307, Location="/new" + self.path)
        if parts[0] == "new":
            parts = parts[1:]
        if hub.refusal:
            return self.reply(hub.refusal[0], X_Error_Code=hub.refusal[1])
        if "/".join(parts[:2]) != NAME:
            return self.reply(401, b"Repository not found", X_Error_Code="RepoNotFound")
        if parts[3] not in ("main", hub.commit):
            return self.reply(404, b"Revision not found", X_Error_Code="RevisionNotFound")
        data = hub.files.get("/".join(parts[4:]))
        if data is None:
            return self.reply(404, b"Entry not found", X_Error_Code="EntryNotFound", X_Repo_Commit=hub.commit)
        if parts[4].endswith(".safetensors"):
            sha = hashlib.sha256(data).hexdigest()
            return self.reply(302, b"Found", Location=hub.url + "/store/" + sha, X_Repo_Commit=hub.commit,
                              X_Linked_Etag='"%s"' % sha, X_Linked_Size=len(data), ETag='"of-the-link"')
        if self.command == "HEAD":
            return self.reply(200, X_Repo_Commit=hub.commit, ETag='W/"%s"' % git_sha1(data),
                              Content_Length=str(len(data)))
        return self.contents(data, X_Repo_Commit=hub.commit, ETag='"%s"' % git_sha1(data))

    def contents(self, data, **headers):
        begin = 0
        if self.headers.get("Range"):
            begin = int(self.headers["Range"][len("bytes="):].split("-")[0])
        if self.server.faults and self.server.faults.pop(0)(self, data, begin):
            return None
        if begin >= len(data) > 0:
            return self.reply(416)
        if begin:
            headers["Content_Range"] = "bytes %d-%d/%d" % (begin, len(data) - 1, len(data))
        return self.reply(206 if begin else 200, data[begin:], **headers)

    # ---- faults ----

    def cut(self, data, begin):
        """The connection ends in the middle."""
        self.send_response(206 if begin else 200)
        self.send_header("Content-Length", str(len(data) - begin))
        self.end_headers()
        self.wfile.write(data[begin:begin + (len(data) - begin) // 2])
        self.wfile.flush()
        self.close_connection = True
        return True

    def busy(self, data, begin):
        self.reply(503, b"wait", Retry_After="0.1")
        return True

    def wrong(self, data, begin):
        self.reply(200, bytes(len(data)))
        return True

    def whole_again(self, data, begin):
        self.reply(200, data)
        return True

    def longer(self, data, begin):
        self.reply(200, data + b"more")
        return True

    def silent(self, data, begin):
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[:100])
        self.wfile.flush()
        time.sleep(4)
        self.close_connection = True
        return True


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.hub = Hub()
        for name in ("config.json", "model.safetensors"):
            with open(os.path.join(MODEL, name), "rb") as f:
                self.hub.files[name] = f.read()
        thread = threading.Thread(target=self.hub.serve_forever, daemon=True)
        thread.start()
        self.addCleanup(self.hub.server_close)
        self.addCleanup(self.hub.shutdown)
        self.variables = {"HF_ENDPOINT": self.hub.url, "HF_HUB_CACHE": self.path("hub"), "HF_HOME": self.path("home"),
                          "HF_HUB_DOWNLOAD_TIMEOUT": "1"}
        with open(self.path("p.ppm"), "wb") as f:
            f.write(b"P6 40 40 255\n" + bytes(range(240)) * 20)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def fovea(self, *args, code=0, **variables):
        env = {k: v for k, v in os.environ.items() if not k.startswith("HF_") and k != "HUGGINGFACE_HUB_CACHE"}
        p = subprocess.run([EXE, *args], capture_output=True, text=True, cwd=self.folder,
                           env={**env, **self.variables, **variables})
        self.assertEqual(p.returncode, code, p.stderr)
        return p

    def fetch(self, *more, code=0, **variables):
        return self.fovea("fetch", NAME, *more, code=code, **variables)

    def refused(self, words, code=7, **variables):
        p = self.fetch(code=code, **variables)
        self.assertIn(words, p.stderr)
        return p

    def stored(self, commit=COMMIT):
        """The files of a commit, each a link to a blob with the name of its checksum."""
        folder = self.path("hub", FOLDER, "snapshots", commit)
        found = {}
        for root, _, names in os.walk(folder):
            for name in names:
                path = os.path.join(root, name)
                blob = os.path.basename(os.readlink(path))
                self.assertEqual(os.path.realpath(path), os.path.realpath(self.path("hub", FOLDER, "blobs", blob)))
                with open(path, "rb") as f:
                    data = f.read()
                self.assertIn(blob, (git_sha1(data), hashlib.sha256(data).hexdigest()))
                found[os.path.relpath(path, folder)] = data
        return found

    def blobs(self):
        return sorted(os.listdir(self.path("hub", FOLDER, "blobs")))


class Fetch(Case):
    def test_the_layout(self):
        p = self.fetch()
        self.assertEqual(p.stdout.strip(), self.path("hub", FOLDER, "snapshots", COMMIT))
        self.assertEqual(self.stored(), self.hub.files)
        with open(self.path("hub", FOLDER, "refs", "main")) as f:
            self.assertEqual(f.read(), COMMIT)
        self.assertFalse([b for b in self.blobs() if b.endswith(".incomplete")])
        self.assertIn("2 files", p.stderr)

    def test_only_what_is_missing(self):
        self.fetch()
        self.hub.asked.clear()
        self.assertNotIn("file", self.fetch().stderr)
        self.assertEqual({method for method, _, _ in self.hub.asked}, {"HEAD"})
        self.hub.commit = NEWER
        self.hub.files["preprocessor_config.json"] = b'{"size": 32}'
        self.hub.asked.clear()
        self.fetch()
        self.assertEqual(self.stored(NEWER), self.hub.files)
        self.assertEqual([path.split("/")[-1] for method, path, _ in self.hub.asked if method == "GET"],
                         ["preprocessor_config.json"])
        with open(self.path("hub", FOLDER, "refs", "main")) as f:
            self.assertEqual(f.read(), NEWER)

    def test_more_files_and_revisions(self):
        self.hub.files["docs/README.md"] = b"read"
        self.fetch("docs/README.md")
        self.assertEqual(self.stored(), self.hub.files)
        self.assertIn("no absent.txt of this model", self.fetch("absent.txt", code=7).stderr)
        self.fetch("../x", code=1)
        self.fovea("fetch", NAME + "@" + COMMIT)
        self.assertFalse(os.path.exists(self.path("hub", FOLDER, "refs", COMMIT)))
        self.assertIn('no revision "other"', self.fovea("fetch", NAME + "@other", code=7).stderr)
        for name in ("tiny", "a/b/c", "../b", "a/..", "a/b@../c", "a/b.safetensors", "https://a/b"):
            self.fovea("fetch", name, code=1)

    def test_weights_in_parts(self):
        del self.hub.files["model.safetensors"]
        with open(os.path.join(MODEL, "model.safetensors"), "rb") as f:
            whole = f.read()
        names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
        self.hub.files.update({names[0]: whole, names[1]: whole[::-1]})
        self.hub.files["model.safetensors.index.json"] = json.dumps(
            {"weight_map": {"a": names[0], "b": names[1], "c": names[0]}}).encode()
        self.fetch()
        self.assertEqual(self.stored(), self.hub.files)
        for wrong in ({"a": "../../../x.safetensors"}, {"a": "x.txt"}, {"a": 7}, {}):
            self.hub.files["model.safetensors.index.json"] = json.dumps({"weight_map": wrong}).encode()
            self.refused("weight_map")
        del self.hub.files["model.safetensors.index.json"]
        self.refused("use fovea convert")

    def test_interrupted_downloads(self):
        self.hub.faults = [lambda *_: False, Answer.cut, Answer.busy, Answer.cut]
        self.fetch()
        self.assertEqual(self.stored(), self.hub.files)
        ranges = [headers.get("Range") for method, path, headers in self.hub.asked if path.startswith("/store")]
        self.assertEqual(ranges[0], None)
        self.assertTrue(all(r for r in ranges[1:]), ranges)

    def test_a_later_run_continues(self):
        self.hub.faults = [lambda *_: False] + 9 * [Answer.cut, Answer.busy]
        self.assertIn("the same command continues", self.refused("model.safetensors of " + NAME).stderr)
        part, = [b for b in self.blobs() if b.endswith(".incomplete")]
        have = os.path.getsize(self.path("hub", FOLDER, "blobs", part))
        self.assertGreater(have, 100)
        self.assertFalse(os.path.exists(self.path("hub", FOLDER, "refs", "main")))
        self.hub.faults = []
        self.hub.asked.clear()
        self.fetch()
        self.assertEqual(self.stored(), self.hub.files)
        self.assertIn("bytes=%d-" % have, [headers.get("Range") for _, _, headers in self.hub.asked])

    def test_a_server_that_begins_again(self):
        self.hub.faults = [lambda *_: False, Answer.cut, Answer.whole_again]
        self.fetch()
        self.assertEqual(self.stored(), self.hub.files)

    def test_wrong_contents(self):
        self.hub.faults = [lambda *_: False, Answer.wrong]
        self.refused("does not have the hub's checksum")
        self.assertEqual(len(self.blobs()), 1)  # config.json
        self.hub.faults = [Answer.longer] * 9
        self.refused("longer than the hub says")
        self.hub.faults = []
        self.fetch()
        self.assertEqual(self.stored(), self.hub.files)

    def test_a_slow_server(self):
        self.hub.faults = [lambda *_: False, Answer.silent]
        begin = time.time()
        self.fetch()
        self.assertLess(time.time() - begin, 20)
        self.assertEqual(self.stored(), self.hub.files)

    def test_what_is_refused(self):
        for status, code, words in ((401, "RepoNotFound", "no such model, or it is private"),
                                    (403, "GatedRepo", "terms"), (404, "RepoNotFound", "no such model"),
                                    (404, "", "no such model")):
            self.hub.refusal = status, code
            self.refused(words)
        self.hub.refusal = None
        self.refused("cannot be downloaded", HF_ENDPOINT="http://127.0.0.1:1")
        self.refused("HF_HUB_OFFLINE", HF_HUB_OFFLINE="yes")
        del self.hub.files["config.json"]
        self.refused("the hub has no config.json of this model")

    def test_a_renamed_model(self):
        self.hub.moved = True
        self.fetch()
        self.assertEqual(self.stored(), self.hub.files)

    def test_a_server_that_is_no_hub(self):
        self.hub.commit = ""
        self.refused("does not answer like a hub")

    def test_tokens(self):
        def sent(**variables):
            self.hub.asked.clear()
            p = self.fetch(**variables)
            self.assertNotIn("secret", p.stderr + p.stdout)
            return {path.startswith("/store"): headers.get("Authorization") for _, path, headers in self.hub.asked}

        self.assertEqual(sent(), {False: None, True: None})
        os.mkdir(self.path("home"))
        with open(self.path("home", "token"), "w") as f:
            f.write("secret-file\n")
        self.assertEqual(sent()[False], "Bearer secret-file")
        self.assertEqual(sent(HF_TOKEN="secret-variable")[False], "Bearer secret-variable")
        with open(self.path("other"), "w") as f:
            f.write("secret-path")
        self.assertEqual(sent(HF_TOKEN_PATH=self.path("other"))[False], "Bearer secret-path")

    def test_tokens_stay_with_the_hub(self):
        """The store is another host, which gets no token."""
        store = Hub()
        threading.Thread(target=store.serve_forever, daemon=True).start()
        self.addCleanup(store.server_close)
        self.addCleanup(store.shutdown)
        store.files = self.hub.files
        port = self.hub.server_port
        self.hub.__class__ = type("Elsewhere", (Hub,), {"url": "http://localhost:%d" % store.server_port})
        p = self.fetch(HF_TOKEN="secret", HF_ENDPOINT="http://127.0.0.1:%d" % port)
        self.assertNotIn("secret", p.stderr)
        self.assertEqual(self.stored(), self.hub.files)
        self.assertEqual({headers.get("Authorization") for _, _, headers in self.hub.asked}, {"Bearer secret"})
        self.assertEqual({headers.get("Authorization") for _, _, headers in store.asked}, {None})

    def test_two_at_once(self):
        def slow(answer, data, begin):
            time.sleep(0.5)
            return False

        self.hub.faults = [lambda *_: False, slow]
        threads = [threading.Thread(target=self.fetch) for _ in range(3)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(self.stored(), self.hub.files)
        self.assertEqual(sum(path.startswith("/store") for method, path, _ in self.hub.asked if method == "GET"), 1)

    def test_the_lock_of_another_program(self):
        sha = hashlib.sha256(self.hub.files["model.safetensors"]).hexdigest()
        os.makedirs(self.path("hub", ".locks", FOLDER))
        lock = open(self.path("hub", ".locks", FOLDER, sha + ".lock"), "w")
        fcntl.flock(lock, fcntl.LOCK_EX)
        timer = threading.Timer(1, lock.close)
        timer.start()
        self.assertIn("another process downloads it", self.fetch().stderr)

    def test_a_cache_that_cannot_be_written(self):
        with open(self.path("file"), "w"):
            pass
        self.refused("cannot be made", HF_HUB_CACHE=self.path("file", "hub"))


class Names(Case):
    def test_run_downloads_once(self):
        p = self.fovea("run", NAME, "p.ppm")
        self.assertIn(NAME + " is not in the cache and is downloaded to", p.stderr)
        want = self.fovea("run", MODEL, "p.ppm", "--json").stdout
        self.hub.asked.clear()
        got = self.fovea("run", NAME, "p.ppm", "--json", HF_HUB_OFFLINE="1").stdout
        self.assertEqual(self.hub.asked, [])
        self.assertEqual(json.loads(got)["top"], json.loads(want)["top"])

    def test_other_commands(self):
        self.fovea("plan", NAME)
        self.fovea("verify", NAME, HF_HUB_OFFLINE="1")
        self.fovea("run", NAME + "@" + COMMIT, "p.ppm", HF_HUB_OFFLINE="1")

    def test_a_folder_comes_first(self):
        os.makedirs(self.path("owner"))
        os.symlink(os.path.abspath(MODEL), self.path("owner", "tiny-vit"))
        self.fovea("run", NAME, "p.ppm")
        self.assertEqual(self.hub.asked, [])

    def test_offline(self):
        p = self.fovea("run", NAME, "p.ppm", code=7, HF_HUB_OFFLINE="1")
        self.assertIn("is not in the cache, ", p.stderr)

    def test_what_is_cached_is_listed(self):
        self.assertNotIn(NAME, self.fovea("info", "--models").stdout)
        self.fetch()
        self.assertIn(NAME, self.fovea("info", "--models").stdout)
        listed = json.loads(self.fovea("info", "--models", "--json").stdout)["cached"]
        self.assertEqual([(m["name"], m["folder"]) for m in listed],
                         [(NAME, self.path("hub", FOLDER, "snapshots", COMMIT))])
        self.assertGreater(listed[0]["bytes"], 1000)


if __name__ == "__main__":
    EXE = os.path.abspath(sys.argv.pop(1))
    if "built without libcurl" in subprocess.run([EXE, "fetch", "a/b"], capture_output=True, text=True,
                                        env={**os.environ, "HF_ENDPOINT": "http://127.0.0.1:1"}).stderr:
        print("the program was built without libcurl", file=sys.stderr)
        print("0 passed, 0 failed, 1 skipped")
        sys.exit(77)
    counted.main()
