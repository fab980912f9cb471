{{- define "prequential.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Whether any stream has `key: instance`: partitions tell each other what they know then. */}}
{{- define "prequential.wide" -}}
{{- range $name, $stream := .Values.config.streams }}
{{- if eq ((default dict $stream).key | default "stream") "instance" }}true{{ end }}
{{- end }}
{{- end -}}

{{/* Whether any stream has `disparity`, which has a topic then. */}}
{{- define "prequential.disparity" -}}
{{- if (default dict .Values.config.defaults).disparity }}true{{ end }}
{{- range $name, $stream := .Values.config.streams }}
{{- if (default dict $stream).disparity }}true{{ end }}
{{- end }}
{{- end -}}

{{/* Of a component; of workers and what is of all it is the release's own name. */}}
{{- define "prequential.name" -}}
{{- $full := include "prequential.fullname" (index . 0) -}}
{{- if eq (index . 1) "worker" }}{{ $full }}{{ else }}{{ $full }}-{{ index . 1 }}{{ end -}}
{{- end -}}

{{- define "prequential.selector" -}}
app.kubernetes.io/name: {{ default (index . 0).Chart.Name (index . 0).Values.nameOverride }}
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
{{- with index . 1 }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end -}}

{{- define "prequential.labels" -}}
{{ include "prequential.selector" . }}
app.kubernetes.io/version: {{ (index . 0).Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ (index . 0).Release.Service }}
helm.sh/chart: {{ (index . 0).Chart.Name }}-{{ (index . 0).Chart.Version }}
{{- end -}}

{{/* Metadata of a component's object: (root, component, suffix of its name). */}}
{{- define "prequential.metadata" -}}
{{- $root := index . 0 -}}
name: {{ include "prequential.name" (list $root (index . 1 | default "worker")) }}
namespace: {{ $root.Release.Namespace }}
labels:
  {{- include "prequential.labels" (list $root (index . 1)) | nindent 2 }}
{{- end -}}
