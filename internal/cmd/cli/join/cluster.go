package join

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/release"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/cmd/cli/agentrelease"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/cli/hubclient"
	"github.com/fleet-hub/fleet/internal/cmd/cli/join/agentpod"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/kube/foreign"
	"github.com/fleet-hub/fleet/internal/kube/kubeconfig"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// checkRights returns an error that names all rights that are missing.
func checkRights(ctx context.Context, core kubernetes.Interface, namespace string) error {
	all, err := allowed(ctx, core, everything())
	if err != nil || all {
		return err
	}
	var missing []right
	for _, r := range neededRights(namespace) {
		has, err := allowed(ctx, core, r)
		if err != nil {
			return err
		}
		if !has {
			missing = append(missing, r)
		}
	}
	return missingRights(missing)
}

func allowed(ctx context.Context, core kubernetes.Interface, r right) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: r.verb, Group: r.group, Resource: r.resource, Namespace: r.namespace},
	}}
	answer, err := core.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, access.Explain("asking the cluster for your rights", err)
	}
	return answer.Status.Allowed, nil
}

// gather reads what is on the cluster, and what the hub says about it.
func (j *joiner) gather(ctx context.Context) (found, error) {
	f := found{here: j.flags.Target(), hub: j.hubTarget(), namespace: j.namespace, scoped: j.isScoped()}
	if err := j.onCluster(j.readCluster(ctx, &f)); err != nil {
		return f, err
	}
	err := j.readHubsView(ctx, &f)
	return f, err
}

// readCluster reads what is on the cluster.
func (j *joiner) readCluster(ctx context.Context, f *found) error {
	core := j.cluster.Core
	existing, err := access.Find(ctx, core.CoreV1().Namespaces(), "namespace "+f.namespace, f.namespace)
	if err != nil {
		return err
	}
	f.exists = existing != nil
	f.terminating = f.exists && existing.Status.Phase == corev1.NamespaceTerminating
	if f.ownHub, err = j.isHub(ctx); err != nil {
		return err
	}
	if f.others, err = otherAgents(ctx, core, f.namespace); err != nil || !f.exists {
		return err
	}
	if err := f.readObjects(ctx, core); err != nil {
		return err
	}
	if f.release, err = j.helm.Status(); err != nil {
		return access.Explain("reading Helm releases", err)
	}
	if f.earlier, err = j.helm.Values(); err != nil {
		return access.Explain("reading the agent's release", err)
	}
	f.changes = len(j.user) > 0 && (f.release != release.StatusDeployed || agentrelease.Differ(j.user, f.earlier))
	return nil
}

// readHubsView finds out what the identity on the cluster is good for.
func (j *joiner) readHubsView(ctx context.Context, f *found) error {
	if f.identity == nil {
		return nil
	}
	if err := j.onCluster(j.readUID(ctx, f)); err != nil {
		return err
	}
	elsewhere := !sameHub(j.text, f.server, f.identity.ClusterNamespace)
	if elsewhere && f.mayMove(j.text) {
		if err := j.readProof(ctx, f); err != nil || f.isOwnHub(j.text) {
			return err
		}
	}
	_, err := j.heartbeat(ctx, *f)
	f.rejected = isRejection(err, elsewhere)
	if elsewhere {
		f.silent = err != nil && !f.rejected
		f.expired = j.doubts(f)
		return nil
	}
	if f.newCA = errors.Is(err, foreign.ErrUntrusted); f.newCA {
		return j.readProof(ctx, f)
	}
	if err != nil && !f.rejected {
		return j.onHub(hubProblem(j.text, err))
	}
	return nil
}

// doubts reports whether an identity may be rejected only because it has expired.
func (j *joiner) doubts(f *found) bool {
	return f.rejected && !j.unregistered && !f.expires.IsZero() && !j.clock().Before(f.expires)
}

// isRejection reports whether an error means that the hub of an identity does not accept it. A proxy in front of another hub may
// refuse this user instead.
func isRejection(err error, elsewhere bool) bool {
	return hubclient.HasCode(err, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound) && (!elsewhere || hubclient.IsOfAPIServer(err))
}

