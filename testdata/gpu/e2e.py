#!/usr/bin/env python3
"""Serves models on a GPU whose driver is fake, and compares with the CPU. Standard library only, loopback only.

    e2e.py BINARY FAKE_DIR [SHARED]     FAKE_DIR has kernels/fakecuda as libcuda.so.1 and kernels/fakenvml as libnvidia-ml.so.1

Every model of SHARED/models/tiny is asked for the prompts of its vectors, on the CPU, and on the GPU with graphs and
without: the tokens must be the same. Before that: what is told of the devices, what is said where there is no driver, an old
one, one that refuses the kernels, a GPU that is too old or has too little memory. HEARTH_REAL_MODEL names a model file that
is run for a few tokens too. Ends with "N passed, M failed".
"""
import atexit
import concurrent.futures
import glob
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

GPU = "8.0,memory=1GiB,sms=8"
BATCH = 6  # models of a server
STEADY = dict(FAKECUDA_CHECKS="0")
HOWS = {"cpu": ("--device", "cpu"), "graphs": ("--device", "cuda"), "no graphs": ("--device", "cuda", "--cuda-graphs", "off")}
REAL_TOKENS = 4


class Server:
    def __init__(self, binary, models, library=None, flags=(), more="", wait=True, **env):
        self.binary, self.dir = binary, tempfile.mkdtemp(prefix="hearth-gpu-")
        self.log = open(self.dir + "/log", "w+")
        text = f'[cuda]\nlibrary = "{library}"\nstall = "10m"\n' if library else ""  # an interpreter is no GPU
        for name, path in models.items():
            text += f'[[model]]\nname = "{name}"\npath = "{path}"\n' + more
        with open(self.dir + "/c.toml", "w") as f:
            f.write(text)
        self.proc = subprocess.Popen([binary, "serve", "--data", self.dir + "/data", "--config", self.dir + "/c.toml", "--listen", "localhost:0", *flags],
                                     stdout=self.log, stderr=self.log, env=dict(os.environ, **env))
        atexit.register(self.proc.kill)  # does nothing to one that has ended
        self.ready(300 if wait else 15, wait)

    def ready(self, seconds, must):
        """Waits until the server is ready, or with must unset until it says why it is not."""
        until, self.said = time.time() + seconds, ""
        while time.time() < until:
            if self.proc.poll() is not None:
                sys.exit("the server ended\n" + self.output())
            try:
                with open(self.dir + "/data/first-run.json") as f:
                    self.info = json.load(f)
                self.tls = ssl.create_default_context(cafile=self.info["ca_file"])
                self.said = self.get("/readyz")
                return
            except urllib.error.HTTPError as e:
                self.said = e.read().decode()
                if not must and "cannot load" in self.said:
                    return
            except (OSError, ValueError):
                pass
            time.sleep(0.05)
        if must:
            sys.exit(f"the server is not ready: {self.said}\n" + self.output())

    def output(self):
        self.log.seek(0)
        return self.log.read()[-3000:]

    def get(self, path):
        r = urllib.request.Request(self.info["base_url"] + path, headers={"Authorization": "Bearer " + self.info["api_key"]})
        return urllib.request.urlopen(r, context=self.tls, timeout=60).read().decode()

    def post(self, path, body):
        r = urllib.request.Request(self.info["base_url"] + path, json.dumps(body).encode(),
                                   {"Authorization": "Bearer " + self.info["api_key"], "Content-Type": "application/json"})
        return json.load(urllib.request.urlopen(r, context=self.tls, timeout=900))

    def tokens(self, model, prompt, most):
        a = self.post("/v1/completions", {"model": model, "prompt": prompt, "max_tokens": most, "temperature": 0, "ignore_eos": True, "return_token_ids": True})
        return a["choices"][0]["token_ids"]

    def plan(self, model, *args):
        """What hearth model plan says of a model of this server, and the words where it says none."""
        r = subprocess.run([self.binary, "model", "plan", model, "--data", self.dir + "/data", "--json", *args], capture_output=True, text=True)
        return (json.loads(r.stdout) if r.stdout else {}), r.stderr

    def stop(self):
        self.proc.terminate()
        self.proc.wait(60)


class Report:
    passed, failed = 0, 0

    def check(self, ok, text):
        if ok:
            self.passed += 1
        else:
            self.failed += 1
            print("FAILED", text, flush=True)


