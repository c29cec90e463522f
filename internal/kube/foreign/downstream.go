package foreign

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

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
	"github.com/fleet-hub/fleet/internal/kube/answers"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// FieldManager owns the fields of the objects that we apply downstream. With another name, the fields of earlier
// imports would stay forever.
const FieldManager = names.ImportFieldManager

// ErrUnknownKind means that no import creates objects of this kind downstream (see resources).
var ErrUnknownKind = errors.New("this kind is never applied downstream")

// Client is a client for the API server of another cluster, for the import of that cluster. Every error is
// classified (see Classify) and short, whatever the server returns.
type Client struct {
	http    *http.Client
	dynamic dynamic.Interface
	rest    rest.Interface
}

// New returns a client for the server of cfg. It sends nothing. Close it after use.
func New(cfg *rest.Config) (*Client, error) {
	cfg = kube.Tune(cfg)
	cfg.WarningHandler, cfg.WarningHandlerWithContext = rest.NoWarnings{}, nil // client-go would log warnings unfiltered
	cfg.NextProtos = []string{"http/1.1"}                                      // HTTP/2 reads more than bounded allows
	cfg = kube.WrapTransport(cfg, bounded)
	client, err := clientFor(cfg)
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

// clientFor is rest.HTTPClientFor with a limit for the headers of responses.
func clientFor(cfg *rest.Config) (*http.Client, error) {
	trust, err := rest.TLSConfigFor(cfg)
	if err != nil {
		return nil, err //nolint:wrapcheck // New adds the context
	}
	wrapped, err := rest.HTTPWrappersForConfig(cfg, utilnet.SetTransportDefaults(&http.Transport{
		Proxy: cfg.Proxy, DialContext: cfg.Dial, TLSClientConfig: trust, DisableCompression: cfg.DisableCompression, MaxResponseHeaderBytes: headerLimit,
	}))
	if err != nil {
		return nil, err //nolint:wrapcheck // as above
	}
	return &http.Client{Transport: wrapped, Timeout: cfg.Timeout}, nil
}

// Close closes idle connections, so that removed clusters keep none.
func (d *Client) Close() { utilnet.CloseIdleConnectionsFor(d.http.Transport) }

// ServerVersion reads the server's version. It is the cheapest request that shows whether the server responds
// and accepts the credential, before anything is written.
func (d *Client) ServerVersion(ctx context.Context) (version.Info, error) {
	var info version.Info
	raw, err := d.rest.Get().AbsPath("/version").Do(ctx).Raw()
	if err != nil {
		return info, fmt.Errorf("reading the server's version: %w", failed(err))
	}
	if err := json.Unmarshal(raw, &info); err != nil {
		return info, fmt.Errorf("reading the server's version: %w", boundedError{err})
	}
	return info, nil
}

// NamespaceUID returns the namespace's UID. The UID of kube-system identifies the cluster.
func (d *Client) NamespaceUID(ctx context.Context, name string) (types.UID, error) {
	found, err := d.dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("reading namespace %s: %w", name, failed(err))
	}
	return found.GetUID(), nil
}

// Remove deletes the objects in order. It uses only their kind, namespace and name. A missing object is not an
// error.
func (d *Client) Remove(ctx context.Context, objs ...runtime.Object) error {
	background := metav1.DeletePropagationBackground
	for _, obj := range objs {
		item, client, err := d.clientFor(obj)
		if err != nil {
			return err
		}
		err = client.Delete(ctx, item.GetName(), metav1.DeleteOptions{PropagationPolicy: &background})
		if err != nil && !answers.IsDeleted(err) {
			return fmt.Errorf("removing %s: %w", describe(item), failed(err))
		}
	}
	return nil
}

// clientFor returns obj in the form in which it is sent, and the client for its kind and namespace.
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

// resources maps each kind that an import may create downstream to its resource, so that discovery is not
// needed.
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
		kind("apps", "v1", "StatefulSet"):                             "statefulsets", // old agents
		kind("coordination.k8s.io", "v1", "Lease"):                    "leases",
		kind("networking.k8s.io", "v1", "NetworkPolicy"):              "networkpolicies",
		kind("policy", "v1", "PodDisruptionBudget"):                   "poddisruptionbudgets",
		kind("scheduling.k8s.io", "v1", "PriorityClass"):              "priorityclasses",
		kind("rbac.authorization.k8s.io", "v1", "ClusterRole"):        "clusterroles",
		kind("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding"): "clusterrolebindings",
		kind("rbac.authorization.k8s.io", "v1", "Role"):               "roles",
		kind("rbac.authorization.k8s.io", "v1", "RoleBinding"):        "rolebindings",
	}
}

// toUnstructured returns a copy of obj with its kind, without the fields that the server sets.
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
