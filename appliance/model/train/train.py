"""Makes hearth-tiny.gguf: a llama of 1.4 million parameters, trained on the dialogues of corpus.py.

    pip install -r requirements.txt
    python3 train.py ../hearth-tiny.gguf            # about half an hour on two cores
    python3 train.py OUT --steps 20                 # a quick look whether it runs

All random numbers come from fixed seeds, so the same machine gives the same file; another
processor may round otherwise and give weights that differ in the last bits.
"""
import argparse
import random
import time

import jax
import jax.numpy as jnp
import numpy as np

import corpus
from tokenizer import Tokenizer

VOCAB, WIDTH, LAYERS, HEADS, KV_HEADS, HEAD, FFN = 2048, 160, 4, 5, 1, 32, 448
LENGTH, CONTEXT, EPS, BASE = 384, 2048, 1e-5, 10000.0
TEMPLATE = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}{% endfor %}"
            "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


def initial(key):
    def mat(rows, cols, scale=1.0):
        nonlocal key
        key, k = jax.random.split(key)
        return jax.random.normal(k, (rows, cols), jnp.float32) * (scale * cols ** -0.5)

    out = (2 * LAYERS) ** -0.5
    return {
        "embed": mat(VOCAB, WIDTH, 0.5),
        "norm": jnp.ones(WIDTH),
        "layers": [{
            "an": jnp.ones(WIDTH), "fn": jnp.ones(WIDTH),
            "q": mat(HEADS * HEAD, WIDTH), "k": mat(KV_HEADS * HEAD, WIDTH), "v": mat(KV_HEADS * HEAD, WIDTH), "o": mat(WIDTH, HEADS * HEAD, out),
            "gate": mat(FFN, WIDTH), "up": mat(FFN, WIDTH), "down": mat(WIDTH, FFN, out),
        } for _ in range(LAYERS)],
    }


def norm(x, w):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + EPS) * w


def rope(x, cos, sin):
    """Turns pairs (2i, 2i+1), as GGUF's llama does."""
    a, b = x[..., 0::2], x[..., 1::2]
    return jnp.stack([a * cos - b * sin, a * sin + b * cos], -1).reshape(x.shape)


def forward(p, ids):
    n, t = ids.shape
    angle = jnp.arange(t)[:, None] * BASE ** (-jnp.arange(0, HEAD, 2) / HEAD)
    cos, sin = jnp.cos(angle)[:, None], jnp.sin(angle)[:, None]
    causal = jnp.tril(jnp.ones((t, t), bool))
    x = p["embed"][ids]
    for l in p["layers"]:
        h = norm(x, l["an"])
        q = rope((h @ l["q"].T).reshape(n, t, HEADS, HEAD), cos, sin).reshape(n, t, KV_HEADS, HEADS // KV_HEADS, HEAD)
        k = rope((h @ l["k"].T).reshape(n, t, KV_HEADS, HEAD), cos, sin)
        v = (h @ l["v"].T).reshape(n, t, KV_HEADS, HEAD)
        s = jnp.einsum("ntgqd,nsgd->ngqts", q, k) * HEAD ** -0.5
        a = jax.nn.softmax(jnp.where(causal, s, -1e30), -1)
        x = x + jnp.einsum("ngqts,nsgd->ntgqd", a, v).reshape(n, t, HEADS * HEAD) @ l["o"].T
        h = norm(x, l["fn"])
        x = x + (jax.nn.silu(h @ l["gate"].T) * (h @ l["up"].T)) @ l["down"].T
    return norm(x, p["norm"]) @ p["embed"].T


def loss(p, ids, weight):
    logits = forward(p, ids[:, :-1])
    nll = jax.nn.logsumexp(logits, -1) - jnp.take_along_axis(logits, ids[:, 1:, None], -1)[..., 0]
    return jnp.sum(nll * weight[:, 1:]) / jnp.sum(weight[:, 1:])


@jax.jit
def update(p, m, v, step, total, ids, weight):
    """AdamW (arXiv 1711.05101) with warm-up and cosine decay; gradients are clipped to norm 1."""
    value, g = jax.value_and_grad(loss)(p, ids, weight)
    size = jnp.sqrt(sum(jnp.sum(x * x) for x in jax.tree.leaves(g)))
    g = jax.tree.map(lambda x: x * jnp.minimum(1.0, 1.0 / size), g)
    lr = 3e-3 * jnp.minimum((step + 1) / 100, 0.02 + 0.49 * (1 + jnp.cos(jnp.pi * step / total)))
    m = jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, m, g)
    v = jax.tree.map(lambda a, b: 0.97 * a + 0.03 * b * b, v, g)
    c1, c2 = 1 - 0.9 ** (step + 1), 1 - 0.97 ** (step + 1)
    p = jax.tree.map(lambda x, a, b: x - lr * ((a / c1) / (jnp.sqrt(b / c2) + 1e-8) + (0.05 if x.ndim == 2 else 0.0) * x), p, m, v)
    return p, m, v, value


