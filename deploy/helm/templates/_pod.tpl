{{- define "lhb.labels" -}}
app.kubernetes.io/name: long-horizon-bandits
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* Who runs it: nobody special, with files of its own on /data and /tmp alone. */}}
{{- define "lhb.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false # they would be variables LHB_... of a release that is called so
terminationGracePeriodSeconds: 40
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: { type: RuntimeDefault }
volumes:
  - name: tmp
    emptyDir: { sizeLimit: 64Mi }
  - name: data
    {{- if .Values.databaseUrl }}
    emptyDir: { sizeLimit: 4Gi }
    {{- else }}
    persistentVolumeClaim: { claimName: {{ .Release.Name }}-data }
    {{- end }}
  {{- if .Values.passwordSecret }}
  - name: password
    secret: { secretName: {{ .Values.passwordSecret }} }
  {{- end }}
{{- end }}

{{- define "lhb.container" -}}
image: {{ .Values.image }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: { drop: [ALL] }
volumeMounts:
  - { name: tmp, mountPath: /tmp }
  - { name: data, mountPath: /data }
  {{- if .Values.passwordSecret }}
  - { name: password, mountPath: /run/secrets/lhb, readOnly: true }
  {{- end }}
env:
  {{- if .Values.databaseUrl }}
  - { name: LHB_DATABASE_URL, value: {{ .Values.databaseUrl | quote }} }
  - { name: LHB_SPOOL_FOLDER, value: /data }
  {{- end }}
  {{- if .Values.passwordSecret }}
  - { name: LHB_DATABASE_PASSWORD_FILE, value: /run/secrets/lhb/password }
  {{- end }}
  {{- range $name, $value := .Values.settings }}
  - { name: {{ $name }}, value: {{ $value | quote }} }
  {{- end }}
{{- end }}
