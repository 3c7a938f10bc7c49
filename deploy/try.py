#!/usr/bin/env python3
"""Runs what deploy/ has, for real, on one machine: the image in containers, the chart's pods, the units under a systemd of their own.

    python3 deploy/try.py image                    two servers in containers without rights, a search through them, reload and end
    python3 deploy/try.py pods --helm PATH         a front and two shards as the chart has them, played by podman, beside a second server
    python3 deploy/try.py units                    the same three as services of a Debian that is made for it, under systemd-nspawn

The image is the last stage of container/Containerfile, with a program that was compiled before (--ifonly, or --servers for the image alone); --image takes
one that was built as people build it. There is no Kubernetes here: `pods` does by itself what a cluster does around pods (volumes as kubelets lay them out, names,
probes), and leaves containers, init containers and their rights to podman. Network policies are not enforced.

Needs root on Linux and from Debian: podman, runc, openssl (image, pods); debootstrap, systemd-container, openssl (units). PyYAML for `pods`.
Everything is under one temporary folder, and is ended and removed afterwards. Nothing leaves the machine but the packages of that Debian.
"""

import argparse
import contextlib
import csv
import json
import os
import pathlib
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

DEPLOY = pathlib.Path(__file__).resolve().parent
USER = 65532
# What an engine may take for anything that should be a matter of a second.
PATIENCE = 60


class Wrong(Exception):
    """What does not hold."""


def hold(condition, text):
    if not condition:
        raise Wrong(text)


def run(*command, **more):
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False, **more)
    hold(done.returncode == 0, f"{' '.join(words)}\n{done.stdout}{done.stderr}")
    return done.stdout


