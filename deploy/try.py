#!/usr/bin/env python3
"""Runs the contents of deploy/ on one machine: the image, the pods of the chart, and the units.

    python3 deploy/try.py image               two servers in unprivileged containers
    python3 deploy/try.py pods --helm PATH    a frontend and two shards as pods, run by podman
    python3 deploy/try.py units               the same as services of a Debian in systemd-nspawn

Each trial searches, reloads or kills processes, searches again, and stops the processes.

The image is the last stage of container/Containerfile, with a program that was compiled before
(--ifonly, or --servers for the image only). --image uses an existing image instead. No Kubernetes
is involved: `pods` simulates what a cluster does around pods (volumes in the layout of a kubelet,
names, probes); podman runs the containers and init containers with their restrictions. Network
policies are not enforced.

Needs root on Linux, and from Debian: podman, runc, openssl (image, pods); debootstrap,
systemd-container, openssl (units). `pods` also needs PyYAML. All files are in one temporary
directory; the program stops all processes and deletes the directory at the end. It uses the network
only to download the packages of that Debian.
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
# Seconds to wait for an operation of an engine that normally takes a second.
TIMEOUT = 60
# What the log of a server contains after a reload.
RELOADED = "reloaded configuration and bundle"


class TrialError(Exception):
    """A requirement that is not met."""


def require(condition, text):
    if not condition:
        raise TrialError(text)


def run(*command, **more):
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False, **more)
    require(done.returncode == 0, f"{' '.join(words)}\n{done.stdout}{done.stderr}")
    return done.stdout


def until(what, condition, seconds=TIMEOUT):
    """Polls: containers and services do not report when they are ready."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        require(time.monotonic() < end, f"timeout after {seconds} s: {what}")
        time.sleep(0.05)
    return found


class TestData:
    """A bundle, whole and in two parts, keys, certificates, and a client."""

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
        run(ifonly, "keygen", "--shard-certificate", folder / "inside.pem")
        self.certificate("a")
        self.certificate("b")
        (folder / "me.json").write_text(json.dumps({"income": 30, "debt": 20, "age": 40, "housing": "rent"}))

    def certificate(self, name, names="DNS:localhost,IP:127.0.0.1"):
        # The command of docs/quick-start.md.
        run("openssl", "req", "-x509", "-newkey", "ed25519", "-nodes", "-days", 2, "-subj", "/CN=localhost", "-addext", f"subjectAltName={names}",
            "-addext", "basicConstraints=critical,CA:FALSE", "-keyout", self.folder / f"{name}.key", "-out", self.folder / f"{name}.pem")

    def set_owner(self, user):
        """Makes `user` the owner of the files that only their owner can read."""
        run("chown", "-R", f"{user}:{user}", *[self.folder / name for name in ("loans.bundle", "loans.parts", "root.key", "a.key", "b.key", "inside.key")])

    def search(self, *urls, inside=(), more=()):
        """One search. `inside` is a command that enters the network namespace of the servers."""
        (self.folder / "both.pem").write_text((self.folder / "a.pem").read_text() + (self.folder / "b.pem").read_text())
        servers = [word for url in urls for word in ("--server", url)]
        said = run(*inside, self.ifonly, "ask", *servers, "--ca", self.folder / "both.pem", "--profile", self.folder / "me.json", "--json", *more)
        answer = json.loads(said)
        require(answer["matching_rows"] == 2000, f"the search did not cover all rows: {said}")
        return answer


