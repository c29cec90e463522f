// Package importcluster implements `fleet import`: how does the hub get access to a cluster, to install the agent there?
//
//	your kubeconfig ─► service account on the cluster ─► its token ─► kubeconfig Secret and Cluster on the hub ─► wait
//	                └─ --as-is ────────────────────────────────────────────┘
//
// The hub never gets your own credential, except with --as-is.
package importcluster

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/cmd/cli/await"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/cli/hubconfig"
	"github.com/fleet-hub/fleet/internal/cmd/cli/importaccount"
	"github.com/fleet-hub/fleet/internal/cmd/cli/output"
	"github.com/fleet-hub/fleet/internal/cmd/cli/remedy"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/kube/foreign"
	"github.com/fleet-hub/fleet/internal/kube/kubeconfig"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

const (
	defaultTimeout = 3 * time.Minute
	undoTimeout    = 45 * time.Second
	// settleTime is how long the conditions of a Cluster may be about its former kubeconfig.
	settleTime = 5 * time.Second
	// outsideTime is how long a problem on the cluster must last to end the import. The hub tries again meanwhile: an admission
	// webhook may not answer for a second.
	outsideTime = 30 * time.Second
)

// Imported is the result.
type Imported struct {
	Workspace string `json:"workspace"`
	Cluster   string `json:"cluster"`
	// Server is the address that the hub uses.
	Server string `json:"server"`
	// Already means that the cluster was imported before.
	Already bool `json:"already"`
	// LastSeen is the time of the last heartbeat in RFC 3339.
	LastSeen string `json:"lastSeen"`
}

type options struct {
	streams genericiooptions.IOStreams
	clock   func() time.Time
	flags   *access.Flags
	format  output.Format

	name, clusterContext, server string
	labels                       map[string]string
	asIs, keep, dryRun           bool
	timeout                      time.Duration
}

// New returns the command. clock returns the current time.
func New(streams genericiooptions.IOStreams, clock func() time.Time) *cobra.Command {
	o := &options{streams: streams, clock: clock, flags: access.NewFlags(), format: output.Table, timeout: defaultTimeout}
	command := &cobra.Command{
		Use:   "import NAME",
		Short: "Import a cluster: the hub installs the agent",
		Long: `Import gives the hub access to a cluster, and waits until the hub has installed the agent there and the agent reports. It
creates a service account with the rights of cluster-admin on the cluster of --cluster-context. The hub gets only its token.
Your own kubeconfig may run a command to log in (exec).

With --as-is the hub gets your kubeconfig itself. Import refuses one that the hub would refuse.

Import also refuses a cluster whose agent belongs to another Cluster of the hub, because that one would lose its agent.

If the import fails, import removes what it has created, unless --keep is given. It is safe to run import again. It then gives
the hub another kubeconfig if the cluster was created again at its address, if its agent is there and the address is another
one, or if the cluster no longer accepts the token of the hub.`,
		Example: `  fleet import east --cluster-context east --label env=prod
  fleet import east --cluster-context kind-east --server https://192.0.2.7:6443`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			o.name = args[0]
			return o.run(command.Context())
		},
	}
	flags := command.Flags()
	o.flags.Bind(flags)
	o.format.Bind(flags)
	flags.StringVar(&o.clusterContext, "cluster-context", "", "context of the cluster to import (required)")
	flags.StringVar(&o.server, "server", "", "https address by which the hub reaches the cluster (default: that of --cluster-context)")
	flags.StringToStringVar(&o.labels, "label", nil, "label of the Cluster, as key=value; may be repeated")
	flags.BoolVar(&o.asIs, "as-is", false, "give the hub your kubeconfig instead of the token of a service account")
	flags.BoolVar(&o.keep, "keep", false, "keep what was created if the import fails")
	flags.BoolVar(&o.dryRun, "dry-run", false, "check everything, print the objects without secrets, and write nothing")
	flags.DurationVar(&o.timeout, "timeout", o.timeout, "time to wait for the first heartbeat")
	return command
}