def until(what, condition, seconds=PATIENCE):
    """Waits for others: containers and services say nothing to us when they are there."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        hold(time.monotonic() < end, f"{what}: not after {seconds} s")
        time.sleep(0.05)
    return found


class Place:
    """A bundle, whole and in two parts, keys, certificates, and somebody who asks."""

    def __init__(self, ifonly, folder):
        self.ifonly, self.folder = ifonly, folder
        random.seed(7)
        with open(folder / "loans.csv", "w", newline="", encoding="utf-8") as file:
            table = csv.writer(file)
            table.writerow(["income", "debt", "age", "housing", "decision"])
            for _ in range(2000):
                table.writerow([random.randint(10, 99), random.randint(0, 40), random.randint(18, 80), random.choice(["rent", "own"]), "yes"])
        run(ifonly, "build", folder / "loans.csv", "-o", folder / "loans.bundle", "--target", "decision", "--accept", "yes")
        run(ifonly, "split", folder / "loans.bundle", "--parts", 2, "-o", folder / "loans.parts")
        run(ifonly, "keygen", "-o", folder / "root.key")
        run(ifonly, "keygen", "--certificate", folder / "inside.pem")
        self.certificate("a")
        self.certificate("b")
        (folder / "me.json").write_text(json.dumps({"income": 30, "debt": 20, "age": 40, "housing": "rent"}))

    def certificate(self, name, names="DNS:localhost,IP:127.0.0.1"):
        # As docs/operations.md makes one.
        run("openssl", "req", "-x509", "-newkey", "ed25519", "-nodes", "-days", 2, "-subj", "/CN=localhost", "-addext", f"subjectAltName={names}",
            "-addext", "basicConstraints=critical,CA:FALSE", "-keyout", self.folder / f"{name}.key", "-out", self.folder / f"{name}.pem")

    def give(self, user):
        """Files that only their owner may read belong to `user` then."""
        run("chown", "-R", f"{user}:{user}", *[self.folder / name for name in ("loans.bundle", "loans.parts", "root.key", "a.key", "b.key", "inside.key")])

    def ask(self, *urls, inside=(), more=()):
        """One search; `inside` is how to get to where the servers are."""
        (self.folder / "both.pem").write_text((self.folder / "a.pem").read_text() + (self.folder / "b.pem").read_text())
        servers = [word for url in urls for word in ("--server", url)]
        said = run(*inside, self.ifonly, "ask", *servers, "--ca", self.folder / "both.pem", "--profile", self.folder / "me.json", "--json", *more)
        answer = json.loads(said)
        hold(answer["qualifying"] == 2000, f"not all rows were searched: {said}")
        return answer


class Engine:
    """podman or docker; podman with a store, a network and settings of its own unless somebody brings an image."""

    def __init__(self, options, folder):
        self.name, self.image, self.started, self.environment = options.engine, options.image, [], dict(os.environ)
        if self.image is None:
            hold(self.name == "podman", "--image is needed with another engine than podman")
            self.of_its_own(folder)
            self.image = self.last_stage(options.servers or options.ifonly, folder)

    def of_its_own(self, folder):
        """vfs works wherever files do. Limits beyond ours could not be set without a right that containers on shared machines lack."""
        (folder / "storage.conf").write_text(f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/graph"\nrunroot = "{folder}/run"\n')
        most = min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], 1 << 20)
        runtime = "runc" if shutil.which("runc") else "crun"
        (folder / "containers.conf").write_text(
            f'[engine]\nruntime = "{runtime}"\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\ntmp_dir = "{folder}/engine"\n'
            f'[containers]\ndefault_ulimits = ["nofile={most}:{most}", "nproc=4096:4096"]\n'
            f'[network]\nnetwork_config_dir = "{folder}/networks"\n'
        )
        self.environment |= {"CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"), "CONTAINERS_CONF": str(folder / "containers.conf")}

    def last_stage(self, program, folder):
        context = folder / "context"
        run(DEPLOY / "container/assemble", program, context)
        run("strip", context / "usr/bin/ifonly")
        stage = (DEPLOY / "container/Containerfile").read_text().split("FROM scratch\n")[1]
        (folder / "Containerfile").write_text("FROM scratch\n" + stage.replace("--from=build /image", "."))
        self("build", "-f", folder / "Containerfile", "-t", "ifonly:trial", context)
        return "localhost/ifonly:trial"

    def __call__(self, *words):
        return run(self.name, *words, env=self.environment)

    def all(self, *words):
        """What it says, wherever it goes."""
        return subprocess.run([self.name, *words], env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False).stdout

    def start(self, name, *words):
        self.started.append(name)
        self("run", "-d", "--name", name, *words)

    def field(self, kind, name, format):
        return self(kind, "inspect", "--format", format, name).strip()

    def end(self):
        for name in reversed(self.started):
            subprocess.run([self.name, "rm", "-f", "-t", "1", name], env=self.environment, capture_output=True, check=False)


def rights(text):
    """What the kernel lets a process do, from /proc/PID/status."""
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


def has_no_rights(process):
    status = rights(pathlib.Path(f"/proc/{process}/status").read_text(encoding="utf-8"))
    hold(set(status["Uid"].split()) == set(status["Gid"].split()) == {str(USER)}, f"it runs as {status['Uid']}")
    hold(all(int(status[name], 16) == 0 for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")), "it has capabilities")
    hold((status["NoNewPrivs"], status["Seccomp"]) == ("1", "2"), "it may gain rights, or make any system call")
    root = [line.split() for line in pathlib.Path(f"/proc/{process}/mountinfo").read_text(encoding="utf-8").splitlines()]
    hold(any(line[4] == "/" and "ro" in line[5].split(",") for line in root), "its root can be written to")


def image(options, folder):
    place = Place(options.ifonly, folder)
    place.give(USER)
    engine = Engine(options, folder)
    try:
        size = int(engine.field("image", engine.image, "{{.Size}}"))
        user = engine.field("image", engine.image, "{{.Config.User}}")
        hold(user == f"{USER}:{USER}", f"the image runs as {user}")
        print(f"{engine.image}: {size / 1e6:.1f} MB, user {user}")
        for shell in ("sh", "bash", "busybox"):
            done = subprocess.run([engine.name, "run", "--rm", "--entrypoint", shell, engine.image], env=engine.environment, capture_output=True, check=False)
            hold(done.returncode == 127, f"there is {shell} in the image")
        urls = []
        for index, name in ((1, "a"), (2, "b")):
            files = [(folder / "loans.bundle", "/bundle"), (folder / "root.key", "/run/secrets/root.key")]
            files += [(folder / f"{name}.{end}", f"/run/secrets/{name}.{end}") for end in ("pem", "key")]
            engine.start(f"ifonly-try-{name}", "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "-p", "127.0.0.1::8443",
                         *[word for here, there in files for word in ("-v", f"{here}:{there}:ro")], engine.image, "serve", "/bundle",
                         f"--index={index}", "--key=/run/secrets/root.key", "--listen=0.0.0.0:8443", f"--cert=/run/secrets/{name}.pem",
                         f"--cert-key=/run/secrets/{name}.key", "--admin=127.0.0.1:9100")
            urls.append("https://localhost:" + engine("port", f"ifonly-try-{name}", "8443").strip().rsplit(":", 1)[1])
        logs = lambda name: engine.all("logs", name)
        for name in ("ifonly-try-a", "ifonly-try-b"):
            until(f"{name} serves", lambda: "serving" in logs(name))
            has_no_rights(engine.field("container", name, "{{.State.Pid}}"))
        place.ask(*urls)
        print("two containers with a read-only root, no capabilities and no way to gain any answered a search")
        engine("exec", "ifonly-try-a", "kill", "-HUP", "1")
        until("the reload", lambda: "took up the configuration" in logs("ifonly-try-a"))
        place.ask(*urls)
        print("kill -HUP 1 in a container: everything is read again, and it answers")
        for name in ("ifonly-try-a", "ifonly-try-b"):
            begun = time.monotonic()
            engine("stop", "-t", "45", name)
            code = engine.field("container", name, "{{.State.ExitCode}}")
            hold(code == "0", f"{name} ended with {code}")
        print(f"stopped with code 0, the second one in {time.monotonic() - begun:.1f} s")
        # While it still reads: a key that never comes.
        os.mkfifo(folder / "pipe", 0o600)
        os.chown(folder / "pipe", USER, USER)
        engine.start("ifonly-try-c", "-v", f"{folder / 'loans.bundle'}:/bundle:ro", "-v", f"{folder / 'pipe'}:/pipe", engine.image,
                     "serve", "/bundle", "--index=1", "--key=/pipe")
        with open(folder / "pipe", "wb"):
            engine("stop", "-t", "45", "ifonly-try-c")
        code = engine.field("container", "ifonly-try-c", "{{.State.ExitCode}}")
        hold(code == "0", f"stopped while it was reading, it ended with {code}")
        print("stopped while it was reading, with code 0")
    finally:
        engine.end()


class Kubelet:
    """What is around pods in a cluster, as far as these need it."""

    def __init__(self, engine, folder, objects, secrets, claims):
        self.engine, self.folder, self.objects, self.secrets, self.claims = engine, folder, objects, secrets, claims
        self.mounted, self.pods = [], []

    def files(self, path, contents, mode):
        """Files as a Secret's or a ConfigMap's volume has them: links to a folder that is exchanged as a whole, root's, readable for the group."""
        (path / "..now").mkdir(parents=True)
        (path / "..data").symlink_to("..now")
        for name, text in contents.items():
            (path / "..now" / name).write_text(text, encoding="utf-8")
            os.chown(path / "..now" / name, 0, USER)
            (path / "..now" / name).chmod(mode)
            (path / name).symlink_to(f"..data/{name}")
        return path

    def volume(self, pod, volume, group):
        path = self.folder / pod / volume["name"]
        if "secret" in volume:
            # A group that may read has its bit set, whatever the mode says.
            self.files(path, self.secrets[volume["secret"]["secretName"]], volume["secret"]["defaultMode"] | 0o040)
        elif "configMap" in volume:
            self.files(path, [one["data"] for one in self.objects if one["kind"] == "ConfigMap" and one["metadata"]["name"] == volume["configMap"]["name"]][0], 0o644)
        elif "persistentVolumeClaim" in volume:
            path = self.claims[volume["persistentVolumeClaim"]["claimName"]]
        else:
            hold(volume["emptyDir"]["medium"] == "Memory", f"{volume} is not in memory")
            path.mkdir(parents=True)
            run("mount", "-t", "tmpfs", "-o", f"size=1m,mode=2777,gid={group}", "tmpfs", path)
            self.mounted.append(path)
        return {"name": volume["name"], "hostPath": {"path": str(path), "type": "Directory"}}

    def expand(self, container, labels):
        """$(NAME) stands for a variable, which may stand for a label."""
        for entry in container.get("env", []):
            if source := entry.pop("valueFrom", None):
                entry["value"] = labels[re.fullmatch(r"metadata\.labels\['(.*)'\]", source["fieldRef"]["fieldPath"])[1]]
        values = {entry["name"]: entry["value"] for entry in container.get("env", [])}
        for words in ("command", "args"):
            container[words] = [re.sub(r"\$\((\w+)\)", lambda name: values[name[1]], word) for word in container.get(words, [])]

    def play(self, workload, name, index, network, address, hosts):
        """Starts one pod of a Deployment or StatefulSet."""
        template = json.loads(json.dumps(workload["spec"]["template"]))
        # Init containers are kept: podman 4.3 stumbles over removing them.
        kept = {"io.podman.annotations.init.container.type": "always"}
        template["metadata"] = {"name": name, "annotations": kept, "labels": {**template["metadata"]["labels"], "apps.kubernetes.io/pod-index": str(index)}}
        spec = template["spec"]
        spec["volumes"] = [self.volume(name, volume, spec["securityContext"]["fsGroup"]) for volume in spec["volumes"]]
        spec["hostAliases"] = [{"ip": ip, "hostnames": [host]} for host, ip in hosts.items()]
        for container in spec["initContainers"] + spec["containers"]:
            self.expand(container, template["metadata"]["labels"])
        # Podman would run curl in the container, and give it the host's ports.
        [main] = spec["containers"]
        probes, ports = [main.pop(probe) for probe in ("startupProbe", "livenessProbe", "readinessProbe")], main.pop("ports")
        file = self.folder / f"{name}.json"
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "Pod", **template}), encoding="utf-8")
        self.pods.append(name)
        self.engine("kube", "play", "--network", network, "--ip", address, file)
        return Pod(self.engine, f"{name}-{main['name']}", address, probes, ports)

    def end(self):
        for name in self.pods:
            if sys.exc_info()[0]:
                print(self.engine.all("pod", "logs", name), file=sys.stderr)
            subprocess.run([self.engine.name, "pod", "rm", "-f", "-t", "1", name], env=self.engine.environment, capture_output=True, check=False)
        for path in self.mounted:
            run("umount", path)


