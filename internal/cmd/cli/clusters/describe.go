package clusters

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"

	"github.com/fleet-hub/fleet/internal/cmd/cli/output"
	"github.com/fleet-hub/fleet/internal/cmd/cli/remedy"
	rules "github.com/fleet-hub/fleet/internal/rules/clusters"
	"github.com/fleet-hub/fleet/internal/rules/state"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// Description is the result of `fleet clusters describe`. Absent fields are not known.
type Description struct {
	Row `json:",inline"`
	// ClusterNamespace contains the BundleDeployments of the cluster.
	ClusterNamespace string            `json:"clusterNamespace"`
	ClientID         string            `json:"clientID,omitempty"`
	Labels           map[string]string `json:"labels,omitempty"`
	// KubeconfigSecret is the Secret with the kubeconfig, as namespace/name. It is absent if the agent was installed by
	// hand.
	KubeconfigSecret string `json:"kubeconfigSecret,omitempty"`
	Paused           bool   `json:"paused,omitempty"`
	AgentNamespace   string `json:"agentNamespace,omitempty"`
	Platform         string `json:"platform,omitempty"`
	Nodes            *int32 `json:"nodes,omitempty"`
	NodesReady       *int32 `json:"nodesReady,omitempty"`
	// Conditions are the conditions of the Cluster.
	Conditions []Condition `json:"conditions"`
	// NotReady are the first ten Bundles that are not ready.
	NotReady []Bundle `json:"notReady,omitempty"`
}

// Condition is a condition of a Cluster, with the command that fixes it.
type Condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	Fix     string `json:"fix,omitempty"`
}

// Bundle is a Bundle that is not ready on a cluster.
type Bundle struct {
	Name    string            `json:"name"`
	State   fleet.BundleState `json:"state"`
	Message string            `json:"message,omitempty"`
}

// describeCluster returns the description of a Cluster. tokens are those of the workspace of a Cluster that waits for its agent.
// Fixes reach the hub of the target.
func describeCluster(cluster *fleet.Cluster, tokens []*fleet.ClusterRegistrationToken, hub remedy.Target) Description {
	agent := cluster.Status.Agent
	result := Description{
		Row: rowOf(cluster), ClusterNamespace: rules.NamespaceOf(cluster), ClientID: cluster.Spec.ClientID, Labels: cluster.Labels,
		Paused: cluster.Spec.Paused, AgentNamespace: agent.Namespace, Platform: agent.Platform, Nodes: agent.Nodes, NodesReady: agent.ReadyNodes,
		Conditions: []Condition{},
	}
	if cluster.Spec.KubeConfigSecret != "" {
		result.KubeconfigSecret = rules.KubeconfigSecret(cluster).String()
	}
	for _, c := range cluster.Status.Conditions {
		condition := Condition{Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: c.Message}
		switch {
		case isAwaited(c):
			condition.Fix = hub.On(remedy.Join(cluster, tokens))
		case c.Status != "True":
			condition.Fix = hub.On(remedy.OfCluster(cluster, c.Reason))
		}
		result.Conditions = append(result.Conditions, condition)
	}
	for _, listed := range cluster.Status.Summary.NonReadyResources {
		result.NotReady = append(result.NotReady, Bundle{Name: listed.Name, State: listed.BundleState, Message: messageOf(listed)})
	}
	return result
}

// isAwaited reports whether a condition says that no agent has reported yet.
func isAwaited(c genericcondition.GenericCondition) bool {
	return c.Status != "True" && c.Reason == conditions.ReasonAwaitingAgent
}

// messageOf returns why a Bundle is not ready: its message, or its first resource that is not.
func messageOf(listed fleet.NonReadyResource) string {
	switch {
	case listed.Message != "":
		return listed.Message
	case len(listed.NonReadyStatus) > 0:
		return explained(state.NonReadyText(listed.NonReadyStatus[0]))
	case len(listed.ModifiedStatus) > 0:
		return state.ModifiedText(listed.ModifiedStatus[0])
	default:
		return ""
	}
}

