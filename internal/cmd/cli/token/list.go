package token

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/cmd/cli/complete"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/cli/jointext"
	"github.com/fleet-hub/fleet/internal/cmd/cli/output"
	"github.com/fleet-hub/fleet/internal/rules/revocation"
	tokenrule "github.com/fleet-hub/fleet/internal/rules/token"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// Token is the result for one token. It contains no secret unless --with-secret is given.
type Token struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// State is Ready, Expired, Waiting, or the reason why the token has no values.
	State   string `json:"state"`
	Message string `json:"message,omitempty"`
	// Created and Expires are times in RFC 3339. Without Expires, the token does not expire.
	Created string `json:"created"`
	Expires string `json:"expires,omitempty"`
	// RemainingSeconds is the time until it expires.
	RemainingSeconds *int64 `json:"remainingSeconds,omitempty"`
	// Cluster is the Cluster for which the token was created. It is empty for a reusable token.
	Cluster string `json:"cluster,omitempty"`
	// Joined are the names of the Clusters that have joined with the token.
	Joined []string `json:"joined"`
	// Join is the join text. It is a secret.
	Join string `json:"join,omitempty"`
}

// Tokens is the result of the list.
type Tokens struct {
	Items []Token `json:"items"`
}

// states of a token that are not a reason.
const (
	stateReady   = "Ready"
	stateExpired = "Expired"
	stateWaiting = "Waiting"
	notLimited   = "never"
)

// result returns the result for a token.
func result(token *fleet.ClusterRegistrationToken, joined []string, now time.Time) Token {
	r := Token{
		Namespace: token.Namespace, Name: token.Name, State: stateWaiting, Cluster: token.Annotations[annotation.TokenForCluster],
		Created: token.CreationTimestamp.UTC().Format(time.RFC3339), Joined: joined,
	}
	ready := conditions.Get(token.Status.Conditions, conditions.Ready)
	switch {
	case ready != nil && ready.Status == corev1.ConditionFalse && ready.Reason != "":
		r.State, r.Message = ready.Reason, output.Line(ready.Message)
	case token.Status.SecretName != "":
		r.State = stateReady
	}
	if at := tokenrule.Expiry(token); at != nil {
		left := max(0, int64(at.Sub(now)/time.Second))
		r.Expires, r.RemainingSeconds = at.UTC().Format(time.RFC3339), &left
		if !now.Before(*at) {
			r.State = stateExpired
		}
	}
	return r
}

// readJoined returns the Clusters of a namespace, or of all if it is empty, that have joined with each token.
func readJoined(ctx context.Context, hub *access.Cluster, namespace string, tokens []*fleet.ClusterRegistrationToken) (map[types.UID][]string, error) {
	requests, err := access.Select(ctx, hub.Registrations(namespace), metav1.ListOptions{}, nil)
	if err != nil {
		return nil, access.Explain("reading ClusterRegistrations", err)
	}
	clusters, err := access.Select(ctx, hub.Clusters(namespace), metav1.ListOptions{LabelSelector: fleet.LabelTokenUID}, nil)
	if err != nil {
		return nil, access.Explain("reading Clusters", err)
	}
	return joinedWith(tokens, requests, clusters), nil
}

// joinedWith returns the Clusters that have joined with each token. A registration that says with which token it came counts
// for the token with that UID, and an older one for the token with its name. A Cluster keeps the UID when its agent recovers,
// which replaces the registration.
func joinedWith(tokens []*fleet.ClusterRegistrationToken, registrations []*fleet.ClusterRegistration, clusters []*fleet.Cluster) map[types.UID][]string {
	joined := map[types.UID][]string{}
	for _, token := range tokens {
		names := []string{}
		for _, request := range registrations {
			uid, name := request.Annotations[annotation.TokenUIDAtGrant], request.Labels[fleet.LabelRegistrationToken]
			with := uid == string(token.UID) || uid == "" && name == token.Name
			if request.Namespace == token.Namespace && request.Status.Granted && with && request.Status.ClusterName != "" {
				names = append(names, request.Status.ClusterName)
			}
		}
		for _, cluster := range clusters {
			if cluster.Namespace == token.Namespace && revocation.JoinedWith(token, cluster, nil) {
				names = append(names, cluster.Name)
			}
		}
		slices.Sort(names)
		joined[token.UID] = slices.Compact(names)
	}
	return joined
}

// results returns the results for tokens, sorted by namespace and name.
func results(tokens []*fleet.ClusterRegistrationToken, joined map[types.UID][]string, now time.Time) Tokens {
	all := Tokens{Items: []Token{}}
	for _, token := range tokens {
		all.Items = append(all.Items, result(token, joined[token.UID], now))
	}
	slices.SortFunc(all.Items, func(a, b Token) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return all
}

func newList(streams genericiooptions.IOStreams, clock func() time.Time) *cobra.Command {
	flags, format := access.NewFlags(), output.Table
	command := &cobra.Command{
		Use:     "list",
		Short:   "List tokens with their remaining time and the clusters that have joined",
		Example: "  fleet token list -A",
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			hub, err := flags.Open()
			if err != nil {
				return err
			}
			tokens, err := access.Select(command.Context(), hub.Tokens(hub.Namespace), metav1.ListOptions{}, nil)
			if err != nil {
				return access.Explain("reading ClusterRegistrationTokens", err)
			}
			joined, err := readJoined(command.Context(), hub, hub.Namespace, tokens)
			if err != nil {
				return err
			}
			all := results(tokens, joined, clock())
			if len(all.Items) == 0 && format == output.Table {
				fmt.Fprintln(streams.ErrOut, flags.Target().On("there are no tokens; to create one: fleet token create NAME"))
				return nil
			}
			return write(streams.Out, format, all.Items, all, flags.All)
		},
	}
	flags.Bind(command.Flags())
	flags.BindAll(command.Flags())
	format.Bind(command.Flags())
	return command
}

