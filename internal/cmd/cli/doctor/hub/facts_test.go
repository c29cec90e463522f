package hub

import (
	"encoding/pem"
	"fmt"
	"testing"
	"time"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/charts"
	"github.com/fleet-hub/fleet/internal/cmd/cli/clitest"
	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/check"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/crds"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

const (
	workspace = "fleet-default"
	system    = names.SystemNamespace
)

// named returns the metadata of an object that is a day old.
func named(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-of-" + name), CreationTimestamp: clitest.Ago(24 * time.Hour)}
}

// condition returns a condition that is False for a reason, since an hour.
func condition(kind, reason, message string) genericcondition.GenericCondition {
	return genericcondition.GenericCondition{
		Type: kind, Status: corev1.ConditionFalse, Reason: reason, Message: message, LastUpdateTime: clitest.Noon().Add(-time.Hour).Format(time.RFC3339),
	}
}

func lease(name, holder string, renewed time.Duration) *coordinationv1.Lease {
	at := metav1.NewMicroTime(clitest.Noon().Add(-renewed))
	return &coordinationv1.Lease{ObjectMeta: named(system, name), Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &at, LeaseDurationSeconds: new(int32(45))}}
}

func deployment(name, image string, replicas, ready int32) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: named(system, name),
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Template: corev1.PodTemplateSpec{
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "fleet-controller", Image: image}}},
		}},
		Status: appsv1.DeploymentStatus{ReadyReplicas: ready},
	}
}

func cluster(name string) *fleet.Cluster {
	return &fleet.Cluster{
		ObjectMeta: named(workspace, name), Spec: fleet.ClusterSpec{ClientID: "client-of-" + name},
		Status: fleet.ClusterStatus{Agent: fleet.AgentStatus{LastSeen: clitest.Ago(time.Minute), ClusterFacts: fleet.ClusterFacts{AgentVersion: "v1.2.0"}}},
	}
}

func token(name string) *fleet.ClusterRegistrationToken {
	return &fleet.ClusterRegistrationToken{ObjectMeta: named(workspace, name), Spec: fleet.ClusterRegistrationTokenSpec{TTL: &metav1.Duration{Duration: 48 * time.Hour}}}
}

func request(name, ofCluster string) *fleet.ClusterRegistration {
	return &fleet.ClusterRegistration{ObjectMeta: named(workspace, name), Status: fleet.ClusterRegistrationStatus{ClusterName: ofCluster, Granted: true}}
}

func bundle(name string) Bundle {
	return Bundle{Size: 1000, Bundle: &fleet.Bundle{ObjectMeta: named(workspace, name), Spec: fleet.BundleSpec{Targets: []fleet.BundleTarget{{}}}, Status: fleet.BundleStatus{
		Conditions: []genericcondition.GenericCondition{{Type: conditions.Ready, Status: corev1.ConditionTrue}},
		Summary:    fleet.BundleSummary{Ready: 1, DesiredReady: 1},
	}}}
}

// partial returns the metadata of an object, with these labels and annotations.
func partial(namespace, name string, marks map[string]string) *metav1.PartialObjectMetadata {
	meta := named(namespace, name)
	meta.Labels, meta.Annotations = marks, marks
	return &metav1.PartialObjectMetadata{ObjectMeta: meta}
}

// of returns the labels and annotations of objects of a Cluster.
func of(cluster string) map[string]string {
	return map[string]string{
		fleet.LabelCluster: cluster, fleet.LabelClusterNamespace: workspace,
		fleet.AnnotationClusterRegistration: "request-of-" + cluster, fleet.AnnotationClusterRegistrationNamespace: workspace,
	}
}

