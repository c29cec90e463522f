package takeover_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/e2e/parity"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// kind is one of the recorded kinds, and where it is served.
type kind struct {
	name     string
	resource schema.GroupVersionResource
	status   bool // has a status of its own
}

// kinds are in the order in which owners come before what they own.
func kinds() []kind {
	core, rbac := schema.GroupVersion{Version: "v1"}, schema.GroupVersion{Group: "rbac.authorization.k8s.io", Version: "v1"}
	of := fleet.SchemeGroupVersion
	return []kind{
		{"Namespace", core.WithResource("namespaces"), false},
		{"Cluster", of.WithResource("clusters"), true},
		{"ClusterGroup", of.WithResource("clustergroups"), true},
		{"ClusterRegistrationToken", of.WithResource("clusterregistrationtokens"), true},
		{"ClusterRegistration", of.WithResource("clusterregistrations"), true},
		{"ServiceAccount", core.WithResource("serviceaccounts"), false},
		{"ClusterRole", rbac.WithResource("clusterroles"), false},
		{"ClusterRoleBinding", rbac.WithResource("clusterrolebindings"), false},
		{"Role", rbac.WithResource("roles"), false},
		{"RoleBinding", rbac.WithResource("rolebindings"), false},
		{"Content", of.WithResource("contents"), true},
		{"Bundle", of.WithResource("bundles"), true},
		{"BundleDeployment", of.WithResource("bundledeployments"), true},
		{"Secret", core.WithResource("secrets"), false},
		{"ConfigMap", core.WithResource("configmaps"), false},
	}
}

func resourceOf(name string) schema.GroupVersionResource {
	for _, k := range kinds() {
		if k.name == name {
			return k.resource
		}
	}
	return schema.GroupVersionResource{}
}

// The addresses at the time of the recording: by whom agents reached the hub, and the hub itself.
const (
	recordedHub    = "https://10.99.0.2:6443"
	recordedInside = "https://10.43.0.1:443"
	recordedCAHash = "906686af84e798ffb8061575cf04ce24702fe892117da01f3b04ca5d"
)

// oldHub puts what another implementation left on a hub onto an API server.
type oldHub struct {
	client dynamic.Interface
	// given is what has another value here than where it was recorded, UIDs among it.
	given []string
	// recorded are the UIDs of the recorded objects, as they are here.
	recorded map[string]bool
	ca       []byte
	now      time.Time
}

// newOldHub knows the address of the hub that the objects are put on.
func newOldHub(cfg *rest.Config, url string, ca []byte, now time.Time) (*oldHub, error) {
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	hash, err := names.StatusHash(ca)
	if err != nil {
		return nil, err
	}
	return &oldHub{client: client, recorded: map[string]bool{}, ca: ca, now: now, given: []string{
		recordedHub, url, recordedInside, url, recordedCAHash, hash, "<base64 PEM>", base64.StdEncoding.EncodeToString(ca),
	}}, nil
}

// load puts all of the recorded hub's objects there but its programs, which do not run any more: tokens of accounts
// first, since other Secrets have copies of them.
func (h *oldHub) load(ctx context.Context) error {
	recorded, err := parity.Load(os.DirFS(filepath.Join("..", "..", "testdata", "recorded")), "hub")
	if err != nil {
		return err
	}
	for _, k := range kinds() {
		for _, tokens := range []bool{true, false} {
			for _, object := range recorded {
				if object.Kind() != k.name || isToken(object) != tokens || skipped(object) {
					continue
				}
				if err := h.put(ctx, k, object); err != nil {
					return fmt.Errorf("%s: %w", object, err)
				}
			}
		}
	}
	return nil
}

func isToken(o parity.Object) bool { return o.Fields["type"] == "kubernetes.io/service-account-token" }

// skipped are the notes of Helm, of which only the form was recorded.
func skipped(o parity.Object) bool { return o.Fields["type"] == "helm.sh/release.v1" }

func (h *oldHub) put(ctx context.Context, k kind, recorded parity.Object) error {
	object, err := h.here(recorded)
	if err != nil {
		return err
	}
	uid := string(object.GetUID())
	object.SetUID("")
	status, hasStatus := object.Object["status"]
	if err := h.secret(ctx, object); err != nil {
		return err
	}
	client := h.client.Resource(k.resource).Namespace(object.GetNamespace())
	created, err := client.Create(ctx, object, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		created, err = h.mark(ctx, client, object)
	}
	if err != nil {
		return err
	}
	h.given = append(h.given, uid, string(created.GetUID()))
	h.recorded[string(created.GetUID())] = true
	if k.status && hasStatus {
		created.Object["status"] = status
		if err := renewed(created); err != nil {
			return err
		}
		_, err = client.UpdateStatus(ctx, created, metav1.UpdateOptions{})
	}
	return err
}

// here is a recorded object with the addresses and UIDs of this hub.
func (h *oldHub) here(recorded parity.Object) (*unstructured.Unstructured, error) {
	// No HTML escapes: a certificate's place is marked by angle brackets.
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(runtime.DeepCopyJSON(recorded.Fields)); err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(strings.NewReplacer(h.given...).Replace(text.String())), &object.Object); err != nil {
		return nil, err
	}
	// Two of the clusters were recorded just before their first heartbeats.
	if state, _, _ := unstructured.NestedString(object.Object, "status", "display", "state"); state == "WaitCheckIn" {
		return object, unstructured.SetNestedField(object.Object, "NotReady", "status", "display", "state")
	}
	return object, nil
}

// renewed is the status of a token whose time begins now.
func renewed(created *unstructured.Unstructured) error {
	ttl, found, _ := unstructured.NestedString(created.Object, "spec", "ttl")
	if !found || created.GetKind() != "ClusterRegistrationToken" {
		return nil
	}
	d, err := time.ParseDuration(ttl)
	if err != nil {
		return err
	}
	expires := created.GetCreationTimestamp().Add(d).UTC().Format(time.RFC3339)
	return unstructured.SetNestedField(created.Object, expires, "status", "expires")
}

// mark adds the marks of an object to one that an API server or Helm has made.
func (h *oldHub) mark(ctx context.Context, client dynamic.ResourceInterface, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": object.GetLabels(), "annotations": object.GetAnnotations()}})
	if err != nil {
		return nil, err
	}
	return client.Patch(ctx, object.GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
}

// secret gives a Secret its data: the tokens of accounts are the cluster's to fill in, others hold copies of them.
func (h *oldHub) secret(ctx context.Context, object *unstructured.Unstructured) error {
	decoded, found, _ := unstructured.NestedStringMap(object.Object, "decodedData")
	delete(object.Object, "decodedData")
	if !found || object.Object["type"] == "kubernetes.io/service-account-token" {
		return nil
	}
	token := ""
	if namespace, name := tokenSecret(object); name != "" {
		var err error
		if token, err = h.token(ctx, namespace, name); err != nil {
			return err
		}
	}
	indented := strings.ReplaceAll(strings.TrimSpace(string(h.ca)), "\n", "\n  ")
	data := map[string]any{}
	for key, value := range decoded {
		value = strings.NewReplacer("  <PEM CERTIFICATE>", "  "+indented, "<PEM CERTIFICATE>\n", string(h.ca), "<JWT>", token).Replace(value)
		data[key] = base64.StdEncoding.EncodeToString([]byte(value))
	}
	object.Object["data"] = data
	return nil
}
