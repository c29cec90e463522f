package repair

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/cli/output"
	"github.com/fleet-hub/fleet/internal/cmd/cli/remedy"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/kube/foreign"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	"github.com/fleet-hub/fleet/internal/rules/revocation"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// step is what a repair does.
type step string

const (
	stepReinstall step = "reinstall" // makes the hub install the agent again
	stepWait      step = "wait"      // waits for an installation that an earlier run has requested
	stepJoin      step = "join"      // prints a text with which the agent registers again
)

// decide returns how a Cluster is repaired, or why it is not.
func decide(c *fleet.Cluster, bootstrap config.Bootstrap) (step, error) {
	name := c.Namespace + "/" + c.Name
	switch {
	case c.DeletionTimestamp != nil:
		return "", exit.Errorf(exit.Refused, "Cluster %s is being deleted", name).
			With(remedy.Command("kubectl", "wait", "--for=delete", "clusters.fleet.cattle.io/"+c.Name, "-n", c.Namespace))
	case clusters.ManagedElsewhere(c):
		return "", exit.Errorf(exit.Refused, "another manager owns Cluster %s: this hub does not change its agent", name).Because(conditions.ReasonClusterManagedElsewhere).
			With(remedy.Command("kubectl", "label", "clusters.fleet.cattle.io", "-n", c.Namespace, c.Name, fleet.LabelClusterManagement+"-"))
	case bootstrap.LocalAgentDisabled && clusters.IsLocal(c, bootstrap):
		return "", exit.Errorf(exit.Refused, "the agent of the hub's own Cluster %s is disabled", name).
			With("helm upgrade -n cattle-fleet-system fleet charts/fleet --reset-then-reuse-values --set bootstrap.localAgentDisabled=false")
	case c.Spec.KubeConfigSecret == "":
		return stepJoin, nil
	}
	if problem := importProblem(c, exit.Preflight); problem != nil {
		if remedy.IsOutside(problem.Reason) {
			return stepReinstall, nil
		}
		return "", problem
	}
	if !isInstalled(c) {
		return stepWait, nil
	}
	return stepReinstall, nil
}

// importProblem returns the error for a Cluster on which the hub can install no agent before a person has corrected
// something, or nil.
func importProblem(c *fleet.Cluster, code exit.Code) *exit.Error {
	imported := conditions.Get(c.Status.Conditions, conditions.Imported)
	if imported == nil || imported.Status != corev1.ConditionFalse || !remedy.StopsImport(imported.Reason) {
		return nil
	}
	failure := exit.Errorf(code, "the hub cannot install the agent of Cluster %s/%s: %s", c.Namespace, c.Name, output.Line(imported.Message)).Because(imported.Reason)
	if fix := remedy.OfCluster(c, imported.Reason); fix != "" {
		return failure.With(fix)
	}
	return failure.With("do what the message says, then: " + remedy.Command("fleet", "repair", c.Name, "-n", c.Namespace))
}

// isEarlier reports whether the problem of an import is still that from before the write. The same failure of the next import
// does not change the condition.
func isEarlier(before, now *fleet.Cluster) bool {
	was, is := conditions.Get(before.Status.Conditions, conditions.Imported), conditions.Get(now.Status.Conditions, conditions.Imported)
	return was != nil && is != nil && remedy.IsOutside(is.Reason) && was.Reason == is.Reason && was.LastUpdateTime == is.LastUpdateTime
}

// isInstalled reports whether the hub has finished the last installation that was requested.
func isInstalled(c *fleet.Cluster) bool {
	deployed := c.Status.AgentDeployedGeneration
	return deployed != nil && *deployed == c.Spec.RedeployAgentGeneration
}

// reinstalled reports whether the hub has installed the agent again and the new agent has reported. state describes what
// is missing. The hub clears the last heartbeat before it removes the earlier agent.
func reinstalled(c *fleet.Cluster) (done bool, state string) {
	installed := isInstalled(c)
	if installed && !c.Status.Agent.LastSeen.IsZero() {
		return true, ""
	}
	state = "the hub has not installed the agent yet"
	kind := conditions.Imported
	if installed {
		state, kind = "the agent is installed and has not reported yet: it registers", conditions.AgentReporting
	}
	if condition := conditions.Get(c.Status.Conditions, kind); condition != nil && condition.Status == corev1.ConditionFalse && condition.Message != "" {
		state = output.Line(condition.Message)
	}
	return false, state
}

// registered describes the agent that has registered as a Cluster.
type registered struct {
	// any means that a registration was granted.
	any bool
	// withToken means that it was made with the token that is handed out now.
	withToken bool
	// reusable is the token with which it was made, if that still exists and is another one.
	reusable string
}

// takeover describes what the hub does with a request that is made with the printed text.
func takeover(c *fleet.Cluster, r registered, now time.Time) string {
	name := c.Namespace + "/" + c.Name
	switch {
	case revocation.IsBlocked(c):
		return revoked(c) + ". First run on the cluster, so that the agent creates another key: " + remedy.Command("kubectl", "--context", c.Name, "delete", "secret",
			"-n", metav1.NamespaceSystem, names.RecoverySecret(remedy.NameOr(c.Status.Agent.Namespace, "AGENT-NAMESPACE")))
	case !r.any || c.Status.Agent.LastSeen.IsZero():
		return fmt.Sprintf("no registered agent reports as Cluster %s: the hub grants the request at once", name)
	case c.Annotations[annotation.AgentKey] != "":
		return fmt.Sprintf("the agent of Cluster %s has a key: the hub grants its request at once. A request from another cluster, or after the loss of the key, waits (TakeoverPending) until you run: %s",
			name, remedy.Command("fleet", "confirm-takeover", c.Name, "REQUEST", "-n", c.Namespace))
	case r.withToken:
		return fmt.Sprintf("the agent of Cluster %s has registered with this token: the hub grants the request at once", name)
	}
	text := fmt.Sprintf("an agent that registered with another token reports as Cluster %s (last seen %s ago). The request waits (TakeoverPending) "+
		"until you run: %s. That agent works until the new one has reported",
		name, duration.HumanDuration(max(now.Sub(c.Status.Agent.LastSeen.Time), 0)), remedy.Command("fleet", "confirm-takeover", c.Name, "REQUEST", "-n", c.Namespace))
	if r.reusable != "" {
		text += ". To register without a confirmation, use its token: " +
			remedy.Command("fleet", "token", "show", foreign.Excerpt(r.reusable, 253), "--with-secret", "--cluster", c.Name, "-n", c.Namespace)
	}
	return text
}

// revoked describes what the hub does with a request of the agent of a Cluster whose key was revoked.
func revoked(c *fleet.Cluster) string {
	return fmt.Sprintf("the key of the agent of Cluster %s/%s was revoked: the request waits (TakeoverPending) until you run: %s",
		c.Namespace, c.Name, remedy.Command("fleet", "confirm-takeover", c.Name, "REQUEST", "-n", c.Namespace))
}

// isPending reports whether a registration waits for a confirmation that it may replace the agent of a Cluster.
func isPending(r *fleet.ClusterRegistration, c *fleet.Cluster) bool {
	granted := conditions.Get(r.Status.Conditions, conditions.Granted)
	return r.Status.ClusterName == c.Name && granted != nil && granted.Status == corev1.ConditionFalse && granted.Reason == conditions.ReasonTakeoverPending
}

// newest returns the newest registration, or nil.
func newest(requests []*fleet.ClusterRegistration) *fleet.ClusterRegistration {
	if len(requests) == 0 {
		return nil
	}
	return slices.MaxFunc(requests, func(a, b *fleet.ClusterRegistration) int {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
}
