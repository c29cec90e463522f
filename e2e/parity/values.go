package parity

import (
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/fleet-hub/fleet/internal/helmvalues"
	"github.com/fleet-hub/fleet/internal/rules/delivery"
	"github.com/fleet-hub/fleet/internal/rules/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// values names the hashes of Helm values that contain a replaced name. All other hashes are compared unchanged.
func (n *Names) values(objects []Object) {
	secrets := map[string]Object{}
	for _, o := range ofKind(objects, "Secret") {
		secrets[o.text("metadata", "namespace")+"/"+o.text("metadata", "name")] = o
	}
	for _, o := range ofKind(objects, "BundleDeployment") {
		n.inlineValues(o)
		secret, found := secrets[o.text("metadata", "namespace")+"/"+o.text("metadata", "name")]
		current := secret.text("decodedData", helmvalues.KeyCurrent)
		if !found || n.Text(current) == current {
			continue
		}
		v := delivery.Values{Current: []byte(current), Staged: []byte(secret.text("decodedData", helmvalues.KeyStaged))}
		n.name(v.Hash(), n.Text("<hash of the values of "+o.String()+">"))
		if hash := optionsHash(o, current); hash != "" {
			n.name(hash, n.Text("<hash of the options of "+o.String()+">"))
		}
	}
}

// inlineValues names the hash of options with values that contain a replaced name.
func (n *Names) inlineValues(o Object) {
	values, found, err := unstructured.NestedMap(o.Fields, "spec", "options", "helm", "values")
	if !found || err != nil {
		return
	}
	text, err := json.Marshal(values)
	if err != nil || n.Text(string(text)) == string(text) {
		return
	}
	if hash := optionsHash(o, string(text)); hash != "" {
		n.name(hash, n.Text("<hash of the options of "+o.String()+">"))
	}
}

// optionsHash returns the second half of a deployment ID, computed from options and values.
func optionsHash(o Object, values string) string {
	var bd fleet.BundleDeployment
	if runtime.DefaultUnstructuredConverter.FromUnstructured(o.Fields, &bd) != nil || bd.Spec.Options.Helm == nil {
		return ""
	}
	var data map[string]any
	if utiljson.Unmarshal([]byte(values), &data) != nil {
		return ""
	}
	bd.Spec.Options.Helm.Values = &fleet.GenericMap{Data: data}
	id, err := targeting.DeploymentID("", bd.Spec.Options)
	if err != nil {
		return ""
	}
	return strings.TrimPrefix(id, ":")
}
