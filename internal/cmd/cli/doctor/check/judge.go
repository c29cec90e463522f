package check

import (
	"cmp"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"time"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	"k8s.io/apimachinery/pkg/util/duration"
	utilversion "k8s.io/apimachinery/pkg/util/version"

	"github.com/fleet-hub/fleet/internal/cmd/cli/remedy"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	clusterrules "github.com/fleet-hub/fleet/internal/rules/clusters"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// Times until a certificate expires. Certificates of API servers are often renewed by hand.
const (
	certificateWarning = 30 * 24 * time.Hour
	certificateFailure = 3 * 24 * time.Hour
)

const (
	// CredentialWarning is when a credential counts as one that expires soon.
	CredentialWarning = 14 * 24 * time.Hour
	// CreationPatience is how long the hub may take to create the objects of a new one.
	CreationPatience = 5 * time.Minute
	// RequestPatience is how long a ClusterRegistration may wait.
	RequestPatience = 5 * time.Minute
	// MaxKubeconfig and MaxToken limit what is parsed, in bytes.
	MaxKubeconfig = 256 << 10
	MaxToken      = 16 << 10
)

// Certificate returns the row for a certificate that expires.
func Certificate(target Object, name string, expires, now time.Time, fix string) Row {
	left, on := expires.Sub(now), expires.UTC().Format(time.DateOnly)
	switch {
	case left <= 0:
		return Fail(target, fmt.Sprintf("%s expired on %s", name, on), fix)
	case left < certificateFailure:
		return Fail(target, fmt.Sprintf("%s expires in %s", name, duration.HumanDuration(left)), fix)
	case left < certificateWarning:
		return Warn(target, fmt.Sprintf("%s expires in %s", name, duration.HumanDuration(left)), fix)
	}
	return Ok(target, fmt.Sprintf("%s expires on %s", name, on))
}

// ClusterCondition returns the row for a condition of a Cluster that needs attention.
func ClusterCondition(cluster *fleet.Cluster, condition genericcondition.GenericCondition) Row {
	verdict := Fail
	switch condition.Type {
	case conditions.AddressKnown, conditions.AgentManaged, conditions.FollowsClusterAPI:
		verdict = Warn // the agent works
	}
	fix := cmp.Or(remedy.OfCluster(cluster, condition.Reason), remedy.Describe("clusters", cluster.Namespace, cluster.Name))
	return verdict(OfFleet("Cluster", cluster), condition.Reason+": "+condition.Message, fix)
}

// LastExpiry returns when the last of some certificates in PEM expires. One that is valid suffices.
func LastExpiry(bundle []byte) (last time.Time, found bool) {
	for rest := bundle; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return last, found
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if block.Type != "CERTIFICATE" || err != nil {
			continue
		}
		if found = true; certificate.NotAfter.After(last) {
			last = certificate.NotAfter
		}
	}
}

// OldAgent returns a warning if the agent of a Cluster is older than the hub. here is the cluster of the agent.
func OldAgent(cluster *fleet.Cluster, hub string, conf config.Config, here remedy.Target) []Row {
	agent := cluster.Status.Agent.AgentVersion
	if !IsOlder(agent, hub) || clusterrules.ManagedElsewhere(cluster) {
		return nil
	}
	return []Row{Warn(OfFleet("Cluster", cluster), fmt.Sprintf("the agent has version %s, and the hub has version %s", agent, hub), upgradeOf(cluster, hub, conf, here))}
}

// upgradeOf returns the command that upgrades an agent, or that shows why the hub has not done so. The hub upgrades the agents that
// it manages with their Bundles. internal.image of `fleet join --image` would hide the other values of the image.
func upgradeOf(cluster *fleet.Cluster, hub string, conf config.Config, here remedy.Target) string {
	_, freed := cluster.Labels[fleet.LabelNonManagedAgent]
	managed := !freed && (conf.ManageAgent == nil || *conf.ManageAgent)
	obstacle := conditions.Get(cluster.Status.Conditions, conditions.AgentManaged)
	upgrade := here.On(remedy.Command("helm", "upgrade", "-n", remedy.NameOr(cluster.Status.Agent.Namespace, names.SystemNamespace), names.Agent,
		"charts/fleet-agent", "--reset-then-reuse-values", "--set", "internal.image=,image.repository=REPOSITORY,image.tag="+hub))
	if cluster.Spec.KubeConfigSecret != "" {
		upgrade = remedy.Command("fleet", "repair", cluster.Name, "-n", cluster.Namespace)
	}
	switch {
	case managed && obstacle != nil && conditions.IsTrouble(*obstacle):
		return ClusterCondition(cluster, *obstacle).Fix
	case managed:
		return remedy.Describe("bundles", cluster.Namespace, names.AgentBundle(cluster.Name))
	case freed:
		return upgrade
	}
	// A Bundle from the time when the hub managed the agent would undo the upgrade.
	return remedy.Command("kubectl", "delete", "bundles.fleet.cattle.io", "-n", cluster.Namespace, names.AgentBundle(cluster.Name), "--ignore-not-found") + " && " + upgrade
}

// IsOlder reports whether a release is older than another one. Versions that are not semantic ones are never older.
func IsOlder(a, b string) bool {
	parsed, err := utilversion.ParseSemantic(a)
	if err != nil {
		return false
	}
	order, err := parsed.Compare(b)
	return err == nil && order < 0
}
