package token

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/cmd/cli/await"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/cli/jointext"
	"github.com/fleet-hub/fleet/internal/cmd/cli/output"
	"github.com/fleet-hub/fleet/internal/cmd/cli/remedy"
	"github.com/fleet-hub/fleet/internal/protocol"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

const (
	// defaultTTL is the lifetime of a token if --ttl is not given.
	defaultTTL = 24 * time.Hour
	// minTTL is the shortest lifetime of a token: a cluster needs some time to join.
	minTTL = time.Minute
	// defaultTimeout limits the wait for the values of a token.
	defaultTimeout = 30 * time.Second
)

// Order describes a token to create.
type Order struct {
	// Workspace and Name identify the token.
	Workspace, Name string
	// Cluster is the name of the Cluster that joins with it. It is created if missing. Empty means that any number of
	// clusters may join, under the UID of their namespace kube-system.
	Cluster string
	// Labels are the labels of that Cluster.
	Labels map[string]string
	// TTL is the lifetime. 0 means that the token never expires.
	TTL time.Duration
	// Timeout limits the wait for the values.
	Timeout time.Duration
	// Random is the source of client IDs.
	Random io.Reader
	// Hub is how the user reaches the hub, for the command in a warning.
	Hub remedy.Target
	// TakeoverExplained means that the caller has said what the hub does with a request while the Cluster has an agent.
	TakeoverExplained bool
	// Warn prints a warning.
	Warn func(format string, args ...any)
}

// NewOrder returns an order with the defaults. Warnings are printed to out.
func NewOrder(out io.Writer) *Order {
	return &Order{TTL: defaultTTL, Timeout: defaultTimeout, Random: rand.Reader, Warn: func(format string, args ...any) {
		fmt.Fprintf(out, "warning: "+format+"\n", args...)
	}}
}

// Bind declares the flags of the order that `fleet token create` and `fleet join --hub-context` have. without describes the
// order without --cluster.
func (o *Order) Bind(command *cobra.Command, without string) {
	command.Flags().StringVar(&o.Cluster, "cluster", "", "name of the Cluster that joins; it is created if missing (default: "+without+")")
	command.Flags().StringToStringVar(&o.Labels, "label", nil, "label of that Cluster, as key=value; may be repeated")
	command.Flags().DurationVar(&o.TTL, "ttl", o.TTL, "lifetime of the token, such as 30m or 12h; 0: it never expires")
}

func newCreate(streams genericiooptions.IOStreams) *cobra.Command {
	flags, order, form, dryRun := access.NewFlags(), NewOrder(streams.ErrOut), Handover{}, false
	command := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a token and print the command that joins a cluster",
		Long: `Create creates a ClusterRegistrationToken, waits until the hub has written its values, and prints the command to run
with access to the cluster that joins. With --cluster it also creates the Cluster with a client ID of its own, so that only
this cluster can join as it, and the token is for this client ID only. Without --cluster any number of clusters can join with the
token.

The text contains a secret: it lets anybody register this cluster, or without --cluster any clusters in the workspace, until the
token expires.`,
		Example: `  fleet token create west --cluster west --label env=prod --ttl 1h
  fleet token create west --cluster west --format values > west.yaml
  fleet token create shared --ttl 168h`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			order.Name, order.Workspace, order.Hub = args[0], flags.Namespace(), flags.Target()
			if err := errors.Join(form.Check(), order.problems()); err != nil {
				return usage(err, "fleet token create --help")
			}
			hub, err := flags.Open()
			if err != nil {
				return err
			}
			if dryRun {
				return Preview(command.Context(), hub, *order, streams.Out, output.YAML)
			}
			text, _, err := create(command.Context(), hub, *order)
			if err != nil {
				return err
			}
			return form.Write(streams.Out, text, order.Cluster)
		},
	}
	flags.Bind(command.Flags())
	order.Bind(command, "the token is reusable")
	form.Bind(command)
	command.Flags().DurationVar(&order.Timeout, "timeout", order.Timeout, "time to wait for the values of the token")
	command.Flags().BoolVar(&dryRun, "dry-run", false, "print the objects as YAML and write nothing")
	return command
}

