// Package gather reads the agent's objects on a cluster for `fleet doctor agent`, and sends requests to the hub.
//
//	cluster ─► readers ─► agent.Facts, and which sources are missing
//	hub ◄── three requests with the agent's credential, to the address and CA in its Secret
//
// The facts contain no token.
package gather

import (
	"context"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/agent"
	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/check"
	"github.com/fleet-hub/fleet/internal/cmd/cli/hubclient"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/kube/foreign"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

const (
	// objectsLimit is the number of pods, Events or agents that are read.
	objectsLimit = 200
	// releasesPage is the number of releases in a page. Only their metadata is read.
	releasesPage = 1000
	// probeTimeout limits all requests to the hub together.
	probeTimeout = 10 * time.Second
)

// Report reads a cluster, and asks its hub with the agent's credential. If its API server does not answer, only one request
// is sent.
func Report(ctx context.Context, cluster *access.Cluster, scope agent.Scope, clock func() time.Time) (agent.Report, error) {
	g := &gatherer{cluster: cluster, clock: clock, Facts: &agent.Facts{Scope: scope, Now: clock()}}
	if err := g.readVersion(ctx); err != nil {
		return agent.Report{}, access.Explain("reading the version of the cluster's API server", err)
	}
	missing := check.Gather(ctx, g.readers())
	g.Probe = g.askHub(ctx)
	return agent.Report{Facts: g.Facts, Missing: missing}, nil
}

// gatherer reads the facts. Each reader writes fields of its own.
type gatherer struct {
	*agent.Facts
	cluster *access.Cluster
	clock   func() time.Time
	// token is that of the agent. It is sent only to the address and CA of its Secret.
	token string
}

func (g *gatherer) readers() []check.Reader {
	in, core := check.NewReader, g.cluster.Core
	secrets, settings, accounts := core.CoreV1().Secrets(g.Namespace), core.CoreV1().ConfigMaps(g.Namespace), core.CoreV1().ServiceAccounts(g.Namespace)
	return []check.Reader{
		in(agent.SourceReleases, "list", "", "secrets", "", g.listReleases),
		in(agent.SourceSystem, "get", "", "namespaces", "", g.readSystem),
		in(agent.SourcePlace, "get", "", "namespaces", "", check.Get(&g.Place, core.CoreV1().Namespaces(), g.Namespace)),
		in(agent.SourceDeployment, "get", appsv1.GroupName, "deployments", g.Namespace, check.Get(&g.Deployment, core.AppsV1().Deployments(g.Namespace), names.Agent)),
		in(agent.SourceCredential, "get", "", "secrets", g.Namespace, check.Read(secrets, names.Agent, func(s *corev1.Secret) { g.Credential, g.token = readCredential(s) })),
		in(agent.SourceBootstrap, "get", "", "secrets", g.Namespace, check.Read(secrets, names.AgentBootstrap, func(s *corev1.Secret) { g.Bootstrap = readBootstrap(s) })),
		in(agent.SourceSettings, "get", "", "configmaps", g.Namespace, check.Read(settings, names.Agent, g.parseSettings)),
		in(agent.SourcePods, "list", "", "pods", g.Namespace, g.readPods),
		in(agent.SourceEvents, "list", "", "events", g.Namespace, g.readEvents),
		in(agent.SourceAccount, "get", "", "serviceaccounts", g.Namespace, check.Read(accounts, names.Agent, func(a *corev1.ServiceAccount) { g.HasAccount = a != nil })),
		in(agent.SourceLease, "get", coordinationv1.GroupName, "leases", g.Namespace, check.Get(&g.Lease, core.CoordinationV1().Leases(g.Namespace), names.Agent)),
		in(agent.SourceAgents, "list", appsv1.GroupName, "deployments", "", g.readAgents),
		in(agent.SourceRole, "list", rbacv1.GroupName, "clusterrolebindings", "", g.readBindings),
		in(agent.SourceRights, "create", authorizationv1.GroupName, "subjectaccessreviews", "", g.readRights),
	}
}

func (g *gatherer) readVersion(ctx context.Context) error {
	version, err := g.cluster.Version(ctx)
	if err == nil {
		g.Kubernetes, g.Clock = foreign.Excerpt(version, 64), hubclient.ClockAt(ctx, g.cluster.Config, g.clock)
	}
	return err
}

func (g *gatherer) readSystem(ctx context.Context) error {
	system, err := g.cluster.Core.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err == nil {
		g.UID = system.UID
	}
	return err
}

// parseSettings parses ConfigMap fleet-agent, which may be nil.
func (g *gatherer) parseSettings(found *corev1.ConfigMap) {
	if found != nil {
		g.Settings = agent.Settings{Exists: true, HubUID: found.Annotations[annotation.HubUID]}
		g.Settings.Agent, _, g.Settings.Err = config.ParseAgent(found.Data[names.ConfigKey])
	}
}

func (g *gatherer) readPods(ctx context.Context) error {
	list, err := g.cluster.Core.CoreV1().Pods(g.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + names.Agent, Limit: objectsLimit})
	if err == nil {
		g.Pods = list.Items
	}
	return err
}

