package clusterimport

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement/clusterimport/install"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/importing"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// registryLogin is a pull secret.
func registryLogin(namespace, uid, password string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "login", UID: types.UID(uid)},
		Type:       corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(password)},
	}
}

func TestPullSecrets(t *testing.T) {
	const (
		read    = "get Secret cattle-fleet-system/login"
		applies = "downstream apply Secret cattle-fleet-system/login"
		removes = "downstream remove Secret cattle-fleet-system/login"
		within  = "downstream apply Namespace cattle-fleet-system"
	)
	another := registryLogin("cattle-fleet-system", "u-2", "secret")
	another.Type = corev1.SecretTypeOpaque
	tests := map[string]struct {
		deploy importing.AgentDeployment
		source *corev1.Secret
		there  hubtest.Object
		want   []string
		err    error
	}{
		"a Secret is copied to the agent's namespace": {
			deploy: importing.AgentDeployment{PullSecrets: []string{"login"}}, source: registryLogin("cattle-fleet-system", "u-1", "secret"),
			want: []string{read, within, applies},
		},
		"one with what it had before is changed": {
			deploy: importing.AgentDeployment{PullSecrets: []string{"login"}}, source: registryLogin("cattle-fleet-system", "u-1", "rotated"),
			there: registryLogin("cattle-fleet-system", "u-2", "secret"), want: []string{read, within, applies},
		},
		"one that is the same already is left alone": {
			deploy: importing.AgentDeployment{PullSecrets: []string{"login"}}, source: registryLogin("cattle-fleet-system", "u-1", "secret"),
			there: registryLogin("cattle-fleet-system", "u-2", "secret"), want: []string{read},
		},
		"on the hub's own cluster it may be the very same": {
			deploy: importing.AgentDeployment{PullSecrets: []string{"login"}}, source: registryLogin("cattle-fleet-system", "u-1", "secret"),
			there: registryLogin("cattle-fleet-system", "u-1", "seen a moment ago"), want: []string{read},
		},
		"one of another type is replaced, for that cannot be changed": {
			deploy: importing.AgentDeployment{PullSecrets: []string{"login"}}, source: registryLogin("cattle-fleet-system", "u-1", "secret"),
			there: another, want: []string{read, removes, within, applies},
		},
		"one that has gone is said":              {deploy: importing.AgentDeployment{PullSecrets: []string{"login"}}, want: []string{read}, err: errPullSecretGone},
		"none is handed out where none is to be": {source: registryLogin("cattle-fleet-system", "u-1", "secret")},
		"nor where nothing is applied":           {deploy: importing.AgentDeployment{PullSecrets: []string{"login"}, InspectOnly: true}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub := hubtest.New(t)
			if test.source != nil {
				hub.Put(test.source)
			}
			hub.Requests()
			behind := &downstream{hub: hub}
			if test.there != nil {
				behind.there = []hubtest.Object{test.there}
			}
			test.deploy.SetID, test.deploy.Values.Namespace = names.AgentBootstrap, "cattle-fleet-system"
			secrets, err := (&handler{app: hub.App}).pullSecrets(t.Context(), &test.deploy)
			if err != test.err { //nolint:errorlint // it is returned as it is
				t.Fatalf("error %v; want %v", err, test.err)
			}
			test.deploy.BesideBundle = true // there is nothing else to apply
			agent := &install.Agent{AgentDeployment: &test.deploy, Downstream: behind, Sources: secrets}
			if err := agent.Apply(t.Context()); err != nil {
				t.Fatal(err)
			}
			expectAll(t, hub, test.want...)
			for _, object := range behind.applied {
				secret, ok := object.(*corev1.Secret)
				if !ok {
					continue
				}
				want := registryLogin("cattle-fleet-system", "", string(test.source.Data[corev1.DockerConfigJsonKey]))
				want.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}
				want.Labels = map[string]string{fleet.LabelSetHash: names.SetHash(names.AgentBootstrap, names.Owner{})}
				want.Annotations = map[string]string{fleet.AnnotationSetID: names.AgentBootstrap}
				if diff := cmp.Diff(want, secret); diff != "" {
					t.Errorf("the copy (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestAPullSecretThatIsMissing(t *testing.T) {
	hub, _ := imported(t)
	hub.Put(agentBundle())
	change(hub, func(c *config.Config) { c.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "login"}} })
	handle(t, hub)
	expectAll(t, hub, readSecret, written)
	expectImported(t, hub, conditions.ReasonPullSecretMissing)
	if current(t, hub).Status.AgentDeployedGeneration == nil {
		t.Error("the agent is forgotten for it")
	}
	change(hub, func(*config.Config) {})
	hub.Sync()
	handle(t, hub)
	hub.Requests()
	atRest(t, hub)
}

func TestClustersOfPullSecret(t *testing.T) {
	hub, _ := start(t, cluster(), cluster(func(c *fleet.Cluster) { c.Name, c.Spec.KubeConfigSecret = "c2", "" }))
	change(hub, func(c *config.Config) { c.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "login"}} })
	h := &handler{app: hub.App}
	for name, test := range map[string]struct {
		namespace, secret string
		want              []types.NamespacedName
	}{
		"the imported ones'":                 {"cattle-fleet-system", "login", []types.NamespacedName{{Namespace: "ws", Name: "c1"}}},
		"nobody's of another name":           {"cattle-fleet-system", "other", nil},
		"nobody's in another namespace":      {"ws", "login", nil},
		"nobody's in the agents' of the hub": {"cattle-fleet-local-system", "login", nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, h.clustersOfPullSecret(types.NamespacedName{Namespace: test.namespace, Name: test.secret})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheVersionsThatWentAreNotedOnce(t *testing.T) {
	hub, _ := imported(t)
	h := &handler{app: hub.App}
	c, err := h.notePullSecrets(current(t, hub), "login=7")
	if err != nil || c.Annotations[annotation.PullSecrets] != "login=7" {
		t.Fatalf("annotations %v, %v", c.Annotations, err)
	}
	expectAll(t, hub, "patch Cluster ws/c1")
	if c, err = h.notePullSecrets(c, "login=7"); err != nil || c.Annotations[annotation.PullSecrets] != "login=7" {
		t.Errorf("annotations %v, %v", c.Annotations, err)
	}
	expectAll(t, hub)
	for _, want := range [][]string{{"patch Cluster ws/c1"}, nil} { // the second time nothing is left to remove
		c, err = h.notePullSecrets(c, "")
		if _, noted := c.Annotations[annotation.PullSecrets]; noted || err != nil {
			t.Errorf("annotations %v, %v", c.Annotations, err)
		}
		expectAll(t, hub, want...)
	}
}

func TestPullSecretsThatAreNotWanted_AreRemovedIfTheyAreCopies(t *testing.T) {
	copied := func(namespace, setID string) *corev1.Secret {
		secret := registryLogin(namespace, "u-2", "secret")
		secret.Labels = map[string]string{fleet.LabelSetHash: names.SetHash(setID, names.Owner{})}
		return secret
	}
	const removes = "downstream remove Secret %s/login"
	tests := map[string]struct {
		deploy importing.AgentDeployment
		there  *corev1.Secret
		want   []string
	}{
		"a copy":                                {deploy: importing.AgentDeployment{DroppedPullSecrets: []string{"login"}}, there: copied("agents", names.AgentSetID("agents")), want: []string{"agents"}},
		"a Secret of the same name of a user's": {deploy: importing.AgentDeployment{DroppedPullSecrets: []string{"login"}}, there: registryLogin("agents", "u-2", "secret")},
		"a copy of another agent's":             {deploy: importing.AgentDeployment{DroppedPullSecrets: []string{"login"}}, there: copied("agents", names.AgentSetID("other"))},
		"a copy that stayed behind a move": {
			deploy: importing.AgentDeployment{LeaveNamespace: "cattle-fleet-system", LeftPullSecrets: []string{"login"}}, there: copied("cattle-fleet-system", names.AgentSetID("")),
			want: []string{"cattle-fleet-system"},
		},
		"the original stays behind a move from the hub's own system namespace": {
			deploy: importing.AgentDeployment{LeaveNamespace: "cattle-fleet-system", LeftPullSecrets: []string{"login"}}, there: registryLogin("cattle-fleet-system", "u-1", "secret"),
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub := hubtest.New(t)
			behind := &downstream{hub: hub, there: []hubtest.Object{test.there}}
			test.deploy.SetID, test.deploy.Values.Namespace = names.AgentSetID("agents"), "agents"
			agent := &install.Agent{AgentDeployment: &test.deploy, Downstream: behind}
			if err := agent.Leave(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := agent.Apply(t.Context()); err != nil {
				t.Fatal(err)
			}
			var want, got []string
			for _, namespace := range test.want {
				want = append(want, fmt.Sprintf(removes, namespace))
			}
			for _, line := range hub.Requests() {
				if strings.HasPrefix(line, "downstream remove Secret") && strings.HasSuffix(line, "/login") {
					got = append(got, line)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("removed (-want +got):\n%s", diff)
			}
		})
	}
}
