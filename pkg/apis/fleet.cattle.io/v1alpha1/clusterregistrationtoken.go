package v1alpha1

import (
	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterRegistrationToken lets agents ask to join its namespace. Fleet answers
// it with a Secret of the same name, holding the values an agent is installed with.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=clusterregistrationtokens
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="helm.sh/resource-policy=keep"
// +kubebuilder:printcolumn:name="Secret-Name",type=string,JSONPath=`.status.secretName`
type ClusterRegistrationToken struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ClusterRegistrationTokenSpec   `json:"spec,omitempty"`
	Status ClusterRegistrationTokenStatus `json:"status,omitempty"`
}

// ClusterRegistrationTokenList is a list of ClusterRegistrationTokens.
//
// +kubebuilder:object:root=true
type ClusterRegistrationTokenList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterRegistrationToken `json:"items"`
}

// ClusterRegistrationTokenSpec sets the lifetime of the token.
type ClusterRegistrationTokenSpec struct {
	// TTL is how long after its creation the token expires, such as 30m or 12h. 0 means never, unless the operator
	// enforces a limit. Absent means the hub's default for new tokens, controller.registrationTokenTTL.default.
	// +nullable
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self == '0' || (self.matches('^([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+$') && duration(self) <= duration('2562047h'))",message="must be a valid Go duration using units ns, us, µs, ms, s, m, h (e.g. 15s, 5m, 2h, 1h30m); units like d (days) or w (weeks) are not supported"
	TTL *metav1.Duration `json:"ttl,omitempty"`
}

// ClusterRegistrationTokenStatus names the Secret with the values and its expiry.
type ClusterRegistrationTokenStatus struct {
	// Expires is the creation time plus the TTL; absent when the token does not expire.
	Expires *metav1.Time `json:"expires,omitempty"`

	// DefaultTTL is the hub's default time to live at the time when the token was first processed; absent when the
	// token has a spec.ttl or does not expire.
	DefaultTTL *metav1.Duration `json:"defaultTTL,omitempty"`

	// SecretName names the Secret with the values, once it exists.
	// +nullable
	SecretName string `json:"secretName,omitempty"`

	// Conditions: Ready, with what the token is waiting for.
	// +nullable
	Conditions []genericcondition.GenericCondition `json:"conditions,omitempty"`
}
