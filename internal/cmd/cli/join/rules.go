package join

import (
	"cmp"
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/release"

	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/cli/hubclient"
	"github.com/fleet-hub/fleet/internal/cmd/cli/jointext"
	"github.com/fleet-hub/fleet/internal/cmd/cli/remedy"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/identity"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/registering"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// found is what is on the cluster.
type found struct {
	// here and hub are how the user reaches the cluster and the hub. namespace is the agent's namespace. Exists and terminating
	// describe it.
	here, hub           remedy.Target
	namespace           string
	exists, terminating bool
	// ownHub means that the cluster is that of the hub: it has the account of the token.
	ownHub bool
	// identity is that of Secret fleet-agent, or nil. server is the address of its hub.
	// signer is the name of the key that has signed the identity.
	identity       *protocol.Identity
	server, signer string
	// hubKey means that the agent knows the key of its hub. signed means that the hub of the text has a document that is signed
	// with that key and names the address and the CA of the text.
	hubKey, signed bool
	// rejected means that the hub of the identity does not accept it. newCA means that the agent does not trust the hub's CA.
	// silent means that the hub of the identity is another one than that of the text, and cannot be asked.
	rejected, newCA, silent bool
	// expires is when the identity expires, or zero. expired means that another hub may reject it only because of that.
	expires time.Time
	expired bool
	// bootstrap is that of Secret fleet-agent-bootstrap, or nil.
	bootstrap *protocol.Bootstrap
	config    config.Agent
	// systemUID is the UID of the cluster's namespace kube-system: the client ID of an agent without a configured one.
	systemUID string
	// deployment means that Deployment fleet-agent exists, and generation is its generation. imported means that a hub has applied
	// it. replaced means that all its pods are available and have its present template.
	deployment, imported, replaced bool
	generation                     int64
	// release is the status of the Helm release fleet-agent, or empty. earlier are its values. changes means that the user wants
	// other ones.
	release release.Status
	earlier map[string]any
	changes bool
	// others are other agents, as "kind namespace/name".
	others []string
	// scoped means that the values give the agent a scope of its own.
	scoped bool
}

// step is what phase 4 does.
type step string

const (
	// stepInstall installs the chart or upgrades the release.
	stepInstall step = "install"
	// stepWait only waits, because the agent is there.
	stepWait step = "wait"
	// stepNothing means that the cluster has joined.
	stepNothing step = "nothing"
)

// decide returns what to do with a cluster, or why it must not join.
func decide(text jointext.Text, f found) (step, error) {
	switch {
	case f.ownHub:
		return "", exit.Errorf(exit.Refused, "this cluster is the hub itself").Because(conditions.ReasonTargetIsHub).
			With("select the cluster that joins with --context: kubectl config get-contexts", "the hub's own Cluster is controlled by the value bootstrap.enabled of the chart fleet")
	case f.terminating:
		return "", exit.Errorf(exit.Preflight, "namespace %s is being deleted", f.namespace).Because(conditions.ReasonNamespaceTerminating).
			With(f.here.On("kubectl wait --for=delete namespace/" + f.namespace))
	case len(f.others) > 0 && !f.scoped:
		return "", refuse(f, fmt.Sprintf("another agent runs on this cluster: %s", strings.Join(f.others, ", ")),
			"if both are wanted, give this one a scope: fleet join --set fleetAgent.scope=NAME")
	case f.identity != nil:
		return decideJoined(text, f)
	}
	return decideOther(text, f)
}

// decideOther is the part of decide for a cluster without an identity.
func decideOther(text jointext.Text, f found) (step, error) {
	switch {
	case f.bootstrap != nil && !sameHub(text, f.bootstrap.APIServerURL, f.bootstrap.ClusterNamespace):
		return "", refuse(f, fmt.Sprintf("the agent on this cluster registers at another hub: %s, workspace %s", f.bootstrap.APIServerURL, f.bootstrap.ClusterNamespace))
	case f.deployment && f.imported:
		return "", refuse(f, "a hub has installed the agent on this cluster")
	case !f.deployment || f.release != "":
		return stepInstall, nil
	case f.bootstrap == nil: // this agent and those of the next cases were not installed by Helm
		return "", refuse(f, fmt.Sprintf("Deployment %s/fleet-agent exists and does not belong to a Helm release", f.namespace))
	case text.ClientID != "" && text.ClientID != f.config.ClientID:
		return "", refuse(f, "the agent on this cluster registers with another client ID than that of the text")
	case f.changes:
		return "", refuseChange()
	}
	return stepWait, nil
}

// decideJoined is the part of decide for a cluster with an identity.
func decideJoined(text jointext.Text, f found) (step, error) {
	name := f.identity.ClusterNamespace + "/" + f.identity.ClusterName
	switch {
	case f.movesTo(text):
		return stepInstall, nil
	case f.elsewhere(text) && !f.hasLeft():
		return "", refuseElsewhere(f, name)
	case f.rejected: // also with another client ID: the Cluster may have been deleted and created again
		return decideRejected(f, name)
	case text.ClientID != f.clientID() && text.ClientID != "":
		return "", refuseAnother(f, name)
	case f.newCA && !f.imported && !f.isOwnHub(text):
		return "", refuse(f, fmt.Sprintf("this cluster has joined as Cluster %s a hub at %s that has another CA, and the hub of the text is not proven to be the same", name, f.server),
			"if that hub was installed again: docs/recovery.md#the-hub-is-lost")
	case f.newCA && !f.imported, !f.deployment:
		return stepInstall, nil
	}
	return decideHealthy(f)
}

// decideHealthy is the part of decideJoined for an agent that needs nothing.
func decideHealthy(f found) (step, error) {
	switch {
	case !f.changes:
		return stepNothing, nil
	case f.imported, f.release == "":
		return "", refuseChange()
	}
	return stepInstall, nil
}

// refuseChange returns the error for values of the user that have no effect.
func refuseChange() error {
	return exit.Errorf(exit.Refused, "the agent on this cluster does not belong to a Helm release of fleet join, so --image, --values and --set cannot change it").
		With("to keep the agent as it is, run the command without these flags",
			"to change it, use the settings of its Cluster on the hub, or the values with which its manifest was made: docs/registration.md#how-the-hub-manages-the-agent")
}

// decideRejected is the part of decideJoined for an identity that the hub does not accept.
func decideRejected(f found, name string) (step, error) {
	if !f.imported {
		return stepInstall, nil
	}
	return "", exit.Errorf(exit.Refused, "the hub has installed the agent on this cluster as Cluster %s, and does not accept its identity any more", name).
		With(f.hub.On("on the hub: "+remedy.Command("fleet", "repair", f.identity.ClusterName, "-n", f.identity.ClusterNamespace)),
			"if that Cluster was deleted, also on the hub: "+f.leave()+", and join again")
}

// elsewhere reports whether the identity is that of another hub or workspace than the text.
func (f found) elsewhere(text jointext.Text) bool {
	return !sameHub(text, f.server, f.identity.ClusterNamespace)
}

// hasLeft reports whether the agent may register with another hub or workspace.
func (f found) hasLeft() bool { return f.rejected && !f.imported && !f.expired }

// refuseElsewhere returns the error for a cluster that belongs to another hub or workspace, with the way to move it.
func refuseElsewhere(f found, name string) error {
	problem := fmt.Sprintf("this cluster has joined another hub or workspace: %s, as Cluster %s", f.server, name)
	again := "join again"
	if f.expired {
		problem += "; the agent's credential has expired, so that hub cannot tell whether it still has the Cluster"
		again = "join again with --unregistered"
	}
	fixes := []string{"to move it, with its workloads: on that hub, " + f.leave() + ", and " + again + " (docs/uninstall.md#move-a-cluster)"}
	if f.silent {
		problem += "; that hub could not be asked whether it still has the Cluster"
		fixes = append(fixes, "if that hub no longer exists: docs/recovery.md#the-hub-is-lost")
	}
	return exit.Errorf(exit.Refused, "%s", problem).Because(conditions.ReasonAnotherHub).With(fixes...)
}

// leave returns the command with which the cluster leaves its hub without a change of its workloads. The hub may install an agent
// with its mark again, so the mark of an imported one has to go.
func (f found) leave() string {
	words := []string{"fleet", "unregister", f.identity.ClusterName, "-n", f.identity.ClusterNamespace, "--keep-workloads"}
	if f.imported {
		words = append(words, "--keep-agent", "--cluster-context", cmp.Or(f.here.Context, "CONTEXT"))
	}
	return remedy.Command(words...)
}

// clientID returns the client ID of the agent.
func (f found) clientID() string {
	return cmp.Or(f.config.ClientID, f.systemUID)
}

// movesTo reports whether the text is for this agent at another address of its hub: it is for the workspace and the client ID
// of the agent, and the hub there is proven to be that of the agent. The agent then sends its identity to that address. Other
// hubs may know workspace and client ID.
func (f found) movesTo(text jointext.Text) bool {
	return f.mayMove(text) && f.isOwnHub(text)
}

// mayMove reports whether the text names another address and is for the workspace and the client ID of the agent.
func (f found) mayMove(text jointext.Text) bool {
	return !sameHub(text, f.server, text.Workspace) && f.identity.ClusterNamespace == text.Workspace && !f.imported &&
		text.ClientID != "" && text.ClientID == f.clientID()
}

// isOwnHub reports whether the hub of the text is that of the agent: it has a document signed with the key of that hub. For an
// agent that does not know that key, the same key must have signed the token of the text and the identity.
func (f found) isOwnHub(text jointext.Text) bool {
	if f.hubKey {
		return f.signed
	}
	return f.signer != "" && f.signer == protocol.SigningKeyOf(text.Token)
}

// isSigned reports whether a document of a hub is signed with the key of the agent's hub and names the address and the CA of the
// text. Any hub can publish a copy of the document of another one.
func isSigned(text jointext.Text, kept protocol.RecoveryData, signed string) bool {
	document, err := identity.VerifyDocument(kept.HubKey, signed)
	return err == nil && registering.ProveAddress(registering.DocumentInput{Document: document, Serial: kept.Serial}, text.URL, []byte(text.CA)) == nil
}

// refuse returns the error for a cluster with another agent, with the ways out.
func refuse(f found, problem string, more ...string) error {
	fixes := append([]string{}, more...)
	switch {
	case len(f.others) > 0:
	case f.release != "":
		fixes = append(fixes, "to leave that hub: "+f.uninstall()+", then delete the Cluster there, and join again")
	default:
		fixes = append(fixes, "to leave that hub: delete the Cluster there, then "+f.removal()+", and join again")
	}
	return exit.Errorf(exit.Refused, "%s", problem).Because(conditions.ReasonAnotherHub).With(fixes...)
}

// refuseAnother returns the error for a cluster that has joined the same hub as another Cluster. If the cluster was copied,
// that Cluster belongs to the original and has to stay.
func refuseAnother(f found, name string) error {
	problem := fmt.Sprintf("this cluster has joined as Cluster %s, and the text is for another client ID", name)
	if f.release == "" {
		return refuse(f, problem)
	}
	return exit.Errorf(exit.Refused, "%s", problem).Because(conditions.ReasonAnotherHub).
		With("to join as another Cluster: "+f.uninstall()+", and join again. Then delete Cluster "+name+", unless this cluster is a copy of that one",
			"to keep that Cluster, select the cluster that joins with --context: kubectl config get-contexts")
}

// uninstall returns the command that removes an agent that Helm has installed.
func (f found) uninstall() string {
	return f.here.On(remedy.Command("helm", "uninstall", names.Agent, "-n", f.namespace))
}

// removal returns the command that removes an agent that Helm has not installed. Its role would prevent the installation.
func (f found) removal() string {
	role := names.SafeConcat(f.namespace, names.Agent, "role")
	return f.here.On(remedy.Command("kubectl", "delete", "namespace", f.namespace) + " && " +
		remedy.Command("kubectl", "delete", "clusterrole,clusterrolebinding", role, names.SafeConcat(f.namespace, names.Agent, "role", "binding"), "--ignore-not-found"))
}

func sameHub(text jointext.Text, server, workspace string) bool {
	return strings.TrimSuffix(text.URL, "/") == strings.TrimSuffix(server, "/") && text.Workspace == workspace
}

// clockLimit is the difference of two clocks from which it is reported.
const clockLimit = time.Minute

// clockProblem returns a warning if the clocks of hub and cluster differ.
func clockProblem(hub, cluster hubclient.Response) string {
	difference := (cluster.Offset - hub.Offset).Round(time.Second)
	if !hub.Known || !cluster.Known || difference.Abs() <= clockLimit {
		return ""
	}
	direction := "ahead of"
	if difference < 0 {
		direction, difference = "behind", -difference
	}
	return fmt.Sprintf("the clock of this cluster's API server is %s %s the hub's: the agent may take the hub's certificate for one that is not valid. Correct the clocks of the nodes", difference, direction)
}

// right is a right that the installation needs.
type right struct{ verb, group, resource, namespace string }

func (r right) String() string {
	name := r.resource
	if r.group != "" {
		name += "." + r.group
	}
	if r.namespace != "" {
		return fmt.Sprintf("%s %s in namespace %s", r.verb, name, r.namespace)
	}
	return r.verb + " " + name
}

// everything is the right of an administrator of the cluster. The agent's role has it, so another user may only create the
// role with the right to escalate.
func everything() right { return right{"*", "*", "*", ""} }

// neededRights are the rights of a user who does not have everything.
func neededRights(namespace string) []right {
	const rbac = "rbac.authorization.k8s.io"
	return []right{
		{"get", "", "namespaces", ""}, {"create", "", "namespaces", ""},
		{"get", "", "secrets", namespace}, {"create", "", "secrets", namespace}, {"update", "", "secrets", namespace}, {"list", "", "secrets", namespace}, {"delete", "", "secrets", namespace},
		{"create", "", "serviceaccounts", namespace}, {"create", "", "configmaps", namespace},
		{"create", "apps", "deployments", namespace}, {"list", "apps", "deployments", ""}, {"list", "apps", "statefulsets", ""},
		{"create", "networking.k8s.io", "networkpolicies", namespace},
		{"create", rbac, "clusterroles", ""}, {"escalate", rbac, "clusterroles", ""}, {"create", rbac, "clusterrolebindings", ""},
	}
}

// missingRights returns the error for rights that the user does not have, or nil.
func missingRights(missing []right) error {
	if len(missing) == 0 {
		return nil
	}
	failure := &exit.Error{Code: exit.Preflight}
	for _, r := range missing {
		failure.Problems = append(failure.Problems, errors.New("you do not have the right to "+r.String()+" on this cluster"))
	}
	sort.Slice(failure.Problems, func(i, j int) bool { return failure.Problems[i].Error() < failure.Problems[j].Error() })
	return failure.With("use the --context of an administrator (ClusterRole cluster-admin): kubectl auth whoami")
}
