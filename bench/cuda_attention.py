#!/usr/bin/env python3
"""cuda_attention.py: attention on a GPU of NVIDIA's: Fovea's kernels beside copies of the same bytes and beside
what PyTorch, torch.compile, Triton and flash-linear-attention make of the same problem; DINOv2-L as a whole.

    cuda_attention.py path/to/fovea [--tokens 16384,65536] [--heads 16] [--dim 64] [--dtype f16]
                      [--attention linear:elu1,mala,...] [--size 518,1036] [--rounds 5] [--json FILE]

In every round each has a turn, and what is shown are medians of the rounds' ratios: a clock that moves moves
all of them. Times are the device's: of Fovea the sum of its kernels in a traced frame, of the others from
events. Bytes are q, k, v and the result once; copies are measured by Fovea in the same turn. What is not
installed is named and left out. Exits with 77 where there is no such GPU.
"""
import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
BIDIRECTIONAL = ("softmax", "linear:elu1", "mala", "pola", "nala")
CAUSAL = ("retention", "gla", "gated-delta-rule")
TYPES = {"f16": "float16", "bf16": "bfloat16", "f32": "float32"}
BYTES = {"f16": 2, "bf16": 2, "f32": 4}
SKIPPED = 77


def numbers(text):
    return [int(x) for x in text.split(",")]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fovea")
    parser.add_argument("--tokens", type=numbers, default=[16384, 65536])
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--dtype", choices=TYPES, default="f16")
    parser.add_argument("--attention", type=lambda text: text.split(","), default=list(BIDIRECTIONAL + CAUSAL))
    parser.add_argument("--size", type=numbers, default=[518, 1036], help="pixels of DINOv2-L's picture")
    parser.add_argument("--model", default="dinov2-l", choices=["dinov2-l", "tiny", "none"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--json", metavar="FILE", help="every turn's times")
    return parser.parse_args()


# ---- Fovea ----

def fovea(args, *options):
    """The results of one `fovea bench`; None where this device cannot do it."""
    p = subprocess.run([args.fovea, "bench", *options, "--device", args.device, "--wisdom", "none",
                        "--runs", "5", "--time", "20", "--per-layer", "-o", "json"],
                       capture_output=True, text=True)
    if not p.stdout.strip():
        print("fovea bench %s: %s" % (" ".join(options), p.stderr.strip()), file=sys.stderr)
        return None
    return json.loads(p.stdout)[0]


def kernel_ms(result):
    return sum(layer["ms"] for layer in result["profile"]["layers"])


def attention_turn(args, name, tokens):
    causal = ["--causal", "--form", "chunk"] if name in CAUSAL else []
    result = fovea(args, "attention", "--attention", name, "--tokens", str(tokens), "--heads", str(args.heads),
                   "--dim", str(args.dim), "--dtype", args.dtype, *causal)
    if result is None or not result["verify"]["ok"]:
        return None
    moved = 4 * tokens * args.heads * args.dim * BYTES[args.dtype]
    return {"fovea": kernel_ms(result), "copy": moved / result["roofline"]["copy_gbs"] / 1e6}


# ---- the others: functions of (torch, q, k, v), rows of heads as flash-linear-attention has them ----

def mapped(torch, q, k):
    elu = torch.nn.functional.elu
    return elu(q) + 1, elu(k) + 1


def linear(torch, q, k, v):
    return quotient(torch, *mapped(torch, q, k), v)


def mala(torch, q, k, v):
    q, k = mapped(torch, q, k)
    state = torch.einsum("bnhd,bnhe->bhde", k, v) / k.shape[1]
    z = torch.einsum("bnhd,bhd->bnh", q, k.mean(1))[..., None]
    return torch.einsum("bnhd,bhde->bnhe", q, state) * (1 + 1 / (z + 1e-6)) - z * v.mean(1, keepdim=True)


def polarised(torch, x, size):
    """Positive and negative parts as channels of their own."""
    return torch.cat([size * (x > 0), size * (x < 0)], -1)


def quotient(torch, q, k, v):
    state = torch.einsum("bnhd,bnhe->bhde", k, v) / k.shape[1]
    divisor = torch.einsum("bnhd,bhd->bnh", q, k.mean(1)) + 1e-6
    return torch.einsum("bnhd,bhde->bnhe", q, state) / divisor[..., None]


def pola(torch, q, k, v):
    """With the same power everywhere."""
    q, k = (polarised(torch, x, x.abs().pow(3)) for x in (q, k))
    crossed = torch.cat(q.chunk(2, -1)[::-1], -1)
    same, other = v.chunk(2, -1)
    return torch.cat([quotient(torch, q, k, same), quotient(torch, crossed, k, other)], -1)


def nala(torch, q, k, v):
    norm = q.norm(dim=-1, keepdim=True)
    q = polarised(torch, q, (q / norm).abs().pow(3 * (0.5 + norm.tanh())))
    return quotient(torch, q, polarised(torch, k, k.abs().pow(3)), v)


def softmax(torch, q, k, v):
    sdpa = torch.nn.functional.scaled_dot_product_attention
    return sdpa(*(x.transpose(1, 2) for x in (q, k, v))).transpose(1, 2)


WRITTEN_OUT = {"softmax": softmax, "linear:elu1": linear, "mala": mala, "pola": pola, "nala": nala}


def of_fla(torch, name, q):
    """flash-linear-attention's (Triton) function of the name, or None."""
    shape, on = q.shape[:3], {"device": q.device, "dtype": torch.float32}
    decay = -0.1 * torch.rand(shape, **on)
    if name == "linear:elu1":
        from fla.ops.linear_attn import chunk_linear_attn
        return lambda q, k, v: chunk_linear_attn(*mapped(torch, q, k), v, normalize=True)
    if name == "retention":
        from fla.ops.retention import chunk_retention
        return chunk_retention
    if name == "gla":
        from fla.ops.gla import chunk_gla
        decays = (-0.1 * torch.rand(q.shape, **on)).to(q.dtype)
        return lambda q, k, v: chunk_gla(q, k, v, decays)
    if name == "gated-delta-rule":
        from fla.ops.gated_delta_rule import chunk_gated_delta_rule
        beta = torch.rand(shape, **on).to(q.dtype)
        return lambda q, k, v: chunk_gated_delta_rule(q, k / k.norm(dim=-1, keepdim=True), v, decay, beta)
    return None


def peers(torch, args, name, q):
    """Functions of q, k and v by the peers' names."""
    found = {}
    if name in WRITTEN_OUT:
        written = WRITTEN_OUT[name]
        found["pytorch"] = lambda q, k, v: written(torch, q, k, v)
        found["compile"] = torch.compile(found["pytorch"])
    if importlib.util.find_spec("fla") and args.dtype != "f32":
        function = of_fla(torch, name, q)
        if function:
            found["fla"] = function
    return found


def device_ms(torch, function, *operands):
    """The middle of some calls, by events of the device."""
    times = []
    for i in range(8):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        function(*operands)
        end.record()
        end.synchronize()
        if i >= 3:
            times.append(begin.elapsed_time(end))
    return statistics.median(times)


# ---- DINOv2-L ----

def model_turn(args, size, attention):
    result = fovea(args, "model", "synthetic:dinov2-l" if args.model == "dinov2-l" else "synthetic:vit-s16",
                   "--size", str(size), "--attention", attention, "--dtype", args.dtype)
    return None if result is None else {"fovea": kernel_ms(result)}


def model_peers(torch, args, size, attention):
    sys.path.insert(0, HERE)
    import vit_checkpoint
    import vit_torch
    with tempfile.TemporaryDirectory() as folder:
        vit_checkpoint.write(folder, args.model, seed=0)
        checkpoint = vit_checkpoint.Checkpoint(folder)
        of_torch = "sdpa" if attention == "softmax" else "linear"
        model = vit_torch.Vit(checkpoint, size, of_torch)
    dtype = getattr(torch, TYPES[args.dtype])
    model.weights = {name: w.to("cuda", dtype) for name, w in model.weights.items()}
    model.positions, model.class_row = (x.to("cuda", dtype) for x in (model.positions, model.class_row))
    return {"pytorch": model, "compile": torch.compile(model)}, torch.rand(1, 3, size, size).to("cuda", dtype)


# ---- rounds ----

def run(torch, args, turn, others, operands):
    """Times of each in every round, a list of dicts."""
    rounds = []
    for _ in range(args.rounds):
        times = turn()
        if times is None:
            return []
        for peer in list(others):
            try:
                with torch.no_grad():
                    times[peer] = device_ms(torch, others[peer], *operands)
            except Exception as error:  # of another's program: it is left out, and why is said
                print("%s: %s" % (peer, str(error).splitlines()[0]), file=sys.stderr)
                del others[peer]
        rounds.append(times)
    return rounds


def show(title, rounds):
    if not rounds:
        print("%-34s not done" % title)
        return
    line = "%-34s %9.3f ms" % (title, statistics.median(r["fovea"] for r in rounds))
    for peer in rounds[-1]:
        if peer != "fovea":
            ratio = statistics.median(r[peer] / r["fovea"] for r in rounds if peer in r)
            line += "   %s %.2f" % ("of a copy" if peer == "copy" else "vs " + peer, ratio)
    print(line, flush=True)


def attentions(torch, args, kept):
    for tokens in args.tokens:
        for name in args.attention:
            others, operands = {}, ()
            if torch:
                dtype = getattr(torch, TYPES[args.dtype])
                operands = [torch.randn(1, tokens, args.heads, args.dim, device="cuda", dtype=dtype)
                            for _ in range(3)]
                others = peers(torch, args, name, operands[0])
            rounds = run(torch, args, lambda: attention_turn(args, name, tokens), others, operands)
            title = "%s %dx%d %s N=%d" % (name, args.heads, args.dim, args.dtype, tokens)
            show(title, rounds)
            kept[title] = rounds


def models(torch, args, kept):
    for size in args.size if args.model != "none" else []:
        for attention in ("softmax", "linear:elu1"):
            others, operands = {}, ()
            if torch and args.model == "dinov2-l":
                others, pixels = model_peers(torch, args, size, attention)
                operands = (pixels,)
            rounds = run(torch, args, lambda: model_turn(args, size, attention), others, operands)
            title = "%s %s %dx%d" % (args.model, attention, size, size)
            show(title, rounds)
            kept[title] = rounds


def main():
    args = arguments()
    asked = subprocess.run([args.fovea, "info"], capture_output=True, text=True)
    if "cuda:" not in asked.stdout or fovea(args, "attention", "--tokens", "64", "--heads", "1") is None:
        print("skipped: Fovea finds no device %s here" % args.device)
        return SKIPPED
    torch = None
    if importlib.util.find_spec("torch"):
        import torch
        torch = torch if torch.cuda.is_available() else None
    for package, there in (("torch with CUDA", torch), ("fla", importlib.util.find_spec("fla"))):
        if not there:
            print("no %s: left out" % package, file=sys.stderr)
    print("Fovea's time; the share that a copy of the same bytes would take; others' times over Fovea's")
    kept = {}
    attentions(torch, args, kept)
    models(torch, args, kept)
    if args.json:
        with open(args.json, "w") as f:
            json.dump(kept, f, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
