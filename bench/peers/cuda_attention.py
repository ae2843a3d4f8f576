#!/usr/bin/env python3
"""cuda_attention.py: compares attention on an NVIDIA GPU. Fovea's attention is compared with copies of the same
number of bytes, and with PyTorch, torch.compile, Triton and flash-linear-attention. Time and memory of DINOv2-L are
compared with PyTorch's model and softmax attention. For a small model, the share of a frame that kernels take is
measured.

    cuda_attention.py path/to/fovea [--tokens 16384,65536] [--heads 16] [--dim 64] [--dtype f16]
                      [--attention linear:elu1,mala,...] [--size 1024,1536] [--model dinov2-l] [--small dinov2-s]
                      [--rounds 5] [--device cuda:0] [--json FILE]

Every round measures all participants, and the tables show medians of the rounds' ratios, because a change of the
clock rate affects all of them. Times are measured by events of the device: Fovea's from the beginning of a frame's
first kernel to the end of its last, the others' around their calls. Bytes are those of q, k, v and the result, once
each; Fovea measures the copies directly after its own attention. Fovea's attention is verified in the first round.
Software that is not installed is named and left out. The exit status is 77 if there is no such GPU.
"""
import argparse
import gc
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
# names of Fovea's times in a round; all others are the peers'
OURS = ("fovea", "fovea linear", "copy")
SKIPPED = 77


def numbers(text):
    return [int(x) for x in text.split(",") if x]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fovea")
    parser.add_argument("--tokens", type=numbers, default=[16384, 65536])
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--dtype", choices=TYPES, default="f16")
    parser.add_argument("--attention", type=lambda text: text.split(","), default=list(BIDIRECTIONAL + CAUSAL))
    parser.add_argument("--size", type=numbers, default=[1024, 1536], help="pixels of the model's picture")
    parser.add_argument("--model", default="dinov2-l", choices=["dinov2-l", "dinov2-b", "dinov2-s", "tiny", "none"])
    parser.add_argument("--small", default="dinov2-s",
                        help="model whose kernels are timed in frames of 224 pixels; or none")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--json", metavar="FILE", help="file for the times of every turn")
    return parser.parse_args()


# ---- Fovea ----

def fovea(args, *options, verify=False):
    """The result of one `fovea bench`; None if the device does not support it, or computes it wrongly."""
    p = subprocess.run([args.fovea, "bench", *options, "--device", args.device, "--wisdom", "none",
                        "--runs", "5", "--time", "20", "--per-layer", "-o", "json",
                        "--verify", "first" if verify else "off"], capture_output=True, text=True)
    results = json.loads(p.stdout) if p.stdout.strip() else []
    if not results or (verify and not results[0]["verify"]["ok"]):
        print("fovea bench %s: %s" % (" ".join(options), p.stderr.strip()), file=sys.stderr)
        return None
    return results[0]


def attention_turn(args, name, tokens, first):
    causal = ["--causal", "--form", "chunk"] if name in CAUSAL else []
    result = fovea(args, "attention", "--attention", name, "--tokens", str(tokens), "--heads", str(args.heads),
                   "--dim", str(args.dim), "--dtype", args.dtype, *causal, verify=first)
    if result is None:
        return None
    moved = 4 * tokens * args.heads * args.dim * BYTES[args.dtype]
    return {"fovea": result["device_p50_ms"], "copy": moved / result["roofline"]["copy_gbs"] / 1e6}


def model_turn(args, folder, size, memory):
    """Times of a frame with softmax and with linear attention; the plans' bytes are stored in `memory`."""
    times = {}
    for name, attention in (("fovea", "softmax"), ("fovea linear", "linear:elu1")):
        result = fovea(args, "model", folder, "--size", str(size), "--attention", attention, "--dtype", args.dtype)
        if result is None:
            return None
        times[name] = result["device_p50_ms"]
        memory[name] = result["peak_bytes"]["promised"]
    return times


# ---- the others ----

def device_ms(torch, function, *operands):
    """The median of several calls, timed by the device's events."""
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


def model_peers(torch, args, folder, size):
    """PyTorch's model with its own softmax attention, its picture, and its peak memory in bytes."""
    import vit_checkpoint
    import vit_torch
    dtype = getattr(torch, TYPES[args.dtype])
    gc.collect()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    model = vit_torch.Vit(vit_checkpoint.Checkpoint(folder), size, "sdpa")
    model.weights = {name: w.to("cuda", dtype) for name, w in model.weights.items()}
    model.positions, model.class_row = (x.to("cuda", dtype) for x in (model.positions, model.class_row))
    pixels = torch.rand(1, 3, size, size, device="cuda", dtype=dtype)
    torch.cuda.reset_peak_memory_stats()
    with torch.no_grad():
        model(pixels)
    torch.cuda.synchronize()
    return ({"pytorch": model, "compile": torch.compile(model)}, (pixels,),
            torch.cuda.max_memory_allocated() - before)


# ---- rounds ----

def run(torch, args, turn, others, operands):
    """The times of all participants in every round, a list of dicts. `turn` gets True in the first
    round."""
    rounds = []
    for i in range(args.rounds):
        times = turn(i == 0)
        if times is None:
            return []
        for peer in list(others):
            try:
                with torch.no_grad():
                    times[peer] = device_ms(torch, others[peer], *operands)
            # an error in another program: it is reported, and the program left out
            except Exception as error:
                print("%s: %s" % (peer, (str(error) or repr(error)).splitlines()[0]), file=sys.stderr)
                del others[peer]
        rounds.append(times)
    return rounds


