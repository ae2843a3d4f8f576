"""stages.py: the losses of the stages of ViT-AdaLA: how a linearised model learns
from the softmax model that it was made from.

    stage 1  every block's attention learns to give what softmax attention gives. The picture runs
             through the softmax model once; block i's new attention reads the same normalised tokens
             X_i and is compared after its projection:
                 L = sum_i error(O_i, O'_i)
    stage 2  the whole linear model learns the features f of the softmax one, prefix tokens included:
                 L = error(f, f')

    error    relative: mean over tokens of |o - o'|^2 / (|o'|^2 + 1e-6 C), o' the teacher's C channels;
             so tokens and blocks weigh alike, however large their numbers are
             squared: mean over tokens and channels of (o - o')^2, as in the papers
    Both are means over pictures, and those of `fovea adapt --loss`.

Steps, rates, data and processes are those of any training loop in PyTorch.
"""
import copy

import torch

from .mechanisms import wide
from .swap import features, linearise, swapped

FLOOR = 1e-6  # constant in the divisor of a relative error, per channel


def error(out, target, relative):
    """Mean over the pictures of each one's error; out, target: [batch, tokens, channels]."""
    out, target = wide(out), wide(target)
    off = (out - target).square()
    if not relative:
        return off.mean()
    return (off.sum(2) / (target.square().sum(2) + FLOOR * target.shape[2])).mean()


def teacher_of(model):
    """A frozen copy of a model, with softmax attention."""
    return linearise(copy.deepcopy(model), "softmax").eval().requires_grad_(False)


def stage1_parameters(model):
    """The parameters that stage 1 trains: in blocks without softmax, the projections to queries, keys and
    values, and the gates, vectors and maps of the attention."""
    for block in swapped(model):
        if block.fovea.attention != "softmax":
            yield from block.trained()


def _only(out):
    """The output of an attention, without the weights that transformers returns with it."""
    return out[0] if isinstance(out, tuple) else out


@torch.no_grad()
def _attentions_of(teacher, pixels):
    """The inputs and outputs [(X_i, O_i)] of all attentions in one pass, [batch, tokens, channels] each."""
    seen = []

    def see(_block, given, more, out):
        seen.append((given[0] if given else more["hidden_states"], _only(out)))
    hooks = [block.register_forward_hook(see, with_kwargs=True) for block in swapped(teacher)]
    try:
        features(teacher, pixels)
    finally:
        for hook in hooks:
            hook.remove()
    return seen


def _check(model):
    blocks = swapped(model)
    if not blocks:
        raise ValueError("%s has the attention that it came with; linearise it first" % type(model).__name__)
    return blocks


def stage1_loss(model, teacher, pixels, loss="relative"):
    """The loss of stage 1 for normalised pixels [batch, 3, height, width]. Blocks that keep softmax do not
    contribute."""
    blocks = _check(model)
    if all(block.fovea.attention == "softmax" for block in blocks):
        raise ValueError("every block has softmax attention, so there is nothing to train; swap the attention first")
    seen = _attentions_of(teacher, pixels)
    blocks[0].grid.size = swapped(teacher)[0].grid.size
    return sum(error(_only(block(x)), target, loss == "relative")
               for block, (x, target) in zip(blocks, seen) if block.fovea.attention != "softmax")


def stage2_loss(model, teacher, pixels, loss="relative"):
    """The loss of stage 2."""
    _check(model)
    with torch.no_grad():
        target = features(teacher, pixels)
    return error(features(model, pixels), target, loss == "relative")
