package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of every kind in this package.
const GroupName = "fleet.cattle.io"

// SchemeGroupVersion is the group and version of every kind in this package.
//
// It, SchemeBuilder and AddToScheme are package variables because client libraries expect these names. They are
// never changed.
var SchemeGroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

var (
	// SchemeBuilder collects what AddToScheme registers.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)
	// AddToScheme makes the kinds of this package, and their lists, known to a scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)

// Resource puts the group before a plural resource name, such as "clusters".
func Resource(resource string) schema.GroupResource {
	return SchemeGroupVersion.WithResource(resource).GroupResource()
}

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion,
		&Bundle{}, &BundleList{},
		&BundleDeployment{}, &BundleDeploymentList{},
		&BundleNamespaceMapping{}, &BundleNamespaceMappingList{},
		&Cluster{}, &ClusterList{},
		&ClusterGroup{}, &ClusterGroupList{},
		&ClusterRegistration{}, &ClusterRegistrationList{},
		&ClusterRegistrationToken{}, &ClusterRegistrationTokenList{},
		&Content{}, &ContentList{},
	)
	metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
	return nil
}
