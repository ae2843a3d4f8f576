#!/usr/bin/env python3
"""test_cli.py: the program's exit codes, its one-line messages, and what it writes.

    test_cli.py path/to/fovea
"""
import json, os, resource, struct, subprocess, sys, tempfile, zlib

MODEL = "synthetic:vit-ti16"


def png(width, height, rows):
    """8-bit RGB; `rows` may be shorter than the header says."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(
            ">I", zlib.crc32(kind + data))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) +
            chunk(b"IEND", b""))


def tensors(path):
    blob = open(path, "rb").read()
    n = struct.unpack("<Q", blob[:8])[0]
    head = json.loads(blob[8:8 + n])
    head.pop("__metadata__", None)
    return {name: t["shape"] for name, t in head.items()}


FILES = {
    "grey.pgm": b"P5\n# a comment\n40 30\n255\n" + bytes(range(240)) * 5,
    "colour.ppm": b"P6 40 30 255\n" + bytes(range(240)) * 15,
    "good.png": png(40, 30, (b"\0" + bytes(120)) * 30),
    "short.png": png(40, 30, bytes(500)),
    "claims.png": png(12000, 12000, bytes(1000)),
    "beyond.png": png(100000, 100000, bytes(1000)),
    "short.ppm": b"P6 40 30 255\n123",
    "deep.pgm": b"P5 4 4 65536\n" + bytes(48),
    "text.jpg": b"no picture at all",
    "empty.png": b"",
    "chunk.png": png(1, 1, b"\0abc")[:33] + struct.pack(">I", 0x30000000) + b"eXIf" + bytes(60),
    "cut.jpg": b"\xff\xd8\xff\xe0\x00\x10JFIF\0",
    "bad.safetensors": b"\xff" * 40,
}

# (exit code, arguments)
CASES = [
    (0, ["--help"]), (0, ["--version"]), (0, ["help"]), (0, ["help", "plan"]), (0, ["version"]),
    (0, ["info", "--attentions", "--json"]), (1, ["help", "nothing"]), (1, ["info", "--isa", "mmx"]),
    (1, ["info", "--dtype", "f16"]), (1, ["cache", "--dtype", "f16"]), (1, ["plan", MODEL, "--no-exif"]),
    (1, ["tune", MODEL, "--size", "9..1+1", "-o", "w"]), (1, ["bench", "gemm", "--threads", "5..1+1"]),
    (1, ["tune", MODEL, "--size", "1..1000+1", "-o", "w"]),
    (0, ["info"]), (0, ["info", "--kernels", "--json"]),
    (0, ["run", "--help"]), (0, ["plan", MODEL, "--size", "64x48"]),
    (0, ["plan", "synthetic:dinov2-b", "--size", "16380", "--attention", "linear:elu1"]),
    (0, ["run", MODEL, "grey.pgm", "colour.ppm", "--top", "1"]), (0, ["run", MODEL, "good.png"]),
    (0, ["bench", "gemm", "--shape", "33x70x45", "--activation", "none,gelu", "--runs", "2"]),
    (0, ["bench", "model", MODEL, "--size", "32,48x64", "--runs", "2", "--json"]),
    (0, ["bench", "attention", "--attention", "softmax,linear,mala:relu,pola,nala,focused,sla-linear",
         "--tokens", "5..80*4", "--heads", "3", "--dim", "20", "--value-dim", "12",
         "--dtype", "f32,f16,bf16", "--runs", "2", "--json"]),
    (0, ["bench", "attention", "--attention",
         "softmax,linear,retention,gla,delta-rule,gated-delta-rule,sla-gla,sla-gated-delta-rule",
         "--causal", "--form", "auto,recurrent,chunk", "--tokens", "7,100", "--heads", "2",
         "--dim", "16", "--runs", "2"]),
    (1, []), (1, ["nothing"]), (1, ["run"]), (1, ["run", MODEL]), (1, ["plan"]),
    (1, ["run", MODEL, "good.png", "--nothing"]), (1, ["run", MODEL, "good.png", "--size"]),
    (1, ["run", MODEL, "good.png", "--size", "0"]), (7, ["run", MODEL, "good.png", "--size", "8"]),
    (1, ["run", MODEL, "good.png", "--threads", "0"]),
    (1, ["run", MODEL, "good.png", "-o", "x.txt"]), (1, ["bench", "gemm", "--threads", "1..2"]),
    (1, ["bench", "gemm", "--shape", "1x2"]), (1, ["bench"]), (1, ["bench", "gemm", MODEL]),
    (1, ["bench", "attention", "--tokens", "0"]), (1, ["bench", "attention", "--tokens", "9..1"]),
    (1, ["bench", "attention", "--heads", "x"]), (1, ["bench", "attention", "--dim", "5,,6"]),
    (1, ["bench", "attention", "--form", "spiral"]), (1, ["bench", "attention", "--dtype", "f8"]),
    (2, ["bench", "attention", "--attention", "hydra"]),
    (2, ["bench", "attention", "--attention", "pola", "--causal"]),
    (1, ["bench", "block", "--tokens", "0"]), (2, ["bench", "nothing"]), (2, ["bench", "gemm", "--dtype", "f16"]),
    (1, ["bench", "attention", "--dtype", "int8"]), (0, ["run", MODEL, "good.png", "--dtype", "int8"]),
    (0, ["run", MODEL, "good.png", "--dtype", "f16"]),
    (2, ["run", MODEL, "good.png", "--device", "cl:9"]),
    (2, ["plan", MODEL, "--device", "cl:no such device"]), (2, ["plan", MODEL, "--device", "cuda:99"]),
    (2, ["plan", MODEL, "--device", "tpu"]), (1, ["plan", MODEL, "--max-dispatch-ms", "0"]),
    (0, ["plan", MODEL, "--max-dispatch-ms", "2.5", "--json"]),
    (0, ["run", MODEL, "good.png", "--attention", "mala"]),
    (0, ["run", MODEL, "good.png", "--attention", "sla-mala"]),
    (0, ["run", MODEL, "good.png", "--attention", "linear:elu+1+softmax@0-3+sla-pola@4+mala@9-"]),
    (7, ["run", MODEL, "good.png", "--attention", "linear+softmax@3-12"]),
    (7, ["run", MODEL, "good.png", "--attention", "linear+softmax"]),
    (2, ["run", MODEL, "good.png", "--attention", "linear+hydra@3"]),
    (0, ["bench", "model", MODEL, "--attention", "softmax,softmax+linear@3-", "--runs", "2"]),
    (2, ["run", MODEL, "good.png", "--attention", "linear:identity"]),
    (0, ["run", MODEL, "good.png", "--attention", "hedgehog", "--q-scale", "0.5", "--linear-heads", "2"]),
    (0, ["plan", MODEL, "--attention", "nala", "--nala-lambda", "2.5", "--json"]),
    (0, ["bench", "block", "--attention", "pola", "--pola-alpha", "2", "--tokens", "64", "--runs", "1"]),
    (1, ["run", MODEL, "good.png", "--attention", "nala", "--nala-lambda", "1.9"]),
    (1, ["run", MODEL, "good.png", "--attention", "pola", "--pola-alpha", "much"]),
    (7, ["run", MODEL, "good.png", "--attention", "pola", "--linear-heads", "5"]),
    (7, ["run", "synthetic:mavit-t", "good.png", "--nala-lambda", "4"]),
    (1, ["bench", "gemm", "--shape", "8x8x8", "--linear-heads", "2"]),
    (2, ["run", MODEL, "good.png", "--attention", "retention"]),
    (1, ["run", MODEL, "good.png", "--isa", "mmx"]), (1, ["run", MODEL, "good.png", "--cores", "x"]),
    (7, ["run", MODEL, "good.png", "--memory-limit", "1", "--size", "4096"]),
    (5, ["bench", "gemm", "--shape", "8x8x8", "--runs", "2", "--strict"]),
    (7, ["run", "nowhere", "good.png"]), (7, ["run", MODEL, "nowhere.png"]),
    (7, ["op", "bad.safetensors", "-o", "x.safetensors"]),
    (1, ["plan", MODEL, "--size", "65536"]), (1, ["cache", "nothing"]),
    (7, ["bench", "gemm", "-O", "nowhere/x.json"]), (7, ["bench", "gemm", "--trace", "nowhere/x.json"]),
    (7, ["bench", "gemm", "--baseline", "nowhere.json"]),
] + [(7, ["run", MODEL, f]) for f in ("short.png", "claims.png", "beyond.png", "short.ppm",
                                      "deep.pgm", "text.jpg", "empty.png", "cut.jpg", "chunk.png",
                                      "bad.safetensors")]


def run(exe, args, folder):
    return subprocess.run([exe] + args, capture_output=True, text=True, cwd=folder)


def check(exe, code, args, folder):
    p = run(exe, args, folder)
    what = "fovea " + " ".join(args)
    if p.returncode != code:
        return f"{what}: exit {p.returncode}, wanted {code}: {p.stderr.strip()[-200:]}"
    if code and args and (not p.stderr.startswith("fovea: ") or p.stderr.count("\n") > 2):
        return f"{what}: wanted one line on stderr, got {p.stderr!r}"
    if code == 0 and "--json" in args:
        for line in p.stdout.splitlines():
            json.loads(line)
    return None if code or p.stdout else f"{what}: wrote nothing"


def check_devices(exe, folder):
    """The message for an unknown device lists the existing ones; every backend reports what it found."""
    info = json.loads(run(exe, ["info", "--json"], folder).stdout)
    ids = [d["id"] for d in info["devices"]]
    for name in ("cl:99", "cl:no such device", "cuda:99", "tpu"):
        said = run(exe, ["plan", MODEL, "--device", name], folder).stderr
        if "'%s'" % name not in said or not all(i + " (" in said for i in ids):
            return f"--device {name}: {said!r} does not list {ids}"
        status = [r for r in info["remarks"] if r.split(":")[0] == name.split(":")[0]]
        if status and status[0] not in said:
            return f"--device {name}: {said!r} does not say {status[0]!r}"
    if sorted(r.split(":")[0] for r in info["remarks"]) != ["cl", "cpu", "cuda"]:
        return f"remarks {info['remarks']}"
    plain = run(exe, ["info"], folder).stdout
    for d in info["devices"]:
        if any(d[key] not in plain for key in ("name", "driver", "quirks", "imports")):
            return f"info leaves out what --json says of {d['id']}"
    return None


ZIP, OLD = b"PK\3\4" + bytes(60), b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j" + bytes(60)
PICKLED = {"hf/pytorch_model.bin": ZIP, "hf/config.json": b"{}", "old.pth": OLD,
           "sharded/pytorch_model.bin.index.json": b"{}", "sharded/config.json": b"{}",
           "clip/open_clip_pytorch_model.bin": ZIP, "clip/open_clip_config.json": b"{}", "clip/a.bin": b"",
           "own/b.pt": b"", "own/c.pth": b"", "own/a.txt": b"", "empty/notes.txt": b""}


def check_words(exe, folder):
    """Messages name the error and the remedy."""
    for name, data in PICKLED.items():
        os.makedirs(os.path.dirname(folder + "/" + name), exist_ok=True)
        with open(folder + "/" + name, "wb") as f:
            f.write(data)
    command = '"fovea convert '
    for args, words in (
            (["rnu"], ["did you mean", '"run"']), (["run", MODEL, "good.png", "--sise", "32"], ["--size?"]),
            (["info", "--dtype", "f16"], ["info has no option --dtype"]),
            (["plan", "hf"], [command + 'hf/pytorch_model.bin hf"']),
            (["run", "hf", "good.png"], [command + 'hf/pytorch_model.bin hf"', "PyTorch's own format"]),
            (["plan", "hf/pytorch_model.bin"], [command + 'hf/pytorch_model.bin hf"']),
            (["plan", "old.pth"], [command + 'old.pth old --architecture NAME"']),
            (["plan", "./old.pth"], [command + './old.pth ./old --architecture NAME"']),
            (["plan", "sharded"], [command + 'sharded/pytorch_model.bin.index.json sharded"']),
            (["plan", "sharded/pytorch_model.bin.index.json"],
             [command + 'sharded/pytorch_model.bin.index.json sharded"']),
            (["plan", "clip"], [command + 'clip/open_clip_pytorch_model.bin clip"']),
            (["plan", "own"], [command + 'own/b.pt own --architecture NAME"']),
            (["plan", "empty"], ["neither model.safetensors nor"]),
            (["run", "facebook/dinov2-base", "good.png"],
             ["facebook/dinov2-base is not in the cache, ", "models--facebook--dinov2-base, and HF_HUB_OFFLINE"]),
            (["plan", "timm/vit_base_patch16_224.augreg_in1k"], ["is not in the cache"]),
            *((["plan", path], ["a model is a folder with"])
              for path in ("own/none.pth", "./a/b", "a/b/c", "a/", "/a/b", "a/b c")),
            (["plan", "hf/config.json"], ["give its folder"]),
            (["plan", MODEL, "--attention", "gla"], ["causal", "use linear"]),
            (["plan", MODEL, "--attention", "softmax@0-3"], ["NAME+softmax@0-3"]),
            (["plan", MODEL, "--isa", "avx2" if os.uname().machine == "aarch64" else "neon"],
             ["lacks these instructions"])):
        said = run(exe, args, folder).stderr
        if not all(w in said for w in words) or "set `causal`" in said:
            return f"fovea {' '.join(args)}: {said!r} lacks one of {words}"
    helps = [run(exe, a, folder).stdout for a in (["help", "run"], ["run", "--help"])]
    if helps[0] != helps[1] or "--no-exif" not in helps[0]:
        return f"fovea help run: {helps[0]!r}"
    for command, options in (("info", 9), ("cache", 4)):
        lines = [line for line in run(exe, ["help", command], folder).stdout.splitlines() if " --" in line]
        if len(lines) > options:
            return f"fovea help {command}: {lines}"
    first = run(exe, ["--help"], folder).stdout
    if first.index("for development") > first.index("  op ") or "off; all; or those" not in first:
        return f"fovea --help: {first}"
    return None


def check_isa(exe, folder):
    """info reports the instruction set that is used, not the ones that the processor supports."""
    for args, more in ((["--isa", "scalar"], {}), ([], {"FOVEA_ISA": "scalar"})):
        p = subprocess.run([exe, "info", "--json"] + args, capture_output=True, text=True, env={**os.environ, **more})
        if json.loads(p.stdout)["devices"][0]["features"] != "scalar":
            return f"info {args} {more}: {p.stdout}"
    return None


def check_plan(exe, folder):
    """Equal blocks are listed once, all steps with --steps; a measured time is shown."""
    short = run(exe, ["plan", MODEL], folder).stdout
    steps = json.loads(run(exe, ["plan", MODEL, "--json"], folder).stdout)["steps_count"]
    every = run(exe, ["plan", MODEL, "--steps"], folder).stdout
    if "block 0-10 fc1" not in short or "x 11" not in short or "block 11 fc1" not in short:
        return f"plan: {short}"
    if short.count("\n") > 50 or every.count("\n") < steps or "block 5 fc1" not in every:
        return f"plan: {short.count(chr(10))} lines, --steps: {every.count(chr(10))} for {steps} steps"
    for word in ("residual", "measured by tuning"):
        if word in short:
            return f"plan says {word!r}"
    run(exe, ["tune", MODEL, "--size", "32", "--time", "2", "-o", "wisdom"], folder)
    if "measured by tuning" not in run(exe, ["plan", MODEL, "--size", "32", "--wisdom", "wisdom"], folder).stdout:
        return "plan does not show the time that tuning has measured"
    p = run(exe, ["cache", "list", "--wisdom", "wisdom"], folder)
    if " facts\n" not in p.stdout or "version" in p.stdout:
        return f"cache list: {p.stdout}"
    return None


def check_limits(exe, folder):
    """The results of every device have that device's own limits, whichever devices a bench measures."""
    info = json.loads(run(exe, ["info", "--json"], folder).stdout)
    ids = ["cpu"] + [d["id"] for d in info["devices"] if d["id"].startswith("cl:")][:1]
    p = run(exe, ["bench", "attention", "--attention", "linear", "--tokens", "70", "--heads", "2", "--runs",
                  "2", "--device", ",".join(ids), "--json"], folder)
    results = [json.loads(line) for line in p.stdout.splitlines()]
    if p.returncode or [r["env"]["device"] for r in results] != ids:
        return f"bench on {ids}: exit {p.returncode}: {p.stderr}"
    for id, r in zip(ids, results):
        known = [r["roofline"][k] > 0 for k in ("fraction", "floor_ms", "fma_gflops", "read_gbs")]
        if not all(known) or r["params"].get("device", "cpu") != id:
            return f"bench on {id}: {r['roofline']}, {r['params']}"
    with open(folder + "/bench.json", "w") as f:
        f.write(p.stdout)
    table = run(exe, ["bench", "--from", "bench.json"], folder).stdout.splitlines()
    if sum("%" in line for line in table) != len(ids) + 1:  # the header names the interval
        return f"bench on {ids}: {table}"
    if len(ids) > 1:
        return check(exe, 2, ["bench", "floors", MODEL, "--runs", "2", "--device", ids[1]], folder)
    return None