// check returns all problems of the flags.
func (o *options) check() error {
	failure := &exit.Error{Code: exit.Usage, Fixes: []string{"fleet import --help"}}
	if len(validation.IsDNS1123Subdomain(o.name)) > 0 || len(o.name) > validation.LabelValueMaxLength {
		failure.Problems = append(failure.Problems, fmt.Errorf("cluster name %q: use at most 63 lowercase letters, digits, dots and hyphens", o.name))
	}
	if o.clusterContext == "" {
		failure.Problems = append(failure.Problems, errors.New("--cluster-context is required"))
	}
	if o.server != "" && protocol.CheckHubURL(o.server) != nil {
		failure.Problems = append(failure.Problems, errors.New("--server is not an https URL"))
	}
	if _, err := labels.ValidatedSelectorFromSet(o.labels); err != nil {
		failure.Problems = append(failure.Problems, fmt.Errorf("--label: %w", err))
	}
	if len(failure.Problems) > 0 {
		return failure
	}
	return nil
}

// importer imports one cluster.
type importer struct {
	*options
	hub, cluster *access.Cluster
	account      *importaccount.Account
	kubeconfig   []byte
	address      string
	// madeSecret and madeCluster are the UIDs of what this run has created on the hub, or nil.
	madeSecret, madeCluster *types.UID
	// changedCluster is the UID of the Cluster to which this run has given the kubeconfig, or nil.
	changedCluster *types.UID
	// before is the Secret before this run has changed it, or nil.
	before *corev1.Secret
	// existing is the Cluster that the step was decided for, or nil.
	existing *fleet.Cluster
	// hadAgent means that an agent was on the cluster before. isOwn means that the existing Cluster is its Cluster.
	hadAgent, isOwn bool
	// changed means that this run may have changed something.
	changed bool
}

func (o *options) run(ctx context.Context) (err error) {
	if err := o.check(); err != nil {
		return err
	}
	i := &importer{options: o}
	todo, err := i.prepare(ctx)
	if err != nil {
		return err
	}
	if o.dryRun {
		return i.preview(todo)
	}
	defer func() {
		if err == nil || o.keep {
			return
		}
		i.undo(context.WithoutCancel(ctx))
	}()
	cluster, err := i.execute(ctx, todo)
	if err != nil {
		return err
	}
	return o.print(Imported{
		Workspace: cluster.Namespace, Cluster: cluster.Name, Server: i.address, Already: todo == stepNothing,
		LastSeen: cluster.Status.Agent.LastSeen.UTC().Format(time.RFC3339),
	})
}

func (o *options) print(result Imported) error {
	text := "imported as Cluster"
	if result.Already {
		text = "was imported already as Cluster"
	}
	return output.One(o.streams.Out, o.format, result, "cluster.fleet.cattle.io/"+result.Cluster,
		fmt.Sprintf("%s %s/%s", text, result.Workspace, result.Cluster))
}

func (o *options) progress(format string, args ...any) {
	fmt.Fprintf(o.streams.ErrOut, format+"\n", args...)
}

// prepare checks both sides. It writes nothing.
func (i *importer) prepare(ctx context.Context) (todo step, err error) {
	if i.hub, err = i.flags.Open(); err != nil {
		return "", err
	}
	other := i.flags.In(i.clusterContext)
	if i.cluster, err = other.Open(); err != nil {
		return "", err
	}
	if err := rest.LoadTLSFiles(i.cluster.Config); err != nil {
		return "", exit.Errorf(exit.Preflight, "reading the files of context %s: %w", i.clusterContext, err).With("kubectl config view --minify --context " + i.clusterContext)
	}
	i.address = cmp.Or(i.server, i.cluster.Config.Host)
	if err := i.checkKubeconfig(ctx, other); err != nil {
		return "", err
	}
	if err := i.checkNotHub(ctx); err != nil {
		return "", err
	}
	if err := i.checkWorkspace(ctx); err != nil {
		return "", err
	}
	return i.decide(ctx)
}

