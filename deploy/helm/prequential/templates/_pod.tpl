{{/*
A pod's template: root, component (its labels, name and section of the values), principal (whose credentials for
Kafka), args, port and probes (or none), restart, webhook (the Secret of one), claim (of the archive's volume).
*/}}
{{- define "prequential.pod" -}}
{{- $root := .root -}}
{{- $own := .values -}}
{{- $kafka := include "prequential.kafkaVolume" (list $root .principal) -}}
metadata:
  labels:
    {{- include "prequential.selector" (list $root .component) | nindent 4 }}
    {{- with $own.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    # Another configuration: other pods.
    checksum/config: {{ include "prequential.config" $root | sha256sum }}
    {{- with $own.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ $own.serviceAccountName | default (include "prequential.fullname" $root) }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  {{- with .restart }}
  restartPolicy: {{ . }}
  {{- end }}
  # What is told to stop publishes what is left and ends itself after worker.stop_within (10 s) at the latest.
  terminationGracePeriodSeconds: 30
  {{- with $root.Values.image.pullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $own.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with $own.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $own.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $own.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if .spread }}
  # The loss of a node is then the loss of one of them.
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "prequential.selector" (list $root .component) | nindent 10 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 10001
    fsGroup: 10001
    {{- if .claim }}
    # Not each file of a large volume at each start.
    fsGroupChangePolicy: OnRootMismatch
    {{- end }}
    seccompProfile: {type: RuntimeDefault}
  containers:
    - name: {{ .component }}
      image: {{ include "prequential.image" $root }}
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      args: {{ toJson .args }}
      env:
        - name: POD_NAME
          valueFrom: {fieldRef: {fieldPath: metadata.name}}
        - {name: KAFKA_USERNAME, value: {{ include "prequential.username" (list $root .principal) | quote }}}
        {{- with $own.env }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with .port }}
      ports:
        - {name: http, containerPort: {{ . }}}
      {{- end }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      resources:
        {{- toYaml $own.resources | nindent 8 }}
      {{- with .probes }}
      {{- . | nindent 6 }}
      {{- end }}
      volumeMounts:
        - {name: configuration, mountPath: /etc/prequential, readOnly: true}
        - {name: tmp, mountPath: /tmp}
        {{- if $kafka }}
        - {name: kafka, mountPath: /run/secrets/kafka, readOnly: true}
        {{- end }}
        {{- if $root.Values.token.secret }}
        - {name: http, mountPath: /run/secrets/http, readOnly: true}
        {{- end }}
        {{- if .claim }}
        - {name: archive, mountPath: /var/lib/prequential/archive}
        {{- end }}
        {{- if .webhook }}
        - {name: webhook, mountPath: /run/secrets/webhook, readOnly: true}
        {{- end }}
  volumes:
    - name: configuration
      configMap: {name: {{ include "prequential.fullname" $root }}}
    - name: tmp
      emptyDir: {medium: Memory, sizeLimit: 64Mi}
    {{- with $kafka }}
    {{- . | nindent 4 }}
    {{- end }}
    {{- with $root.Values.token.secret }}
    - name: http
      secret: {secretName: {{ . }}, defaultMode: 0440, items: [{key: {{ $root.Values.token.key }}, path: token}]}
    {{- end }}
    {{- with .claim }}
    - name: archive
      persistentVolumeClaim: {claimName: {{ . }}}
    {{- end }}
    {{- with .webhook }}
    - name: webhook
      secret: {secretName: {{ . }}, defaultMode: 0440}
    {{- end }}
{{- end -}}

{{- define "prequential.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ default $.Chart.AppVersion .tag }}{{ end -}}
{{- end -}}
{{- end -}}

{{/* What workers, ingest, notify and the archiver answer. */}}
{{- define "prequential.probes" -}}
# It serves HTTP once Kafka has answered.
startupProbe:
  httpGet: {path: /live, port: http}
  periodSeconds: 2
  timeoutSeconds: 6
  failureThreshold: 60
# Not alive: its loop hasn't answered for 5 s, several times.
livenessProbe:
  httpGet: {path: /live, port: http}
  periodSeconds: 15
  timeoutSeconds: 6
  failureThreshold: 4
# Ready: all that it has been given runs. A rollout waits for that.
readinessProbe:
  httpGet: {path: /ready, port: http}
  periodSeconds: 3
  timeoutSeconds: 6
{{- end -}}

{{/* A Job of one pod: root, component, pod (its template). What a Job runs can't be changed: another is another Job. */}}
{{- define "prequential.job" -}}
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ include "prequential.name" (list .root .component) }}-{{ .pod | sha256sum | trunc 8 }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "prequential.labels" (list .root .component) | nindent 4 }}
spec:
  backoffLimit: 10
  {{- with .ttl }}
  ttlSecondsAfterFinished: {{ . }}
  {{- end }}
  template:
    {{- .pod | nindent 4 }}
{{- end -}}
