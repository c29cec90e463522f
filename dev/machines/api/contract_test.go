package api_test

import (
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fleet-hub/fleet/dev/machines/api"
)

// The tests are named after the rules of Cluster API's contracts, version v1beta2.

func TestContract_AllResources_Scope(t *testing.T) {
	for _, crd := range allCRDs(t) {
		if crd.Spec.Scope != apiextensionsv1.NamespaceScoped {
			t.Errorf("%s has scope %s, want Namespaced", crd.Name, crd.Spec.Scope)
		}
	}
}

func TestContract_AllResources_TypeMetaAndObjectMetaField(t *testing.T) {
	scheme := newScheme(t)
	for _, crd := range allCRDs(t) {
		object := newObject(t, scheme, crd.Spec.Names.Kind)
		if _, err := meta.TypeAccessor(object); err != nil {
			t.Errorf("%s has no TypeMeta: %v", crd.Spec.Names.Kind, err)
		}
		if _, err := meta.Accessor(object); err != nil {
			t.Errorf("%s has no ObjectMeta: %v", crd.Spec.Names.Kind, err)
		}
		for _, field := range []string{"apiVersion", "kind", "metadata"} {
			if _, exists := schemaOf(crd).Properties[field]; !exists {
				t.Errorf("the schema of %s has no field %s", crd.Name, field)
			}
		}
	}
}

func TestContract_AllResources_APIVersionFieldValue(t *testing.T) {
	for _, crd := range allCRDs(t) {
		versions := strings.Split(crd.Labels["cluster.x-k8s.io/v1beta2"], "_")
		for _, version := range versions {
			served := slices.ContainsFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
				return v.Name == version && v.Served
			})
			if !served {
				t.Errorf("the contract's label of %s names version %q, which is not served", crd.Name, version)
			}
		}
	}
}

func TestContract_ResourceDefinitions(t *testing.T) {
	scheme := newScheme(t)
	var names []string
	for _, crd := range allCRDs(t) {
		kind := crd.Spec.Names.Kind
		names = append(names, kind)
		// CalculateCRDName of Cluster API: plural of the kind, and the group.
		if want := strings.ToLower(kind) + "s." + crd.Spec.Group; crd.Name != want {
			t.Errorf("CRD of %s is named %s, want %s", kind, crd.Name, want)
		}
		if crd.Spec.Names.ListKind != kind+"List" {
			t.Errorf("the list of %s is named %s", kind, crd.Spec.Names.ListKind)
		}
		if list := newObject(t, scheme, kind+"List"); !meta.IsListType(list) {
			t.Errorf("%sList is not a list", kind)
		}
		isTemplate := strings.HasSuffix(kind, "Template")
		if hasStatus := crd.Spec.Versions[0].Subresources != nil && crd.Spec.Versions[0].Subresources.Status != nil; hasStatus == isTemplate {
			t.Errorf("%s has a status subresource: %v", kind, hasStatus)
		}
	}
	want := []string{
		"LabCluster", "LabClusterTemplate", "LabConfig", "LabConfigTemplate",
		"LabControlPlane", "LabControlPlaneTemplate", "LabMachine", "LabMachineTemplate",
	}
	if !slices.Equal(names, want) {
		t.Errorf("kinds %v, want %v", names, want)
	}
}

