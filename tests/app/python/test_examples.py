"""The examples run as they stand."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).resolve().parents[3] / "examples/python").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_example(example, tmp_path):
    done = subprocess.run([sys.executable, example], cwd=tmp_path, capture_output=True, text=True,
                          env={**os.environ, "VGGT_EXAMPLE_WIDTH": "112"})
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_there_are_examples():
    assert len(EXAMPLES) >= 2
