"""converter: files of torch.save as folders that Fovea runs; the parts of convert.py.

    pickles        a pickle as data: nothing is imported, nothing of it runs
    torch_files    what torch.save and torch.jit.save write, as tensors by name
    weights        the weights out of what training programs wrap around them
    architectures  config.json by the name of what a checkpoint holds, or what lies beside it
    open_clip      the same of OpenAI's CLIP and OpenCLIP
    rf_detr        the same of Roboflow's RF-DETR, of what they save beside the weights
    safetensors    the file that is written

Python's standard library is all that is needed.
"""


class Refused(Exception):
    """What is not converted; the text names the thing and what helps."""
