"""stages.py: the stages of ViT-AdaLA: what a linearised model learns from the softmax model it was.

    stage 1  every block's attention learns to give what softmax attention gives. The picture runs
             through the softmax model once; block i's new attention reads the same normalised tokens
             X_i and is compared after its projection:
                 L = sum_i error(O_i, O'_i)
             Trained are the projections to q, k and v, gates and learned vectors.
    stage 2  the whole linear model learns the features f of the softmax one, prefix tokens included:
                 L = lambda error(f, f')

    error    relative: mean over tokens of |o - o'|^2 / (|o'|^2 + 1e-6 C), o' the teacher's C channels;
             so tokens and blocks weigh alike, however large their numbers are
             squared: mean over tokens and channels of (o - o')^2, as in the papers
    Both are means over pictures, and those of `fovea adapt --loss`.
"""
import copy
import dataclasses

import torch
from torch import nn

from . import training
from .mechanisms import wide
from .swap import features, linearise, swapped

FLOOR = 1e-6  # of a relative error's divisor, per channel


@dataclasses.dataclass
class Options:
    """Of a stage; the names are those of `fovea adapt`. Sizes of batches are those of what is fed."""
    steps: int = 1000
    lr: float = None  # 1e-3 in stage 1, 1e-4 in stage 2
    lr_end: float = 0.0
    lr_schedule: str = "auto"  # constant, linear, cosine; auto: constant in stage 1, else linear
    warmup: int = 20  # steps to reach the rate
    weight_decay: float = 0.05
    beta1: float = 0.9
    beta2: float = 0.999
    clip: float = 0.0  # largest norm of the gradient; 0: any
    loss: str = "relative"  # squared
    lambda_: float = 1.0  # stage 2: factor of the loss
    trainable: str = None  # qkv in stage 1, else all
    autocast: str = "none"  # bf16: products of the model in bfloat16, weights and losses in float32
    parallel: str = "auto"  # none, ddp, fsdp; auto: ddp where there are several processes
    device: str = None  # where it trains; None: where the model is

    def __post_init__(self):
        for name, choice in (("lr_schedule", ("auto", "cosine", "linear", "constant")),
                             ("loss", ("relative", "squared")), ("autocast", ("none", "bf16")),
                             ("trainable", (None, "qkv", "all")),
                             ("parallel", ("auto", "none", "ddp", "fsdp"))):
            if getattr(self, name) not in choice:
                raise ValueError("%s %r: one of %s"
                                 % (name, getattr(self, name), ", ".join(c for c in choice if c)))


def error(out, target, relative):
    """Mean over the pictures of the error of each; out, target: [batch, tokens, channels]."""
    out, target = wide(out), wide(target)
    off = (out - target).square()
    if not relative:
        return off.mean()
    return (off.sum(2) / (target.square().sum(2) + FLOOR * target.shape[2])).mean()


# ---- teachers: frozen, with softmax; forward(pixels) gives what a learner takes ----


class Teacher(nn.Module):
    """A frozen copy of a model, with softmax attention."""

    def __init__(self, model):
        super().__init__()
        self.model = linearise(copy.deepcopy(model), "softmax").eval().requires_grad_(False)


class AttentionTeacher(Teacher):
    """One pass for all blocks: [X_i], [O_i], [batch, tokens, channels] each, and the grid of patches."""

    def forward(self, pixels):
        blocks, seen = swapped(self.model), []

        def see(_block, given, more, out):
            seen.append((given[0] if given else more["hidden_states"], _only(out)))
        hooks = [block.register_forward_hook(see, with_kwargs=True) for block in blocks]
        try:
            features(self.model, pixels)
        finally:
            for hook in hooks:
                hook.remove()
        inputs, outputs = zip(*seen)
        return list(inputs), list(outputs), blocks[0].grid.size


class FeatureTeacher(Teacher):
    """The pixels and their features, [batch, tokens, channels]."""

    def forward(self, pixels):
        return pixels, features(self.model, pixels)


def _only(out):
    """What an attention gives, without the weights that transformers returns with it."""
    return out[0] if isinstance(out, tuple) else out


# ---- learners: forward() gives the loss, and those of single blocks or None ----


class AttentionStage(nn.Module):
    """Stage 1 of a linearised model. Blocks that keep softmax have nothing to learn."""

    def __init__(self, student, options):
        super().__init__()
        self.student, self.relative = student, options.loss == "relative"

    def forward(self, inputs, targets, size):
        blocks = swapped(self.student)
        blocks[0].grid.size = size
        losses = []
        for block, x, target in zip(blocks, inputs, targets):
            if block.fovea.attention == "softmax":
                losses.append(torch.zeros((), device=x.device))
                continue
            losses.append(error(_only(block(x)), target, self.relative))
        layers = torch.stack(losses)
        return layers.sum(), layers.detach()


class FeatureStage(nn.Module):
    """Stage 2 of a linearised model."""

    def __init__(self, student, options):
        super().__init__()
        self.student, self.relative, self.factor = student, options.loss == "relative", options.lambda_

    def forward(self, pixels, target):
        return self.factor * error(features(self.student, pixels), target, self.relative), None


def _choose(model, trainable, stage):
    """Sets requires_grad of what the stage trains."""
    model.requires_grad_(trainable == "all" and stage == 2)
    for block in swapped(model):
        if stage == 2 or block.fovea.attention != "softmax":
            for parameter in block.trained() if trainable == "qkv" else block.parameters():
                parameter.requires_grad_(True)


def _stage(number, model, batches, teacher, options, **more):
    if not swapped(model):
        raise ValueError("%s has the attention that it came with; linearise it first"
                         % type(model).__name__)
    if number == 1 and all(block.fovea.attention == "softmax" for block in swapped(model)):
        raise ValueError("every block has softmax attention: there is nothing to learn")
    options = dataclasses.replace(options or Options())
    options.lr = options.lr or (1e-3 if number == 1 else 1e-4)
    if options.lr_schedule == "auto":
        options.lr_schedule = "constant" if number == 1 else "linear"
    was = [(p, p.requires_grad) for p in model.parameters()]
    _choose(model, options.trainable or ("qkv" if number == 1 else "all"), number)
    teacher = model if teacher is None else teacher
    kinds = (AttentionTeacher, AttentionStage) if number == 1 else (FeatureTeacher, FeatureStage)
    try:
        return training.train(kinds[1](model, options), kinds[0](teacher), batches, options, **more)
    finally:
        for parameter, wanted in was:
            parameter.requires_grad_(wanted)


def stage1(model, batches, options=None, teacher=None, **more):
    """Trains the attentions of a linearised model, in place. `batches`: normalised pixels [batch, 3,
    height, width], one for every step of this process. `teacher`: the softmax model; None: the
    model's own weights. Other arguments are those of training.train(). Returns the steps' losses."""
    return _stage(1, model, batches, teacher, options, **more)


def stage2(model, batches, options=None, teacher=None, **more):
    """Trains the whole of a linearised model on the features of the softmax one, in place; arguments
    as for stage1()."""
    return _stage(2, model, batches, teacher, options, **more)
