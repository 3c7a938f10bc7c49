{{/* Names. The longest suffix, with a pod's number or a revision's hash, has 20 characters; a label has 63. */}}
{{- define "ifonly.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "ifonly.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{ include "ifonly.selector" . }}
{{- end }}

{{- define "ifonly.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "ifonly.image" -}}
{{- with .Values.image }}{{ if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}{{ end }}
{{- end }}

{{/* host:port of every shard, by the names that a StatefulSet's pods keep. */}}
{{- define "ifonly.shardAddresses" -}}
{{- $name := include "ifonly.name" . }}
{{- $addresses := list }}
{{- range $i := until (int .Values.shards.count) }}
{{- $addresses = append $addresses (printf "%s-shard-%d.%s-shards.%s.svc.%s:8445" $name $i $name $.Release.Namespace $.Values.clusterDomain) }}
{{- end }}
{{- toJson $addresses }}
{{- end }}

{{/* What values.schema.json cannot say: values that do not fit each other. */}}
{{- define "ifonly.check" -}}
{{- $v := .Values }}
{{- if and (not $v.tls.secret) (not $v.tls.plainHttp) }}{{ fail "tls.secret is missing: a Secret of type kubernetes.io/tls, or tls.plainHttp=true behind a TLS terminator of your own" }}{{ end }}
{{- if and (not $v.bundle.existingClaim) (not $v.bundle.fetch.image) }}{{ fail "the bundle is missing: give bundle.existingClaim, or bundle.fetch with an image and a command" }}{{ end }}
{{- if and $v.bundle.existingClaim $v.bundle.fetch.image }}{{ fail "bundle.existingClaim and bundle.fetch exclude each other" }}{{ end }}
{{- if and (gt (int $v.shards.count) 0) (not $v.shards.certificate.secret) }}{{ fail "shards.certificate.secret is missing: fronts and shards know each other by it; make the pair with `ifonly keygen --certificate inside.pem`" }}{{ end }}
{{- if and $v.shards.storage.enabled (not $v.bundle.fetch.image) }}{{ fail "shards.storage keeps what bundle.fetch brings; with bundle.existingClaim there is nothing to keep" }}{{ end }}
{{- $one := or $v.peers.enabled (eq $v.ledger.kind "file") }}
{{- if and $one (or $v.autoscaling.enabled (gt (int $v.front.replicas) 1)) }}{{ fail "peers.enabled and ledger.kind=file need front.replicas=1 and no autoscaling: each front has an address of its own for the server before, so several are several releases, and a file is one process's" }}{{ end }}
{{- if and (eq $v.ledger.kind "store") (not $v.ledger.store.secret) }}{{ fail "ledger.store.secret is missing: a Secret whose key ledger.store.key holds the store's URL" }}{{ end }}
{{- if and $v.networkPolicy.enabled (eq $v.ledger.kind "store") (not $v.ledger.store.to) }}{{ fail "ledger.store.to is missing: the network policy lets fronts reach nothing that is not named" }}{{ end }}
{{- if $v.peers.enabled }}
{{- if not $v.tls.secret }}{{ fail "peers.enabled needs tls.secret: servers know each other by their certificates" }}{{ end }}
{{- if or (not $v.peers.next.address) (not $v.peers.next.certificate) (not $v.peers.previous.certificate) }}{{ fail "peers.enabled needs peers.next.address, peers.next.certificate and peers.previous.certificate" }}{{ end }}
{{- if and $v.networkPolicy.enabled (or (not $v.peers.next.cidrs) (not $v.peers.previous.cidrs)) }}{{ fail "peers.next.cidrs and peers.previous.cidrs are missing: the network policy opens the peers' port to nobody else" }}{{ end }}
{{- end }}
{{- range $v.tokens }}{{ if and .sessions (eq $v.ledger.kind "none") (not $v.configSecret) }}{{ fail (printf "token %s has a budget, which needs ledger.kind file or store" .name) }}{{ end }}{{ end }}
{{- end }}

{{/* Pods: nothing of Kubernetes' own, no root, no writing. */}}
{{- define "ifonly.podSecurity" -}}
runAsNonRoot: true
runAsUser: {{ .Values.podSecurity.user }}
runAsGroup: {{ .Values.podSecurity.group }}
# Secrets and claims become readable for the group.
fsGroup: {{ .Values.podSecurity.group }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "ifonly.containerSecurity" -}}
runAsNonRoot: true
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
privileged: false
capabilities: {drop: [ALL]}
{{- end }}

{{/* The key files' init container: a Secret's volume gives them mode 0440 at best, and the program wants them to be its user's alone. */}}
{{- define "ifonly.keysContainer" -}}
- name: keys
  image: {{ include "ifonly.image" . | quote }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  command:
    - /usr/bin/install
    - -m
    - "0400"
    {{- range .Values.rootKeys.files }}
    - /secrets/root/{{ . }}
    {{- end }}
    - /keys/
  securityContext:
    {{- include "ifonly.containerSecurity" . | nindent 4 }}
  resources:
    requests: {cpu: 10m, memory: 16Mi}
    limits: {memory: 16Mi}
  volumeMounts:
    - {name: root-keys, mountPath: /secrets/root, readOnly: true}
    - {name: keys, mountPath: /keys}
{{- end }}

{{- define "ifonly.keysVolumes" -}}
- name: root-keys
  secret: {secretName: {{ .Values.rootKeys.secret | quote }}, defaultMode: 0400}
- name: keys
  # In memory: keys are never on a disk of the node.
  emptyDir: {medium: Memory, sizeLimit: 1Mi}
{{- end }}

{{/* The init container that brings the bundle; `part` is a pod's share of it. */}}
{{- define "ifonly.fetchContainer" -}}
{{- with .root.Values.bundle.fetch -}}
- name: fetch
  image: {{ .image | quote }}
  command: {{ toJson .command }}
  args: {{ toJson .args }}
  env:
    {{- if $.indexed }}
    {{- include "ifonly.indexVariable" $.root | nindent 4 }}
    {{- end }}
    - name: IFONLY_PART
      value: {{ $.part | quote }}
    {{- with .env }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .secrets }}
  envFrom:
    {{- range . }}
    - secretRef: {name: {{ . | quote }}}
    {{- end }}
  {{- end }}
  securityContext:
    {{- include "ifonly.containerSecurity" $.root | nindent 4 }}
  volumeMounts:
    - {name: bundle, mountPath: /bundle}
{{- end }}
{{- end }}

{{- define "ifonly.indexVariable" -}}
- name: POD_INDEX
  valueFrom:
    fieldRef: {fieldPath: "metadata.labels['apps.kubernetes.io/pod-index']"}
{{- end }}

{{/* Probes on the admin port; `seconds` is how long a start may take. */}}
{{- define "ifonly.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: admin}
  periodSeconds: 5
  failureThreshold: {{ div (add (int .seconds) 4) 5 }}
livenessProbe:
  httpGet: {path: /healthz, port: admin}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: admin}
  periodSeconds: 2
  timeoutSeconds: 2
  failureThreshold: 2
{{- end }}

{{/* Before SIGTERM, as long as balancers may still send somebody. */}}
{{- define "ifonly.lifecycle" -}}
{{- if semverCompare ">=1.30-0" .Capabilities.KubeVersion.Version }}
lifecycle:
  preStop:
    sleep: {seconds: 5}
{{- end }}
{{- end }}

{{/* On which nodes: one of a kind on each where there are enough, and what the values say. */}}
{{- define "ifonly.placement" -}}
{{- with .root.Values.spread }}
{{- if .enabled }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: {{ .topologyKey }}
    whenUnsatisfiable: {{ .whenUnsatisfiable }}
    labelSelector:
      matchLabels:
        {{- include "ifonly.selector" $.root | nindent 8 }}
        app.kubernetes.io/component: {{ $.component }}
{{- end }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
