package protocol

import (
	"encoding/json"
	"strings"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// speakerPrefix begins the field manager of a heartbeat that says whose it is. Agents and hubs of different releases
// must agree on it.
const speakerPrefix = "fleet-agent:"

// HeartbeatManager is the field manager under which an agent sends its heartbeats, from the token it sends them with:
// by that a hub knows with which credential it was used. It is "" for a token that does not say whose it is.
func HeartbeatManager(token string) string {
	parsed, err := ParseAccountToken(token)
	if err != nil {
		return ""
	}
	return speakerPrefix + parsed.AccountUID
}

// Speaker is the UID of the account with which the Cluster's last heartbeat was sent, "" if that does not say. Caches
// do not have what it reads: the Cluster must come from the API server.
func Speaker(cluster *fleet.Cluster) string {
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
			return uid // who wrote it last; the others have lost the field
		}
	}
	return ""
}
