#!/usr/bin/env python3
"""Writes transformer_values.txt: results of torch.nn's layers, as an independent source.

Run by hand with PyTorch 2.13.0:
    python3 tests/module/transformer_values.py > tests/module/transformer_values.txt

Each line has a name and the elements of the result. Parameter k of the state dict is `fill(k)`, input
k is `fill(100 + k)`.
"""
import torch


def fill(number, sizes):
    n = torch.tensor(sizes).prod().item()
    return torch.tensor([((i * 97 + number * 31 + 11) % 251 - 125) / 128 for i in range(n)],
                        dtype=torch.float64).reshape(sizes)


def show(name, module, *arguments, **options):
    module = module.double().eval()
    with torch.no_grad():
        for k, parameter in enumerate(module.state_dict().values()):
            parameter.copy_(fill(k, parameter.shape))
        result = module(*arguments, **options)
    result = result[0] if isinstance(result, tuple) else result
    print(name, *("%.9g" % number for number in result.flatten().tolist()))


def main():
    nn = torch.nn
    print("# By tests/module/transformer_values.py with PyTorch %s." % torch.__version__.split("+")[0])
    x, key, value = fill(100, (2, 3, 8)), fill(101, (2, 4, 8)), fill(102, (2, 4, 8))
    mask = torch.tensor([[True, False, False], [True, True, False], [True, True, True]])
    attention = nn.MultiheadAttention(8, 2, batch_first=True)
    show("attention", attention, x, x, x)
    show("masked", attention, x, x, x, attn_mask=~mask)
    show("cross", nn.MultiheadAttention(8, 4, bias=False, batch_first=True), x, key, value)
    show("encoder", nn.TransformerEncoderLayer(8, 2, 12, batch_first=True), x)
    show("norm_first", nn.TransformerEncoderLayer(8, 2, 12, batch_first=True, norm_first=True,
                                                  activation="gelu"), x, src_mask=~mask)
    show("layer_norm", nn.LayerNorm((3, 8), eps=0.01), x)
    show("rms_norm", nn.RMSNorm(8, eps=0.01), x)
    show("group_norm", nn.GroupNorm(3, 3, eps=0.01), x)
    show("instance_norm", nn.InstanceNorm1d(3, eps=0.01, affine=True), x)
    show("embedding", nn.Embedding(5, 8), torch.tensor([[4, 0, 2], [1, 1, 3]]))


if __name__ == "__main__":
    main()
