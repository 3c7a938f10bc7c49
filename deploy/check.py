"""Renders the chart with the values in helm/ifonly/ci and checks the properties in promises.py.

Then it breaks each property in turn: every violation must be detected. The chart must refuse wrong
values, with an error that names them. If the program is available, it must accept the rendered
configurations. The dashboard must show the metrics of the sources, and the guides must quote what
deploy/plan.py prints.
"""

import argparse
import copy
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import yaml

from promises import CHART, DEPLOY, NEWEST, OLDEST, PROPERTIES, REPOSITORY, CheckError, component, config, of_kind, pod, require

# The longest release name that Helm accepts, so that all names have their greatest length.
RELEASE = "a-release-whose-name-is-as-long-as-helm-lets-it-be-12"


def helm(program, *arguments):
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False)


def render(program, values, kubernetes, *more):
    done = helm(program, "template", RELEASE, CHART, "--namespace", "place", "--kube-version", kubernetes, "-f", values, *more)
    require(done.returncode == 0, f"helm template: {done.stderr}")
    return [document for document in yaml.safe_load_all(done.stdout) if document]


# Values that the chart must refuse, and text that the error must contain.
REFUSED = [
    (["shards.count=-1"], "shards.count"),
    (["shards.count=two"], "shards.count"),
    (["shards.cuont=2"], "cuont"),
    (["shards.maxConcurrent=-1"], "shards.maxConcurrent"),
    (["shards.bufferMegabytes=0"], "shards.bufferMegabytes"),
    (["index=0"], "index"),
    (["index=256"], "index"),
    (["rootKeys.secret="], "rootKeys.secret"),
    (["rootKeys.files={../x}"], "rootKeys.files"),
    (["tls.secret="], "tls.secret is missing"),
    (["bundle.existingClaim="], "the bundle is missing"),
    (["bundle.path=../other"], "bundle.path"),
    (["shards.count=2"], "shards.certificate.secret is missing"),
    (["frontend.replicas=2"], "frontend.replicas=1"),
    (["ledger.kind=none"], "has a budget"),
    (["ledger.kind=store"], "ledger.store.secret is missing"),
    (["ledger.kind=cloud"], "ledger.kind"),
    (["peers.enabled=true"], "peers.next.address"),
    (["limits.max_concurent=3"], "max_concurent"),
    (["tokens[0].hash=abc"], "tokens.0.hash"),
    (["tokens[0].name=branch office"], "tokens.0.name"),
    (["podSecurity.user=0"], "podSecurity.user"),
]


