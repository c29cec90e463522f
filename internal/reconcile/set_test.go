package reconcile

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// The owner and the hash of its set are those of a recorded token.
const (
	setID    = "cluster-group-token"
	ownerUID = "8119bc80-d5e4-4040-aef8-2ba248328fc5"
	hash     = "dbe7bd85f28158a4f92324fba7b34ec667119446"
)

func owner() Owner {
	return Owner{
		GVK:       fleet.SchemeGroupVersion.WithKind("ClusterRegistrationToken"),
		Namespace: "fleet-default", Name: "import-token-east", UID: ownerUID,
	}
}

// world is a set with one client for each of its kinds.
type world struct {
	*server
	accounts   *fakeClient[*corev1.ServiceAccount]
	secrets    *fakeClient[*corev1.Secret]
	roles      *fakeClient[*rbacv1.Role]
	bindings   *fakeClient[*rbacv1.RoleBinding]
	namespaces *fakeClient[*corev1.Namespace]
	clusters   *fakeClient[*fleet.Cluster]
	set        *Set
}

func newWorld() *world {
	s := newServer()
	core := func(kind string) schema.GroupVersionKind { return corev1.SchemeGroupVersion.WithKind(kind) }
	w := &world{
		server:     s,
		accounts:   newClient(s, core("ServiceAccount"), &corev1.ServiceAccount{}),
		secrets:    newClient(s, core("Secret"), &corev1.Secret{}),
		roles:      newClient(s, rbacv1.SchemeGroupVersion.WithKind("Role"), &rbacv1.Role{}),
		bindings:   newClient(s, rbacv1.SchemeGroupVersion.WithKind("RoleBinding"), &rbacv1.RoleBinding{}),
		namespaces: newClient(s, core("Namespace"), &corev1.Namespace{}),
		clusters:   newClient(s, fleet.SchemeGroupVersion.WithKind("Cluster"), &fleet.Cluster{}),
	}
	w.set = NewSet(setID,
		KindOf(w.accounts), KindOf(w.secrets), KindOf(w.roles), KindOf(w.bindings),
		ClusterKind(clusterWide[*corev1.Namespace]{w.namespaces}).NeverPruned().Adopting(Any),
		KindOf(w.clusters).Owning("spec.kubeConfigSecret", "spec.agentNamespace", "spec.agentTolerations").TrackingLabels(),
	)
	return w
}

func (w *world) put(t *testing.T, seen bool, objects ...Object) {
	t.Helper()
	for _, obj := range objects {
		if !put(t, w.accounts, seen, obj) && !put(t, w.secrets, seen, obj) && !put(t, w.roles, seen, obj) &&
			!put(t, w.bindings, seen, obj) && !put(t, w.namespaces, seen, obj) && !put(t, w.clusters, seen, obj) {
			t.Fatalf("no client for %T", obj)
		}
	}
}

// asWritten is an object as an earlier Apply for owner left it.
func asWritten[T Object](w *world, obj T, changes ...func(T)) T {
	_, stamped, err := w.set.prepare(owner(), obj)
	if err != nil {
		panic(err)
	}
	written := stamped.(T)
	written.SetUID(types.UID("uid-" + obj.GetName()))
	written.SetResourceVersion("7")
	for _, change := range changes {
		change(written)
	}
	return written
}

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "fleet-default", Name: name, Labels: map[string]string{fleet.LabelManaged: "true"}}
}

func account() *corev1.ServiceAccount { return &corev1.ServiceAccount{ObjectMeta: meta("a")} }

func secret(value string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: meta("s"), Type: "example.com/type", Data: map[string][]byte{"k": []byte(value)}}
}

func role(verbs ...string) *rbacv1.Role {
	return &rbacv1.Role{ObjectMeta: meta("r"), Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: verbs}}}
}

func binding(role string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: meta("b"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "fleet-default", Name: "a"}},
	}
}

func namespace() *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
}

