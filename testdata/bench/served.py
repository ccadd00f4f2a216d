"""A server of one model on loopback, its load and rows of a table: what the scripts beside this one share."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request


class Server:
    """hearth serve with one model; more are lines of its [[model]], env is added to the environment. With data, a data
    directory in which no server ran yet, the model m that was added there is served, from links to its files."""

    def __init__(self, a, model, *more, env={}, data=None):
        self.a, self.dir = a, tempfile.TemporaryDirectory()
        d = self.dir.name
        if data:
            shutil.copytree(data, d + "/data", copy_function=os.link)
        path = "m" if data else os.path.abspath(model)
        with open(d + "/c.toml", "w") as f:
            f.write(f'[tls]\nmode = "off"\n[[model]]\nname = "m"\npath = "{path}"\ndevice = "cpu"\nthreads = {a.threads}\n')
            f.write("".join(l + "\n" for l in more))
        self.log = open(d + "/log", "w")
        self.began = time.time()
        self.p = subprocess.Popen([a.hearth, "serve", "--data", d + "/data", "--config", d + "/c.toml", "--listen", "localhost:0"],
                                  stdout=self.log, stderr=self.log, env={**os.environ, **env})

    def __enter__(self):
        until = time.time() + 600
        while True:
            if self.p.poll() is not None or time.time() > until:
                sys.exit("the server did not start:\n" + open(self.dir.name + "/log").read()[-2000:])
            try:
                info = json.load(open(self.dir.name + "/data/first-run.json"))
                self.base, self.key = info["base_url"], info["api_key"]
                self.get("/readyz")
                return self
            except urllib.error.HTTPError as e:  # up, but its model is not, yet or at all
                text = e.read().decode()
                if time.time() > self.began + 120:
                    sys.exit("the model does not become ready: " + text[:2000])
                time.sleep(0.02)
            except (OSError, ValueError):
                time.sleep(0.02)

    def __exit__(self, *_):
        self.p.terminate()
        self.p.wait(60)
        self.log.close()
        self.dir.cleanup()

    def get(self, path):
        r = urllib.request.Request(self.base + path, headers={"Authorization": "Bearer " + self.key})
        return urllib.request.urlopen(r, timeout=10).read().decode()

    def first_token(self):
        """Returns when a streamed answer begins."""
        body = {"model": "m", "stream": True, "max_tokens": 2, "messages": [{"role": "user", "content": "Hello"}]}
        r = urllib.request.Request(self.base + "/v1/chat/completions", json.dumps(body).encode(),
                                   {"Authorization": "Bearer " + self.key, "Content-Type": "application/json"})
        with urllib.request.urlopen(r, timeout=60) as answer:
            for line in answer:
                if line.startswith(b"data: {") and any(c.get("delta", {}).get("content") for c in json.loads(line[6:])["choices"]):
                    return
        sys.exit("the answer has no text")

    def gauge(self, name):
        return sum(float(v) for v in re.findall(r"^" + re.escape(name) + r"(?:\{[^}]*\})? ([0-9.e+-]+)$", self.get("/metrics"), re.M))

    def resident(self):
        """MiB of the server and of its workers."""
        kids = open(f"/proc/{self.p.pid}/task/{self.p.pid}/children").read().split()
        for t in os.listdir(f"/proc/{self.p.pid}/task"):
            kids += open(f"/proc/{self.p.pid}/task/{t}/children").read().split()
        kib = 0
        for p in {str(self.p.pid), *kids}:
            kib += int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{p}/status").read()).group(1))
        return kib / 1024

    def load(self, streams, requests, words, tokens, *more, watch=None):
        """One closed loop; watch is called twice a second with this server."""
        over = threading.Event()

        def look():
            watch(self)
            while not over.wait(0.5):
                watch(self)

        t = threading.Thread(target=look)
        if watch:
            t.start()
        try:
            p = subprocess.run([self.a.hearth, "bench", "serve", "--base-url", self.base, "--model", "m", "--json", "--quiet", "--streams", str(streams),
                                "--requests", str(requests), "--prompt-words", str(words), "--max-tokens", str(tokens),
                                "--extra", '{"ignore_eos": true}', "--timeout", "30m", *more],
                               env={**os.environ, "HEARTH_API_KEY": self.key}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        finally:
            over.set()
            if watch:
                t.join()
        if p.returncode:
            sys.exit("hearth bench serve: " + p.stderr[-2000:])
        r = json.loads(p.stdout)[0]
        if r["done"] != r["requests"]:
            sys.exit(f"{r['requests'] - r['done']} of {r['requests']} requests were not answered: {r.get('errors')}")
        return r


def row(*cells):
    print("| " + " | ".join(str(c) for c in cells) + " |", flush=True)
