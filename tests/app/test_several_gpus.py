"""One scene on two GPUs by the program: test_several_gpus.py PROGRAM SOURCE. Skipped where there are not two.

The result is that of one GPU to rounding, however the ranks are started; where one fails, is killed or does not fit,
all end within half a minute with a line each, and nothing is left.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAM, SOURCE = sys.argv[1], Path(sys.argv[2]).resolve()
SKIP = 77
SECONDS = 30


def gpus():
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True)
    except FileNotFoundError:
        return 0
    return len([line for line in listed.stdout.splitlines() if line.startswith("GPU ")])


def free_port():
    with socket.socket() as any_port:
        any_port.bind(("127.0.0.1", 0))
        return any_port.getsockname()[1]


def start(arguments, rank=None, port=0, host="127.0.0.1", ranks=2, gpus=None):
    environment = dict(os.environ)
    if gpus is not None:
        environment["CUDA_VISIBLE_DEVICES"] = gpus
    if rank is not None:
        environment |= {"RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(rank), "MASTER_ADDR": host,
                        "MASTER_PORT": str(port)}
    return subprocess.Popen([PROGRAM, *map(str, arguments)], env=environment, text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, start_new_session=True)


def finish(processes, codes, seconds, say=None):
    """Waits, and checks that each ended so, with one line of error, or none where it was killed."""
    begin = time.time()
    errors = []
    for process, code in zip(processes, codes):
        out, err = process.communicate(timeout=seconds + 60)
        assert process.returncode == code, f"expected {code}, got {process.returncode}: {out}{err}"
        lines = [line for line in err.splitlines() if "error:" in line]
        assert len(lines) == (1 if code in (1, 2, 3, 130) else 0), err
        errors += lines
    assert time.time() - begin < seconds, f"{time.time() - begin:.0f} s"
    assert say is None or any(say in line for line in errors), errors


def cameras(folder):
    return [frame["cam_from_world"] for frame in json.loads((folder / "scene.cameras.json").read_text())["cameras"]]


def farthest(a, b):
    flat = lambda value: [x for part in value for x in flat(part)] if isinstance(value, list) else [value]
    return max(abs(x - y) for x, y in zip(flat(a), flat(b), strict=True))


def frames_of(folder, turns):
    folder.mkdir()
    for turn in range(turns):
        for image in sorted((SOURCE / "examples/room").glob("*.jpg")):
            (folder / f"{turn:02}-{image.name}").symlink_to(image)
    return folder


def test_results(folder, options):
    one, two, by_hand, listed = folder / "one", folder / "two", folder / "by_hand", folder / "listed"
    finish([start([*options, "--device", "cuda:0", "--out", one])], [0], 120)
    finish([start([*options, "--device", "cuda:0,1", "--out", two])], [0], 120)
    port = free_port()
    finish([start([*options, "--out", by_hand], rank, port) for rank in (0, 1)], [0, 0], 120)
    port = free_port()
    finish([start([*options, "--out", listed, "--device", "cuda:1,0"], rank, port) for rank in (0, 1)], [0, 0], 120)
    others = [two, by_hand, listed]
    if shutil.which("torchrun"):
        others.append(folder / "launched")
        command = ["torchrun", "--nproc-per-node", "2", "--no-python", PROGRAM, *options, "--out", others[-1]]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=180)
        assert done.returncode == 0, done.stdout + done.stderr
    for other in others:
        apart = farthest(cameras(one), cameras(other))
        assert apart < 1e-4, apart
        assert len(json.loads((other / "scene.report.json").read_text())["rank_peak_bytes"]) == 2


def memory_used():
    """Bytes of each GPU, by whomever."""
    listed = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"],
                            capture_output=True, text=True, check=True)
    return [int(line) * 2**20 for line in listed.stdout.split()]


def test_memory(folder, options):
    """The whole of a rank stays within --gpu-memory, NCCL included; less than NCCL takes is refused."""
    limit = 2_000_000_000
    before = most = memory_used()
    run = start([*options, "--device", "cuda:0,1", "--gpu-memory", "2GB", "--out", folder / "limited"])
    while run.poll() is None:
        most = [max(pair) for pair in zip(most, memory_used())]
    finish([run], [0], 120)
    for used, already in zip(most, before):
        assert used - already < limit, (most, before)
    assert max(most) - max(before) > limit / 2, most  # it was seen at work
    refused = start([*options, "--device", "cuda:0,1", "--gpu-memory", "1GB", "--out", folder / "none"])
    err = refused.communicate(timeout=60)[1]
    assert refused.returncode == 2 and "the program itself takes" in err, err


def test_faults(folder, options):
    """options: of a run that takes some seconds."""
    out = folder / "none"
    run = [*options, "--out", out]
    pairs = lambda first, second: [start(first, 0, port), start(second, 1, port)]
    port = free_port()
    finish(pairs(run, [*run, "--conf-percentile", "7"]), [2, 2], SECONDS, "--conf-percentile 7")
    port = free_port()
    finish([start(run, rank, port, gpus="0") for rank in (0, 1)], [2, 2], SECONDS, "have the same GPU")
    finish([start([*run, "--device", "cuda:0"], 1, port)], [2], SECONDS, "no GPU for rank 1")
    finish([start(run, 0, port)], [3], SECONDS + 5, "did not come")
    finish([start(run, 1, port, "10.255.255.1")], [3], SECONDS + 5, "cannot be met")
    missing = ["--frames", folder / "missing", *run[2:]]
    port = free_port()
    finish(pairs(missing, missing), [2, 3], SECONDS, "missing")
    for victim in (0, 1):
        port = free_port()
        processes = pairs(run, run)
        time.sleep(2.5)
        processes[victim].kill()
        finish(processes, [3 if rank != victim else -signal.SIGKILL for rank in (0, 1)], SECONDS)
        # A rank 0 that is killed cannot take away what it had begun; it is hidden, and goes with the next run there.
        assert all(path.name.startswith(".vggt-recon-") for path in out.glob("*")), list(out.glob("*"))
        shutil.rmtree(out, ignore_errors=True)
    stopped = start([*run, "--device", "all"])
    time.sleep(2.5)
    os.killpg(stopped.pid, signal.SIGINT)
    stopped.communicate(timeout=SECONDS)
    assert stopped.returncode in (3, 130), stopped.returncode
    left = [path.name for path in folder.iterdir() if path.name not in
            ("one", "two", "by_hand", "listed", "launched", "limited", "frames", "many")]
    assert not left, left


def main():
    if gpus() < 2:
        print("several_gpus: skipped: there are not two GPUs")
        return SKIP
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        options = ["--bundle-adjust", "off", "--merge", "off", "--precision", "fp32"]
        test_results(folder, ["--frames", frames_of(folder / "frames", 16), *options])
        test_memory(folder, ["--frames", folder / "frames", *options])
        test_faults(folder, ["--frames", frames_of(folder / "many", 64), *options])
    print("several_gpus: two ranks give what one gives, and end together")
    return 0


if __name__ == "__main__":
    sys.exit(main())
