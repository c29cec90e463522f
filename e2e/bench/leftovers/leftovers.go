package leftovers

import (
	"cmp"
	"slices"
	"strings"

	"github.com/fleet-hub/fleet/e2e/bench/figures"
	"github.com/fleet-hub/fleet/e2e/framework/inventory"
)

// Left are the objects that a registration leaves on the hub.
type Left struct {
	// Each is the number of objects per cluster. AfterExpiry is the number after the credentials have expired, 40
	// minutes after the grant. Then their Secrets are deleted, and the Roles and RoleBindings to read them.
	Each        float64   `json:"each"`
	AfterExpiry float64   `json:"afterExpiry"`
	Kinds       []Objects `json:"kinds"`
}

// Objects are the objects of one kind.
type Objects struct {
	Resource string  `json:"resource"`
	Each     float64 `json:"each"`
	// Expiring is the number of objects that are deleted with the credential.
	Expiring float64 `json:"expiring,omitempty"`
}

// Between returns the objects that were added between two inventories, for each of this number of clusters. Registrations
// is the namespace of credentials.
func Between(before, after inventory.Inventory, clusters int, registrations string) Left {
	more, expiring := map[string]int{}, map[string]int{}
	total, gone := 0, 0
	for object := range after {
		if _, was := before[object]; was {
			continue
		}
		more[object.Resource]++
		total++
		if expires(object, registrations) {
			expiring[object.Resource]++
			gone++
		}
	}
	for object := range before {
		if _, is := after[object]; !is {
			more[object.Resource]--
			total--
		}
	}
	l := Left{Each: figures.Per(float64(total), clusters), AfterExpiry: figures.Per(float64(total-gone), clusters), Kinds: []Objects{}}
	for resource, n := range more {
		if n != 0 {
			l.Kinds = append(l.Kinds, Objects{Resource: resource, Each: figures.Per(float64(n), clusters), Expiring: figures.Per(float64(expiring[resource]), clusters)})
		}
	}
	slices.SortFunc(l.Kinds, func(a, b Objects) int {
		return cmp.Or(-cmp.Compare(a.Each, b.Each), cmp.Compare(a.Resource, b.Resource))
	})
	return l
}

// expires reports whether an object is a credential, or a Role or RoleBinding to read one.
func expires(o inventory.Object, registrations string) bool {
	if o.Namespace != registrations {
		return false
	}
	switch o.Resource {
	case "secrets":
		return strings.HasPrefix(o.Name, "c-")
	case "roles." + rbac, "rolebindings." + rbac:
		return true
	}
	return false
}

const rbac = "rbac.authorization.k8s.io"