// readUID reads the UID of the cluster if it is the client ID of the agent.
func (j *joiner) readUID(ctx context.Context, f *found) error {
	if f.config.ClientID != "" {
		return nil
	}
	uid, err := j.cluster.UID(ctx)
	f.systemUID = string(uid)
	return err
}

// readProof finds out whether the hub of the text is that of the agent. The agent's own identity is not sent.
func (j *joiner) readProof(ctx context.Context, f *found) error {
	kept, err := j.readKept(ctx)
	if f.hubKey = kept.HubKey != ""; err != nil || !f.hubKey {
		return j.onCluster(err)
	}
	client, err := hubclient.New(j.text.URL, []byte(j.text.CA), j.text.Token, j.clock)
	if err != nil {
		return err
	}
	var document corev1.ConfigMap
	_, err = client.Send(ctx, http.MethodGet, "api/v1/namespaces/"+metav1.NamespacePublic+"/configmaps/"+names.HubDocument, "", nil, &document)
	if hubclient.HasCode(err, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound) {
		return nil
	}
	if err != nil {
		return j.onHub(hubProblem(j.text, err))
	}
	f.signed = isSigned(j.text, kept, document.Data[names.HubDocumentKey])
	return nil
}

// readKept reads the agent's recovery Secret. It is in kube-system, or in the agent's namespace. It is empty if it does not
// exist, or the user may not read it.
func (j *joiner) readKept(ctx context.Context) (protocol.RecoveryData, error) {
	for _, namespace := range []string{metav1.NamespaceSystem, j.namespace} {
		secret, err := j.cluster.Core.CoreV1().Secrets(namespace).Get(ctx, names.RecoverySecret(j.namespace), metav1.GetOptions{})
		switch {
		case err == nil:
			return protocol.ParseRecoveryData(secret.Data), nil
		case !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err):
			return protocol.RecoveryData{}, access.Explain("reading Secret "+namespace+"/"+names.RecoverySecret(j.namespace), err)
		}
	}
	return protocol.RecoveryData{}, nil
}

// readObjects reads the agent's objects.
func (f *found) readObjects(ctx context.Context, core kubernetes.Interface) error {
	secrets, agent := core.CoreV1().Secrets(f.namespace), f.namespace+"/"+names.Agent
	identity, err := access.Find(ctx, secrets, "Secret "+agent, names.Agent)
	if err != nil {
		return err
	}
	if identity != nil {
		f.readIdentity(identity)
	}
	bootstrap, err := access.Find(ctx, secrets, "Secret "+f.namespace+"/"+names.AgentBootstrap, names.AgentBootstrap)
	if err != nil {
		return err
	}
	if bootstrap != nil {
		if parsed, err := protocol.ParseBootstrap(bootstrap.Data); err == nil {
			f.bootstrap = &parsed
		}
	}
	settings, err := access.Find(ctx, core.CoreV1().ConfigMaps(f.namespace), "ConfigMap "+agent, names.Agent)
	if err != nil {
		return err
	}
	if settings != nil {
		f.config, _, _ = config.ParseAgent(settings.Data[names.ConfigKey]) // an invalid one has no client ID
	}
	deployment, err := access.Find(ctx, core.AppsV1().Deployments(f.namespace), "Deployment "+agent, names.Agent)
	if f.deployment = deployment != nil; f.deployment {
		f.generation, f.replaced = deployment.Generation, agentpod.Replaced(deployment)
	}
	f.imported = f.deployment && settings != nil && settings.Annotations[annotation.HubUID] != ""
	return err
}

// readIdentity parses Secret fleet-agent. One that cannot be parsed does not count: the agent replaces it.
func (f *found) readIdentity(secret *corev1.Secret) {
	identity, err := protocol.ParseIdentity(secret.Data)
	if err != nil {
		return
	}
	cfg, err := kubeconfig.Safe(identity.Kubeconfig)
	if err != nil {
		return
	}
	f.identity, f.server, f.signer = &identity, cfg.Host, protocol.SigningKeyOf(cfg.BearerToken)
	if token, err := protocol.ParseAccountToken(cfg.BearerToken); err == nil {
		f.expires = token.Expires
	}
}