// TestContract_FieldsThatTheCoreReads checks the paths and types at which the core reads and writes.
func TestContract_FieldsThatTheCoreReads(t *testing.T) {
	for _, c := range []struct{ rule, kind, path, kindOfValue string }{
		{"InfraCluster: control plane endpoint", "LabCluster", "spec.controlPlaneEndpoint.host", "string"},
		{"InfraCluster: control plane endpoint", "LabCluster", "spec.controlPlaneEndpoint.port", "integer"},
		{"InfraCluster: initialization completed", "LabCluster", "status.initialization.provisioned", "boolean"},
		{"InfraCluster: conditions", "LabCluster", "status.conditions", "array"},
		{"InfraClusterTemplate", "LabClusterTemplate", "spec.template.spec", "object"},
		{"InfraMachine: provider ID", "LabMachine", "spec.providerID", "string"},
		{"InfraMachine: addresses", "LabMachine", "status.addresses", "array"},
		{"InfraMachine: initialization completed", "LabMachine", "status.initialization.provisioned", "boolean"},
		{"InfraMachine: conditions", "LabMachine", "status.conditions", "array"},
		{"InfraMachineTemplate", "LabMachineTemplate", "spec.template.spec", "object"},
		{"BootstrapConfig: data secret", "LabConfig", "status.dataSecretName", "string"},
		{"BootstrapConfig: initialization completed", "LabConfig", "status.initialization.dataSecretCreated", "boolean"},
		{"BootstrapConfig: conditions", "LabConfig", "status.conditions", "array"},
		{"BootstrapConfigTemplate", "LabConfigTemplate", "spec.template.spec", "object"},
		{"ControlPlane: replicas", "LabControlPlane", "spec.replicas", "integer"},
		{"ControlPlane: replicas", "LabControlPlane", "status.selector", "string"},
		{"ControlPlane: replicas", "LabControlPlane", "status.replicas", "integer"},
		{"ControlPlane: replicas", "LabControlPlane", "status.readyReplicas", "integer"},
		{"ControlPlane: replicas", "LabControlPlane", "status.availableReplicas", "integer"},
		{"ControlPlane: replicas", "LabControlPlane", "status.upToDateReplicas", "integer"},
		{"ControlPlane: version", "LabControlPlane", "spec.version", "string"},
		{"ControlPlane: version", "LabControlPlane", "status.versions", "array"},
		{"ControlPlane: version", "LabControlPlane", "status.version", "string"},
		{"ControlPlane: machines", "LabControlPlane", "spec.machineTemplate.metadata.labels", "object"},
		{"ControlPlane: machines", "LabControlPlane", "spec.machineTemplate.spec.infrastructureRef.kind", "string"},
		{"ControlPlane: machines", "LabControlPlane", "spec.machineTemplate.spec.deletion.nodeDrainTimeoutSeconds", "integer"},
		{"ControlPlane: initialization completed", "LabControlPlane", "status.initialization.controlPlaneInitialized", "boolean"},
		{"ControlPlane: conditions", "LabControlPlane", "status.conditions", "array"},
		{"ControlPlaneTemplate", "LabControlPlaneTemplate", "spec.template.spec", "object"},
	} {
		t.Run(c.rule+", "+c.path, func(t *testing.T) {
			at := schemaOf(crdOf(t, c.kind))
			for _, field := range strings.Split(c.path, ".") {
				next, exists := at.Properties[field]
				if !exists {
					t.Fatalf("%s has no field %s", c.kind, c.path)
				}
				at = next
			}
			if at.Type != c.kindOfValue {
				t.Errorf("%s of %s is of type %s, want %s", c.path, c.kind, at.Type, c.kindOfValue)
			}
		})
	}
}

func TestContract_ControlPlane_Replicas_ScaleSubresource(t *testing.T) {
	scale := crdOf(t, "LabControlPlane").Spec.Versions[0].Subresources.Scale
	if scale == nil {
		t.Fatal("LabControlPlane has no scale subresource")
	}
	if scale.SpecReplicasPath != ".spec.replicas" || scale.StatusReplicasPath != ".status.replicas" ||
		scale.LabelSelectorPath == nil || *scale.LabelSelectorPath != ".status.selector" {
		t.Errorf("scale subresource has other paths than the contract: %+v", *scale)
	}
}

func allCRDs(t *testing.T) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	crds, err := api.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	return crds
}

func crdOf(t *testing.T, kind string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	for _, crd := range allCRDs(t) {
		if crd.Spec.Names.Kind == kind {
			return crd
		}
	}
	t.Fatalf("there is no CRD of %s", kind)
	return nil
}

func schemaOf(crd *apiextensionsv1.CustomResourceDefinition) apiextensionsv1.JSONSchemaProps {
	return *crd.Spec.Versions[0].Schema.OpenAPIV3Schema
}

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := api.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	metav1.AddToGroupVersion(scheme, api.GroupVersion())
	return scheme
}

func newObject(t *testing.T, scheme *runtime.Scheme, kind string) runtime.Object {
	t.Helper()
	object, err := scheme.New(api.GroupVersion().WithKind(kind))
	if err != nil {
		t.Fatal(err)
	}
	return object
}
