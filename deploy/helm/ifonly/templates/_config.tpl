{{/* server.toml of the frontends; docs/configuration.md explains every key. Strings are written
     as JSON, which is valid TOML. */}}
{{- define "ifonly.config" -}}
{{- $v := .Values -}}
{{- $host := $v.listenHost -}}
bundle = {{ include "ifonly.bundlePath" . | toJson }}
index = {{ int $v.index }}
keys = [{{ range $i, $file := $v.rootKeys.files }}{{ if $i }}, {{ end }}{{ printf "/keys/%s" $file | toJson }}{{ end }}]
listen = "{{ $host }}:8443"
admin = "{{ $host }}:9100"
# The admin port is on the pod network, where the network policy restricts access.
public_admin = true
{{- if $v.tls.plainHttp }}
plain_http = true
{{- end }}
{{- if eq $v.ledger.kind "file" }}
ledger = "/ledger/ledger"
{{- else if eq $v.ledger.kind "store" }}
ledger = { url_file = {{ printf "/secrets/ledger/%s" $v.ledger.store.key | toJson }}{{ with $v.ledger.store.caKey }}, ca = {{ printf "/secrets/ledger/%s" . | toJson }}{{ end }} }
{{- end }}
{{- if $v.tls.secret }}

[tls]
certificate = "/secrets/tls/tls.crt"
key = "/secrets/tls/tls.key"
{{- end }}
{{- if gt (int $v.shards.count) 0 }}

[shards]
addresses = [
{{- range include "ifonly.shardAddresses" . | fromJsonArray }}
    {{ toJson . }},
{{- end }}
]
certificate = {{ printf "/secrets/inside/%s" $v.shards.certificate.certificateFile | toJson }}
key = {{ printf "/secrets/inside/%s" $v.shards.certificate.keyFile | toJson }}
{{- end }}
{{- if $v.peers.enabled }}

[peers]
listen = "{{ $host }}:8444"
next = { address = {{ toJson $v.peers.next.address }}, certificate = "next.pem" }
previous = { certificate = "previous.pem" }
{{- with $v.peers.limits }}

[peers.limits]
{{- range $key, $value := . }}
{{ $key }} = {{ int64 $value }}
{{- end }}
{{- end }}
{{- end }}
{{- with $v.limits }}

[limits]
{{- range $key, $value := . }}
{{ $key }} = {{ int64 $value }}
{{- end }}
{{- end }}
{{- with $v.corsOrigins }}

[cors]
origins = {{ toJson . }}
{{- end }}
{{- range $v.tokens }}

[[tokens]]
name = {{ toJson .name }}
hash = {{ toJson .hash }}
{{- if .searches }}
searches = {{ int64 .searches }}
{{- end }}
{{- end }}
{{- end }}

{{- define "ifonly.bundlePath" -}}
/bundle/{{ .Values.bundle.path }}{{ if gt (int .Values.shards.count) 0 }}/frontend{{ end }}
{{- end }}
