"""Rendered scenes with exact ground truth, for training and evaluation; see README.md."""
from .batch import TEST, TRAIN, VALIDATION, Batch, draw, load_renderer, nearest, render, select
from .cameras import PATHS

__all__ = ["PATHS", "TEST", "TRAIN", "VALIDATION", "Batch", "draw", "load_renderer", "nearest", "render", "select"]
