{{/* The alert rules, as `rules` and `runbookBaseUrl` of the values change them. */}}
{{- define "prequential.rules" -}}
{{- $rules := .Values.rules -}}
{{- $groups := (.Files.Get "files/rules.yaml" | fromYaml).groups -}}
{{- $known := list -}}
{{- range $groups }}{{ range .rules }}{{ with .alert }}{{ $known = append $known . }}{{ end }}{{ end }}{{ end -}}
{{- range concat $rules.disabled (keys $rules.overrides) -}}
{{- if not (has . $known) }}{{ fail (printf "rules: there is no alert %q; known: %s" . (sortAlpha $known | join ", ")) }}{{ end -}}
{{- end -}}
{{- $kept := list -}}
{{- range $group := $groups -}}
{{- $own := list -}}
{{- range $rule := $group.rules -}}
{{- if not $rule.alert -}}
{{- $own = append $own $rule -}}
{{- else if not (has $rule.alert $rules.disabled) -}}
{{- $rule = mergeOverwrite $rule (dict "labels" (deepCopy $rules.labels)) (get $rules.overrides $rule.alert | default dict | deepCopy) -}}
{{- if $.Values.runbookBaseUrl -}}
{{- $base := printf "%s/" (trimSuffix "/" $.Values.runbookBaseUrl) -}}
{{- $_ := set $rule.annotations "runbook_url" (printf "%sdocs/reference/alerts.md#%s" $base (lower $rule.alert)) -}}
{{- end -}}
{{- $own = append $own $rule -}}
{{- end -}}
{{- end -}}
{{- if $own }}{{ $kept = append $kept (set $group "rules" $own) }}{{ end -}}
{{- end -}}
{{- toYaml (dict "groups" $kept) -}}
{{- end -}}