def check_files(exe, folder):
    p = run(exe, ["run", MODEL, "good.png", "grey.pgm", "-o", "out.safetensors", "--hidden",
                  "--features", "f.npy", "--pca", "p.png"], folder)
    if p.returncode:
        return p.stderr
    got = tensors(folder + "/out.safetensors")
    wanted = {"logits": [2, 1000], "last_hidden_state": [2, 197, 192], "feat.hidden0": [2, 197, 192],
              "feat.hidden12": [2, 197, 192]}
    for name, shape in wanted.items():
        if got.get(name) != shape:
            return f"{name} is {got.get(name)}, wanted {shape}"
    if b"'shape': (2, 14, 14, 192, )" not in open(folder + "/f.npy", "rb").read(128):
        return "f.npy has another shape"
    for name in ("p-good.png", "p-grey.png"):
        if not open(folder + "/" + name, "rb").read(8).startswith(b"\x89PNG"):
            return f"{name} is no PNG"
    return None


def check_home(exe, folder):
    """Results of tuning are stored even if the folder does not exist yet."""
    for args, more in ((["tune", MODEL, "--size", "32", "--time", "1"], {}),
                       (["plan", MODEL, "--size", "32", "--rigor", "measure"], {}),
                       (["plan", MODEL, "--size", "32"], {"FOVEA_RIGOR": "measure"})):
        with tempfile.TemporaryDirectory() as home:
            env = {k: v for k, v in os.environ.items() if k not in ("XDG_CACHE_HOME", "FOVEA_WISDOM")}
            p = subprocess.run([exe] + args + ["--device", "cpu"], capture_output=True, text=True,
                               env=dict(env, HOME=home, **more))
            if p.returncode or not os.path.exists(home + "/.cache/fovea/wisdom"):
                return f"{args} in a new home: exit {p.returncode}: {p.stderr}"
            p = subprocess.run([exe, "plan", MODEL, "--size", "32", "--rigor", "measure", "--wisdom", "none"],
                               capture_output=True, text=True, env=dict(env, HOME=home))
            if p.returncode or p.stderr:
                return f"--wisdom none: exit {p.returncode}: {p.stderr}"
    return None


