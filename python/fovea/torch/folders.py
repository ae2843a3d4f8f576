"""folders.py: loads models from folders, and saves them as folders that Fovea runs."""
import functools
import json
import os
import re
import shutil

import torch

from .swap import attention_of, linearise, swapped

PROCESSORS = "processor_config.json", "preprocessor_config.json", "open_clip_config.json"
WEIGHTS = "model.safetensors"
CONFIG = "config.json"
# For a linearised block: the name of the parameter in the module `fovea`, and the tensor's name
# after the block's number.
LEARNED = {"vectors": "attn.vectors", "gate_q": "attn.sla_q.weight", "gate_k": "attn.sla_k.weight",
           "map_q": "attn.map_q.weight", "map_k": "attn.map_k.weight"}
FORM = ("nala_lambda", "pola_alpha", "q_scale", "linear_heads")  # of "fovea", which the modules do not have
BIASES = ("attn.map_q.bias", "attn.map_k.bias")  # nor these
AROUND = ("attn.dwc.", "attn.ln.", "attn.gate.")  # the other parts of an attention module, of `fovea adapt --whole`
BLOCK = re.compile(r"^(.*?\b(?:layer|layers|blocks)\.)(\d+)\.")


def _read_json(path):
    with open(path) as f:
        return json.load(f)


def _make(folder, config):
    if "architecture" in config:
        import timm
        from safetensors.torch import load_file
        model = timm.create_model(config["architecture"], num_classes=config.get("num_classes", 0),
                                  dynamic_img_size=True, **config.get("model_args", {}))
        tensors = load_file(os.path.join(folder, WEIGHTS))
        own = model.state_dict()
        model.load_state_dict({name: x for name, x in tensors.items() if name in own})
        return model
    import transformers
    kind = getattr(transformers, (config.get("architectures") or ["AutoModel"])[0],
                   transformers.AutoModel)
    log, level = transformers.utils.logging, transformers.utils.logging.get_verbosity()
    log.set_verbosity_error()  # learned tensors, which are read below, are news to it
    try:
        return kind.from_pretrained(folder, dtype=torch.float32)
    finally:
        log.set_verbosity(level)


def load(folder, attention=None):
    """A ViT of transformers or timm from a folder with config.json. It gets the attention with which it was
    exported, else `attention`; None: the attention is unchanged."""
    config = _read_json(os.path.join(folder, CONFIG))
    own = config.get("fovea", {})
    attention = attention or own.get("attention")
    model = _make(folder, config)
    if not attention:
        return model
    other = [key for key in FORM if key in own]
    if other:
        raise ValueError('%s: "%s" is not supported; the modules use the authors\' constants and the model\'s '
                         "heads" % (folder, other[0]))
    linearise(model, attention)
    if own.get("sla_gates", "q_dense") != "q_dense":
        raise ValueError("%s: gates of kind %s are not supported; only q_dense are"
                         % (folder, own["sla_gates"]))
    if own.get("sla_gates_sum", "heads") != "heads":
        raise ValueError("%s: gates with a sum of one are not supported; only gates whose sum is the number "
                         "of heads are" % folder)
    _load_learned(model, os.path.join(folder, WEIGHTS))
    return model


def _load_learned(model, path):
    from safetensors import safe_open
    blocks = swapped(model)
    if not os.path.exists(path):
        return
    with safe_open(path, "pt") as file, torch.no_grad():
        for name in file.keys():
            at = BLOCK.match(name)
            if at and name[at.end():].startswith(AROUND + BIASES):
                raise ValueError("%s: %s is a part of the full module of --whole, which PyTorch modules here do not have" % (path, name))
            for own, tensor in LEARNED.items():
                if not at or name[at.end():] != tensor:
                    continue
                target, value = getattr(blocks[int(at[2])].fovea, own), file.get_tensor(name)
                if target is not None and target.shape == value.shape:
                    target.copy_(value)


