{{/* A release that is called fanfare, or whose name has it, gives its name to everything. */}}
{{- define "fanfare.name" -}}
{{- if contains "fanfare" .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-fanfare{{ end -}}
{{- end }}

{{/* Labels that select the pods of this release, and never change. */}}
{{- define "fanfare.selector" -}}
app.kubernetes.io/name: fanfare
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "fanfare.labels" -}}
{{ include "fanfare.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "fanfare.secret" -}}
{{- .Values.secret.existing | default (include "fanfare.name" .) }}
{{- end }}

{{- define "fanfare.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end -}}
{{- end -}}
{{- end }}

{{/* The first API key is a file if the Secret has one. */}}
{{- define "fanfare.adminKey" -}}
{{- with .Values.secret }}{{ if and (or .existing .adminKey) (not .noAdminKey) }}yes{{ end }}{{ end -}}
{{- end }}

{{- define "fanfare.apns" -}}
{{- with .Values.apns }}
{{- if or .keyID .teamID .key }}{{ if not (and .keyID .teamID) }}{{ fail "apns.keyID and apns.teamID are needed together" }}{{ end }}yes{{ end -}}
{{- end -}}
{{- end }}

{{/* With a certificate of its own fanfare speaks HTTPS alone, also to the probes. */}}
{{- define "fanfare.tls" -}}
{{- if get .Values.env "FANFARE_TLS_CERT_FILE" }}yes{{ end -}}
{{- range .Values.extraEnv }}{{ if eq .name "FANFARE_TLS_CERT_FILE" }}yes{{ end }}{{ end -}}
{{- end }}

{{/* Kubernetes mounts a whole Secret if no entry is named, so without files there is no volume. */}}
{{- define "fanfare.files" -}}
{{ include "fanfare.adminKey" . }}{{ include "fanfare.apns" . }}
{{- end }}