// explained adds the meaning to a text of kstatus that names only a symptom. Agents do not read pods, so the cause is not known here.
func explained(text string) string {
	if strings.Contains(text, "Pending termination: ") {
		text += " (new pods are not available, so earlier ones still run: look at the pods)"
	}
	return text
}

// print writes the description for people.
func (d Description) print(out io.Writer, now time.Time, hub remedy.Target) error {
	if err := output.Facts(out, d.facts(now)); err != nil {
		return err
	}
	var conditions, bundles, fixes [][]string
	for _, c := range d.Conditions {
		conditions = append(conditions, []string{c.Type, c.Status, cmp.Or(c.Reason, "-"), cmp.Or(c.Message, "-")})
		if c.Fix != "" {
			fixes = append(fixes, []string{c.Type, c.Fix})
		}
	}
	for _, b := range d.NotReady {
		bundles = append(bundles, []string{b.Name, string(b.State), cmp.Or(b.Message, "-")})
	}
	for _, section := range []struct {
		header []string
		rows   [][]string
	}{
		{[]string{"CONDITION", "STATUS", "REASON", "MESSAGE"}, conditions},
		{[]string{"NOT-READY", "STATE", "MESSAGE"}, bundles},
		{[]string{"CONDITION", "FIX"}, fixes},
	} {
		if len(section.rows) == 0 {
			continue
		}
		fmt.Fprintln(out)
		if err := output.Rows(out, section.header, section.rows); err != nil {
			return err
		}
	}
	if more := d.Bundles - d.BundlesReady - len(d.NotReady); more > 0 && len(d.NotReady) > 0 {
		fmt.Fprintf(out, "\n%d more are not ready: %s\n", more,
			hub.On(remedy.Command("kubectl", "get", "bundledeployments.fleet.cattle.io", "-n", d.ClusterNamespace)))
	}
	return nil
}

// facts returns the first lines of the description.
func (d Description) facts(now time.Time) [][2]string {
	lastSeen, nodes, kubeconfig := "never", "-", "none: no agent has reported yet"
	if d.LastSeen != nil {
		lastSeen, kubeconfig = since(*d.LastSeen, now)+" ago", "none: the agent was installed by hand"
	}
	if d.Nodes != nil && d.NodesReady != nil {
		nodes = strconv.Itoa(int(*d.NodesReady)) + "/" + strconv.Itoa(int(*d.Nodes)) + " ready"
	}
	if d.KubeconfigSecret != "" {
		kubeconfig = "Secret " + d.KubeconfigSecret
	}
	facts := [][2]string{
		{"Name:", d.Name},
		{"Namespace:", d.Namespace},
		{"State:", string(d.State)},
		{"Reason:", cmp.Or(d.Reason, "-")},
		{"Age:", since(d.Created, now)},
		{"Last seen:", lastSeen},
		{"Agent:", cmp.Or(d.AgentVersion, "-")},
		{"Agent namespace:", cmp.Or(d.AgentNamespace, "-")},
		{"Kubernetes:", cmp.Or(d.KubernetesVersion, "-")},
		{"Platform:", cmp.Or(d.Platform, "-")},
		{"Nodes:", nodes},
		{"Client ID:", cmp.Or(d.ClientID, "-")},
		{"Kubeconfig:", kubeconfig},
		{"Cluster namespace:", d.ClusterNamespace},
		{"Bundles:", strconv.Itoa(d.BundlesReady) + "/" + strconv.Itoa(d.Bundles) + " ready"},
	}
	if d.Paused {
		facts = append(facts, [2]string{"Paused:", "true: Bundles are not updated"})
	}
	for i, name := range slices.Sorted(maps.Keys(d.Labels)) {
		facts = append(facts, [2]string{map[bool]string{true: "Labels:"}[i == 0], name + "=" + d.Labels[name]})
	}
	return facts
}
