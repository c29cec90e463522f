package hub

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

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

// quickJSON decodes objects of our group in one step. The general decoder reads each object twice, first to find its
// kind. But the API server writes the kind of a custom resource at the start of each document.
type quickJSON struct {
	runtime.NegotiatedSerializer
	kinds []quickKind
	// media are the media types of the general serializer, with fast decoding of JSON watches.
	media []runtime.SerializerInfo
	// odd is set when a server has written an unexpected format.
	odd         *atomic.Bool
	undecodable *undecodable
	trims       *trims
}

// quickKind is one kind, with the start of its documents.
type quickKind struct {
	begins []byte
	// asked means that the kind must be known from the request, because all lists start in the same way.
	asked  bool
	gvk    schema.GroupVersionKind
	goType reflect.Type
	// inEvents and inAnswers are the fields that are left out.
	inEvents, inAnswers leftOut
}

func newQuickJSON(scheme *runtime.Scheme, incomplete *undecodable) quickJSON {
	q := quickJSON{NegotiatedSerializer: serializer.NewCodecFactory(scheme).WithoutConversion(), odd: &atomic.Bool{}, undecodable: incomplete, trims: newTrims()}
	for _, info := range q.NegotiatedSerializer.SupportedMediaTypes() {
		if info.MediaType == runtime.ContentTypeJSON {
			info.StreamSerializer = quickEvents{general: info.StreamSerializer, odd: q.odd}.info()
		}
		q.media = append(q.media, info)
	}
	for kind, goType := range scheme.KnownTypes(fleet.SchemeGroupVersion) {
		q.kinds = append(q.kinds, newQuickKind(fleet.SchemeGroupVersion.WithKind(kind), goType))
	}
	return q
}

// newQuickKind returns the start of a kind's documents. API servers write fields in the order of their names.
func newQuickKind(gvk schema.GroupVersionKind, goType reflect.Type) quickKind {
	out := quickKind{gvk: gvk, goType: goType}
	first := fmt.Sprintf(`"kind":%q,`, gvk.Kind)
	of, isList := strings.CutSuffix(gvk.Kind, "List")
	switch {
	case isList:
		first, out.asked = `"items":[`, true
		out.inAnswers = leftOutOfLists(of)
	case gvk.Kind == "Content": // no other kind has a field with this name
		first = `"content":`
		fallthrough
	default:
		out.inEvents, out.inAnswers = leftOutOf(gvk.Kind)
	}
	out.begins = fmt.Appendf(nil, `{"apiVersion":%q,%s`, gvk.GroupVersion().String(), first)
	return out
}

// SupportedMediaTypes returns the media types of the general serializer.
func (q quickJSON) SupportedMediaTypes() []runtime.SerializerInfo { return q.media }

// DecoderToVersion returns a decoder that uses the general decoder if a document has an unexpected start or is
// invalid.
func (q quickJSON) DecoderToVersion(decoder runtime.Decoder, version runtime.GroupVersioner) runtime.Decoder {
	return quickDecoder{Decoder: q.NegotiatedSerializer.DecoderToVersion(decoder, version), kinds: q.kinds, odd: q.odd, undecodable: q.undecodable, trims: q.trims}
}

type quickDecoder struct {
	runtime.Decoder
	kinds       []quickKind
	odd         *atomic.Bool
	undecodable *undecodable
	trims       *trims
}

// fits reports whether a document may be of this kind, given the object to decode into, which may be nil.
func (k quickKind) fits(into runtime.Object) bool {
	if into == nil {
		return !k.asked
	}
	return reflect.TypeOf(into).Elem() == k.goType
}

// Decode decodes like the general decoder, which clears the kind of the result. Fields that cannot be decoded are left
// out. Otherwise one object that any tenant can write would keep all objects of its kind from being decoded.
func (d quickDecoder) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	for _, kind := range d.kinds {
		if !bytes.HasPrefix(data, kind.begins) || !kind.fits(into) {
			continue
		}
		object, leave := into, kind.inAnswers
		if object == nil { // an event
			object, _ = reflect.New(kind.goType).Interface().(runtime.Object) // the scheme has no other types
			leave = kind.inEvents
		}
		if d.trims.without(leave, data, func(data []byte) error { return json.UnmarshalCaseSensitivePreserveInts(data, object) }) == nil &&
			object.GetObjectKind().GroupVersionKind() == kind.gvk {
			object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
			gvk := kind.gvk
			return object, &gvk, nil
		}
	}
	object, gvk, err := d.Decoder.Decode(data, defaults, into)
	if err == nil {
		return object, gvk, nil
	}
	if object, gvk := d.salvage(data, into); object != nil {
		return object, gvk, nil
	}
	d.odd.Store(true) // it may be a part of an event that was split into two lines
	return object, gvk, err
}

