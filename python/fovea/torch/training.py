"""training.py: steps of a stage: AdamW, its rates, several processes, states.

A process of several has its share of every batch; the gradient is the mean over all of them, as that
of a single process with the whole batch. DDP has the weights in every process, FSDP (fully_shard of
PyTorch) a part of weights, gradients and moments in each, of the teacher's weights too.
"""
import copy
import math
import os

import torch
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import clip_grad_norm_

from .swap import Swapped

STATE = "fovea.torch state 1"
# Rows that are added to tokens, or are tokens: no weight decay, as of biases, norms and layer scales.
ROWS = ("cls_token", "class_embedding", "register_tokens", "reg_token", "dist_token", "mask_token",
        "distillation_token", "position_embeddings", "position_embedding.weight", "pos_embed")


def rate(options, step):
    """The learning rate of a step, the first is 0."""
    if step < options.warmup:
        return options.lr * (step + 1) / options.warmup
    part = min((step - options.warmup) / max(options.steps - options.warmup, 1), 1)
    if options.lr_schedule == "constant":
        return options.lr
    left = 1 - part if options.lr_schedule == "linear" else (1 + math.cos(math.pi * part)) / 2
    return options.lr_end + (options.lr - options.lr_end) * left


def _optimizer(learner, options):
    decayed, others = [], []
    for name, parameter in learner.named_parameters():
        if parameter.requires_grad:
            bare = parameter.ndim <= 1 or name.endswith(ROWS)
            (others if bare else decayed).append(parameter)
    groups = [{"params": decayed, "weight_decay": options.weight_decay},
              {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW([g for g in groups if g["params"]], lr=options.lr, eps=1e-8,
                             betas=(options.beta1, options.beta2))


# ---- several processes ----


def world():
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def _shard(module, mesh):
    """Attentions and the blocks around them are units that are gathered when they are computed, the
    rest is one."""
    try:
        from torch.distributed.fsdp import fully_shard
    except ImportError:
        raise ValueError("--parallel fsdp needs PyTorch 2.6 or later; ddp does not") from None
    parents = [m for m in module.modules() if any(isinstance(c, Swapped) for c in m.children())]
    for block in parents:
        for child in block.children():
            if isinstance(child, Swapped):
                fully_shard(child, mesh=mesh)
        fully_shard(block, mesh=mesh)
    fully_shard(module, mesh=mesh)
    return module


class Parallel:
    """A learner and its teacher as `options.parallel` wants them. With FSDP `learner` is a copy:
    give_back() brings its weights to the original."""

    def __init__(self, learner, teacher, options):
        kind = options.parallel
        if kind == "auto":
            kind = "ddp" if world() > 1 else "none"
        if kind != "none" and not (dist.is_available() and dist.is_initialized()):
            raise ValueError("parallel %s: begin the processes first, with torchrun" % kind)
        self.kind, self.original = kind, learner
        device = torch.device(options.device or next(learner.parameters()).device)
        self.device = device
        if kind == "fsdp":
            mesh = dist.device_mesh.init_device_mesh(device.type, (world(),))
            self.learner = self.called = _shard(copy.deepcopy(learner).to(device), mesh)
            self.teacher = _shard(teacher.to(device), mesh)
            return
        self.learner = self.called = learner.to(device)
        self.teacher = teacher.to(device)
        if kind == "ddp":
            # Heads and poolers behind the features have no gradient.
            self.called = DistributedDataParallel(learner, find_unused_parameters=True)

    def mean(self, x):
        """Over all processes."""
        if world() > 1 and self.kind != "none":
            dist.all_reduce(x)
            x /= world()
        return x

    def give_back(self):
        if self.kind == "fsdp":
            from torch.distributed.checkpoint.state_dict import get_model_state_dict
            self.original.load_state_dict(get_model_state_dict(self.learner, options=_state_options()))


# ---- states ----


def _state_options(**more):
    """Whole tensors, however they are sharded. Not `strict`: what has had no gradient has no moments."""
    from torch.distributed.checkpoint.state_dict import StateDictOptions
    return StateDictOptions(full_state_dict=True, **more)


def write_state(path, learner, optimizer, step, note):
    """The weights, the moments of those that are trained, and the number of steps done. Called by all
    processes, written by the first. At any moment `path` holds a whole state."""
    from torch.distributed.checkpoint.state_dict import get_state_dict
    weights, moments = get_state_dict(learner, optimizer, options=_state_options(cpu_offload=True))
    if world() == 1 or dist.get_rank() == 0:
        with open(path + ".part", "wb") as f:
            torch.save({"kind": STATE, "step": step, "note": note, "weights": weights,
                        "moments": moments}, f)
            f.flush()
            os.fsync(f.fileno())
        os.replace(path + ".part", path)
    if world() > 1:
        dist.barrier()


def read_state(path):
    """{"step", "note", ...} of a file, or None where there is none. ValueError where it is not a state."""
    if not os.path.exists(path):
        return None
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as e:
        raise ValueError("%s: no state of a training (%s)" % (path, str(e).split("\n")[0])) from None
    if not isinstance(state, dict) or state.get("kind") != STATE:
        raise ValueError("%s: no state of a training" % path)
    return state


# ---- steps ----


def _step(parallel, optimizer, pixels, options, number):
    """-> (loss, losses of blocks or None, gradient's norm or None), means over all processes."""
    pixels = pixels.to(parallel.device, non_blocking=True)
    with torch.autocast(parallel.device.type, torch.bfloat16, enabled=options.autocast == "bf16"):
        with torch.no_grad():
            given = parallel.teacher(pixels)
        loss, layers = parallel.called(*given)
    loss_now = parallel.mean(loss.detach().double()).item()
    if not math.isfinite(loss_now):
        raise FloatingPointError("step %d: the loss is %g; a lower learning rate, or a longer warm-up"
                                 % (number + 1, loss_now))
    optimizer.zero_grad()
    loss.backward()
    norm = None
    if options.clip:
        norm = float(clip_grad_norm_([p for p in parallel.learner.parameters() if p.requires_grad],
                                     options.clip))
    for group in optimizer.param_groups:
        group["lr"] = rate(options, number)
    optimizer.step()
    return loss_now, None if layers is None else parallel.mean(layers.double()).tolist(), norm


def train(learner, teacher, batches, options, *, report=None, state=None, every=0, resumed=None,
          note=""):
    """Steps until options.steps. report(dict): called after each, with step (from 1), loss, lr, and
    loss_layers, gradient_norm where there are such. Every `every` steps, and at the end, the state is
    written to the file `state`; `resumed`: what read_state() gave, `batches` begin where that ended.
    Returns the losses."""
    parallel = Parallel(learner, teacher, options)
    parallel.called.train()
    optimizer = _optimizer(parallel.learner, options)
    first, losses = 0, []
    if resumed:
        from torch.distributed.checkpoint.state_dict import set_state_dict
        set_state_dict(parallel.learner, optimizer, model_state_dict=resumed["weights"],
                       optim_state_dict=resumed["moments"],
                       options=_state_options(strict=False))
        first = resumed["step"]
    feed = iter(batches)
    for step in range(first, options.steps):
        loss, layers, norm = _step(parallel, optimizer, next(feed), options, step)
        losses.append(loss)
        if report:
            values = {"step": step + 1, "loss": loss, "lr": rate(options, step),
                      "loss_layers": layers, "gradient_norm": norm}
            report({k: v for k, v in values.items() if v is not None})
        if state and (step + 1 == options.steps or every and (step + 1) % every == 0):
            write_state(state, parallel.learner, optimizer, step + 1, note)
    parallel.give_back()
    learner.eval()
    return losses
