"""Training of the small VGGT that ships, on scenes that the package `scenes` renders.

`python -m train --help`, with PYTHONPATH=weights.
"""