// salvage returns the decodable part of an object of our group, or of a list of them. It returns nil for other
// documents.
func (d quickDecoder) salvage(data []byte, into runtime.Object) (runtime.Object, *schema.GroupVersionKind) {
	var is metav1.TypeMeta
	if json.UnmarshalCaseSensitivePreserveInts(data, &is) != nil {
		return nil, nil
	}
	at := slices.IndexFunc(d.kinds, func(k quickKind) bool { return k.gvk == is.GroupVersionKind() })
	if at < 0 || into != nil && reflect.TypeOf(into).Elem() != d.kinds[at].goType {
		return nil, nil
	}
	kind := d.kinds[at]
	object, _ := reflect.New(kind.goType).Interface().(runtime.Object) // the scheme has no other types
	if d.read(data, kind.gvk.Kind, object) != nil {
		return nil, nil
	}
	object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	if into != nil {
		reflect.ValueOf(into).Elem().Set(reflect.ValueOf(object).Elem())
		object = into
	}
	return object, &kind.gvk
}

// read decodes what can be decoded, and reports the rest.
func (d quickDecoder) read(data []byte, kind string, object runtime.Object) error {
	if of, isList := strings.CutSuffix(kind, "List"); isList {
		return decodeItems(data, object, d.newObject(of), func(item runtime.Object, fields []string) { d.undecodable.note(of, item, fields) })
	}
	fields, err := decodeFields(data, object)
	if err == nil {
		d.undecodable.note(kind, object, fields)
	}
	return err
}

// newObject returns a function that returns an empty object of a kind.
func (d quickDecoder) newObject(kind string) func() runtime.Object {
	at := slices.IndexFunc(d.kinds, func(k quickKind) bool { return k.gvk.Kind == kind })
	return func() runtime.Object {
		object, _ := reflect.New(d.kinds[at].goType).Interface().(runtime.Object) // each list has its kind
		return object
	}
}

// quickClients is a client factory whose clients decode our group with quickJSON.
type quickClients struct {
	client.SharedClientFactory
	rest rest.Interface

	mu    sync.Mutex
	known map[schema.GroupVersionResource]*client.Client
}

func newQuickClients(clients client.SharedClientFactory, cfg *rest.Config, scheme *runtime.Scheme, incomplete *undecodable) (*quickClients, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.NegotiatedSerializer = newQuickJSON(scheme, incomplete)
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	cfg.Timeout = 0 // as in lasso: its clients set a timeout for each request, and watches must not have one
	server, err := rest.UnversionedRESTClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("building client: %w", err)
	}
	return &quickClients{SharedClientFactory: clients, rest: server, known: map[schema.GroupVersionResource]*client.Client{}}, nil
}

// unwarned writes without field validation, for which the API server would check each write for unknown fields. An
// outdated CRD is detected at startup.
type unwarned struct{ rest.Interface }

func (u unwarned) Post() *rest.Request { return withoutWarnings(u.Interface.Post()) }

func (u unwarned) Put() *rest.Request { return withoutWarnings(u.Interface.Put()) }

func (u unwarned) Patch(pt types.PatchType) *rest.Request {
	return withoutWarnings(u.Interface.Patch(pt))
}

func withoutWarnings(request *rest.Request) *rest.Request {
	return request.Param("fieldValidation", metav1.FieldValidationIgnore)
}

// ForResourceKind returns the client of a resource. Lasso gets all clients from it.
func (q *quickClients) ForResourceKind(resource schema.GroupVersionResource, kind string, namespaced bool) *client.Client {
	general := q.SharedClientFactory.ForResourceKind(resource, kind, namespaced)
	if resource.GroupVersion() != fleet.SchemeGroupVersion {
		return general
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.known[resource] == nil {
		quick := *general
		quick.RESTClient = unwarned{q.rest}
		q.known[resource] = &quick
	}
	return q.known[resource]
}
