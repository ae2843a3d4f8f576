"""fovea.torch: Fovea's attentions in PyTorch, for training on GPUs and on several machines.

    model = transformers.AutoModel.from_pretrained("dinov2-small")
    fovea.torch.linearise(model, "mala")                   # or "nala+softmax@0-3", or a list
    teacher = fovea.torch.teacher_of(model)
    loss = fovea.torch.stage2_loss(model, teacher, pixels) # of a step of your training
    fovea.torch.export(model, "dinov2-small-mala")         # `fovea run` takes this folder

Needs PyTorch; models are transformers' or timm's. Values and gradients are those of the library.
"""
try:
    import torch as _torch
except ImportError as e:
    raise ImportError("fovea.torch needs PyTorch: pip install torch transformers safetensors") from e
del _torch

from .folders import export, load
from .mechanisms import Attention, attention
from .names import attentions
from .stages import stage1_loss, stage1_parameters, stage2_loss, teacher_of
from .swap import attention_of, features, linearise

__all__ = ["Attention", "attention", "attention_of", "attentions", "export", "features", "linearise", "load",
           "stage1_loss", "stage1_parameters", "stage2_loss", "teacher_of"]