class Data:
    """An endless row of dialogues, cut into sequences of LENGTH+1 tokens."""

    def __init__(self, tok, seed):
        self.tok, self.r, self.ids, self.weight = tok, random.Random(seed), [], []

    def add(self):
        start, end = self.tok.ids["<|im_start|>"], self.tok.ids["<|im_end|>"]
        line = self.tok.encode("\n")
        for role, text in corpus.dialogue(self.r):
            head = [start] + self.tok.encode(role + "\n")
            body = self.tok.encode(text) + [end]
            w = 1.0 if role == "assistant" else 0.05
            self.ids += head + body + line
            self.weight += [0.05] * len(head) + [w] * len(body) + [0.05] * len(line)
        self.ids.append(self.tok.ids["<|endoftext|>"])
        self.weight.append(0.05)

    def batch(self, n):
        rows = []
        for _ in range(n):
            while len(self.ids) <= LENGTH:
                self.add()
            rows.append((self.ids[:LENGTH + 1], self.weight[:LENGTH + 1]))
            # A dialogue begins each sequence, so that short contexts are seen most.
            self.ids, self.weight = [], []
        return np.array([a for a, _ in rows]), np.array([b for _, b in rows], np.float32)


def write(path, p, tok):
    import gguf
    from gguf.quants import quantize
    w = gguf.GGUFWriter(path, "llama")
    w.add_name("hearth-tiny")
    w.add_description("Answers questions about the Hearth appliance")
    w.add_license("apache-2.0")
    w.add_context_length(CONTEXT)
    w.add_embedding_length(WIDTH)
    w.add_block_count(LAYERS)
    w.add_feed_forward_length(FFN)
    w.add_head_count(HEADS)
    w.add_head_count_kv(KV_HEADS)
    w.add_rope_dimension_count(HEAD)
    w.add_rope_freq_base(BASE)
    w.add_layer_norm_rms_eps(EPS)
    w.add_vocab_size(VOCAB)
    w.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("gpt-2")
    w.add_token_list(tok.tokens)
    unused = gguf.TokenType.UNUSED
    w.add_token_types([gguf.TokenType.CONTROL if t.startswith("<|") and t.endswith("|>") else unused if t.startswith("<unused") else gguf.TokenType.NORMAL for t in tok.tokens])
    w.add_token_merges([" ".join(m) for m in tok.merges])
    w.add_bos_token_id(tok.ids["<|endoftext|>"])
    w.add_eos_token_id(tok.ids["<|im_end|>"])
    w.add_pad_token_id(tok.ids["<|endoftext|>"])
    w.add_add_bos_token(False)
    w.add_chat_template(TEMPLATE)

    def matrix(name, x):
        q = gguf.GGMLQuantizationType.Q8_0
        w.add_tensor(name, quantize(np.asarray(x, np.float32), q), raw_dtype=q)

    matrix("token_embd.weight", p["embed"])
    w.add_tensor("output_norm.weight", np.asarray(p["norm"], np.float32))
    for i, l in enumerate(p["layers"]):
        w.add_tensor(f"blk.{i}.attn_norm.weight", np.asarray(l["an"], np.float32))
        w.add_tensor(f"blk.{i}.ffn_norm.weight", np.asarray(l["fn"], np.float32))
        for ours, theirs in {"q": "attn_q", "k": "attn_k", "v": "attn_v", "o": "attn_output", "gate": "ffn_gate", "up": "ffn_up", "down": "ffn_down"}.items():
            matrix(f"blk.{i}.{theirs}.weight", l[ours])
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def answer(p, tok, question, run, limit=90):
    head = lambda role: [tok.ids["<|im_start|>"]] + tok.encode(role + "\n")
    ids = head("user") + tok.encode(question) + [tok.ids["<|im_end|>"]] + tok.encode("\n") + head("assistant")
    begin = len(ids)
    while len(ids) < begin + limit:
        padded = np.zeros((1, 160), np.int32)
        padded[0, :len(ids)] = ids[:160]
        if len(ids) >= 160:
            break
        ids.append(int(np.argmax(run(p, padded)[0, len(ids) - 1])))
        if ids[-1] == tok.ids["<|im_end|>"]:
            break
    names = {c: b for b, c in tok.names.items()}
    return bytes(names[c] for i in ids[begin:] if not tok.tokens[i].startswith("<|") for c in tok.tokens[i]).decode("utf-8", "replace")


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("out")
    a.add_argument("--steps", type=int, default=2200)
    a.add_argument("--batch", type=int, default=3)
    o = a.parse_args()
    r = random.Random(1)
    texts = [t for _ in range(6000) for _, t in corpus.dialogue(r)]
    tok = Tokenizer(texts, VOCAB)
    p = initial(jax.random.PRNGKey(0))
    print("parameters", sum(x.size for x in jax.tree.leaves(p)), "merges", len(tok.merges))
    m = jax.tree.map(jnp.zeros_like, p)
    v = jax.tree.map(jnp.zeros_like, p)
    data, began = Data(tok, 2), time.time()
    run = jax.jit(forward)
    for step in range(o.steps):
        ids, weight = data.batch(o.batch)
        p, m, v, value = update(p, m, v, step, o.steps, ids, weight)
        if step % 20 == 0 or step == o.steps - 1:
            print(f"step {step} loss {float(value):.4f} {time.time() - began:.0f} s", flush=True)
        if step % 200 == 199:
            write(o.out + ".part", p, tok)
            for q in ["How do I add a model?", "hello", "i need a new api key please", "What is the capital of Italy?"]:
                print("  ", q, "→", answer(p, tok, q, run), flush=True)
    write(o.out, p, tok)


if __name__ == "__main__":
    main()