func (g *gatherer) readEvents(ctx context.Context) error {
	list, err := g.cluster.Core.CoreV1().Events(g.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.Set{"reason": "FailedCreate", "involvedObject.kind": "ReplicaSet"}.String(), Limit: objectsLimit,
	})
	if err != nil {
		return err
	}
	for _, event := range list.Items {
		if event.Reason == "FailedCreate" && event.InvolvedObject.Kind == "ReplicaSet" {
			g.Refused = append(g.Refused, event)
		}
	}
	return nil
}

// readAgents reads the Deployments and StatefulSets of agents in all namespaces.
func (g *gatherer) readAgents(ctx context.Context) error {
	options := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", names.Agent).String(), Limit: objectsLimit}
	deployments, err := g.cluster.Core.AppsV1().Deployments("").List(ctx, options)
	if err != nil {
		return err
	}
	for _, d := range deployments.Items {
		g.addAgent(agent.KindDeployment, d.ObjectMeta, d.Spec.Replicas, d.Spec.Template.Spec)
	}
	sets, err := g.cluster.Core.AppsV1().StatefulSets("").List(ctx, options)
	if err != nil {
		return err
	}
	for _, s := range sets.Items {
		g.addAgent(agent.KindStatefulSet, s.ObjectMeta, s.Spec.Replicas, s.Spec.Template.Spec)
	}
	slices.SortFunc(g.Agents, func(a, b agent.Workload) int {
		return strings.Compare(a.Namespace+"/"+a.Kind, b.Namespace+"/"+b.Kind)
	})
	return nil
}

func (g *gatherer) addAgent(kind string, meta metav1.ObjectMeta, replicas *int32, pod corev1.PodSpec) {
	if meta.Name != names.Agent {
		return
	}
	found := agent.Workload{Kind: kind, Namespace: meta.Namespace, Running: replicas == nil || *replicas > 0}
	for _, container := range pod.Containers {
		if found.Image == "" {
			found.Image = container.Image
		}
		for _, variable := range container.Env {
			if variable.Name == "AGENT_SCOPE" {
				found.Scope = variable.Value
			}
		}
	}
	g.Agents = append(g.Agents, found)
}

// readBindings reads the agent's binding and its role.
func (g *gatherer) readBindings(ctx context.Context) error {
	// Without a binding, the names are those of the chart.
	g.Role, g.Binding = names.SafeConcat(g.Namespace, names.Agent, "role"), names.SafeConcat(g.Namespace, names.Agent, "role", "binding")
	_, err := access.Each(ctx, g.cluster.Core.RbacV1().ClusterRoleBindings(), metav1.ListOptions{}, func(binding *rbacv1.ClusterRoleBinding) error {
		for _, subject := range binding.Subjects {
			if subject.Kind == rbacv1.ServiceAccountKind && subject.Namespace == g.Namespace && subject.Name == names.Agent && binding.RoleRef.Kind == "ClusterRole" {
				g.Role, g.Binding, g.HasBinding = binding.RoleRef.Name, binding.Name, true
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	_, err = g.cluster.Core.RbacV1().ClusterRoles().Get(ctx, g.Role, metav1.GetOptions{})
	g.HasRole = err == nil
	return check.Optional(err)
}

// readRights asks whether the agent's account may do everything.
func (g *gatherer) readRights(ctx context.Context) error {
	account := "system:serviceaccount:" + g.Namespace + ":" + names.Agent
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: account, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + g.Namespace, "system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "*", Group: "*", Resource: "*"},
	}}
	answer, err := g.cluster.Core.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err == nil {
		g.HasRights = answer.Status.Allowed
	}
	return err
}

// listReleases reads the metadata of Helm's Secrets. Their content may be large.
func (g *gatherer) listReleases(ctx context.Context) error {
	var all []*metav1.PartialObjectMetadata
	options := metav1.ListOptions{LabelSelector: labels.Set{"owner": "helm"}.String(), Limit: releasesPage}
	err := check.List(&all, g.cluster.Metadata.Resource(corev1.SchemeGroupVersion.WithResource("secrets")), options, nil)(ctx)
	g.Releases = newestReleases(all, g.Namespace)
	return err
}

// askHub asks the hub with the agent's credential.
func (g *gatherer) askHub(ctx context.Context) agent.Probe {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return probe(ctx, g.Credential, g.token, g.clock)
}
