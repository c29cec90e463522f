package protocol

import (
	"encoding/json"
	"strings"

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
func HeartbeatAccount(cluster *fleet.Cluster) string {
	for _, entry := range cluster.ManagedFields {
		uid, says := strings.CutPrefix(entry.Manager, speakerPrefix)
		if !says || entry.FieldsV1 == nil {
			continue
		}
		var fields struct {
			Status struct {
				Agent struct {
					LastSeen *struct{} `json:"f:lastSeen"`
				} `json:"f:agent"`
			} `json:"f:status"`
		}
		if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields); err == nil && fields.Status.Agent.LastSeen != nil {
			return uid // the last writer; other managers have lost the field
		}
	}
	return ""
}
