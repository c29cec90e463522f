package walls_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/e2e/framework/golden"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// asking is how many questions are asked at a time.
const asking = 16

// preamble explains the golden file.
const preamble = `# What each identity may do after a registration: identity | where | resource(name) | verbs.
# All that is asked for (see rights_test.go) and is not listed is denied. A line with a name holds for the object of that
# name alone. "Own" is what belongs to the first workspace and its cluster; the identities of another workspace have
# their own rights in "another workspace".
`

// subject is an identity as the API server sees it.
type subject struct {
	name, user string
	groups     []string
}

func accountSubject(name, namespace, account string) subject {
	return subject{
		name: name, user: "system:serviceaccount:" + namespace + ":" + account,
		groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
	}
}

// place is where an identity may do something; an empty namespace is the whole cluster.
type place struct{ name, namespace string }

// right is one kind of object, or the one of a name.
type right struct {
	group, resource, subresource string
	name, shown                  string
	clusterScoped                bool
}

func (r right) String() string {
	text := r.resource
	if r.group != "" && r.group != fleet.SchemeGroupVersion.Group {
		text += "." + r.group
	}
	if r.subresource != "" {
		text += "/" + r.subresource
	}
	if r.shown != "" {
		text += "(" + r.shown + ")"
	}
	return text
}

// verbs are those that mean something for a resource.
func (r right) verbs() []string {
	all := []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}
	switch r.resource {
	case "roles", "clusterroles":
		return append(all, "bind", "escalate")
	case "serviceaccounts", "users", "groups":
		return append(all, "impersonate")
	}
	return all
}

func TestRights_OnlyWhatIsListedIsAllowed(t *testing.T) {
	ctx := t.Context()
	w := sharedWorld(t)
	f := w.facts(t, ctx)
	admin := rbacClient(t, w)
	var lines []string
	for _, who := range f.subjects {
		for _, where := range f.places {
			allowed, err := allowedIn(ctx, admin, who, where, f.rights)
			must(t, err)
			lines = append(lines, allowed...)
		}
	}
	golden.Expect(t, "rights.golden", preamble+strings.Join(lines, "\n")+"\n")
}

func rbacClient(t *testing.T, w *world) kubernetes.Interface {
	t.Helper()
	config := w.site.Config()
	config.QPS = -1
	c, err := kubernetes.NewForConfig(config)
	must(t, err)
	return c
}

// allowedIn are the lines of one identity in one place.
func allowedIn(ctx context.Context, c kubernetes.Interface, who subject, where place, rights []right) ([]string, error) {
	verbs := make([][]string, len(rights))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(asking)
	for i, r := range rights {
		if r.clusterScoped && where.namespace != "" {
			continue
		}
		group.Go(func() (err error) {
			verbs[i], err = allowedVerbs(ctx, c, who, where, r)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	unnamed := map[string][]string{}
	var same []string // verbs that some resources have in common
	var resources [][]string
	for i, r := range rights {
		kind := right{group: r.group, resource: r.resource, subresource: r.subresource}.String()
		if r.name == "" {
			unnamed[kind] = verbs[i]
		} else {
			verbs[i] = slices.DeleteFunc(verbs[i], func(v string) bool { return slices.Contains(unnamed[kind], v) })
		}
		all := strings.Join(verbs[i], " ")
		if all == "" {
			continue
		}
		at := slices.Index(same, all)
		if at < 0 {
			at = len(same)
			same, resources = append(same, all), append(resources, nil)
		}
		resources[at] = append(resources[at], r.String())
	}
	var lines []string
	for i, all := range same {
		lines = append(lines, fmt.Sprintf("%s | %s | %s | %s", who.name, where.name, strings.Join(resources[i], ", "), all))
	}
	return lines, nil
}

func allowedVerbs(
	ctx context.Context, c kubernetes.Interface, who subject, where place, r right,
) (allowed []string, err error) {
	for _, verb := range r.verbs() {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: who.user, Groups: who.groups,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: where.namespace, Verb: verb, Group: r.group, Version: "*",
				Resource: r.resource, Subresource: r.subresource, Name: r.name,
			},
		}}
		said, err := c.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return nil, fmt.Errorf("asking whether %s may %s %s in %s: %w", who.name, verb, r, where.name, err)
		}
		if said.Status.Allowed {
			allowed = append(allowed, verb)
		}
	}
	return allowed, nil
}

// facts are what there is to ask about.
type facts struct {
	subjects []subject
	places   []place
	rights   []right
}