// usage returns one error of usage with all problems.
func usage(err error, fixes ...string) error {
	failure := &exit.Error{Code: exit.Usage, Fixes: fixes}
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		failure.Problems = []error{err}
		return failure
	}
	failure.Problems = joined.Unwrap()
	return failure
}

// Check returns all problems of an order that need no hub. The caller knows the fixes.
func (o Order) Check(fixes ...string) error {
	if err := o.problems(); err != nil {
		return usage(err, fixes...)
	}
	return nil
}

func (o Order) problems() error {
	var problems []error
	if errs := validation.IsDNS1123Subdomain(o.Name); len(errs) > 0 || len(o.Name) > validation.LabelValueMaxLength {
		problems = append(problems, fmt.Errorf("token name %q: use at most 63 lowercase letters, digits, dots and hyphens", o.Name))
	}
	if o.Cluster != "" && (len(validation.IsDNS1123Subdomain(o.Cluster)) > 0 || len(o.Cluster) > validation.LabelValueMaxLength) {
		problems = append(problems, fmt.Errorf("cluster name %q: use at most 63 lowercase letters, digits, dots and hyphens", o.Cluster))
	}
	if o.Cluster == "" && len(o.Labels) > 0 {
		problems = append(problems, errors.New("--label needs --cluster: it is a label of that Cluster"))
	}
	if _, err := labels.ValidatedSelectorFromSet(o.Labels); err != nil {
		problems = append(problems, fmt.Errorf("--label: %w", err))
	}
	switch {
	case o.TTL < 0:
		problems = append(problems, errors.New("--ttl is negative"))
	case o.TTL > 0 && o.TTL < minTTL:
		problems = append(problems, fmt.Errorf("--ttl %s: the token would expire before a cluster has joined; use 1m or more, or 0 for a token that never expires", o.TTL))
	}
	return errors.Join(problems...)
}

// plan is what an order writes.
type plan struct {
	// create is the Cluster to create, or nil. patch changes an existing one, or is nil.
	create *fleet.Cluster
	patch  []byte
	token  *fleet.ClusterRegistrationToken
	// clientID, registry and namespace are the client ID, spec.privateRepoURL and spec.agentNamespace of the Cluster.
	clientID, registry, namespace string
	warning                       string
}

// newPlan returns what an order writes. existing is the Cluster, or nil. random is a client ID for a Cluster without one.
func newPlan(o Order, existing *fleet.Cluster, random string) (plan, error) {
	p := plan{token: &fleet.ClusterRegistrationToken{
		TypeMeta:   metav1.TypeMeta{APIVersion: fleet.SchemeGroupVersion.String(), Kind: "ClusterRegistrationToken"},
		ObjectMeta: metav1.ObjectMeta{Namespace: o.Workspace, Name: o.Name},
	}}
	p.token.Spec.TTL = &metav1.Duration{Duration: o.TTL} // 0 is written, too: otherwise the hub's default applies
	if o.Cluster == "" {
		return p, nil
	}
	p.token.Annotations = map[string]string{annotation.TokenForCluster: o.Cluster, annotation.TokenForClientID: random}
	if existing == nil {
		p.clientID = random
		p.create = &fleet.Cluster{
			TypeMeta:   metav1.TypeMeta{APIVersion: fleet.SchemeGroupVersion.String(), Kind: "Cluster"},
			ObjectMeta: metav1.ObjectMeta{Namespace: o.Workspace, Name: o.Cluster, Labels: o.Labels},
			Spec:       fleet.ClusterSpec{ClientID: random},
		}
		return p, nil
	}
	if existing.Spec.KubeConfigSecret != "" {
		return p, exit.Errorf(exit.Refused, "Cluster %s/%s names a kubeconfig: the hub installs its agent, and another one must not join as it", o.Workspace, o.Cluster).
			With(fmt.Sprintf("fleet repair %s -n %s", o.Cluster, o.Workspace))
	}
	if !existing.DeletionTimestamp.IsZero() {
		return p, exit.Errorf(exit.Refused, "Cluster %s/%s is being deleted", o.Workspace, o.Cluster).
			With(fmt.Sprintf("kubectl wait --for=delete clusters.fleet.cattle.io/%s -n %s", o.Cluster, o.Workspace))
	}
	if !existing.Status.Agent.LastSeen.IsZero() {
		p.warning = fmt.Sprintf("Cluster %s/%s has an agent already. A request that is not signed with that agent's key waits until you run: fleet confirm-takeover %s REQUEST -n %s",
			o.Workspace, o.Cluster, o.Cluster, o.Workspace)
	}
	p.clientID, p.registry, p.namespace = cmp.Or(existing.Spec.ClientID, random), existing.Spec.PrivateRepoURL, existing.Spec.AgentNamespace
	p.token.Annotations[annotation.TokenForClientID] = p.clientID
	spec := map[string]any{}
	if existing.Spec.ClientID == "" {
		spec["clientID"] = random
	}
	if len(spec) == 0 && labels.SelectorFromSet(o.Labels).Matches(labels.Set(existing.Labels)) {
		return p, nil
	}
	var err error
	p.patch, err = json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": existing.ResourceVersion, "labels": o.Labels}, "spec": spec,
	})
	return p, err
}