// checkWorkspace refuses a workspace that does not exist. If the user may not read it, the first write fails instead.
func (i *importer) checkWorkspace(ctx context.Context) error {
	_, err := i.hub.Core.CoreV1().Namespaces().Get(ctx, i.flags.Namespace(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return access.NoWorkspace(i.flags.Namespace())
	}
	return nil
}

// decide reads what is on the hub and on the cluster, and returns what to do.
func (i *importer) decide(ctx context.Context) (todo step, err error) {
	existing, err := access.Find(ctx, i.hub.Clusters(i.flags.Namespace()), "Cluster "+i.fullName(), i.name)
	if err != nil {
		return "", err
	}
	name := importaccount.KubeconfigSecret(i.name)
	secret, err := access.Find(ctx, i.hub.Core.CoreV1().Secrets(i.flags.Namespace()), "Secret "+i.flags.Namespace()+"/"+name, name)
	if err != nil {
		return "", err
	}
	i.existing = existing
	i.isOwn = i.hasOwnAgent(ctx)
	todo, err = decide(i.options, existing, secret, i.address, i.isOwn)
	switch {
	case err != nil:
		return "", err
	case todo == stepNothing && i.isOwn && !failedOutside(existing) && i.isGiven(ctx, secret):
		return stepNothing, nil
	case todo == stepNothing: // the cluster was created again, it no longer accepts the hub's token, or its last import has failed
		todo = stepWait
	}
	return only(todo, i.checkAgent(ctx))
}

// isGiven reports whether the hub has the kubeconfig that this run would give to it.
func (i *importer) isGiven(ctx context.Context, secret *corev1.Secret) bool {
	wanted := i.kubeconfig
	if !i.asIs {
		token, err := i.account.Token(ctx)
		if err != nil || token == "" {
			return false
		}
		if wanted, err = own(i.cluster.Config, i.address, token); err != nil {
			return false
		}
	}
	return bytes.Equal(secret.Data[protocol.KubeconfigValueKey], wanted)
}

// readIdentity reads the identity of the agent on the cluster. It returns false if the cluster has no agent, or if the user
// may not read it.
func (i *importer) readIdentity(ctx context.Context, namespace string) (protocol.Identity, bool) {
	secret, err := i.cluster.Core.CoreV1().Secrets(namespace).Get(ctx, names.Agent, metav1.GetOptions{})
	if err != nil {
		return protocol.Identity{}, false
	}
	identity, err := protocol.ParseIdentity(secret.Data)
	return identity, err == nil
}

// hasOwnAgent reports whether the agent on the cluster is that of the Cluster.
func (i *importer) hasOwnAgent(ctx context.Context) bool {
	identity, found := i.readIdentity(ctx, i.agentNamespace())
	return found && i.existing != nil && identity.ClusterNamespace == i.existing.Namespace && identity.ClusterName == i.existing.Name &&
		identity.DeploymentNamespace == i.existing.Status.Namespace
}

// checkAgent refuses a cluster whose agent is that of another Cluster of this hub: the import would take the agent and its
// workloads away from that Cluster. A Cluster with an agent namespace of its own gets a second agent. What the user may not
// read is not checked.
func (i *importer) checkAgent(ctx context.Context) error {
	if i.existing != nil && i.existing.Spec.AgentNamespace != "" {
		return nil
	}
	identity, found := i.readIdentity(ctx, names.SystemNamespace)
	if !found {
		return nil
	}
	other, err := i.hub.Clusters(identity.ClusterNamespace).Get(ctx, identity.ClusterName, metav1.GetOptions{})
	if err != nil {
		return nil //nolint:nilerr // the Cluster is gone, or the agent is that of another hub
	}
	return checkOther(i.options, identity, other)
}

// there makes the commands that fix an error reach the cluster, not the hub.
func (i *importer) there(err error) error {
	return exit.Reach(err, i.flags.In(i.clusterContext).Target())
}

func (i *importer) fullName() string { return i.flags.Namespace() + "/" + i.name }

// checkKubeconfig checks the kubeconfig that the hub would get, as the hub does. The token comes later.
func (i *importer) checkKubeconfig(ctx context.Context, other *access.Flags) error {
	var err error
	if i.asIs {
		raw, rawErr := other.RawConfig()
		if rawErr != nil {
			return exit.Errorf(exit.Preflight, "reading the kubeconfig failed").With("kubectl config get-contexts")
		}
		i.kubeconfig, err = asIs(raw, i.clusterContext, i.server)
	} else {
		i.kubeconfig, err = own(i.cluster.Config, i.address, "checked-before-it-exists")
	}
	if err != nil {
		return exit.Errorf(exit.Preflight, "reading context %s of the kubeconfig failed", i.clusterContext).With("kubectl config get-contexts")
	}
	settings, unknown := hubconfig.Find(ctx, i.hub.Core, config.Config{})
	controller, unread := i.hub.Core.AppsV1().Deployments(names.SystemNamespace).Get(ctx, names.ControllerConfig, metav1.GetOptions{})
	err = check(i.kubeconfig, settings, unread == nil && hubconfig.AllowsInsecure(controller), i.clock())
	for _, rule := range []struct{ unread, refusal error }{{unknown, foreign.ErrKubeconfigAddress}, {unread, kubeconfig.ErrKubeconfigInsecure}} {
		if rule.unread != nil && errors.Is(err, rule.refusal) {
			i.progress("warning: %s. You cannot read the hub's settings, so this is tried", rule.refusal)
			return nil
		}
	}
	return err
}

// checkNotHub refuses the hub's own cluster. It sets the account.
func (i *importer) checkNotHub(ctx context.Context) error {
	hub, err := i.hub.UID(ctx)
	if err != nil {
		return err
	}
	own, err := i.cluster.UID(ctx)
	if err != nil {
		return i.there(err)
	}
	if own != hub {
		i.account = importaccount.New(i.cluster.Core, string(hub), i.flags.Namespace(), i.name)
		return nil
	}
	return exit.Errorf(exit.Refused, "context %s points to the hub's own cluster", i.clusterContext).Because(conditions.ReasonTargetIsHub).
		With("select another cluster with --cluster-context: kubectl config get-contexts", "the hub's own Cluster is controlled by the value bootstrap.enabled of the chart fleet")
}

// objects returns the objects on the hub.
func (i *importer) objects() (*corev1.Secret, *fleet.Cluster) {
	secret := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: i.flags.Namespace(), Name: importaccount.KubeconfigSecret(i.name), Labels: importaccount.Labels()},
		Data:       map[string][]byte{protocol.KubeconfigValueKey: i.kubeconfig},
	}
	return secret, &fleet.Cluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: fleet.SchemeGroupVersion.String(), Kind: "Cluster"},
		ObjectMeta: metav1.ObjectMeta{Namespace: i.flags.Namespace(), Name: i.name, Labels: i.labels},
		Spec:       fleet.ClusterSpec{KubeConfigSecret: secret.Name},
	}
}