// write prints tokens. document is what JSON and YAML contain.
func write(out io.Writer, format output.Format, items []Token, document any, withNamespace bool) error {
	switch format {
	case output.JSON, output.YAML:
		return output.Print(out, format, document)
	case output.Name:
		for _, item := range items {
			fmt.Fprintln(out, "clusterregistrationtoken.fleet.cattle.io/"+item.Name)
		}
		return nil
	}
	header := []string{"NAME", "STATE", "REMAINING", "FOR", "JOINED"}
	if withNamespace {
		header = append([]string{"NAMESPACE"}, header...)
	}
	var rows [][]string
	for _, item := range items {
		row := []string{item.Name, item.State, remaining(item), cmp.Or(item.Cluster, "<any>"), joinedText(item.Joined)}
		if withNamespace {
			row = append([]string{item.Namespace}, row...)
		}
		rows = append(rows, row)
	}
	return output.Rows(out, header, rows)
}

func remaining(t Token) string {
	if t.RemainingSeconds == nil {
		return notLimited
	}
	return duration.HumanDuration(time.Duration(*t.RemainingSeconds) * time.Second)
}

// shownClusters is how many names a row of the table contains.
const shownClusters = 3

func joinedText(clusters []string) string {
	if len(clusters) > shownClusters {
		return fmt.Sprintf("%s and %d more", strings.Join(clusters[:shownClusters], ","), len(clusters)-shownClusters)
	}
	return cmp.Or(strings.Join(clusters, ","), "<none>")
}

func newShow(streams genericiooptions.IOStreams, clock func() time.Time) *cobra.Command {
	flags, format, form, withSecret, cluster := access.NewFlags(), output.Table, Handover{}, false, ""
	command := &cobra.Command{
		Use:   "show NAME",
		Short: "Show a token, and with --with-secret the command that joins a cluster",
		Long: `Show prints a token with its remaining time and the clusters that have joined with it. With --with-secret it prints the
text of "fleet token create" again instead, which contains a secret.`,
		Example: `  fleet token show west
  fleet token show west --with-secret`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if err := form.Check(); err != nil {
				return err
			}
			hub, err := flags.Open()
			if err != nil {
				return err
			}
			token, err := hub.Tokens(flags.Namespace()).Get(command.Context(), args[0], metav1.GetOptions{})
			if err != nil {
				return missing(flags.Namespace(), args[0], err)
			}
			var text jointext.Text
			if withSecret {
				if text, err = textOf(command.Context(), hub, token, cluster); err != nil {
					return err
				}
				if format == output.Table || format == output.Name {
					return form.Write(streams.Out, text, cmp.Or(cluster, token.Annotations[annotation.TokenForCluster]))
				}
			}
			joined, err := readJoined(command.Context(), hub, flags.Namespace(), []*fleet.ClusterRegistrationToken{token})
			if err != nil {
				return err
			}
			shown := result(token, joined[token.UID], clock())
			if withSecret {
				if shown.Join, err = jointext.Encode(text); err != nil {
					return err
				}
			}
			return write(streams.Out, format, []Token{shown}, shown, false)
		},
		ValidArgsFunction: complete.Tokens(flags),
	}
	flags.Bind(command.Flags())
	format.Bind(command.Flags())
	form.Bind(command)
	command.Flags().BoolVar(&withSecret, "with-secret", false, "print the text with which a cluster joins; it contains a secret")
	command.Flags().StringVar(&cluster, "cluster", "", "name of the Cluster that joins (default: the one for which the token was created)")
	return command
}

// textOf returns the join text of a token. cluster is the name of the Cluster that joins, or empty for that of the token.
func textOf(ctx context.Context, hub *access.Cluster, token *fleet.ClusterRegistrationToken, cluster string) (jointext.Text, error) {
	if err := final(token); err != nil {
		return jointext.Text{}, err
	}
	values, err := readValues(ctx, hub, token.Namespace, token.Name)
	if err != nil {
		return jointext.Text{}, noValues(token, err)
	}
	name, joins := cmp.Or(cluster, token.Annotations[annotation.TokenForCluster]), fleet.Cluster{}
	if name != "" {
		create := fmt.Sprintf("fleet token create NAME --cluster %s -n %s", name, token.Namespace)
		found, err := access.Find(ctx, hub.Clusters(token.Namespace), fmt.Sprintf("Cluster %s/%s", token.Namespace, name), name)
		switch {
		case err != nil:
			return jointext.Text{}, err
		case found == nil:
			return jointext.Text{}, exit.Errorf(exit.Refused, "Cluster %s/%s, which is to join with token %s, does not exist", token.Namespace, name, token.Name).
				With(create)
		}
		if joins = *found; joins.Spec.ClientID == "" {
			return jointext.Text{}, exit.Errorf(exit.Refused, "Cluster %s/%s has no client ID", token.Namespace, name).
				With(create)
		}
		if only, limited := token.Annotations[annotation.TokenForClientID]; limited && only != joins.Spec.ClientID {
			return jointext.Text{}, exit.Errorf(exit.Refused, "token %s/%s is for another client ID than that of Cluster %s", token.Namespace, token.Name, name).
				Because(conditions.ReasonClientIDNotAllowed).With(create)
		}
	}
	return joinText(ctx, hub, values, joins, token), nil
}

func noValues(token *fleet.ClusterRegistrationToken, err error) error {
	if exit.CodeOf(err) != exit.Failed {
		return err
	}
	return exit.Errorf(exit.Failed, "the hub has not written the values of token %s/%s", token.Namespace, token.Name).
		With("kubectl get pods -n cattle-fleet-system -l app=fleet-controller")
}
