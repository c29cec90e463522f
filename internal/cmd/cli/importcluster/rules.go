package importcluster

import (
	"errors"
	"fmt"
	"time"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/cli/importaccount"
	"github.com/fleet-hub/fleet/internal/cmd/cli/output"
	"github.com/fleet-hub/fleet/internal/cmd/cli/remedy"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/kube/foreign"
	"github.com/fleet-hub/fleet/internal/kube/kubeconfig"
	"github.com/fleet-hub/fleet/internal/protocol"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// contextName is the name of the only context in the kubeconfig of the hub.
const contextName = "default"

// own returns a kubeconfig with this token for the server of cfg. It contains nothing else of cfg but the CA.
func own(cfg *rest.Config, server, token string) ([]byte, error) {
	all := clientcmdapi.NewConfig()
	all.Clusters[contextName] = &clientcmdapi.Cluster{
		Server: server, CertificateAuthorityData: cfg.CAData, InsecureSkipTLSVerify: cfg.Insecure, TLSServerName: cfg.ServerName,
	}
	all.AuthInfos[contextName] = &clientcmdapi.AuthInfo{Token: token}
	all.Contexts[contextName] = &clientcmdapi.Context{Cluster: contextName, AuthInfo: contextName}
	all.CurrentContext = contextName
	return clientcmd.Write(*all)
}

// asIs returns the part of a kubeconfig that belongs to a context.
func asIs(raw clientcmdapi.Config, context, server string) ([]byte, error) {
	if context != "" {
		raw.CurrentContext = context
	}
	raw = *raw.DeepCopy()
	if err := clientcmdapi.MinifyConfig(&raw); err != nil {
		return nil, err
	}
	for _, cluster := range raw.Clusters {
		if server != "" {
			cluster.Server = server
		}
	}
	return clientcmd.Write(raw)
}

// check returns why a hub with these settings would refuse a kubeconfig, or nil. insecure means that the kubeconfig may skip the
// verification of certificates.
func check(document []byte, settings config.Config, insecure bool, now time.Time) error {
	_, err := foreign.Config(document, foreign.Options{
		AnyAddress: settings.AllowLocalKubeconfigs, Insecure: insecure, Refused: settings.RefusedNetworks(), Now: now,
	})
	if err == nil {
		return nil
	}
	failure := exit.Errorf(exit.Refused, "the hub would refuse the kubeconfig: %w", err).Because(reasonOf(err))
	switch {
	case errors.Is(err, foreign.ErrKubeconfigAddress):
		return failure.With("give the address by which the hub reaches the cluster: --server https://HOST:6443")
	case errors.Is(err, kubeconfig.ErrKubeconfigInsecure):
		return failure.With("embed the CA: kubectl config set-cluster CLUSTER --certificate-authority=FILE --embed-certs, and remove insecure-skip-tls-verify")
	case errors.Is(err, foreign.ErrKubeconfigProxy), errors.Is(err, foreign.ErrKubeconfigPlain):
		return failure.With("give an https address that needs no proxy: --server https://HOST:6443")
	}
	return failure.With("leave out --as-is: then the hub gets the token of a service account of its own")
}

func reasonOf(err error) string {
	switch {
	case errors.Is(err, foreign.ErrKubeconfigExpired):
		return conditions.ReasonKubeconfigExpired
	case errors.Is(err, kubeconfig.ErrKubeconfigMalformed), errors.Is(err, kubeconfig.ErrKubeconfigContext):
		return conditions.ReasonKubeconfigInvalid
	}
	return conditions.ReasonKubeconfigRefused
}

// step is what an import does.
type step string

const (
	stepCreate  step = "create"  // creates the Cluster
	stepChange  step = "change"  // names the kubeconfig in a Cluster without an agent
	stepWait    step = "wait"    // writes the kubeconfig of a Cluster that names it, and waits for the agent
	stepNothing step = "nothing" // the cluster is imported
)

// decide returns what to do with a Cluster. existing and secret are nil if they do not exist. isOwn means that the agent on the
// cluster is that of the Cluster.
func decide(o *options, existing *fleet.Cluster, secret *corev1.Secret, server string, isOwn bool) (step, error) {
	name := o.flags.Namespace() + "/" + o.name
	if err := checkSecret(secret); err != nil {
		return "", err
	}
	if existing == nil {
		return only(stepCreate, checkServer(secret, server))
	}
	if existing.Spec.KubeConfigSecret != "" && existing.DeletionTimestamp.IsZero() {
		return decideImported(o, existing, secret, server, isOwn)
	}
	switch {
	case !existing.DeletionTimestamp.IsZero():
		return "", exit.Errorf(exit.Refused, "Cluster %s is being deleted", name).
			With(fmt.Sprintf("kubectl wait --for=delete clusters.fleet.cattle.io/%s -n %s", o.name, o.flags.Namespace()))
	case !existing.Status.Agent.LastSeen.IsZero():
		return "", exit.Errorf(exit.Refused, "Cluster %s has joined with a token, and its agent reports", name).
			With(fmt.Sprintf("import under another name, or run first: fleet unregister %s -n %s", o.name, o.flags.Namespace()))
	}
	return only(stepChange, checkServer(secret, server))
}

// checkOther refuses a cluster whose agent has the identity of another Cluster.
func checkOther(o *options, identity protocol.Identity, other *fleet.Cluster) error {
	same := other.Namespace == o.flags.Namespace() && other.Name == o.name
	if same || other.Status.Namespace != identity.DeploymentNamespace || !other.DeletionTimestamp.IsZero() {
		return nil
	}
	return exit.Errorf(exit.Refused, "context %s points to a cluster that is registered as Cluster %s/%s: the import would take its agent away",
		o.clusterContext, other.Namespace, other.Name).Because(conditions.ReasonImportedTwice).
		With("select another cluster with --cluster-context: kubectl config get-contexts",
			"to move it here, with its workloads (docs/uninstall.md#move-a-cluster), run first: "+remedy.Command("fleet", "unregister", other.Name, "-n", other.Namespace,
				"--keep-workloads", "--keep-agent", "--cluster-context", o.clusterContext),
			"to install a second agent, create the Cluster with its own spec.agentNamespace, and run the command again")
}

// only returns the step, unless there is an error.
func only(todo step, err error) (step, error) {
	if err != nil {
		return "", err
	}
	return todo, nil
}

// checkServer refuses a Secret with the kubeconfig of another cluster. It may be nil.
func checkServer(secret *corev1.Secret, server string) error {
	if secret == nil {
		return nil
	}
	other := serverOf(secret.Data[protocol.KubeconfigValueKey])
	if other == server {
		return nil
	}
	return exit.Errorf(exit.Refused, "Secret %s/%s has the kubeconfig of another address: %s", secret.Namespace, secret.Name, output.Line(other)).
		With(fmt.Sprintf("delete it if nothing needs it: kubectl delete secret -n %s %s", secret.Namespace, secret.Name), "or import under another name")
}

// checkSecret refuses a Secret that this command has not created. It may be nil.
func checkSecret(secret *corev1.Secret) error {
	if secret == nil || importaccount.IsOurs(secret) {
		return nil
	}
	return exit.Errorf(exit.Refused, "Secret %s/%s exists and was not created by this command", secret.Namespace, secret.Name).
		With(fmt.Sprintf("delete it if nothing needs it: kubectl delete secret -n %s %s", secret.Namespace, secret.Name), "or import under another name")
}

// decideImported is the part of decide for a Cluster that names a kubeconfig.
func decideImported(o *options, existing *fleet.Cluster, secret *corev1.Secret, server string, isOwn bool) (step, error) {
	name := o.flags.Namespace() + "/" + o.name
	switch {
	case existing.Spec.KubeConfigSecret != importaccount.KubeconfigSecret(o.name) || existing.Spec.KubeConfigSecretNamespace != "":
		return "", exit.Errorf(exit.Refused, "Cluster %s names another kubeconfig Secret: %s", name, output.Line(existing.Spec.KubeConfigSecret)).
			With(fmt.Sprintf("fleet repair %s -n %s", o.name, o.flags.Namespace()), "or import under another name")
	case secret == nil:
		return stepWait, nil
	case serverOf(secret.Data[protocol.KubeconfigValueKey]) != server && !mayMove(existing, isOwn):
		return "", exit.Errorf(exit.Refused, "Cluster %s was imported from another address: %s", name, output.Line(serverOf(secret.Data[protocol.KubeconfigValueKey]))).
			With("if this is another cluster, import it under another name",
				fmt.Sprintf("if it takes the place of the former one, run first: fleet unregister %s -n %s --keep-workloads", o.name, o.flags.Namespace()))
	case serverOf(secret.Data[protocol.KubeconfigValueKey]) != server, existing.Status.Agent.LastSeen.IsZero():
		return stepWait, nil
	}
	return stepNothing, nil
}

// mayMove reports whether a Cluster may get a kubeconfig with another address: its agent is on the cluster, or none has reported.
func mayMove(existing *fleet.Cluster, isOwn bool) bool {
	return existing != nil && existing.Spec.KubeConfigSecret != "" && (isOwn || existing.Status.Agent.LastSeen.IsZero())
}

// serverOf returns the address in a kubeconfig, or an empty text.
func serverOf(document []byte) string {
	cfg, err := kubeconfig.SafeOrInsecure(document, true)
	if err != nil {
		return ""
	}
	return cfg.Host
}

// importedOf returns the condition Imported of a Cluster, or nil.
func importedOf(cluster *fleet.Cluster) *genericcondition.GenericCondition {
	return conditions.Get(cluster.Status.Conditions, conditions.Imported)
}

// failedOutside reports whether the last import of a Cluster has failed for a cause on the cluster. The hub gets no event when that
// is corrected.
func failedOutside(cluster *fleet.Cluster) bool {
	imported := importedOf(cluster)
	return imported != nil && imported.Status == corev1.ConditionFalse && remedy.IsOutside(imported.Reason)
}

// outsideProblem is since when the imports of a Cluster fail for a cause on the cluster, or the zero value.
type outsideProblem struct{ since time.Time }

// isPassing reports whether the last import of a Cluster has failed for a cause on the cluster that may end by itself. Call it at
// each look.
func (p *outsideProblem) isPassing(cluster *fleet.Cluster, now time.Time) bool {
	switch {
	case !failedOutside(cluster):
		p.since = time.Time{}
	case p.since.IsZero():
		p.since = now
	}
	return !p.since.IsZero() && now.Sub(p.since) < outsideTime
}

// isEarlier reports whether the condition Imported is still that from before the write. The hub changes it when an attempt ends, and
// not for the same failure. before may be nil.
func isEarlier(before, now *fleet.Cluster) bool {
	if before == nil {
		return false
	}
	was, is := importedOf(before), importedOf(now)
	return was != nil && is != nil && was.Reason == is.Reason && was.Message == is.Message && was.LastUpdateTime == is.LastUpdateTime
}

// state returns whether a Cluster is imported and reports, or the error for a problem that only a person can solve.
func state(cluster *fleet.Cluster) (done bool, err error) {
	imported := importedOf(cluster)
	if imported == nil {
		return false, nil
	}
	failure := exit.Errorf(exit.Refused, "the hub cannot import Cluster %s/%s: %s", cluster.Namespace, cluster.Name, output.Line(imported.Message)).Because(imported.Reason)
	switch {
	case imported.Status == corev1.ConditionTrue:
		return !cluster.Status.Agent.LastSeen.IsZero(), nil
	case imported.Status == corev1.ConditionFalse && remedy.StopsImport(imported.Reason):
		return false, failure.With("do what the message says, and run the command again")
	case imported.Reason == conditions.ReasonImportedTwice:
		return false, failure.With(importedTwice(cluster.Namespace)...)
	}
	return false, nil
}

// importedTwice returns the ways out if another Cluster of the hub has the agent of the cluster.
func importedTwice(workspace string) []string {
	return []string{
		"keep the Cluster that the message names, and import nothing: fleet clusters -n " + workspace,
		"to install a second agent, create the Cluster with its own spec.agentNamespace, and run the command again",
	}
}

// late returns the error for a Cluster that does not report in time, with the hub's last report. kept means that the Cluster
// stays.
func late(cluster *fleet.Cluster, name string, timeout time.Duration, kept bool) error {
	failure := exit.Errorf(exit.Timeout, "Cluster %s did not report within %s", name, timeout).Because(conditions.ReasonAwaitingAgent)
	if cluster == nil {
		return failure.With("run the command again: it continues")
	}
	for _, kind := range []string{conditions.Imported, conditions.AgentReporting} {
		condition := conditions.Get(cluster.Status.Conditions, kind)
		if condition != nil && condition.Status == corev1.ConditionFalse {
			failure.Reason = condition.Reason
			failure.Problems = append(failure.Problems, errors.New(output.Line(condition.Message)))
			break
		}
	}
	switch {
	case failure.Reason == conditions.ReasonImportedTwice:
		return failure.With(importedTwice(cluster.Namespace)...)
	case remedy.StopsImport(failure.Reason):
		return failure.With("do what the message says, and run the command again")
	}
	describe := "fleet clusters describe " + cluster.Name + " -n " + cluster.Namespace
	if kept {
		return failure.With(describe)
	}
	return failure.With("run the command again with --keep, then: " + describe)
}