class Engine:
    """podman or docker. Without --image, podman with separate storage, network and settings."""

    def __init__(self, options, folder):
        self.name, self.image, self.started, self.environment = options.engine, options.image, [], dict(os.environ)
        if self.image is None:
            require(self.name == "podman", "--image is required with other engines than podman")
            self.isolate(folder)
            self.image = self.last_stage(options.servers or options.ifonly, folder)

    def isolate(self, folder):
        """Uses vfs, which works on every file system, and limits that need no privileges."""
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
        """Standard output and standard error of a command that may fail."""
        return subprocess.run([self.name, *words], env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False).stdout

    def start(self, name, *words):
        self.started.append(name)
        self("run", "-d", "--name", name, *words)

    def field(self, kind, name, format):
        return self(kind, "inspect", "--format", format, name).strip()

    def end(self):
        for name in reversed(self.started):
            subprocess.run([self.name, "rm", "-f", "-t", "1", name], env=self.environment, capture_output=True, check=False)


def parse_status(text):
    """The fields of /proc/PID/status."""
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


def check_privileges(process):
    status = parse_status(pathlib.Path(f"/proc/{process}/status").read_text(encoding="utf-8"))
    require(set(status["Uid"].split()) == set(status["Gid"].split()) == {str(USER)}, f"process {process} runs as {status['Uid']}")
    require(all(int(status[name], 16) == 0 for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")), f"process {process} has capabilities")
    require((status["NoNewPrivs"], status["Seccomp"]) == ("1", "2"), f"process {process} can gain privileges or make any system call")
    root = [line.split() for line in pathlib.Path(f"/proc/{process}/mountinfo").read_text(encoding="utf-8").splitlines()]
    require(any(line[4] == "/" and "ro" in line[5].split(",") for line in root), f"process {process} has a writable root file system")


def image(options, folder):
    data = TestData(options.ifonly, folder)
    data.set_owner(USER)
    engine = Engine(options, folder)
    try:
        size = int(engine.field("image", engine.image, "{{.Size}}"))
        user = engine.field("image", engine.image, "{{.Config.User}}")
        require(user == f"{USER}:{USER}", f"the image runs as {user}")
        print(f"{engine.image}: {size / 1e6:.1f} MB, user {user}")
        for shell in ("sh", "bash", "busybox"):
            done = subprocess.run([engine.name, "run", "--rm", "--entrypoint", shell, engine.image], env=engine.environment, capture_output=True, check=False)
            require(done.returncode == 127, f"the image contains {shell}")
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
            check_privileges(engine.field("container", name, "{{.State.Pid}}"))
        data.search(*urls)
        print("two containers with a read-only root file system and no capabilities answered a search")
        engine("exec", "ifonly-try-a", "kill", "-HUP", "1")
        until("the reload", lambda: RELOADED in logs("ifonly-try-a"))
        data.search(*urls)
        print("kill -HUP 1 in a container reloaded the server, and it answered a search")
        for name in ("ifonly-try-a", "ifonly-try-b"):
            begun = time.monotonic()
            engine("stop", "-t", "45", name)
            code = engine.field("container", name, "{{.State.ExitCode}}")
            require(code == "0", f"{name} exited with code {code}")
        print(f"both stopped with code 0, the second one in {time.monotonic() - begun:.1f} s")
        # Stop during the start: the server waits for a key that does not arrive.
        os.mkfifo(folder / "pipe", 0o600)
        os.chown(folder / "pipe", USER, USER)
        engine.start("ifonly-try-c", "-v", f"{folder / 'loans.bundle'}:/bundle:ro", "-v", f"{folder / 'pipe'}:/pipe", engine.image,
                     "serve", "/bundle", "--index=1", "--key=/pipe")
        with open(folder / "pipe", "wb"):
            engine("stop", "-t", "45", "ifonly-try-c")
        code = engine.field("container", "ifonly-try-c", "{{.State.ExitCode}}")
        require(code == "0", f"stopped during its start, it exited with code {code}")
        print("a server that was stopped during its start exited with code 0")
    finally:
        engine.end()


class Kubelet:
    """Simulates the parts of a cluster around the pods."""

    def __init__(self, engine, folder, objects, secrets, claims):
        self.engine, self.folder, self.objects, self.secrets, self.claims = engine, folder, objects, secrets, claims
        self.mounted, self.pods = [], []

    def files(self, path, contents, mode):
        """Files as in the volume of a Secret or a ConfigMap.

        They are links into a directory that a kubelet replaces as a whole; they belong to root
        and are readable for the group.
        """
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
            # Kubernetes makes the files readable for the group, with every mode.
            self.files(path, self.secrets[volume["secret"]["secretName"]], volume["secret"]["defaultMode"] | 0o040)
        elif "configMap" in volume:
            self.files(path, [one["data"] for one in self.objects if one["kind"] == "ConfigMap" and one["metadata"]["name"] == volume["configMap"]["name"]][0], 0o644)
        elif "persistentVolumeClaim" in volume:
            path = self.claims[volume["persistentVolumeClaim"]["claimName"]]
        else:
            require(volume["emptyDir"]["medium"] == "Memory", f"{volume} is not in memory")
            path.mkdir(parents=True)
            run("mount", "-t", "tmpfs", "-o", f"size=1m,mode=2777,gid={group}", "tmpfs", path)
            self.mounted.append(path)
        return {"name": volume["name"], "hostPath": {"path": str(path), "type": "Directory"}}

    def expand(self, container, labels):
        """Replaces $(NAME) by the variable, whose value may come from a label."""
        for entry in container.get("env", []):
            if source := entry.pop("valueFrom", None):
                entry["value"] = labels[re.fullmatch(r"metadata\.labels\['(.*)'\]", source["fieldRef"]["fieldPath"])[1]]
        values = {entry["name"]: entry["value"] for entry in container.get("env", [])}
        for words in ("command", "args"):
            container[words] = [re.sub(r"\$\((\w+)\)", lambda name: values[name[1]], word) for word in container.get(words, [])]

    def play(self, workload, name, index, network, address, hosts):
        """Starts one pod of a Deployment or StatefulSet."""
        template = json.loads(json.dumps(workload["spec"]["template"]))
        # Keep the init containers: podman 4.3 fails to remove them.
        kept = {"io.podman.annotations.init.container.type": "always"}
        template["metadata"] = {"name": name, "annotations": kept, "labels": {**template["metadata"]["labels"], "apps.kubernetes.io/pod-index": str(index)}}
        spec = template["spec"]
        spec["volumes"] = [self.volume(name, volume, spec["securityContext"]["fsGroup"]) for volume in spec["volumes"]]
        spec["hostAliases"] = [{"ip": ip, "hostnames": [host]} for host, ip in hosts.items()]
        for container in spec["initContainers"] + spec["containers"]:
            self.expand(container, template["metadata"]["labels"])
        # Podman would run the probes with curl in the container, and publish the ports on the host.
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
    """A started pod: its main container and its probes."""

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
frontend: {replicas: 1, resources: {requests: {memory: 64Mi}, limits: {memory: 256Mi}}}
shards: {count: 2, certificate: {secret: ifonly-inside}, resources: {requests: {memory: 64Mi}, limits: {memory: 256Mi}}}
"""


def pods(options, folder):
    import yaml

    data, engine = TestData(options.ifonly, folder), Engine(options, folder)
    network, others = "ifonly-try", []
    repository, tag = engine.image.rsplit(":", 1)
    (folder / "values.yaml").write_text(VALUES + f"image: {{repository: {repository}, tag: {tag}}}\n", encoding="utf-8")
    objects = [one for one in yaml.safe_load_all(run(options.helm, "template", "loans", DEPLOY / "helm/ifonly", "-f", folder / "values.yaml")) if one]
    engine("network", "create", "--disable-dns", network)
    subnet = json.loads(engine("network", "inspect", network))[0]["subnets"][0]["subnet"]
    address = lambda last: f"{subnet.rsplit('.', 1)[0]}.{last}"
    data.certificate("a", f"IP:{address(10)}")
    data.set_owner(USER)
    read = lambda name: (folder / name).read_text(encoding="utf-8")
    secrets = {"ifonly-root": {"root.key": read("root.key")}, "ifonly-tls": {"tls.crt": read("a.pem"), "tls.key": read("a.key")},
               "ifonly-inside": {name: read(name) for name in ("inside.pem", "inside.key")}}
    kubelet = Kubelet(engine, folder / "pods", objects, secrets, {"loans": folder})
    try:
        workload = {one["kind"]: one for one in objects if one["kind"] in ("Deployment", "StatefulSet")}
        names = [f"{workload['StatefulSet']['metadata']['name']}-{index}" for index in range(2)]
        service = workload["StatefulSet"]["spec"]["serviceName"]
        hosts = {f"{name}.{service}.default.svc.cluster.local": address(20 + index) for index, name in enumerate(names)}
        frontend = kubelet.play(workload["Deployment"], "loans-frontend", 0, network, address(10), hosts)
        until("the frontend is alive", lambda: frontend.started() and frontend.alive())
        require(not frontend.ready(), "a frontend without shards is ready")
        print(f"a frontend without shards is alive and not ready: {frontend.said.strip()}")
        shards = [kubelet.play(workload["StatefulSet"], name, index, network, address(20 + index), {}) for index, name in enumerate(names)]
        all_pods = [frontend, *shards]
        until("all pods are ready", lambda: all(pod.ready() for pod in all_pods))
        for pod in all_pods:
            check_privileges(pod.process())
            require(engine.field("container", pod.container, "{{.HostConfig.Memory}}") == str(256 << 20), f"{pod.container} has no memory limit")
        print("with two shards all pods are ready, run as 65532 without capabilities, and have a read-only root and a memory limit")
        other = subprocess.Popen([options.ifonly, "serve", folder / "loans.bundle", "--index", "2", "--key", folder / "root.key", "--listen", "127.0.0.1:0",
                                  "--cert", folder / "b.pem", "--cert-key", folder / "b.key", "--log", "error"], stdout=subprocess.PIPE, text=True)
        others.append(other)
        second = other.stdout.readline().split()[-1]
        urls = [f"https://{address(10)}:8443", second]
        data.search(*urls)
        print("the frontend with its shards and a second server answered a search")
        killed = shards[1].process()
        os.kill(killed, 9)
        until("the shard is ready again", lambda: shards[1].process() not in (0, killed) and shards[1].ready() and frontend.ready())
        data.search(*urls)
        print("a killed shard was restarted, and the frontend answered a search")
        begun = time.monotonic()
        for name in kubelet.pods:
            engine("pod", "stop", "-t", "60", name)
        codes = [engine.field("container", pod.container, "{{.State.ExitCode}}") for pod in all_pods]
        require(codes == ["0", "0", "0"], f"the exit codes are {codes}")
        print(f"all pods stopped with code 0 in {time.monotonic() - begun:.1f} s")
    finally:
        kubelet.end()
        for process in others:
            process.kill()
            process.wait()
        engine.end()
        subprocess.run([engine.name, "network", "rm", "-f", network], env=engine.environment, capture_output=True, check=False)


class Machine:
    """A Debian with systemd as its first process and only a loopback network."""

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
                self.process.wait(TIMEOUT)
            # This also kills all processes in the container.
            self.process.kill()


FRONTEND = """
bundle = "/srv/ifonly/loans.parts/frontend"
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
    data, machine = TestData(options.ifonly, folder), Machine(folder)
    # The steps of README.md, in the same order.
    shutil.copy(options.ifonly, machine.root / "usr/bin/ifonly")
    for unit in (DEPLOY / "systemd").glob("*.service"):
        shutil.copy(unit, machine.root / "etc/systemd/system")
    shutil.copy(DEPLOY / "systemd/ifonly.sysusers", machine.root / "usr/lib/sysusers.d/ifonly.conf")
    try:
        machine.boot()
        machine("systemd-sysusers")
        machine("install", "-d", "-o", "root", "-g", "ifonly", "-m", "0750", "/etc/ifonly")
        etc = machine.root / "etc/ifonly"
        token = run(options.ifonly, "keygen", "--token", "me", "--searches", "100")
        (etc / "loans.toml").write_text(FRONTEND + token, encoding="utf-8")
        (etc / "other.toml").write_text(WHOLE, encoding="utf-8")
        for index in range(2):
            text = f"PART=/srv/ifonly/loans.parts/part-{index}\nLISTEN=127.0.0.1:700{index}\nADMIN=127.0.0.1:910{index + 1}\n"
            (etc / f"shard-{index}.env").write_text(text + ("LIMITS=--max-concurrent 4 --buffer-megabytes 64\n" if index else ""), encoding="utf-8")
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
            status = parse_status(machine("cat", f"/proc/{machine.shown(name, 'MainPID')}/status"))
            require(status["Uid"].split()[0] != "0" and int(status["CapBnd"], 16) == 0 and status["Seccomp"] == "2", f"{name} has privileges")
        print(f"systemd {machine('systemctl', '--version').split()[1]} runs a frontend, two shards and a second server, all without privileges")
        asking = {"inside": machine.inside("-n"), "more": ["--token", token.splitlines()[0].split()[-1]]}
        data.search("https://localhost:8443", "https://localhost:8444", **asking)
        require((machine.root / "var/lib/ifonly/ledger").stat().st_size > 0, "the ledger did not count the search")
        print("they answered a search, which was counted in /var/lib/ifonly/ledger")
        machine("systemctl", "reload", *names[:2])
        for name in names[:2]:
            until(f"{name} reloads", lambda: RELOADED in log(name))
        data.search("https://localhost:8443", "https://localhost:8444", **asking)
        print("after systemctl reload they answered a search")
        machine("systemctl", "kill", "-s", "KILL", names[3])
        until("the shard is restarted", lambda: machine.shown(names[3], "NRestarts") == "1" and log(names[3]).count('"serving') == 2)
        until("the frontend is ready again", lambda: machine_get(machine, "http://127.0.0.1:9100/readyz"))
        data.search("https://localhost:8443", "https://localhost:8444", **asking)
        print("a killed shard was restarted, and the frontend answered a search")
        begun = time.monotonic()
        machine("systemctl", "stop", *names)
        require(all(machine.shown(name, "Result") == "success" for name in names), "a service failed")
        print(f"all services stopped without errors in {time.monotonic() - begun:.1f} s")
    finally:
        machine.end()


def machine_get(machine, url):
    """Whether a URL in the machine answers with status 200."""
    code = f"import urllib.request; urllib.request.urlopen({url!r}, timeout=2)"
    return subprocess.run([*machine.inside("-n"), sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


def main():
    trials = {"image": image, "pods": pods, "units": units}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trials", nargs="+", choices=trials, metavar="TRIAL", help="image, pods or units")
    parser.add_argument("--ifonly", type=pathlib.Path, default=DEPLOY.parent / "target/debug/ifonly", help="the program; default target/debug/ifonly")
    parser.add_argument("--servers", type=pathlib.Path, help="another program for the image, such as target/image/ifonly")
    parser.add_argument("--engine", default="podman", help="podman (default), or docker for `image` with --image")
    parser.add_argument("--image", help="an existing image of the engine")
    parser.add_argument("--helm", type=pathlib.Path, default=DEPLOY.parent / "target/deploy/bin/helm", help="Helm; default: the one that deploy/check installs")
    options = parser.parse_args()
    options.ifonly = options.ifonly.resolve()
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        sys.exit("deploy/try.py: needs root on Linux")
    for name in options.trials:
        begun = time.monotonic()
        print(f"{name}:")
        with contextlib.ExitStack() as stack:
            folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ifonly-try-")))
            folder.chmod(0o755)
            try:
                trials[name](options, folder)
            except TrialError as error:
                sys.exit(f"deploy/try.py {name}: {error}")
        print(f"{name}: {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
