// Sends a model file in pieces, works out its SHA-256 on the way, and compares
// that with what the box has installed.

const byId = (id) => document.getElementById(id);
const form = byId("upload");
const size = (n) => (n < 1 << 20 ? Math.ceil(n / 1024) + " KiB" : n < 1 << 30 ? (n / (1 << 20)).toFixed(1) + " MiB" : (n / (1 << 30)).toFixed(2) + " GiB");

// FIPS 180-4, sections 4.2.2, 5.3.3 and 6.2.2; whole blocks as they come.
const primes = [];
for (let n = 2; primes.length < 64; n++) if (primes.every((p) => n % p)) primes.push(n);
const part = (x) => ((x - Math.floor(x)) * 2 ** 32) | 0;
const K = Int32Array.from(primes, (p) => part(Math.cbrt(p)));

class SHA256 {
  constructor() {
    this.h = Int32Array.from(primes.slice(0, 8), (p) => part(Math.sqrt(p)));
    this.rest = new Uint8Array(0);
    this.bytes = 0;
    this.w = new Int32Array(64);
  }
  add(piece) {
    this.bytes += piece.length;
    let all = piece;
    if (this.rest.length) {
      all = new Uint8Array(this.rest.length + piece.length);
      all.set(this.rest);
      all.set(piece, this.rest.length);
    }
    const whole = all.length - (all.length % 64), view = new DataView(all.buffer, all.byteOffset);
    for (let at = 0; at < whole; at += 64) this.block(view, at);
    this.rest = all.slice(whole);
  }
  block(view, at) {
    const w = this.w;
    for (let i = 0; i < 16; i++) w[i] = view.getInt32(at + 4 * i);
    for (let i = 16; i < 64; i++) {
      const x = w[i - 15], y = w[i - 2];
      w[i] = (w[i - 16] + w[i - 7] + (((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3)) + (((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10))) | 0;
    }
    let [a, b, c, d, e, f, g, h] = this.h;
    for (let i = 0; i < 64; i++) {
      const t = (h + (((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7))) + ((e & f) ^ (~e & g)) + K[i] + w[i]) | 0;
      const u = ((((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10))) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      h = g; g = f; f = e; e = (d + t) | 0; d = c; c = b; b = a; a = (t + u) | 0;
    }
    [a, b, c, d, e, f, g, h].forEach((v, i) => { this.h[i] += v; });
  }
  hex() {
    const n = this.bytes, tail = new Uint8Array(((this.rest.length + 8) >> 6 << 6) + 64 - this.rest.length);
    tail[0] = 0x80;
    const view = new DataView(tail.buffer);
    view.setUint32(tail.length - 8, Math.floor(n / 2 ** 29));
    view.setUint32(tail.length - 4, (n * 8) >>> 0);
    this.add(tail);
    return Array.from(this.h, (v) => (v >>> 0).toString(16).padStart(8, "0")).join("");
  }
}

async function call(method, path, body, signal) {
  const reply = await fetch("/api" + path, { method, signal, headers: body ? { "content-type": "application/json" } : {}, body: body && JSON.stringify(body) });
  const answer = await reply.json().catch(() => null);
  if (!reply.ok) throw new Error(answer?.error?.message ?? "status " + reply.status);
  return answer;
}

// base64 of bytes, a stretch at a time: an argument list has its bounds.
function base64(bytes) {
  let text = "";
  for (let i = 0; i < bytes.length; i += 0x8000) text += String.fromCharCode(...bytes.subarray(i, i + 0x8000));
  return btoa(text);
}

let stop = null;
const say = (text) => { byId("u-state").textContent = text; };

async function send(file, signal) {
  const wanted = byId("u-digest").value.trim().toLowerCase().replace(/^sha256:/, "");
  let up = await call("POST", "/model-uploads", { file: file.name, name: byId("u-name").value.trim(), size: file.size, digest: wanted }, signal);
  const sum = new SHA256(), began = performance.now(), from = up.offset;
  for (let at = 0; at < file.size;) {
    const piece = new Uint8Array(await file.slice(at, at + up.chunk_bytes).arrayBuffer());
    if (at + piece.length > up.offset) {
      up = await call("POST", `/model-uploads/${up.id}/chunk`, { offset: up.offset, data: base64(piece.subarray(up.offset - at)) }, signal);
    }
    sum.add(piece);
    at += piece.length;
    byId("u-bar").value = at / file.size;
    const pace = (up.offset - from) / ((performance.now() - began) / 1000);
    say(at <= from ? "Going on: reading what was sent before…" : `${size(at)} of ${size(file.size)}, ${size(pace)}/s, ${Math.ceil((file.size - at) / Math.max(1, pace))} s to go`);
  }
  const digest = sum.hex();
  byId("u-sum").textContent = "SHA-256 " + digest;
  if (wanted && wanted !== digest) throw new Error("the file's digest is not the expected one; nothing was installed");
  say("Sent. Installing…");
  let job = await call("POST", `/model-uploads/${up.id}/finish`, null, signal);
  while (job.state === "running") {
    job = await call("GET", `/jobs/${job.id}?wait_ms=2000`, null, signal);
    say(`Installing… ${(100 * job.progress).toFixed(0)} %`);
  }
  if (job.state !== "done") throw new Error(job.error || job.state);
  const got = job.result?.source_digest || job.result?.digest || job.result?.Digest || "";
  say(got.replace(/^sha256:/, "") === digest ? "Installed. The box has the same digest." : "Installed.");
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const file = byId("u-file").files[0];
  if (!file || stop) return;
  stop = new AbortController();
  byId("u-bar").hidden = false;
  byId("u-stop").disabled = false;
  const warn = (e) => e.preventDefault();
  addEventListener("beforeunload", warn);
  try {
    await send(file, stop.signal);
  } catch (e) {
    say(e.name === "AbortError" ? "Paused. Send the same file again to go on." : "Not done: " + e.message);
  }
  removeEventListener("beforeunload", warn);
  byId("u-stop").disabled = true;
  stop = null;
});
byId("u-stop").addEventListener("click", () => stop?.abort());
