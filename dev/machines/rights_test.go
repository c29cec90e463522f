package machines_test

import (
	"bufio"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/dev/machines"
)

// seldomUsed are the rights that the life of one cluster does not use, with the reason why they exist.
var seldomUsed = map[string]string{
	"get cluster.x-k8s.io machines":         conflict,
	"get lab.fleet-hub.io labconfigs":       conflict,
	"get lab.fleet-hub.io labcontrolplanes": conflict,
	"patch cluster.x-k8s.io machines":       "labels or timeouts of the control plane's template change",
	"patch lab.fleet-hub.io labconfigs":     "labels of the control plane's template change",
	"update  secrets":                       "kubeconfigs are renewed after half an hour",
}

// conflict is the reason of rights that only a conflict of two writes uses.
const conflict = "reconcile.WriteStatus, reconcile.Patch: the object is read again after a conflict with the core"

// event is a line of an audit log.
type event struct {
	Verb      string
	User      struct{ Username string }
	ObjectRef struct{ APIGroup, Resource, Subresource string }

	ResponseStatus struct{ Code int }
}

func (e event) right() string {
	resource := e.ObjectRef.Resource
	if e.ObjectRef.Subresource != "" {
		resource += "/" + e.ObjectRef.Subresource
	}
	return strings.Join([]string{e.Verb, e.ObjectRef.APIGroup, resource}, " ")
}

// expectRights compares the provider's requests since the start of the management cluster with its rights: none was
// refused, and each right is used.
func (g *given) expectRights(t *testing.T) {
	t.Helper()
	role, err := g.kube.RbacV1().ClusterRoles().Get(t.Context(), "lab-machine-provider", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	unused := rightsOf(role.Rules)
	for _, e := range g.requests(t) {
		delete(unused, e.right())
		if e.ResponseStatus.Code == 403 {
			t.Errorf("refused: %s", e.right())
		}
	}
	for right := range seldomUsed {
		delete(unused, right)
	}
	// Caches need both; the audit log contains a watch when it ends, and a list only if the server cannot stream it.
	maps.DeleteFunc(unused, func(right string, _ bool) bool {
		return strings.HasPrefix(right, "list ") || strings.HasPrefix(right, "watch ")
	})
	if len(unused) > 0 {
		t.Errorf("no request uses these rights: %q", slices.Sorted(maps.Keys(unused)))
	}
}

func rightsOf(rules []rbacv1.PolicyRule) map[string]bool {
	rights := map[string]bool{}
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					rights[strings.Join([]string{verb, group, resource}, " ")] = true
				}
			}
		}
	}
	return rights
}

// requests returns the provider's requests.
func (g *given) requests(t *testing.T) (found []event) {
	t.Helper()
	file, err := os.Open(control.Plane(t).Hub.AuditLog)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }() // only read from
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			continue // the API server is writing this line
		}
		if e.User.Username == "system:serviceaccount:"+machines.Namespace+":"+machines.Account {
			found = append(found, e)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if len(found) < 30 {
		t.Fatalf("found %d requests of the provider: the audit log is read wrongly", len(found))
	}
	return found
}
