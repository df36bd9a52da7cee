"""What the module is to the Python that it runs in: errors, callbacks, warnings, Ctrl-C, threads."""

import errno
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import vggt_recon

ROOM = Path(__file__).resolve().parents[3] / "examples/room"
OPTIONS = {"max_frames": 3, "width": 112, "device": "cpu"}


@pytest.fixture(scope="module")
def reconstructor():
    return vggt_recon.Reconstructor(**OPTIONS)


def test_errors_are_pythons(reconstructor, tmp_path):
    with pytest.raises(ValueError, match="^unknown option 'conf_percentil'; did you mean 'conf_percentile'"):
        reconstructor.run(ROOM, conf_percentil=20)
    with pytest.raises(ValueError, match="^conf_percentile: '120' is not a number from 0 to 100"):
        reconstructor.set_options(conf_percentile=120)
    with pytest.raises(TypeError, match="out: a value of type object"):
        reconstructor.run(ROOM, out=object())
    with pytest.raises(ValueError, match="^camera: .* did you mean 'simple-pinhole'"):
        reconstructor.set_options(camera="simple-pinhol")  # a value is none of Python's names
    with pytest.raises(ValueError, match="^dry_run: is no option of a library's run"):
        reconstructor.run(ROOM, dry_run=True)
    with pytest.raises(ValueError, match="^heads: 'tracks' needs query_points"):
        reconstructor.run(ROOM, heads="camera,tracks")
    with pytest.raises(TypeError, match="out: takes one value, not a list"):
        reconstructor.run(ROOM, out=["a.ply", "b.ply"])
    with pytest.raises(TypeError, match="precision: takes one value, not a list"):
        reconstructor.run(ROOM, precision=["fp32"])
    with pytest.raises(TypeError, match="conf_percentile: takes one value, not a tuple"):
        reconstructor.run(ROOM, conf_percentile=(20, 30))
    for name, value in {"report": True, "export": "glb", "picture": "x.png"}.items():
        with pytest.raises(ValueError, match=f"^{name}: it goes beside the result, which needs out$"):
            reconstructor.run(ROOM, **{name: value})
    with pytest.raises(ValueError, match="out: is empty"):
        reconstructor.run(ROOM, out="")
    with pytest.raises(TypeError, match="picture_size: a value of type object"):
        reconstructor.run(ROOM, picture_size=(object(), 1))
    with pytest.raises(FileNotFoundError) as missing:
        reconstructor.run(tmp_path / "photos")
    assert missing.value.errno == errno.ENOENT and missing.value.filename == str(tmp_path / "photos")
    with pytest.raises(ValueError, match="no images in this folder"):
        reconstructor.run(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError):
        reconstructor.run(ROOM, out=tmp_path / "file/x/")
    with pytest.raises(FileNotFoundError):
        vggt_recon.Reconstructor(tmp_path / "no.safetensors")
    (tmp_path / "bad.safetensors").write_text("no network")
    with pytest.raises(ValueError, match="bad.safetensors"):
        vggt_recon.Reconstructor(tmp_path / "bad.safetensors")
    with pytest.raises(ValueError, match="keep"):
        reconstructor.run(ROOM, keep=["depths"])
    for frames in ("a\0b", b"a\0b", ["a\0b"]):
        with pytest.raises(ValueError, match="null character"):
            reconstructor.run(frames)
    with pytest.raises(ValueError, match="null character"):
        vggt_recon.Reconstructor("a\0b")
    with pytest.raises(ValueError):  # nothing of less than a gigabyte runs
        reconstructor.run(ROOM, host_memory="1MB", scratch=tmp_path)
    assert len(reconstructor.run(ROOM).points) > 0  # it still works


def test_progress_is_told_and_its_errors_end_the_run(reconstructor, tmp_path):
    told = []
    reconstructor.run(ROOM, progress=lambda *what: told.append((threading.get_ident(), *what)))
    assert {"frames", "aggregator", "camera_head"} <= {stage for _, stage, *_ in told}
    assert all(ident == threading.get_ident() and (total == 0 or done <= total) and isinstance(unit, str)
               for ident, _, done, total, unit in told)
    for name in {stage for _, stage, *_ in told}:  # a bar does not jump back
        shares = [done / max(total, 1) for _, stage, done, total, _ in told if stage == name and total]
        assert shares == sorted(shares), name

    def mine(*_):
        raise ValueError("unknown option 'a-b', says the host")

    with pytest.raises(ValueError) as own:
        reconstructor.run(ROOM, progress=mine)
    assert own.value.args == ("unknown option 'a-b', says the host",)

    def fail(stage, *_):
        if stage == "depth_head":
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        reconstructor.run(ROOM, progress=fail, out=tmp_path / "out/")
    assert not list(tmp_path.iterdir())


