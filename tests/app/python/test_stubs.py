"""The type stubs say what the module is."""

import ast
import importlib.util
import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest
import vggt_recon
from vggt_recon import _core

FOLDER = Path(vggt_recon.__file__).parent


def tree(name):
    return ast.parse((FOLDER / name).read_text())


def arguments(function):
    """Names, kinds and defaults of a stub's function."""
    a = function.args
    positional = a.posonlyargs + a.args
    defaults = [inspect.Parameter.empty] * (len(positional) - len(a.defaults)) + a.defaults
    found = [(arg.arg, "positional", value) for arg, value in zip(positional, defaults, strict=True)]
    found += [(arg.arg, "keyword", inspect.Parameter.empty if value is None else value)
              for arg, value in zip(a.kwonlyargs, a.kw_defaults, strict=True)]
    found += [(a.kwarg.arg, "rest", inspect.Parameter.empty)] if a.kwarg else []
    return [(name, kind, value if value is inspect.Parameter.empty else ast.literal_eval(value))
            for name, kind, value in found]


def parameters(function):
    kinds = {inspect.Parameter.KEYWORD_ONLY: "keyword", inspect.Parameter.VAR_KEYWORD: "rest"}
    return [(p.name, kinds.get(p.kind, "positional"), p.default) for p in inspect.signature(function).parameters.values()]


def test_functions_have_the_signatures_of_the_stub():
    checked = 0
    for node in tree("__init__.pyi").body:
        if isinstance(node, ast.FunctionDef):
            assert arguments(node) == parameters(getattr(vggt_recon, node.name)), node.name
            checked += 1
        if not isinstance(node, ast.ClassDef) or node.name.startswith("_"):
            continue
        real = getattr(vggt_recon, node.name)
        fields = [item.target.id for item in node.body if isinstance(item, ast.AnnAssign)]
        assert fields == list(getattr(real, "__dataclass_fields__", {})), node.name
        for item in node.body:
            if not isinstance(item, ast.FunctionDef):
                continue
            function = inspect.getattr_static(real, item.name)
            function = getattr(function, "fget", None) or getattr(function, "func", function)
            assert arguments(item) == parameters(function), f"{node.name}.{item.name}"
            checked += 1
        public = {name for name in vars(real) if not name.startswith("_")} - set(fields)
        stubbed = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
        assert public <= stubbed, node.name
    assert checked >= 20


def typed_options(name):
    options = next(node for node in tree("__init__.pyi").body if getattr(node, "name", "") == name)
    return {item.target.id: ast.unparse(item.annotation) for item in options.body}


def test_no_option_is_an_argument_too():
    """Type checkers then check neither."""
    taken = {"Unpack[_Options]": {*typed_options("_Options")}}
    taken["Unpack[_RunOptions]"] = taken["Unpack[_Options]"] | {*typed_options("_RunOptions")}
    checked = 0
    for function in (node for node in ast.walk(tree("__init__.pyi")) if isinstance(node, ast.FunctionDef)):
        options = taken.get(ast.unparse(function.args.kwarg.annotation)) if function.args.kwarg else None
        if options is None:
            continue
        assert not options & {arg.arg for arg in function.args.args + function.args.kwonlyargs}, function.name
        checked += 1
    assert checked == 3


def test_every_option_has_an_argument():
    stubbed = typed_options("_Options")
    assert list(stubbed) == [option.name for option in vggt_recon.options() if option.name != "weights"]
    assert list(typed_options("_RunOptions")) == ["weights"]
    assert stubbed["conf_percentile"] == "float | None"
    assert stubbed["fit"].startswith("Literal['") and "'crop'" in stubbed["fit"]
    assert stubbed["out"] == "_Path | None"
    assert stubbed["merge"].endswith("'off'] | bool | None")
    assert stubbed["outliers"] == "str | bool | int | Sequence[float] | None"
    assert stubbed["picture_size"] == "str | Sequence[int] | None"
    assert stubbed["intrinsics"] == "_Path | Sequence[float] | None"


def test_the_inner_module_is_stubbed_too():
    stubbed = {node.name for node in tree("_core.pyi").body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    assert {name for name in ("Context", "Scene", "options") if hasattr(_core, name)} <= stubbed
    assert (FOLDER / "py.typed").exists()


USE = """
from pathlib import Path

import numpy as np
import numpy.typing as npt
import vggt_recon
from PIL import Image


def use(array: npt.NDArray[np.uint8]) -> None:
    reconstructor = vggt_recon.Reconstructor(b"model.safetensors", bundle_adjust=True, outliers=True)
    reconstructor.set_options(weights=Path("x.ts"), merge=False, outliers=(20, 2.0), picture_size=(640, 480),
                              intrinsics=(500.0, 500.0, 320.0, 240.0))
    picture = Image.new("RGB", (64, 48))
    reconstructor.run(picture)
    reconstructor.run([picture, array], names=["a", b"b"])
    reconstructor.run(image for image in (array, array))
    reconstructor.run(array)
    reconstructor.run(["a.jpg", b"b.jpg", Path("c.jpg")])
    scene = reconstructor.run(b"photos", out=b"scene/", export=["glb"], gpu_memory="6GB", intrinsics="500,500,320,240",
                              outliers="off", bundle_adjust="auto")
    scene.save(b"x.npz")


def misuse(reconstructor: vggt_recon.Reconstructor, scene: vggt_recon.Reconstruction) -> None:
    reconstructor.run(None)  # type: ignore[arg-type]
    reconstructor.run("a", precision="fp64")  # type: ignore[arg-type]
    reconstructor.run("a", conf_percentil=20)  # type: ignore[call-arg]
    scene.points = None  # type: ignore[misc]
"""


@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="there is no mypy")
def test_mypy_takes_what_the_module_takes(tmp_path):
    (tmp_path / "use.py").write_text(USE)
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "use.py"], cwd=tmp_path, capture_output=True,
                          text=True, env={**os.environ, "MYPYPATH": os.environ.get("PYTHONPATH", "")})
    assert done.returncode == 0, done.stdout + done.stderr
