package takeover

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/cli/output"
	"github.com/fleet-hub/fleet/internal/cmd/cli/remedy"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// found is what the hub has.
type found struct {
	cluster *fleet.Cluster
	// request is nil if it does not exist.
	request *fleet.ClusterRegistration
	// tokenMissing means that the request names a token that does not exist.
	tokenMissing bool
	// granted are the granted requests of the Cluster, without the request itself. waiting are the names of those that
	// wait for a confirmation.
	granted []*fleet.ClusterRegistration
	waiting []string
}

// add keeps a request if it is one of the Cluster.
func (f *found) add(r *fleet.ClusterRegistration) {
	switch {
	case r.Status.ClusterName != f.cluster.Name || r.DeletionTimestamp != nil:
	case r.Status.Granted && (f.request == nil || r.Name != f.request.Name):
		f.granted = append(f.granted, r)
	case reasonOf(r) == conditions.ReasonTakeoverPending:
		f.waiting = append(f.waiting, r.Name)
	}
}

func checkNames(names ...string) error {
	failure := &exit.Error{Code: exit.Usage, Fixes: []string{"fleet confirm-takeover --help"}}
	for i, kind := range []string{"cluster", "request"} {
		if len(validation.IsDNS1123Subdomain(names[i])) > 0 {
			failure.Problems = append(failure.Problems, fmt.Errorf("%s name %q is not the name of an object", kind, names[i]))
		}
	}
	if len(failure.Problems) > 0 {
		return failure
	}
	return nil
}

// decide reports whether the request was granted already. It returns an error unless the request waits for a confirmation.
func decide(f found) (already bool, err error) {
	r, c := f.request, f.cluster
	name := r.Namespace + "/" + r.Name
	switch {
	case c.DeletionTimestamp != nil:
		return false, exit.Errorf(exit.Refused, "Cluster %s/%s is being deleted", c.Namespace, c.Name).
			With(remedy.Command("kubectl", "wait", "--for=delete", "clusters.fleet.cattle.io/"+c.Name, "-n", c.Namespace))
	case r.DeletionTimestamp != nil:
		return false, exit.Errorf(exit.Refused, "ClusterRegistration %s is being deleted", name).With(others(f)...)
	case r.Status.ClusterName == "":
		return false, exit.Errorf(exit.Refused, "ClusterRegistration %s belongs to no Cluster yet", name).
			With(remedy.Describe("clusterregistrations", r.Namespace, r.Name))
	case r.Status.ClusterName != c.Name:
		return false, exit.Errorf(exit.Refused, "ClusterRegistration %s belongs to Cluster %s, not to %s", name, shown(r.Status.ClusterName), c.Name).With(others(f)...)
	case r.Status.Granted:
		return true, nil
	case reasonOf(r) != conditions.ReasonTakeoverPending:
		failure := exit.Errorf(exit.Refused, "ClusterRegistration %s does not wait for a confirmation: %s", name, stateOf(r)).Because(reasonOf(r))
		if fix := remedy.OfRegistration(r, reasonOf(r)); fix != "" {
			return false, failure.With(fix)
		}
		return false, failure.With(remedy.Describe("clusterregistrations", r.Namespace, r.Name))
	}
	return false, nil
}

// noSuchRequest returns the error for a request that does not exist.
func noSuchRequest(f found, request string) error {
	return exit.Errorf(exit.Failed, "ClusterRegistration %s/%s does not exist: a request that is not confirmed is deleted after 40 minutes", f.cluster.Namespace, request).
		With(others(f)...)
}

// maxNamed is how many requests an error names.
const maxNamed = 3

// others returns the commands for the requests of the Cluster that wait.
func others(f found) []string {
	if len(f.waiting) == 0 {
		return []string{"no request of this Cluster waits for a confirmation: " + remedy.Command("fleet", "clusters", "describe", f.cluster.Name, "-n", f.cluster.Namespace)}
	}
	slices.Sort(f.waiting)
	var commands []string
	for _, name := range f.waiting[:min(len(f.waiting), maxNamed)] {
		commands = append(commands, remedy.Command("fleet", "confirm-takeover", f.cluster.Name, name, "-n", f.cluster.Namespace))
	}
	if more := len(f.waiting) - maxNamed; more > 0 {
		commands = append(commands, fmt.Sprintf("%d more wait: %s", more, remedy.Command("kubectl", "get", "clusterregistrations.fleet.cattle.io", "-n", f.cluster.Namespace)))
	}
	return commands
}

func reasonOf(r *fleet.ClusterRegistration) string {
	if granted := conditions.Get(r.Status.Conditions, conditions.Granted); granted != nil {
		return granted.Reason
	}
	return ""
}

// stateOf returns what the hub reports about a request that is not granted.
func stateOf(r *fleet.ClusterRegistration) string {
	granted := conditions.Get(r.Status.Conditions, conditions.Granted)
	if granted == nil || granted.Message == "" {
		return "the hub has not processed it yet"
	}
	return output.Line(granted.Message)
}

// warnings returns what makes the confirmation useless or dangerous.
func warnings(f found) []string {
	var all []string
	if f.cluster.Spec.KubeConfigSecret != "" {
		all = append(all, fmt.Sprintf("the hub has the kubeconfig of Cluster %s/%s and installs its agent. The request comes from another agent", f.cluster.Namespace, f.cluster.Name))
	}
	token := f.request.Labels[fleet.LabelRegistrationToken]
	switch {
	case f.tokenMissing:
		all = append(all, fmt.Sprintf("token %s/%s, which the request names, does not exist: no agent can read the answer", f.cluster.Namespace, shown(token)))
	case token == "":
		all = append(all, "the request names no token: the holder of any import token of the workspace can read the answer")
	}
	return all
}

// outcomeOf describes what happens to the agent that is registered.
func outcomeOf(f found) string {
	if len(f.granted) == 0 {
		return "no agent is registered"
	}
	names := make([]string, 0, len(f.granted))
	for _, r := range f.granted {
		names = append(names, r.Name)
	}
	slices.Sort(names)
	list := strings.Join(names[:min(len(names), maxNamed)], ", ")
	if len(names) > maxNamed {
		list += ", …"
	}
	return "it works until the new agent has reported; then the hub deletes " + list + " and rejects that agent, and its workloads stay"
}
