#!/usr/bin/env python3
"""Writes minilm_values.txt: PyTorch's results for sentences, as an independent source; or with
--onnx FILE the network as ONNX, for ONNX Runtime.

Run by hand with PyTorch 2.13.0, and onnx 1.23.2 for --onnx:
    python3 tests/examples/minilm_values.py build/models/minilm > tests/examples/minilm_values.txt

    sentence TEXT
    ids NUMBERS
    vector NUMBERS    every fourth of 384
"""
import json
import struct
import sys
import unicodedata

import torch
import torch.nn.functional as F

SENTENCES = [
    "A man is eating food.",
    "A man is eating a piece of bread.",
    "The girl is carrying a baby, isn't she?",
    "Café CRÈME à la carte — naïve Šarić's résumé; 25% off!",
    "Hi",
    "Internationalization and electroencephalographically-guided antidisestablishmentarianism",
    "我喜欢 tea & coffee\t(really)…  zzxqyyk\u0301",
    "Sentence embeddings map a sentence to a vector so that sentences of similar meaning have "
    "vectors that lie near each other; search, clustering and deduplication are then questions of "
    "geometry, which a computer answers faster than questions of language, and which need no list "
    "of synonyms, no rules of grammar, and no index of words that somebody would have to maintain.",
]


def load(path):
    with open(path, "rb") as file:
        data = bytearray(file.read())
    n = struct.unpack_from("<Q", data)[0]
    header, tensors = json.loads(data[8:8 + n]), {}
    for name, entry in header.items():
        if name == "__metadata__" or entry["dtype"] != "F32":
            continue
        begin, end = entry["data_offsets"]
        tensors[name] = torch.frombuffer(data, dtype=torch.float32, offset=8 + n + begin,
                                         count=(end - begin) // 4).reshape(entry["shape"]).clone()
    return tensors


def is_chinese(character):
    return "\u4e00" <= character <= "\u9fff"


def words(text):
    word = ""
    for character in unicodedata.normalize("NFD", text.lower()):
        category = unicodedata.category(character)
        ascii_sign = character < "\x80" and not character.isalnum() and not character.isspace()
        alone = category[0] == "P" or ascii_sign or is_chinese(character)
        if character.isspace() or alone:
            if word:
                yield word
            word = ""
            if alone:
                yield character
        elif category != "Mn":
            word += character
    if word:
        yield word


def pieces(word, vocabulary):
    ids, first = [], 0
    while first < len(word):
        for end in range(len(word), first, -1):
            piece = ("##" if first else "") + word[first:end]
            if piece in vocabulary:
                ids.append(vocabulary[piece])
                first = end
                break
        else:
            return [vocabulary["[UNK]"]]
    return ids


class MiniLM(torch.nn.Module):
    def __init__(self, tensors):
        super().__init__()
        self.tensors = tensors

    def linear(self, x, name):
        return F.linear(x, self.tensors[name + ".weight"], self.tensors[name + ".bias"])

    def norm(self, x, name):
        name += ".LayerNorm"
        return F.layer_norm(x, (384,), self.tensors[name + ".weight"], self.tensors[name + ".bias"],
                            1e-12)

    def forward(self, ids, mask):
        n, t = ids.shape
        weights = [self.tensors["embeddings.%s_embeddings.weight" % kind]
                   for kind in ("word", "position", "token_type")]
        x = self.norm(F.embedding(ids, weights[0]) + weights[1][:t] + weights[2][0], "embeddings")
        for layer in range(6):
            at = "encoder.layer.%d." % layer
            q, k, v = (self.linear(x, at + "attention.self." + name).reshape(n, t, 12, 32)
                       .transpose(1, 2) for name in ("query", "key", "value"))
            scores = q @ k.transpose(2, 3) / 32 ** 0.5
            scores = scores.masked_fill(~mask[:, None, None, :], -10000.0)
            mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(n, t, 384)
            x = self.norm(self.linear(mixed, at + "attention.output.dense") + x,
                          at + "attention.output")
            wide = F.gelu(self.linear(x, at + "intermediate.dense"))
            x = self.norm(self.linear(wide, at + "output.dense") + x, at + "output")
        part = mask.to(x.dtype)[:, :, None]
        mean = (x * part).sum(1) / part.sum(1)
        return mean / mean.norm(dim=1, keepdim=True)


def main():
    folder = sys.argv[1]
    tensors = load(folder + "/model.safetensors")
    if len(sys.argv) > 3:
        example = (torch.zeros(1, 128, dtype=torch.int64), torch.ones(1, 128, dtype=torch.bool))
        torch.onnx.export(MiniLM(tensors), example, sys.argv[3], opset_version=17, dynamo=False,
                          input_names=["ids", "mask"], output_names=["vector"])
        return
    with open(folder + "/vocab.txt", encoding="utf-8") as file:
        vocabulary = {line.rstrip("\n"): i for i, line in enumerate(file)}
    model = MiniLM({name: tensor.double() for name, tensor in tensors.items()})
    print("# By tests/examples/minilm_values.py with PyTorch %s." % torch.__version__.split("+")[0])
    for sentence in SENTENCES:
        ids = [vocabulary["[CLS]"]]
        for word in words(sentence):
            ids += pieces(word, vocabulary)
        ids.append(vocabulary["[SEP]"])
        with torch.no_grad():
            vector = model(torch.tensor([ids]), torch.ones(1, len(ids), dtype=torch.bool))[0]
        print("sentence", sentence)
        print("ids", *ids)
        print("vector", *("%.7g" % number for number in vector[::4].tolist()))


main()