def check_baseline(exe, folder):
    """The file of --baseline may be that of -O: the comparison uses its earlier results."""
    args = ["bench", "gemm", "--shape", "33x70x45", "--runs", "2", "-o", "jsonl", "-O", "results.jsonl"]
    p = run(exe, args, folder)
    if p.returncode:
        return p.stderr
    with open(folder + "/results.jsonl") as f:
        r = json.loads(f.read())
    r["p50_ms"] /= 1e6
    with open(folder + "/results.jsonl", "w") as f:
        f.write(json.dumps(r) + "\n")
    p = run(exe, args + ["--baseline", "results.jsonl"], folder)
    return None if p.returncode == 6 else f"a baseline that is faster: exit {p.returncode}: {p.stderr}"


def check_full(exe, folder):
    """No partial file remains under the name of a complete one; the message gives the reason."""
    def small():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    for option, name in (("--features", "cut.npy"), ("-o", "cut.safetensors"), ("--pca", "cut_pca.png")):
        # SIGXFSZ stays ignored, as it is in Python: writing fails.
        p = subprocess.run([exe, "run", MODEL, "good.png", option, name], capture_output=True, text=True,
                           cwd=folder, preexec_fn=small, restore_signals=False)
        if p.returncode != 7 or name not in p.stderr or os.path.exists(folder + "/" + name):
            return f"{option} {name}: exit {p.returncode}: {p.stderr}"
    with open("/dev/full", "w") as full:
        for args in (["--help"], ["plan", "--help"], ["--version"], ["plan", MODEL]):
            p = subprocess.run([exe] + args, stdout=full, stderr=subprocess.PIPE, text=True)
            if p.returncode != 7:
                return f"{args} on a full disk: exit {p.returncode}: {p.stderr}"
    return None


