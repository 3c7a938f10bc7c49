"""Renders the chart with the values in helm/ifonly/ci and says whether what comes out is what operators were promised (promises.py).

At the end each promise is broken in turn, and a checker that does not notice is at fault itself. Wrong values must be refused by name. The real
program reads the configurations where it is at hand; the dashboard and docs/scaling.md are held against what they quote.
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

from promises import CHART, DEPLOY, NEWEST, OLDEST, PROPERTIES, REPOSITORY, Wrong, component, config, hold, of_kind, pod

# The longest name that Helm takes, so that all names are as long as they can be.
RELEASE = "a-release-whose-name-is-as-long-as-helm-lets-it-be-12"


def helm(program, *arguments):
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False)


def render(program, values, kubernetes, *more):
    done = helm(program, "template", RELEASE, CHART, "--namespace", "place", "--kube-version", kubernetes, "-f", values, *more)
    hold(done.returncode == 0, f"helm template: {done.stderr}")
    return [document for document in yaml.safe_load_all(done.stdout) if document]


# Values that must be refused, and what the refusal must name.
REFUSED = [
    (["shards.count=-1"], "shards.count"),
    (["shards.count=two"], "shards.count"),
    (["shards.cuont=2"], "cuont"),
    (["shards.running=-1"], "shards.running"),
    (["shards.transitMegabytes=0"], "shards.transitMegabytes"),
    (["index=0"], "index"),
    (["index=256"], "index"),
    (["rootKeys.secret="], "rootKeys.secret"),
    (["rootKeys.files={../x}"], "rootKeys.files"),
    (["tls.secret="], "tls.secret is missing"),
    (["bundle.existingClaim="], "the bundle is missing"),
    (["bundle.path=../other"], "bundle.path"),
    (["shards.count=2"], "shards.certificate.secret is missing"),
    (["front.replicas=2"], "front.replicas=1"),
    (["ledger.kind=none"], "has a budget"),
    (["ledger.kind=store"], "ledger.store.secret is missing"),
    (["ledger.kind=cloud"], "ledger.kind"),
    (["peers.enabled=true"], "peers.next.address"),
    (["limits.runnning=3"], "runnning"),
    (["tokens[0].hash=abc"], "tokens.0.hash"),
    (["tokens[0].name=branch office"], "tokens.0.name"),
    (["podSecurity.user=0"], "podSecurity.user"),
]


def broken(objects):
    """The same objects with one promise broken in each."""

    def variant(change):
        other = copy.deepcopy(objects)
        change(other)
        return other

    front, shard = (lambda objects: pod(component(objects, "front"))), (lambda objects: pod(component(objects, "shard")))
    policy = lambda objects: [one for one in of_kind(objects, "NetworkPolicy") if one["metadata"]["name"].endswith("-shard")][0]["spec"]
    text = lambda objects: of_kind(objects, "ConfigMap")[0]["data"]

    def replace(old, new):
        return lambda objects: text(objects).update({"server.toml": text(objects)["server.toml"].replace(old, new)})

    changes = {
        "a field that Kubernetes does not know": lambda o: front(o).update(nodename="x"),
        "a name that is too long": lambda o: o[0]["metadata"].update(name="x" * 64),
        "a container that writes": lambda o: front(o)["containers"][0]["securityContext"].update(readOnlyRootFilesystem=False),
        "an init container as root": lambda o: shard(o)["initContainers"][0]["securityContext"].update(runAsUser=0),
        "a volume that is missing": lambda o: front(o)["volumes"].pop(0),
        "a key on disk": lambda o: [one for one in shard(o)["volumes"] if one["name"] == "keys"][0]["emptyDir"].pop("medium"),
        "no readiness": lambda o: front(o)["containers"][0].pop("readinessProbe"),
        "a shard that no front knows": lambda o: component(o, "shard")["spec"].update(replicas=shards_of(o) + 1),
        "every pod with the first part": lambda o: shard(o)["containers"][0]["args"].__setitem__(1, "/bundle/loans.parts/part-0"),
        "a shard with as many answers as it likes": lambda o: shard(o)["containers"][0]["args"].remove("--running=4"),
        "a shard that keeps all answers": lambda o: shard(o)["containers"][0]["args"].remove("--transit-megabytes=2048"),
        "a front with one shard less": replace("-shard-1.", "-shard-0."),
        "a short farewell": lambda o: front(o).update(terminationGracePeriodSeconds=30),
        "no budget for shards": lambda o: o.remove([one for one in of_kind(o, "PodDisruptionBudget") if one["metadata"]["name"].endswith("-shard")][0]),
        "shards open to all": lambda o: policy(o)["ingress"][0].pop("from"),
        "shards open to every namespace": lambda o: policy(o)["ingress"][0]["from"][0].update(namespaceSelector={}),
        "shards without a policy": lambda o: policy(o)["podSelector"]["matchLabels"].update({"app.kubernetes.io/component": "x"}),
        "shards that reach everything": lambda o: policy(o).update(egress=[{}]),
        "a public name for shards": lambda o: [one for one in of_kind(o, "Service") if one["metadata"]["name"].endswith("-shards")][0]["spec"].pop("clusterIP"),
        "a key that servers refuse": replace("public_admin = true", "public_admin = true\nbundel = 1"),
    }
    return {name: variant(change) for name, change in changes.items()}


def shards_of(objects):
    return component(objects, "shard")["spec"]["replicas"]


def the_program_takes(program, objects, folder):
    """The real program reads the configuration, and misses only files, which are not here."""
    read = config(objects)
    known = (REPOSITORY / "docs/server.toml").read_text(encoding="utf-8")
    if ("shards" in read and "[shards]" not in known) or (isinstance(read.get("ledger"), dict) and "url_file" not in known):
        return False  # said at the end
    (folder / "server.toml").write_text(of_kind(objects, "ConfigMap")[0]["data"]["server.toml"], encoding="utf-8")
    command = [program, "serve", "--config", folder / "server.toml", "--listen", "127.0.0.1:0"]
    # A program that goes on to serve has been given files that cannot be there.
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    hold(done.returncode != 0 and re.search(r"/(keys|bundle|secrets|ledger)/.*No such file", done.stderr), f"the program says: {done.stderr}")
    return True


def check(objects, values):
    for holds in PROPERTIES:
        try:
            holds(objects, values)
        except (Wrong, KeyError, IndexError) as fault:
            raise Wrong(f"{holds.__name__}: {fault!r}") from fault


def chart(program, ifonly):
    documents, taken = 0, []
    for file in sorted((CHART / "ci").glob("*.yaml")):
        values = yaml.safe_load(file.read_text(encoding="utf-8"))
        lint = helm(program, "lint", "--strict", CHART, "-f", file)
        hold(lint.returncode == 0, f"helm lint with {file.name}:\n{lint.stdout}{lint.stderr}")
        for kubernetes in (OLDEST, NEWEST):
            objects = render(program, file, kubernetes)
            try:
                check(objects, values)
            except Wrong as fault:
                raise Wrong(f"{file.name}, Kubernetes {kubernetes}: {fault}") from fault
            documents += len(objects)
        if ifonly.exists():
            with tempfile.TemporaryDirectory() as folder:
                taken.append(the_program_takes(ifonly, objects, pathlib.Path(folder)))
        if file.name == "shards.yaml":
            unnoticed = []
            for name, other in broken(objects).items():
                hold(other != objects, f"{name}: nothing was broken")
                try:
                    check(other, values)
                    unnoticed.append(name)
                except Wrong:
                    pass
            hold(not unnoticed, f"not noticed: {unnoticed}")
            print(f"{len(broken(objects))} broken promises, all noticed")
    # Somebody else's configuration instead of the chart's.
    objects = render(program, CHART / "ci/whole.yaml", NEWEST, "--set", "configSecret=mine")
    hold(not of_kind(objects, "ConfigMap"), "a configuration of one's own stands alone")
    for settings, named in REFUSED:
        flags = [flag for setting in settings for flag in ("--set", setting)]
        done = helm(program, "template", "x", CHART, "-f", CHART / "ci/whole.yaml", *flags)
        hold(done.returncode != 0, f"{settings} was taken")
        hold(named in done.stderr, f"{settings}: the refusal does not name {named}:\n{done.stderr}")
    newer = helm(program, "template", "x", CHART, "-f", CHART / "ci/whole.yaml", "--kube-version", "1.27.0")
    hold("1.28" in newer.stderr, "an older Kubernetes is refused")
    print(f"{sum(taken)} configurations taken by the program" if ifonly.exists() else f"NOT CHECKED: configurations by the program; there is no {ifonly}")
    if not all(taken):
        print(f"NOT CHECKED: {len(taken) - sum(taken)} configurations with settings that docs/server.toml does not show")
    print(f"{documents} objects for Kubernetes {OLDEST} and {NEWEST}, {len(PROPERTIES)} properties, {len(REFUSED)} wrong values refused")


def dashboard():
    source = (REPOSITORY / "crates/ifonly-server/src/metrics.rs").read_text(encoding="utf-8")
    known = set(re.findall(r"\bifonly_[a-z_]+", source.split("#[cfg(test)]")[0]))
    known |= set(re.findall(r"ifonly_shard_[a-z_]+", (REPOSITORY / "crates/ifonly-server/src/shards/service.rs").read_text(encoding="utf-8")))
    for file in sorted((DEPLOY / "dashboards").glob("*.json")):
        text = json.dumps(json.loads(file.read_text(encoding="utf-8")))
        shown = set(re.findall(r"\bifonly_[a-z_]+", text))
        hold(shown <= known, f"{file.name} shows {sorted(shown - known)}, which no server has")
        hold(known - shown <= {"ifonly_request_seconds", "ifonly_request_seconds_sum", "ifonly_request_seconds_count"}, f"{file.name} leaves out {sorted(known - shown)}")
        print(f"{file.name}: {len(shown)} metrics, all there")


def page():
    """What docs/scaling.md quotes of deploy/plan.py is what it prints."""
    text = (REPOSITORY / "docs/scaling.md").read_text(encoding="utf-8")
    commands = re.findall(r"python3 (deploy/plan\.py[^`\n]*)", text)
    hold(len(set(commands)) > 1, "docs/scaling.md names the commands that it quotes")
    for command in sorted(set(commands)):
        done = subprocess.run([sys.executable, *command.split()], cwd=REPOSITORY, capture_output=True, text=True, check=True)
        lost = [line for line in done.stdout.splitlines() if line not in text]
        hold(not lost, f"docs/scaling.md: {command} prints something else: {lost[:1]}")
    print(f"docs/scaling.md: {len(set(commands))} commands of deploy/plan.py, quoted as they print")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--helm", type=pathlib.Path, required=True)
    parser.add_argument("--ifonly", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    try:
        dashboard()
        page()
        if arguments.helm.exists():
            chart(arguments.helm, arguments.ifonly.resolve())
        else:
            print("NOT CHECKED: the chart; there is no helm for this processor")
    except Wrong as fault:
        sys.exit(f"deploy/check: {fault}")


if __name__ == "__main__":
    main()