// preview prints the objects that write would write, without secrets.
func (i *importer) preview(todo step) error {
	secret, cluster := i.objects()
	switch {
	case todo == stepNothing && len(i.labels) == 0:
		return nil
	case todo == stepNothing:
		return output.Objects(i.streams.Out, i.format, cluster)
	}
	if todo == stepWait && i.isTriedAgain() {
		cluster.Spec.RedeployAgentGeneration = access.NextGeneration(i.existing)
	}
	secret.Data = map[string][]byte{protocol.KubeconfigValueKey: []byte("REMOVED")}
	all := []any{secret, cluster}
	if !i.asIs {
		account, binding, token := i.account.Objects()
		all = append([]any{account, binding, token}, all...)
	}
	return output.Objects(i.streams.Out, i.format, all...)
}

// execute writes, and waits until the agent reports.
func (i *importer) execute(ctx context.Context, todo step) (cluster *fleet.Cluster, err error) {
	if err = i.write(ctx, todo); err == nil {
		cluster, err = i.await(ctx, todo)
	}
	if i.changed {
		err = exit.AfterChange(err)
	}
	return cluster, err
}

// write creates what is missing on both sides.
func (i *importer) write(ctx context.Context, todo step) error {
	if todo == stepNothing {
		err := access.AddLabels(ctx, i.hub, i.existing, i.labels)
		i.changed = err == nil && len(i.labels) > 0
		return err
	}
	i.hadAgent = i.hasAgent(ctx)
	if err := access.Unmark(ctx, i.cluster.Core, i.agentNamespace()); err != nil {
		return i.there(err)
	}
	if !i.asIs {
		i.changed = true
		token, err := i.account.Ensure(ctx)
		if err != nil {
			return i.there(err)
		}
		if i.kubeconfig, err = own(i.cluster.Config, i.address, token); err != nil {
			return errors.New("encoding the kubeconfig failed")
		}
		i.progress("service account %s/%s on the cluster: ready", metav1.NamespaceSystem, i.account.Name)
	}
	secret, cluster := i.objects()
	if err := i.writeSecret(ctx, secret); err != nil {
		return err
	}
	i.changed = true
	if err := i.writeCluster(ctx, todo, cluster); err != nil {
		return err
	}
	i.progress("Cluster %s on the hub: written, with Secret %s", i.fullName(), secret.Name)
	return nil
}