func cluster(labels map[string]string, agentNamespace string) *fleet.Cluster {
	return &fleet.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "c", Labels: labels},
		Spec:       fleet.ClusterSpec{KubeConfigSecret: "kc", AgentNamespace: agentNamespace},
	}
}

func TestApply(t *testing.T) {
	type wants struct {
		requests []string
		err      string
	}
	tests := map[string]struct {
		seen    func(*world) []Object // on the server and in the cache
		unseen  func(*world) []Object // on the server only
		desired []runtime.Object
		wants
	}{
		"new children are created in their order": {
			desired: []runtime.Object{account(), role("get"), binding("r"), namespace()},
			wants: wants{requests: []string{
				"create ServiceAccount fleet-default/a", "create Role fleet-default/r", "create RoleBinding fleet-default/b", "create Namespace /n",
			}},
		},
		"unchanged children need no request": {
			seen: func(w *world) []Object {
				return []Object{
					asWritten(w, account()), asWritten(w, secret("v")), asWritten(w, role("get")), asWritten(w, binding("r")),
					asWritten(w, namespace()), asWritten(w, cluster(map[string]string{"env": "dev"}, "")),
				}
			},
			desired: []runtime.Object{account(), secret("v"), role("get"), binding("r"), namespace(), cluster(map[string]string{"env": "dev"}, "")},
		},
		"a child that was just written and is not in the cache is read, and stays": {
			unseen:  func(w *world) []Object { return []Object{asWritten(w, account())} },
			desired: []runtime.Object{account()},
			wants:   wants{requests: []string{"create ServiceAccount fleet-default/a", "get ServiceAccount fleet-default/a"}},
		},
		"objects without our marks are adopted if their kind allows that": {
			unseen:  func(*world) []Object { return []Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}}} },
			desired: []runtime.Object{namespace()},
			wants: wants{requests: []string{
				"create Namespace /n", "get Namespace /n",
				`patch Namespace /n {"metadata":{"annotations":{"objectset.rio.cattle.io/id":"cluster-group-token",` +
					`"objectset.rio.cattle.io/owner-gvk":"fleet.cattle.io/v1alpha1, Kind=ClusterRegistrationToken",` +
					`"objectset.rio.cattle.io/owner-name":"import-token-east","objectset.rio.cattle.io/owner-namespace":"fleet-default"},` +
					`"labels":{"objectset.rio.cattle.io/hash":"` + hash + `"}}}`,
			}},
		},
		"rules that differ are replaced": {
			seen:    func(w *world) []Object { return []Object{asWritten(w, role("get", "list"))} },
			desired: []runtime.Object{role("get")},
			wants: wants{requests: []string{
				`patch Role fleet-default/r {"rules":[{"apiGroups":[""],"resources":["secrets"],"verbs":["get"]}]}`,
			}},
		},
		"changed data of a Secret is patched, additional data is removed": {
			seen: func(w *world) []Object {
				return []Object{asWritten(w, secret("old"), func(s *corev1.Secret) { s.Data["more"] = []byte("x") })}
			},
			desired: []runtime.Object{secret("new")},
			wants:   wants{requests: []string{`patch Secret fleet-default/s {"data":{"k":"bmV3","more":null}}`}},
		},
		"other labels and annotations stay": {
			seen: func(w *world) []Object {
				return []Object{asWritten(w, account(), func(a *corev1.ServiceAccount) {
					a.Labels["theirs"], a.Annotations["theirs"] = "1", "1"
				})}
			},
			desired: []runtime.Object{account()},
		},
		"a changed label of ours is restored": {
			seen: func(w *world) []Object {
				return []Object{asWritten(w, account(), func(a *corev1.ServiceAccount) { a.Labels[fleet.LabelManaged] = "false" })}
			},
			desired: []runtime.Object{account()},
			wants:   wants{requests: []string{`patch ServiceAccount fleet-default/a {"metadata":{"labels":{"fleet.cattle.io/managed":"true"}}}`}},
		},
		"a missing owner reference is added for the version that was read": {
			seen: func(w *world) []Object {
				return []Object{asWritten(w, account(), func(a *corev1.ServiceAccount) {
					a.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "other", UID: "u"}}
				})}
			},
			desired: []runtime.Object{account()},
			wants: wants{requests: []string{
				`patch ServiceAccount fleet-default/a {"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"other","uid":"u"},` +
					`{"apiVersion":"fleet.cattle.io/v1alpha1","kind":"ClusterRegistrationToken",` +
					`"name":"import-token-east","uid":"` + ownerUID + `","controller":false,"blockOwnerDeletion":false}],"resourceVersion":"7"}}`,
			}},
		},
		"a Secret of another type is replaced": {
			seen: func(w *world) []Object {
				return []Object{asWritten(w, secret("v"), func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque })}
			},
			desired: []runtime.Object{secret("v")},
			wants:   wants{requests: []string{"delete Secret fleet-default/s Background uid uid-s", "create Secret fleet-default/s"}},
		},
		"a Secret without a type equals one of type Opaque": {
			seen: func(w *world) []Object {
				return []Object{asWritten(w, untyped(), func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque })}
			},
			desired: []runtime.Object{untyped()},
		},
		"a binding to another role is replaced": {
			seen:    func(w *world) []Object { return []Object{asWritten(w, binding("other"))} },
			desired: []runtime.Object{binding("r")},
			wants:   wants{requests: []string{"delete RoleBinding fleet-default/b Background uid uid-b", "create RoleBinding fleet-default/b"}},
		},
		"only our fields of a shared object are compared": {
			seen: func(w *world) []Object {
				return []Object{asWritten(w, cluster(nil, ""), func(c *fleet.Cluster) { c.Spec.ClientID = "generated"; c.Spec.Paused = true })}
			},
			desired: []runtime.Object{cluster(nil, "")},
		},
		"a field of ours that is no longer set is removed": {
			seen:    func(w *world) []Object { return []Object{asWritten(w, cluster(nil, "elsewhere"))} },
			desired: []runtime.Object{cluster(nil, "")},
			wants:   wants{requests: []string{`patch Cluster fleet-default/c {"spec":{"agentNamespace":null}}`}},
		},
		"a tracked label that is no longer set is removed, other labels stay": {
			seen: func(w *world) []Object {
				return []Object{asWritten(w, cluster(map[string]string{"env": "dev", "old": "1"}, ""), func(c *fleet.Cluster) { c.Labels["theirs"] = "1" })}
			},
			desired: []runtime.Object{cluster(map[string]string{"env": "dev"}, "")},
			wants: wants{requests: []string{
				`patch Cluster fleet-default/c {"metadata":{"annotations":{"fleet.cattle.io/label-keys":"env"},"labels":{"old":null}}}`,
			}},
		},
		"children that left the set are deleted, except Namespaces and those marked to stay": {
			seen: func(w *world) []Object {
				return []Object{
					asWritten(w, account()), asWritten(w, role("get")), asWritten(w, namespace()),
					asWritten(w, secret("v"), func(s *corev1.Secret) { s.Labels[fleet.LabelSetPrune] = "false" }),
				}
			},
			desired: []runtime.Object{account()},
			wants:   wants{requests: []string{"delete Role fleet-default/r Background uid uid-r"}},
		},
		"an empty set deletes all children": {
			seen: func(w *world) []Object { return []Object{asWritten(w, account()), asWritten(w, binding("r"))} },
			wants: wants{requests: []string{
				"delete ServiceAccount fleet-default/a Background uid uid-a", "delete RoleBinding fleet-default/b Background uid uid-b",
			}},
		},
		"a child that is being deleted is not deleted again": {
			seen: func(w *world) []Object { return []Object{asWritten(w, account(), deleting)} },
		},
		"objects of another owner stay": {
			seen: func(w *world) []Object {
				return []Object{asWritten(w, account(), func(a *corev1.ServiceAccount) { a.Labels[fleet.LabelSetHash] = "another" })}
			},
		},
		"a desired child that is being deleted is awaited": {
			seen:    func(w *world) []Object { return []Object{asWritten(w, account(), deleting)} },
			desired: []runtime.Object{account()},
			wants:   wants{err: "ServiceAccount fleet-default/a: it is being deleted"},
		},
		"a derived child is changed": {
			seen:    func(w *world) []Object { return []Object{asWritten(w, secret("old"))} },
			desired: []runtime.Object{derived("uid-s")},
			wants:   wants{requests: []string{`patch Secret fleet-default/s {"data":{"k":"bmV3"}}`}},
		},
		"a derived child without a cache is read": {
			unseen:  func(w *world) []Object { return []Object{asWritten(w, secret("new"))} },
			desired: []runtime.Object{derived("uid-s")},
			wants:   wants{requests: []string{"get Secret fleet-default/s"}},
		},
		"a derived child that is missing is not created, and nothing is deleted": {
			seen:    func(w *world) []Object { return []Object{asWritten(w, account())} },
			desired: []runtime.Object{derived("uid-s")},
			wants: wants{
				requests: []string{"get Secret fleet-default/s"},
				err:      "Secret fleet-default/s: it was replaced since it was looked at",
			},
		},
		"a derived child that was recreated is not changed": {
			seen:    func(w *world) []Object { return []Object{asWritten(w, secret("other"))} },
			desired: []runtime.Object{derived("uid-before")},
			wants: wants{
				requests: []string{"get Secret fleet-default/s"},
				err:      "Secret fleet-default/s: it was replaced since it was looked at",
			},
		},
		"a child of an undeclared kind is an error, and nothing is deleted": {
			seen:    func(w *world) []Object { return []Object{asWritten(w, account())} },
			desired: []runtime.Object{&corev1.ConfigMap{ObjectMeta: meta("x")}},
			wants:   wants{err: "set cluster-group-token: unsupported child type *v1.ConfigMap"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			if test.seen != nil {
				w.put(t, true, test.seen(w)...)
			}
			if test.unseen != nil {
				w.put(t, false, test.unseen(w)...)
			}
			err := w.set.Apply(owner(), test.desired...)
			if diff := cmp.Diff(test.requests, w.requests); diff != "" {
				t.Errorf("the requests differ (-want +got):\n%s", diff)
			}
			if got := errText(err); got != test.err {
				t.Errorf("error %q, want %q", got, test.err)
			}
		})
	}
}

