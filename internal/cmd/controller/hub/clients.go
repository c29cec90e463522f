package hub

import (
	"context"
	"fmt"

	"github.com/rancher/lasso/pkg/client"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/undecodable"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// newClients returns the clients of all scopes. Built-in kinds use protobuf, which is cheaper than JSON for both
// sides.
func newClients(cfg *rest.Config, incomplete *undecodable.Objects) (client.SharedClientFactory, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	cfg = rest.CopyConfig(cfg)
	cfg.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	cfg.ContentType = runtime.ContentTypeProtobuf
	clients, err := client.NewSharedClientFactory(cfg, &client.SharedClientFactoryOptions{Scheme: scheme, Mapper: staticMapper()})
	if err != nil {
		return nil, fmt.Errorf("building clients: %w", err)
	}
	cfg = rest.CopyConfig(cfg)
	cfg.NegotiatedSerializer = incomplete.Serializer(scheme)
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	cfg.Timeout = 0 // as in lasso: its clients set a timeout for each request, and watches must not have one
	server, err := rest.UnversionedRESTClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("building client: %w", err)
	}
	return &clientFactory{clients, server}, nil
}

// clientFactory is a client factory whose clients for our group use rest.
type clientFactory struct {
	client.SharedClientFactory
	rest rest.Interface
}

// IsHealthy returns true. Lasso's own check would wait 15 s after a failed list, without a way to stop it, whereas the
// backoff of a watch starts below a second.
func (*clientFactory) IsHealthy(context.Context) bool { return true }

// ForResourceKind returns the client of a resource. Lasso gets all clients from it, each cache and controller once.
func (f *clientFactory) ForResourceKind(resource schema.GroupVersionResource, kind string, namespaced bool) *client.Client {
	general := f.SharedClientFactory.ForResourceKind(resource, kind, namespaced)
	if resource.GroupVersion() != fleet.SchemeGroupVersion {
		return general
	}
	ours := *general
	ours.RESTClient = unvalidated{f.rest}
	return &ours
}

// unvalidated writes without field validation, for which the API server would check each write for unknown fields. An
// outdated CRD is detected at startup.
type unvalidated struct{ rest.Interface }

func (u unvalidated) Post() *rest.Request { return unvalidatedRequest(u.Interface.Post()) }

func (u unvalidated) Put() *rest.Request { return unvalidatedRequest(u.Interface.Put()) }

func (u unvalidated) Patch(pt types.PatchType) *rest.Request {
	return unvalidatedRequest(u.Interface.Patch(pt))
}

func unvalidatedRequest(request *rest.Request) *rest.Request {
	return request.Param("fieldValidation", metav1.FieldValidationIgnore)
}
