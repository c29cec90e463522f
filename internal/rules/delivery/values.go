package delivery

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/fleet-hub/fleet/internal/helmvalues"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// KeyBundleValues is the key of the Bundle's own values in its values Secret. The values of a target are under the
// target's name.
const KeyBundleValues = "values.yaml"

// ErrValuesHash means that the values Secret of a Bundle does not match the hash in the Bundle. Usually one of them
// was written a moment before the other.
var ErrValuesHash = errors.New("hash mismatch between the Bundle (spec.valuesHash) and its values secret; apply the Bundle again together with its values")

// maxSecret is the API server's size limit for the data of a Secret, in bytes.
const maxSecret = 1 << 20

// ErrValuesTooLarge means that the values of a BundleDeployment do not fit into a Secret. It holds the values in use
// and the staged values, which differ only while a change waits.
var ErrValuesTooLarge = errors.New("helm.values: the values in use and the staged values together exceed 1 MiB, the limit of a Secret; make the values smaller")

// maxInline is the maximum size in bytes of the values in use and the staged values, together, that a BundleDeployment
// contains. The API server writes and sends the whole object with each status, and larger values cost more there than
// the requests for a Secret.
const maxInline = 64 << 10

// Values are the Helm values of a BundleDeployment, each as JSON or empty. If they are in a Secret, the
// BundleDeployment contains only their hash.
type Values struct{ Current, Staged []byte }

// TakeValues removes the Helm values from options and returns them as JSON, or nil if they are not set.
func TakeValues(options *fleet.BundleDeploymentOptions) ([]byte, error) {
	if options.Helm == nil || options.Helm.Values == nil {
		return nil, nil
	}
	values := options.Helm.Values
	helm := *options.Helm
	helm.Values = nil
	options.Helm = &helm
	if len(values.Data) == 0 && values.Text == "" {
		return nil, nil
	}
	text, err := json.Marshal(values)
	if err != nil {
		return nil, fmt.Errorf("encoding helm values: %w", err)
	}
	return text, nil
}

// CompactValues replaces the values of options by their text, without changing what the options share with others.
func CompactValues(options *fleet.BundleDeploymentOptions) {
	if options.Helm == nil || options.Helm.Values == nil {
		return
	}
	helm := *options.Helm
	helm.Values = helm.Values.Compact()
	options.Helm = &helm
}

// putValues is the reverse of TakeValues. The values are as the API server returns them, so that they compare equal.
func putValues(options *fleet.BundleDeploymentOptions, text []byte) error {
	if len(text) == 0 {
		return nil
	}
	values := &fleet.GenericMap{}
	if err := values.UnmarshalJSON(text); err != nil {
		return fmt.Errorf("decoding helm values: %w", err)
	}
	helm := fleet.HelmOptions{}
	if options.Helm != nil {
		helm = *options.Helm
	}
	helm.Values = values
	options.Helm = &helm
	return nil
}

// fitInline reports whether the values are small enough for the BundleDeployment.
func (v Values) fitInline() bool { return len(v.Current)+len(v.Staged) <= maxInline }

// Empty reports whether no Secret is needed.
func (v Values) Empty() bool { return len(v.Current) == 0 && len(v.Staged) == 0 }

// Check returns ErrValuesTooLarge if the values do not fit into a Secret.
func (v Values) Check() error {
	if len(v.Current)+len(v.Staged) > maxSecret {
		return ErrValuesTooLarge
	}
	return nil
}

// Hash returns the hexadecimal hash of both values together, or "" if both are empty.
func (v Values) Hash() string {
	if v.Empty() {
		return ""
	}
	return helmvalues.Hash(v.Current, v.Staged)
}

// Secret returns the Secret with the values for the agent. It has the namespace and name of the BundleDeployment,
// which owns it, unless the BundleDeployment has no UID yet.
func (v Values) Secret(bd *fleet.BundleDeployment) *corev1.Secret {
	secret := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: bd.Namespace, Name: bd.Name},
		Type:       fleet.SecretTypeBundleDeployment,
		Data:       map[string][]byte{helmvalues.KeyCurrent: v.Current, helmvalues.KeyStaged: v.Staged},
	}
	if bd.UID != "" {
		gvk := fleet.SchemeGroupVersion.WithKind("BundleDeployment")
		secret.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(bd, gvk)}
	}
	return secret
}

// ReadValues returns the values in a BundleDeployment's Secret.
func ReadValues(secret *corev1.Secret) Values {
	return Values{Current: secret.Data[helmvalues.KeyCurrent], Staged: secret.Data[helmvalues.KeyStaged]}
}

// BundleValuesHash returns the hexadecimal hash of a Bundle's values Secret.
func BundleValuesHash(data map[string][]byte) string {
	// A map of bytes always encodes.
	text, _ := json.Marshal(data)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// InjectValues returns a copy of the Bundle with the values from its Secret. The copy must never be stored, and its values
// must not be changed: targets of the same name share them. Errors wrap ErrValuesHash, or name the key that is not a JSON
// object.
func InjectValues(bundle *fleet.Bundle, data map[string][]byte) (*fleet.Bundle, error) {
	if BundleValuesHash(data) != bundle.Spec.ValuesHash {
		return nil, ErrValuesHash
	}
	bundle = bundle.DeepCopy()
	decoded := map[string]map[string]any{} // by key: several targets may have the same name
	if err := inject(&bundle.Spec.BundleDeploymentOptions, KeyBundleValues, data, decoded); err != nil {
		return nil, err
	}
	for i := range bundle.Spec.Targets {
		target := &bundle.Spec.Targets[i]
		if target.Name == "" {
			continue
		}
		if err := inject(&target.BundleDeploymentOptions, target.Name, data, decoded); err != nil {
			return nil, err
		}
	}
	return bundle, nil
}

func inject(options *fleet.BundleDeploymentOptions, key string, data map[string][]byte, decoded map[string]map[string]any) error {
	text, ok := data[key]
	if !ok {
		return nil
	}
	values, known := decoded[key]
	if !known {
		if err := utiljson.Unmarshal(text, &values); err != nil {
			return fmt.Errorf("key %s of the values secret: %w", key, err)
		}
		decoded[key] = values
	}
	if options.Helm == nil {
		options.Helm = &fleet.HelmOptions{}
	}
	options.Helm.Values = &fleet.GenericMap{Data: values}
	return nil
}