// derived is a Secret for which was read what is in the one with this UID.
func derived(uid types.UID) *corev1.Secret {
	s := secret("new")
	s.UID = uid
	return s
}

func untyped() *corev1.Secret {
	s := secret("v")
	s.Type = ""
	return s
}

func deleting(a *corev1.ServiceAccount) {
	a.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestApply_DoesNotChangeItsInput(t *testing.T) {
	desired := []runtime.Object{account(), cluster(map[string]string{"env": "dev"}, "")}
	want := []runtime.Object{account(), cluster(map[string]string{"env": "dev"}, "")}
	if err := newWorld().set.Apply(owner(), desired...); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, desired); diff != "" {
		t.Errorf("Apply changed its input:\n%s", diff)
	}
}

func TestApply_AfterAFailureTriesAllAndDeletesNothing(t *testing.T) {
	w := newWorld()
	w.put(t, true, asWritten(w, role("get")))
	w.fail["create ServiceAccount fleet-default/a"] = errors.New("quota")
	err := w.set.Apply(owner(), account(), secret("v"))
	if err == nil || err.Error() != "ServiceAccount fleet-default/a: quota" {
		t.Errorf("error %v", err)
	}
	want := []string{"create ServiceAccount fleet-default/a", "create Secret fleet-default/s"}
	if diff := cmp.Diff(want, w.requests); diff != "" {
		t.Errorf("the requests differ (-want +got):\n%s", diff)
	}
}

