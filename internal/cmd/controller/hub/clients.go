package hub

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/rancher/lasso/pkg/client"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/json"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// newClients returns the clients of all scopes. Built-in kinds use protobuf, which is cheaper than JSON for both
// sides.
func newClients(cfg *rest.Config, incomplete *undecodable) (client.SharedClientFactory, error) {
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
	cfg.NegotiatedSerializer = tolerant{serializer.NewCodecFactory(scheme).WithoutConversion(), scheme, incomplete}
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	cfg.Timeout = 0 // as in lasso: its clients set a timeout for each request, and watches must not have one
	server, err := rest.UnversionedRESTClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("building client: %w", err)
	}
	return &clientFactory{SharedClientFactory: clients, rest: server, known: map[schema.GroupVersionResource]*client.Client{}}, nil
}

// clientFactory is a client factory whose clients for our group use rest.
type clientFactory struct {
	client.SharedClientFactory
	rest rest.Interface

	mu    sync.Mutex
	known map[schema.GroupVersionResource]*client.Client
}

// IsHealthy returns true. Lasso's own check would wait 15 s after a failed list, without a way to stop it, whereas the
// backoff of a watch starts below a second.
func (*clientFactory) IsHealthy(context.Context) bool { return true }

// ForResourceKind returns the client of a resource. Lasso gets all clients from it.
func (f *clientFactory) ForResourceKind(resource schema.GroupVersionResource, kind string, namespaced bool) *client.Client {
	general := f.SharedClientFactory.ForResourceKind(resource, kind, namespaced)
	if resource.GroupVersion() != fleet.SchemeGroupVersion {
		return general
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known[resource] == nil {
		ours := *general
		ours.RESTClient = unvalidated{f.rest}
		f.known[resource] = &ours
	}
	return f.known[resource]
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

// tolerant is a serializer that decodes what can be decoded of objects of our group. Otherwise one object that any
// tenant can write would keep all objects of its kind from being decoded.
type tolerant struct {
	runtime.NegotiatedSerializer
	scheme      *runtime.Scheme
	undecodable *undecodable
}

// DecoderToVersion returns a decoder that decodes the fields of an object separately if it cannot be decoded as a
// whole.
func (t tolerant) DecoderToVersion(decoder runtime.Decoder, version runtime.GroupVersioner) runtime.Decoder {
	return tolerantDecoder{t.NegotiatedSerializer.DecoderToVersion(decoder, version), t}
}

type tolerantDecoder struct {
	runtime.Decoder
	tolerant
}

// Decode returns the general decoder's error if the document is not an object of our group.
func (d tolerantDecoder) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	object, gvk, err := d.Decoder.Decode(data, defaults, into)
	if err == nil {
		return object, gvk, nil
	}
	var is metav1.TypeMeta
	if json.UnmarshalCaseSensitivePreserveInts(data, &is) != nil || is.GroupVersionKind().GroupVersion() != fleet.SchemeGroupVersion {
		return object, gvk, err
	}
	found := is.GroupVersionKind()
	incomplete, unknown := d.scheme.New(found)
	if unknown != nil || into != nil && reflect.TypeOf(into) != reflect.TypeOf(incomplete) || d.decodeFields(data, found, incomplete) != nil {
		return object, gvk, err
	}
	incomplete.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) // as the general decoder does
	if into != nil {
		reflect.ValueOf(into).Elem().Set(reflect.ValueOf(incomplete).Elem())
		incomplete = into
	}
	return incomplete, &found, nil
}

// decodeFields decodes what can be decoded, and reports the rest.
func (d tolerantDecoder) decodeFields(data []byte, gvk schema.GroupVersionKind, into runtime.Object) error {
	if kind, isList := strings.CutSuffix(gvk.Kind, "List"); isList {
		empty := func() runtime.Object {
			item, _ := d.scheme.New(gvk.GroupVersion().WithKind(kind)) // each list has its kind
			return item
		}
		return decodeItems(data, into, empty, func(item runtime.Object, fields []string) { d.undecodable.note(kind, item, fields) })
	}
	fields, err := decodeFields(data, into)
	if err == nil {
		d.undecodable.note(gvk.Kind, into, fields)
	}
	return err
}