// conflictLimit is how often a decision is repeated because another client has changed the Cluster.
const conflictLimit = 5

// writeCluster creates the Cluster, or gives the kubeconfig to one without an agent. If another client has changed or created
// it meanwhile, it decides again.
func (i *importer) writeCluster(ctx context.Context, todo step, cluster *fleet.Cluster) error {
	for range conflictLimit - 1 {
		err := i.tryCluster(ctx, todo, cluster)
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			return err
		}
		if todo, err = i.decide(ctx); err != nil {
			return err
		}
	}
	return i.tryCluster(ctx, todo, cluster)
}

// tryCluster is one attempt of writeCluster. A Cluster that names the kubeconfig gets the labels. If its last import has failed for
// a cause on the cluster, the hub tries again at once.
func (i *importer) tryCluster(ctx context.Context, todo step, cluster *fleet.Cluster) (err error) {
	clusters := i.hub.Clusters(cluster.Namespace)
	isOurs := func(found *fleet.Cluster) bool { return found.Spec.KubeConfigSecret == cluster.Spec.KubeConfigSecret }
	switch todo {
	case stepCreate:
		i.madeCluster, err = access.Create(ctx, clusters, cluster, isOurs)
		return access.Explain("creating Cluster "+i.fullName(), err)
	case stepChange:
		change := func(ctx context.Context) (*fleet.Cluster, error) {
			return access.Patch(ctx, clusters, cluster.Name, map[string]any{
				"metadata": map[string]any{"labels": i.labels, "uid": i.existing.UID, "resourceVersion": i.existing.ResourceVersion},
				"spec":     map[string]any{"kubeConfigSecret": cluster.Spec.KubeConfigSecret},
			})
		}
		read := func(ctx context.Context) (*fleet.Cluster, error) {
			return clusters.Get(ctx, cluster.Name, metav1.GetOptions{})
		}
		i.changedCluster, err = access.Write(ctx, change, read, isOurs)
		return access.Explain("changing Cluster "+i.fullName(), err)
	}
	if i.isTriedAgain() {
		if err := access.Reinstall(ctx, i.hub, i.existing); err != nil {
			return err
		}
	}
	return access.AddLabels(ctx, i.hub, i.existing, i.labels)
}

// isTriedAgain reports whether the hub has to try an import again that has failed. An agent that has reported must not register
// again: its installation could fail once more. The hub tries by itself.
func (i *importer) isTriedAgain() bool {
	return failedOutside(i.existing) && i.existing.Status.Agent.LastSeen.IsZero()
}