func TestParallel(t *testing.T) {
	w := newWorld()
	w.fail["create ServiceAccount fleet-default/a"] = errors.New("quota")
	err := w.set.Parallel().Apply(owner(), binding("r"), account(), role("get"), secret("v"))
	if err == nil || err.Error() != "ServiceAccount fleet-default/a: quota" {
		t.Errorf("error %v", err)
	}
	want := []string{ // and no RoleBinding: the Role that it names could be another object
		"create Role fleet-default/r", "create Secret fleet-default/s", "create ServiceAccount fleet-default/a",
	}
	slices.Sort(w.requests) // these go at the same time
	if diff := cmp.Diff(want, w.requests); diff != "" {
		t.Errorf("the requests differ (-want +got):\n%s", diff)
	}
	w.fail = nil
	if err := w.set.Apply(owner(), binding("r"), account(), role("get"), secret("v")); err != nil {
		t.Errorf("error %v", err)
	}
	want = []string{"create ServiceAccount fleet-default/a", "create RoleBinding fleet-default/b"} // last, though it was named first
	w.requests = slices.DeleteFunc(w.requests[3:], func(r string) bool {
		return !strings.HasPrefix(r, "create ServiceAccount") && !strings.HasPrefix(r, "create RoleBinding")
	})
	if diff := cmp.Diff(want, w.requests); diff != "" {
		t.Errorf("the requests differ (-want +got):\n%s", diff)
	}
}