class Pod:
    """One that was started: its main container and its probes."""

    def __init__(self, engine, container, address, probes, ports):
        self.engine, self.container, self.address = engine, container, address
        self.ports = {port["name"]: port["containerPort"] for port in ports}
        self.started, self.alive, self.ready = (lambda probe=probe: self.probe(probe["httpGet"]) for probe in probes)

    def probe(self, get):
        try:
            with urllib.request.urlopen(f"http://{self.address}:{self.ports[get['port']]}{get['path']}", timeout=2) as reply:
                return reply.status == 200
        except urllib.error.HTTPError as error:
            self.said = error.read().decode()
            return False
        except OSError:
            return False

    def process(self):
        return int(self.engine.field("container", self.container, "{{.State.Pid}}"))


VALUES = """
index: 1
bundle: {path: loans.parts, existingClaim: loans}
rootKeys: {secret: ifonly-root}
tls: {secret: ifonly-tls}
front: {replicas: 1, resources: {requests: {memory: 64Mi}, limits: {memory: 256Mi}}}
shards: {count: 2, certificate: {secret: ifonly-inside}, resources: {requests: {memory: 64Mi}, limits: {memory: 256Mi}}}
"""


def pods(options, folder):
    import yaml

    place, engine = Place(options.ifonly, folder), Engine(options, folder)
    network, others = "ifonly-try", []
    repository, tag = engine.image.rsplit(":", 1)
    (folder / "values.yaml").write_text(VALUES + f"image: {{repository: {repository}, tag: {tag}}}\n", encoding="utf-8")
    objects = [one for one in yaml.safe_load_all(run(options.helm, "template", "loans", DEPLOY / "helm/ifonly", "-f", folder / "values.yaml")) if one]
    engine("network", "create", "--disable-dns", network)
    subnet = json.loads(engine("network", "inspect", network))[0]["subnets"][0]["subnet"]
    address = lambda last: f"{subnet.rsplit('.', 1)[0]}.{last}"
    place.certificate("a", f"IP:{address(10)}")
    place.give(USER)
    read = lambda name: (folder / name).read_text(encoding="utf-8")
    secrets = {"ifonly-root": {"root.key": read("root.key")}, "ifonly-tls": {"tls.crt": read("a.pem"), "tls.key": read("a.key")},
               "ifonly-inside": {name: read(name) for name in ("inside.pem", "inside.key")}}
    kubelet = Kubelet(engine, folder / "pods", objects, secrets, {"loans": folder})
    try:
        workload = {one["kind"]: one for one in objects if one["kind"] in ("Deployment", "StatefulSet")}
        names = [f"{workload['StatefulSet']['metadata']['name']}-{index}" for index in range(2)]
        service = workload["StatefulSet"]["spec"]["serviceName"]
        hosts = {f"{name}.{service}.default.svc.cluster.local": address(20 + index) for index, name in enumerate(names)}
        front = kubelet.play(workload["Deployment"], "loans-front", 0, network, address(10), hosts)
        until("the front is alive", lambda: front.started() and front.alive())
        hold(not front.ready(), "a front without shards is ready")
        print(f"a front alone is alive and not ready: {front.said.strip()}")
        shards = [kubelet.play(workload["StatefulSet"], name, index, network, address(20 + index), {}) for index, name in enumerate(names)]
        everybody = [front, *shards]
        until("everybody is ready", lambda: all(pod.ready() for pod in everybody))
        for pod in everybody:
            has_no_rights(pod.process())
            hold(engine.field("container", pod.container, "{{.HostConfig.Memory}}") == str(256 << 20), "memory has no limit")
        print("with two shards all three are ready; they are 65532, cannot write, have no capabilities and their limit of memory")
        other = subprocess.Popen([options.ifonly, "serve", folder / "loans.bundle", "--index", "2", "--key", folder / "root.key", "--listen", "127.0.0.1:0",
                                  "--cert", folder / "b.pem", "--cert-key", folder / "b.key", "--log", "error"], stdout=subprocess.PIPE, text=True)
        others.append(other)
        second = other.stdout.readline().split()[-1]
        urls = [f"https://{address(10)}:8443", second]
        place.ask(*urls)
        print("a search through the front and its shards, and a second server")
        killed = shards[1].process()
        os.kill(killed, 9)
        until("the shard is there again", lambda: shards[1].process() not in (0, killed) and shards[1].ready() and front.ready())
        place.ask(*urls)
        print("a shard that was killed was started again, and the front answers again")
        begun = time.monotonic()
        for name in kubelet.pods:
            engine("pod", "stop", "-t", "60", name)
        codes = [engine.field("container", pod.container, "{{.State.ExitCode}}") for pod in everybody]
        hold(codes == ["0", "0", "0"], f"they ended with {codes}")
        print(f"all three stopped with code 0, in {time.monotonic() - begun:.1f} s")
    finally:
        kubelet.end()
        for process in others:
            process.kill()
            process.wait()
        engine.end()
        subprocess.run([engine.name, "network", "rm", "-f", network], env=engine.environment, capture_output=True, check=False)


