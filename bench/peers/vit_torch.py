"""vit_torch.py: a DINOv2 checkpoint in PyTorch, with attention written out, PyTorch's own, or linear.

Weights, pictures and rows are of one type, as after model.to(dtype).
"""
import torch
import torch.nn.functional as F

import vit_checkpoint


def _softmax(q, k, v):
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    return scores.softmax(-1) @ v


def _linear(q, k, v):
    q, k = F.elu(q) + 1, F.elu(k) + 1
    eps = vit_checkpoint.EPS * k.shape[-2]
    return q @ (k.transpose(-1, -2) @ v) / (q @ k.sum(-2, keepdim=True).transpose(-1, -2) + eps)


ATTENTIONS = {"softmax": _softmax, "sdpa": F.scaled_dot_product_attention, "linear": _linear}


class Vit(torch.nn.Module):
    def __init__(self, checkpoint, size, attention, dtype=torch.float32):
        super().__init__()
        self.checkpoint, self.attention = checkpoint, ATTENTIONS[attention]
        self.weights = {name: torch.tensor(t.values).to(dtype) for name, t in checkpoint.tensors.items()}
        self.positions = torch.from_numpy(checkpoint.positions(size)).to(dtype)
        self.class_row = torch.from_numpy(checkpoint.class_row()).to(dtype)
        self.names = [vit_checkpoint.block_names(i) for i in range(checkpoint.depth)]

    def linear(self, x, name):
        return F.linear(x, self.weights[name + ".weight"], self.weights[name + ".bias"])

    def norm(self, x, name):
        return F.layer_norm(x, x.shape[-1:], self.weights[name + ".weight"], self.weights[name + ".bias"],
                            self.checkpoint.eps)

    def attend(self, x, names):
        q, k, v = (self.linear(x, names[part]).unflatten(-1, (self.checkpoint.heads, -1)).transpose(-2, -3)
                   for part in "qkv")
        out = self.attention(q, k, v).transpose(-2, -3).flatten(-2)
        return self.linear(out, names["proj"])

    def forward(self, pixels):
        embed = "embeddings.patch_embeddings.projection"
        x = F.conv2d(pixels, self.weights[embed + ".weight"], self.weights[embed + ".bias"],
                     stride=self.checkpoint.patch)
        x = x.flatten(2).transpose(1, 2) + self.positions
        x = torch.cat([self.class_row[None], x], 1)
        for names in self.names:
            y = self.attend(self.norm(x, names["norm1"]), names)
            x = x + y * self.weights[names["scale1"]]
            y = F.gelu(self.linear(self.norm(x, names["norm2"]), names["fc1"]))
            x = x + self.linear(y, names["fc2"]) * self.weights[names["scale2"]]
        return self.norm(x, "layernorm")
