{{/*
Replaces every value that is null by the chart's default. Helm removes a key that is null (an empty key, "replicas:")
from the values, together with its default, so templates would not find it. This template changes .Values, which all
templates of a chart share, and has an effect only once per rendering. Helm does not define the order of templates, so
every template that reads values includes it first.
*/}}
{{- define "fleet.fill" -}}
{{- if not (hasKey . "filled") -}}
{{- include "fleet.withoutNulls" .Values -}}
{{- include "fleet.defaults" . -}}
{{- $_ := set . "filled" true -}}
{{- end -}}
{{- end -}}

{{/* Removes nulls from a map, at any depth: Helm keeps nulls of keys without a default. */}}
{{- define "fleet.withoutNulls" -}}
{{- $map := . -}}
{{- range $key, $value := $map -}}
{{- if kindIs "invalid" $value -}}
{{- $_ := unset $map $key -}}
{{- else if kindIs "map" $value -}}
{{- include "fleet.withoutNulls" $value -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Adds missing keys of another map to a map, at any depth: (list map other). Empty, 0 and false count as present. */}}
{{- define "fleet.fillIn" -}}
{{- $given := index . 0 -}}
{{- range $key, $default := index . 1 -}}
{{- if not (hasKey $given $key) -}}
{{- $_ := set $given $key $default -}}
{{- else if kindIs "map" $default -}}
{{- include "fleet.fillIn" (list (get $given $key) $default) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The defaults, copied from values.yaml: templates cannot read that file. */}}
{{- define "fleet.defaults" -}}
{{- include "fleet.fillIn" (list .Values (dict
  "apiServerURL" ""
  "apiServerCA" ""
  "agentTLSMode" "system-store"
  "bootstrap" (dict
    "enabled" true
    "namespace" "fleet-local"
    "agentNamespace" ""
    "localAgentDisabled" false
    "clusterLabels" dict
    "repo" ""
    "secret" ""
    "branch" "master"
    "paths" "")
  "agentImage" (dict "repository" "fleethub/fleet-agent" "tag" "" "imagePullPolicy" "IfNotPresent")
  "agentCheckinInterval" "15m"
  "garbageCollectionInterval" "15m"
  "gitClientTimeout" "30s"
  "agent" (dict
    "replicas" 1
    "reconciler" (dict "workers" (dict "bundledeployment" "50" "drift" "50"))
    "leaderElection" (dict "leaseDuration" "30s" "retryPeriod" "10s" "renewDeadline" "25s"))
  "ignoreClusterRegistrationLabels" false
  "legacyKubeconfigNamespaces" false
  "allowLocalKubeconfigs" false
  "plainValuesInSecrets" false
  "refusedKubeconfigCIDRs" list
  "agentCredential" (dict "lifetime" "24h" "readmit" true)
  "hubDocument" (dict "anonymous" true)
  "capi" (dict "enabled" false "namespaceSelector" dict "clusterSelector" dict)
  "controller" (dict
    "replicas" 1
    "registrationTokenTTL" (dict "required" false "default" "720h")
    "maxClustersPerToken" 10000
    "contentReaders" "agents"
    "allowInsecureKubeconfigs" false)
  "shards" list
  "image" (dict "repository" "fleethub/fleet" "tag" "" "imagePullPolicy" "IfNotPresent")
  "leaderElection" (dict "leaseDuration" "30s" "retryPeriod" "10s" "renewDeadline" "25s")
  "nodeSelector" dict
  "tolerations" list
  "affinity" dict
  "priorityClassName" ""
  "resources" dict
  "metrics" (dict "enabled" true "bundleDeployments" true)
  "debug" false
  "debugLevel" 0
  "propagateDebugSettingsToAgents" true
  "disableSecurityContext" false
  "proxy" ""
  "noProxy" "127.0.0.0/8,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,.svc,.cluster.local"
  "proxyCACert" ""
  "flowControl" (dict "enabled" true)
  "extraEnv" list
  "extraLabels" (dict "fleetController" dict)
  "extraAnnotations" (dict "fleetController" dict)
  "global" (dict "cattle" (dict "systemDefaultRegistry" "" "imagePullSecrets" list)))) -}}
{{- end -}}