// certificate returns a certificate in PEM.
func certificate(t *testing.T, expires time.Time) []byte {
	t.Helper()
	der, _ := clitest.Certificate(t, expires)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// healthy returns the facts of a hub without problems.
func healthy(t *testing.T) *Facts {
	t.Helper()
	embedded, err := crds.Embedded(charts.FS)
	if err != nil {
		t.Fatal(err)
	}
	var served []apiextensions.CustomResourceDefinition
	for i := range embedded {
		crd := embedded[i].DeepCopy()
		crd.Annotations = map[string]string{"meta.helm.sh/release-name": "crds", "meta.helm.sh/release-namespace": "of-crds"}
		crd.Status.Conditions = []apiextensions.CustomResourceDefinitionCondition{{Type: apiextensions.Established, Status: apiextensions.ConditionTrue}}
		served = append(served, *crd)
	}
	imported := cluster("east")
	imported.Spec.KubeConfigSecret = "east-kubeconfig"
	f := &Facts{
		Scope: Scope{System: system}, Now: clitest.Noon(), Server: "https://hub.example.com:6443", Kubernetes: "v1.35.1", CRDs: served, Embedded: embedded,
		Config: Configuration{Exists: true, Version: "v1.2.0", Release: "fleet", Config: config.Config{
			APIServerURL: "https://hub.example.com:6443", APIServerCA: certificate(t, clitest.Noon().AddDate(1, 0, 0)), AgentTLSMode: config.TLSModeStrict,
		}},
		Address:     Probe{Done: true, Expires: clitest.Noon().AddDate(0, 6, 0)},
		Deployments: []*appsv1.Deployment{deployment("fleet-controller", "docker.io/fleethub/fleet:v1.2.0", 2, 2), deployment("other", "nginx", 1, 0)},
		Validating: []*admissionregistrationv1.ValidatingWebhookConfiguration{{ObjectMeta: metav1.ObjectMeta{Name: "guard"}, Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:         "guard.example.com",
			ClientConfig: admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: "guard", Name: "webhook"}},
			Rules:        []admissionregistrationv1.RuleWithOperations{{Rule: admissionregistrationv1.Rule{APIGroups: []string{"*"}}}},
		}}}},
		Services:      []*metav1.PartialObjectMetadata{partial("guard", "webhook", nil)},
		Clusters:      []*fleet.Cluster{cluster("west"), imported},
		Groups:        []*fleet.ClusterGroup{{ObjectMeta: named(workspace, "all"), Spec: fleet.ClusterGroupSpec{Selector: &metav1.LabelSelector{}}}},
		Tokens:        []*fleet.ClusterRegistrationToken{token("west")},
		Registrations: []*fleet.ClusterRegistration{request("request-of-west", "west"), request("request-of-east", "east")},
		Bundles:       []Bundle{bundle("app")},
		Mappings: []*fleet.BundleNamespaceMapping{{
			ObjectMeta: named(workspace, "shared"), BundleSelector: &metav1.LabelSelector{}, NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"fleet": "shared"}},
		}},
		Kubeconfigs: map[*fleet.Cluster]check.Kubeconfig{imported: {Exists: true, Expires: clitest.Noon().AddDate(1, 0, 0)}},
		Values:      []*metav1.PartialObjectMetadata{partial(workspace, "west", nil)},
	}
	for _, name := range ownLeases() {
		f.Leases = append(f.Leases, lease(name, "fleet-controller-1_abcdefghijklmnopqrstuvwxyz", time.Second))
	}
	for _, name := range []string{"west", "east"} {
		own := names.ClusterNamespace(workspace, name)
		f.Namespaces = append(f.Namespaces, partial("", own, of(name)))
		f.BundleDeployments = append(f.BundleDeployments, partial(own, "app", of(name)))
		f.Accounts = append(f.Accounts, partial(own, "request-of-"+name, of(name)))
		f.Credentials = append(f.Credentials, partial("cattle-fleet-clusters-system", "c-"+name, of(name)))
	}
	f.Namespaces = append(f.Namespaces, partial("", "kube-system", nil), partial("", workspace, nil), partial("", "team-b", map[string]string{"fleet": "shared"}))
	return f
}

// with returns the change of the first Cluster's status: a condition that is False.
func with(kind, reason, message string) func(*Facts) {
	return func(f *Facts) {
		f.Clusters[0].Status.Conditions = append(f.Clusters[0].Status.Conditions, condition(kind, reason, message))
	}
}

// withImported is the same for the Cluster that the hub has imported.
func withImported(kind, reason, message string) func(*Facts) {
	return func(f *Facts) {
		f.Clusters[1].Status.Conditions = append(f.Clusters[1].Status.Conditions, condition(kind, reason, message))
	}
}

func clusterCRD(f *Facts) *apiextensions.CustomResourceDefinition {
	for i := range f.CRDs {
		if f.CRDs[i].Name == "clusters.fleet.cattle.io" {
			return &f.CRDs[i]
		}
	}
	panic(fmt.Sprintf("no CRD of Clusters in %d", len(f.CRDs)))
}