// gather reads what a plan needs, and returns the plan.
func gather(ctx context.Context, hub *access.Cluster, o Order) (plan, error) {
	token, err := access.Find(ctx, hub.Tokens(o.Workspace), "token "+o.Workspace+"/"+o.Name, o.Name)
	switch {
	case err != nil:
		return plan{}, err
	case token != nil:
		return plan{}, exists(o)
	}
	var existing *fleet.Cluster
	if o.Cluster != "" {
		if existing, err = access.Find(ctx, hub.Clusters(o.Workspace), "Cluster "+o.Workspace+"/"+o.Cluster, o.Cluster); err != nil {
			return plan{}, err
		}
	}
	random := make([]byte, 16)
	if _, err := io.ReadFull(o.Random, random); err != nil {
		return plan{}, fmt.Errorf("choosing a client ID: %w", err)
	}
	return newPlan(o, existing, hex.EncodeToString(random))
}

// Preview prints the objects that an order would write.
func Preview(ctx context.Context, hub *access.Cluster, o Order, out io.Writer, format output.Format) error {
	p, err := gather(ctx, hub, o)
	if err != nil {
		return err
	}
	if p.create != nil {
		return output.Objects(out, format, p.create, p.token)
	}
	if p.patch != nil {
		o.Warn("Cluster %s/%s exists and would get: %s", o.Workspace, o.Cluster, p.patch)
	}
	return output.Objects(out, format, p.token)
}

// Made names what was created. Names are empty for what existed.
type Made struct {
	Cluster, Token       types.NamespacedName
	ClusterUID, TokenUID types.UID
}

// Ensure is like `fleet token create`, but if the token exists, it returns the join text of that and changes nothing.
func Ensure(ctx context.Context, hub *access.Cluster, o Order) (jointext.Text, Made, error) {
	existing, err := hub.Tokens(o.Workspace).Get(ctx, o.Name, metav1.GetOptions{})
	if err != nil {
		return create(ctx, hub, o) // reports the error, if it is not that the token is missing
	}
	if existing.Annotations[annotation.TokenForCluster] != o.Cluster {
		return jointext.Text{}, Made{}, exists(o)
	}
	if _, _, err := awaitValues(ctx, hub, o, existing); err != nil {
		return jointext.Text{}, Made{}, err
	}
	text, err := textOf(ctx, hub, existing, o.Cluster)
	return text, Made{}, err
}

// AddLabels gives the labels of an order to a Cluster that exists.
func AddLabels(ctx context.Context, hub *access.Cluster, o Order) error {
	if len(o.Labels) == 0 {
		return nil
	}
	cluster, err := access.Find(ctx, hub.Clusters(o.Workspace), "Cluster "+o.Workspace+"/"+o.Cluster, o.Cluster)
	if err != nil || cluster == nil {
		return err
	}
	return access.AddLabels(ctx, hub, cluster, o.Labels)
}