class Machine:
    """A Debian with systemd as its first process, without a network but its own loopback."""

    def __init__(self, folder):
        self.root, self.process, self.first = folder / "debian", None, None
        run("debootstrap", "--variant=minbase", "--include=systemd,systemd-sysv,dbus", "bookworm", self.root)

    def boot(self):
        command = ["systemd-nspawn", "-D", self.root, "--boot", "--register=no", "--keep-unit", "--private-network", "--console=pipe", "--machine=ifonly-try"]
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        self.first = until("systemd begins", lambda: children.read_text().split())[0]
        until("systemd is up", lambda: self.try_("systemctl", "is-system-running").strip() in ("running", "degraded"))

    def inside(self, *namespaces):
        return ["nsenter", "-t", self.first, *(namespaces or ["-a"])]

    def __call__(self, *words):
        return run(*self.inside(), *words)

    def try_(self, *words):
        return subprocess.run([*self.inside(), *words], capture_output=True, text=True, check=False).stdout

    def shown(self, unit, what):
        return self("systemctl", "show", "--value", "-p", what, unit).strip()

    def end(self):
        if self.first:
            if sys.exc_info()[0]:
                print(self.try_("journalctl", "-q", "-n", "60", "-u", "ifonly-*"), file=sys.stderr)
            self.try_("systemctl", "poweroff")
        if self.process:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(PATIENCE)
            # Takes everything inside along.
            self.process.kill()