def ratio(rounds, of, to="fovea"):
    return statistics.median(r[of] / r[to] for r in rounds)


def peers_of(rounds):
    """The participants that were measured in every round."""
    return [p for p in rounds[0] if p not in OURS and all(p in r for r in rounds)]


def show(title, rounds):
    if not rounds:
        print("%-34s not done" % title, flush=True)
        return
    line = "%-34s %9.3f ms" % (title, statistics.median(r["fovea"] for r in rounds))
    if "copy" in rounds[0]:
        line += "   of a copy %.2f" % ratio(rounds, "copy")
    peers = peers_of(rounds)
    for peer in peers:
        line += "   vs %s %.2f" % (peer, ratio(rounds, peer))
    if peers:
        best = min(peers, key=lambda peer: ratio(rounds, peer))
        line += "   vs the best of them %.2f (%s)" % (ratio(rounds, best), best)
    print(line, flush=True)


def attentions(torch, args, kept):
    for tokens in args.tokens:
        for name in args.attention:
            others, operands = {}, ()
            if torch:
                import attention_peers
                dtype = getattr(torch, TYPES[args.dtype])
                operands = [torch.randn(1, tokens, args.heads, args.dim, device="cuda", dtype=dtype)
                            for _ in range(3)]
                with torch.no_grad():
                    others = attention_peers.functions(name, *operands)
            rounds = run(torch, args, lambda first: attention_turn(args, name, tokens, first), others, operands)
            title = "%s %dx%d %s N=%d" % (name, args.heads, args.dim, args.dtype, tokens)
            show(title, rounds)
            kept[title] = rounds


def show_model(title, rounds, memory):
    show(title + " softmax", rounds)
    if not rounds:
        return
    line = "%-34s %9.3f ms" % (title + " linear:elu1", statistics.median(r["fovea linear"] for r in rounds))
    line += "   vs its softmax %.2f" % ratio(rounds, "fovea", "fovea linear")
    for peer in peers_of(rounds):
        line += "   vs %s's softmax %.2f" % (peer, ratio(rounds, peer, "fovea linear"))
    print(line)
    print("%-34s %s" % (title + " memory", "   ".join("%s %.0f MiB" % (name, size / 2**20)
                                                      for name, size in memory.items())), flush=True)


def models(torch, args, kept):
    if args.model == "none" or not args.size:
        return
    if not importlib.util.find_spec("numpy"):
        print("no numpy: %s left out" % args.model, file=sys.stderr)
        return
    import vit_checkpoint
    with tempfile.TemporaryDirectory() as folder:
        vit_checkpoint.write(folder, args.model, seed=0)
        for size in args.size:
            others, operands, memory = {}, (), {}
            if torch:
                others, operands, memory["pytorch"] = model_peers(torch, args, folder, size)
            rounds = run(torch, args, lambda first: model_turn(args, folder, size, memory), others, operands)
            title = "%s %dx%d %s" % (args.model, size, size, args.dtype)
            show_model(title, rounds, memory)
            kept[title] = {"rounds": rounds, "memory": memory}


def frames(args, kept):
    """Measures frames as their caller sees them, the device's share of that time, and the sum of the times of
    kernels. Kernels are timed one by one in separate frames."""
    for attention in ("softmax", "linear:elu1") if args.small != "none" else ():
        result = fovea(args, "model", "synthetic:" + args.small, "--size", "224", "--attention", attention,
                       "--dtype", args.dtype, verify=True)
        title = "%s 224x224 %s %s" % (args.small, args.dtype, attention)
        if result is None:
            print("%-34s not done" % title)
            continue
        frame, device = result["p50_ms"], result["device_p50_ms"]
        kernels = sum(layer["ms"] for layer in result["profile"]["layers"])
        print("%-34s %9.3f ms a frame   on the device %.2f   in kernels %.2f"
              % (title, frame, device / frame, kernels / frame), flush=True)
        kept[title] = {"frame": frame, "device": device, "kernels": kernels}


def main():
    args = arguments()
    sys.path.insert(0, HERE)
    asked = subprocess.run([args.fovea, "info"], capture_output=True, text=True)
    line = next((s for s in asked.stdout.splitlines() if s.split()[:1] == [args.device]), None)
    if not line or fovea(args, "attention", "--tokens", "64", "--heads", "1") is None:
        print("skipped: Fovea finds no device %s here" % args.device)
        print("\n".join(s for s in asked.stdout.splitlines() if s.startswith("cuda: ")))
        return SKIPPED
    torch = None
    if importlib.util.find_spec("torch"):
        import torch
        torch = torch if torch.cuda.is_available() else None
    for package, there in (("torch with CUDA", torch), ("triton", importlib.util.find_spec("triton")),
                           ("fla (flash-linear-attention)", importlib.util.find_spec("fla"))):
        if not there:
            print("no %s: left out" % package, file=sys.stderr)
    print(line)
    print("Fovea's time; the share that a copy of the same bytes would take; others' times over Fovea's")
    kept = {}
    attentions(torch, args, kept)
    models(torch, args, kept)
    frames(args, kept)
    if args.json:
        with open(args.json, "w") as f:
            json.dump(kept, f, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
