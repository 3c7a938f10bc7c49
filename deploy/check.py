"""Renders the chart with the values in helm/ifonly/ci and says whether what comes out is what operators were promised.

Every object is checked against Kubernetes' own schemas, strictly, for the oldest release that the chart takes and for the newest that
is known here; then come properties that no schema knows. At the end each property is broken in turn, and a checker that does not
notice is at fault itself.
"""

import argparse
import copy
import ipaddress
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib

import kubernetes_validate
import yaml

DEPLOY = pathlib.Path(__file__).resolve().parent
CHART = DEPLOY / "helm/ifonly"
REPOSITORY = DEPLOY.parent
OLDEST, NEWEST = "1.28.0", kubernetes_validate.latest_version()
# The longest name that Helm takes, so that all names are as long as they can be.
RELEASE = "a-release-whose-name-is-as-long-as-helm-lets-it-be-12"
SECRET = re.compile(r"PRIVATE KEY|://[^/\s]*:[^/\s]*@")


class Wrong(Exception):
    """What does not hold."""


def hold(condition, text):
    if not condition:
        raise Wrong(text)


def helm(program, *arguments):
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False)


def render(program, values, kubernetes, *more):
    done = helm(program, "template", RELEASE, CHART, "--namespace", "place", "--kube-version", kubernetes, "-f", values, *more)
    hold(done.returncode == 0, f"helm template: {done.stderr}")
    return [document for document in yaml.safe_load_all(done.stdout) if document]


# What was rendered, by kind.


def of_kind(objects, *kinds):
    return [thing for thing in objects if thing["kind"] in kinds]


def workloads(objects):
    return of_kind(objects, "Deployment", "StatefulSet")


def component(objects, name):
    found = [thing for thing in workloads(objects) if thing["metadata"]["labels"]["app.kubernetes.io/component"] == name]
    return found[0] if found else None


def pod(workload):
    return workload["spec"]["template"]["spec"]


def containers(workload):
    return pod(workload).get("initContainers", []) + pod(workload)["containers"]


def config(objects):
    return tomllib.loads(of_kind(objects, "ConfigMap")[0]["data"]["server.toml"])


def shards(values):
    return values.get("shards", {}).get("count", 0)


# Properties: each takes what was rendered and the values it came from.


def objects_fit_the_schemas_of_kubernetes(objects, _values):
    for thing in objects:
        if thing["apiVersion"] == "monitoring.coreos.com/v1":  # not one of Kubernetes' own
            hold(thing["spec"]["selector"]["matchLabels"] and thing["spec"]["endpoints"], "a ServiceMonitor selects something")
            continue
        for version in (OLDEST, NEWEST):
            if version == OLDEST and "preStop" in json.dumps(thing):
                continue  # rendered for the newest
            try:
                kubernetes_validate.validate(thing, version, strict=True)
            except kubernetes_validate.ValidationError as error:
                raise Wrong(f"{thing['kind']} {thing['metadata']['name']}, Kubernetes {version}: {error.message}") from error


def names_are_short_enough_for_labels_and_unique(objects, values):
    seen = [(thing["kind"], thing["metadata"]["name"]) for thing in objects]
    hold(len(set(seen)) == len(seen), f"two objects share a name: {seen}")
    for thing in objects:
        name = thing["metadata"]["name"]
        # A pod's number, and the hash by which a StatefulSet tells revisions apart, come behind.
        room = 11 if thing["kind"] in ("StatefulSet", "Deployment") else 0
        hold(len(name) + room <= 63, f"{name} is too long")
    numbered = [f"{component(objects, 'shard')['metadata']['name']}-{shards(values) - 1}"] if shards(values) else []
    hold(all(len(name) <= 63 for name in numbered), f"{numbered} is too long")


