package agentmanagement_test

import (
	"encoding/json"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// TestRightsThatWereDamaged_AreRepaired takes from objects the labels by which the controllers' caches find them, and
// the rights. They are found by their names, and are as before.
func TestRightsThatWereDamaged_AreRepaired(t *testing.T) {
	hub := hub(t)
	ws := workspace(t, hub, "ws-repair")
	token := newToken(t, hub, ws, "t1", time.Hour)
	valuesOf(t, hub, ws, "t1")
	account := names.ImportAccount("t1", string(token.UID))
	const roles, none = "/apis/rbac.authorization.k8s.io/v1/", `{"metadata":{"labels":null},"rules":null}`
	const unmanaged = `{"metadata":{"labels":{"fleet.cattle.io/managed":null}},"rules":null,"subjects":null}`
	for path, damage := range map[string]string{
		roles + "clusterroles/" + names.BundleDeploymentRole:                                    none,
		roles + "clusterroles/" + names.ContentRole:                                             none,
		"/api/v1/namespaces/" + ws + "/serviceaccounts/" + account:                              unmanaged,
		roles + "namespaces/" + ws + "/roles/" + names.SafeConcat(account, "role"):              unmanaged,
		roles + "namespaces/" + ws + "/rolebindings/" + names.SafeConcat(account, "to", "role"): unmanaged,
	} {
		t.Run(path, func(t *testing.T) {
			server := hub.Kube.Discovery().RESTClient()
			read := func(g Gomega) (found rbacv1.ClusterRole, subjects []rbacv1.Subject) {
				text, err := server.Get().AbsPath(path).DoRaw(t.Context())
				g.Expect(err).NotTo(HaveOccurred())
				var binding rbacv1.RoleBinding
				g.Expect(json.Unmarshal(text, &found)).To(Succeed())
				g.Expect(json.Unmarshal(text, &binding)).To(Succeed())
				return found, binding.Subjects
			}
			var before rbacv1.ClusterRole
			var subjects []rbacv1.Subject
			eventually(t, func(g Gomega) { before, subjects = read(g) }) // the controllers may just have started
			if err := server.Patch(types.MergePatchType).AbsPath(path).Body([]byte(damage)).Do(t.Context()).Error(); err != nil {
				t.Fatal(err)
			}
			eventually(t, func(g Gomega) {
				after, to := read(g)
				g.Expect(after.UID).To(Equal(before.UID))
				g.Expect(after.Labels).To(Equal(before.Labels))
				g.Expect(after.Rules).To(Equal(before.Rules))
				g.Expect(to).To(Equal(subjects))
			})
		})
	}
}
