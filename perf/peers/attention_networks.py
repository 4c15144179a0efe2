"""PyTorch networks made of attention, for networks.py."""
import torch
from torch import nn


def encoder(n=768, n_heads=12, n_layers=12, norm_first=True):
    layer = nn.TransformerEncoderLayer(n, n_heads, 4 * n, activation="gelu", batch_first=True, norm_first=norm_first)
    stack = nn.TransformerEncoder(layer, n_layers, enable_nested_tensor=False)
    for parameter in stack.parameters():
        if parameter.dim() > 1:  # identical layers would be exported as one
            nn.init.normal_(parameter, std=0.02)
    return stack


def minilm():
    """The layers of MiniLM-L6."""
    return encoder(384, 12, 6, norm_first=False)


class VisionTransformer(nn.Module):
    """ViT-B/16."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 768, 16, 16)
        self.token = nn.Parameter(torch.randn(1, 1, 768))
        self.places = nn.Parameter(torch.randn(1, 197, 768))
        self.encoder, self.norm, self.head = encoder(), nn.LayerNorm(768), nn.Linear(768, 1000)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.norm(self.encoder(x))[:, 0])


class WhisperEncoder(nn.Module):
    """The encoder of Whisper-tiny: 30 s of sound, 80 bands, four layers of 384."""

    def __init__(self):
        super().__init__()
        self.listen = nn.Sequential(nn.Conv1d(80, 384, 3, padding=1), nn.GELU(),
                                    nn.Conv1d(384, 384, 3, 2, padding=1), nn.GELU())
        self.places = nn.Parameter(torch.randn(1500, 384))
        self.encoder, self.norm = encoder(384, 6, 4), nn.LayerNorm(384)

    def forward(self, x):
        return self.norm(self.encoder(self.listen(x).transpose(1, 2) + self.places))


SIDE = 7  # height and width of Swin's windows


class WindowAttention(nn.Module):
    """Attention inside windows of 7 by 7, with a bias for each relative position. Every second layer
    shifts the windows by 3, and masks pairs that the shift brought together."""

    def __init__(self, n, n_heads, size, shift):
        super().__init__()
        self.n_heads, self.shift = n_heads, shift if size > SIDE else 0
        self.qkv, self.out = nn.Linear(n, 3 * n), nn.Linear(n, n)
        at = torch.stack(torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")).flatten(1)
        apart = (at[:, :, None] - at[:, None] + SIDE - 1)
        table = torch.randn((2 * SIDE - 1) ** 2, n_heads) * 0.02
        bias = table[apart[0] * (2 * SIDE - 1) + apart[1]].permute(2, 0, 1)[None]
        if self.shift:
            stripe = torch.zeros(size, dtype=torch.long)
            stripe[-SIDE:-self.shift], stripe[-self.shift:] = 1, 2
            part = (3 * stripe[:, None] + stripe).reshape(size // SIDE, SIDE, size // SIDE, SIDE)
            part = part.transpose(1, 2).reshape(-1, SIDE * SIDE)
            mask = (part[:, :, None] != part[:, None]) * -100.0
            bias = bias + mask[:, None]
        self.bias = nn.Parameter(bias)

    def forward(self, x):
        batch, height, width, n = x.shape
        rows, columns = height // SIDE, width // SIDE
        if self.shift:
            x = torch.roll(x, (-self.shift, -self.shift), (1, 2))
        x = x.reshape(batch, rows, SIDE, columns, SIDE, n).transpose(2, 3).reshape(-1, SIDE * SIDE, n)
        q, k, v = self.qkv(x).reshape(-1, SIDE * SIDE, 3, self.n_heads, n // self.n_heads).permute(2, 0, 3, 1, 4)
        scores = q * (n // self.n_heads) ** -0.5 @ k.transpose(2, 3)
        scores = scores.reshape(batch, rows * columns, self.n_heads, SIDE * SIDE, SIDE * SIDE) + self.bias
        mixed = scores.softmax(-1).reshape(-1, self.n_heads, SIDE * SIDE, SIDE * SIDE) @ v
        x = self.out(mixed.transpose(1, 2).reshape(-1, SIDE * SIDE, n))
        x = x.reshape(batch, rows, columns, SIDE, SIDE, n).transpose(2, 3).reshape(batch, height, width, n)
        return torch.roll(x, (self.shift, self.shift), (1, 2)) if self.shift else x


class SwinBlock(nn.Module):
    def __init__(self, n, n_heads, size, shift):
        super().__init__()
        self.attention = nn.Sequential(nn.LayerNorm(n), WindowAttention(n, n_heads, size, shift))
        self.body = nn.Sequential(nn.LayerNorm(n), nn.Linear(n, 4 * n), nn.GELU(), nn.Linear(4 * n, n))

    def forward(self, x):
        x = x + self.attention(x)
        return x + self.body(x)


class Merge(nn.Module):
    """Joins 2 by 2 positions."""

    def __init__(self, n):
        super().__init__()
        self.body = nn.Sequential(nn.LayerNorm(4 * n), nn.Linear(4 * n, 2 * n, bias=False))

    def forward(self, x):
        return self.body(torch.cat([x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)], 3))


class Swin(nn.Module):
    """Swin-T."""

    def __init__(self):
        super().__init__()
        layers, n, size = [], 96, 56
        for n_layers in (2, 2, 6, 2):
            layers += [SwinBlock(n, n // 32, size, k % 2 * (SIDE // 2)) for k in range(n_layers)]
            if size > SIDE:
                layers.append(Merge(n))
                n, size = 2 * n, size // 2
        self.patches, self.enter = nn.Conv2d(3, 96, 4, 4), nn.LayerNorm(96)
        self.layers, self.norm, self.head = nn.Sequential(*layers), nn.LayerNorm(n), nn.Linear(n, 1000)

    def forward(self, x):
        x = self.layers(self.enter(self.patches(x).permute(0, 2, 3, 1)))
        return self.head(self.norm(x).mean((1, 2)))


NETWORKS = {"encoder": encoder, "minilm_16": minilm, "minilm_256": minilm, "vit_b16": VisionTransformer,
            "whisper_tiny": WhisperEncoder, "swin_t": Swin}
