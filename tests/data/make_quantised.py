#!/usr/bin/env python3
"""make_quantised.py: writes quantised.json: layers of a small ViT as the packages themselves quantise and save them,
and the values that the packages dequantise them to.

    pip install torch transformers torchao bitsandbytes compressed-tensors accelerate loguru
    make_quantised.py

Written with torch 2.15.0, transformers 5.24.0, torchao 0.18.0, bitsandbytes 0.50.2, compressed-tensors 0.20.1.
"""
import base64
import json
import os
import tempfile

import numpy as np
import torch
from bitsandbytes.functional import int8_vectorwise_dequant
from compressed_tensors.compressors import ModelCompressor
from compressed_tensors.quantization import QuantizationArgs, QuantizationConfig, QuantizationScheme
from compressed_tensors.quantization import apply_quantization_config
from compressed_tensors.quantization.utils import calculate_qparams
from safetensors import safe_open
from torchao.quantization import Float8WeightOnlyConfig, Int8DynamicActivationInt8WeightConfig, Int8WeightOnlyConfig
from transformers import AutoModelForImageClassification, BitsAndBytesConfig, TorchAoConfig, ViTConfig
from transformers import ViTForImageClassification

HERE = os.path.dirname(os.path.abspath(__file__))
LAYERS = {"classifier": "classifier", "vit.layers.0.mlp.fc1": "vit.encoder.layer.0.intermediate.dense"}
INT = {"num_bits": 8, "type": "int", "symmetric": True}
FLOAT = {"num_bits": 8, "type": "float", "symmetric": True}
COMPRESSED = {
    "int8 of channels": ("int-quantized", {**INT, "strategy": "channel"}),
    "int8 of tensors": ("int-quantized", {**INT, "strategy": "tensor"}),
    "int8 of groups with zeros": ("int-quantized", {**INT, "strategy": "group", "group_size": 8, "symmetric": False}),
    "packed int8": ("pack-quantized", {**INT, "strategy": "group", "group_size": 8}),
    "packed int8 with zeros": ("pack-quantized", {**INT, "strategy": "channel", "symmetric": False}),
    "packed int4": ("pack-quantized", {**INT, "num_bits": 4, "strategy": "channel"}),
    "FP8 of tensors": ("float-quantized", {**FLOAT, "strategy": "tensor"}),
    "FP8 of channels": ("float-quantized", {**FLOAT, "strategy": "channel"}),
    "FP8 of blocks": ("float-quantized", {**FLOAT, "strategy": "block", "block_structure": [16, 8]}),
}
TORCHAO = {"int8": Int8WeightOnlyConfig(), "int8, dynamic": Int8DynamicActivationInt8WeightConfig(),
           "FP8": Float8WeightOnlyConfig()}


def packed(t):
    return base64.b64encode(t.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()).decode()


def saved(folder):
    """The tensors of the layers in a folder, and its config.json."""
    tensors = {}
    with safe_open(os.path.join(folder, "model.safetensors"), "pt") as f:
        for name in f.keys():
            if any(name.startswith(layer + ".") for layer in LAYERS.values()) and not name.endswith(".bias"):
                t = f.get_tensor(name)
                tensors[name] = {"dtype": f.get_slice(name).get_dtype(), "shape": list(t.shape), "data": packed(t)}
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
        return tensors, json.load(f)["quantization_config"]


def weights(model, value):
    return {LAYERS[name] + ".weight": value(layer.weight, layer).float()
            for name, layer in model.named_modules() if name in LAYERS}


def load(folder, **options):
    return AutoModelForImageClassification.from_pretrained(folder, **options)


def of_transformers(plain, folder, config, value, **options):
    model = load(plain, quantization_config=config, **options)
    model.save_pretrained(folder)
    return weights(load(folder, **options), value)


