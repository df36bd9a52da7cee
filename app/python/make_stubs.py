"""make_stubs.py TEMPLATE PACKAGE: writes the package's type stubs beside it, from the module that was built."""

import sys
from pathlib import Path

from nanobind.stubgen import StubGen

TYPES = {"flag": "bool", "whole number": "int", "number": "float", "text": "str", "list": "str | Sequence[str]"}
PATHS = {"masks", "query_points", "scratch", "intrinsics", "poses", "align", "out", "picture",
         "save_predictions"}
# What a text may be beside a text.
OTHERS = {"outliers": "bool | int | Sequence[float]", "picture_size": "Sequence[int]", "intrinsics": "Sequence[float]",
          "gpu_memory": "int", "host_memory": "int"}


def type_of(option):
    if option.kind == "text" and option.choices:
        choices = "Literal[" + ", ".join(f'"{choice}"' for choice in option.choices) + "]"
        return choices + " | bool" if "on" in option.choices else choices
    if option.kind == "list" and option.choices:
        choices = ", ".join(f'"{choice}"' for choice in option.choices)
        return f"str | Sequence[Literal[{choices}]]"
    plain = "_Path" if option.name in PATHS else TYPES[option.kind]
    return f"{plain} | {OTHERS[option.name]}" if option.name in OTHERS else plain


def main(template, package):
    import vggt_recon
    from vggt_recon import _core

    module = StubGen(_core)
    module.put(_core)
    (package / "_core.pyi").write_text(module.get())
    lines = [f"    {option.name}: {type_of(option)} | None" + (f"  # {option.help}" if option.help else "")
             for option in vggt_recon.options() if option.name != "weights"]
    (package / "__init__.pyi").write_text(template.read_text().replace("@OPTIONS@", "\n".join(lines)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
