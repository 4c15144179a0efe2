#!/usr/bin/env python3
"""Writes small language models, and what PyTorch computes for them and for SmolLM2.

Run by hand with PyTorch 2.13.0 and gguf 0.19.0, in the folder tests/io:

    python3 decoder_values.py ../../build/models/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf

It writes decoder_llama.gguf, decoder_qwen2.gguf and decoder_qwen3.gguf with random weights, and
decoder_values.txt. Each model is evaluated in f64 from the numbers that its file defines:

    model NAME
    tokens N T0 T1 ..           the sequence
    logits POSITION STEP L0 L1 ..   logits of tokens 0, STEP, 2 STEP ..
    largest POSITION TOKEN LOGIT    the largest logit
    greedy N P0 P1 .. M G0 G1 ..    the M tokens after a prompt of N, each the most likely one

The evaluation follows the papers and transformers' modeling_llama.py and modeling_qwen3.py, not
llama.cpp or Tessera.
"""
import sys

import gguf
import numpy
import torch

SIZES = dict(layers=2, width=32, heads=2, kv_heads=1, length=16, hidden=48, vocabulary=61)


def write_model(path, architecture, generator):
    """A model with random weights in F16 and norms in F32."""
    s = SIZES
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(s["layers"])
    writer.add_context_length(256)
    writer.add_embedding_length(s["width"])
    writer.add_feed_forward_length(s["hidden"])
    writer.add_head_count(s["heads"])
    writer.add_head_count_kv(s["kv_heads"])
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(1000.0)
    writer.add_rope_dimension_count(s["length"])

    def add(name, *sizes, dtype=numpy.float16, mean=0.0, scale=0.3):
        values = torch.randn(*sizes, generator=generator, dtype=torch.float64) * scale + mean
        writer.add_tensor(name, values.numpy().astype(dtype))

    def add_norm(name, n):
        add(name, n, dtype=numpy.float32, mean=1.0, scale=0.2)

    q, k = s["heads"] * s["length"], s["kv_heads"] * s["length"]
    add("token_embd.weight", s["vocabulary"], s["width"], scale=1.0)
    add_norm("output_norm.weight", s["width"])
    if architecture == "qwen2":
        add("output.weight", s["vocabulary"], s["width"])
    if architecture == "llama":
        writer.add_tensor("rope_freqs.weight",
                          numpy.linspace(1.0, 8.0, s["length"] // 2, dtype=numpy.float32))
    for i in range(s["layers"]):
        prefix = f"blk.{i}."
        add_norm(prefix + "attn_norm.weight", s["width"])
        add_norm(prefix + "ffn_norm.weight", s["width"])
        for name, rows, columns in (("attn_q", q, s["width"]), ("attn_k", k, s["width"]),
                                    ("attn_v", k, s["width"]), ("attn_output", s["width"], q),
                                    ("ffn_gate", s["hidden"], s["width"]),
                                    ("ffn_up", s["hidden"], s["width"]),
                                    ("ffn_down", s["width"], s["hidden"])):
            add(f"{prefix}{name}.weight", rows, columns)
            if architecture == "qwen2" and name in ("attn_q", "attn_k", "attn_v"):
                add(f"{prefix}{name}.bias", rows, dtype=numpy.float32)
        if architecture == "qwen3":
            add_norm(prefix + "attn_q_norm.weight", s["length"])
            add_norm(prefix + "attn_k_norm.weight", s["length"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class Model:
    """Evaluates a file in f64."""

    def __init__(self, path):
        reader = gguf.GGUFReader(path)
        self.fields = {key: field.contents() for key, field in reader.fields.items()
                       if not key.startswith("tokenizer")}
        self.architecture = self.fields["general.architecture"]
        self.weights = {}
        for tensor in reader.tensors:
            values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
            sizes = [int(size) for size in reversed(tensor.shape)]
            self.weights[tensor.name] = torch.tensor(values, dtype=torch.float64).reshape(sizes)

    def field(self, name, default=None):
        return self.fields.get(f"{self.architecture}.{name}", default)

    def norm(self, name, x):
        epsilon = self.field("attention.layer_norm_rms_epsilon")
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + epsilon)
        return x * self.weights[name + ".weight"]

    def linear(self, name, x):
        y = x @ self.weights[name + ".weight"].T
        return y + self.weights[name + ".bias"] if name + ".bias" in self.weights else y

    def rotate(self, x):
        """x [heads][T][length]. llama's pairs are neighbours: its converter reorders them."""
        n = self.field("rope.dimension_count", x.shape[-1])
        frequencies = self.field("rope.freq_base", 1e4) ** (-torch.arange(0, n, 2).double() / n)
        if "rope_freqs.weight" in self.weights:
            frequencies = frequencies / self.weights["rope_freqs.weight"]
        angles = torch.arange(x.shape[1]).double()[:, None] * frequencies
        cos, sin = angles.cos(), angles.sin()
        if self.architecture == "llama":
            a, b = x[..., 0:n:2], x[..., 1:n:2]
            turned = torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)
        else:
            a, b = x[..., :n // 2], x[..., n // 2:n]
            turned = torch.cat((a * cos - b * sin, b * cos + a * sin), -1)
        return torch.cat((turned, x[..., n:]), -1)

    def attend(self, prefix, x):
        heads, kv_heads = self.field("attention.head_count"), self.field("attention.head_count_kv")
        parts = []
        for name, n in (("attn_q", heads), ("attn_k", kv_heads), ("attn_v", kv_heads)):
            part = self.linear(prefix + name, x).reshape(x.shape[0], n, -1).transpose(0, 1)
            if f"{prefix}{name}_norm.weight" in self.weights:
                part = self.norm(prefix + name + "_norm", part)
            part = part if name == "attn_v" else self.rotate(part)
            parts.append(part.repeat_interleave(heads // n, 0))
        y = torch.nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
        return self.linear(prefix + "attn_output", y.transpose(0, 1).flatten(1))

    def logits(self, tokens, last=False):
        x = self.weights["token_embd.weight"][torch.tensor(tokens)]
        for i in range(self.field("block_count")):
            prefix = f"blk.{i}."
            x = x + self.attend(prefix, self.norm(prefix + "attn_norm", x))
            y = self.norm(prefix + "ffn_norm", x)
            y = torch.nn.functional.silu(self.linear(prefix + "ffn_gate", y)) * self.linear(
                prefix + "ffn_up", y)
            x = x + self.linear(prefix + "ffn_down", y)
        x = self.norm("output_norm", x[-1:] if last else x)
        head = "output" if "output.weight" in self.weights else "token_embd"
        return x @ self.weights[head + ".weight"].T


def show(out, word, *numbers):
    print(word, *[n if isinstance(n, int) else f"{n:.9g}" for n in numbers], file=out)


def write_values(out, name, model, tokens, step, prompts, n_greedy):
    print("model", name, file=out)
    show(out, "tokens", len(tokens), *tokens)
    logits = model.logits(tokens)
    for position, row in enumerate(logits):
        some = row[::step].tolist()
        show(out, "logits", position, step, len(some), *some)
        show(out, "largest", position, int(row.argmax()), float(row.max()))
    for prompt in prompts:
        tokens = list(prompt)
        for _ in range(n_greedy):
            tokens.append(int(model.logits(tokens, last=True)[-1].argmax()))
        answer = tokens[len(prompt):]
        show(out, "greedy", len(prompt), *prompt, len(answer), *answer)


def main():
    torch.set_grad_enabled(False)
    generator = torch.Generator().manual_seed(1)
    with open("decoder_values.txt", "w", encoding="ascii") as out:
        print(f"# By decoder_values.py with PyTorch {torch.__version__.split('+')[0]}.", file=out)
        for architecture in ("llama", "qwen2", "qwen3"):
            path = f"decoder_{architecture}.gguf"
            write_model(path, architecture, generator)
            tokens = torch.randint(SIZES["vocabulary"], (90,), generator=generator).tolist()
            write_values(out, path, Model(path), tokens, 7, [tokens[:20]], 16)
        if len(sys.argv) < 2:
            return
        model = Model(sys.argv[1])
        n = model.weights["token_embd.weight"].shape[0]
        tokens = torch.randint(n, (64,), generator=generator).tolist()
        prompts = [torch.randint(n, (length,), generator=generator).tolist()
                   for length in (3, 5, 17, 20, 40)]
        write_values(out, "smollm2", model, tokens, 997, prompts, 64)


if __name__ == "__main__":
    main()
