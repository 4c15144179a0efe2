#!/usr/bin/env python3
"""Writes small language models, and what PyTorch computes for them and for SmolLM2.

Run by hand with PyTorch 2.13.0 and gguf 0.19.0, in the folder tests/io:

    python3 decoder_values.py ../../build/models/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf

It writes decoder_llama.gguf, decoder_qwen2.gguf and others with random weights, and
decoder_values.txt. decoder_yarn.gguf is a qwen2 model with yarn scaling. Each model is evaluated in f64 from the numbers that its file defines:

    model NAME
    tokens N T0 T1 ..           the sequence
    logits POSITION STEP L0 L1 ..   logits of tokens 0, STEP, 2 STEP ..
    largest POSITION TOKEN LOGIT    the largest logit
    greedy N P0 P1 .. M G0 G1 ..    the M tokens after a prompt of N, each the most likely one

The evaluation follows the papers and transformers' modeling_llama.py, modeling_qwen3.py,
modeling_gemma2.py, modeling_gemma3.py and modeling_phi3.py, not llama.cpp or Tessera. With --llama
and llama-cpp-python, the script compares it with llama.cpp instead of writing files.
"""
import math
import sys

import gguf
import numpy
import torch

SIZES = dict(layers=2, width=32, heads=2, kv_heads=1, length=16, hidden=48, vocabulary=61)


# Sizes and metadata that differ from SIZES and from those of llama.
VARIANTS = {
    "gemma2": dict(layers=3, window=7, numbers={"attn_logit_softcapping": 5.0,
                                                "final_logit_softcapping": 6.0}),
    "gemma3": dict(layers=7, window=9, numbers={"rope.scaling.factor": 8.0},
                   texts={"rope.scaling.type": "linear"}),
    "phi3": dict(numbers={"rope.scaling.attn_factor": 1.25},
                 integers={"rope.scaling.original_context_length": 64}),
    "yarn": dict(numbers={"rope.scaling.factor": 4.0}, texts={"rope.scaling.type": "yarn"},
                 integers={"rope.scaling.original_context_length": 64}),
}


def add_variant(writer, architecture, variant):
    if "window" in variant:
        writer.add_sliding_window(variant["window"])
    for name, value in variant.get("numbers", {}).items():
        writer.add_float32(f"{architecture}.{name}", value)
    for name, value in variant.get("texts", {}).items():
        writer.add_string(f"{architecture}.{name}", value)
    for name, value in variant.get("integers", {}).items():
        writer.add_uint32(f"{architecture}.{name}", value)


