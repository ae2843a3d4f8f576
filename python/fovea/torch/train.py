"""train.py: the stages as a program, in one process or under torchrun.

    python -m fovea.torch.train dinov2-small --data PHOTOS -o OUT --attention nala --stage 1,2
    torchrun --nproc-per-node 8 -m fovea.torch.train dinov2-giant --data PHOTOS -o OUT --parallel fsdp \\
        --autocast bf16 --stage 1,2 --steps 2000,5000 --batch 16

OUT becomes a folder that `fovea run` reads, with log.jsonl and checkpoint. The same command with
--resume goes on from there. Options and their defaults are those of `fovea adapt`, but --steps
for its epochs; those of a stage
take one value for all stages, or one for each: --lr 1e-3,1e-4.
"""
import argparse
import json
import os
import sys
import time

import torch
from torch import distributed as dist

from . import data, training
from .folders import export, load
from .stages import Options, stage1, stage2
from .swap import attention_of, linearise, swapped

# Options of a stage: name of the field, type, text.
STAGE = [
    ("steps", int, "of the optimiser, 1000"),
    ("lr", float, "learning rate: 1e-3, 1e-4 in stages 1, 2"),
    ("lr_end", float, "rate that the schedule comes to after the last step, 0"),
    ("lr_schedule", str, "constant, linear, cosine: constant in stage 1, linear in stage 2"),
    ("warmup", int, "steps to reach the rate, 20"),
    ("weight_decay", float, "of AdamW, 0.05"),
    ("beta1", float, "of AdamW, 0.9"),
    ("beta2", float, "of AdamW, 0.999"),
    ("clip", float, "largest norm of the gradient; 0: any"),
    ("loss", str, "relative: to the length of what the teacher gives; squared: relative"),
    ("lambda", float, "stage 2: factor of the loss, 1"),
    ("trainable", str, "all, qkv: qkv in stage 1, else all"),
]


def parse(arguments):
    p = argparse.ArgumentParser(prog="python -m fovea.torch.train", description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    add = p.add_argument
    add("model", metavar="MODEL", help="folder of a softmax ViT of transformers or timm")
    add("--data", required=True, metavar="PHOTOS", help="folder of pictures")
    add("-o", "--output", required=True, metavar="OUT", help="folder of the result")
    add("--attention", default="linear:elu1", metavar="NAME",
        help="as fovea adapt takes it, such as nala+softmax@0-3: linear:elu1")
    add("--stage", default="1", metavar="N", help="1, 2, or 1,2: one after the other")
    add("--teacher", metavar="MODEL", help="whose attentions and features; MODEL with softmax")
    add("--batch", type=int, default=16, metavar="N", help="pictures of a step and process, 16")
    add("--size", metavar="WxH", help="of the pictures in pixels, N means NxN; the model's own")
    for name, kind, text in STAGE:
        add("--" + name.replace("_", "-"), metavar="N" if kind is int else "X", help=text,
            default="1000" if name == "steps" else None)
    add("--crop", default="random", metavar="HOW", help="random[:A..B], centre, none")
    add("--flip", type=float, default=0.0, metavar="P", help="how often left and right change places, 0")
    add("--jitter", type=float, default=0.2, metavar="X", help="of brightness, contrast, colour, 0.2")
    add("--seed", type=int, default=0, metavar="N", help="of order and crops, 0")
    add("--parallel", default="auto", choices=["auto", "none", "ddp", "fsdp"])
    add("--autocast", default="none", choices=["none", "bf16"], help="products in bfloat16")
    add("--device", help="cpu, cuda; cuda where there is one")
    add("--workers", type=int, default=0, metavar="N", help="processes that read pictures, of each")
    add("--every", type=int, default=0, metavar="N",
        help="steps between checkpoints; 0: at the end of a stage")
    add("--resume", action="store_true", help="go on from OUT's checkpoint, if there is one")
    return p.parse_args(arguments)


def _of_stage(text, kind, at, stages, name):
    """The value of a stage out of "1e-3,1e-4"."""
    values = text.split(",")
    if len(values) not in (1, len(stages)):
        raise ValueError("--%s %s: one value, or one for each of %d stages" % (name, text, len(stages)))
    try:
        return kind(values[at if len(values) > 1 else 0])
    except ValueError:
        raise ValueError("--%s %s: no number" % (name, text)) from None


def options_of(o, at, stages, device):
    given = {name: _of_stage(getattr(o, name), kind, at, stages, name.replace("_", "-"))
             for name, kind, _ in STAGE if getattr(o, name) is not None}
    if "lambda" in given:
        given["lambda_"] = given.pop("lambda")
    return Options(autocast=o.autocast, parallel=o.parallel, device=device, **given)


def policy_of(o, size, resample):
    if o.size:
        width, _, height = o.size.partition("x")
        size = (int(width), int(height or width))
    else:
        size = (size or 224,) * 2
    crop, _, sides = o.crop.partition(":")
    least, _, most = (sides or "0.5..1").partition("..")
    if crop not in ("random", "centre", "none") or not 0 < float(least) <= float(most) <= 1:
        raise ValueError("--crop %s: random:A..B with 0 < A <= B <= 1, centre, or none" % o.crop)
    return data.Policy(*size, crop, float(least), float(most), o.flip, o.jitter, resample, o.seed)


def begin_processes(device):
    """-> (rank, number of processes, device of this one)"""
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    if "RANK" not in os.environ:
        return 0, 1, device
    if device == "cuda":
        device = "cuda:%s" % os.environ.get("LOCAL_RANK", "0")
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.startswith("cuda") else "gloo")
    return dist.get_rank(), dist.get_world_size(), device


