"""python3 pytorch_weights.py FROM TO: the tensors of a TorchScript archive as `torch.save` writes them."""

import os
import sys

import torch

source, target = sys.argv[1:]
tensors = {name: tensor.clone() for name, tensor in torch.jit.load(source).state_dict().items()}
torch.save(tensors, f"{target}.part")
os.replace(f"{target}.part", target)
