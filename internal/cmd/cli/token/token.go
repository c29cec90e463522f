// Package token implements `fleet token`: what lets clusters join a workspace?
//
//	create: Order ─► plan (Cluster, ClusterRegistrationToken) ─► the hub writes the values Secret ─► join text
//	list, show: tokens, registrations ─► Token (exported result) ─► table, JSON, YAML, names
//	revoke: deletes the token
package token

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/cmd/cli/agentrelease"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/cli/hubconfig"
	"github.com/fleet-hub/fleet/internal/cmd/cli/jointext"
	"github.com/fleet-hub/fleet/internal/protocol"
	tokenrule "github.com/fleet-hub/fleet/internal/rules/token"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// New returns the command. clock returns the current time.
func New(streams genericiooptions.IOStreams, clock func() time.Time) *cobra.Command {
	command := &cobra.Command{
		Use:   "token",
		Short: "Create, list, show and revoke the tokens with which clusters join",
		Long: `Tokens let clusters join a workspace. Everybody who has a token can register clusters in its workspace, until it
expires or is revoked. Clusters that have joined no longer need it.`,
		Args: cobra.ArbitraryArgs,
		RunE: exit.Subcommand,
	}
	command.AddCommand(newCreate(streams), newList(streams, clock), newShow(streams, clock), newRevoke(streams))
	return command
}

// The formats in which a token is handed over.
const (
	formatJoin     = "join"
	formatValues   = "values"
	formatManifest = "manifest"
)

// Handover is the flag --format: the form in which a join text is printed.
type Handover struct {
	format string
}

// Bind declares the flag.
func (h *Handover) Bind(command *cobra.Command) {
	command.Flags().StringVar(&h.format, "format", formatJoin,
		"form of the text: join (a command to paste), values (for helm install), manifest (YAML for kubectl apply)")
}

// Check returns an error for an unknown form.
func (h *Handover) Check() error {
	switch h.format {
	case formatJoin, formatValues, formatManifest:
		return nil
	}
	return exit.Errorf(exit.Usage, "unknown format %q: use join, values or manifest", h.format)
}

// Write prints the text of a token for a Cluster, or for any if the name is empty. It is the only place that prints a bearer
// token for people.
func (h *Handover) Write(out io.Writer, text jointext.Text, cluster string) error {
	document, err := h.render(text, cluster)
	if err != nil {
		return err
	}
	_, err = out.Write(document)
	return err
}

func (h *Handover) render(text jointext.Text, cluster string) ([]byte, error) {
	if h.format == formatJoin {
		encoded, err := jointext.Encode(text)
		if err != nil {
			return nil, err
		}
		// All of it can be pasted into a shell, so the last line is a comment.
		return fmt.Appendf(nil, "fleet join --context %s <<'JOIN'\n%s\nJOIN\n# hub CA %s: must match the value that fleet join prints\n",
			cmp.Or(cluster, "CONTEXT"), encoded, text.Fingerprint()), nil
	}
	values, err := agentrelease.Values(text, nil)
	if err != nil {
		return nil, err
	}
	if h.format == formatValues {
		return agentrelease.ValuesFile(values)
	}
	return agentrelease.Manifest(agentrelease.Namespace(text), values)
}

// joinText returns the join text of a token, with the image of the agent. cluster has the name, the client ID, the registry
// and the agent's namespace of the Cluster that joins. It is empty for a reusable token.
func joinText(ctx context.Context, hub *access.Cluster, values protocol.Values, cluster fleet.Cluster, token *fleet.ClusterRegistrationToken) jointext.Text {
	text := jointext.Of(values, cluster.Spec.ClientID, tokenrule.Expiry(token))
	text.Cluster, text.AgentNamespace = cluster.Name, cluster.Spec.AgentNamespace
	if image := hubconfig.AgentImage(ctx, hub.Core, cluster.Spec.PrivateRepoURL); jointext.IsImage(image) {
		text.Image = image
	}
	return text
}
