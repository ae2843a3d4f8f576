"""swap.py: linearise(): replaces the attention in the blocks of transformers' and timm's ViTs, in place.

A block's attention module is replaced by one with the same projections under the same names. Its child `fovea`
is the Attention between them. A hook on the model's patch embedding tells each module the grid of patches, so
that pictures may have any size that the model supports.
"""
import inspect

from torch import nn

from . import names
from .mechanisms import Attention

# Classes of transformers' attention modules, and the name of the projection after the attention.
# The projections to queries, keys and values are q_proj, k_proj and v_proj in all of them.
CLASSES = {"ViTAttention": "o_proj", "DeiTAttention": "o_proj", "Dinov2Attention": "o_proj",
           "Dinov2WithRegistersAttention": "o_proj", "SiglipAttention": "out_proj",
           "CLIPAttention": "out_proj"}
SUPPORTED = ("ViT, DeiT, DINOv2 (with registers or without), CLIP and SigLIP of transformers from version "
             "5 on, and timm's VisionTransformer")


class Grid:
    """The grid of patches of the model's current picture: (rows, columns) in `size`."""

    def __init__(self):
        self.size = None

    def see(self, _embedding, _inputs, patches):
        """A forward hook of the convolution that makes patches: [batch, channels, rows, columns]."""
        self.size = tuple(patches.shape[-2:])


class Swapped(nn.Module):
    """The attention of a block: projections of [batch, tokens, channels], `fovea` between them."""

    def __init__(self, attention, heads, dim, grid):
        super().__init__()
        self.heads, self.dim = heads, dim
        self.grid = grid
        self.fovea = Attention(attention, heads, dim)

    def attend(self, *qkv):
        """q, k, v and result: [batch, tokens, heads * dim]."""
        return self.fovea(*(x.unflatten(-1, (self.heads, -1)) for x in qkv), self.grid.size).flatten(2)

    def refuse(self, mask):
        if mask is not None:
            raise ValueError("a mask of tokens cannot be used with %s" % self.fovea.attention)

    def trained(self):
        """The parameters that stage 1 trains: projections to queries, keys and values, gates, vectors and maps."""
        for linear in self.projections():
            yield from linear.parameters()
        yield from self.fovea.parameters()


class SwappedSeparate(Swapped):
    """For transformers: q, k, v by separate matrices; `out`: the name of the projection after the attention."""

    def __init__(self, old, out, attention, grid):
        heads = getattr(old, "num_attention_heads", None) or old.num_heads
        super().__init__(attention, heads, old.q_proj.out_features // heads, grid)
        self.out = out
        for name in ("q_proj", "k_proj", "v_proj", out):
            setattr(self, name, getattr(old, name))

    def projections(self):
        return self.q_proj, self.k_proj, self.v_proj

    def forward(self, hidden_states, attention_mask=None, *_unused, **_more):
        self.refuse(attention_mask)
        out = self.attend(*(project(hidden_states) for project in self.projections()))
        return getattr(self, self.out)(out), None


class SwappedFused(Swapped):
    """For timm: q, k, v by one matrix."""

    def __init__(self, old, attention, grid):
        super().__init__(attention, old.num_heads, old.head_dim, grid)
        self.qkv, self.proj, self.proj_drop = old.qkv, old.proj, old.proj_drop

    def projections(self):
        return (self.qkv,)

    def forward(self, x, attn_mask=None, *_unused, **_more):
        self.refuse(attn_mask)
        return self.proj_drop(self.proj(self.attend(*self.qkv(x).chunk(3, -1))))


def _is_timm(module):
    return type(module).__module__ == "timm.layers.attention" and type(module).__name__ == "Attention"


def _swapped(old, attention, grid):
    if not _is_timm(old):
        return SwappedSeparate(old, CLASSES[type(old).__name__], attention, grid)
    for name in ("q_norm", "k_norm", "norm"):
        if not isinstance(getattr(old, name, nn.Identity()), nn.Identity):
            raise ValueError("timm's Attention with norms (%s) is not supported" % name)
    if getattr(old, "gate", None) is not None:
        raise ValueError("timm's Attention with a gate is not supported")
    return SwappedFused(old, attention, grid)


def _takes(module):
    return _is_timm(module) or type(module).__name__ in CLASSES and hasattr(module, "q_proj")


def _found(model):
    """(parent, name, module) for the attention of each block, in order; the text model of CLIP and SigLIP is
    skipped."""
    return [(module, name, child) for path, module in model.named_modules()
            if "text_model" not in path.split(".")
            for name, child in module.named_children() if _takes(child)]


def swapped(model):
    """The Swapped modules of a linearised model, block by block."""
    return [module for module in model.modules() if isinstance(module, Swapped)]


def attention_of(model):
    """The attentions of a linearised model as a text, as `fovea --attention` takes it."""
    return names.joined(module.fovea.attention for module in swapped(model))


def _embedding(model):
    """The convolution that makes patches of pixels."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d) and module.kernel_size == module.stride:
            return module
    raise ValueError("%s has no convolution that makes patches" % type(model).__name__)


def _replace_known(model, known, attention):
    """Replaces attentions in a model that was linearised before; an attention that stays keeps its learned
    vectors."""
    for module, name in zip(known, names.of_blocks(attention, len(known))):
        if module.fovea.attention != name:
            like = next(module.parameters())
            module.fovea = Attention(name, module.heads, module.dim).to(like.device, like.dtype)


def linearise(model, attention="linear:elu1"):
    """Swaps the attention of a model's blocks, in place, and returns the model.

        fovea.torch.linearise(model, "mala")
        fovea.torch.linearise(model, "nala+softmax@0-3")
        fovea.torch.linearise(model, ["softmax"] * 4 + ["nala"] * 8)

    The weights stay; vectors and gates that an attention learns begin as zeros, maps as unit
    matrices. ValueError names the model's class and what is supported."""
    known = swapped(model)
    if known:
        _replace_known(model, known, attention)
        return model
    places = _found(model)
    if not places:
        raise ValueError("the attention of %s cannot be swapped; supported are %s"
                         % (type(model).__name__, SUPPORTED))
    chosen, grid = names.of_blocks(attention, len(places)), Grid()
    news = [_swapped(old, name, grid) for (_, _, old), name in zip(places, chosen)]
    _embedding(model).register_forward_hook(grid.see)
    for (parent, name, old), new in zip(places, news):
        like = next(old.parameters())
        setattr(parent, name, new.to(like.device, like.dtype).train(old.training))
    return model


def features(model, pixels):
    """The features of a model's last block after its norm, [batch, tokens, channels], prefix tokens
    included, of normalised pixels [batch, 3, height, width]."""
    if hasattr(model, "forward_features"):
        return model.forward_features(pixels)
    base = getattr(model, "vision_model", getattr(model, "base_model", model))
    options = {}
    if "interpolate_pos_encoding" in inspect.signature(base.forward).parameters:
        options["interpolate_pos_encoding"] = True
    return base(pixel_values=pixels, **options).last_hidden_state