func (w *world) facts(t *testing.T, ctx context.Context) facts {
	t.Helper()
	var f facts
	others := map[string]string{}
	for _, who := range []tenant{w.attacker, w.victim} {
		var requests fleet.ClusterRegistrationList
		must(t, w.Hub.List(ctx, client.ClusterRegistrations, who.workspace, &requests))
		if len(requests.Items) != 1 {
			t.Fatalf("%s has %d requests, not one", who.workspace, len(requests.Items))
		}
		request := &requests.Items[0]
		others[who.workspace] = names.CredentialSecret(request.Spec.ClientID, request.Spec.ClientRandom)
		var made fleet.ClusterRegistrationToken
		must(t, w.Hub.Get(ctx, client.Tokens, who.workspace, token, &made))
		f.subjects = append(f.subjects,
			accountSubject("token account", who.workspace, names.ImportAccount(made.Name, string(made.UID))),
			accountSubject("agent", who.namespace, names.RequestAccount(request.Name, string(request.UID))),
		)
	}
	f.subjects[2].name, f.subjects[3].name = "token account of another workspace", "agent of another cluster"
	f.subjects = append(f.subjects, subject{name: "workspace admin", user: adminUser, groups: []string{"system:authenticated"}})
	f.places = []place{
		{"own workspace", w.attacker.workspace},
		{"own cluster's namespace", w.attacker.namespace},
		{"namespace of another cluster of the workspace", names.ClusterNamespace(w.attacker.workspace, "a2")},
		{"another workspace", w.victim.workspace},
		{"namespace of a cluster of another workspace", w.victim.namespace},
		{registrationNamespace, registrationNamespace},
		{names.SystemNamespace, names.SystemNamespace},
		{framework.LocalWorkspace, framework.LocalWorkspace},
		{metav1.NamespaceSystem, metav1.NamespaceSystem},
		{metav1.NamespaceDefault, metav1.NamespaceDefault},
		{"all namespaces", ""},
	}
	f.rights = w.rights(others)
	return f
}

// rights are all resources that the project uses, and those by which rights could be had.
func (w *world) rights(credentials map[string]string) (all []right) {
	add := func(group string, clusterScoped bool, resources ...string) {
		for _, resource := range resources {
			kind, sub, _ := strings.Cut(resource, "/")
			all = append(all, right{group: group, resource: kind, subresource: sub, clusterScoped: clusterScoped})
		}
	}
	named := func(group, resource, name, shown string) {
		kind, sub, _ := strings.Cut(resource, "/")
		all = append(all, right{group: group, resource: kind, subresource: sub, name: name, shown: shown})
	}
	group := fleet.SchemeGroupVersion.Group
	for _, kind := range []string{
		client.Bundles, client.BundleDeployments, client.Mappings, client.Clusters, client.ClusterGroups,
		client.ClusterRegistrations, client.Tokens,
	} {
		add(group, false, kind, kind+"/status", kind+"/finalizers")
	}
	for _, resource := range []string{client.Clusters, client.Clusters + "/status"} {
		named(group, resource, w.attacker.cluster, "own cluster")
		named(group, resource, w.victim.cluster, "another cluster")
	}
	add(group, true, "contents", "contents/status")
	add("", false, "secrets", "configmaps", "serviceaccounts", "serviceaccounts/token", "events")
	add("", false, "pods", "pods/exec", "pods/log")
	named("", "secrets", credentials[w.attacker.workspace], "credential of the own cluster")
	named("", "secrets", credentials[w.victim.workspace], "credential of another cluster")
	for _, name := range []string{"db", token, names.LocalKubeconfig} {
		named("", "secrets", name, name)
	}
	add("events.k8s.io", false, "events")
	add("coordination.k8s.io", false, "leases")
	named("coordination.k8s.io", "leases", names.ControllerLease, names.ControllerLease)
	add("apps", false, "deployments", "daemonsets")
	add("batch", false, "jobs")
	add(rbacv1.GroupName, false, "roles", "rolebindings")
	add(rbacv1.GroupName, true, "clusterroles", "clusterrolebindings")
	add("", true, "namespaces", "nodes", "persistentvolumes", "users", "groups")
	add("apiextensions.k8s.io", true, "customresourcedefinitions")
	add("admissionregistration.k8s.io", true, "mutatingwebhookconfigurations", "validatingwebhookconfigurations")
	add("certificates.k8s.io", true, "certificatesigningrequests", "certificatesigningrequests/approval")
	add("authentication.k8s.io", true, "tokenreviews")
	add("authorization.k8s.io", true, "subjectaccessreviews")
	return all
}
