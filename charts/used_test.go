package charts_test

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/fleet-hub/fleet/dev/plane/requests"
)

var recordedRequests = flag.String("requests", "", "folder with the requests that a run of all tests recorded; make rights sets it")

// right is one of the controllers' rights: what a rule allows, taken apart.
type right struct {
	// rule names the rule: its role and its comment.
	rule string
	// Request is what it allows; Own means only in the controllers' own namespace.
	requests.Request
}

func (r right) String() string {
	text := r.Verb + " " + r.Resource
	if r.Group != "" {
		text += "." + r.Group
	}
	if r.Name != "" {
		text += " " + r.Name
	}
	return text
}

// allows reports whether the right allows a request.
func (r right) allows(q requests.Request) bool {
	return r.Verb == q.Verb && r.Group == q.Group && r.Resource == q.Resource && (r.Name == "" || r.Name == q.Name) && (!r.Own || q.Own)
}

// rightsOf returns the rights of the roles in a document of several.
func rightsOf(t *testing.T, text string) (all []right) {
	t.Helper()
	for _, document := range strings.Split(text, "\n---\n") {
		role := parse[rbacv1.ClusterRole](t, document)
		for i, rule := range role.Rules {
			names := rule.ResourceNames
			if len(names) == 0 {
				names = []string{""}
			}
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						for _, name := range names {
							all = append(all, right{
								rule:    fmt.Sprintf("%s %s, rule %d", role.Kind, role.Name, i+1),
								Request: requests.Request{Verb: verb, Group: group, Resource: resource, Name: name, Own: role.Kind == "Role"},
							})
						}
					}
				}
			}
		}
	}
	return all
}

// implied returns further rights that an API server requires for a request and does not log.
func implied(q requests.Request) (all []requests.Request) {
	write := slices.Contains([]string{"create", "update", "patch"}, q.Verb)
	roles := func(verb, resource, name string) requests.Request {
		return requests.Request{Verb: verb, Group: rbacv1.GroupName, Resource: resource, Name: name}
	}
	switch {
	case !write:
	case q.Group == rbacv1.GroupName && q.Resource == "roles": // rights that the writer does not have
		all = append(all, roles("escalate", "roles", ""))
	case q.Group == rbacv1.GroupName && q.Resource == "rolebindings": // the same
		all = append(all, roles("bind", "roles", ""), roles("bind", "clusterroles", "fleet-bundle-deployment"))
	case q.Group == rbacv1.GroupName && q.Resource == "clusterrolebindings":
		all = append(all, roles("bind", "clusterroles", "fleet-content"))
	case q.Group == rbacv1.GroupName && q.Resource == "clusterroles": // all of it: the controllers may not escalate these
		given := map[string][]string{
			"fleet-bundle-deployment": {"get bundledeployments", "list bundledeployments", "watch bundledeployments",
				"update bundledeployments/status", "patch bundledeployments/status"},
			"fleet-content": {"get contents"},
		}
		for _, text := range given[q.Name] {
			verb, resource, _ := strings.Cut(text, " ")
			all = append(all, requests.Request{Verb: verb, Group: "fleet.cattle.io", Resource: resource})
		}
	case q.Group == "" && q.Resource == "secrets": // an owner that waits for it: OwnerReferencesPermissionEnforcement
		all = append(all, requests.Request{Verb: "update", Group: "fleet.cattle.io", Resource: "bundledeployments/finalizers"})
	}
	return all
}

// seldomUsed are rights that a run of all tests may leave unused, each with the case in which it is used.
var seldomUsed = map[string]string{
	"get bundles.fleet.cattle.io":                        again,
	"get clustergroups.fleet.cattle.io":                  again,
	"get clusterregistrationtokens.fleet.cattle.io":      again,
	"patch clusters/status.fleet.cattle.io":              "grant: agents get it, and only who has a right may give it to others",
	"patch clustergroups.fleet.cattle.io":                "bootstrap: ClusterGroup default of the hub's own workspace was changed by a user",
	"list bundlenamespacemappings.fleet.cattle.io":       stream,
	"list clustergroups.fleet.cattle.io":                 stream,
	"list clusterregistrationtokens.fleet.cattle.io":     stream,
	"list clusterrolebindings.rbac.authorization.k8s.io": stream,
	"list clusterroles.rbac.authorization.k8s.io":        stream,
	"list clusters.cluster.x-k8s.io":                     stream,
	"list deployments.apps fleet-controller":             stream,
}

const stream = "client-go's informer lists only where an API server cannot stream a list"

const again = "reconcile.WriteStatus, reconcile.Patch: the object is read again after a conflict"

