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

// quickJSON decodes objects of our group in one go. The general decoder reads each object twice, first for what it is:
// but the API server begins every object of a custom resource with that.
type quickJSON struct {
	runtime.NegotiatedSerializer
	kinds []quickKind
	// media are what the general one reads and writes, watches of JSON quickly.
	media []runtime.SerializerInfo
	// odd says that a server has written what cannot be read as it was expected to be.
	odd *atomic.Bool
	// unread is told of objects that cannot be read whole.
	unread *unread
	trims  *trims
}

// quickKind is one kind, and how a document of it begins.
type quickKind struct {
	begins []byte
	// asked says that only who asks for it knows which kind it is: all lists begin in the same way.
	asked  bool
	gvk    schema.GroupVersionKind
	goType reflect.Type
	// inEvents and inAnswers are left out.
	inEvents, inAnswers leftOut
}

func newQuickJSON(scheme *runtime.Scheme, partly *unread) quickJSON {
	q := quickJSON{NegotiatedSerializer: serializer.NewCodecFactory(scheme).WithoutConversion(), odd: &atomic.Bool{}, unread: partly, trims: newTrims()}
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

// newQuickKind says how a kind is written: fields are in the order of their names.
func newQuickKind(gvk schema.GroupVersionKind, goType reflect.Type) quickKind {
	out := quickKind{gvk: gvk, goType: goType}
	first := fmt.Sprintf(`"kind":%q,`, gvk.Kind)
	of, isList := strings.CutSuffix(gvk.Kind, "List")
	switch {
	case isList:
		first, out.asked = `"items":[`, true
		out.inAnswers = leftOutOfLists(of)
	case gvk.Kind == "Content": // no other kind has a field of this name
		first = `"content":`
		fallthrough
	default:
		out.inEvents, out.inAnswers = leftOutOf(gvk.Kind)
	}
	out.begins = fmt.Appendf(nil, `{"apiVersion":%q,%s`, gvk.GroupVersion().String(), first)
	return out
}

// SupportedMediaTypes are those of the general one.
func (q quickJSON) SupportedMediaTypes() []runtime.SerializerInfo { return q.media }

// DecoderToVersion is the general decoder, asked where a document does not begin as expected or is not as it should be.
func (q quickJSON) DecoderToVersion(decoder runtime.Decoder, version runtime.GroupVersioner) runtime.Decoder {
	return quickDecoder{Decoder: q.NegotiatedSerializer.DecoderToVersion(decoder, version), kinds: q.kinds, odd: q.odd, unread: q.unread, trims: q.trims}
}

type quickDecoder struct {
	runtime.Decoder
	kinds []quickKind
	odd   *atomic.Bool
	// unread is told of objects that cannot be read whole.
	unread *unread
	trims  *trims
}

// fits says whether a document may be of this kind, to be decoded into something, or nothing.
func (k quickKind) fits(into runtime.Object) bool {
	if into == nil {
		return !k.asked
	}
	return reflect.TypeOf(into).Elem() == k.goType
}

// Decode is that of the general decoder, which leaves no kind in what it decodes. What that cannot read of one object
// is left out: else one that anybody may write would keep all others of its kind from being read.
func (d quickDecoder) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	for _, kind := range d.kinds {
		if !bytes.HasPrefix(data, kind.begins) || !kind.fits(into) {
			continue
		}
		object, leave := into, kind.inAnswers
		if object == nil { // an event: who asks says what is to be filled in
			object, _ = reflect.New(kind.goType).Interface().(runtime.Object) // the scheme knows no others
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
	d.odd.Store(true) // it may be a part of an event that was written into two lines
	return object, gvk, err
}

// salvage is what can be read of an object of our group, or of a list of them; nil if it is none.
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
	object, _ := reflect.New(kind.goType).Interface().(runtime.Object) // the scheme knows no others
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

// read reads what can be read, and tells of what cannot.
func (d quickDecoder) read(data []byte, kind string, object runtime.Object) error {
	if of, isList := strings.CutSuffix(kind, "List"); isList {
		return salvageList(data, object, func(item runtime.Object, missing []lost) { d.unread.note(of, item, missing) })
	}
	missing, err := salvage(data, object)
	if err == nil {
		d.unread.note(kind, object, missing)
	}
	return err
}

// quickClients is a client factory whose clients of our group decode quickly.
type quickClients struct {
	client.SharedClientFactory
	rest rest.Interface

	mu    sync.Mutex
	known map[schema.GroupVersionResource]*client.Client
}

func newQuickClients(clients client.SharedClientFactory, cfg *rest.Config, scheme *runtime.Scheme, partly *unread) (*quickClients, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.NegotiatedSerializer = newQuickJSON(scheme, partly)
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	cfg.Timeout = 0 // as lasso has it: its clients bound each request themselves, and a watch is none
	server, err := rest.UnversionedRESTClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("building the client: %w", err)
	}
	return &quickClients{SharedClientFactory: clients, rest: server, known: map[schema.GroupVersionResource]*client.Client{}}, nil
}

// unwarned writes without asking to be warned of unknown fields, which the API server would look for in each write:
// that a resource is older than the hub is found when it starts.
type unwarned struct{ rest.Interface }

func (u unwarned) Post() *rest.Request { return withoutWarnings(u.Interface.Post()) }

func (u unwarned) Put() *rest.Request { return withoutWarnings(u.Interface.Put()) }

func (u unwarned) Patch(pt types.PatchType) *rest.Request {
	return withoutWarnings(u.Interface.Patch(pt))
}

func withoutWarnings(request *rest.Request) *rest.Request {
	return request.Param("fieldValidation", metav1.FieldValidationIgnore)
}

// ForResourceKind is the client of a resource. Lasso asks for all of them by it.
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
