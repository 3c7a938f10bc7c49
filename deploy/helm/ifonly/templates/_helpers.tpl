{{/* Names. A label has at most 63 characters. The longest suffix, with the number of a pod or the
     hash of a revision, has 20. */}}
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

{{/* host:port of every shard. Pods of a StatefulSet keep their names. */}}
{{- define "ifonly.shardAddresses" -}}
{{- $name := include "ifonly.name" . }}
{{- $addresses := list }}
{{- range $i := until (int .Values.shards.count) }}
{{- $addresses = append $addresses (printf "%s-shard-%d.%s-shards.%s.svc.%s:8445" $name $i $name $.Release.Namespace $.Values.clusterDomain) }}
{{- end }}
{{- toJson $addresses }}
{{- end }}

{{/* Checks that values.schema.json cannot express: values that contradict each other. */}}
{{- define "ifonly.check" -}}
{{- $v := .Values }}
{{- if and (not $v.tls.secret) (not $v.tls.plainHttp) }}{{ fail "tls.secret is missing: name a Secret of type kubernetes.io/tls, or set tls.plainHttp=true behind your own TLS terminator" }}{{ end }}
{{- if and (not $v.bundle.existingClaim) (not $v.bundle.fetch.image) }}{{ fail "the bundle is missing: set bundle.existingClaim, or bundle.fetch with an image and a command" }}{{ end }}
{{- if and $v.bundle.existingClaim $v.bundle.fetch.image }}{{ fail "bundle.existingClaim and bundle.fetch cannot be used together" }}{{ end }}
{{- if and (gt (int $v.shards.count) 0) (not $v.shards.certificate.secret) }}{{ fail "shards.certificate.secret is missing: frontends and shards authenticate each other with this certificate; create it with `ifonly keygen --shard-certificate inside.pem`" }}{{ end }}
{{- if and $v.shards.storage.enabled (not $v.bundle.fetch.image) }}{{ fail "shards.storage stores what bundle.fetch copies; it has no use with bundle.existingClaim" }}{{ end }}
{{- $one := or $v.peers.enabled (eq $v.ledger.kind "file") }}
{{- if and $one (or $v.autoscaling.enabled (gt (int $v.frontend.replicas) 1)) }}{{ fail "peers.enabled and ledger.kind=file need frontend.replicas=1 and no autoscaling: the previous server connects to each frontend by its own address, so install one release per frontend; and only one pod can use a ledger file" }}{{ end }}
{{- if and (eq $v.ledger.kind "store") (not $v.ledger.store.secret) }}{{ fail "ledger.store.secret is missing: name a Secret whose key ledger.store.key contains the URL of the store" }}{{ end }}
{{- if and $v.networkPolicy.enabled (eq $v.ledger.kind "store") (not $v.ledger.store.to) }}{{ fail "ledger.store.to is missing: the network policy allows frontends to connect only to named destinations" }}{{ end }}
{{- if $v.peers.enabled }}
{{- if not $v.tls.secret }}{{ fail "peers.enabled needs tls.secret: servers authenticate each other by their certificates" }}{{ end }}
{{- if or (not $v.peers.next.address) (not $v.peers.next.certificate) (not $v.peers.previous.certificate) }}{{ fail "peers.enabled needs peers.next.address, peers.next.certificate and peers.previous.certificate" }}{{ end }}
{{- if and $v.networkPolicy.enabled (or (not $v.peers.next.cidrs) (not $v.peers.previous.cidrs)) }}{{ fail "peers.next.cidrs and peers.previous.cidrs are missing: the network policy allows only these addresses on the peer port" }}{{ end }}
{{- end }}
{{- range $v.tokens }}{{ if and .searches (eq $v.ledger.kind "none") (not $v.configSecret) }}{{ fail (printf "token %s has a budget, which needs ledger.kind file or store" .name) }}{{ end }}{{ end }}
{{- end }}

{{/* Pods run as a user without rights. */}}
{{- define "ifonly.podSecurity" -}}
runAsNonRoot: true
runAsUser: {{ .Values.podSecurity.user }}
runAsGroup: {{ .Values.podSecurity.group }}
# The group can read Secrets and claims.
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

{{/* Init container for the key files. In the volume of a Secret their mode is 0440 or wider, and
     the program refuses key files that other users than its own can read. */}}
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
  # In memory, so that keys are never written to a disk of the node.
  emptyDir: {medium: Memory, sizeLimit: 1Mi}
{{- end }}

{{/* Init container that fetches the bundle; `part` is the part of the pod. */}}
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

{{/* Probes on the admin port; `seconds` is the maximum duration of a start. */}}
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

{{/* Delay before SIGTERM, while load balancers may still open connections. */}}
{{- define "ifonly.lifecycle" -}}
{{- if semverCompare ">=1.30-0" .Capabilities.KubeVersion.Version }}
lifecycle:
  preStop:
    sleep: {seconds: 5}
{{- end }}
{{- end }}

{{/* Choice of nodes: pods of a kind are spread over the nodes, beside the given values. */}}
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
