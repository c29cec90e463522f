package downstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/metadata"
	clienttesting "k8s.io/client-go/testing"

	"github.com/fleet-hub/fleet/internal/reconcile"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// hubNames lists the objects of a clientset by name, two at a time, and notes how it was asked.
type hubNames struct {
	metadata.Interface
	metadata.Getter

	kube      *fake.Clientset
	resource  string
	namespace string
	fail      error
	asked     *[]string
}

func (n *hubNames) Resource(resource schema.GroupVersionResource) metadata.Getter {
	asked := *n
	asked.resource = resource.Resource
	return &asked
}

func (n *hubNames) Namespace(namespace string) metadata.ResourceInterface {
	asked := *n
	asked.namespace = namespace
	return &asked
}

func (n *hubNames) List(ctx context.Context, options metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	*n.asked = append(*n.asked, strings.Join([]string{n.resource, n.namespace, options.FieldSelector, options.LabelSelector, options.Continue}, " "))
	if n.fail != nil {
		return nil, n.fail
	}
	var all []metav1.PartialObjectMetadata
	if n.resource == "secrets" {
		found, err := n.kube.CoreV1().Secrets(n.namespace).List(ctx, metav1.ListOptions{LabelSelector: options.LabelSelector})
		if err != nil {
			return nil, err
		}
		for i := range found.Items {
			if options.FieldSelector != "type!="+string(found.Items[i].Type) {
				all = append(all, *meta.AsPartialObjectMetadata(&found.Items[i]))
			}
		}
	} else {
		found, err := n.kube.CoreV1().ConfigMaps(n.namespace).List(ctx, metav1.ListOptions{LabelSelector: options.LabelSelector})
		if err != nil {
			return nil, err
		}
		for i := range found.Items {
			all = append(all, *meta.AsPartialObjectMetadata(&found.Items[i]))
		}
	}
	const most = 2
	if options.Continue == "" && len(all) > most {
		return &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{Continue: "more"}, Items: all[:most]}, nil
	}
	if options.Continue != "" {
		all = all[most:]
	}
	return &metav1.PartialObjectMetadataList{Items: all}, nil
}

// pruner is a handler with this in the namespaces of Bundle and cluster.
func pruner(t *testing.T, objects ...runtime.Object) (h *handler, kube *fake.Clientset, names *hubNames) {
	t.Helper()
	kube = fake.NewClientset(objects...)
	h = handlerWith(t)
	h.app.Kube = kube
	names = &hubNames{kube: kube, asked: &[]string{}}
	h.names = names
	return h, kube, names
}

// owned are what is in a cluster's namespace, and its owners.
func owned(t *testing.T, kube *fake.Clientset) (all []string) {
	t.Helper()
	add := func(kind string, o metav1.ObjectMeta) {
		var owners []string
		for _, owner := range o.OwnerReferences {
			owners = append(owners, string(owner.UID))
		}
		all = append(all, strings.TrimSpace(kind+" "+o.Name+" "+strings.Join(owners, ",")))
	}
	secrets, err := kube.CoreV1().Secrets(there).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range secrets.Items {
		add("secret", secrets.Items[i].ObjectMeta)
	}
	configMaps, err := kube.CoreV1().ConfigMaps(there).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range configMaps.Items {
		add("configmap", configMaps.Items[i].ObjectMeta)
	}
	return all
}

// configMapOwnedBy is a ConfigMap in the namespace of the cluster.
func configMapOwnedBy(name string, uids ...string) *corev1.ConfigMap {
	out := configMapOf(there, name, "1")
	for _, uid := range uids {
		out.OwnerReferences = append(out.OwnerReferences, metav1.OwnerReference{APIVersion: "fleet.cattle.io/v1alpha1", Kind: "BundleDeployment", Name: "b", UID: types.UID(uid)})
	}
	return out
}

// anInternal Secret is one that Fleet has copied for itself.
func anInternal(s *corev1.Secret) {
	s.Labels = map[string]string{fleet.LabelBundleInternalSecret: "true"}
}

