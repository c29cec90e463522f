package protocol

import (
	"encoding/json"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// speakerPrefix starts the field manager of a heartbeat that identifies its account. Agents and hubs of
// different releases must use the same prefix.
const speakerPrefix = "fleet-agent:"

// HeartbeatManager returns the field manager with which an agent sends its heartbeats. It contains the UID of
// the token's account, so that the hub knows which credential is in use. It is empty if the token cannot be
// parsed.
func HeartbeatManager(token string) string {
	parsed, err := ParseAccountToken(token)
	if err != nil {
		return ""
	}
	return speakerPrefix + parsed.AccountUID
}

// HeartbeatAccount returns the UID of the account that sent the Cluster's last heartbeat, or an empty string if it is
// unknown. It reads managedFields, which caches drop, so the Cluster must come from the API server.
//
// A manager owns the fields that it was the last to change. An account that has reported in the same second as another one
// before has not changed lastSeen, but the time at which its credential expires.
func HeartbeatAccount(cluster *fleet.Cluster) string {
	var seen, expires *metav1.ManagedFieldsEntry
	for i := range cluster.ManagedFields {
		entry := &cluster.ManagedFields[i]
		ownsSeen, ownsExpires := ownedFields(entry)
		if ownsSeen {
			seen = entry
		}
		if ownsExpires {
			expires = entry
		}
	}
	if seen != nil && expires != nil && !expires.Time.Before(seen.Time) {
		seen = expires
	}
	if seen == nil {
		return ""
	}
	uid, isAgent := strings.CutPrefix(seen.Manager, speakerPrefix)
	if !isAgent {
		return ""
	}
	return uid
}

// ownedFields reports whether a manager owns lastSeen and credentialExpires of a Cluster's agent.
func ownedFields(entry *metav1.ManagedFieldsEntry) (lastSeen, credentialExpires bool) {
	if entry.FieldsV1 == nil {
		return false, false
	}
	var fields struct {
		Status struct {
			Agent struct {
				LastSeen          *struct{} `json:"f:lastSeen"`
				CredentialExpires *struct{} `json:"f:credentialExpires"`
			} `json:"f:agent"`
		} `json:"f:status"`
	}
	if json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
		return false, false
	}
	return fields.Status.Agent.LastSeen != nil, fields.Status.Agent.CredentialExpires != nil
}
