package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion returns the group and version of every kind in this package.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: "lab.fleet-hub.io", Version: "v1alpha1"}
}

// AddToScheme registers the kinds of this package, and their lists, with a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion(),
		&LabCluster{}, &LabClusterList{}, &LabClusterTemplate{}, &LabClusterTemplateList{},
		&LabConfig{}, &LabConfigList{}, &LabConfigTemplate{}, &LabConfigTemplateList{},
		&LabControlPlane{}, &LabControlPlaneList{}, &LabControlPlaneTemplate{}, &LabControlPlaneTemplateList{},
		&LabMachine{}, &LabMachineList{}, &LabMachineTemplate{}, &LabMachineTemplateList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion())
	return nil
}