func (i *importer) writeSecret(ctx context.Context, secret *corev1.Secret) error {
	isOurs := func(found *corev1.Secret) bool { return importaccount.IsOurs(found) }
	made, err := access.Create(ctx, i.hub.Core.CoreV1().Secrets(secret.Namespace), secret, isOurs)
	i.madeSecret = made
	switch {
	case apierrors.IsAlreadyExists(err): // of an earlier run
		return i.changeSecret(ctx, secret)
	case apierrors.IsNotFound(err):
		return access.NoWorkspace(secret.Namespace)
	}
	return access.Explain(fmt.Sprintf("creating Secret %s/%s", secret.Namespace, secret.Name), err)
}

// changeSecret writes the kubeconfig into a Secret of an earlier run.
func (i *importer) changeSecret(ctx context.Context, secret *corev1.Secret) error {
	secrets, doing := i.hub.Core.CoreV1().Secrets(secret.Namespace), fmt.Sprintf("changing Secret %s/%s", secret.Namespace, secret.Name)
	existing, err := secrets.Get(ctx, secret.Name, metav1.GetOptions{})
	if err != nil {
		return access.Explain(doing, err)
	}
	if err := checkSecret(existing); err != nil {
		return err
	}
	if !mayMove(i.existing, i.isOwn) {
		if err := checkServer(existing, i.address); err != nil {
			return err
		}
	}
	switch other, err := importaccount.SharedBy(ctx, i.hub, secret.Namespace, i.name); {
	case err != nil:
		return err
	case other != "":
		return exit.Errorf(exit.Refused, "Secret %s/%s is the kubeconfig of Cluster %s, too", secret.Namespace, secret.Name, other).With("import under another name")
	}
	written, err := access.Write(ctx,
		func(ctx context.Context) (*corev1.Secret, error) {
			return i.patchSecret(ctx, existing, existing.ResourceVersion, secret.Data)
		},
		func(ctx context.Context) (*corev1.Secret, error) {
			return secrets.Get(ctx, secret.Name, metav1.GetOptions{})
		},
		func(found *corev1.Secret) bool { return found.UID == existing.UID && hasData(found, secret.Data) })
	if written != nil {
		i.before = existing
	}
	return access.Explain(doing, err)
}

// patchSecret replaces data of a Secret, if it has this resource version. A nil value removes a key.
func (i *importer) patchSecret(ctx context.Context, secret *corev1.Secret, version string, data map[string][]byte) (*corev1.Secret, error) {
	return access.Patch(ctx, i.hub.Core.CoreV1().Secrets(secret.Namespace), secret.Name, map[string]any{
		"metadata": map[string]any{"uid": secret.UID, "resourceVersion": version}, "data": data,
	})
}

// hasData reports whether a Secret contains data.
func hasData(secret *corev1.Secret, data map[string][]byte) bool {
	for key, value := range data {
		if !bytes.Equal(secret.Data[key], value) {
			return false
		}
	}
	return true
}

// restoreSecret restores a Secret that this run has changed, unless another client has changed it since.
func (i *importer) restoreSecret(ctx context.Context) error {
	now, err := i.hub.Core.CoreV1().Secrets(i.before.Namespace).Get(ctx, i.before.Name, metav1.GetOptions{})
	if err != nil {
		return utilerrors.FilterOut(err, apierrors.IsNotFound)
	}
	written, _ := i.objects()
	if now.UID != i.before.UID || !hasData(now, written.Data) {
		return nil
	}
	data := map[string][]byte{}
	for key := range written.Data {
		data[key] = i.before.Data[key]
	}
	_, err = i.patchSecret(ctx, now, now.ResourceVersion, data)
	return utilerrors.FilterOut(err, apierrors.IsNotFound)
}

