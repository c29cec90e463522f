package parity

import (
	"regexp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// releaseNote replaces the content of a Helm release.
const releaseNote = "<release>"

// chance matches a character of the random names that Kubernetes generates.
const chance = `[bcdfghjklmnpqrstvwxz2456789]`

// form is a pattern of values without a derived name, and their replacement on both sides.
type form struct {
	is   *regexp.Regexp
	note string
}

// newForms returns all forms. Their order matters: a pattern that contains a certificate precedes the
// certificate's.
func newForms() []form {
	return []form{
		{regexp.MustCompile(`certificate-authority-data: [A-Za-z0-9+/=]\S*`), "certificate-authority-data: <base64 PEM>"},
		{regexp.MustCompile(`LS0tLS1CRUdJTi[A-Za-z0-9+/=]+`), "<base64 PEM>"},
		{regexp.MustCompile(`-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----`), "<PEM CERTIFICATE>"},
		{regexp.MustCompile(`eyJ[\w-]+\.[\w-]+\.[\w-]+`), "<JWT>"},
		{regexp.MustCompile(`<release, \d+ bytes>`), releaseNote},
		{regexp.MustCompile(`<gzip\+base64, \d+ chars>`), "<applied>"},
		{regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "<time>"},
		{regexp.MustCompile(`\b(fleet-agent|fleet-controller)-` + chance + `{6,10}-` + chance + `{5}`), "<pod of $1>"},
		{regexp.MustCompile(`^ReplicaSet "([a-z-]+)-` + chance + `{6,10}" `), `ReplicaSet "<of $1>" `},
		{regexp.MustCompile(`^\d{10}$`), "<seconds>"},
	}
}

// Text returns a text with replaced names.
func (n *Names) Text(text string) string {
	text = n.replacer.Replace(text)
	for _, f := range n.forms {
		text = f.is.ReplaceAllString(text, f.note)
	}
	return text
}

// Of returns an object with replaced names, in keys and values. Its own UID is removed, because it is compared
// where other objects refer to it.
func (n *Names) Of(o Object) Object {
	fields, _ := n.value(o.Fields).(map[string]any)
	unstructured.RemoveNestedField(fields, "metadata", "uid")
	return Object{Cluster: o.Cluster, Fields: fields}
}

func (n *Names) value(v any) any {
	switch v := v.(type) {
	case string:
		return n.Text(v)
	case []any:
		all := make([]any, len(v))
		for i := range v {
			all[i] = n.value(v[i])
		}
		return all
	case map[string]any:
		all := make(map[string]any, len(v))
		for key, value := range v {
			all[n.Text(key)] = n.value(value)
		}
		return all
	}
	return v
}
