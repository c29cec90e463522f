package gather

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/agent"
	"github.com/fleet-hub/fleet/internal/cmd/cli/hubclient"
	"github.com/fleet-hub/fleet/internal/protocol"
)

// probe asks the hub of a credential three times, in the way of the agent. If the TLS connection fails, the token is not
// sent.
func probe(ctx context.Context, c agent.Credential, token string, clock func() time.Time) agent.Probe {
	if !c.Usable() || token == "" || protocol.CheckHubURL(c.Server) != nil {
		return agent.Probe{}
	}
	client, err := hubclient.New(c.Server, c.CA, token, clock)
	if err != nil {
		return agent.Probe{}
	}
	p := agent.Probe{Sent: true}
	if p.Answer, err = client.Send(ctx, http.MethodGet, "readyz", "", nil, nil); err != nil && !isAnswer(err) {
		p.Err = err
		return p
	}
	if p.ReadyErr = err; hubclient.HasCode(err, http.StatusUnauthorized) {
		p.AcceptErr = err
		return p
	}
	path := fmt.Sprintf("apis/fleet.cattle.io/v1alpha1/namespaces/%s/bundledeployments", url.PathEscape(c.ClusterNamespace))
	if _, p.AcceptErr = client.Send(ctx, http.MethodGet, path, "limit=1", nil, nil); p.AcceptErr == nil {
		p.Seen, p.AcceptErr = client.ReadOwnCluster(ctx, c.Cluster.Namespace, c.Cluster.Name)
	}
	return p
}

// isAnswer reports whether an error is an answer of the server.
func isAnswer(err error) bool {
	var status *hubclient.StatusError
	return errors.As(err, &status)
}
