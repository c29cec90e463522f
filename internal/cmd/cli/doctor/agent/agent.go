// Package agent contains the checks of `fleet doctor agent`: why does the agent of a cluster not run, or not reach its hub?
//
//	package gather ─► Facts ─► Checks (pure functions) ─► rows
package agent

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/check"
	"github.com/fleet-hub/fleet/internal/cmd/cli/hubclient"
	"github.com/fleet-hub/fleet/internal/cmd/cli/remedy"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// Scope says which agent is checked, and where commands are meant to run.
type Scope struct {
	// Namespace is that of the agent.
	Namespace string
	// Here and Hub are the contexts of the cluster and of its hub in commands. The caller adds its own flags to commands
	// without a context.
	Here, Hub remedy.Target
	// Cluster is the Cluster on the hub, if it is known.
	Cluster types.NamespacedName
	// Repair is the command that gives the agent an identity again. If it is empty, one is built from the Secret.
	Repair string
}

// Facts is what the checks know about a cluster and its agent.
type Facts struct {
	Scope
	Now time.Time

	// Err is why the API server does not answer, or nil.
	Err error
	// Kubernetes is the version of the API server, and Clock its time.
	Kubernetes string
	Clock      hubclient.Response
	// UID is that of namespace kube-system. It identifies the cluster.
	UID types.UID
	// Place is the agent's namespace, or nil.
	Place *corev1.Namespace
	// Deployment is the agent's, or nil. Agents are all Deployments and StatefulSets of agents on the cluster.
	Deployment *appsv1.Deployment
	Agents     []Workload
	Pods       []corev1.Pod
	// Refused are Events about pods that were not created.
	Refused    []corev1.Event
	Settings   Settings
	Credential Credential
	Bootstrap  Bootstrap
	// HasAccount means that the ServiceAccount exists, and HasRights that it may do everything.
	HasAccount, HasRights bool
	// Role and Binding are the names of the account's ClusterRole and ClusterRoleBinding. HasRole and HasBinding mean that
	// they exist.
	Role, Binding       string
	HasRole, HasBinding bool
	// Lease is the agent's, or nil.
	Lease *coordinationv1.Lease
	// Releases are the newest revisions of Fleet's Helm releases.
	Releases []Release
	Probe    Probe
}

// Workload is a Deployment or StatefulSet of an agent.
type Workload struct {
	Kind, Namespace string
	// Scope is that of the agent. Agents of different scopes do not disturb each other.
	Scope string
	// Image is the container's.
	Image string
	// Running means that it has replicas.
	Running bool
}

// Settings is ConfigMap fleet-agent.
type Settings struct {
	Exists bool
	config.Agent
	// Err is why it cannot be read.
	Err error
	// HubUID is the mark of the hub that has installed the agent, or empty.
	HubUID string
}

// Credential is Secret fleet-agent without its token.
type Credential struct {
	Exists bool
	// Err is why it cannot be used. It contains nothing of the Secret.
	Err error
	// Cluster and ClusterNamespace are the names of the Cluster and of its namespace on the hub.
	Cluster          types.NamespacedName
	ClusterNamespace string
	Server           string
	CA               []byte
	// Account is the UID of the token's account, and Expires when the token expires. They are empty if the token has no
	// such claims, and zero if it does not expire.
	Account string
	Expires time.Time
	// Lifetime is the lifetime of the token if it expires.
	Lifetime time.Duration
}

// Usable reports whether the agent can use the credential.
func (c Credential) Usable() bool { return c.Exists && c.Err == nil }

// Bootstrap is Secret fleet-agent-bootstrap without its token.
type Bootstrap struct {
	Exists bool
	// Err is why it cannot be used. It contains nothing of the Secret.
	Err error
	// Since is when it was written last.
	Since  time.Time
	Server string
	// Workspace is the namespace of the request.
	Workspace string
}

// Release is the newest revision of a Helm release.
type Release struct {
	Namespace, Name, Status string
	Revision                int
	// Secret is the name of its Secret.
	Secret string
	// Since is when it was changed last.
	Since time.Time
}

// Probe is what the hub answers to the agent's credential. It is measured from this machine.
type Probe struct {
	// Sent is false if there is no usable credential.
	Sent bool
	// Err is why the TLS connection failed. If it failed, nothing else was sent.
	Err error
	// Answer contains the time of the hub and the expiry of its certificate.
	Answer hubclient.Response
	// ReadyErr is what /readyz answered, or nil.
	ReadyErr error
	// AcceptErr is why the hub did not return the agent's BundleDeployments and its Cluster, or nil.
	AcceptErr error
	Seen      hubclient.Seen
}