func TestCopyNoLongerNamed_IsDeleted(t *testing.T) {
	secret, configMap := fleet.DownstreamResource{Kind: "Secret", Name: "creds"}, fleet.DownstreamResource{Kind: "CONFIGMAP", Name: "settings"}
	staged := deployment()
	staged.Spec.StagedOptions.DownstreamResources = []fleet.DownstreamResource{secret}
	tests := map[string]struct {
		bd    *fleet.BundleDeployment
		there []runtime.Object
		want  []string
	}{
		"no copies": {bd: deployment()},
		"named copy: stays": {
			bd:    deployment(secret, configMap),
			there: []runtime.Object{secretOf(there, "creds", "1", ownedBy("u-web")), configMapOwnedBy("settings", "u-web")},
			want:  []string{"secret creds u-web", "configmap settings u-web"},
		},
		"copy that is not named: deleted, original stays": {
			bd: deployment(),
			there: []runtime.Object{
				secretOf(there, "creds", "1", ownedBy("u-web")), secretOf(there, "more", "1", ownedBy("u-web")), secretOf(there, "most", "1", ownedBy("u-web")),
				configMapOwnedBy("settings", "u-web"), configMapOwnedBy("kube-root-ca.crt"),
			},
			want: []string{"configmap kube-root-ca.crt"},
		},
		"another name is listed: the former copy is deleted": {
			bd: deployment(secret), there: []runtime.Object{secretOf(there, "creds", "1", ownedBy("u-web")), secretOf(there, "before", "1", ownedBy("u-web"))},
			want: []string{"secret creds u-web"},
		},
		"another kind is listed: the former copy is deleted": {
			bd: deployment(fleet.DownstreamResource{Kind: "ConfigMap", Name: "creds"}), there: []runtime.Object{secretOf(there, "creds", "1", ownedBy("u-web")), configMapOwnedBy("creds", "u-web")},
			want: []string{"configmap creds u-web"},
		},
		"shared copy: stays for its other owner": {
			bd:    deployment(),
			there: []runtime.Object{secretOf(there, "creds", "1", ownedBy("u-db"), ownedBy("u-web")), configMapOwnedBy("settings", "u-web", "u-db")},
			want:  []string{"secret creds u-db", "configmap settings u-db"},
		},
		"objects of other owners, or without owners, stay": {
			bd:    deployment(),
			there: []runtime.Object{secretOf(there, "creds", "1", ownedBy("u-db")), secretOf(there, "token", "1"), configMapOwnedBy("kube-root-ca.crt")},
			want:  []string{"secret creds u-db", "secret token", "configmap kube-root-ca.crt"},
		},
		"values and Fleet's own copies: stay": {
			bd:    deployment(),
			there: []runtime.Object{secretOf(there, "web", "1", ownedBy("u-web"), ofType(fleet.SecretTypeBundleDeployment)), secretOf(there, "internal", "1", ownedBy("u-web"), anInternal)},
			want:  []string{"secret internal u-web", "secret web u-web"},
		},
		"named by a staged change: stays": {
			bd: staged, there: []runtime.Object{secretOf(there, "creds", "1", ownedBy("u-web")), secretOf(there, "more", "1", ownedBy("u-web"))},
			want: []string{"secret creds u-web"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h, kube, names := pruner(t, test.there...)
			h.copied.search(test.bd.UID)
			if err := h.prune(t.Context(), test.bd); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, owned(t, kube)); diff != "" {
				t.Errorf("what is there (-want +got):\n%s", diff)
			}
			looked := len(*names.asked)
			if err := h.prune(t.Context(), test.bd); err != nil || len(*names.asked) != looked {
				t.Errorf("it looks again, though nothing has changed: %v, %v", *names.asked, err)
			}
		})
	}
}

func TestPrune_ListsMetadataOnlyWhenNeeded(t *testing.T) {
	h, _, names := pruner(t, secretOf(there, "a", "1"), secretOf(there, "b", "1"), secretOf(there, "c", "1"))
	if err := h.prune(t.Context(), deployment()); err != nil || len(*names.asked) > 0 {
		t.Errorf("without a reason, asked for %v, %v", *names.asked, err)
	}
	h.copied.search("u-web")
	if err := h.prune(t.Context(), deployment()); err != nil {
		t.Error(err)
	}
	secrets := "secrets " + there + " type!=fleet.cattle.io/bundle-deployment/v1alpha1 fleet.cattle.io/bundle-internal-secret!=true "
	want := []string{secrets, secrets + "more", "configmaps " + there + "  fleet.cattle.io/bundle-internal-secret!=true "}
	if diff := cmp.Diff(want, *names.asked); diff != "" {
		t.Errorf("asked for (-want +got):\n%s", diff)
	}
}

