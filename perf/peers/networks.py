"""Networks of torchvision's designs in PyTorch, with the layers of tessera's zoo and weights at
random, for measuring steps of training."""
from torch import nn


def conv_norm(n_in, n_out, kernel, stride=1, groups=1, act=None):
    layers = [nn.Conv2d(n_in, n_out, kernel, stride, kernel // 2, groups=groups, bias=False),
              nn.BatchNorm2d(n_out)]
    return layers + ([act(inplace=True)] if act else [])


class Bottleneck(nn.Module):
    def __init__(self, n_in, planes, stride):
        super().__init__()
        self.body = nn.Sequential(*conv_norm(n_in, planes, 1, act=nn.ReLU),
                                  *conv_norm(planes, planes, 3, stride, act=nn.ReLU),
                                  *conv_norm(planes, planes * 4, 1))
        self.shortcut = nn.Sequential()
        if stride != 1 or n_in != planes * 4:
            self.shortcut = nn.Sequential(*conv_norm(n_in, planes * 4, 1, stride))
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.relu(self.body(x) + self.shortcut(x))


def resnet50():
    layers = [*conv_norm(3, 64, 7, 2, act=nn.ReLU), nn.MaxPool2d(3, 2, 1)]
    n_in = 64
    for i, (planes, n) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for k in range(n):
            layers.append(Bottleneck(n_in, planes, 2 if i > 0 and k == 0 else 1))
            n_in = planes * 4
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


class Inverted(nn.Module):
    def __init__(self, n_in, n_out, stride, factor):
        super().__init__()
        hidden = n_in * factor
        layers = conv_norm(n_in, hidden, 1, act=nn.ReLU6) if factor > 1 else []
        layers += conv_norm(hidden, hidden, 3, stride, hidden, nn.ReLU6) + conv_norm(hidden, n_out, 1)
        self.body = nn.Sequential(*layers)
        self.adds = stride == 1 and n_in == n_out

    def forward(self, x):
        return x + self.body(x) if self.adds else self.body(x)


def mobilenet_v2():
    layers, n_in = conv_norm(3, 32, 3, 2, act=nn.ReLU6), 32
    for factor, n_out, n, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2),
                                     (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
        for k in range(n):
            layers.append(Inverted(n_in, n_out, stride if k == 0 else 1, factor))
            n_in = n_out
    layers += conv_norm(320, 1280, 1, act=nn.ReLU6)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2),
                         nn.Linear(1280, 1000))


def alexnet():
    def conv(n_in, n_out, *rest):
        return [nn.Conv2d(n_in, n_out, *rest), nn.ReLU(inplace=True)]

    return nn.Sequential(
        *conv(3, 64, 11, 4, 2), nn.MaxPool2d(3, 2), *conv(64, 192, 5, 1, 2), nn.MaxPool2d(3, 2),
        *conv(192, 384, 3, 1, 1), *conv(384, 256, 3, 1, 1), *conv(256, 256, 3, 1, 1),
        nn.MaxPool2d(3, 2), nn.Flatten(), nn.Dropout(), nn.Linear(9216, 4096), nn.ReLU(inplace=True),
        nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(inplace=True), nn.Linear(4096, 1000))


def vgg16():
    layers, n_in = [], 3
    for planes, n in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(n):
            layers += [nn.Conv2d(n_in, planes, 3, 1, 1), nn.ReLU(inplace=True)]
            n_in = planes
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(25088, 4096), nn.ReLU(inplace=True),
                         nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(inplace=True), nn.Dropout(),
                         nn.Linear(4096, 1000))


NETWORKS = {"resnet50": resnet50, "mobilenet_v2": mobilenet_v2, "alexnet": alexnet, "vgg16": vgg16}
