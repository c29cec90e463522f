{{/*
Replaces every value that is null by the chart's default. Helm removes a key that is null (an empty key, "replicas:")
from the values, together with its default, so templates would not find it. This template changes .Values, which all
templates of a chart share, and has an effect only once per rendering. Helm does not define the order of templates, so
every template that reads values includes it first.
*/}}
{{- define "fleet-agent.fill" -}}
{{- if not (hasKey . "filled") -}}
{{- include "fleet-agent.withoutNulls" .Values -}}
{{- include "fleet-agent.defaults" . -}}
{{- $_ := set . "filled" true -}}
{{- end -}}
{{- end -}}

{{/* Removes nulls from a map, at any depth: Helm keeps nulls of keys without a default. */}}
{{- define "fleet-agent.withoutNulls" -}}
{{- $map := . -}}
{{- range $key, $value := $map -}}
{{- if kindIs "invalid" $value -}}
{{- $_ := unset $map $key -}}
{{- else if kindIs "map" $value -}}
{{- include "fleet-agent.withoutNulls" $value -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Adds missing keys of another map to a map, at any depth: (list map other). Empty, 0 and false count as present. */}}
{{- define "fleet-agent.fillIn" -}}
{{- $given := index . 0 -}}
{{- range $key, $default := index . 1 -}}
{{- if not (hasKey $given $key) -}}
{{- $_ := set $given $key $default -}}
{{- else if kindIs "map" $default -}}
{{- include "fleet-agent.fillIn" (list (get $given $key) $default) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The defaults, copied from values.yaml: templates cannot read that file. */}}
{{- define "fleet-agent.defaults" -}}
{{- include "fleet-agent.fillIn" (list .Values (dict
  "apiServerURL" ""
  "apiServerCA" ""
  "tokenName" ""
  "token" ""
  "clusterNamespace" ""
  "systemRegistrationNamespace" "cattle-fleet-clusters-system"
  "clientID" ""
  "labels" dict
  "agentTLSMode" "system-store"
  "garbageCollectionInterval" "15m"
  "agentCheckinInterval" "15m"
  "agent" (dict
    "replicas" 1
    "reconciler" (dict "workers" (dict "bundledeployment" "50" "drift" "50")))
  "leaderElection" (dict "leaseDuration" "30s" "retryPeriod" "10s" "renewDeadline" "25s")
  "debug" false
  "debugLevel" 0
  "proxy" ""
  "noProxy" "127.0.0.0/8,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,.svc,.cluster.local"
  "image" (dict "repository" "fleethub/fleet-agent" "tag" "" "imagePullPolicy" "IfNotPresent")
  "extraEnv" list
  "fleetAgent" (dict
    "scope" ""
    "nodeSelector" dict
    "tolerations" list
    "hostNetwork" false
    "resources" dict)
  "disableSecurityContext" false
  "global" (dict "cattle" (dict "systemDefaultRegistry" "" "imagePullSecrets" list))
  "internal" (dict
    "systemNamespace" "cattle-fleet-system"
    "managedReleaseName" "fleet-agent"
    "deployment" "install"
    "image" ""))) -}}
{{- end -}}

{{/*
Fails if the agent would reject the times of its leader election at every start: (list times name). The rule is that of
client-go. leader.Lead defines the meaning of 0. A lease's duration has whole seconds.
*/}}
{{- define "fleet-agent.checkElection" -}}
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

{{/*
Joins a list of names into one of at most 63 characters, exactly like names.SafeConcat in Go: the code that imports,
adopts or removes an agent computes the same names.
*/}}
{{- define "fleet-agent.safeConcat" -}}
{{- $joined := join "-" . -}}
{{- $digest := sha256sum $joined -}}
{{- if lt (len $joined) 64 -}}
{{- $joined -}}
{{- else if regexMatch "^[a-z0-9]$" (substr 56 57 $joined) -}}
{{- substr 0 57 $joined }}-{{ substr 0 5 $digest -}}
{{- else -}}
{{- substr 0 56 $joined }}-{{ substr 0 6 $digest -}}
{{- end -}}
{{- end -}}

{{/*
A release that was installed with Rancher Fleet's chart has a role with another name, and keeps it. The role with the
name below then belongs to the hub, which has adopted the agent, and Helm does not take objects from another release.
*/}}
{{- define "fleet-agent.roleStem" -}}
{{- $stem := include "fleet-agent.safeConcat" (list .Release.Namespace "fleet-agent" "role") -}}
{{- if eq .Values.internal.deployment "install" -}}
{{- $other := "fleet-agent-system-fleet-agent-role" -}}
{{- $found := lookup "rbac.authorization.k8s.io/v1" "ClusterRole" "" $other -}}
{{- $owner := (($found).metadata).annotations | default dict -}}
{{- if and (eq (get $owner "meta.helm.sh/release-name") .Release.Name) (eq (get $owner "meta.helm.sh/release-namespace") .Release.Namespace) -}}
{{- $stem = $other -}}
{{- end -}}
{{- end -}}
{{- $stem -}}
{{- end -}}

{{- define "fleet-agent.role" -}}
{{- include "fleet-agent.roleStem" . -}}
{{- end -}}

