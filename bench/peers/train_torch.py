#!/usr/bin/env python3
"""train_torch.py: a step of training in PyTorch beside Fovea's: ViT-S/16, 512 pixels, AdamW, as many threads.

    train_torch.py path/to/train_rate [--attention linear,softmax] [--threads 2] [--pictures 4] [--steps 3]
                   [--rounds 3] [--size 512]

PyTorch runs eagerly, keeping all activations and, in a second variant, with every block's activations
computed again (torch.utils.checkpoint), as Fovea does it. Each run is a process of its own; Fovea and the
variants take turns, so that a machine whose clock moves moves all of them. Exits with 77 where there is
no PyTorch.
"""
import argparse
import importlib.metadata
import importlib.util
import json
import re
import resource
import statistics
import subprocess
import sys
import time

WIDTH, DEPTH, HEADS, PATCH, CLASSES = 384, 12, 6, 16, 10
VARIANTS = ("kept", "checkpointed")


# ---- PyTorch's side: one variant in a process of its own ----

def build(torch, size, attention, checkpointed):
    nn, F = torch.nn, torch.nn.functional
    from torch.utils.checkpoint import checkpoint

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(WIDTH, 1e-6), nn.LayerNorm(WIDTH, 1e-6)
            self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.fc1, self.fc2 = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

        def attend(self, x):
            q, k, v = self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
            if attention == "softmax":
                out = F.scaled_dot_product_attention(q, k, v)
            else:
                q, k = F.elu(q) + 1, F.elu(k) + 1
                eps = 1e-6 * k.shape[-2]
                out = q @ (k.transpose(-1, -2) @ v) / (q @ k.sum(-2, keepdim=True).transpose(-1, -2) + eps)
            return self.proj(out.transpose(1, 2).flatten(-2))

        def forward(self, x):
            x = x + self.attend(self.norm1(x))
            return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))

    class Vit(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Conv2d(3, WIDTH, PATCH, PATCH)
            self.first = nn.Parameter(0.02 * torch.randn(1, 1, WIDTH))
            self.positions = nn.Parameter(0.02 * torch.randn(1, 1 + (size // PATCH) ** 2, WIDTH))
            self.blocks = nn.ModuleList(Block() for _ in range(DEPTH))
            self.norm, self.head = nn.LayerNorm(WIDTH, 1e-6), nn.Linear(WIDTH, CLASSES)

        def forward(self, pixels):
            x = self.embed(pixels).flatten(2).transpose(1, 2)
            x = torch.cat([self.first.expand(len(x), -1, -1), x], 1) + self.positions
            for block in self.blocks:
                x = checkpoint(block, x, use_reentrant=False) if checkpointed else block(x)
            return self.head(self.norm(x)[:, 0])

    return Vit()


def bytes_at_peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def work(job):
    """Prints the seconds of the middle step and the bytes at the peak, without what PyTorch itself takes."""
    import torch
    torch.set_num_threads(job["threads"])
    torch.manual_seed(1)
    before = bytes_at_peak()
    model = build(torch, job["size"], job["attention"], job["variant"] == "checkpointed")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.05)
    pixels = torch.randn(job["pictures"], 3, job["size"], job["size"])
    labels = torch.arange(job["pictures"]) % CLASSES
    taken = []
    for _ in range(job["steps"] + 1):
        begin = time.monotonic()
        loss = torch.nn.functional.cross_entropy(model(pixels), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        taken.append(time.monotonic() - begin)
    print(json.dumps({"seconds": statistics.median(taken[1:]), "bytes": bytes_at_peak() - before}))


# ---- both sides ----

def torch_turn(options, attention, variant):
    job = {"attention": attention, "variant": variant, "threads": options.threads, "size": options.size,
           "pictures": options.pictures, "steps": options.steps}
    text = subprocess.run([sys.executable, __file__, "--job", json.dumps(job)], stdout=subprocess.PIPE,
                          text=True, check=True).stdout
    told = json.loads(text)
    return told["seconds"], told["bytes"]


def fovea_turn(options, attention):
    command = [options.train_rate, "synthetic:vit-s16", options.size, attention, options.threads,
               options.pictures, options.steps]
    text = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, check=True).stdout
    seconds = re.search(r"^step +([0-9.]+) s in the middle", text, re.M)
    memory = re.search(r"^memory +([0-9.]+) MB at the peak", text, re.M)
    return float(seconds.group(1)), 1e6 * float(memory.group(1))


def compare(options, attention):
    turns = {"fovea": lambda: fovea_turn(options, attention)}
    for variant in VARIANTS:
        turns["torch, " + variant] = lambda variant=variant: torch_turn(options, attention, variant)
    found = {name: [] for name in turns}
    for _ in range(options.rounds):
        for name, turn in turns.items():
            found[name].append(turn())
    print("\n%s, %d pixels, %d pictures a step, %d threads; the middle of %d rounds of %d steps"
          % (attention, options.size, options.pictures, options.threads, options.rounds, options.steps))
    print("%-22s %10s %12s %10s" % ("", "s a step", "x fovea's", "MiB"))
    for name, results in found.items():
        ratios = [mine[0] / base[0] for mine, base in zip(results, found["fovea"])]
        print("%-22s %10.3f %12.2f %10.0f" % (name, statistics.median(r[0] for r in results),
                                             statistics.median(ratios),
                                             max(r[1] for r in results) / 2**20), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("train_rate")
    parser.add_argument("--attention", default="linear,softmax")
    for name, value in (("threads", 2), ("pictures", 4), ("steps", 3), ("rounds", 3), ("size", 512)):
        parser.add_argument("--" + name, type=int, default=value)
    options = parser.parse_args()
    # Not imported here: what this process takes would count as its children's peak.
    if not importlib.util.find_spec("torch"):
        print("no PyTorch here; pip install torch")
        return 77
    print("PyTorch %s" % importlib.metadata.version("torch"))
    for attention in options.attention.split(","):
        compare(options, attention)
    return 0


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--job":
        work(json.loads(sys.argv[2]))
    else:
        sys.exit(main())