def devices(report, binary, fake):
    """What is told of the GPUs, by the commands and by a server with a model on one."""
    env = dict(os.environ, FAKECUDA_DEVICES=GPU + ";9.0,memory=2GiB", FAKECUDA_CHECKS="0")
    with tempfile.TemporaryDirectory() as d:
        with open(d + "/c.toml", "w") as f:
            f.write(f'[cuda]\nlibrary = "{fake}"\n')
        run = lambda *args: subprocess.run([binary, "device", *args, "--data", d + "/data", "--config", d + "/c.toml", "--json"], env=env, capture_output=True, text=True)
        r = run("list")
        report.check(r.returncode == 0, f"device list: {r.stderr}")
        gpus = json.loads(r.stdout)["gpus"]
        report.check([g["compute"] for g in gpus["devices"]] == ["8.0", "9.0"], f"device list shows {gpus}")
        report.check(gpus["nvml"] == "through go-nvml" and gpus["driver"], f"readings: {gpus['nvml']}")
        for g in gpus["devices"]:
            names = {x["name"] for x in g["readings"]}
            report.check({"temperature_celsius", "power_watts", "memory_used_bytes", "memory_total_bytes"} <= names, f"readings of {g['id']}: {names}")
        r = run("doctor")
        found = json.loads(r.stdout)
        report.check(r.returncode == 0 and found["failed"] == 0 and any("compiles all" in f["detail"] for f in found["findings"]), f"device doctor: {r.stdout} {r.stderr}")
        r = run("bench", "cuda:0", "--seconds", "1")
        report.check(r.returncode == 0 and len(json.loads(r.stdout or '{"copies":[]}')["copies"]) == 3, f"device bench: {r.stdout[-300:]} {r.stderr}")
    s = Server(binary, {"m": "embedded"}, fake, FAKECUDA_DEVICES=GPU, **STEADY)
    report.check(s.said == "ready\n", f"with a GPU: {s.said!r}")
    metrics = s.get("/metrics")
    report.check('hearth_model_ready{device="cuda:0"' in metrics and "hearth_model_degraded" not in metrics, "metrics of a model on a GPU")
    p, _ = s.plan("m", "--kv-memory", "64MiB")
    report.check(p.get("device") == "cuda:0" and p["fits"] and p["loaded"] and p["kv_bytes"] <= 64 << 20 and p["available_bytes"] < 1 << 30, f"the plan of a model on a GPU: {p}")
    report.check('DCGM_FI_DEV_GPU_TEMP{' in metrics and 'hearth_device_memory_bytes{device="cuda:0"' in metrics, "metrics of the GPU")
    s.stop()


def replicas(report, binary, fake):
    """A model on two GPUs: both work, a common beginning stays together, and one that is lost is not missed."""
    s = Server(binary, {"m": "embedded"}, fake, ("--device", "cuda"), "replicas = 2\n", FAKECUDA_DEVICES=GPU + ";9.0,memory=1GiB,sms=8", **STEADY)
    report.check(s.said == "ready\n", f"two replicas: {s.said!r}")
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        texts = [f"Story {i}. " + f"word{i} " * 60 for i in range(4)]
        ask = lambda t: s.post("/v1/completions", {"model": "m", "prompt": t, "max_tokens": 3, "temperature": 0})["choices"][0]["text"]
        first = list(pool.map(ask, texts))
    report.check(list(map(ask, texts)) == first, "answers of two replicas differ")
    metrics = s.get("/metrics")
    report.check('device="cuda:0,cuda:1"' in metrics, "the metrics do not name both GPUs")
    hits = sum(float(l.rsplit(" ", 1)[1]) for l in metrics.splitlines() if l.startswith("vllm:prefix_cache_hits_total{"))
    report.check(hits >= 4 * 32, f"{hits} tokens were found in the caches: requests do not go where their beginning is")
    workers = [int(x) for x in subprocess.run(["ps", "-o", "pid=", "--ppid", str(s.proc.pid)], capture_output=True, text=True).stdout.split()]
    report.check(len(workers) == 2, f"{len(workers)} workers")
    os.kill(workers[0], signal.SIGKILL)
    for t in texts:
        report.check(ask(t) == first[texts.index(t)], "an answer changed when a replica was lost")
    s.stop()