def write_model(path, architecture, generator, for_llama=False):
    """A model with random weights in F16 and norms in F32."""
    variant = VARIANTS.get(architecture, {})
    s = {**SIZES, **{key: variant[key] for key in variant if key in SIZES}}
    architecture = "qwen2" if architecture == "yarn" else architecture
    is_gemma = architecture.startswith("gemma")
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
    if is_gemma:
        writer.add_key_length(s["length"])
        writer.add_value_length(s["length"])
    add_variant(writer, architecture, variant)
    if for_llama:
        writer.add_tokenizer_model("none")
        writer.add_vocab_size(s["vocabulary"])

    def add(name, *sizes, dtype=numpy.float16, mean=0.0, scale=0.3):
        values = torch.randn(*sizes, generator=generator, dtype=torch.float64) * scale + mean
        writer.add_tensor(name, values.numpy().astype(dtype))

    def add_norm(name, n):
        add(name, n, dtype=numpy.float32, mean=1.0, scale=0.2)

    q, k = s["heads"] * s["length"], s["kv_heads"] * s["length"]
    add("token_embd.weight", s["vocabulary"], s["width"], scale=1.0)
    add_norm("output_norm.weight", s["width"])
    if architecture in ("qwen2", "phi3"):
        add("output.weight", s["vocabulary"], s["width"])
    if architecture == "phi3":
        for name, last in (("short", 2.0), ("long", 16.0)):
            writer.add_tensor(f"rope_factors_{name}.weight",
                              numpy.linspace(1.0, last, s["length"] // 2, dtype=numpy.float32))
    if architecture == "llama":
        writer.add_tensor("rope_freqs.weight",
                          numpy.linspace(1.0, 8.0, s["length"] // 2, dtype=numpy.float32))
    for i in range(s["layers"]):
        prefix = f"blk.{i}."
        add_norm(prefix + "attn_norm.weight", s["width"])
        add_norm(prefix + "ffn_norm.weight", s["width"])
        if is_gemma:
            add_norm(prefix + "post_attention_norm.weight", s["width"])
            add_norm(prefix + "post_ffw_norm.weight", s["width"])
        shapes = [("attn_q", q, s["width"]), ("attn_k", k, s["width"]), ("attn_v", k, s["width"]),
                  ("attn_output", s["width"], q), ("ffn_gate", s["hidden"], s["width"]),
                  ("ffn_up", s["hidden"], s["width"]), ("ffn_down", s["width"], s["hidden"])]
        if architecture == "phi3":
            shapes = [("attn_qkv", q + 2 * k, s["width"]), ("attn_output", s["width"], q),
                      ("ffn_up", 2 * s["hidden"], s["width"]),
                      ("ffn_down", s["width"], s["hidden"])]
        for name, rows, columns in shapes:
            add(f"{prefix}{name}.weight", rows, columns)
            if architecture == "qwen2" and name in ("attn_q", "attn_k", "attn_v"):
                add(f"{prefix}{name}.bias", rows, dtype=numpy.float32)
        if architecture in ("qwen3", "gemma3"):
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

    def frequencies(self, is_local):
        """Angles at position 1, and the factor of cos and sin."""
        n, base = self.field("rope.dimension_count"), self.field("rope.freq_base", 1e4)
        if is_local and self.architecture == "gemma3":
            return 1e4 ** (-torch.arange(0, n, 2).double() / n), 1.0
        frequencies = base ** (-torch.arange(0, n, 2).double() / n)
        factor = self.field("rope.scaling.factor", 1.0)
        trained = self.field("rope.scaling.original_context_length", 0)
        for name in ("rope_freqs", "rope_factors_long"):  # contexts are longer than `trained`
            if name + ".weight" in self.weights:
                frequencies = frequencies / self.weights[name + ".weight"]
        if self.field("rope.scaling.type") != "yarn":
            return frequencies / factor, self.field("rope.scaling.attn_factor", 1.0)
        # transformers' _compute_yarn_parameters
        low, high = (n * math.log(trained / (turns * 2 * math.pi)) / (2 * math.log(base))
                     for turns in (32, 1))
        low, high = max(math.floor(low), 0), min(math.ceil(high), n - 1)
        share = ((torch.arange(n // 2).double() - low) / (high - low)).clamp(0, 1)
        return frequencies * (1 - share) + frequencies / factor * share, 0.1 * math.log(factor) + 1

    def rotate(self, x, is_local):
        """x [heads][T][length]. llama's pairs are neighbours: its converter reorders them."""
        n = self.field("rope.dimension_count", x.shape[-1])
        frequencies, magnitude = self.frequencies(is_local)
        angles = torch.arange(x.shape[1]).double()[:, None] * frequencies
        cos, sin = angles.cos() * magnitude, angles.sin() * magnitude
        if self.architecture == "llama":
            a, b = x[..., 0:n:2], x[..., 1:n:2]
            turned = torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)
        else:
            a, b = x[..., :n // 2], x[..., n // 2:n]
            turned = torch.cat((a * cos - b * sin, b * cos + a * sin), -1)
        return torch.cat((turned, x[..., n:]), -1)

    def window_of(self, layer):
        """The window of gemma's layers: all but each second or sixth one have it."""
        pattern = {"gemma2": 2, "gemma3": 6}.get(self.architecture, 1)
        return self.field("attention.sliding_window") if layer % pattern < pattern - 1 else None

    def project(self, prefix, x):
        if prefix + "attn_qkv.weight" not in self.weights:
            return [self.linear(prefix + name, x) for name in ("attn_q", "attn_k", "attn_v")]
        n = self.weights[prefix + "attn_output.weight"].shape[1]
        all_of = self.linear(prefix + "attn_qkv", x)
        return [all_of[:, :n], *all_of[:, n:].chunk(2, 1)]

    def attend(self, layer, prefix, x):
        heads, kv_heads = self.field("attention.head_count"), self.field("attention.head_count_kv")
        window, cap = self.window_of(layer), self.field("attn_logit_softcapping")
        parts = []
        for name, n, part in zip(("attn_q", "attn_k", "attn_v"), (heads, kv_heads, kv_heads),
                                 self.project(prefix, x)):
            part = part.reshape(x.shape[0], n, -1).transpose(0, 1)
            if f"{prefix}{name}_norm.weight" in self.weights:
                part = self.norm(prefix + name + "_norm", part)
            part = part if name == "attn_v" else self.rotate(part, window is not None)
            parts.append(part.repeat_interleave(heads // n, 0))
        scores = parts[0] @ parts[1].transpose(-1, -2) * parts[0].shape[-1] ** -0.5
        scores = torch.tanh(scores / cap) * cap if cap else scores
        distance = torch.arange(x.shape[0])[:, None] - torch.arange(x.shape[0])
        hidden = (distance < 0) | (distance >= (window or x.shape[0]))
        y = scores.masked_fill(hidden, float("-inf")).softmax(-1) @ parts[2]
        return self.linear(prefix + "attn_output", y.transpose(0, 1).flatten(1))

    def feed_forward(self, prefix, y):
        up = self.linear(prefix + "ffn_up", y)
        if prefix + "ffn_gate.weight" in self.weights:
            gate = self.linear(prefix + "ffn_gate", y)
        else:
            gate, up = up.chunk(2, 1)
        is_gemma = self.architecture.startswith("gemma")
        active = (torch.nn.functional.gelu(gate, approximate="tanh") if is_gemma
                  else torch.nn.functional.silu(gate))
        return self.linear(prefix + "ffn_down", active * up)

    def logits(self, tokens, last=False):
        x = self.weights["token_embd.weight"][torch.tensor(tokens)]
        is_gemma = self.architecture.startswith("gemma")
        x = x * x.shape[1] ** 0.5 if is_gemma else x
        for i in range(self.field("block_count")):
            prefix = f"blk.{i}."
            change = self.attend(i, prefix, self.norm(prefix + "attn_norm", x))
            x = x + (self.norm(prefix + "post_attention_norm", change) if is_gemma else change)
            change = self.feed_forward(prefix, self.norm(prefix + "ffn_norm", x))
            x = x + (self.norm(prefix + "post_ffw_norm", change) if is_gemma else change)
        x = self.norm("output_norm", x[-1:] if last else x)
        head = "output" if "output.weight" in self.weights else "token_embd"
        logits = x @ self.weights[head + ".weight"].T
        cap = self.field("final_logit_softcapping")
        return torch.tanh(logits / cap) * cap if cap else logits


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


def compare_with_llama():
    """Prints the largest difference between logits of the evaluation and of llama.cpp."""
    import tempfile

    import llama_cpp
    generator = torch.Generator().manual_seed(3)
    for name in ("llama", "qwen2", "qwen3", *VARIANTS):
        with tempfile.NamedTemporaryFile(suffix=".gguf") as file:
            write_model(file.name, name, generator, for_llama=True)
            tokens = torch.randint(SIZES["vocabulary"], (90,), generator=generator).tolist()
            wanted = Model(file.name).logits(tokens).numpy()
            model = llama_cpp.Llama(file.name, n_ctx=128, logits_all=True, verbose=False)
            model.eval(tokens)
            given = numpy.array(model.scores[:len(tokens)])
        print(name, numpy.abs(given - wanted).max() / numpy.abs(wanted).max())


def main():
    torch.set_grad_enabled(False)
    if sys.argv[1:] == ["--llama"]:
        compare_with_llama()
        return
    generator, second = torch.Generator().manual_seed(1), torch.Generator().manual_seed(2)
    with open("decoder_values.txt", "w", encoding="ascii") as out:
        print(f"# By decoder_values.py with PyTorch {torch.__version__.split('+')[0]}.", file=out)
        for architecture in ("llama", "qwen2", "qwen3", *VARIANTS):
            own = second if architecture in VARIANTS else generator
            path = f"decoder_{architecture}.gguf"
            write_model(path, architecture, own)
            tokens = torch.randint(SIZES["vocabulary"], (90,), generator=own).tolist()
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