def test_messages_are_warnings_and_logs(reconstructor, tmp_path, caplog):
    good = (ROOM / "00.jpg").read_bytes()
    (tmp_path / "a.jpg").write_bytes(good)
    (tmp_path / "b.jpg").write_bytes(good[:1000])
    (tmp_path / "c.jpg").write_bytes(good)
    with caplog.at_level(logging.INFO, "vggt_recon"), pytest.warns(vggt_recon.ReconstructionWarning, match="b.jpg"):
        scene = reconstructor.run(tmp_path)
    assert len(scene.cameras) == 2
    assert any("2 frames of 112x" in record.message for record in caplog.records)
    import warnings
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(vggt_recon.ReconstructionWarning, match="b.jpg"):
            reconstructor.run(tmp_path)


def test_ctrl_c_ends_a_run(tmp_path):
    """In a process of its own, as a person meets it."""
    script = f"""
import vggt_recon
reconstructor = vggt_recon.Reconstructor(**{OPTIONS!r})
try:
    reconstructor.run({str(ROOM)!r}, width=518, max_frames=12, out={str(tmp_path / "out")!r},
                      progress=lambda stage, *_: print(stage, flush=True))
except KeyboardInterrupt:
    print("interrupted")
    print(len(reconstructor.run({str(ROOM)!r}).cameras), flush=True)
"""
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        if line.strip() == "aggregator":
            break
    process.send_signal(signal.SIGINT)
    start = time.monotonic()
    rest = process.stdout.read().split()
    assert process.wait() == 0
    assert rest[-2:] == ["interrupted", "3"]
    assert time.monotonic() - start < 120
    assert not list(tmp_path.iterdir())


def test_other_threads_go_on_meanwhile(reconstructor):
    expected = reconstructor.run(ROOM)
    results, beats = [], 0
    threads = [threading.Thread(target=lambda: results.append(reconstructor.run(ROOM))) for _ in range(2)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        beats += 1
        time.sleep(0.0001)
    # The lock of the interpreter is free while the network runs: if runs held it, a beat would fit in only between them.
    assert beats > 10
    assert len(results) == 2
    for scene in results:
        np.testing.assert_array_equal(scene.points, expected.points)


def test_the_interpreter_ends_during_a_run():
    """The run stops, and nothing crashes."""
    script = f"""
import threading, vggt_recon
reconstructor = vggt_recon.Reconstructor(**{OPTIONS!r})
begun = threading.Event()
threading.Thread(target=lambda: reconstructor.run({str(ROOM)!r}, width=518, max_frames=12,
                                                  progress=lambda *_: begun.set()), daemon=True).start()
begun.wait()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert (done.returncode, "leaked" in done.stderr) == (0, False), done.stderr


def test_arrays_may_live_until_the_end():
    script = f"""
import vggt_recon, torch
depth = torch.from_dlpack(vggt_recon.Reconstructor(**{OPTIONS!r}).run({str(ROOM)!r}).depth)
print(depth.shape[0])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "3\n", "")


def test_a_forked_process_is_refused(reconstructor):
    reconstructor.run(ROOM)
    child = os.fork()
    if child == 0:
        try:
            reconstructor.run(ROOM)
        except RuntimeError as error:
            os._exit(0 if "spawn" in str(error) else 2)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


def test_nothing_is_printed(tmp_path):
    script = f"import vggt_recon; vggt_recon.Reconstructor(**{OPTIONS!r}).run({str(ROOM)!r})"
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_module_does_not_load_torchs_python():
    script = "import vggt_recon, sys; assert 'torch' not in sys.modules; import torch; torch.ones(3).sum()"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_another_torch_is_refused():
    script = "import sys, types; t = types.ModuleType('torch'); t.__version__ = '1.0.0+cpu'; sys.modules['torch'] = t; import vggt_recon"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "ImportError: vggt_recon was built with torch" in done.stderr
    assert os.path.basename(done.stderr.strip().splitlines()[-1]).endswith("torch 1.0.0+cpu is loaded")


def test_another_python_is_told_so(tmp_path):
    """A wheel installs into any Python, for the program; its module is for one."""
    copy = tmp_path / "vggt_recon"
    shutil.copytree(Path(vggt_recon.__file__).parent, copy, ignore=shutil.ignore_patterns("_core*.so", "*.so.*", "libs"))
    done = subprocess.run([sys.executable, "-c", "import vggt_recon"], cwd=tmp_path, capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("ImportError: vggt_recon was built for Python 3."), done.stderr