def broken(objects):
    """Copies of the objects, each of which violates one property."""

    def variant(change):
        other = copy.deepcopy(objects)
        change(other)
        return other

    frontend, shard = (lambda objects: pod(component(objects, "frontend"))), (lambda objects: pod(component(objects, "shard")))
    policy = lambda objects: [one for one in of_kind(objects, "NetworkPolicy") if one["metadata"]["name"].endswith("-shard")][0]["spec"]
    text = lambda objects: of_kind(objects, "ConfigMap")[0]["data"]

    def replace(old, new):
        return lambda objects: text(objects).update({"server.toml": text(objects)["server.toml"].replace(old, new)})

    changes = {
        "a field that Kubernetes does not know": lambda o: frontend(o).update(nodename="x"),
        "a name that is too long": lambda o: o[0]["metadata"].update(name="x" * 64),
        "a container with a writable root file system": lambda o: frontend(o)["containers"][0]["securityContext"].update(readOnlyRootFilesystem=False),
        "an init container as root": lambda o: shard(o)["initContainers"][0]["securityContext"].update(runAsUser=0),
        "a missing volume": lambda o: frontend(o)["volumes"].pop(0),
        "a key on disk": lambda o: [one for one in shard(o)["volumes"] if one["name"] == "keys"][0]["emptyDir"].pop("medium"),
        "no readiness probe": lambda o: frontend(o)["containers"][0].pop("readinessProbe"),
        "a shard that frontends do not list": lambda o: component(o, "shard")["spec"].update(replicas=shards_of(o) + 1),
        "every pod with the first part": lambda o: shard(o)["containers"][0]["args"].__setitem__(1, "/bundle/loans.parts/part-0"),
        "a shard without a limit on concurrent requests": lambda o: shard(o)["containers"][0]["args"].remove("--max-concurrent=4"),
        "a shard without a limit on buffered responses": lambda o: shard(o)["containers"][0]["args"].remove("--buffer-megabytes=2048"),
        "a frontend that lists one shard twice": replace("-shard-1.", "-shard-0."),
        "too little time to finish requests": lambda o: frontend(o).update(terminationGracePeriodSeconds=30),
        "no disruption budget for shards": lambda o: o.remove([one for one in of_kind(o, "PodDisruptionBudget") if one["metadata"]["name"].endswith("-shard")][0]),
        "shards open to all": lambda o: policy(o)["ingress"][0].pop("from"),
        "shards open to every namespace": lambda o: policy(o)["ingress"][0]["from"][0].update(namespaceSelector={}),
        "shards without a policy": lambda o: policy(o)["podSelector"]["matchLabels"].update({"app.kubernetes.io/component": "x"}),
        "shards with unrestricted egress": lambda o: policy(o).update(egress=[{}]),
        "a cluster address for shards": lambda o: [one for one in of_kind(o, "Service") if one["metadata"]["name"].endswith("-shards")][0]["spec"].pop("clusterIP"),
        "an unknown key in the configuration": replace("public_admin = true", "public_admin = true\nbundel = 1"),
    }
    return {name: variant(change) for name, change in changes.items()}


def shards_of(objects):
    return component(objects, "shard")["spec"]["replicas"]


def program_accepts(program, objects, folder):
    """The program reads the configuration and fails only because of missing files."""
    read = config(objects)
    known = (REPOSITORY / "docs/server.toml").read_text(encoding="utf-8")
    if ("shards" in read and "[shards]" not in known) or (isinstance(read.get("ledger"), dict) and "url_file" not in known):
        return False  # reported at the end
    (folder / "server.toml").write_text(of_kind(objects, "ConfigMap")[0]["data"]["server.toml"], encoding="utf-8")
    command = [program, "serve", "--config", folder / "server.toml", "--listen", "127.0.0.1:0"]
    # The files do not exist, so the program cannot start to serve.
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    require(done.returncode != 0 and re.search(r"/(keys|bundle|secrets|ledger)/.*No such file", done.stderr), f"the program printed: {done.stderr}")
    return True


def check(objects, values):
    for check_property in PROPERTIES:
        try:
            check_property(objects, values)
        except (CheckError, KeyError, IndexError) as error:
            raise CheckError(f"{check_property.__name__}: {error!r}") from error


