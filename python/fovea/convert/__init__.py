"""fovea.convert: checkpoints in other formats as folders that Fovea runs; the command `fovea convert`.

    command        the command line
    pickles        a pickle as data: nothing is imported, nothing of it runs
    torch_files    what torch.save and torch.jit.save write, as tensors by name
    weights        the weights out of what training programs wrap around them
    quantised      float32 of integers and FP8 with scales
    architectures  config.json by the name of what a checkpoint holds, or by the files in its folder
    open_clip      the same for OpenAI's CLIP and OpenCLIP
    rf_detr        the same for Roboflow's RF-DETR, from what is saved with the weights
    depth_anything Depth Anything V2 in the names of transformers
    safetensors    the files that are written, and those that are quantised

Python's standard library is all that is needed, and numpy for quantised files.
"""


class Refused(Exception):
    """A checkpoint that is not converted; the text says what is wrong, and what helps."""