func TestApply_ConcurrentWriters(t *testing.T) {
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "accounts"}, "a")
	replaced := apierrors.NewConflict(schema.GroupResource{Resource: "accounts"}, "a", errors.New("another uid"))
	tests := map[string]struct {
		fail    map[string]error
		gone    string // from the server, but still in the cache
		desired []runtime.Object
		want    []string
		err     string
	}{
		"a child deleted since it was cached is created again": {
			gone:    "Role fleet-default/r",
			desired: []runtime.Object{account(), role("list")},
			want: []string{
				`patch Role fleet-default/r {"rules":[{"apiGroups":[""],"resources":["secrets"],"verbs":["list"]}]}`,
				"create Role fleet-default/r",
			},
		},
		"a derived child deleted since it was cached is not created": {
			gone:    "Secret fleet-default/s",
			desired: []runtime.Object{account(), derived("uid-s")},
			want:    []string{`patch Secret fleet-default/s {"data":{"k":"bmV3"}}`},
			err:     "Secret fleet-default/s: it was replaced since it was looked at",
		},
		"deleting a missing child succeeds": {
			fail:    map[string]error{"delete ServiceAccount fleet-default/a": gone},
			desired: []runtime.Object{role("get")},
			want:    []string{"delete ServiceAccount fleet-default/a Background uid uid-a"},
		},
		"deleting a replaced child succeeds": {
			fail:    map[string]error{"delete ServiceAccount fleet-default/a": replaced},
			desired: []runtime.Object{role("get")},
			want:    []string{"delete ServiceAccount fleet-default/a Background uid uid-a"},
		},
		"a failed deletion is an error": {
			fail:    map[string]error{"delete ServiceAccount fleet-default/a": errors.New("no")},
			desired: []runtime.Object{role("get")},
			want:    []string{"delete ServiceAccount fleet-default/a Background uid uid-a"},
			err:     "deleting ServiceAccount fleet-default/a: no",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.put(t, true, asWritten(w, account()), asWritten(w, role("get")))
			if test.gone == "Secret fleet-default/s" {
				w.put(t, true, asWritten(w, secret("old")))
			}
			w.fail = test.fail
			delete(w.objects, test.gone)
			err := w.set.Apply(owner(), test.desired...)
			if diff := cmp.Diff(test.want, w.requests); diff != "" {
				t.Errorf("the requests differ (-want +got):\n%s", diff)
			}
			if got := errText(err); got != test.err {
				t.Errorf("error %q, want %q", got, test.err)
			}
		})
	}
}