// await waits until the hub has imported the cluster and its agent reports.
func (i *importer) await(ctx context.Context, todo step) (*fleet.Cluster, error) {
	var last *fleet.Cluster
	began, before, problem := i.clock(), i.existing, outsideProblem{}
	err := await.Poll(ctx, i.timeout, func(ctx context.Context) (bool, error) {
		found, err := i.hub.Clusters(i.flags.Namespace()).Get(ctx, i.name, metav1.GetOptions{})
		if err != nil {
			return false, access.Explain("reading Cluster "+i.fullName(), err)
		}
		last = found
		if todo == stepWait && i.clock().Sub(began) < settleTime {
			return false, nil
		}
		done, err := state(found)
		passing := problem.isPassing(found, i.clock())
		switch {
		case err != nil && (passing || todo != stepNothing && isEarlier(before, found)):
			return false, nil
		case !done || todo != stepWait:
			return done, err
		}
		i.existing = found
		return i.hasOwnAgent(ctx), nil
	})
	switch {
	case ctx.Err() != nil:
		return last, exit.Errorf(exit.Failed, "interrupted while Cluster %s was imported", i.fullName()).With("run the same command again: it continues")
	case wait.Interrupted(err):
		return last, late(last, i.fullName(), i.timeout, i.keep)
	}
	return last, err
}

// undo removes what this run has created.
func (i *importer) undo(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, undoTimeout)
	defer cancel()
	var problems []error
	if i.madeCluster != nil {
		options := metav1.NewPreconditionDeleteOptions(string(*i.madeCluster))
		problems = append(problems, utilerrors.FilterOut(i.hub.Clusters(i.flags.Namespace()).Delete(ctx, i.name, *options), apierrors.IsNotFound))
	}
	if i.changedCluster != nil {
		problems = append(problems, i.revertCluster(ctx))
	}
	if i.before != nil {
		problems = append(problems, i.restoreSecret(ctx))
	}
	if i.madeSecret != nil {
		options := metav1.NewPreconditionDeleteOptions(string(*i.madeSecret))
		problems = append(problems, utilerrors.FilterOut(i.hub.Core.CoreV1().Secrets(i.flags.Namespace()).Delete(ctx, importaccount.KubeconfigSecret(i.name), *options), apierrors.IsNotFound))
	}
	problems = append(problems, i.account.Undo(ctx))
	if err := errors.Join(problems...); err != nil {
		i.progress("warning: removing what was created: %s", foreign.Excerpt(err.Error(), 1024))
	} else if i.madeCluster != nil || i.madeSecret != nil || i.account.Created() {
		i.progress("removed what was created; to keep it for a look, use --keep")
	}
	if i.madeCluster != nil && !i.hadAgent && i.hasAgent(ctx) {
		i.progress("the hub had installed the agent already, which stays. To remove it: %s",
			i.flags.In(i.clusterContext).Target().On(remedy.Command("kubectl", "delete", "namespace", names.SystemNamespace)))
	}
}

// revertCluster takes the kubeconfig away from a Cluster that existed before, which can then join with a token again.
func (i *importer) revertCluster(ctx context.Context) error {
	_, err := access.Patch(ctx, i.hub.Clusters(i.flags.Namespace()), i.name, map[string]any{
		"metadata": map[string]any{"uid": *i.changedCluster}, "spec": map[string]any{"kubeConfigSecret": nil},
	})
	return utilerrors.FilterOut(err, apierrors.IsNotFound)
}

// agentNamespace returns the namespace in which the hub installs the agent.
func (i *importer) agentNamespace() string {
	if i.existing != nil && i.existing.Spec.AgentNamespace != "" {
		return i.existing.Spec.AgentNamespace
	}
	return names.SystemNamespace
}

// hasAgent reports whether there is an agent on the cluster. An error counts as no.
func (i *importer) hasAgent(ctx context.Context) bool {
	_, err := i.cluster.Core.AppsV1().Deployments(names.SystemNamespace).Get(ctx, names.Agent, metav1.GetOptions{})
	return err == nil
}