// create creates the Cluster and the token of an order, waits for the values, and returns the join text. A token that
// exists is refused.
func create(ctx context.Context, hub *access.Cluster, o Order) (text jointext.Text, made Made, err error) {
	p, err := gather(ctx, hub, o)
	if err != nil {
		return text, made, err
	}
	if p.warning != "" && !o.TakeoverExplained {
		o.Warn("%s", o.Hub.On(p.warning))
	}
	if err := p.writeCluster(ctx, hub, o, &made); err != nil {
		return text, made, err
	}
	if err := p.writeToken(ctx, hub, o, &made); err != nil {
		if p.create != nil || p.patch != nil {
			err = exit.AfterChange(err)
		}
		return text, made, err
	}
	values, token, err := awaitValues(ctx, hub, o, p.token)
	if err != nil {
		return text, made, exit.AfterChange(err)
	}
	if values.APIServerCA == "" {
		o.Warn("%s", o.Hub.On("the hub has no CA for its agents: they trust the CAs of their system. To set one: helm upgrade -n cattle-fleet-system fleet charts/fleet --reset-then-reuse-values --set-file apiServerCA=hub-ca.pem"))
	}
	joins := fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Name: o.Cluster}, Spec: fleet.ClusterSpec{ClientID: p.clientID, PrivateRepoURL: p.registry, AgentNamespace: p.namespace}}
	return joinText(ctx, hub, values, joins, token), made, nil
}

func (p plan) writeCluster(ctx context.Context, hub *access.Cluster, o Order, made *Made) error {
	clusters := hub.Clusters(o.Workspace)
	switch {
	case p.create != nil:
		uid, err := access.Create(ctx, clusters, p.create, func(found *fleet.Cluster) bool { return found.Spec.ClientID == p.clientID })
		if uid != nil {
			made.Cluster, made.ClusterUID = types.NamespacedName{Namespace: o.Workspace, Name: o.Cluster}, *uid
		}
		if apierrors.IsAlreadyExists(err) {
			return exit.Errorf(exit.Failed, "Cluster %s/%s was created by another command at the same time", o.Workspace, o.Cluster).With("run the same command again")
		}
		return failedWrite(o, fmt.Sprintf("creating Cluster %s/%s", o.Workspace, o.Cluster), err)
	case p.patch != nil:
		if _, err := clusters.Patch(ctx, o.Cluster, types.MergePatchType, p.patch, metav1.PatchOptions{}); err != nil {
			return access.Explain(fmt.Sprintf("changing Cluster %s/%s", o.Workspace, o.Cluster), err)
		}
	}
	return nil
}

func (p plan) writeToken(ctx context.Context, hub *access.Cluster, o Order, made *Made) error {
	uid, err := access.Create(ctx, hub.Tokens(o.Workspace), p.token, func(found *fleet.ClusterRegistrationToken) bool {
		return equality.Semantic.DeepEqual(found.Spec, p.token.Spec) && found.Annotations[annotation.TokenForClientID] == p.token.Annotations[annotation.TokenForClientID]
	})
	if uid != nil {
		made.Token, made.TokenUID = types.NamespacedName{Namespace: o.Workspace, Name: o.Name}, *uid
	}
	if apierrors.IsAlreadyExists(err) {
		return exists(o)
	}
	return failedWrite(o, "creating token "+o.Workspace+"/"+o.Name, err)
}

// failedWrite returns the error for an object that was not created, or nil.
func failedWrite(o Order, doing string, err error) error {
	if apierrors.IsNotFound(err) && !access.IsMissingKind(err) {
		return access.NoWorkspace(o.Workspace)
	}
	return access.Explain(doing, err)
}

func exists(o Order) error {
	return exit.Errorf(exit.Refused, "token %s/%s exists already", o.Workspace, o.Name).
		With(fmt.Sprintf("fleet token show %s -n %s --with-secret", o.Name, o.Workspace), "or choose another name")
}

// awaitValues waits until the hub has written the Secret of a token.
func awaitValues(ctx context.Context, hub *access.Cluster, o Order, token *fleet.ClusterRegistrationToken) (protocol.Values, *fleet.ClusterRegistrationToken, error) {
	var values protocol.Values
	err := await.Poll(ctx, o.Timeout, func(ctx context.Context) (bool, error) {
		found, err := hub.Tokens(o.Workspace).Get(ctx, o.Name, metav1.GetOptions{})
		if err != nil {
			return false, vanished(o, token, err)
		}
		token = found
		if reason := final(token); reason != nil {
			return false, reason
		}
		if token.Status.SecretName == "" {
			return false, nil
		}
		values, err = readValues(ctx, hub, o.Workspace, o.Name)
		if apierrors.IsNotFound(err) || errors.Is(err, errNotYet) {
			return false, nil
		}
		return err == nil, err
	})
	if wait.Interrupted(err) {
		if ctx.Err() != nil {
			return values, token, fmt.Errorf("interrupted while waiting for the values of token %s/%s: %w", o.Workspace, o.Name, ctx.Err())
		}
		return values, token, late(o, token)
	}
	return values, token, err
}

