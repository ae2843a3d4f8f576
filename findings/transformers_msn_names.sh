#!/bin/sh
# transformers 5.24.0: save_pretrained of ViTMSNForImageClassification writes the blocks without the
# prefix that all other tensors of the model have.
#
# The file has vit.embeddings.* and vit.layernorm.*, but encoder.layer.0.* instead of
# vit.encoder.layer.0.*. ViTForImageClassification, which has the same blocks, keeps the prefix. transformers
# reads its own file back, so that a round trip does not show it; other programs that expect the names of
# the published checkpoints find no blocks in it.
#
#   sh findings/transformers_msn_names.sh      exit 0: it is still so
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.15.0 transformers==5.24.0
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import sys
import torch
import transformers
from safetensors.torch import load_file

SIZES = dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, image_size=32,
             patch_size=16)


def saved(kind):
    """The prefixes of the blocks and of all other tensors but the classifier, and whether they are read back."""
    config = getattr(transformers, kind + "Config")(**SIZES)
    model = getattr(transformers, kind + "ForImageClassification")(config)
    folder = "%s/%s" % (sys.argv[1], kind)
    model.save_pretrained(folder)
    names = [n for n in load_file(folder + "/model.safetensors") if not n.startswith("classifier.")]
    blocks = {n.split("encoder.layer.")[0] for n in names if "encoder.layer." in n}
    others = {n.split(".")[0] for n in names if "encoder.layer." not in n}
    again = type(model).from_pretrained(folder)
    same = all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), again.state_dict().values()))
    print("%s: blocks have the prefix %s, other tensors %s; read back: %s" % (kind, blocks, others, same))
    return blocks, others, same


msn, vit = saved("ViTMSN"), saved("ViT")
sys.exit(not (msn == ({""}, {"vit"}, True) and vit == ({"vit."}, {"vit"}, True)))
PYTHON