// compareRights returns how many rights were used, and a sentence for each right that no request used and for each
// request that no right allows.
func compareRights(rights []right, sent []requests.Request, seldom map[string]string) (used int, wrong []string) {
	var asked []requests.Request
	for _, q := range sent {
		asked = append(append(asked, q), implied(q)...)
		if !slices.ContainsFunc(rights, func(r right) bool { return r.allows(q) }) {
			wrong = append(wrong, fmt.Sprintf("no rule allows %s, which was requested", right{Request: q}))
		}
	}
	known := map[string]bool{}
	for _, r := range rights {
		known[r.String()] = true
		switch {
		case slices.ContainsFunc(asked, r.allows):
			used++
		case seldom[r.String()] == "":
			wrong = append(wrong, fmt.Sprintf("%s: no request used %s: remove it from charts/fleet/templates/rbac.yaml, or let a test use it", r.rule, r))
		}
	}
	for text := range seldom {
		if !known[text] {
			wrong = append(wrong, fmt.Sprintf("seldomUsed names %s, which no rule allows", text))
		}
	}
	slices.Sort(wrong)
	return used, wrong
}

// TestControllerRights_AreAllUsed compares the rules of charts/fleet with what its controllers requested in all
// tests. It runs after them, by make test.
func TestControllerRights_AreAllUsed(t *testing.T) {
	if *recordedRequests == "" {
		t.Skip("no -requests: make test records them, make rights compares")
	}
	sent, err := requests.Read(*recordedRequests)
	if err != nil {
		t.Fatal(err)
	}
	all := rightsOf(t, mustRender(t, controllers("capi: {enabled: true}"))["rbac.yaml"])
	used, wrong := compareRights(all, sent, seldomUsed)
	for _, sentence := range wrong {
		t.Error(sentence)
	}
	t.Logf("rights: %d of %d used by %d kinds of requests", used, len(all), len(sent))
}

func TestCompareRights(t *testing.T) {
	all := rightsOf(t, `kind: ClusterRole
metadata: {name: a}
rules:
- {apiGroups: [""], resources: [secrets], verbs: [get, create]}
- {apiGroups: [fleet.cattle.io], resources: [bundledeployments/finalizers], verbs: [update]}
---
kind: Role
metadata: {name: b}
rules:
- {apiGroups: [coordination.k8s.io], resources: [leases], resourceNames: [one, two], verbs: [update]}
`)
	lease := func(name string, own bool) requests.Request {
		return requests.Request{Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Name: name, Own: own}
	}
	used := []requests.Request{{Verb: "get", Resource: "secrets"}, {Verb: "create", Resource: "secrets"}, lease("one", true), lease("two", true)}
	without := func(i int, more ...requests.Request) []requests.Request {
		return append(slices.Delete(slices.Clone(used), i, i+1), more...)
	}
	const remedy = ": remove it from charts/fleet/templates/rbac.yaml, or let a test use it"
	tests := map[string]struct {
		sent   []requests.Request
		seldom map[string]string
		unused int
		want   []string
	}{
		"every right used": {sent: used},
		"verb unused: is named": {
			sent: without(0), unused: 1, want: []string{"ClusterRole a, rule 1: no request used get secrets" + remedy},
		},
		"implied right: counts as unused with its request": {sent: without(1), unused: 2, want: []string{
			"ClusterRole a, rule 1: no request used create secrets" + remedy,
			"ClusterRole a, rule 2: no request used update bundledeployments/finalizers.fleet.cattle.io" + remedy,
		}},
		"name unused: is named": {
			sent: without(3), unused: 1, want: []string{"Role b, rule 1: no request used update leases.coordination.k8s.io two" + remedy},
		},
		"request in another namespace: does not use a Role": {sent: without(3, lease("two", false)), unused: 1, want: []string{
			"Role b, rule 1: no request used update leases.coordination.k8s.io two" + remedy,
			"no rule allows update leases.coordination.k8s.io two, which was requested",
		}},
		"unused right in the list seldomUsed: is not named": {sent: without(0), seldom: map[string]string{"get secrets": "a reason"}, unused: 1},
		"right in seldomUsed that does not exist: is named": {
			sent: used, seldom: map[string]string{"get pods": "a reason"}, want: []string{"seldomUsed names get pods, which no rule allows"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			used, wrong := compareRights(all, test.sent, test.seldom)
			if want := len(all) - test.unused; used != want {
				t.Errorf("%d of %d used, want %d", used, len(all), want)
			}
			if diff := cmp.Diff(test.want, wrong); diff != "" {
				t.Errorf("wrong (-want +got):\n%s", diff)
			}
		})
	}
}
