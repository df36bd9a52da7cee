"""An array job of a real Slurm does a batch: four tasks, twelve scenes, one task cancelled and requeued. Every scene is
done exactly once, and is what a batch without Slurm makes of it.

usage: test_slurm.py PROGRAM SOURCE_FOLDER
Needs Debian's slurmctld, slurmd, slurm-client and munge; exits with 77 where they are missing. The cluster is this
machine alone, on the loopback interface, with all its files in a temporary folder.
"""

import getpass
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image

SCENES, TASKS, CANCELLED = 12, 4, 2
CPUS = 8  # that the node claims to have, so that all tasks run at once
SKIPPED = 77


def within(seconds, what, condition):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if result := condition():
            return result
        time.sleep(0.05)
    raise AssertionError(f"{what}: not within {seconds} s")


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Cluster:
    """munged, slurmctld and slurmd as children of this process."""

    def __init__(self, folder):
        self.folder, self.daemons = folder, []
        self.conf = folder / "slurm.conf"
        os.environ["SLURM_CONF"] = str(self.conf)

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def write_conf(self):
        me, folder = getpass.getuser(), self.folder
        control, node = free_ports(2)
        lines = {
            "ClusterName": "test", "SlurmctldHost": "localhost(127.0.0.1)", "SlurmctldPort": control,
            "SlurmdPort": node, "SlurmUser": me, "SlurmdUser": me, "AuthType": "auth/munge",
            "AuthInfo": f"socket={folder}/munge.socket", "StateSaveLocation": f"{folder}/state",
            "SlurmdSpoolDir": f"{folder}/spool", "SlurmctldPidFile": f"{folder}/slurmctld.pid",
            "SlurmdPidFile": f"{folder}/slurmd.pid", "ProctrackType": "proctrack/linuxproc",
            "TaskPlugin": "task/none", "JobAcctGatherType": "jobacct_gather/none",
            "AccountingStorageType": "accounting_storage/none", "MpiDefault": "none", "MailProg": "/bin/true",
            "SelectType": "select/cons_tres", "SelectTypeParameters": "CR_Core",
            "SchedulerParameters": "batch_sched_delay=0,sched_min_interval=0,bf_interval=1",
            "SlurmdParameters": "config_overrides", "ReturnToService": 2, "KillWait": 5,
        }
        # The daemons listen on the address of the host's own name, or on all: there they are found.
        try:
            own = socket.gethostbyname(socket.gethostname())
        except OSError:
            own = ""
        if own == "127.0.0.1":
            lines["CommunicationParameters"] = "NoCtldInAddrAny,NoInAddrAny"
        text = "".join(f"{key}={value}\n" for key, value in lines.items())
        text += f"NodeName=localhost NodeAddr=127.0.0.1 CPUs={CPUS} RealMemory=1000\n"
        text += "PartitionName=test Nodes=localhost Default=YES MaxTime=INFINITE\n"
        self.conf.write_text(text)

    def spawn(self, name, *arguments):
        log = open(self.folder / f"{name}.log", "w")
        self.daemons.append((name, subprocess.Popen([shutil.which(name), *arguments], stdout=log, stderr=log)))

    def start(self):
        folder = self.folder
        for name in ("state", "spool"):
            (folder / name).mkdir()
        key = folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        self.write_conf()
        # --force: the folder is nobody else's to enter.
        self.spawn("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={folder}/munge.socket",
                   f"--pid-file={folder}/munged.pid", f"--seed-file={folder}/munge.seed",
                   f"--log-file={folder}/munged.log2")
        within(20, "munged", (folder / "munge.socket").exists)
        self.spawn("slurmctld", "-D", "-f", str(self.conf))
        self.spawn("slurmd", "-D", "-f", str(self.conf))
        within(60, "the node takes jobs", self.is_ready)

    def is_ready(self):
        for name, daemon in self.daemons:
            if daemon.poll() is not None:
                raise AssertionError(f"{name} ended:\n" + (self.folder / f"{name}.log").read_text()[-2000:])
        return slurm("sinfo", "-h", "-o", "%t", check=False).strip() in ("idle", "mix", "alloc")

    def stop(self):
        if len(self.daemons) == 3:
            slurm("scancel", "-u", getpass.getuser(), check=False)
            try:
                within(20, "jobs end", lambda: not slurm("squeue", "-h", check=False).strip())
            except AssertionError as error:
                print(f"slurm: {error}", file=sys.stderr)
        for _, daemon in reversed(self.daemons):
            daemon.terminate()
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