// The sources of facts. Those of the hub have other names.
const (
	SourceSystem     check.Source = "cluster: namespace kube-system"
	SourcePlace      check.Source = "cluster: agent's namespace"
	SourceDeployment check.Source = "cluster: Deployment"
	SourceAgents     check.Source = "cluster: agents"
	SourcePods       check.Source = "cluster: Pods"
	SourceEvents     check.Source = "cluster: Events"
	SourceSettings   check.Source = "cluster: ConfigMap"
	SourceCredential check.Source = "cluster: Secret fleet-agent"
	SourceBootstrap  check.Source = "cluster: Secret fleet-agent-bootstrap"
	SourceAccount    check.Source = "cluster: ServiceAccount"
	SourceRole       check.Source = "cluster: ClusterRole"
	SourceRights     check.Source = "cluster: rights"
	SourceLease      check.Source = "cluster: Lease"
	SourceReleases   check.Source = "cluster: Helm releases"
)

// Checks returns all checks, in the order of their rows.
func Checks() []check.Check[*Facts] {
	return slices.Concat(workloadChecks(), podChecks(), credentialChecks(), hubChecks(), rightsChecks(), releaseChecks())
}

// Report is what is known of a cluster.
type Report struct {
	Facts   *Facts
	Missing check.Missing
}

// Rows returns the rows of all checks.
func (r Report) Rows() []check.Row { return check.Run(Checks(), r.Facts, r.Missing) }

// Unreachable returns the report for a cluster whose API server does not answer.
func Unreachable(scope Scope, err error, now time.Time) Report {
	missing := check.Missing{}
	for _, c := range Checks() {
		for _, source := range c.Needs {
			missing[source] = check.Reason{Cause: "the API server of the cluster does not answer", Fix: (&Facts{Scope: scope}).onCluster("kubectl", "cluster-info")}
		}
	}
	return Report{Facts: &Facts{Scope: scope, Now: now, Err: err}, Missing: missing}
}

func sources(all ...check.Source) []check.Source { return all }

// secret returns the object of one of the agent's Secrets.
func (f *Facts) secret(name string) check.Object {
	return check.Object{Kind: "Secret", Namespace: f.Namespace, Name: name}
}

func (f *Facts) deploymentObject() check.Object {
	return check.Object{Kind: "Deployment", Group: appsv1.GroupName, Namespace: f.Namespace, Name: names.Agent}
}

// repair returns the command that gives the agent an identity again. An agent that does not exist is installed.
func (f *Facts) repair() string {
	if f.Repair != "" {
		return f.Repair
	}
	cluster := f.Cluster
	if cluster.Name == "" {
		cluster = f.Credential.Cluster
	}
	workspace := remedy.NameOr(cluster.Namespace, remedy.NameOr(f.Bootstrap.Workspace, "WORKSPACE"))
	if cluster.Name == "" {
		return f.onHub("fleet", "token", "create", "NAME", "--cluster", "NAME", "-n", workspace)
	}
	return f.onHub("fleet", "repair", remedy.NameOr(cluster.Name, "NAME"), "-n", workspace)
}

// logs returns the command that reads the agent's log.
func (f *Facts) logs(more ...string) string {
	return f.onCluster("kubectl", append([]string{"logs", "-n", f.Namespace, "deployment/" + names.Agent}, more...)...)
}

// restart returns the command that starts the agent again.
func (f *Facts) restart() string {
	return f.onCluster("kubectl", "rollout", "restart", "-n", f.Namespace, "deployment/"+names.Agent)
}

// describePods returns the command that shows the agent's pods with their Events.
func (f *Facts) describePods() string {
	return f.onCluster("kubectl", "describe", "pods", "-n", f.Namespace, "-l", "app="+names.Agent)
}

// onCluster returns a command for the cluster.
func (f *Facts) onCluster(program string, words ...string) string {
	return f.Here.On(remedy.Command(append([]string{program}, words...)...))
}

// onHub returns a command for the hub.
func (f *Facts) onHub(program string, words ...string) string {
	return f.Hub.On(remedy.Command(append([]string{program}, words...)...))
}