def chart(program, ifonly):
    documents, accepted = 0, []
    for file in sorted((CHART / "ci").glob("*.yaml")):
        values = yaml.safe_load(file.read_text(encoding="utf-8"))
        lint = helm(program, "lint", "--strict", CHART, "-f", file)
        require(lint.returncode == 0, f"helm lint with {file.name}:\n{lint.stdout}{lint.stderr}")
        for kubernetes in (OLDEST, NEWEST):
            objects = render(program, file, kubernetes)
            try:
                check(objects, values)
            except CheckError as error:
                raise CheckError(f"{file.name}, Kubernetes {kubernetes}: {error}") from error
            documents += len(objects)
        if ifonly.exists():
            with tempfile.TemporaryDirectory() as folder:
                accepted.append(program_accepts(ifonly, objects, pathlib.Path(folder)))
        if file.name == "shards.yaml":
            undetected = []
            for name, other in broken(objects).items():
                require(other != objects, f"{name}: the copy has no violation")
                try:
                    check(other, values)
                    undetected.append(name)
                except CheckError:
                    pass
            require(not undetected, f"violations that were not detected: {undetected}")
            print(f"{len(broken(objects))} violations, all detected")
    # A configuration of the operator instead of the one of the chart.
    objects = render(program, CHART / "ci/whole.yaml", NEWEST, "--set", "configSecret=mine")
    require(not of_kind(objects, "ConfigMap"), "configSecret must replace the ConfigMap")
    for settings, named in REFUSED:
        flags = [flag for setting in settings for flag in ("--set", setting)]
        done = helm(program, "template", "x", CHART, "-f", CHART / "ci/whole.yaml", *flags)
        require(done.returncode != 0, f"the chart accepts {settings}")
        require(named in done.stderr, f"{settings}: the error does not contain {named}:\n{done.stderr}")
    newer = helm(program, "template", "x", CHART, "-f", CHART / "ci/whole.yaml", "--kube-version", "1.27.0")
    require("1.28" in newer.stderr, "the chart must refuse Kubernetes 1.27")
    if ifonly.exists():
        print(f"{sum(accepted)} configurations accepted by the program")
    else:
        print(f"NOT CHECKED: configurations by the program; {ifonly} does not exist")
    if not all(accepted):
        print(f"NOT CHECKED: {len(accepted) - sum(accepted)} configurations with settings that docs/server.toml does not contain")
    print(f"{documents} objects for Kubernetes {OLDEST} and {NEWEST}, {len(PROPERTIES)} properties, {len(REFUSED)} wrong values refused")


def dashboard():
    source = (REPOSITORY / "crates/ifonly-server/src/metrics.rs").read_text(encoding="utf-8")
    known = set(re.findall(r"\bifonly_[a-z_]+", source.split("#[cfg(test)]")[0]))
    known |= set(re.findall(r"ifonly_shard_[a-z_]+", (REPOSITORY / "crates/ifonly-server/src/shards/service.rs").read_text(encoding="utf-8")))
    for file in sorted((DEPLOY / "dashboards").glob("*.json")):
        text = json.dumps(json.loads(file.read_text(encoding="utf-8")))
        shown = set(re.findall(r"\bifonly_[a-z_]+", text))
        require(shown <= known, f"{file.name} shows {sorted(shown - known)}, which servers do not have")
        duration = "ifonly_request_duration_seconds"
        missing = known - shown - {duration, f"{duration}_sum", f"{duration}_count"}
        require(not missing, f"{file.name} does not show {sorted(missing)}")
        print(f"{file.name}: {len(shown)} metrics, all known")


def quotes():
    """The output of deploy/plan.py that docs/scaling.md quotes is current.

    The commands and their output may also be in docs/records/scaling.md.
    """
    pages = [REPOSITORY / "docs/scaling.md", REPOSITORY / "docs/records/scaling.md"]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages if page.exists())
    commands = sorted(set(re.findall(r"python3 (deploy/plan\.py[^`\n]*)", text)))
    require(len(commands) > 1, "docs/scaling.md must name the commands that it quotes")
    for command in commands:
        done = subprocess.run([sys.executable, *command.split()], cwd=REPOSITORY, capture_output=True, text=True, check=True)
        missing = [line for line in done.stdout.splitlines() if line not in text]
        require(not missing, f"docs/scaling.md: {command} prints another text: {missing[:1]}")
    print(f"docs/scaling.md: {len(commands)} commands of deploy/plan.py, quoted correctly")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--helm", type=pathlib.Path, required=True)
    parser.add_argument("--ifonly", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    try:
        dashboard()
        quotes()
        if arguments.helm.exists():
            chart(arguments.helm, arguments.ifonly.resolve())
        else:
            print("NOT CHECKED: the chart; Helm is not available for this processor")
    except CheckError as error:
        sys.exit(f"deploy/check: {error}")


if __name__ == "__main__":
    main()