{{/*
Fails if the controllers or the agents would reject the times of their leader election at every start: (list times
name). The rule is that of client-go. leader.Lead defines the meaning of 0. A lease's duration has whole seconds.
*/}}
{{- define "fleet.checkElection" -}}
{{- $times := index . 0 -}}
{{- $start := toDate "2006-01-02" "2000-01-01" -}}
{{- $spelt := dict -}}
{{- $found := dict -}}
{{- range $name, $own := dict "leaseDuration" "45s" "renewDeadline" "30s" "retryPeriod" "2s" -}}
{{- $given := index $times $name | toString -}}
{{- $time := (mustDateModify $given $start).Sub $start -}}
{{- $_ := set $spelt $name $given -}}
{{- if eq $time.Nanoseconds 0 -}}
{{- $time = (mustDateModify $own $start).Sub $start -}}
{{- $_ := set $spelt $name (printf "%s, which is the default %s" $given $own) -}}
{{- end -}}
{{- $_ := set $found $name $time.Nanoseconds -}}
{{- end -}}
{{- $rule := "" -}}
{{- if lt $found.leaseDuration 1000000000 -}}
{{- $rule = printf "leaseDuration (%s) has to be at least 1s" $spelt.leaseDuration -}}
{{- else if le $found.leaseDuration $found.renewDeadline -}}
{{- $rule = printf "leaseDuration (%s) has to be greater than renewDeadline (%s)" $spelt.leaseDuration $spelt.renewDeadline -}}
{{- else if le $found.renewDeadline (add $found.retryPeriod (div $found.retryPeriod 5)) -}}
{{- $rule = printf "renewDeadline (%s) has to be greater than 1.2 times retryPeriod (%s)" $spelt.renewDeadline $spelt.retryPeriod -}}
{{- end -}}
{{- with $rule -}}
{{- fail (printf "%s: %s, otherwise no leader can be elected: correct one of the values" (index $ 1) .) -}}
{{- end -}}
{{- end -}}

{{/* An image with the prefix of the default registry: (list root image). */}}
{{- define "fleet.image" -}}
{{- $root := index . 0 -}}{{- $image := index . 1 -}}
{{- include "fleet.registry" $root -}}{{- $image.repository }}:{{ $image.tag | default $root.Chart.AppVersion -}}
{{- end -}}

{{/* agentCredential.lifetime, or empty if it is zero in any form, such as 0, 0s or 0h0m. */}}
{{- define "fleet.credentialLifetime" -}}
{{- $lifetime := toString (.Values.agentCredential).lifetime -}}
{{- if regexMatch "[1-9]" $lifetime }}{{ $lifetime }}{{ end -}}
{{- end -}}

{{/* The default registry with a trailing slash, or empty. */}}
{{- define "fleet.registry" -}}
{{- with ((.Values.global).cattle).systemDefaultRegistry }}{{ trimSuffix "/" . }}/{{ end -}}
{{- end -}}

{{/* The release of the controllers. A running controller compares it with its own release. */}}
{{- define "fleet.version" -}}
{{- .Values.image.tag | default .Chart.AppVersion -}}
{{- end -}}

{{/*
The controllers' configuration. Its keys are those of config.Config. Omitted keys have the controllers' defaults.
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
  "legacyKubeconfigNamespaces" .Values.legacyKubeconfigNamespaces
  "allowLocalKubeconfigs" .Values.allowLocalKubeconfigs
  "plainValuesInSecrets" .Values.plainValuesInSecrets
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
{{- with .Values.refusedKubeconfigCIDRs }}{{ $_ := set $config "refusedKubeconfigCIDRs" . }}{{ end -}}
{{- $lifetime := include "fleet.credentialLifetime" . -}}
{{- if $lifetime }}{{ $_ := set $config "agentCredentialLifetime" $lifetime }}{{ end -}}
{{- if eq (toString (.Values.agentCredential).readmit) "false" }}{{ $_ := set $config "agentCredentialReadmit" false }}{{ end -}}
{{- $capi := dict -}}
{{- range $key, $value := .Values.capi }}{{ if $value }}{{ $_ := set $capi $key $value }}{{ end }}{{ end -}}
{{- with $capi }}{{ $_ := set $config "capi" . }}{{ end -}}
{{- with ((.Values.global).cattle).imagePullSecrets }}{{ $_ := set $config "imagePullSecrets" . }}{{ end -}}
{{- toPrettyJson $config -}}
{{- end -}}

{{/*
The environment: the chart's variables, then those of the values. Of variables with the same name only the last one
is kept, which is the one the process would see: server-side apply rejects lists with duplicate names.
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
- name: FLEET_REGISTRATION_TOKEN_TTL_DEFAULT
  value: {{ .Values.controller.registrationTokenTTL.default | toString | quote }}
- name: FLEET_MAX_CLUSTERS_PER_TOKEN
  value: {{ int .Values.controller.maxClustersPerToken | quote }}
- name: FLEET_CONTENT_READERS
  value: {{ .Values.controller.contentReaders | quote }}
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
# Directories from which Go loads CA certificates.
- name: SSL_CERT_DIR
  value: /etc/ssl/certs:/etc/fleet/proxy-ca
{{- end }}
{{- end -}}

{{/*
The resources of the container: its own if the key exists, even if it is empty; otherwise those for all; otherwise small
requests, because a pod without requests is evicted first.
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

{{/* The ServiceAccount of the controllers as the subject of FlowSchemas. */}}
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
The given values that have no effect in this release, separated by commas: those that the table in docs/values.md calls
ignored or stored. Empty values and false are not listed.
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

{{/* The name of the controllers' Deployment, or of a shard's. */}}
{{- define "fleet.shardName" -}}
fleet-controller{{ with .id }}-shard-{{ . }}{{ end }}
{{- end -}}

{{/* The labels of the pods of that Deployment. */}}
{{- define "fleet.shardLabels" -}}
app: {{ include "fleet.shardName" . }}
fleet.cattle.io/shard-id: {{ .id | default "" | quote }}
{{- if not .id }}
fleet.cattle.io/shard-default: "true"
{{- end }}
{{- end -}}
