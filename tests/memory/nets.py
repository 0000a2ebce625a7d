"""Small networks, each with something that a simulation can get wrong; they make their input and return a loss."""

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

WIDTH = 8


def conv(inputs: int, outputs: int = WIDTH) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, padding=1)


class Net(nn.Module):
    """Its loss is the mean square of what `layers` give for a random image."""

    def __init__(self, *layers: nn.Module):
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def image(self) -> Tensor:
        return torch.randn(2, 3, 16, 16, device=next(self.parameters()).device)

    def result(self, image: Tensor) -> Tensor:
        return self.layers(image)

    def forward(self) -> Tensor:
        return self.result(self.image()).square().mean()


class SharedWeights(Net):
    def __init__(self):
        super().__init__(conv(3), conv(WIDTH))
        self.again = conv(WIDTH)
        self.again.weight = self.layers[1].weight

    def result(self, image):
        first, second = self.layers
        return self.again(second(second(first(image)).relu()).relu())


class InPlace(Net):
    def __init__(self):
        super().__init__(conv(3), nn.BatchNorm2d(WIDTH), nn.ReLU(inplace=True), conv(WIDTH), nn.SiLU(inplace=True))
        self.last = nn.Sequential(conv(WIDTH), nn.LeakyReLU(inplace=True))

    def result(self, image):
        x = self.layers(image)
        y = x + self.last(x)
        y += x
        return y.mul_(2).relu_()


class Scale(Function):
    """A thing that is no tensor, and a tensor that is not used."""

    @staticmethod
    def forward(ctx, x, factor, unused, name, weight):
        ctx.save_for_backward(x, weight)
        ctx.factor = factor
        return x * factor * weight

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        return gradient * ctx.factor * weight, None, None, None, (gradient * x).sum_to_size(weight.shape)