FRONT = """
bundle = "/srv/ifonly/loans.parts/front"
index = 1
keys = ["/etc/ifonly/root.key"]
listen = "127.0.0.1:8443"
admin = "127.0.0.1:9100"
ledger = "/var/lib/ifonly/ledger"
tls = { certificate = "/etc/ifonly/a.pem", key = "/etc/ifonly/a.key" }
shards = { addresses = ["127.0.0.1:7000", "127.0.0.1:7001"], certificate = "/etc/ifonly/inside.pem", key = "/etc/ifonly/inside.key" }
"""
WHOLE = """
bundle = "/srv/ifonly/loans.bundle"
index = 2
keys = ["/etc/ifonly/root.key"]
listen = "127.0.0.1:8444"
tls = { certificate = "/etc/ifonly/b.pem", key = "/etc/ifonly/b.key" }
"""


def units(options, folder):
    place, machine = Place(options.ifonly, folder), Machine(folder)
    # What README.md has people do, in this order.
    shutil.copy(options.ifonly, machine.root / "usr/bin/ifonly")
    for unit in (DEPLOY / "systemd").glob("*.service"):
        shutil.copy(unit, machine.root / "etc/systemd/system")
    shutil.copy(DEPLOY / "systemd/ifonly.sysusers", machine.root / "usr/lib/sysusers.d/ifonly.conf")
    try:
        machine.boot()
        machine("systemd-sysusers")
        machine("install", "-d", "-o", "root", "-g", "ifonly", "-m", "0750", "/etc/ifonly")
        etc = machine.root / "etc/ifonly"
        token = run(options.ifonly, "keygen", "--token", "me", "--sessions", "100")
        (etc / "loans.toml").write_text(FRONT + token, encoding="utf-8")
        (etc / "other.toml").write_text(WHOLE, encoding="utf-8")
        for index in range(2):
            text = f"PART=/srv/ifonly/loans.parts/part-{index}\nLISTEN=127.0.0.1:700{index}\nADMIN=127.0.0.1:910{index + 1}\n"
            (etc / f"shard-{index}.env").write_text(text + ("LIMITS=--running 4 --transit-megabytes 64\n" if index else ""), encoding="utf-8")
        secret = [folder / name for name in ("root.key", "a.pem", "a.key", "b.pem", "b.key", "inside.pem", "inside.key")]
        owner = (machine.root / "etc/passwd").read_text(encoding="utf-8").split("\nifonly:x:")[1].split(":")
        run("install", "-o", owner[0], "-g", owner[1], "-m", "0400", *secret, etc)
        for name in ("loans.bundle", "loans.parts"):
            shutil.copytree(folder / name, machine.root / "srv/ifonly" / name)
        machine("chown", "-R", "ifonly:ifonly", "/srv/ifonly")
        names = ["ifonly-server@loans", "ifonly-server@other", "ifonly-shard@0", "ifonly-shard@1"]
        machine("systemctl", "enable", "--now", *names)
        log = lambda name: machine("journalctl", "-q", "-o", "cat", "-u", name)
        for name in names:
            until(f"{name} serves", lambda: '"serving' in log(name))
        for name in names:
            status = rights(machine("cat", f"/proc/{machine.shown(name, 'MainPID')}/status"))
            hold(status["Uid"].split()[0] != "0" and int(status["CapBnd"], 16) == 0 and status["Seccomp"] == "2", f"{name} has rights")
        print(f"systemd {machine('systemctl', '--version').split()[1]} runs a front, two shards and a second server, all without rights")
        asking = {"inside": machine.inside("-n"), "more": ["--token", token.splitlines()[0].split()[-1]]}
        place.ask("https://localhost:8443", "https://localhost:8444", **asking)
        hold((machine.root / "var/lib/ifonly/ledger").stat().st_size > 0, "the search was not counted")
        print("a search through them, counted in /var/lib/ifonly/ledger")
        machine("systemctl", "reload", *names[:2])
        for name in names[:2]:
            until(f"{name} reloads", lambda: "took up the configuration" in log(name))
        place.ask("https://localhost:8443", "https://localhost:8444", **asking)
        print("systemctl reload: everything is read again, and they answer")
        machine("systemctl", "kill", "-s", "KILL", names[3])
        until("the shard is started again", lambda: machine.shown(names[3], "NRestarts") == "1" and log(names[3]).count('"serving') == 2)
        until("the front has its rows again", lambda: machine_get(machine, "http://127.0.0.1:9100/readyz"))
        place.ask("https://localhost:8443", "https://localhost:8444", **asking)
        print("a shard that was killed was started again, and the front answers again")
        begun = time.monotonic()
        machine("systemctl", "stop", *names)
        hold(all(machine.shown(name, "Result") == "success" for name in names), "not all ended well")
        print(f"all four stopped well, in {time.monotonic() - begun:.1f} s")
    finally:
        machine.end()


