package parity

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// Names maps values that differ between two runs of one situation to names that do not differ.
type Names struct {
	literals map[string]string
	replacer *strings.Replacer
	forms    []form
}

// NewNames computes the names of a situation. given maps values that only the caller knows, such as the URLs of
// API servers. The other names are derived from the objects, if they follow the wire contract. A value that does
// not follow it gets no name, and is reported as a difference.
func NewNames(objects []Object, given map[string]string) *Names {
	n := &Names{literals: map[string]string{}, forms: newForms()}
	for literal, name := range given {
		n.name(literal, name)
	}
	for _, find := range []func([]Object){n.clusters, n.requests, n.owners, n.uids, n.sets, n.values, n.authorities} {
		n.replacer = n.compile()
		find(objects)
	}
	n.replacer = n.compile()
	return n
}

// name gives a literal a name, unless it has one.
func (n *Names) name(literal, name string) {
	if _, named := n.literals[literal]; !named && literal != "" {
		n.literals[literal] = name
	}
}

// compile returns a replacer that replaces longer literals first, for example a credential's name before a part
// of it.
func (n *Names) compile() *strings.Replacer {
	var pairs []string
	for _, literal := range slices.SortedFunc(maps.Keys(n.literals), func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) }) {
		pairs = append(pairs, literal, n.literals[literal])
	}
	return strings.NewReplacer(pairs...)
}

// Patterns of values without a derived name.
var (
	clientIDForm = regexp.MustCompile(`^([a-z0-9]{54}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})$`)
	randomForm   = regexp.MustCompile(`^[a-z0-9]{54}$`)
	requestForm  = regexp.MustCompile(`^request-[a-z0-9]{5}$`)
)

// clusters names the client IDs, and the Clusters that are named after them.
func (n *Names) clusters(objects []Object) {
	for _, o := range ofKind(objects, "Cluster") {
		name, workspace, id := o.text("metadata", "name"), o.text("metadata", "namespace"), o.text("spec", "clientID")
		known := name
		if id != "" && name == names.Cluster(id) {
			known = fmt.Sprintf("<cluster env=%s>", o.text("metadata", "labels", "env"))
			n.name(name, known)
			if space := names.ClusterNamespace(workspace, name); o.text("status", "namespace") == space {
				n.name(space, "<namespace of "+known+">")
			}
		}
		if clientIDForm.MatchString(id) {
			n.name(id, "<client ID of "+known+">")
		}
	}
}

// requests names ClusterRegistrations after their Cluster, and their credential Secrets after the
// ClusterRegistration.
func (n *Names) requests(objects []Object) {
	seen := map[string]int{}
	for _, o := range ofKind(objects, "ClusterRegistration") {
		name, random := o.text("metadata", "name"), o.text("spec", "clientRandom")
		known := n.Text("request of " + o.text("status", "clusterName"))
		if seen[known]++; seen[known] > 1 {
			known = fmt.Sprintf("%s, number %d", known, seen[known])
		}
		if requestForm.MatchString(name) {
			n.name(name, "<"+known+">")
		}
		if randomForm.MatchString(random) {
			n.name(random, "<random of "+known+">")
		}
		n.name(names.CredentialSecret(o.text("spec", "clientID"), random), "<credential of "+known+">")
	}
}

// owners names the UIDs that are parts of the names of other objects.
func (n *Names) owners(objects []Object) {
	for _, kind := range []string{"ClusterRegistration", "ClusterRegistrationToken"} {
		for _, o := range ofKind(objects, kind) {
			n.name(o.text("metadata", "uid"), n.Text("<uid of "+o.String()+">"))
		}
	}
}

// uids names all other UIDs.
func (n *Names) uids(objects []Object) {
	for _, o := range objects {
		n.name(o.text("metadata", "uid"), n.Text("<uid of "+o.String()+">"))
	}
}

// sets names the hashes of object sets.
func (n *Names) sets(objects []Object) {
	const prefix = "objectset.rio.cattle.io/"
	for _, o := range objects {
		mark := func(key string) string { return o.text("metadata", "annotations", prefix+key) }
		owner := names.Owner{GVK: mark("owner-gvk"), Name: mark("owner-name"), Namespace: mark("owner-namespace")}
		if owner.Name == "" {
			continue
		}
		n.name(names.SetHash(mark("id"), owner), n.Text(fmt.Sprintf("<hash of set %s of %s/%s>", mark("id"), owner.Namespace, owner.Name)))
	}
}

// authorities names the hashes of the hub's CA.
func (n *Names) authorities(objects []Object) {
	for _, o := range ofKind(objects, "ConfigMap") {
		ca, err := base64.StdEncoding.DecodeString(o.text("data", "config", "apiServerCA"))
		if err != nil || len(ca) == 0 {
			continue
		}
		if sum, err := names.StatusHash(ca); err == nil {
			n.name(sum, "<hash of the hub's CA>")
		}
	}
}

// ofKind returns the objects of a kind, in their order.
func ofKind(objects []Object, kind string) []Object {
	return slices.DeleteFunc(slices.Clone(objects), func(o Object) bool { return o.Kind() != kind })
}