def least_and_most(w, shape, block):
    """The minimum and maximum of each part of w that has its own scale."""
    low, high = torch.zeros(shape), torch.zeros(shape)
    for i in np.ndindex(*shape):
        part = w[tuple(slice(k * n, (k + 1) * n) for k, n in zip(i, block))]
        low[i], high[i] = part.min(), part.max()
    return low, high


def of_compressed_tensors(plain, folder, form, arguments):
    model = load(plain)
    scheme = QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**arguments))
    config = QuantizationConfig(config_groups={"group_0": scheme}, ignore=[], format=form,
                                quantization_status="initialized")
    apply_quantization_config(model, config)
    for layer in model.modules():
        if not hasattr(layer, "quantization_scheme"):
            continue
        w, scale = layer.weight.data, layer.weight_scale.data
        block = arguments.get("block_structure") or (1, arguments.get("group_size") or w.shape[1])
        if arguments["strategy"] == "tensor":
            low, high = w.min().reshape(1), w.max().reshape(1)
        else:
            low, high = least_and_most(w, tuple(scale.shape), block)
        made, zero = calculate_qparams(low, high, layer.quantization_scheme.weights)
        layer.weight_scale.data = made.reshape(scale.shape).to(scale.dtype)
        if hasattr(layer, "weight_zero_point"):
            layer.weight_zero_point.data = zero.reshape(scale.shape).to(layer.weight_zero_point.dtype)
    compressor = ModelCompressor.from_pretrained_model(model, quantization_format=form)
    compressor.compress_model(model)
    model.save_pretrained(folder)
    compressor.update_config(folder)
    compressor.decompress_model(model)
    return weights(model, lambda w, layer: w.data)


def transformers_fp8(folder):
    """The tensors of transformers' FP8 format. transformers writes them only on a GPU, so they are computed here from
    the format's definition."""
    with safe_open(os.path.join(folder, "model.safetensors"), "pt") as f:
        w = f.get_tensor("classifier.weight").to(torch.float8_e4m3fn)
    scale = torch.tensor([[0.5, 3.0]])
    made = w.float() * scale.repeat_interleave(8, 1)
    tensors = {"classifier.weight": {"dtype": "F8_E4M3", "shape": list(w.shape), "data": packed(w)},
               "classifier.weight_scale_inv": {"dtype": "F32", "shape": [1, 2], "data": packed(scale)}}
    return tensors, {"quant_method": "fp8", "weight_block_size": [8, 8]}, {"classifier.weight": made}


def main():
    torch.manual_seed(0)
    cases = {}

    def keep(name, tensors, config, values):
        cases[name] = {"quantization_config": config, "tensors": tensors,
                       "values": {k: {"shape": list(v.shape), "data": packed(v)} for k, v in values.items()}}

    with tempfile.TemporaryDirectory() as top:
        plain = os.path.join(top, "plain")
        ViTForImageClassification(ViTConfig(
            hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=24, image_size=8,
            patch_size=4, num_labels=3)).save_pretrained(plain)
        for name, config in TORCHAO.items():
            folder = os.path.join(top, name)
            values = of_transformers(plain, folder, TorchAoConfig(config), lambda w, layer: w.dequantize())
            keep("torchao, " + name, *saved(folder), values)
        folder = os.path.join(top, "bitsandbytes")
        values = of_transformers(plain, folder, BitsAndBytesConfig(load_in_8bit=True),
                                 lambda w, layer: int8_vectorwise_dequant(w.data, w.SCB), device_map="cpu")
        keep("bitsandbytes", *saved(folder), values)
        for name, (form, arguments) in COMPRESSED.items():
            folder = os.path.join(top, name)
            values = of_compressed_tensors(plain, folder, form, arguments)
            keep("compressed-tensors, " + name, *saved(folder), values)
        keep("transformers, FP8", *transformers_fp8(plain))
    with open(os.path.join(HERE, "quantised.json"), "w", encoding="utf-8") as f:
        json.dump(cases, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