class Log:
    """log.jsonl of the first process, cut back to the step that a training goes on from."""

    def __init__(self, path, first, rank):
        self.file, self.begun = None, time.monotonic()
        if rank:
            return
        kept = []
        if first and os.path.exists(path):
            with open(path) as f:
                kept = f.readlines()[:first]
        self.file = open(path, "w")
        self.file.writelines(kept)

    def write(self, stage, values):
        if not self.file:
            return
        self.file.write(json.dumps({"stage": stage, **values}) + "\n")
        self.file.flush()
        print("stage %d, step %d: loss %.6g, rate %.3g, %.1f s"
              % (stage, values["step"], values["loss"], values["lr"], time.monotonic() - self.begun),
              file=sys.stderr)


def note_of(o, stages, world):
    """What a result depends on: a state of another training is refused."""
    own = {k: v for k, v in sorted(vars(o).items())
           if k not in ("output", "resume", "every", "workers", "device", "parallel", "batch")}
    return json.dumps({**own, "stage": stages, "batch": o.batch * world})


def resume(o, path, note):
    """The state to go on from, or None."""
    state = training.read_state(path) if o.resume else None
    if state is None:
        return None
    was, now = json.loads(json.loads(state["note"])["options"]), json.loads(note)
    for name in now:
        if was.get(name) != now[name]:
            raise ValueError("%s: was made with --%s %s, not %s; without --resume it starts over"
                             % (path, name, was.get(name), now[name]))
    return dict(state, stage=json.loads(state["note"])["stage"])


def run(o):
    rank, world, device = begin_processes(o.device)
    stages = [int(s) if s in ("1", "2") else None for s in o.stage.split(",")]
    if None in stages:
        raise ValueError("--stage %s: 1, 2, or 1,2" % o.stage)
    every_stage = [options_of(o, at, stages, device) for at in range(len(stages))]
    colours, size, resample = data.processor(o.model)
    photos = data.Photographs(data.photographs(o.data), policy_of(o, size, resample), colours)
    model = load(o.model)
    if swapped(model) and attention_of(model) != "softmax" and not o.teacher:
        raise ValueError("%s is a linearised model; --teacher names the softmax model that it came from"
                         % o.model)
    teacher = load(o.teacher or o.model)
    linearise(model, o.attention)
    os.makedirs(o.output, exist_ok=True)
    path, note = os.path.join(o.output, "checkpoint"), note_of(o, stages, world)
    state = resume(o, path, note)
    done = sum(s.steps for s in every_stage[:state["stage"]]) + state["step"] if state else 0
    log = Log(os.path.join(o.output, "log.jsonl"), done, rank)
    for at, (stage, options) in enumerate(zip(stages, every_stage)):
        before = sum(s.steps for s in every_stage[:at])
        if state and at < state["stage"]:
            continue
        here = state if state and at == state["stage"] else None
        first = before + (here["step"] if here else 0)
        feed = data.batches(photos, o.batch, first, rank, world, o.workers)
        (stage1 if stage == 1 else stage2)(
            model, feed, options, teacher, state=path, every=o.every, resumed=here,
            note=json.dumps({"options": note, "stage": at}), report=lambda v: log.write(stage, v))
    if rank == 0:
        export(model, o.output, o.model)


def main(arguments=None):
    try:
        run(parse(arguments))
    except (ValueError, FloatingPointError, OSError) as e:
        sys.exit("fovea.torch.train: %s" % e)
    finally:
        if dist.is_available() and dist.is_initialized():
            dist.destroy_process_group()


if __name__ == "__main__":
    main()
