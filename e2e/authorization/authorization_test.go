package authorization

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/dev/plane"
	"github.com/fleet-hub/fleet/internal/rules/contentreaders"
)

const (
	workspace    = "workspace"
	registration = "registrations"
	fleetGroup   = "fleet.cattle.io"
	// waiting is the number of credentials that agents have not used yet.
	waiting = 50
	// patience limits the wait until the API server knows a binding.
	patience = 5 * time.Minute
)

var control = plane.Share(plane.Options{})

func TestMain(m *testing.M) { os.Exit(control.Main(m)) }

// site is a hub with the bindings of so many clusters.
type site struct {
	kube     kubernetes.Interface
	cfg      *rest.Config
	clusters int
	// credentials is the number of credentials that can be read.
	credentials int
}

// caller is an account and one of its requests.
type caller struct {
	who    types.NamespacedName
	method string
	path   string
}

func account(i int) types.NamespacedName {
	return types.NamespacedName{Namespace: fmt.Sprintf("cluster-workspace-c%05d", i), Name: "request"}
}

// callers are the accounts that send most requests of a hub. Nothing that they request exists; the API server
// authorizes a request before that matters.
func callers() map[string]caller {
	agent, token := account(0), types.NamespacedName{Namespace: workspace, Name: "token"}
	of := func(namespace, resource string) string {
		return "/apis/" + fleetGroup + "/v1alpha1/namespaces/" + namespace + "/" + resource
	}
	return map[string]caller{
		"agent reads a Content":               {agent, http.MethodGet, "/apis/" + fleetGroup + "/v1alpha1/contents/s-1"},
		"agent reports a BundleDeployment":    {agent, http.MethodPatch, of(agent.Namespace, "bundledeployments/b/status")},
		"agent sends a heartbeat":             {agent, http.MethodPatch, of(workspace, "clusters/c0/status")},
		"token creates a registration":        {token, http.MethodPost, of(workspace, "clusterregistrations")},
		"token reads a credential":            {token, http.MethodGet, "/api/v1/namespaces/" + registration + "/secrets/c-0"},
		"hub changes an object of the tenant": {types.NamespacedName{Namespace: "default", Name: "hub"}, http.MethodPatch, of(workspace, "clusters/c0")},
	}
}

func subject(a types.NamespacedName) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: a.Namespace, Name: a.Name}
}

func rule(group, resource string, names []string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: names, Verbs: verbs}
}

func BenchmarkAuthorization(b *testing.B) {
	cfg := rest.CopyConfig(control.Plane(b).Hub.Config())
	cfg.QPS = -1
	s := &site{kube: kubernetes.NewForConfigOrDie(cfg), cfg: cfg}
	s.begin(b)
	for _, clusters := range []int{100, 1000, 10000} {
		s.grow(b, clusters)
		s.awaitBindings(b)
		s.measure(b, fmt.Sprintf("%d clusters", clusters))
		if clusters == 10000 {
			s.readCredentials(b, clusters)
			s.measure(b, "10000 clusters, credentials not deleted")
		}
	}
	s.shareContents(b)
	s.measure(b, "10000 clusters, contents for all accounts")
}

// measure prints the mean authorization time of each kind of request.
func (s *site) measure(b *testing.B, stage string) {
	b.Helper()
	for name, c := range callers() {
		client := s.clientOf(b, c.who)
		b.Run(stage+"/"+name, func(b *testing.B) {
			before := s.duration(b)
			for b.Loop() {
				if err := c.do(b.Context(), client); apierrors.IsForbidden(err) {
					b.Fatal(err)
				}
			}
			after := s.duration(b)
			b.ReportMetric(1e6*(after.seconds-before.seconds)/float64(after.count-before.count), "authz-µs/request")
		})
	}
}

func (c caller) do(ctx context.Context, client rest.Interface) error {
	return client.Verb(c.method).AbsPath(c.path).Do(ctx).Error()
}

// duration is the sum of the authorization times so far.
type duration struct {
	seconds float64
	count   uint64
}

func (s *site) duration(b *testing.B) (all duration) {
	b.Helper()
	page, err := s.kube.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(page)))
	if err != nil {
		b.Fatal(err)
	}
	for name, family := range families {
		if !strings.HasSuffix(name, "authorization_duration_seconds") {
			continue
		}
		for _, m := range family.GetMetric() {
			all.seconds += m.GetHistogram().GetSampleSum()
			all.count += m.GetHistogram().GetSampleCount()
		}
	}
	return all
}

