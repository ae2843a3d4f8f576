"""swap.py: linearise(): another attention in the blocks of transformers' and timm's ViTs, in place.

A block's attention module gives way to one of the same projections, under the same names, whose
child `fovea` is the Attention between them. Each learns the grid of patches from what the model's
patch embedding gives, so that pictures may have any size that the model takes.
"""
import collections
import inspect

from torch import nn

from . import names
from .mechanisms import Attention

# Projections of a class of attention modules; `out` is none of its own where its parent has it.
Separate = collections.namedtuple("Separate", "q k v out")
_TRANSFORMERS = Separate("q_proj", "k_proj", "v_proj", "o_proj")
_OPENAI = _TRANSFORMERS._replace(out="out_proj")
_BEFORE_5 = Separate("query", "key", "value", None)

_CLASSES = {}
for _model in ("ViT", "DeiT", "Dinov2", "Dinov2WithRegisters"):
    _CLASSES[_model + "Attention"] = _TRANSFORMERS
    for _kind in ("", "Sdpa"):  # transformers before version 5
        _CLASSES[_model + _kind + "SelfAttention"] = _BEFORE_5
for _model in ("Siglip", "CLIP"):
    for _kind in ("", "Sdpa", "Flash2"):
        _CLASSES["%s%sAttention" % (_model, _kind)] = _OPENAI

SUPPORTED = ("ViT, DeiT, DINOv2 (with registers or without), CLIP and SigLIP of transformers, and timm's "
             "VisionTransformer")


class Grid:
    """The grid of patches that a model is at: (rows, columns) in `size`."""

    def __init__(self):
        self.size = None

    def see(self, _embedding, _inputs, patches):
        """A forward hook of the convolution that makes patches: [batch, channels, rows, columns]."""
        self.size = tuple(patches.shape[-2:])


class Swapped(nn.Module):
    """The attention of a block: projections of [batch, tokens, channels], `fovea` between them."""

    def __init__(self, attention, heads, dim, grid):
        super().__init__()
        self.heads = heads
        self.grid = grid
        self.fovea = Attention(attention, heads, dim)

    def attend(self, *qkv):
        """q, k, v and result: [batch, tokens, heads * dim]."""
        return self.fovea(*(x.unflatten(-1, (self.heads, -1)) for x in qkv), self.grid.size).flatten(2)

    def trained(self):
        """What stage 1 trains: projections to queries, keys and values, gates, learned vectors."""
        for linear in self.projections():
            yield from linear.parameters()
        yield from self.fovea.parameters()


class SwappedSeparate(Swapped):
    """Of transformers: q, k, v by a matrix each, under the names of `form`."""

    def __init__(self, old, form, attention, grid):
        q = getattr(old, form.q)
        super().__init__(attention, _heads(old), q.out_features // _heads(old), grid)
        self.form = form
        for name in form:
            if name:
                setattr(self, name, getattr(old, name))

    def projections(self):
        return [getattr(self, name) for name in self.form[:3]]

    def forward(self, hidden_states, attention_mask=None, *_unused, **_more):
        if attention_mask is not None:
            raise ValueError("a mask of tokens cannot be used with %s" % self.fovea.attention)
        out = self.attend(*(project(hidden_states) for project in self.projections()))
        return getattr(self, self.form.out)(out) if self.form.out else out, None


class SwappedFused(Swapped):
    """Of timm: q, k, v by one matrix."""

    def __init__(self, old, attention, grid):
        super().__init__(attention, old.num_heads, old.head_dim, grid)
        self.qkv, self.proj, self.proj_drop = old.qkv, old.proj, old.proj_drop

    def projections(self):
        return [self.qkv]

    def forward(self, x, attn_mask=None, *_unused, **_more):
        if attn_mask is not None:
            raise ValueError("a mask of tokens cannot be used with %s" % self.fovea.attention)
        return self.proj_drop(self.proj(self.attend(*self.qkv(x).chunk(3, -1))))


def _heads(module):
    for name in ("num_attention_heads", "num_heads"):
        if hasattr(module, name):
            return getattr(module, name)
    raise ValueError("%s: the number of its heads is not known" % type(module).__name__)


def _is_timm(module):
    return type(module).__module__ == "timm.layers.attention" and type(module).__name__ == "Attention"


def _swapped(old, attention, grid):
    form = _CLASSES.get(type(old).__name__)
    if form:
        return SwappedSeparate(old, form, attention, grid)
    for name, what in (("q_norm", "norms of queries and keys"), ("k_norm", "norms of queries and keys"),
                       ("norm", "a norm after its attention")):
        if not isinstance(getattr(old, name, nn.Identity()), nn.Identity):
            raise ValueError("%s with %s is not supported" % (type(old).__name__, what))
    if getattr(old, "gate", None) is not None:
        raise ValueError("%s with a gate of its own is not supported" % type(old).__name__)
    return SwappedFused(old, attention, grid)


def _found(model, wanted):
    """(parent, name, module) of the attentions of a model's blocks, in their order; the text model
    of CLIP and SigLIP is left alone."""
    places = []
    for path, module in model.named_modules():
        for name, child in module.named_children():
            if wanted(child) and "text_model" not in path.split("."):
                places.append((module, name, child))
    return places


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
    raise ValueError("%s: no convolution that makes patches" % type(model).__name__)


def _replace_known(model, known, attention):
    """Other attentions in a model that was linearised already; learned vectors of one that stays
    are kept."""
    for module, name in zip(known, names.of_blocks(attention, len(known))):
        if module.fovea.attention != name:
            like = next(module.parameters())
            dim = module.projections()[0].in_features // module.heads
            module.fovea = Attention(name, module.heads, dim).to(like.device, like.dtype)


def linearise(model, attention="mala"):
    """Swaps the attention of a model's blocks, in place, and returns the model.

        fovea.torch.linearise(model, "mala")
        fovea.torch.linearise(model, "nala+softmax@0-3")
        fovea.torch.linearise(model, ["softmax"] * 4 + ["nala"] * 8)

    The weights stay; vectors and gates that an attention learns begin as zeros. ValueError names the
    model's class and what is supported."""
    known = swapped(model)
    if known:
        _replace_known(model, known, attention)
        return model
    places = _found(model, lambda m: type(m).__name__ in _CLASSES or _is_timm(m))
    if not places:
        raise ValueError("%s: its attention cannot be swapped; supported are %s"
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