def troubles(report, binary, fake):
    """Each trouble is named; a model that may goes to the CPU, one that must not is not served."""
    nothing = tempfile.mkdtemp(prefix="hearth-nodriver-")
    for what, code, library, env in [
        ("no driver", "no_driver", nothing, {}),
        ("no GPU", "no_device", fake, dict(FAKECUDA_DEVICES="none")),
        ("an old driver", "old_driver", fake, dict(FAKECUDA_DRIVER_VERSION="11040")),
        ("an old GPU", "unsupported_gpu", fake, dict(FAKECUDA_DEVICES="7.5")),
        ("refused kernels", "ptx_refused", fake, dict(FAKECUDA_ERRORS="cuModuleLoadDataEx:1+=222")),
        ("no code for the GPU", "wrong_architecture", fake, dict(FAKECUDA_ERRORS="cuModuleLoadDataEx:1+=209")),
        ("too little memory", "out_of_memory", fake, dict(FAKECUDA_ERRORS="cuMemAlloc_v2:2+=2")),
        ("a degraded GPU", "degraded_device", fake, dict(FAKECUDA_ERRORS="cuMemAlloc_v2:1+=214")),
    ]:
        s = Server(binary, {"m": "embedded"}, library, **{"FAKECUDA_DEVICES": GPU, **STEADY, **env})
        report.check(s.said.startswith("ready\n") and code + ": " in s.said, f"{what}: /readyz says {s.said!r}")
        report.check(f'reason="{code}"' in s.get("/metrics"), f"{what}: the metrics do not say {code}")
        if library == nothing:
            p, _ = s.plan("m")
            report.check(p.get("device") == "cpu" and p["note"].startswith(code + ": "), f"{what}: the plan says {p}")
        a = s.post("/v1/chat/completions", {"model": "m", "max_tokens": 4, "messages": [{"role": "user", "content": "Hello"}]})
        report.check(a["usage"]["completion_tokens"] > 0, f"{what}: {a}")
        s.stop()
        s = Server(binary, {"m": "embedded"}, library, ("--device", "cuda"), wait=False, **{"FAKECUDA_DEVICES": GPU, **STEADY, **env})
        report.check("not ready" in s.said and code in s.said, f"{what}, with --device cuda: /readyz says {s.said!r}")
        if library == nothing:
            p, words = s.plan("m")
            report.check(not p and code in words, f"{what}, with --device cuda: the plan says {p} {words}")
        s.stop()


def bare(report, binary):
    """An empty root: no C library, no /proc, no devices."""
    ldd = subprocess.run(["ldd", binary], capture_output=True, text=True)
    report.check("not a dynamic executable" in ldd.stdout + ldd.stderr, f"ldd: {ldd.stdout}{ldd.stderr}")
    if os.geteuid() != 0:
        print("LOUD: only root can change the root, the empty one was not tried")
        return
    chroot = shutil.which("chroot")
    root = tempfile.mkdtemp(prefix="hearth-root-")
    os.makedirs(root + "/tmp")
    subprocess.run(["cp", binary, root + "/hearth"], check=True)
    r = subprocess.run([chroot, root, "/hearth", "version"], capture_output=True, text=True)
    report.check(r.returncode == 0 and "with a GPU worker" in r.stdout, f"in an empty root: {r}")
    r = subprocess.run([chroot, root, "/hearth", "device", "list", "--data", "/d", "--json"], capture_output=True, text=True, env={})
    report.check(r.returncode == 0 and json.loads(r.stdout)["gpus"]["fault"]["code"] == "worker_cannot_start", f"in an empty root: {r}")
    log = open(root + "/log", "w")
    p = subprocess.Popen([chroot, root, "/hearth", "serve", "--data", "/d", "--listen", "127.0.0.1:0"], stdout=log, stderr=log, env={})
    try:
        until = time.time() + 60
        while time.time() < until:
            try:
                info = json.load(open(root + "/d/first-run.json"))
                tls = ssl.create_default_context(cafile=root + info["ca_file"])
                r = urllib.request.Request(info["base_url"] + "/v1/chat/completions", headers={"Authorization": "Bearer " + info["api_key"], "Content-Type": "application/json"},
                                           data=json.dumps({"model": "hearth-tiny", "max_tokens": 4, "messages": [{"role": "user", "content": "Hello"}]}).encode())
                a = json.load(urllib.request.urlopen(r, context=tls, timeout=30))
                report.check(a["usage"]["completion_tokens"] > 0, f"in an empty root: {a}")
                return
            except (OSError, ValueError):
                time.sleep(0.1)
        report.check(False, "in an empty root the server does not answer: " + open(root + "/log").read()[-1000:])
    finally:
        p.terminate()
        p.wait(30)