// begin creates what does not depend on the number of clusters.
func (s *site) begin(b *testing.B) {
	b.Helper()
	ctx, core, rbac := b.Context(), s.kube.CoreV1(), s.kube.RbacV1()
	for _, name := range []string{workspace, registration, account(0).Namespace} {
		_, err := core.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		fatal(b, err)
	}
	for _, c := range callers() {
		_, err := core.ServiceAccounts(c.who.Namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: c.who.Name}}, metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) {
			fatal(b, err)
		}
	}
	for name, rules := range map[string][]rbacv1.PolicyRule{
		"content":  {rule(fleetGroup, "contents", nil, "get")},
		"reporter": {rule(fleetGroup, "bundledeployments/status", nil, "patch")},
		"hub":      {rule(fleetGroup, "*", nil, "*")},
		"token":    {rule(fleetGroup, "clusterregistrations", nil, "create")},
	} {
		_, err := rbac.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, metav1.CreateOptions{})
		fatal(b, err)
	}
	_, err := rbac.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "hub"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "hub"},
		Subjects: []rbacv1.Subject{subject(types.NamespacedName{Namespace: "default", Name: "hub"})},
	}, metav1.CreateOptions{})
	fatal(b, err)
	s.bind(b, account(0).Namespace, "reporter", "ClusterRole", "reporter", account(0))
	s.bind(b, workspace, "token", "ClusterRole", "token", types.NamespacedName{Namespace: workspace, Name: "token"})
	_, err = rbac.Roles(workspace).Create(ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "request-0"}, Rules: []rbacv1.PolicyRule{rule(fleetGroup, "clusters/status", []string{"c0"}, "patch")}}, metav1.CreateOptions{})
	fatal(b, err)
}

func fatal(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (s *site) bind(b *testing.B, namespace, name, kind, role string, who types.NamespacedName) {
	b.Helper()
	_, err := s.kube.RbacV1().RoleBindings(namespace).Create(b.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: role}, Subjects: []rbacv1.Subject{subject(who)},
	}, metav1.CreateOptions{})
	if err != nil {
		b.Errorf("creating RoleBinding %s/%s: %v", namespace, name, err)
	}
}

// grow adds the bindings of more clusters. A binding whose subject is not the caller does not need its Role.
func (s *site) grow(b *testing.B, clusters int) {
	b.Helper()
	each(s.clusters, clusters, func(i int) {
		s.bind(b, workspace, fmt.Sprintf("request-%d", i), "Role", fmt.Sprintf("request-%d", i), account(i))
	})
	s.clusters = clusters
	s.readCredentials(b, waiting)
	shared := map[string][]types.NamespacedName{}
	for i := range clusters {
		shared[contentreaders.Binding(account(i))] = append(shared[contentreaders.Binding(account(i))], account(i))
	}
	for name, accounts := range shared {
		binding := contentreaders.Desired(name, accounts)
		binding.RoleRef.Name = "content"
		_, err := s.kube.RbacV1().ClusterRoleBindings().Create(b.Context(), binding, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			_, err = s.kube.RbacV1().ClusterRoleBindings().Update(b.Context(), binding, metav1.UpdateOptions{})
		}
		fatal(b, err)
	}
}

// readCredentials makes so many credentials readable by the token.
func (s *site) readCredentials(b *testing.B, count int) {
	b.Helper()
	each(s.credentials, count, func(i int) {
		name := fmt.Sprintf("request-%d-creds", i)
		_, err := s.kube.RbacV1().Roles(registration).Create(b.Context(), &rbacv1.Role{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{rule("", "secrets", []string{fmt.Sprintf("c-%d", i)}, "get", "watch")},
		}, metav1.CreateOptions{})
		if err != nil {
			b.Errorf("creating Role %s: %v", name, err)
		}
		s.bind(b, registration, name, "Role", name, types.NamespacedName{Namespace: workspace, Name: "token"})
	})
	s.credentials = max(s.credentials, count)
}

// shareContents replaces the bindings with one subject per account by one for all accounts of the hub.
func (s *site) shareContents(b *testing.B) {
	b.Helper()
	for i := range 32 {
		name := fmt.Sprintf("fleet-content-readers-%02d", i)
		err := s.kube.RbacV1().ClusterRoleBindings().Delete(b.Context(), name, metav1.DeleteOptions{})
		if !apierrors.IsNotFound(err) {
			fatal(b, err)
		}
	}
	_, err := s.kube.RbacV1().ClusterRoleBindings().Create(b.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "content-readers"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "content"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:serviceaccounts"}},
	}, metav1.CreateOptions{})
	fatal(b, err)
	s.awaitBindings(b)
}

// awaitBindings waits until the API server knows the bindings that were written last.
func (s *site) awaitBindings(b *testing.B) {
	b.Helper()
	s.bind(b, workspace, fmt.Sprintf("last-%d-%d", s.clusters, s.credentials), "ClusterRole", "reporter", types.NamespacedName{Namespace: workspace, Name: "token"})
	for _, c := range callers() {
		client := s.clientOf(b, c.who)
		err := wait.PollUntilContextTimeout(b.Context(), 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
			return !apierrors.IsForbidden(c.do(ctx, client)), nil
		})
		fatal(b, err)
	}
}

// clientOf returns a client with a token of an account.
func (s *site) clientOf(b *testing.B, who types.NamespacedName) rest.Interface {
	b.Helper()
	token, err := s.kube.CoreV1().ServiceAccounts(who.Namespace).CreateToken(b.Context(), who.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	fatal(b, err)
	cfg := rest.AnonymousClientConfig(s.cfg)
	cfg.BearerToken, cfg.QPS = token.Status.Token, -1
	return kubernetes.NewForConfigOrDie(cfg).RESTClient()
}

// each calls f for the numbers from begin to end, several at a time.
func each(begin, end int, f func(int)) {
	var next atomic.Int64
	next.Store(int64(begin))
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(end); i = next.Add(1) - 1 {
				f(int(i))
			}
		})
	}
	all.Wait()
}