def containers_have_no_rights(objects, _values):
    for workload in workloads(objects):
        security = pod(workload)["securityContext"]
        hold(security["runAsNonRoot"] and security["runAsUser"] > 0 and security["runAsGroup"] > 0, "pods do not run as root")
        hold(security["seccompProfile"] == {"type": "RuntimeDefault"}, "pods have the runtime's system calls")
        hold(pod(workload)["automountServiceAccountToken"] is False, "pods have no token of Kubernetes")
        hold(not any(pod(workload).get(key) for key in ("hostNetwork", "hostPID", "hostIPC")), "pods are not the host")
        hold(not any("hostPath" in volume for volume in pod(workload)["volumes"]), "pods see nothing of the host")
        for container in containers(workload):
            rights, name = container["securityContext"], container["name"]
            hold(rights["readOnlyRootFilesystem"] is True, f"{name} writes to its root")
            hold(rights["allowPrivilegeEscalation"] is False and rights["privileged"] is False, f"{name} may gain rights")
            hold(rights["capabilities"] == {"drop": ["ALL"]}, f"{name} has capabilities")
            hold(rights["runAsNonRoot"] is True and rights.get("runAsUser") != 0, f"{name} may run as root")
    hold(all(account["automountServiceAccountToken"] is False for account in of_kind(objects, "ServiceAccount")), "no account has a token")


def what_is_mounted_is_there_and_only_the_ledger_is_written(objects, _values):
    for workload in workloads(objects):
        claims = [claim["metadata"]["name"] for claim in workload["spec"].get("volumeClaimTemplates", [])]
        volumes = [volume["name"] for volume in pod(workload)["volumes"]] + claims
        hold(len(set(volumes)) == len(volumes), f"two volumes share a name: {volumes}")
        for container in containers(workload):
            for mount in container.get("volumeMounts", []):
                hold(mount["name"] in volumes, f"{container['name']} mounts {mount['name']}, which is nowhere")
        for mount in pod(workload)["containers"][0]["volumeMounts"]:
            hold(mount.get("readOnly") or mount["mountPath"] == "/ledger", f"{mount['mountPath']} can be written to")


def secrets_come_from_secrets(objects, values):
    hold(not of_kind(objects, "Secret"), "the chart writes no Secret")
    hold(not SECRET.search(json.dumps(objects)), "there is a secret among the objects")
    for workload in workloads(objects):
        keys = [volume for volume in pod(workload)["volumes"] if volume["name"] == "keys"]
        hold(keys and keys[0]["emptyDir"]["medium"] == "Memory", "root keys are copied to memory")
        copied = [container for container in pod(workload)["initContainers"] if container["name"] == "keys"][0]
        hold(copied["command"][:3] == ["/usr/bin/install", "-m", "0400"], "root keys are their user's alone")
        files = values["rootKeys"].get("files", ["root.key"])
        hold(copied["command"][3:] == [*(f"/secrets/root/{file}" for file in files), "/keys/"], "all root keys are copied")


