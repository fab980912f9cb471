{{- define "prequential.config" -}}
{{- $v := .Values -}}
{{- if hasKey $v.config "kafka" }}{{ fail "config.kafka: expected these settings under the chart's own kafka" }}{{ end -}}
{{- $http := $v.config.http | default dict -}}
{{- range list "host" "port" "token" "tls_certificate" "tls_key" -}}
{{- if hasKey $http . }}{{ fail (printf "config.http.%s: the chart sets addresses (listen) and token (token.secret), and its probes speak HTTP" .) }}{{ end -}}
{{- end -}}
{{- $worker := $v.config.worker | default dict -}}
{{- range list "group" "instance_id" -}}
{{- if hasKey $worker . }}{{ fail (printf "config.worker.%s: the chart sets it (kafka.group, worker.staticMembership)" .) }}{{ end -}}
{{- end -}}
{{- $kafka := dict "bootstrap_servers" (include "prequential.bootstrap" .) "prefix" $v.kafka.prefix "partitions" (int $v.kafka.partitions) "replication" (int $v.kafka.replication) "security" (include "prequential.security" . | fromYaml) -}}
{{- with $v.kafka.schemaRegistry }}{{ $kafka = merge (dict "schema_registry" .) $kafka }}{{ end -}}
{{- $http = merge (dict "host" $v.listen) $http -}}
{{- if $v.token.secret }}{{ $http = merge (dict "token" "file:/run/secrets/http/token") $http }}{{ end -}}
{{- $worker = merge (dict "group" $v.kafka.group) $worker -}}
{{- if $v.worker.staticMembership }}{{ $worker = merge (dict "instance_id" "env:POD_NAME") $worker }}{{ end -}}
{{- $notify := $v.config.notify | default dict -}}
{{- range list "url" "secret" -}}
{{- if hasKey $notify . }}{{ fail (printf "config.notify.%s: the chart sets it (notify.webhook)" .) }}{{ end -}}
{{- end -}}
{{- if $v.notify.enabled -}}
{{- $notify = merge (dict "url" "file:/run/secrets/webhook/url") $notify -}}
{{- if $v.notify.webhook.signed }}{{ $notify = merge (dict "secret" "file:/run/secrets/webhook/secret") $notify }}{{ end -}}
{{- end -}}
{{- $made := dict "kafka" $kafka "http" $http "worker" $worker -}}
{{- with $notify }}{{ $made = merge (dict "notify" .) $made }}{{ end -}}
{{- toYaml (merge $made $v.config) -}}
{{- end -}}

{{- define "prequential.bootstrap" -}}
{{- if .Values.strimzi.enabled -}}
{{ .Values.strimzi.cluster }}-kafka-bootstrap:9093
{{- else -}}
{{ required "kafka.bootstrapServers is empty: expected host:port, or strimzi.enabled" .Values.kafka.bootstrapServers }}
{{- end -}}
{{- end -}}

{{- define "prequential.security" -}}
{{- if .Values.kafka.security -}}
{{ toYaml .Values.kafka.security }}
{{- else -}}
security.protocol: SASL_SSL
ssl.ca.location: /run/secrets/kafka/ca.crt
sasl.mechanism: SCRAM-SHA-512
sasl.username: "env:KAFKA_USERNAME"
sasl.password: "file:/run/secrets/kafka/password"
{{- end -}}
{{- end -}}

{{/* Who a component is to Kafka: (root, component). */}}
{{- define "prequential.username" -}}
{{- $root := index . 0 -}}
{{- if $root.Values.strimzi.enabled -}}
{{ include "prequential.name" . }}
{{- else -}}
{{ default $root.Values.kafka.username (get (get $root.Values (index . 1)) "username") }}
{{- end -}}
{{- end -}}

{{- define "prequential.kafkaVolume" -}}
{{- $root := index . 0 -}}
{{- if $root.Values.strimzi.enabled -}}
- name: kafka
  projected:
    defaultMode: 0440
    sources:
      # The cluster's certificate authority, and the password that the User Operator makes.
      - secret:
          name: {{ $root.Values.strimzi.cluster }}-cluster-ca-cert
          items: [{key: ca.crt, path: ca.crt}]
      - secret:
          name: {{ include "prequential.username" . }}
          items: [{key: password, path: password}]
{{- else }}
{{- with default $root.Values.kafka.secret (get (get $root.Values (index . 1)) "secret") -}}
- name: kafka
  secret: {secretName: {{ . }}, defaultMode: 0440}
{{- end }}
{{- end }}
{{- end -}}