{{- define "fleet-agent.roleBinding" -}}
{{- $stem := include "fleet-agent.roleStem" . -}}
{{- if eq $stem "fleet-agent-system-fleet-agent-role" -}}
{{- printf "%s-binding" $stem -}}
{{- else -}}
{{- include "fleet-agent.safeConcat" (list .Release.Namespace "fleet-agent" "role" "binding") -}}
{{- end -}}
{{- end -}}

{{/*
A duration in Go's format ("15m" becomes "15m0s"), in which the hub's controllers pass durations.
*/}}
{{- define "fleet-agent.duration" -}}
{{- $start := toDate "2006-01-02" "2000-01-01" -}}
{{- ((mustDateModify (toString .) $start).Sub $start).String -}}
{{- end -}}

{{- define "fleet-agent.image" -}}
{{- if .Values.internal.image -}}
{{- .Values.internal.image -}}
{{- else -}}
{{- with ((.Values.global).cattle).systemDefaultRegistry }}{{ trimSuffix "/" . }}/{{ end -}}
{{- .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion -}}
{{- end -}}
{{- end -}}

{{/*
The agent's configuration as JSON, in the order of the fields of config.Agent.
*/}}
{{- define "fleet-agent.config" -}}
{{- $entries := list -}}
{{- with .Values.labels }}{{ $entries = append $entries (printf "\"labels\":%s" (toJson .)) }}{{ end -}}
{{- with .Values.clientID }}{{ $entries = append $entries (printf "\"clientID\":%s" (toJson .)) }}{{ end -}}
{{- with .Values.agentTLSMode }}{{ $entries = append $entries (printf "\"agentTLSMode\":%s" (toJson .)) }}{{ end -}}
{{- $interval := include "fleet-agent.duration" .Values.garbageCollectionInterval -}}
{{- if ne $interval "0s" }}{{ $entries = append $entries (printf "\"garbageCollectionInterval\":%s" (toJson $interval)) }}{{ end -}}
{ {{- join "," $entries -}} }
{{- end -}}

{{/*
The tolerations of the values, sorted by key, value, operator, effect and seconds. Their order has no meaning, but
a different order would change the pod template.
*/}}
{{- define "fleet-agent.tolerations" -}}
{{- $sorted := dict -}}
{{- range $index, $toleration := .Values.fleetAgent.tolerations -}}
{{- $seconds := "" -}}
{{- if not (kindIs "invalid" $toleration.tolerationSeconds) }}{{ $seconds = printf "%020d" (int64 $toleration.tolerationSeconds) }}{{ end -}}
{{- $place := printf "%s\n%s\n%s\n%s\n%s\n%06d" ($toleration.key | default "") ($toleration.value | default "") ($toleration.operator | default "") ($toleration.effect | default "") $seconds $index -}}
{{- $_ := set $sorted $place $toleration -}}
{{- end -}}
{{- range $place := keys $sorted | sortAlpha }}
- {{ get $sorted $place | toYaml | nindent 2 | trim }}
{{- end -}}
{{- end -}}

{{/*
A number of pods as a number, a percentage as a string.
*/}}
{{- define "fleet-agent.intOrPercent" -}}
{{- if hasSuffix "%" (toString .) }}{{ toString . | quote }}{{ else }}{{ toString . }}{{ end -}}
{{- end -}}

{{/*
The environment: the chart's variables, then those of the values. Of variables with the same name only the last one
is kept, which is the one the process would see: server-side apply rejects lists with duplicate names.
*/}}
{{- define "fleet-agent.env" -}}
{{- $all := concat (include "fleet-agent.ownEnv" . | fromYamlArray) (.Values.extraEnv | default list) -}}
{{- $last := dict -}}
{{- range $index, $variable := $all }}{{ $_ := set $last $variable.name $index }}{{ end -}}
{{- range $index, $variable := $all -}}
{{- if eq $index (get $last $variable.name) }}
- {{ toYaml $variable | nindent 2 | trim }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
The chart's variables. Their order is part of the manifest that every hub renders.
*/}}
{{- define "fleet-agent.ownEnv" -}}
- name: BUNDLEDEPLOYMENT_RECONCILER_WORKERS
  value: {{ .Values.agent.reconciler.workers.bundledeployment | toString | quote }}
- name: DRIFT_RECONCILER_WORKERS
  value: {{ .Values.agent.reconciler.workers.drift | toString | quote }}
- name: NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
- name: AGENT_SCOPE
  value: {{ .Values.fleetAgent.scope | quote }}
- name: CHECKIN_INTERVAL
  value: {{ include "fleet-agent.duration" .Values.agentCheckinInterval | quote }}
- name: CATTLE_ELECTION_LEASE_DURATION
  value: {{ .Values.leaderElection.leaseDuration | toString | quote }}
- name: CATTLE_ELECTION_RETRY_PERIOD
  value: {{ .Values.leaderElection.retryPeriod | toString | quote }}
- name: CATTLE_ELECTION_RENEW_DEADLINE
  value: {{ .Values.leaderElection.renewDeadline | toString | quote }}
{{- with .Values.proxy }}
- name: HTTP_PROXY
  value: {{ . | quote }}
- name: HTTPS_PROXY
  value: {{ . | quote }}
- name: NO_PROXY
  value: {{ $.Values.noProxy | quote }}
{{- end }}
{{- end -}}