func TestApply_MarksChildrenAsRecorded(t *testing.T) {
	no := false
	references := []metav1.OwnerReference{{
		APIVersion: "fleet.cattle.io/v1alpha1", Kind: "ClusterRegistrationToken", Name: "import-token-east", UID: ownerUID,
		Controller: &no, BlockOwnerDeletion: &no,
	}}
	owned := map[string]string{
		"objectset.rio.cattle.io/id":              setID,
		"objectset.rio.cattle.io/owner-gvk":       "fleet.cattle.io/v1alpha1, Kind=ClusterRegistrationToken",
		"objectset.rio.cattle.io/owner-name":      "import-token-east",
		"objectset.rio.cattle.io/owner-namespace": "fleet-default",
	}
	namespaceOwner := Owner{GVK: corev1.SchemeGroupVersion.WithKind("Namespace"), Name: "fleet-default", UID: "u"}
	tests := map[string]struct {
		owner Owner
		obj   Object
		want  metav1.ObjectMeta
	}{
		"child in the namespace of its owner: owner reference": {
			owner: owner(), obj: account(),
			want: metav1.ObjectMeta{
				Namespace: "fleet-default", Name: "a", OwnerReferences: references, Annotations: owned,
				Labels: map[string]string{"fleet.cattle.io/managed": "true", "objectset.rio.cattle.io/hash": hash},
			},
		},
		"child in another namespace: no owner reference": {
			owner: owner(), obj: &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "cluster-x", Name: "a"}},
			want: metav1.ObjectMeta{
				Namespace: "cluster-x", Name: "a", Annotations: owned, Labels: map[string]string{"objectset.rio.cattle.io/hash": hash},
			},
		},
		"cluster-scoped child: no owner reference": {
			owner: owner(), obj: namespace(),
			want: metav1.ObjectMeta{Name: "n", Annotations: owned, Labels: map[string]string{"objectset.rio.cattle.io/hash": hash}},
		},
		"child of a Namespace: owner reference": {
			owner: namespaceOwner, obj: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "s"}},
			want: metav1.ObjectMeta{
				Namespace: "fleet-default", Name: "s",
				Labels: map[string]string{"objectset.rio.cattle.io/hash": NewSet(setID).Hash(namespaceOwner)},
				Annotations: map[string]string{
					"objectset.rio.cattle.io/id":              setID,
					"objectset.rio.cattle.io/owner-gvk":       "/v1, Kind=Namespace",
					"objectset.rio.cattle.io/owner-name":      "fleet-default",
					"objectset.rio.cattle.io/owner-namespace": "",
				},
				OwnerReferences: []metav1.OwnerReference{{
					APIVersion: "v1", Kind: "Namespace", Name: "fleet-default", UID: "u", Controller: &no, BlockOwnerDeletion: &no,
				}},
			},
		},
		"child without an owner: only the set": {
			owner: Owner{}, obj: namespace(),
			want: metav1.ObjectMeta{
				Name: "n", Annotations: map[string]string{"objectset.rio.cattle.io/id": setID},
				Labels: map[string]string{"objectset.rio.cattle.io/hash": NewSet(setID).Hash(Owner{})},
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			if err := w.set.Apply(test.owner, test.obj); err != nil {
				t.Fatal(err)
			}
			for _, written := range w.objects {
				got := metav1.ObjectMeta{
					Namespace: written.GetNamespace(), Name: written.GetName(), Labels: written.GetLabels(),
					Annotations: written.GetAnnotations(), OwnerReferences: written.GetOwnerReferences(),
				}
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("the metadata differs (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestApply_GoneOwner(t *testing.T) {
	w := newWorld()
	w.put(t, true, asWritten(w, account()))
	o := owner()
	if err := w.set.Apply(GoneOwner(o.GVK, o.Namespace, o.Name)); err != nil {
		t.Fatal(err)
	}
	want := []string{"delete ServiceAccount fleet-default/a Background uid uid-a"}
	if diff := cmp.Diff(want, w.requests); diff != "" {
		t.Errorf("the requests differ (-want +got):\n%s", diff)
	}
}

func TestApply_ChildrenOfAnotherOwnerWithTheSameHashStay(t *testing.T) {
	w := newWorld()
	w.put(t, true, asWritten(w, account()), asWritten(w, binding("r")))
	namesake := owner()
	namesake.Namespace, namesake.Name = "default", "import-token-eastfleet-"
	if w.set.Hash(namesake) != hash {
		t.Fatalf("the hash is %s: want %s", w.set.Hash(namesake), hash)
	}
	taken := &TakenError{GVK: rbacv1.SchemeGroupVersion.WithKind("Role"), Namespace: "fleet-default", Name: "r", differs: true}
	of, err := w.set.Versions(namesake)
	none, noneErr := w.set.Versions(GoneOwner(namesake.GVK, "default", "none"))
	if err != nil || noneErr != nil || of != none {
		t.Errorf("the versions of its children are %d, %v: want those of no children", of, err)
	}
	err = errors.Join(w.set.Apply(namesake), w.set.RemoveOne(namesake, account()), w.set.unbind(namesake, []error{taken}))
	if err != nil || len(w.requests) > 0 {
		t.Errorf("the requests are %q, %v: want none", w.requests, err)
	}
}

func TestApply_ChildrenWithOtherAnnotationsAreDeleted(t *testing.T) {
	for name, change := range map[string]func(*corev1.ServiceAccount){
		"without them":                     func(a *corev1.ServiceAccount) { a.Annotations = nil },
		"of an owner with another hash":    func(a *corev1.ServiceAccount) { a.Annotations[fleet.AnnotationSetOwnerName] = "other" },
		"of an owner in another namespace": func(a *corev1.ServiceAccount) { a.Annotations[fleet.AnnotationSetOwnerNamespace] = "other" },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.put(t, true, asWritten(w, account(), change))
			if err := w.set.Apply(owner()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"delete ServiceAccount fleet-default/a Background uid uid-a"}, w.requests); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestOwnerOf(t *testing.T) {
	token := &fleet.ClusterRegistrationToken{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "import-token-east", UID: ownerUID}}
	if diff := cmp.Diff(owner(), OwnerOf(fleet.SchemeGroupVersion.WithKind("ClusterRegistrationToken"), token)); diff != "" {
		t.Error(diff)
	}
}

func TestDropping(t *testing.T) {
	w := newWorld()
	w.set = NewSet(setID, KindOf(w.accounts).Dropping("old", "older"))
	w.put(t, true, asWritten(w, account(), func(a *corev1.ServiceAccount) {
		a.Annotations["old"], a.Annotations["theirs"] = "", "x"
	}))
	if err := w.set.Apply(owner(), account()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{`patch ServiceAccount fleet-default/a {"metadata":{"annotations":{"old":null}}}`}, w.requests); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestApply_SparedMembersStay(t *testing.T) {
	w := newWorld()
	w.set = NewSet(setID, KindOf(w.accounts), KindOf(w.roles).Keeping(func(member Object) bool { return member.GetName() == "needed" }))
	needed, stale := role("get"), role("get")
	needed.Name, stale.Name = "needed", "stale"
	w.put(t, true, asWritten(w, account()), asWritten(w, needed), asWritten(w, stale))
	if err := w.set.Apply(owner(), account()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"delete Role fleet-default/stale Background uid uid-stale"}, w.requests); diff != "" {
		t.Errorf("while the owner has children (-want +got):\n%s", diff)
	}
	w.requests = nil
	if err := w.set.Apply(GoneOwner(owner().GVK, owner().Namespace, owner().Name)); err != nil {
		t.Fatal(err)
	}
	slices.Sort(w.requests)
	want := []string{
		"delete Role fleet-default/needed Background uid uid-needed", "delete Role fleet-default/stale Background uid uid-stale",
		"delete ServiceAccount fleet-default/a Background uid uid-a",
	}
	if diff := cmp.Diff(want, w.requests); diff != "" {
		t.Errorf("without its owner (-want +got):\n%s", diff)
	}
}
