package undecodable

import (
	"bytes"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	kjson "sigs.k8s.io/json"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// tolerant is a serializer that decodes what can be decoded of objects of our group. Otherwise one object that any
// tenant can write would keep all objects of its kind from being decoded.
type tolerant struct {
	runtime.NegotiatedSerializer
	scheme      *runtime.Scheme
	undecodable *Objects
}

// Serializer returns the general serializer of a scheme, except that it decodes and tracks objects of our group that the
// general one cannot decode.
func (u *Objects) Serializer(scheme *runtime.Scheme) runtime.NegotiatedSerializer {
	return tolerant{serializer.NewCodecFactory(scheme).WithoutConversion(), scheme, u}
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

// documentStart is how an API server begins an object or a list of our group.
const documentStart = `{"apiVersion":"fleet.cattle.io/v1alpha1",`

// decodeOurs decodes a document of our group as API servers write it. The general decoder would go through the whole document
// first, to find its kind. It returns nil for every other document, and if the document cannot be decoded.
func (d tolerantDecoder) decodeOurs(data []byte, into runtime.Object) (runtime.Object, *schema.GroupVersionKind) {
	gvk := fleet.SchemeGroupVersion.WithKind(d.kindOf(data, into))
	if gvk.Kind == "" {
		return nil, nil
	}
	object, err := runtime.UseOrCreateObject(d.scheme, d.scheme, gvk, into)
	if err != nil || kjson.UnmarshalCaseSensitivePreserveInts(data, object) != nil || object.GetObjectKind().GroupVersionKind() != gvk {
		return nil, nil
	}
	object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) // as the general decoder does
	return object, &gvk
}

// kindOf returns the kind that a document of our group should have, or an empty string. API servers write the kind of a list
// after its items, so a list should have the kind of the list that it is decoded into.
func (d tolerantDecoder) kindOf(data []byte, into runtime.Object) string {
	rest, ours := bytes.CutPrefix(data, []byte(documentStart))
	if name, begins := bytes.CutPrefix(rest, []byte(`"kind":"`)); ours && begins {
		kind, _, _ := bytes.Cut(name, []byte(`"`))
		return string(kind)
	}
	if !ours || into == nil || !bytes.HasPrefix(rest, []byte(`"items":[`)) {
		return ""
	}
	kinds, _, err := d.scheme.ObjectKinds(into)
	if err != nil || kinds[0].GroupVersion() != fleet.SchemeGroupVersion {
		return ""
	}
	return kinds[0].Kind
}

// Decode returns the general decoder's error if the document is not an object of our group.
func (d tolerantDecoder) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if object, gvk := d.decodeOurs(data, into); object != nil {
		return object, gvk, nil
	}
	object, gvk, err := d.Decoder.Decode(data, defaults, into)
	if err == nil {
		return object, gvk, nil
	}
	var is metav1.TypeMeta
	if kjson.UnmarshalCaseSensitivePreserveInts(data, &is) != nil || is.GroupVersionKind().GroupVersion() != fleet.SchemeGroupVersion {
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
