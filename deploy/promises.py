"""Properties that the objects rendered by the chart must have, one function per property.

Every object must be valid under the schemas of Kubernetes, strictly, for the oldest release that
the chart supports and for the newest release that the validator knows. The other properties are
those that no schema expresses. Each function takes the rendered objects and the values that they
were rendered from.
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


class CheckError(Exception):
    """A requirement that is not met."""


def require(condition, text):
    if not condition:
        raise CheckError(text)


# Access to the rendered objects.


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


# Properties.


def objects_are_valid_under_the_schemas_of_kubernetes(objects, _values):
    for thing in objects:
        if thing["apiVersion"] == "monitoring.coreos.com/v1":  # not part of Kubernetes
            selected = thing["spec"]["selector"]["matchLabels"] and thing["spec"]["endpoints"]
            require(selected, "a ServiceMonitor must select pods and endpoints")
            continue
        for version in (OLDEST, NEWEST):
            if version == OLDEST and "preStop" in json.dumps(thing):
                continue  # rendered for the newest release
            try:
                kubernetes_validate.validate(thing, version, strict=True)
            except kubernetes_validate.ValidationError as error:
                raise CheckError(f"{thing['kind']} {thing['metadata']['name']}, Kubernetes {version}: {error.message}") from error


def names_are_short_enough_for_labels_and_unique(objects, values):
    seen = [(thing["kind"], thing["metadata"]["name"]) for thing in objects]
    require(len(set(seen)) == len(seen), f"two objects have the same name: {seen}")
    for thing in objects:
        name = thing["metadata"]["name"]
        # Kubernetes appends the number of a pod, or the hash of a revision.
        room = 11 if thing["kind"] in ("StatefulSet", "Deployment") else 0
        require(len(name) + room <= 63, f"{name} is too long")
    numbered = [f"{component(objects, 'shard')['metadata']['name']}-{shards(values) - 1}"] if shards(values) else []
    require(all(len(name) <= 63 for name in numbered), f"{numbered} is too long")


def containers_run_without_privileges(objects, _values):
    for workload in workloads(objects):
        security = pod(workload)["securityContext"]
        require(security["runAsNonRoot"] and security["runAsUser"] > 0 and security["runAsGroup"] > 0, "pods must not run as root")
        require(security["seccompProfile"] == {"type": "RuntimeDefault"}, "pods must use the default seccomp profile")
        require(pod(workload)["automountServiceAccountToken"] is False, "pods must not mount a service account token")
        require(not any(pod(workload).get(key) for key in ("hostNetwork", "hostPID", "hostIPC")), "pods must not share namespaces of the host")
        require(not any("hostPath" in volume for volume in pod(workload)["volumes"]), "pods must not mount paths of the host")
        for container in containers(workload):
            rights, name = container["securityContext"], container["name"]
            require(rights["readOnlyRootFilesystem"] is True, f"{name} can write to its root file system")
            require(rights["allowPrivilegeEscalation"] is False and rights["privileged"] is False, f"{name} can gain privileges")
            require(rights["capabilities"] == {"drop": ["ALL"]}, f"{name} has capabilities")
            require(rights["runAsNonRoot"] is True and rights.get("runAsUser") != 0, f"{name} can run as root")
    accounts = of_kind(objects, "ServiceAccount")
    without_token = all(account["automountServiceAccountToken"] is False for account in accounts)
    require(without_token, "service accounts must not mount tokens")


def mounted_volumes_exist_and_only_the_ledger_is_writable(objects, _values):
    for workload in workloads(objects):
        claims = [claim["metadata"]["name"] for claim in workload["spec"].get("volumeClaimTemplates", [])]
        volumes = [volume["name"] for volume in pod(workload)["volumes"]] + claims
        require(len(set(volumes)) == len(volumes), f"two volumes have the same name: {volumes}")
        for container in containers(workload):
            for mount in container.get("volumeMounts", []):
                require(mount["name"] in volumes, f"{container['name']} mounts {mount['name']}, which is not defined")
        for mount in pod(workload)["containers"][0]["volumeMounts"]:
            require(mount.get("readOnly") or mount["mountPath"] == "/ledger", f"{mount['mountPath']} is writable")


def secrets_come_from_secret_objects(objects, values):
    require(not of_kind(objects, "Secret"), "the chart must not create Secrets")
    require(not SECRET.search(json.dumps(objects)), "an object contains a secret")
    for workload in workloads(objects):
        keys = [volume for volume in pod(workload)["volumes"] if volume["name"] == "keys"]
        require(keys and keys[0]["emptyDir"]["medium"] == "Memory", "root keys must be copied to memory")
        copied = [container for container in pod(workload)["initContainers"] if container["name"] == "keys"][0]
        require(copied["command"][:3] == ["/usr/bin/install", "-m", "0400"], "root keys must be readable only for their user")
        files = values["rootKeys"].get("files", ["root.key"])
        require(copied["command"][3:] == [*(f"/secrets/root/{file}" for file in files), "/keys/"], "all root keys must be copied")


def probes_use_the_admin_port(objects, _values):
    for workload in workloads(objects):
        container = pod(workload)["containers"][0]
        for probe, path in (("startupProbe", "/healthz"), ("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
            require(container.get(probe, {}).get("httpGet") == {"path": path, "port": "admin"}, f"{container['name']}: wrong {probe}")
        require({"name": "admin", "containerPort": 9100} in container["ports"], "the admin port must be named")
        start = container["startupProbe"]
        require(start["periodSeconds"] * start["failureThreshold"] >= 600, "a start must be allowed to take ten minutes")
        require(container["resources"]["requests"]["memory"] and container["resources"]["limits"]["memory"], "memory must have a request and a limit")


def every_part_has_one_shard_and_frontends_list_all_shards(objects, values):
    workload, count = component(objects, "shard"), shards(values)
    listed = config(objects).get("shards", {}).get("addresses", [])
    if not count:
        require(workload is None and not listed, "without shards the chart must not render or list any")
        return
    require(workload["spec"]["replicas"] == count, "there must be as many pods as parts")
    require(workload["spec"]["podManagementPolicy"] == "Parallel", "shards must start in parallel")
    container = pod(workload)["containers"][0]
    variable = [entry for entry in container["env"] if entry["name"] == "POD_INDEX"]
    label = "metadata.labels['apps.kubernetes.io/pod-index']"
    require(variable and variable[0]["valueFrom"]["fieldRef"]["fieldPath"] == label, "a pod must know its number")
    arguments = container["args"]
    require(arguments[:2] == ["shard", f"/bundle/{values['bundle']['path']}/part-$(POD_INDEX)"], "pod i must serve part i")
    service = [thing for thing in of_kind(objects, "Service") if thing["metadata"]["name"] == workload["spec"]["serviceName"]]
    require(service and service[0]["spec"]["clusterIP"] == "None", "pods of the StatefulSet must have names")
    name, domain = workload["metadata"]["name"], f"{workload['spec']['serviceName']}.place.svc.cluster.local:8445"
    require(listed == [f"{name}-{i}.{domain}" for i in range(count)], "frontends must list each shard by its name")
    require(config(objects)["bundle"].endswith("/frontend"), "frontends must use the part without rows")
    keys = [argument.removeprefix("--key=") for argument in arguments if argument.startswith("--key=")]
    require(keys == config(objects)["keys"], "shards and frontends must have the same root keys")
    inside = [config(objects)["shards"][key] for key in ("certificate", "key")]
    require([f"--cert={inside[0]}", f"--cert-key={inside[1]}"] == [one for one in arguments if one.startswith("--cert")], "shards and frontends must use the same certificate")


def shards_limit_the_memory_of_responses(objects, values):
    if not shards(values):
        return
    arguments, given = pod(component(objects, "shard"))["containers"][0]["args"], values["shards"]
    concurrent = [f"--max-concurrent={given['maxConcurrent']}"] if given.get("maxConcurrent") else []
    found = [one for one in arguments if one.startswith("--max-concurrent")]
    require(found == concurrent, "shards must limit concurrent requests as the values say")
    buffer = f"--buffer-megabytes={given.get('bufferMegabytes', 1024)}"
    found = [one for one in arguments if one.startswith("--buffer")]
    require(found == [buffer], "shards must limit buffered responses as the values say")


def frontends_are_replaced_without_interruption_and_finish_requests(objects, values):
    frontend = component(objects, "frontend")
    alone = values.get("peers", {}).get("enabled") or values.get("ledger", {}).get("kind") == "file"
    if alone:
        require(frontend["spec"]["strategy"] == {"type": "Recreate"} and frontend["spec"]["replicas"] == 1, "there must be one frontend at a time")
    else:
        require(frontend["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0, "a frontend must stop only after its replacement is ready")
    pause = pod(frontend)["containers"][0].get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
    shutdown = values.get("limits", {}).get("shutdown_seconds", 30)
    require(pod(frontend)["terminationGracePeriodSeconds"] > pause + shutdown, "running requests must have time to finish")
    require("checksum/config" in frontend["spec"]["template"]["metadata"]["annotations"], "a changed configuration must replace the pods")
    scaled = of_kind(objects, "HorizontalPodAutoscaler")
    require(bool(scaled) != ("replicas" in frontend["spec"]), "either the autoscaler or the chart must set the number of frontends")
    for scaler in scaled:
        require(scaler["spec"]["scaleTargetRef"]["name"] == frontend["metadata"]["name"], "the autoscaler must scale the frontends")


def matches(selector, labels):
    return all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items())


def each_kind_has_a_disruption_budget(objects, _values):
    for workload in workloads(objects):
        labels = workload["spec"]["template"]["metadata"]["labels"]
        require(matches(workload["spec"]["selector"], labels), "a workload must select its pods")
        budgets = [budget for budget in of_kind(objects, "PodDisruptionBudget") if matches(budget["spec"]["selector"], labels)]
        require(len(budgets) == 1 and budgets[0]["spec"]["maxUnavailable"] == 1, f"{labels} must have one disruption budget")
        spread = pod(workload)["topologySpreadConstraints"][0]["labelSelector"]
        require(matches(spread, labels), "pods of a kind must be spread over nodes")


def allows(objects, target, source, port):
    """Whether the policies allow `source` to reach a named port of the pods with labels `target`.

    `source` is {"labels", "namespace"} or {"address"}.
    """

    def matches_source(peer):
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
    return not policies or any(fits(rule) and ("from" not in rule or any(map(matches_source, rule["from"]))) for rule in rules)


def policies_allow_exactly_the_required_connections(objects, values):
    frontend = component(objects, "frontend")["spec"]["template"]["metadata"]["labels"]
    shard = {**frontend, "app.kubernetes.io/component": "shard"}
    other = {"app.kubernetes.io/name": "ifonly", "app.kubernetes.io/instance": "other", "app.kubernetes.io/component": "frontend"}
    sources = {
        "a frontend": {"labels": frontend, "namespace": "place"},
        "a shard": {"labels": shard, "namespace": "place"},
        "a frontend of another release": {"labels": other, "namespace": "place"},
        "a frontend in another namespace": {"labels": frontend, "namespace": "elsewhere"},
        "Prometheus": {"labels": {"app": "prometheus"}, "namespace": "monitoring"},
        "the previous server": {"address": "192.0.2.3"},
        "the next server": {"address": "192.0.2.2"},
        "a client": {"address": "198.51.100.7"},
    }
    monitors = {"Prometheus"} if values.get("monitoring", {}).get("enabled") else set()
    previous = {"the previous server"} if values.get("peers", {}).get("enabled") else set()
    ports = {(0, "clients"): set(sources), (0, "peers"): previous, (0, "admin"): monitors}
    if shards(values):
        ports |= {(1, "shard"): {"a frontend"}, (1, "admin"): monitors}
    for (which, port), expected in ports.items():
        target = (frontend, shard)[which]
        allowed = {name for name, source in sources.items() if allows(objects, target, source, port)}
        name = ("frontends", "shards")[which]
        require(allowed == expected, f"port {port} of {name} is open to {sorted(allowed)} instead of {sorted(expected)}")
    for policy in of_kind(objects, "NetworkPolicy"):
        require("Egress" in policy["spec"]["policyTypes"], "a policy must restrict egress too")
        require(all(rule.get("to") and rule.get("ports") for rule in policy["spec"]["egress"]), "egress rules must name destinations and ports")
    if previous:
        given = values["peers"]["next"]["address"]
        wanted = {int(address.rsplit(":", 1)[1]) for address in ([given] if isinstance(given, str) else given)}
        egress = [rule for policy in of_kind(objects, "NetworkPolicy") for rule in policy["spec"]["egress"]]
        after = [rule for rule in egress if {"ipBlock": {"cidr": "192.0.2.2/32"}} in rule["to"]]
        require({port["port"] for rule in after for port in rule["ports"]} == wanted, "a frontend must reach every frontend of the next server")
    for service in of_kind(objects, "Service"):
        exposed = {port["targetPort"] for port in service["spec"]["ports"]}
        inside = service["spec"].get("clusterIP") == "None"
        require(inside or exposed <= {"clients", "peers"}, f"{service['metadata']['name']} exposes {exposed}")


def documented_keys():
    """Section → keys in docs/server.toml, commented out or not."""
    found, section = {}, ""
    for line in (REPOSITORY / "docs/server.toml").read_text(encoding="utf-8").splitlines():
        line = line.lstrip("# ")
        if heading := re.fullmatch(r"\[+([a-z.]+)\]+", line):
            section = heading[1]
        elif key := re.match(r"([a-z_]+) = ", line):
            found.setdefault(section, set()).add(key[1])
    return found


def configurations_have_only_documented_keys(objects, values):
    read, known = config(objects), documented_keys()
    require(read["index"] == values["index"] and read["public_admin"] is True, "the configuration must have the index and public_admin")
    require("tls" in read or read.get("plain_http") is True, "plain HTTP must be explicit")
    sections = {"": {key: value for key, value in read.items() if not isinstance(value, dict) or key == "ledger"}}
    sections |= {key: value for key, value in read.items() if isinstance(value, dict) and key != "ledger"}
    sections |= {"tokens": token for token in read.pop("tokens", [])}
    sections[""].pop("tokens", None)
    if "peers" in sections:
        sections["peers.limits"] = sections["peers"].pop("limits", {})
    for section, keys in sections.items():
        if section == "shards" and section not in known:
            continue  # reported at the end
        unknown = set(keys) - known.get(section, set())
        require(not unknown, f"[{section}] {sorted(unknown)} is not in docs/server.toml")
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))["properties"]
    require(set(schema["limits"]["properties"]) == known["limits"], "the chart must accept the limits of docs/server.toml")
    require(set(schema["peers"]["properties"]["limits"]["properties"]) == known["peers.limits"], "the chart must accept the peer limits of docs/server.toml")
    for token in values.get("tokens", []):
        require(token in config(objects)["tokens"], "the configuration must contain the given tokens")


PROPERTIES = [
    objects_are_valid_under_the_schemas_of_kubernetes,
    names_are_short_enough_for_labels_and_unique,
    containers_run_without_privileges,
    mounted_volumes_exist_and_only_the_ledger_is_writable,
    secrets_come_from_secret_objects,
    probes_use_the_admin_port,
    every_part_has_one_shard_and_frontends_list_all_shards,
    shards_limit_the_memory_of_responses,
    frontends_are_replaced_without_interruption_and_finish_requests,
    each_kind_has_a_disruption_budget,
    policies_allow_exactly_the_required_connections,
    configurations_have_only_documented_keys,
]