// isHub reports whether the cluster has the account of the token: then it is the hub.
func (j *joiner) isHub(ctx context.Context) (bool, error) {
	if j.hub.account == "" {
		return false, nil
	}
	accounts := j.cluster.Core.CoreV1().ServiceAccounts(j.hub.namespace)
	account, err := access.Find(ctx, accounts, "ServiceAccount "+j.hub.namespace+"/"+j.hub.account, j.hub.account)
	return account != nil && string(account.UID) == j.hub.uid, err
}

// maxAgents is how many agents are read.
const maxAgents = 50

// otherAgents returns the agents in other namespaces, and those of old releases of Rancher Fleet, which are StatefulSets.
func otherAgents(ctx context.Context, core kubernetes.Interface, namespace string) ([]string, error) {
	options := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, names.Agent).String(), Limit: maxAgents}
	deployments, err := core.AppsV1().Deployments(metav1.NamespaceAll).List(ctx, options)
	if err != nil {
		return nil, access.Explain("reading Deployments", err)
	}
	var others []string
	for _, deployment := range deployments.Items {
		if deployment.Namespace != namespace && deployment.Name == names.Agent {
			others = append(others, "Deployment "+deployment.Namespace+"/"+deployment.Name)
		}
	}
	sets, err := core.AppsV1().StatefulSets(metav1.NamespaceAll).List(ctx, options)
	if err != nil {
		return nil, access.Explain("reading StatefulSets", err)
	}
	for _, set := range sets.Items {
		if set.Name == names.Agent {
			others = append(others, "StatefulSet "+set.Namespace+"/"+set.Name)
		}
	}
	return others, nil
}

// tryPod asks the cluster, without creating it, whether it admits the agent's pod. A namespace that does not exist yet has
// neither quotas nor rules for pods.
func (j *joiner) tryPod(ctx context.Context) error {
	template, err := agentrelease.Pod(j.namespace, j.values)
	if err != nil {
		return err
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: names.Agent + "-", Namespace: j.namespace, Labels: template.Labels}, Spec: template.Spec}
	pod.Spec.ServiceAccountName = "default" // that of the agent does not exist yet
	_, err = j.cluster.Core.CoreV1().Pods(j.namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	switch {
	case err == nil, isAboutAccount(err):
		return nil
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
		return exit.Errorf(exit.Preflight, "namespace %s does not admit the agent's pod: %s", j.namespace, foreign.Excerpt(err.Error(), 1024)).
			Because(conditions.ReasonAgentPodRejected).With("change the ResourceQuota, LimitRange or pod security labels of the namespace: kubectl describe namespace " + j.namespace)
	}
	return access.Explain("trying the agent's pod", err)
}

// onCluster makes the commands that fix an error reach the cluster that joins.
func (j *joiner) onCluster(err error) error { return exit.Reach(err, j.flags.Target()) }

func isAboutAccount(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "error looking up service account")
}

// heartbeat asks the hub of the agent for its last heartbeat. The agent's identity is sent only to the address, and to a server
// with the CA, that belong to it.
func (j *joiner) heartbeat(ctx context.Context, f found) (hubclient.Seen, error) {
	cfg, err := kubeconfig.Safe(f.identity.Kubeconfig)
	if err != nil {
		return hubclient.Seen{}, err
	}
	client, err := hubclient.New(cfg.Host, cfg.CAData, cfg.BearerToken, j.clock)
	if err != nil {
		return hubclient.Seen{}, err
	}
	last, err := client.ReadOwnCluster(ctx, f.identity.ClusterNamespace, f.identity.ClusterName)
	if err != nil {
		return hubclient.Seen{}, err
	}
	if parsed, err := protocol.ParseAccountToken(cfg.BearerToken); err == nil && last.Account != "" && last.Account != parsed.AccountUID {
		last.LastSeen = time.Time{} // of an earlier identity
	}
	return last, nil
}