def probes_ask_the_admin_port(objects, _values):
    for workload in workloads(objects):
        container = pod(workload)["containers"][0]
        for probe, path in (("startupProbe", "/healthz"), ("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
            hold(container.get(probe, {}).get("httpGet") == {"path": path, "port": "admin"}, f"{container['name']}: {probe}")
        hold({"name": "admin", "containerPort": 9100} in container["ports"], "the admin port has its name")
        start = container["startupProbe"]
        hold(start["periodSeconds"] * start["failureThreshold"] >= 600, "a start may take ten minutes")
        hold(container["resources"]["requests"]["memory"] and container["resources"]["limits"]["memory"], "memory is accounted for")


def every_part_has_one_shard_and_every_front_knows_all(objects, values):
    workload, count = component(objects, "shard"), shards(values)
    listed = config(objects).get("shards", {}).get("addresses", [])
    if not count:
        hold(workload is None and not listed, "there are no shards")
        return
    hold(workload["spec"]["replicas"] == count, "as many pods as parts")
    hold(workload["spec"]["podManagementPolicy"] == "Parallel", "shards start at once")
    container = pod(workload)["containers"][0]
    variable = [entry for entry in container["env"] if entry["name"] == "POD_INDEX"]
    label = "metadata.labels['apps.kubernetes.io/pod-index']"
    hold(variable and variable[0]["valueFrom"]["fieldRef"]["fieldPath"] == label, "a pod knows its number")
    arguments = container["args"]
    hold(arguments[:2] == ["shard", f"/bundle/{values['bundle']['path']}/part-$(POD_INDEX)"], "pod i serves part i")
    service = [thing for thing in of_kind(objects, "Service") if thing["metadata"]["name"] == workload["spec"]["serviceName"]]
    hold(service and service[0]["spec"]["clusterIP"] == "None", "pods of the set have names")
    name, domain = workload["metadata"]["name"], f"{workload['spec']['serviceName']}.place.svc.cluster.local:8445"
    hold(listed == [f"{name}-{i}.{domain}" for i in range(count)], "fronts know each shard by its name")
    hold(config(objects)["bundle"].endswith("/front"), "fronts have the part without rows")
    keys = [argument.removeprefix("--key=") for argument in arguments if argument.startswith("--key=")]
    hold(keys == config(objects)["keys"], "shards and fronts have the same root keys")
    inside = [config(objects)["shards"][key] for key in ("certificate", "key")]
    hold([f"--cert={inside[0]}", f"--cert-key={inside[1]}"] == [one for one in arguments if one.startswith("--cert")], "one certificate for both")


def fronts_roll_without_a_gap_and_finish_what_they_began(objects, values):
    front = component(objects, "front")
    alone = values.get("peers", {}).get("enabled") or values.get("ledger", {}).get("kind") == "file"
    if alone:
        hold(front["spec"]["strategy"] == {"type": "Recreate"} and front["spec"]["replicas"] == 1, "there is one front at a time")
    else:
        hold(front["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0, "a front goes after another has come")
    pause = pod(front)["containers"][0].get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
    shutdown = values.get("limits", {}).get("shutdown_seconds", 30)
    hold(pod(front)["terminationGracePeriodSeconds"] > pause + shutdown, "running answers have their time")
    hold("checksum/config" in front["spec"]["template"]["metadata"]["annotations"], "another configuration is another pod")
    scaled = of_kind(objects, "HorizontalPodAutoscaler")
    hold(bool(scaled) != ("replicas" in front["spec"]), "either somebody scales or the chart says how many")
    for scaler in scaled:
        hold(scaler["spec"]["scaleTargetRef"]["name"] == front["metadata"]["name"], "the fronts are scaled")


def matches(selector, labels):
    return all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items())


def each_kind_has_a_disruption_budget(objects, _values):
    for workload in workloads(objects):
        labels = workload["spec"]["template"]["metadata"]["labels"]
        hold(matches(workload["spec"]["selector"], labels), "a workload knows its pods")
        budgets = [budget for budget in of_kind(objects, "PodDisruptionBudget") if matches(budget["spec"]["selector"], labels)]
        hold(len(budgets) == 1 and budgets[0]["spec"]["maxUnavailable"] == 1, f"{labels} has one budget")
        spread = pod(workload)["topologySpreadConstraints"][0]["labelSelector"]
        hold(matches(spread, labels), "pods of a kind are spread")


def may(objects, target, source, port):
    """Whether the policies let `source`, {"labels", "namespace"} or {"address"}, reach a named port of the pods with labels `target`."""

    def named(peer):
        if "ipBlock" in peer:
            return "address" in source and ipaddress.ip_address(source["address"]) in ipaddress.ip_network(peer["ipBlock"]["cidr"])
        if "labels" not in source:
            return False
        namespace = peer.get("namespaceSelector")
        here = source["namespace"] == "place" if namespace is None else matches(namespace, {"kubernetes.io/metadata.name": source["namespace"]})
        return here and matches(peer.get("podSelector", {}), source["labels"])

    policies = [policy for policy in of_kind(objects, "NetworkPolicy") if matches(policy["spec"]["podSelector"], target)]
    policies = [policy for policy in policies if "Ingress" in policy["spec"]["policyTypes"]]
    rules = [rule for policy in policies for rule in policy["spec"].get("ingress", [])]
    fits = lambda rule: "ports" not in rule or any(one.get("port") == port for one in rule["ports"])
    return not policies or any(fits(rule) and ("from" not in rule or any(map(named, rule["from"]))) for rule in rules)


def policies_let_in_who_must_and_nobody_else(objects, values):
    front = component(objects, "front")["spec"]["template"]["metadata"]["labels"]
    shard = {**front, "app.kubernetes.io/component": "shard"}
    stranger = {"app.kubernetes.io/name": "ifonly", "app.kubernetes.io/instance": "other", "app.kubernetes.io/component": "front"}
    people = {
        "a front": {"labels": front, "namespace": "place"},
        "a shard": {"labels": shard, "namespace": "place"},
        "another release's front": {"labels": stranger, "namespace": "place"},
        "a front's double elsewhere": {"labels": front, "namespace": "elsewhere"},
        "Prometheus": {"labels": {"app": "prometheus"}, "namespace": "monitoring"},
        "the server before": {"address": "192.0.2.3"},
        "the server after": {"address": "192.0.2.2"},
        "anybody": {"address": "198.51.100.7"},
    }
    watched = {"Prometheus"} if values.get("monitoring", {}).get("enabled") else set()
    before = {"the server before"} if values.get("peers", {}).get("enabled") else set()
    ports = {(0, "clients"): set(people), (0, "peers"): before, (0, "admin"): watched}
    if shards(values):
        ports |= {(1, "shard"): {"a front"}, (1, "admin"): watched}
    for (which, port), expected in ports.items():
        allowed = {name for name, who in people.items() if may(objects, (front, shard)[which], who, port)}
        hold(allowed == expected, f"port {port} of {('fronts', 'shards')[which]} is open to {sorted(allowed)} instead of {sorted(expected)}")
    for policy in of_kind(objects, "NetworkPolicy"):
        hold("Egress" in policy["spec"]["policyTypes"], "what a pod may reach is named too")
        hold(all(rule.get("to") and rule.get("ports") for rule in policy["spec"]["egress"]), "no pod may reach everything")
    for service in of_kind(objects, "Service"):
        exposed = {port["targetPort"] for port in service["spec"]["ports"]}
        inside = service["spec"].get("clusterIP") == "None"
        hold(inside or exposed <= {"clients", "peers"}, f"{service['metadata']['name']} shows {exposed}")


def documented_keys():
    """section → keys that docs/server.toml shows, commented out or not."""
    found, section = {}, ""
    for line in (REPOSITORY / "docs/server.toml").read_text(encoding="utf-8").splitlines():
        line = line.lstrip("# ")
        if heading := re.fullmatch(r"\[+([a-z.]+)\]+", line):
            section = heading[1]
        elif key := re.match(r"([a-z_]+) = ", line):
            found.setdefault(section, set()).add(key[1])
    return found


def configurations_have_only_keys_that_servers_know(objects, values):
    read, known = config(objects), documented_keys()
    hold(read["index"] == values["index"] and read["public_admin"] is True, "a server knows who it is")
    hold("tls" in read or read.get("plain_http") is True, "plain HTTP is said aloud")
    sections = {"": {key: value for key, value in read.items() if not isinstance(value, dict) or key == "ledger"}}
    sections |= {key: value for key, value in read.items() if isinstance(value, dict) and key != "ledger"}
    sections |= {"tokens": token for token in read.pop("tokens", [])}
    sections[""].pop("tokens", None)
    if "peers" in sections:
        sections["peers.limits"] = sections["peers"].pop("limits", {})
    for section, keys in sections.items():
        if section == "shards" and section not in known:
            continue  # said at the end
        strange = set(keys) - known.get(section, set())
        hold(not strange, f"[{section}] {sorted(strange)} is not in docs/server.toml")
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))["properties"]
    hold(set(schema["limits"]["properties"]) == known["limits"], "the chart takes the limits that servers have")
    hold(set(schema["peers"]["properties"]["limits"]["properties"]) == known["peers.limits"], "and those of peers")
    for token in values.get("tokens", []):
        hold(token in config(objects)["tokens"], "tokens arrive as they were given")


PROPERTIES = [
    objects_fit_the_schemas_of_kubernetes,
    names_are_short_enough_for_labels_and_unique,
    containers_have_no_rights,
    what_is_mounted_is_there_and_only_the_ledger_is_written,
    secrets_come_from_secrets,
    probes_ask_the_admin_port,
    every_part_has_one_shard_and_every_front_knows_all,
    fronts_roll_without_a_gap_and_finish_what_they_began,
    each_kind_has_a_disruption_budget,
    policies_let_in_who_must_and_nobody_else,
    configurations_have_only_keys_that_servers_know,
]

# Values that must be refused, and what the refusal must name.
REFUSED = [
    (["shards.count=-1"], "shards.count"),
    (["shards.count=two"], "shards.count"),
    (["shards.cuont=2"], "cuont"),
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
    done = subprocess.run([program, "serve", "--config", folder / "server.toml", "--listen", "127.0.0.1:0"], capture_output=True, text=True, check=False)
    hold(done.returncode == 4 and re.search(r"/(keys|bundle|secrets|ledger)/.*No such file", done.stderr), f"the program says: {done.stderr}")
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
