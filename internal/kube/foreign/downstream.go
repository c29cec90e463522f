package foreign

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/kube"
)

// FieldManager is who the objects we leave downstream belong to, field by field. Another name would leave
// the fields of earlier imports behind for ever.
const FieldManager = "fleet-import"

// ErrUnknownKind means an object is of a kind that no import leaves downstream (see resources).
var ErrUnknownKind = errors.New("this kind is never applied downstream")

// Client is another cluster's API server, seen by whoever imports the cluster. Every error is classified
// (see Classify), and short whatever the server says.
type Client struct {
	http    *http.Client
	dynamic dynamic.Interface
	rest    rest.Interface
}

// New prepares for the server that cfg names; it sends nothing. Close it after use.
func New(cfg *rest.Config) (*Client, error) {
	cfg = kube.Tune(cfg)
	cfg.WarningHandler, cfg.WarningHandlerWithContext = rest.NoWarnings{}, nil // which would be logged as they are
	cfg.NextProtos = []string{"http/1.1"}                                      // HTTP/2 reads ahead of what bounded lets through
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return bounded{next} })
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("preparing the connection: %w", err)
	}
	dyn, err := dynamic.NewForConfigAndClient(cfg, client)
	if err != nil {
		return nil, fmt.Errorf("preparing the client: %w", err)
	}
	plain := rest.CopyConfig(cfg)
	plain.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	unversioned, err := rest.UnversionedRESTClientForConfigAndClient(plain, client)
	if err != nil {
		return nil, fmt.Errorf("preparing the client: %w", err)
	}
	return &Client{http: client, dynamic: dyn, rest: unversioned}, nil
}

// Close lets go of idle connections, so that clusters that went away hold none.
func (d *Client) Close() { utilnet.CloseIdleConnectionsFor(d.http.Transport) }

// ServerVersion asks the smallest question there is: it tells whether the server is there and whom it takes
// us for, before anything is written.
func (d *Client) ServerVersion(ctx context.Context) (version.Info, error) {
	var info version.Info
	raw, err := d.rest.Get().AbsPath("/version").Do(ctx).Raw()
	if err != nil {
		return info, fmt.Errorf("asking for the server's version: %w", failed(err))
	}
	if err := json.Unmarshal(raw, &info); err != nil {
		return info, fmt.Errorf("asking for the server's version: %w", said{err})
	}
	return info, nil
}

// NamespaceUID returns the namespace's UID; that of kube-system tells clusters apart.
func (d *Client) NamespaceUID(ctx context.Context, name string) (types.UID, error) {
	found, err := d.dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("reading namespace %s: %w", name, failed(err))
	}
	return found.GetUID(), nil
}

// Remove deletes the objects in the order given; only their kind, namespace and name are looked at. What is gone
// already is no error.
func (d *Client) Remove(ctx context.Context, objs ...runtime.Object) error {
	background := metav1.DeletePropagationBackground
	for _, obj := range objs {
		item, client, err := d.clientFor(obj)
		if err != nil {
			return err
		}
		err = client.Delete(ctx, item.GetName(), metav1.DeleteOptions{PropagationPolicy: &background})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("removing %s: %w", describe(item), failed(err))
		}
	}
	return nil
}

// clientFor is obj as it is sent, and the client for its kind and namespace.
func (d *Client) clientFor(obj runtime.Object) (*unstructured.Unstructured, dynamic.ResourceInterface, error) {
	item, err := toUnstructured(obj)
	if err != nil {
		return nil, nil, err
	}
	gvk := item.GroupVersionKind()
	resource, known := resources()[gvk]
	if !known {
		return nil, nil, fmt.Errorf("%w: %s", ErrUnknownKind, gvk)
	}
	client := d.dynamic.Resource(gvk.GroupVersion().WithResource(resource))
	if item.GetNamespace() == "" {
		return item, client, nil
	}
	return item, client.Namespace(item.GetNamespace()), nil
}

// resources names the resource of each kind an import may leave downstream, so that no discovery is needed.
func resources() map[schema.GroupVersionKind]string {
	kind := func(group, version, kind string) schema.GroupVersionKind {
		return schema.GroupVersionKind{Group: group, Version: version, Kind: kind}
	}
	return map[schema.GroupVersionKind]string{
		kind("", "v1", "Namespace"):                                   "namespaces",
		kind("", "v1", "ServiceAccount"):                              "serviceaccounts",
		kind("", "v1", "Secret"):                                      "secrets",
		kind("", "v1", "ConfigMap"):                                   "configmaps",
		kind("apps", "v1", "Deployment"):                              "deployments",
		kind("apps", "v1", "StatefulSet"):                             "statefulsets", // agents of old ran as one
		kind("networking.k8s.io", "v1", "NetworkPolicy"):              "networkpolicies",
		kind("policy", "v1", "PodDisruptionBudget"):                   "poddisruptionbudgets",
		kind("scheduling.k8s.io", "v1", "PriorityClass"):              "priorityclasses",
		kind("rbac.authorization.k8s.io", "v1", "ClusterRole"):        "clusterroles",
		kind("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding"): "clusterrolebindings",
		kind("rbac.authorization.k8s.io", "v1", "Role"):               "roles",
		kind("rbac.authorization.k8s.io", "v1", "RoleBinding"):        "rolebindings",
	}
}

// toUnstructured copies obj without what the server fills in, and with its kind where Go types leave it out.
func toUnstructured(obj runtime.Object) (*unstructured.Unstructured, error) {
	if item, ok := obj.(*unstructured.Unstructured); ok {
		return item, nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("encoding %T: %w", obj, err)
	}
	item := &unstructured.Unstructured{Object: content}
	if item.GetKind() == "" {
		kinds, _, err := scheme.Scheme.ObjectKinds(obj)
		if err != nil {
			return nil, fmt.Errorf("%w: %T", ErrUnknownKind, obj)
		}
		item.SetGroupVersionKind(kinds[0])
	}
	unstructured.RemoveNestedField(item.Object, "status")
	unstructured.RemoveNestedField(item.Object, "metadata", "creationTimestamp")
	unstructured.RemoveNestedField(item.Object, "spec", "template", "metadata", "creationTimestamp")
	return item, nil
}

func describe(item *unstructured.Unstructured) string {
	if item.GetNamespace() == "" {
		return item.GetKind() + " " + item.GetName()
	}
	return item.GetKind() + " " + item.GetNamespace() + "/" + item.GetName()
}