// errNotYet means that the Secret of the token is not one with values.
var errNotYet = errors.New("the Secret contains no values of a token")

// readValues reads the values of a token. The error contains no part of the Secret.
func readValues(ctx context.Context, hub *access.Cluster, workspace, name string) (protocol.Values, error) {
	secret, err := hub.Core.CoreV1().Secrets(workspace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return protocol.Values{}, err
	}
	if err != nil {
		return protocol.Values{}, access.Explain(fmt.Sprintf("reading Secret %s/%s", workspace, name), err)
	}
	values, err := protocol.ParseValues(secret.Data[protocol.ValuesKey])
	if err != nil || secret.Type != protocol.SecretTypeValues {
		return protocol.Values{}, fmt.Errorf("reading Secret %s/%s: %w", workspace, name, errNotYet)
	}
	return values, nil
}

// vanished returns the error for a token that can no longer be read.
func vanished(o Order, last *fleet.ClusterRegistrationToken, err error) error {
	if !apierrors.IsNotFound(err) || access.IsMissingKind(err) {
		return access.Explain(fmt.Sprintf("reading token %s/%s", o.Workspace, o.Name), err)
	}
	if o.TTL == 0 {
		return exit.Errorf(exit.Refused, "the hub has deleted token %s/%s: it requires tokens to have a time to live", o.Workspace, o.Name).
			Because(conditions.ReasonTTLMissing).With(fmt.Sprintf("fleet token create %s -n %s --ttl 24h", o.Name, o.Workspace))
	}
	return exit.Errorf(exit.Refused, "token %s/%s was deleted while its values were awaited", last.Namespace, last.Name).
		With(fmt.Sprintf("fleet token create %s -n %s", o.Name, o.Workspace))
}

// final returns the error for a token whose condition does not change by itself, or nil.
func final(token *fleet.ClusterRegistrationToken) error {
	ready := conditions.Get(token.Status.Conditions, conditions.Ready)
	if ready == nil || ready.Status != corev1.ConditionFalse {
		return nil
	}
	switch ready.Reason {
	case conditions.ReasonTokenExpired, conditions.ReasonTTLMissing, conditions.ReasonTokenNameTooLong, conditions.ReasonSecretNameTaken, conditions.ReasonNameTaken:
		return exit.Errorf(exit.Refused, "token %s/%s gets no values: %s", token.Namespace, token.Name, output.Line(ready.Message)).Because(ready.Reason).
			With(fmt.Sprintf("fleet token revoke %s -n %s", token.Name, token.Namespace))
	}
	return nil
}

// late returns the error for values that did not come in time, with the hub's last report.
func late(o Order, token *fleet.ClusterRegistrationToken) error {
	failure := exit.Errorf(exit.Timeout, "the hub did not write the values of token %s/%s within %s", o.Workspace, o.Name, o.Timeout)
	if ready := conditions.Get(token.Status.Conditions, conditions.Ready); ready != nil && ready.Status == corev1.ConditionFalse {
		failure.Problems = append(failure.Problems, errors.New(output.Line(ready.Message)))
		failure.Reason = ready.Reason
	}
	return failure.With("kubectl get pods -n cattle-fleet-system -l app=fleet-controller",
		fmt.Sprintf("then print the text with: fleet token show %s -n %s --with-secret", o.Name, o.Workspace))
}

// missing returns the error for a token that cannot be read.
func missing(workspace, name string, err error) error {
	if apierrors.IsNotFound(err) && !access.IsMissingKind(err) {
		return exit.Errorf(exit.Failed, "token %s/%s does not exist", workspace, name).With("fleet token list -n " + workspace)
	}
	return access.Explain(fmt.Sprintf("reading token %s/%s", workspace, name), err)
}
