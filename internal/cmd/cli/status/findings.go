package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/cmd/cli/clusters"
	"github.com/fleet-hub/fleet/internal/cmd/cli/leases"
	"github.com/fleet-hub/fleet/internal/cmd/cli/remedy"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	tokenrule "github.com/fleet-hub/fleet/internal/rules/token"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

const (
	// maxProblems is the number of problems that are shown.
	maxProblems = 10
	// soon is when a token counts as one that expires soon.
	soon = 24 * time.Hour
)

// Status is the result of the command. Absent fields are not known.
type Status struct {
	// Version is the version of the active controller: the tag of its image.
	Version string `json:"version,omitempty"`
	// ConfigurationVersion is the version for which the configuration was written. It differs while an upgrade is not complete.
	ConfigurationVersion string `json:"configurationVersion,omitempty"`
	// SystemNamespace is the namespace of the controllers.
	SystemNamespace string         `json:"systemNamespace"`
	Leases          []leases.Lease `json:"leases,omitempty"`
	Clusters        Clusters       `json:"clusters"`
	Tokens          *Tokens        `json:"tokens,omitempty"`
	// Problems are the most frequent problems.
	Problems []Problem `json:"problems"`
}

// Clusters counts Clusters by state.
type Clusters struct {
	Total  int                    `json:"total"`
	States map[clusters.State]int `json:"states"`
}

// Tokens counts tokens, without those that the hub creates for imports.
type Tokens struct {
	Total int `json:"total"`
	// NotReady are tokens without usable values.
	NotReady int `json:"notReady"`
	// WithoutExpiry are tokens that never expire.
	WithoutExpiry int `json:"withoutExpiry"`
	// ExpireSoon are tokens that expire within a day.
	ExpireSoon int `json:"expireSoon"`
}

// Problem is a reason for which conditions are False, with one of the objects.
type Problem struct {
	Kind      string `json:"kind"`
	Reason    string `json:"reason"`
	Count     int    `json:"count"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Message   string `json:"message,omitempty"`
	// Fix is the command that fixes the problem of this object.
	Fix string `json:"fix,omitempty"`
}

// findings collects the result. problems are all problems, by kind and reason.
type findings struct {
	Status

	now      time.Time
	problems map[[2]string]*Problem
}

func newFindings(system string, now time.Time) *findings {
	return &findings{now: now, problems: map[[2]string]*Problem{}, Status: Status{
		SystemNamespace: system, Clusters: Clusters{States: map[clusters.State]int{}}, Tokens: &Tokens{}, Problems: []Problem{},
	}}
}

func (f *findings) addCluster(cluster *fleet.Cluster) {
	summary := clusters.Summarize(cluster)
	f.Clusters.Total++
	f.Clusters.States[summary.State]++
	problem := Problem{Kind: "Cluster", Namespace: cluster.Namespace, Name: cluster.Name}
	seen := map[string]bool{}
	for _, condition := range cluster.Status.Conditions {
		if !conditions.IsTrouble(condition) || seen[condition.Reason] {
			continue
		}
		seen[condition.Reason] = true
		problem.Reason, problem.Message, problem.Fix = condition.Reason, condition.Message, remedy.OfCluster(cluster, condition.Reason)
		f.add(problem)
	}
	if summary.State == clusters.NotReady && !seen[summary.Reason] {
		problem.Reason, problem.Message = cmp.Or(summary.Reason, string(summary.State)), summary.Message
		problem.Fix = remedy.Command("fleet", "clusters", "describe", cluster.Name, "-n", cluster.Namespace)
		f.add(problem)
	}
}

func (f *findings) addToken(token *fleet.ClusterRegistrationToken) {
	ready := conditions.Get(token.Status.Conditions, conditions.Ready)
	trouble := ready != nil && conditions.IsTrouble(*ready)
	if trouble {
		f.add(Problem{
			Kind: "ClusterRegistrationToken", Namespace: token.Namespace, Name: token.Name,
			Reason: ready.Reason, Message: ready.Message, Fix: remedy.OfToken(token, ready.Reason),
		})
	}
	if slices.ContainsFunc(token.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "Cluster" }) {
		return // of an import
	}
	f.Tokens.Total++
	if trouble {
		f.Tokens.NotReady++
	}
	switch expires := tokenrule.Expiry(token); {
	case expires == nil:
		f.Tokens.WithoutExpiry++
	case expires.Sub(f.now) < soon:
		f.Tokens.ExpireSoon++
	}
}

func (f *findings) addRegistration(request *fleet.ClusterRegistration) {
	for _, condition := range request.Status.Conditions {
		if conditions.IsTrouble(condition) {
			f.add(Problem{
				Kind: "ClusterRegistration", Namespace: request.Namespace, Name: request.Name,
				Reason: condition.Reason, Message: condition.Message, Fix: remedy.OfRegistration(request, condition.Reason),
			})
		}
	}
}

// add counts a problem. The first object with it is the example.
func (f *findings) add(problem Problem) {
	key := [2]string{problem.Kind, problem.Reason}
	if f.problems[key] == nil {
		f.problems[key] = &problem
	}
	f.problems[key].Count++
}

// status returns the result with the most frequent problems.
func (f *findings) status() Status {
	result := f.Status
	for _, problem := range f.problems {
		result.Problems = append(result.Problems, *problem)
	}
	slices.SortFunc(result.Problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.Count, a.Count), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Reason, b.Reason))
	})
	result.Problems = result.Problems[:min(maxProblems, len(result.Problems))]
	return result
}

// rank puts problems of the hub before all others.
func rank(p Problem) int {
	if p.Kind == kindLease {
		return 0
	}
	return 1
}

// The kind and the reason of the problem that no controller is active. Other reasons are those of docs/conditions.md.
const (
	kindLease      = "Lease"
	reasonNoLeader = "NoLeader"
)

// checkLeader adds a problem if no controller is active.
func (f *findings) checkLeader() {
	problem := Problem{
		Kind: kindLease, Reason: reasonNoLeader, Namespace: f.SystemNamespace, Name: names.ControllerLease,
		Message: "no controller of the hub is active: nothing is reconciled",
		Fix:     remedy.Command("kubectl", "get", "pods", "-n", f.SystemNamespace),
	}
	for _, lease := range f.Leases {
		if lease.Name == names.ControllerLease && lease.Active {
			return
		}
	}
	f.add(problem)
}

// versionText returns the version that runs, and another one to which the hub is to be upgraded.
func (s Status) versionText() string {
	text := cmp.Or(s.Version, "unknown")
	if s.ConfigurationVersion != "" && s.ConfigurationVersion != s.Version {
		text += " (the configuration is of version " + s.ConfigurationVersion + ")"
	}
	return text
}

func (t *Tokens) text() string {
	var parts []string
	for _, part := range []struct {
		n    int
		text string
	}{{t.NotReady, "not ready"}, {t.WithoutExpiry, "without expiry"}, {t.ExpireSoon, "expire within a day"}} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.text))
		}
	}
	text := fmt.Sprint(t.Total)
	if len(parts) > 0 {
		text += " (" + strings.Join(parts, ", ") + ")"
	}
	return text
}