# Where another token than the CPU's is no fault: where the vectors' best two logits are so near each other that the order of
# float32 sums decides. What is rounded to 8 bits is rounded alike, but that order decides too to which side an input falls that
# lies between two of their levels.
TIE, ROUNDED_TIE = 2e-3, 0.05


def prompts(shared):
    """Every tiny model with the cases of its vectors."""
    out = {}
    for f in sorted(glob.glob(shared + "/vectors/tiny/*.json") + glob.glob(shared + "/vectors/tiny-gguf/*.json")):
        v = json.load(open(f))
        for c in v["cases"]:
            out.setdefault(os.path.abspath(os.path.join(shared, "models", c.get("gguf") or v.get("model"))), []).append(c)
    return out


def agrees(path, got, cpu, case):
    """The CPU's tokens, or the vectors' up to a step that says nothing."""
    if got == cpu:
        return True
    bound = ROUNDED_TIE if re.search(r"\.(I?Q\d)", path) else TIE
    for i, (a, b) in enumerate(zip(got, case["greedy_ids"])):
        if a != b:
            return case["greedy_margins"][i] <= bound
    return True


def models(report, binary, fake, shared):
    all = prompts(shared)
    if not all:
        print("LOUD: ../shared is absent, no model was compared")
        return
    paths = [p for p in sorted(all) if os.environ.get("MODELS", "") in p]
    exact = asked = 0
    for at in range(0, len(paths), BATCH):
        names = {f"m{i}": p for i, p in enumerate(paths[at:at + BATCH])}
        answers = {}
        for how, flags in HOWS.items():
            # The CPU keeps its cache in float32; a cache of 16 bits moves what is near a rounding of activations to 8.
            s = Server(binary, names, fake, flags, 'kv_type = "f32"\n', FAKECUDA_DEVICES=GPU, **STEADY)
            answers[how] = {n: [s.tokens(n, c["prompt_ids"], len(c["greedy_ids"])) for c in all[p]] for n, p in names.items()}
            s.stop()
        for n, p in names.items():
            for how in ("graphs", "no graphs"):
                well = sum(agrees(p, got, cpu, c) for got, cpu, c in zip(answers[how][n], answers["cpu"][n], all[p]))
                exact += sum(a == b for a, b in zip(answers["cpu"][n], answers[how][n]))
                asked += len(all[p])
                report.check(well == len(all[p]), f"{os.path.relpath(p, shared)}, {how}: {well} of {len(all[p])} answers are as they must be")
        print(f"{min(at + BATCH, len(paths))} of {len(paths)} models, {exact} of {asked} answers are the CPU's to the token", flush=True)


def real(report, binary, fake, file):
    """A real model for a few tokens: the interpreter takes seconds for each."""
    prompt, answers = "The capital of France is", {}
    for how, flags in HOWS.items():
        s = Server(binary, {"m": file}, fake, flags, "context = 256\nmax_sequences = 1\n", FAKECUDA_DEVICES="9.0,memory=2GiB,sms=8", **STEADY)
        report.check(s.said == "ready\n", f"{file}, {how}: /readyz says {s.said!r}")
        began = time.time()
        answers[how] = s.tokens("m", prompt, REAL_TOKENS)
        print(f"{os.path.basename(file)}, {how}: tokens {answers[how]} in {time.time() - began:.1f} s", flush=True)
        s.stop()
    for how, got in answers.items():
        report.check(got == answers["cpu"] and len(got) == REAL_TOKENS, f"{file}, {how}: {got}, the CPU gives {answers['cpu']}")


def main():
    binary, fake = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    report, began = Report(), time.time()
    steps = [("devices", lambda: devices(report, binary, fake)), ("replicas", lambda: replicas(report, binary, fake)),
             ("troubles", lambda: troubles(report, binary, fake)), ("an empty root", lambda: bare(report, binary)),
             ("models", lambda: models(report, binary, fake, sys.argv[3]) if len(sys.argv) > 3 else None)]
    if file := os.environ.get("HEARTH_REAL_MODEL"):
        steps.append(("a real model", lambda: real(report, binary, fake, os.path.abspath(file))))
    else:
        print("LOUD: HEARTH_REAL_MODEL names no model file, none was run")
    for name, step in steps:
        if os.environ.get("ONLY", name) == name:
            step()
            print(f"{name}: {report.passed} passed, {report.failed} failed after {time.time() - began:.0f} s", flush=True)
    print(f"{report.passed} passed, {report.failed} failed")
    sys.exit(1 if report.failed else 0)


main()
