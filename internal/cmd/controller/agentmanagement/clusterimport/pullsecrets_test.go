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
		"new Secret: copied to the agent's namespace": {
			deploy: importing.AgentDeployment{PullSecrets: []string{"login"}}, source: registryLogin("cattle-fleet-system", "u-1", "secret"),
			want: []string{read, within, applies},
		},
		"changed Secret: copied again": {
			deploy: importing.AgentDeployment{PullSecrets: []string{"login"}}, source: registryLogin("cattle-fleet-system", "u-1", "rotated"),
			there: registryLogin("cattle-fleet-system", "u-2", "secret"), want: []string{read, within, applies},
		},
		"same Secret: no request": {
			deploy: importing.AgentDeployment{PullSecrets: []string{"login"}}, source: registryLogin("cattle-fleet-system", "u-1", "secret"),
			there: registryLogin("cattle-fleet-system", "u-2", "secret"), want: []string{read},
		},
		"the hub's own cluster: source and copy are the same": {
			deploy: importing.AgentDeployment{PullSecrets: []string{"login"}}, source: registryLogin("cattle-fleet-system", "u-1", "secret"),
			there: registryLogin("cattle-fleet-system", "u-1", "seen a moment ago"), want: []string{read},
		},
		"Secret of another type: replaced": {
			deploy: importing.AgentDeployment{PullSecrets: []string{"login"}}, source: registryLogin("cattle-fleet-system", "u-1", "secret"),
			there: another, want: []string{read, removes, within, applies},
		},
		"missing Secret: reported":                  {deploy: importing.AgentDeployment{PullSecrets: []string{"login"}}, want: []string{read}, err: errPullSecretGone},
		"no pull Secrets: nothing is copied":        {source: registryLogin("cattle-fleet-system", "u-1", "secret")},
		"import applies nothing: nothing is copied": {deploy: importing.AgentDeployment{PullSecrets: []string{"login"}, InspectOnly: true}},
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

func TestMissingPullSecret_IsReported(t *testing.T) {
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
		"a configured name: imported Clusters":   {"cattle-fleet-system", "login", []types.NamespacedName{{Namespace: "ws", Name: "c1"}}},
		"another name: none":                     {"cattle-fleet-system", "other", nil},
		"another namespace: none":                {"ws", "login", nil},
		"namespace of the hub's own agent: none": {"cattle-fleet-local-system", "login", nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, h.clustersOfPullSecret(types.NamespacedName{Namespace: test.namespace, Name: test.secret})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestPullSecretVersions_AreWrittenOnce(t *testing.T) {
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
		"a copy":                              {deploy: importing.AgentDeployment{DroppedPullSecrets: []string{"login"}}, there: copied("agents", names.AgentSetID("agents")), want: []string{"agents"}},
		"Secret of a user with the same name": {deploy: importing.AgentDeployment{DroppedPullSecrets: []string{"login"}}, there: registryLogin("agents", "u-2", "secret")},
		"copy of another agent":               {deploy: importing.AgentDeployment{DroppedPullSecrets: []string{"login"}}, there: copied("agents", names.AgentSetID("other"))},
		"copy in the former namespace of the agent": {
			deploy: importing.AgentDeployment{LeaveNamespace: "cattle-fleet-system", LeftPullSecrets: []string{"login"}}, there: copied("cattle-fleet-system", names.AgentSetID("")),
			want: []string{"cattle-fleet-system"},
		},
		"original in the hub's system namespace: stays": {
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
