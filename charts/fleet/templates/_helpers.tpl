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
  "gitClientTimeout" (.Values.gitClientTimeout | toString)
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

{{/*
The environment: the chart's own variables, then the given ones. A variable that is named twice is only kept
where it is named last, which is the value the process would see: servers refuse to apply lists with two
entries of one name.
*/}}
{{- define "fleet.env" -}}
{{- $all := concat (include "fleet.ownEnv" . | fromYamlArray) (.Values.extraEnv | default list) -}}
{{- $last := dict -}}
{{- range $index, $variable := $all }}{{ $_ := set $last $variable.name $index }}{{ end -}}
{{- range $index, $variable := $all -}}
{{- if eq $index (get $last $variable.name) }}
- {{ toYaml $variable | nindent 2 | trim }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "fleet.ownEnv" -}}
- name: NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
- name: CATTLE_ELECTION_LEASE_DURATION
  value: {{ .Values.leaderElection.leaseDuration | toString | quote }}
- name: CATTLE_ELECTION_RETRY_PERIOD
  value: {{ .Values.leaderElection.retryPeriod | toString | quote }}
- name: CATTLE_ELECTION_RENEW_DEADLINE
  value: {{ .Values.leaderElection.renewDeadline | toString | quote }}
- name: FLEET_REGISTRATION_TOKEN_TTL_REQUIRED
  value: {{ .Values.controller.registrationTokenTTL.required | quote }}
- name: FLEET_ALLOW_INSECURE_KUBECONFIGS
  value: {{ .Values.controller.allowInsecureKubeconfigs | quote }}
- name: FLEET_AGENT_REPLICA_COUNT
  value: {{ int .Values.agent.replicas | quote }}
- name: FLEET_AGENT_ELECTION_LEASE_DURATION
  value: {{ .Values.agent.leaderElection.leaseDuration | toString | quote }}
- name: FLEET_AGENT_ELECTION_RETRY_PERIOD
  value: {{ .Values.agent.leaderElection.retryPeriod | toString | quote }}
- name: FLEET_AGENT_ELECTION_RENEW_DEADLINE
  value: {{ .Values.agent.leaderElection.renewDeadline | toString | quote }}
- name: FLEET_PROPAGATE_DEBUG_SETTINGS_TO_AGENTS
  value: {{ .Values.propagateDebugSettingsToAgents | quote }}
- name: FLEET_DEBUG_DISABLE_SECURITY_CONTEXT
  value: {{ .Values.disableSecurityContext | quote }}
{{- with .Values.proxy }}
- name: HTTP_PROXY
  value: {{ . | quote }}
- name: HTTPS_PROXY
  value: {{ . | quote }}
- name: NO_PROXY
  value: {{ $.Values.noProxy | quote }}
{{- end }}
{{- if .Values.proxyCACert }}
# Where Go looks for the system's certificates.
- name: SSL_CERT_DIR
  value: /etc/ssl/certs:/etc/fleet/proxy-ca
{{- end }}
{{- end -}}

{{/*
The resources of the container: its own where the key is there, even if empty; else what is said for all; else a
little, since a pod that asks for nothing is the first to be evicted.
*/}}
{{- define "fleet.resources" -}}
{{- if hasKey .Values.resources "fleetController" -}}
{{- .Values.resources.fleetController | default dict | toYaml -}}
{{- else -}}
{{- $all := pick .Values.resources "limits" "requests" -}}
{{- if or $all.limits $all.requests -}}
{{- toYaml $all -}}
{{- else -}}
requests:
  cpu: 50m
  memory: 128Mi
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The account of the controllers, as FlowSchemas name it. */}}
{{- define "fleet.flowSubject" -}}
- kind: ServiceAccount
  serviceAccount:
    name: fleet-controller
    namespace: {{ .Release.Namespace }}
{{- end -}}

{{/* The namespace of credentials, exactly like names.RegistrationNamespace in Go. */}}
{{- define "fleet.registrationNamespace" -}}
{{- $named := replace "-system" "-clusters-system" .Release.Namespace -}}
{{- if eq $named .Release.Namespace }}{{ $named = printf "%s-clusters-system" $named }}{{ end -}}
{{- $named -}}
{{- end -}}

{{/*
The given values that have no effect in this release, separated by commas: those the table in docs/values.md calls
ignored or stored. What is empty or false asks for nothing.
*/}}
{{- define "fleet.withoutEffect" -}}
{{- $found := list -}}
{{- range $path := list
  "additionalKnownHosts" "bootstrap.paths" "bootstrap.repo" "bootstrap.secret" "clusterEnqueueDelay" "controller.reconciler"
  "extraAnnotations.gitjob" "extraAnnotations.helmops" "extraLabels.gitjob" "extraLabels.helmops" "githubURLPrefix"
  "gitjob" "gitops" "helmops" "imagescan" "insecureSkipHostKeyChecks" "migrations" "resources.fleetAgentmanagement"
  "resources.fleetCleanup" "resources.gitjob" "resources.helmops" "webhookReceiverURL" -}}
{{- $node := $.Values -}}
{{- range splitList "." $path -}}
{{- if kindIs "map" $node }}{{ $node = get $node . }}{{ end -}}
{{- end -}}
{{- if $node }}{{ $found = append $found $path }}{{ end -}}
{{- end -}}
{{- join ", " $found -}}
{{- end -}}

{{/* The name of the Deployment of the controllers, or of a shard of them. */}}
{{- define "fleet.shardName" -}}
fleet-controller{{ with .id }}-shard-{{ . }}{{ end }}
{{- end -}}

{{/* The labels of its pods. */}}
{{- define "fleet.shardLabels" -}}
app: {{ include "fleet.shardName" . }}
fleet.cattle.io/shard-id: {{ .id | default "" | quote }}
{{- if not .id }}
fleet.cattle.io/shard-default: "true"
{{- end }}
{{- end -}}
