package unregister

import (
	"context"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/cmd/cli/importaccount"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/kube/kubeconfig"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// part is an object of the account that `fleet import` has created.
type part = importaccount.Part

// maxAgents limits how many agents of a cluster are read.
const maxAgents = 50

// gatherCluster reads what is on the cluster of --cluster-context.
func (o *options) gatherCluster(ctx context.Context, hub, cluster *access.Cluster, f hubFound) (clusterFound, error) {
	if cluster == nil {
		return clusterFound{}, nil
	}
	t, err := targetOf(ctx, hub, f)
	if err != nil {
		return clusterFound{}, err
	}
	c, err := o.readCluster(ctx, cluster, f, t)
	return c, o.onCluster(err)
}

// readCluster is the part of gatherCluster that sends requests to the cluster.
func (o *options) readCluster(ctx context.Context, cluster *access.Cluster, f hubFound, t target) (clusterFound, error) {
	c := clusterFound{context: o.clusterContext, keepAgent: o.keepAgent, mark: markOf(t)}
	uid, err := cluster.UID(ctx)
	if err != nil {
		return c, err
	}
	if c.isHub = uid == t.hubUID; c.isHub {
		return c, nil
	}
	namespaces, marked, err := candidates(ctx, cluster.Core, f, c.mark)
	if err != nil {
		return c, err
	}
	for _, namespace := range namespaces {
		a, err := o.readAgent(ctx, cluster, namespace, string(uid))
		if err != nil {
			return c, err
		}
		if a.markedAs, a.marked = marked[namespace]; !a.marked && !a.exists() {
			continue
		}
		if other := whose(a, t); other != "" {
			c.foreign = append(c.foreign, "namespace "+namespace+" has "+other)
			continue
		}
		c.agents = append(c.agents, a)
	}
	if err := readObjects(ctx, cluster, f, &c); err != nil {
		return c, err
	}
	c.account, err = importaccount.New(cluster.Core, string(t.hubUID), f.workspace, f.name).Find(ctx)
	return c, err
}

// targetOf reads how the agent of a Cluster is recognized.
func targetOf(ctx context.Context, hub *access.Cluster, f hubFound) (target, error) {
	t := target{workspace: f.workspace, name: f.name, urls: []string{f.config.APIServerURL, hub.Config.Host}}
	var err error
	if t.hubUID, err = hub.UID(ctx); err != nil || f.cluster == nil {
		return t, err
	}
	t.clientID = f.cluster.Spec.ClientID
	namespace := clusters.NamespaceOf(f.cluster)
	accounts, err := hub.Core.CoreV1().ServiceAccounts(namespace).List(ctx, metav1.ListOptions{})
	if apierrors.IsForbidden(err) { // a tenant: the client ID and the addresses remain as proofs
		return t, nil
	}
	if err != nil {
		return t, access.Explain("reading ServiceAccounts of namespace "+namespace, err)
	}
	for i := range accounts.Items {
		t.accounts = append(t.accounts, string(accounts.Items[i].UID))
	}
	return t, nil
}

// candidates returns the namespaces that may contain an agent, and those among them that an earlier run has marked, with the
// hash of the agent's account in the mark.
func candidates(ctx context.Context, core kubernetes.Interface, f hubFound, mark string) (all []string, marked map[string]string, err error) {
	list, err := core.CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: fleet.LabelUnregistering, Limit: maxAgents})
	if err != nil {
		return nil, nil, access.Explain("reading namespaces", err)
	}
	marked = map[string]string{}
	for i := range list.Items {
		if value, account, _ := strings.Cut(list.Items[i].Labels[fleet.LabelUnregistering], "."); value == mark {
			marked[list.Items[i].Name] = account
		}
	}
	deployments, err := core.AppsV1().Deployments(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: "app=" + names.Agent, Limit: maxAgents})
	if err != nil {
		return nil, nil, access.Explain("reading Deployments", err)
	}
	all = slices.AppendSeq([]string{names.SystemNamespace}, maps.Keys(marked))
	for i := range deployments.Items {
		all = append(all, deployments.Items[i].Namespace)
	}
	if f.cluster != nil {
		all = append(all, f.cluster.Spec.AgentNamespace, f.cluster.Status.Agent.Namespace)
	}
	all = slices.DeleteFunc(all, func(name string) bool { return len(validation.IsDNS1123Label(name)) > 0 }) // an agent writes the status
	slices.Sort(all)
	return slices.Compact(all), marked, nil
}

// markOf returns the value of the label on the namespace of an agent that is being removed. A dot and the hash of the agent's
// account follow.
func markOf(t target) string {
	return names.SetHash("unregister/"+string(t.hubUID)+"/"+t.workspace+"/"+t.name, names.Owner{})
}

// exists reports whether anything of an agent exists.
func (a agent) exists() bool {
	return a.identity != nil || a.bootstrap != nil || a.clientID != "" || a.release
}

// readAgent reads the agent in a namespace. uid is the UID of the cluster.
func (o *options) readAgent(ctx context.Context, cluster *access.Cluster, namespace, uid string) (agent, error) {
	a := agent{namespace: namespace}
	identity, err := readSecret(ctx, cluster.Core, namespace, names.Agent)
	if err != nil {
		return a, err
	}
	if parsed, err := protocol.ParseIdentity(identity); err == nil {
		a.identity = &parsed
		if cfg, err := kubeconfig.SafeOrInsecure(parsed.Kubeconfig, true); err == nil {
			a.server = cfg.Host
		}
		if token, err := protocol.ParseAccountToken(kubeconfig.TokenOf(parsed.Kubeconfig)); err == nil {
			a.account = token.AccountUID
		}
	}
	bootstrap, err := readSecret(ctx, cluster.Core, namespace, names.AgentBootstrap)
	if err != nil {
		return a, err
	}
	if parsed, err := protocol.ParseBootstrap(bootstrap); err == nil {
		a.bootstrap = &parsed
	}
	if err := a.readSettings(ctx, cluster.Core, uid); err != nil {
		return a, err
	}
	helm, err := o.newHelm(cluster.Config, namespace)
	if err != nil {
		return a, err
	}
	status, err := helm.Status()
	a.release = status != ""
	return a, access.Explain("reading Helm releases of namespace "+namespace, err)
}

// readSettings reads the client ID and the hub of an agent.
func (a *agent) readSettings(ctx context.Context, core kubernetes.Interface, uid string) error {
	settings, err := access.Find(ctx, core.CoreV1().ConfigMaps(a.namespace), "ConfigMap "+a.namespace+"/"+names.Agent, names.Agent)
	if err != nil || settings == nil {
		return err
	}
	a.hubUID = types.UID(settings.Annotations[annotation.HubUID])
	parsed, _, err := config.ParseAgent(settings.Data[names.ConfigKey])
	if a.clientID = parsed.ClientID; err != nil || a.clientID == "" {
		a.clientID = uid // what an agent without a client ID uses
	}
	return nil
}

// readSecret returns the data of a Secret, or nil if it does not exist.
func readSecret(ctx context.Context, core kubernetes.Interface, namespace, name string) (map[string][]byte, error) {
	secret, err := access.Find(ctx, core.CoreV1().Secrets(namespace), "Secret "+namespace+"/"+name, name)
	if err != nil || secret == nil {
		return nil, err
	}
	return secret.Data, nil
}