def slurm(*command, check=True):
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    if check and done.returncode != 0:
        raise AssertionError(f"{command}: {done.stderr}")
    return done.stdout if done.returncode == 0 else ""


def make_scenes(folder):
    draw = random.Random(7)
    for i in range(SCENES):
        scene = folder / f"scene{i:02}"
        scene.mkdir(parents=True)
        # The task that is cancelled has more to do, so that it is cut in the middle.
        for frame in range(40 if i % TASKS == CANCELLED else 2):
            Image.frombytes("RGB", (64, 48), draw.randbytes(64 * 48 * 3)).save(scene / f"{frame:02}.png")


def records(results):
    path = results / "manifest.jsonl"
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def outputs(results):
    return {path.relative_to(results): path.read_bytes() for path in sorted(results.rglob("*"))
            if path.is_file() and not path.name.endswith((".report.json", ".jsonl"))}


def main(program, source, folder):
    weights = source / "tests/fixtures/golden/nano/weights.ts"
    options = ["--device", "cpu", "--threads", "1", "--no-autotune", "--weights", str(weights)]
    scenes, results, expected = folder / "scenes", folder / "results", folder / "expected"
    make_scenes(scenes)
    subprocess.run([program, "batch", "--scenes", scenes, "--out", expected, *options], check=True, capture_output=True)

    (folder / "slurm").mkdir()
    with Cluster(folder / "slurm"):
        os.environ["VGGT_RECON"] = str(program)
        job = slurm("sbatch", "--parsable", f"--array=0-{TASKS - 1}", f"--output={folder}/task-%a.log",
                    str(source / "configs/slurm-array.sbatch"), str(scenes), str(results), *options).strip()
        task = f"{job}_{CANCELLED}"
        mine = {f"scene{i:02}" for i in range(SCENES) if i % TASKS == CANCELLED}
        within(120, "the task begins", lambda: mine & {record["scene"] for record in records(results)})
        slurm("scancel", task)
        within(60, "the task is cancelled", lambda: "JobState=CANCELLED" in slurm("scontrol", "show", "job", task))
        done = {record["scene"] for record in records(results) if record["state"] == "done"}
        assert not mine <= done, "the task was cancelled too late"
        within(60, "no task runs", lambda: not slurm("squeue", "-h", "-t", "R,CG,CF").strip())

        def requeued():
            # slurmd refuses a start in the second of the cancellation ("already killed"): the task has failed then.
            time.sleep(2)
            return subprocess.run(["scontrol", "requeue", task], capture_output=True).returncode == 0
        within(60, "requeued", requeued)

        def is_over():
            state = slurm("scontrol", "show", "job", task, check=False)
            # Slurm holds a requeued job back for two minutes, and knows nothing of it for a moment.
            if "JobState=PENDING" in state:
                subprocess.run(["scontrol", "update", f"JobId={task}", "StartTime=now"], capture_output=True)
            if "JobState=FAILED" in state:
                requeued()
            time.sleep(0.5)
            done = {record["scene"] for record in records(results) if record["state"] == "done"}
            return len(done) == SCENES and not slurm("squeue", "-h", "-t", "PD,R,CG,CF,S").strip()
        try:
            within(400, "all tasks end", is_over)
        except AssertionError:
            print(slurm("scontrol", "show", "job", task, check=False), file=sys.stderr)
            for log in (folder / f"task-{CANCELLED}.log", folder / "slurm/slurmd.log"):
                print(log.name, log.read_text()[-3000:], sep="\n", file=sys.stderr)
            raise
        logs = "".join(f"{log.name}: {log.read_text()}" for log in sorted(folder.glob("task-*.log")))
        lines = records(results)

    finished = sorted(record["scene"] for record in lines if record["state"] == "done")
    assert finished == sorted(f"scene{i:02}" for i in range(SCENES)), f"done: {finished}\n{logs}"
    assert outputs(results) == outputs(expected), "the results differ from those without Slurm"
    assert not (results / ".claims").exists(), "claims are left"
    begun = sum(record["state"] == "running" for record in lines)
    print(f"slurm: {SCENES} scenes by {TASKS} tasks, one of them cancelled and requeued: {begun} begun, "
          f"{len(finished)} done")


if __name__ == "__main__":
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    missing = [name for name in ("munged", "slurmctld", "slurmd", "sbatch") if not shutil.which(name)]
    if missing:
        print(f"skipped: no {', '.join(missing)} (apt-get install slurmctld slurmd slurm-client munge)")
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory(prefix="vggt_slurm_") as temporary:
        main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve(), Path(temporary).resolve())