class Two(Function):
    """Two results, of which only one is used here."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x * weight, x + weight

    @staticmethod
    def backward(ctx, product, total):
        x, weight = ctx.saved_tensors
        inner = product * weight if total is None else product * weight + total
        return inner, (product * x).sum_to_size(weight.shape)


class TwoWithoutZeros(Two):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.set_materialize_grads(False)
        return Two.forward(ctx, x, weight)


class OwnFunctions(Net):
    def __init__(self):
        super().__init__(conv(3))
        self.weight = nn.Parameter(torch.ones(1, WIDTH, 1, 1))
        self.unused = nn.Parameter(torch.ones(3))

    def result(self, image):
        x = Scale.apply(self.layers(image), 2.0, self.unused, "name", self.weight)
        return Two.apply(x, self.weight)[0] * TwoWithoutZeros.apply(x, self.weight)[0]


class Frozen(Net):
    def __init__(self):
        super().__init__(
            conv(3), nn.BatchNorm2d(WIDTH), nn.ReLU(), conv(WIDTH), nn.BatchNorm2d(WIDTH), conv(WIDTH)
        )
        self.layers[:3].requires_grad_(False)
        self.layers[4].weight.requires_grad_(False)


class Checkpointed(Net):
    def __init__(self):
        super().__init__(conv(3))
        self.block = nn.Sequential(
            conv(WIDTH), nn.BatchNorm2d(WIDTH), nn.GELU(), nn.Dropout(0.3), conv(WIDTH), nn.GELU()
        )

    def result(self, image):
        x = checkpoint(self.block, self.layers(image), use_reentrant=False)
        return checkpoint(self.block, x, use_reentrant=False)


class SeveralLosses(Net):
    def __init__(self):
        super().__init__(conv(3), conv(WIDTH), conv(WIDTH, 3))

    def forward(self):
        image = self.image()
        x = self.layers[0](image).relu()
        y = self.layers[1](x).sigmoid()
        z = self.layers[2](y)
        classes = torch.zeros(2, 16, 16, dtype=torch.long, device=image.device)
        losses = [functional.mse_loss(z, image), functional.smooth_l1_loss(z, image, reduction="sum"), x.mean()]
        return torch.stack([*losses, functional.cross_entropy(y, classes)]).sum() + 0.1 * y.abs().mean()


class NoGradient(Net):
    def __init__(self):
        super().__init__(conv(3), conv(WIDTH))
        self.kept = None

    def result(self, image):
        x = self.layers[0](image)
        with torch.no_grad():
            mask, target = self.layers[1](x) > 0, x.softmax(1)
        self.kept = x.argmax(1), x.detach()
        return self.layers[1](x) * mask.float() - target


class Views(Net):
    """Attention, and views of which several share memory."""

    def __init__(self):
        super().__init__(conv(3))
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, 2)

    def result(self, image):
        x = self.layers(image)
        left, right = x.chunk(2, 1)
        x = torch.cat([functional.gelu(left) * right, x[:, ::2]], 1).flatten(2).transpose(1, 2)
        q, k, v = (part.unflatten(-1, (2, 4)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        x = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        first, second = x.split([3, 5], -1)
        return self.out(torch.cat([second, first], -1)) + sum(row.mean() for row in x[:, :3].unbind(1))


class Embedded(Net):
    def __init__(self):
        super().__init__(nn.Embedding(50, WIDTH, padding_idx=0), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 50))

    def forward(self):
        words = torch.randint(0, 50, (2, 20), device=self.layers[0].weight.device)
        return functional.cross_entropy(self.layers(words).flatten(0, 1), words.flatten())


class BatchNormAndDropout(Net):
    def __init__(self):
        norm, pooled = nn.BatchNorm2d(WIDTH), nn.AdaptiveAvgPool2d(1)
        head = (nn.Dropout2d(0.2), conv(WIDTH), nn.Dropout(0.4), pooled, nn.Flatten(), nn.Linear(WIDTH, 4))
        super().__init__(conv(3), norm, nn.ReLU(), *head)


class Norms(Net):
    def __init__(self):
        instance = nn.InstanceNorm2d(WIDTH, affine=True), nn.InstanceNorm2d(WIDTH, track_running_stats=True)
        super().__init__(conv(3), nn.GroupNorm(2, WIDTH), *instance, nn.LayerNorm(16), nn.RMSNorm(16))


class OnePixel(Net):
    """A map of one pixel is in both layouts."""

    def __init__(self):
        super().__init__(conv(3), nn.AdaptiveAvgPool2d(1), nn.Conv2d(WIDTH, WIDTH, 1), nn.BatchNorm2d(WIDTH))

    def result(self, image):
        return functional.interpolate(self.layers(image), size=16, mode="bilinear").flatten(1)


class ChannelsLast(Net):
    def __init__(self):
        down = conv(3), nn.BatchNorm2d(WIDTH), nn.ReLU(), nn.MaxPool2d(2)
        super().__init__(*down, nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d(WIDTH, WIDTH, 1))
        self.grouped = nn.Sequential(nn.Conv2d(WIDTH, WIDTH, 3, groups=WIDTH), nn.ConvTranspose2d(WIDTH, 4, 2, 2))
        self.to(memory_format=torch.channels_last)

    def image(self):
        return super().image().contiguous(memory_format=torch.channels_last)

    def result(self, image):
        x = self.layers[:3](image)
        return self.grouped(x + self.layers[3:](x))


class Chosen(Net):
    def __init__(self):
        super().__init__(conv(3))

    def result(self, image):
        x = self.layers(image)
        x = torch.where(x > 0, x, x * 0.1).clamp(-1, 1)
        x = x.gather(1, x.topk(3, 1)[1])
        return x.cumsum(1).sort(1)[0] + x.max(1, keepdim=True)[0]


class SumOfParameters(Net):
    """One gradient goes to two parameters; one is a number that is spread out."""

    def __init__(self):
        super().__init__()
        self.one, self.two, self.three = (nn.Parameter(torch.zeros(500)) for _ in range(3))
        self.turned = nn.Parameter(torch.zeros(20, 30).t())

    def forward(self):
        return (self.one + self.two).square().mean() + self.three.sum() + (self.turned * self.turned).mean()


class Residual(Net):
    """Pointwise, with broadcast parameters."""

    def __init__(self):
        super().__init__()
        self.weights = nn.ParameterList(nn.Parameter(torch.ones(3, 1, 1)) for _ in range(3))

    def result(self, image):
        x = image
        for weight in self.weights:
            x = x + torch.tanh(x * weight)
        return x


class Transformer(Net):
    def __init__(self):
        super().__init__(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True))

    def image(self):
        return torch.randn(2, 7, 16, device=next(self.parameters()).device)


class Reparametrized(Net):
    def __init__(self):
        weight_norm = nn.utils.parametrizations.weight_norm
        super().__init__(weight_norm(conv(3)), nn.utils.parametrizations.spectral_norm(conv(WIDTH)))


NETS = {
    "shared weights": SharedWeights,
    "in place": InPlace,
    "own functions": OwnFunctions,
    "frozen part": Frozen,
    "torch's checkpoint": Checkpointed,
    "several losses": SeveralLosses,
    "results without gradient": NoGradient,
    "views": Views,
    "embedding": Embedded,
    "batch norm and dropout": BatchNormAndDropout,
    "norms": Norms,
    "maps of one pixel": OnePixel,
    "channels last": ChannelsLast,
    "indices": Chosen,
    "sum of parameters": SumOfParameters,
    "residual": Residual,
    "transformer": Transformer,
    "parametrizations": Reparametrized,
}