def check_full_disk(exe, folder):
    """Simulates a full disk by a limit on file sizes: existing files are kept."""
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (20000, resource.RLIM_INFINITY))
    for name, option in (("f.npy", "--features"), ("p.png", "--pca")):
        args = [exe, "run", MODEL, "good.png", option, name, "--size"]
        subprocess.run([*args, "32"], cwd=folder, capture_output=True, check=True)
        before = open(folder + "/" + name, "rb").read()
        p = subprocess.run([*args, "640"], cwd=folder, capture_output=True, text=True,
                           preexec_fn=limit, restore_signals=False) # SIGXFSZ stays ignored
        if p.returncode != 7 or name not in p.stderr or "too large" not in p.stderr.lower():
            return f"{name} on a full disk: exit {p.returncode}, {p.stderr}"
        if open(folder + "/" + name, "rb").read() != before:
            return f"{name} was damaged when the disk was full"
    left = [name for name in os.listdir(folder) if name.endswith(".tmp")]
    return f"{left} are left over" if left else None


def main(argv):
    if len(argv) != 1:
        print(__doc__)
        return 2
    exe = os.path.abspath(argv[0])
    others = [check_files, check_devices, check_words, check_isa, check_plan, check_limits, check_home, check_baseline, check_full,
              check_full_disk]
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        for name, data in FILES.items():
            with open(os.path.join(folder, name), "wb") as f:
                f.write(data)
        wrong += [check(exe, code, args, folder) for code, args in CASES]
        wrong += [one(exe, folder) for one in others]
    wrong = [w for w in wrong if w]
    for w in wrong:
        print(w)
    print(f"{len(CASES) + len(others) - len(wrong)} passed, {len(wrong)} failed, 0 skipped")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