def machine_get(machine, url):
    """Whether an address inside says 200."""
    code = f"import urllib.request; urllib.request.urlopen({url!r}, timeout=2)"
    return subprocess.run([*machine.inside("-n"), sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


def main():
    trials = {"image": image, "pods": pods, "units": units}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trials", nargs="+", choices=trials, metavar="TRIAL", help="image, pods or units")
    parser.add_argument("--ifonly", type=pathlib.Path, default=DEPLOY.parent / "target/debug/ifonly", help="the program (target/debug/ifonly)")
    parser.add_argument("--servers", type=pathlib.Path, help="the program of the image, if it is another one, such as target/image/ifonly")
    parser.add_argument("--engine", default="podman", help="podman, or docker for `image` with --image")
    parser.add_argument("--image", help="an image that the engine has")
    parser.add_argument("--helm", type=pathlib.Path, default=DEPLOY.parent / "target/deploy/bin/helm", help="Helm (where deploy/check puts it)")
    options = parser.parse_args()
    options.ifonly = options.ifonly.resolve()
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        sys.exit("deploy/try.py: it takes root on Linux")
    for name in options.trials:
        begun = time.monotonic()
        print(f"{name}:")
        with contextlib.ExitStack() as stack:
            folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ifonly-try-")))
            folder.chmod(0o755)
            try:
                trials[name](options, folder)
            except Wrong as fault:
                sys.exit(f"deploy/try.py {name}: {fault}")
        print(f"{name}: {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
