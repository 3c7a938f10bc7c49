"""What is promised of the objects that the chart renders, one function a promise.

Every object must fit Kubernetes' own schemas, strictly, for the oldest release that the chart takes and for the newest that is known here;
the other promises are those that no schema knows. Each takes the objects and the values that they came from.
"""

import ipaddress
import json
import pathlib
import re
import tomllib

import kubernetes_validate

DEPLOY = pathlib.Path(__file__).resolve().parent
CHART = DEPLOY / "helm/ifonly"
REPOSITORY = DEPLOY.parent
OLDEST, NEWEST = "1.28.0", kubernetes_validate.latest_version()
SECRET = re.compile(r"PRIVATE KEY|://[^/\s]*:[^/\s]*@")


class Wrong(Exception):
    """What does not hold."""


def hold(condition, text):
    if not condition:
        raise Wrong(text)


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


def shards_bound_what_answers_take(objects, values):
    if not shards(values):
        return
    arguments, given = pod(component(objects, "shard"))["containers"][0]["args"], values["shards"]
    running = [f"--running={given['running']}"] if given.get("running") else []
    hold([one for one in arguments if one.startswith("--running")] == running, "as many answers at work as the values say")
    transit = f"--transit-megabytes={given.get('transitMegabytes', 1024)}"
    hold([one for one in arguments if one.startswith("--transit")] == [transit], "answers that wait have so much memory")


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
    if before:
        given = values["peers"]["next"]["address"]
        wanted = {int(address.rsplit(":", 1)[1]) for address in ([given] if isinstance(given, str) else given)}
        egress = [rule for policy in of_kind(objects, "NetworkPolicy") for rule in policy["spec"]["egress"]]
        after = [rule for rule in egress if {"ipBlock": {"cidr": "192.0.2.2/32"}} in rule["to"]]
        hold({port["port"] for rule in after for port in rule["ports"]} == wanted, "a front reaches every front of the server after")
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
    shards_bound_what_answers_take,
    fronts_roll_without_a_gap_and_finish_what_they_began,
    each_kind_has_a_disruption_budget,
    policies_let_in_who_must_and_nobody_else,
    configurations_have_only_keys_that_servers_know,
]
