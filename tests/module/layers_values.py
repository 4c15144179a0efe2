#!/usr/bin/env python3
"""Writes layers_values.txt: results of torch.nn's layers, as an independent source.

Run by hand with PyTorch 2.13.0:
    python3 tests/module/layers_values.py > tests/module/layers_values.txt

Each line has a name and the elements of the result. Parameter k of the state dict is `fill(k)`, the
input is `fill(100)`.
"""
import torch
from transformer_values import fill, show

nn = torch.nn


def main():
    print("# By tests/module/layers_values.py with PyTorch %s." % torch.__version__.split("+")[0])
    line, image, volume = fill(100, (2, 4, 5)), fill(100, (1, 3, 4, 5)), fill(100, (1, 2, 4, 3, 4))
    show("conv_transpose1d",
         nn.ConvTranspose1d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2), line)
    show("conv_transpose2d",
         nn.ConvTranspose2d(3, 5, (3, 2), stride=(2, 1), dilation=(1, 2), bias=False), image)
    show("conv_transpose3d", nn.ConvTranspose3d(2, 3, 2, stride=(1, 2, 1)), volume)
    show("max_pool1d", nn.MaxPool1d(2, stride=2, padding=1, ceil_mode=True), line)
    show("max_pool2d", nn.MaxPool2d((3, 2), stride=1, dilation=(1, 2)), image)
    show("max_pool3d", nn.MaxPool3d(2), volume)
    show("avg_pool1d", nn.AvgPool1d(3, stride=2, padding=1), line)
    show("avg_pool2d", nn.AvgPool2d(2, padding=1, count_include_pad=False), image)
    show("avg_pool3d", nn.AvgPool3d((2, 1, 2)), volume)
    show("adaptive_avg_pool1d", nn.AdaptiveAvgPool1d(2), line)
    show("adaptive_avg_pool3d", nn.AdaptiveAvgPool3d((2, 1, 3)), volume)
    show("adaptive_max_pool1d", nn.AdaptiveMaxPool1d(2), line)
    show("adaptive_max_pool2d", nn.AdaptiveMaxPool2d((3, 2)), image)
    show("adaptive_max_pool3d", nn.AdaptiveMaxPool3d((2, 1, 3)), volume)
    show("nearest", nn.Upsample(scale_factor=(2, 1.5)), image)
    show("linear", nn.Upsample(scale_factor=1.6, mode="linear"), line)
    show("bilinear", nn.Upsample(size=(5, 7), mode="bilinear", align_corners=True), image)
    show("trilinear", nn.Upsample(size=(3, 4, 2), mode="trilinear"), volume)
    show("bicubic", nn.Upsample(scale_factor=2, mode="bicubic"), fill(100, (1, 1, 3, 4)))
    show("pixel_shuffle", nn.PixelShuffle(2), fill(100, (1, 8, 2, 3)))
    show("pixel_unshuffle", nn.PixelUnshuffle(2), fill(100, (1, 2, 4, 6)))
    show("zero_pad2d", nn.ZeroPad2d((1, 2, 0, -1)), image)
    show("constant_pad1d", nn.ConstantPad1d((2, 1), 3.5), line)
    show("reflection_pad2d", nn.ReflectionPad2d((1, 2, 0, 1)), image)
    show("replication_pad3d", nn.ReplicationPad3d((1, 0, 0, 1, 0, 0)), volume)
    show("circular_pad2d", nn.CircularPad2d((1, 2, 0, 1)), image)
    show("softmax", nn.Softmax(1), image)
    show("log_softmax", nn.LogSoftmax(-1), image)
    show("prelu", nn.PReLU(3), image)
    show("prelu_one", nn.PReLU(), image)
    show("identity", nn.Identity(), line)
    show("unflatten", nn.Unflatten(1, (2, -1)), line)
    show("dropout", nn.Dropout2d(0.5), image)
    show("softsign", nn.Softsign(), image)
    show("log_sigmoid", nn.LogSigmoid(), image)
    show("conv_norm", Normed(), image)


class Normed(nn.Module):
    """A transposed convolution and a norm of its channels."""

    def __init__(self):
        super().__init__()
        for name in ["weight", "bias", "mean", "variance"]:
            self.register_parameter(name, nn.Parameter(torch.empty(5)))
        self.conv = nn.ConvTranspose2d(3, 5, 3, stride=2)

    def forward(self, x):
        return nn.functional.batch_norm(self.conv(x), self.mean, self.variance.abs(), self.weight,
                                        self.bias, eps=0.01)


if __name__ == "__main__":
    main()
