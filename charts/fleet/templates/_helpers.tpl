{{/* An image below the default registry: (list root image). */}}
{{- define "fleet.image" -}}
{{- $root := index . 0 -}}{{- $image := index . 1 -}}
{{- include "fleet.registry" $root -}}{{- $image.repository }}:{{ $image.tag | default $root.Chart.AppVersion -}}
{{- end -}}

{{/* The default registry with a slash at its end; empty if there is none. */}}
{{- define "fleet.registry" -}}
{{- with ((.Values.global).cattle).systemDefaultRegistry }}{{ trimSuffix "/" . }}/{{ end -}}
{{- end -}}

{{/* The release of the controllers: what a running one compares with its own. */}}
{{- define "fleet.version" -}}
{{- .Values.image.tag | default .Chart.AppVersion -}}
{{- end -}}

{{/*
The controllers' configuration. Its keys are those of config.Config; a key that is left out is the
controllers' own default.
*/}}
{{- define "fleet.config" -}}
{{- $bootstrap := .Values.bootstrap -}}
{{- $config := dict
  "systemDefaultRegistry" (include "fleet.registry" .)
  "agentImage" (include "fleet.image" (list . .Values.agentImage))
  "agentImagePullPolicy" (.Values.agentImage.imagePullPolicy | default "")
  "agentCheckinInterval" (.Values.agentCheckinInterval | toString)
  "agentTLSMode" .Values.agentTLSMode
  "agentWorkers" (dict
    "bundledeployment" (.Values.agent.reconciler.workers.bundledeployment | toString)
    "drift" (.Values.agent.reconciler.workers.drift | toString))
  "apiServerURL" .Values.apiServerURL
  "apiServerCA" (.Values.apiServerCA | default "" | b64enc)
  "ignoreClusterRegistrationLabels" .Values.ignoreClusterRegistrationLabels
  "bootstrap" (dict
    "namespace" $bootstrap.namespace
    "agentNamespace" $bootstrap.agentNamespace
    "localAgentDisabled" $bootstrap.localAgentDisabled
    "clusterLabels" ($bootstrap.clusterLabels | default dict)
    "repo" $bootstrap.repo
    "secret" $bootstrap.secret
    "branch" $bootstrap.branch
    "paths" $bootstrap.paths)
-}}
{{- with .Values.garbageCollectionInterval }}{{ $_ := set $config "garbageCollectionInterval" (toString .) }}{{ end -}}
{{- with ((.Values.global).cattle).imagePullSecrets }}{{ $_ := set $config "imagePullSecrets" . }}{{ end -}}
{{- toPrettyJson $config -}}
{{- end -}}