# ---- export ----


def _named_as_published(model, state):
    """Tensors with the names that checkpoints of the model use."""
    try:
        from transformers import core_model_loading
    except ImportError:
        return dict(state)  # timm's, and those of transformers before version 5
    if not hasattr(model, "config"):
        return dict(state)
    return dict(core_model_loading.revert_weight_conversion(model, dict(state)))


def tensors_of(model, state, dtype):
    """{name: tensor} with the names that Fovea reads."""
    state = dict(model.state_dict() if state is None else state)
    learned = {name: state.pop(name) for name in list(state) if ".fovea." in name}
    order = {name: i for i, name in enumerate(
        path for path, module in model.named_modules() if module in set(swapped(model)))}
    out = _named_as_published(model, state)
    stem = next(BLOCK.match(name)[1] for name in out if BLOCK.match(name))
    for name, tensor in learned.items():
        path, _, own = name.partition(".fovea.")
        out["%s%d.%s" % (stem, order[path], LEARNED[own])] = tensor
    return {name: x.detach().to("cpu", dtype if x.is_floating_point() else x.dtype).contiguous()
            for name, x in out.items()}


def _timm_config(model):
    """The config.json of a timm model, as in timm's hub."""
    given = model.pretrained_cfg if isinstance(model.pretrained_cfg, dict) else {}
    embedding, block = model.patch_embed, model.blocks[0]
    fields = ("input_size", "interpolation", "crop_pct", "crop_mode", "mean", "std")
    return {"architecture": given.get("architecture"), "num_classes": model.num_classes,
            "model_args": {"img_size": list(embedding.img_size), "patch_size": embedding.patch_size[0],
                           "embed_dim": model.embed_dim, "depth": len(model.blocks),
                           "num_heads": block.attn.heads},
            "pretrained_cfg": {k: given[k] for k in fields if given.get(k) is not None}}


def _config(model, source):
    if source and os.path.exists(os.path.join(source, CONFIG)):
        config = _read_json(os.path.join(source, CONFIG))
    elif hasattr(model, "config"):
        config = json.loads(model.config.to_json_string(use_diff=False))
        config["architectures"] = [type(model).__name__]
    else:
        config = _timm_config(model)
    own = config.setdefault("fovea", {})
    own["attention"] = attention_of(model)
    if any(block.fovea.gate_q is not None for block in swapped(model)):
        own["sla_gates"] = "q_dense"
    return config


def _replace(path, write):
    """Calls write(path of a temporary file in the same folder); that file then replaces the target."""
    part = path + ".part"
    write(part)
    os.replace(part, path)


def _write_json(path, value):
    with open(path, "w") as f:
        json.dump(value, f, indent=2)
        f.write("\n")


def export(model, folder, source=None, *, state=None, dtype=torch.float32):
    """Writes a linearised model as a folder that `fovea run` reads: model.safetensors, config.json and,
    where `source` has one, preprocessor_config.json. `source`: the folder that the model came from,
    whose config.json is kept with all of its keys; None: the one that transformers read it from.
    `state`: the model's state_dict, where its parameters are sharded."""
    from safetensors.torch import save_file
    if not swapped(model):
        raise ValueError("%s has the attention that it came with; linearise it first"
                         % type(model).__name__)
    if source is None and hasattr(model, "config"):
        source = getattr(model.config, "_name_or_path", None)
    os.makedirs(folder, exist_ok=True)
    config, tensors = _config(model, source), tensors_of(model, state, dtype)
    for name in PROCESSORS if source else ():
        if os.path.exists(os.path.join(source, name)):
            _replace(os.path.join(folder, name), functools.partial(shutil.copyfile, os.path.join(source, name)))
    _replace(os.path.join(folder, CONFIG), lambda part: _write_json(part, config))
    _replace(os.path.join(folder, WEIGHTS),
             lambda part: save_file(tensors, part, metadata={"format": "pt"}))