func TestPrune_FailuresAreRetried(t *testing.T) {
	errDown := errors.New("connection refused")
	tests := map[string]struct {
		names, write error
		verb         string
		fails        bool
		want         []string
	}{
		"the list fails":                    {names: errDown, fails: true, want: []string{"secret creds u-web", "secret shared u-web,u-db"}},
		"one cannot be deleted":             {write: errDown, verb: "delete", fails: true, want: []string{"secret creds u-web", "secret shared u-db"}},
		"written by another client":         {write: apierrors.NewConflict(schema.GroupResource{}, "creds", errDown), verb: "delete", fails: true, want: []string{"secret creds u-web", "secret shared u-db"}},
		"deleted by another client":         {write: apierrors.NewNotFound(schema.GroupResource{}, "creds"), verb: "delete", want: []string{"secret creds u-web", "secret shared u-db"}},
		"owner reference cannot be removed": {write: errDown, verb: "update", fails: true, want: []string{"secret shared u-web,u-db"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h, kube, names := pruner(t, secretOf(there, "creds", "1", ownedBy("u-web")), secretOf(there, "shared", "1", ownedBy("u-web"), ownedBy("u-db")))
			names.fail = test.names
			failing := true
			kube.PrependReactor(test.verb, "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
				return failing && test.write != nil, nil, test.write
			})
			h.copied.search("u-web")
			if err := h.prune(t.Context(), deployment()); (err != nil) != test.fails {
				t.Errorf("error = %v, want one: %v", err, test.fails)
			}
			if diff := cmp.Diff(test.want, owned(t, kube)); diff != "" {
				t.Errorf("what is there (-want +got):\n%s", diff)
			}
			names.fail, failing = nil, false
			if err := h.prune(t.Context(), deployment()); err != nil {
				t.Error(err)
			}
			if got := owned(t, kube); test.fails && !slices.Equal(got, []string{"secret shared u-db"}) {
				t.Errorf("after another try there are %v", got)
			}
		})
	}
}

func TestPrune_DeletesOnlyTheVersionFound(t *testing.T) {
	config := configMapOwnedBy("settings", "u-web")
	config.UID, config.ResourceVersion = "u-settings", "8"
	h, kube, _ := pruner(t, config, secretOf(there, "creds", "1", ownedBy("u-web"), func(s *corev1.Secret) { s.UID = "u-creds" }))
	h.copied.search("u-web")
	if err := h.prune(t.Context(), deployment()); err != nil {
		t.Fatal(err)
	}
	var deleted []string
	for _, action := range kube.Actions() {
		deletion, ok := action.(clienttesting.DeleteActionImpl)
		if !ok {
			continue
		}
		only := deletion.DeleteOptions.Preconditions
		if only == nil || only.UID == nil || only.ResourceVersion == nil {
			t.Fatalf("preconditions = %+v", only)
		}
		deleted = append(deleted, fmt.Sprintf("%s %s in version %s", deletion.Name, *only.UID, *only.ResourceVersion))
	}
	if diff := cmp.Diff([]string{"creds u-creds in version 7", "settings u-settings in version 8"}, deleted); diff != "" {
		t.Errorf("deleted (-want +got):\n%s", diff)
	}
}

func TestCopyNamedAgain_IsCreatedAgain(t *testing.T) {
	h, kube, _ := pruner(t, secretOf("ws", "creds", "1"))
	with, without := deployment(fleet.DownstreamResource{Kind: "Secret", Name: "creds"}), deployment()
	for _, step := range []struct {
		bd   *fleet.BundleDeployment
		want []string
	}{{with, []string{"secret creds u-web"}}, {without, nil}, {with, []string{"secret creds u-web"}}} {
		h.copied.search(step.bd.UID)
		if err := h.prune(t.Context(), step.bd); err != nil {
			t.Fatal(err)
		}
		if trouble, err := h.copyAll(t.Context(), step.bd, everything(step.bd)); trouble != "" || err != nil {
			t.Fatal(trouble, err)
		}
		if diff := cmp.Diff(step.want, owned(t, kube)); diff != "" {
			t.Errorf("what is there (-want +got):\n%s", diff)
		}
	}
}

func TestOnDeployment_SearchesCopiesIfTheirListChanges(t *testing.T) {
	none, some := deployment(), deployment(fleet.DownstreamResource{Kind: "Secret", Name: "creds"})
	other := deployment(fleet.DownstreamResource{Kind: "Secret", Name: "other"})
	had := deployment()
	had.Spec.DownstreamResourcesGeneration = 3
	anew := had.DeepCopy()
	anew.UID = "u-again"
	tests := map[string]struct {
		older, newer *fleet.BundleDeployment
		want         bool
	}{
		"never had copies":                {nil, none, false},
		"first copies":                    {nil, some, false},
		"had copies, new to this process": {nil, had, true},
		"other copies":                    {some, other, true},
		"no more copies":                  {some, none, true},
		"unchanged":                       {some, some, false},
		"recreated, had copies":           {none, anew, true},
		"deleted":                         {had, nil, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h, _, _ := pruner(t)
			h.report = func(*fleet.BundleDeployment, string) {}
			h.queue = h.newQueue(h.handle)
			h.onDeployment(reconcile.Change[*fleet.BundleDeployment]{Old: test.older, New: test.newer})
			looked := test.newer
			if looked == nil {
				looked = test.older
			}
			if got := h.copied.takeSearch(looked.UID); got != test.want {
				t.Errorf("looked for: %v, want %v", got, test.want)
			}
		})
	}
}
