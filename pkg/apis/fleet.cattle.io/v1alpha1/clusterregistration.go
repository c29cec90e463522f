package v1alpha1

import (
	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterRegistration is an agent's request to join. Fleet answers it once, with
// an account in the cluster's namespace and a Secret holding its credential.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=clusterregistrations
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="helm.sh/resource-policy=keep"
// +kubebuilder:printcolumn:name="Cluster-Name",type=string,JSONPath=`.status.clusterName`
// +kubebuilder:printcolumn:name="Labels",type=string,JSONPath=`.spec.clusterLabels`
type ClusterRegistration struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ClusterRegistrationSpec   `json:"spec,omitempty"`
	Status ClusterRegistrationStatus `json:"status,omitempty"`
}

// ClusterRegistrationList is a list of ClusterRegistrations.
//
// +kubebuilder:object:root=true
type ClusterRegistrationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterRegistration `json:"items"`
}

// ClusterRegistrationSpec describes the agent that registers.
type ClusterRegistrationSpec struct {
	// ClientID is the identity of the cluster: configured, or the UID of its kube-system namespace. A Cluster with the
	// same clientID is joined; otherwise one is created.
	// +nullable
	ClientID string `json:"clientID,omitempty"`

	// ClientRandom is new for every attempt. Together with the client ID it makes
	// up the name of the credential Secret, which only this agent can then guess.
	// +nullable
	ClientRandom string `json:"clientRandom,omitempty"`

	// ClusterLabels become the labels of the Cluster, but only when this request creates it.
	// +nullable
	ClusterLabels map[string]string `json:"clusterLabels,omitempty"`
}

// ClusterRegistrationStatus reports the progress of the request.
type ClusterRegistrationStatus struct {
	// ClusterName names the Cluster the request belongs to, as soon as that is known.
	// +nullable
	ClusterName string `json:"clusterName,omitempty"`

	// Granted is true once the credential was written.
	Granted bool `json:"granted,omitempty"`

	// Conditions: Granted, with what the request is waiting for.
	// +nullable
	Conditions []genericcondition.GenericCondition `json:"conditions,omitempty"`
}

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
	// Expires is the creation time plus the TTL. It is absent without a TTL. With a TTL of 0 the token does not expire.
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
