package clusterimport

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// namespaceFor is the namespace of a Cluster on the hub, in which a UID may be recorded.
func namespaceFor(workspace, name, system string) *corev1.Namespace {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: names.ClusterNamespace(workspace, name), Labels: map[string]string{fleet.LabelManaged: "true"},
		Annotations: map[string]string{fleet.AnnotationCluster: name, fleet.AnnotationClusterNamespace: workspace},
	}}
	if system != "" {
		namespace.Annotations[annotation.SystemUID] = system
	}
	return namespace
}

// forClusterAPI marks a Cluster as created for Cluster API.
func forClusterAPI(c *fleet.Cluster) {
	c.Annotations = map[string]string{annotation.CAPICluster: c.Namespace + "/" + c.Name + "/capi-1"}
}

func TestAnImport_RecordsWhichClusterItIs(t *testing.T) {
	for name, modify := range map[string]func(*fleet.Cluster){"by hand": func(*fleet.Cluster) {}, "for Cluster API": forClusterAPI} {
		t.Run(name, func(t *testing.T) {
			hub, _ := ready(t, cluster(modify), namespaceFor("ws", "c1", ""))
			work(t, hub)
			expectImported(t, hub, "")
			namespace := hubtest.MustGet[*corev1.Namespace](t, hub, "", names.ClusterNamespace("ws", "c1"))
			if uid := namespace.Annotations[annotation.SystemUID]; uid != "u-downstream" {
				t.Errorf("recorded %q", uid)
			}
			requests := hub.Requests()
			hubtest.ExpectOrder(t, requests, readTarget, "patch Namespace "+namespace.Name, applied)
		})
	}
}

func TestARecordThatHadNoNamespace_IsWrittenLater(t *testing.T) {
	hub, _ := ready(t, cluster())
	work(t, hub)
	hub.Sync()
	hub.Put(namespaceFor("ws", "c1", ""))
	hub.Requests()
	handle(t, hub)
	hubtest.ExpectRequests(t, hub, readSecret, "patch Namespace "+names.ClusterNamespace("ws", "c1"))
}

// A cluster of Cluster API gets no second agent. A user may install one in another namespace.
func TestAClusterThatIsRegistered_GetsNoSecondAgentForClusterAPI(t *testing.T) {
	for name, test := range map[string]struct {
		modify    func(*fleet.Cluster)
		workspace string // of the other Cluster
		bootstrap string
		isHub     bool
		reason    string
	}{
		"another workspace":                {modify: forClusterAPI, workspace: "secret-team", reason: conditions.ReasonImportedTwice},
		"the same workspace":               {modify: forClusterAPI, workspace: "ws", reason: conditions.ReasonImportedTwice},
		"a user imports it twice":          {modify: func(*fleet.Cluster) {}, workspace: "secret-team"},
		"the hub":                          {modify: forClusterAPI, workspace: "ws", isHub: true, reason: conditions.ReasonTargetIsHub},
		"the hub, the bootstrap workspace": {modify: forClusterAPI, workspace: "ws", bootstrap: "ws", isHub: true, reason: conditions.ReasonTargetIsHub},
	} {
		t.Run(name, func(t *testing.T) {
			other := cluster(func(c *fleet.Cluster) {
				c.Namespace, c.Name, c.UID, c.Spec.ClientID = test.workspace, "secret-name", "u-other", "other"
			})
			hub, behind := ready(t, cluster(test.modify), other, namespaceFor(test.workspace, "secret-name", "u-downstream"), namespaceFor("ws", "c1", ""))
			if test.isHub {
				behind.uid = ownNamespace().UID
			}
			conf := hubConfig()
			conf.Bootstrap = config.Bootstrap{Namespace: test.bootstrap}
			hub.App.Config.Set(conf)
			hub.Woken()
			work(t, hub)
			expectImported(t, hub, test.reason)
			wrote := false
			for _, request := range hub.Requests() {
				wrote = wrote || strings.HasPrefix(request, "downstream apply ") || strings.HasPrefix(request, "downstream remove ")
			}
			if wrote != (test.reason == "") {
				t.Errorf("written downstream: %t", wrote)
			}
			message := conditions.Get(current(t, hub).Status.Conditions, conditions.Imported).Message
			if test.workspace != "ws" && strings.Contains(message, "secret-") {
				t.Errorf("message %q names another workspace", message)
			}
		})
	}
}

// An importer that comes after the hub must not replace the agent.
func TestAUsersImportOfAClusterOfClusterAPI_LeavesItsAgent(t *testing.T) {
	for name, test := range map[string]struct {
		modify    func(*fleet.Cluster)
		workspace string
		reason    string
	}{
		"the same workspace":           {func(*fleet.Cluster) {}, "ws", conditions.ReasonImportedTwice},
		"another namespace for agents": {func(c *fleet.Cluster) { c.Spec.AgentNamespace = "second-agent" }, "ws", ""},
		"another workspace":            {func(*fleet.Cluster) {}, "secret-team", ""},
	} {
		t.Run(name, func(t *testing.T) {
			other := cluster(func(c *fleet.Cluster) {
				c.Namespace, c.Name, c.UID, c.Spec.ClientID = test.workspace, "first", "u-first", "first"
			}, forClusterAPI)
			hub, _ := ready(t, cluster(test.modify), other, namespaceFor(test.workspace, "first", "u-downstream"), namespaceFor("ws", "c1", ""))
			work(t, hub)
			expectImported(t, hub, test.reason)
			for _, request := range hub.Requests() {
				if test.reason != "" && (strings.HasPrefix(request, "downstream apply ") || strings.HasPrefix(request, "downstream remove ")) {
					t.Errorf("request %q", request)
				}
			}
		})
	}
}
