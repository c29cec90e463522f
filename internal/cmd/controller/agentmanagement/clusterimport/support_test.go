package clusterimport

import (
	"context"
	"encoding/base64"
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	supervisionrule "github.com/fleet-hub/fleet/internal/rules/supervision"
	"github.com/fleet-hub/fleet/internal/rules/token"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

const (
	tokenName  = "import-token-c1"
	readSecret = "get Secret ws/kc"
	readOwn    = "get Namespace kube-system" // once
	// readCluster is sent once by each job, so that an agent of a deleted Cluster is left alone.
	readCluster = "get Cluster ws/c1"
	readTarget  = "downstream uid kube-system"
	readMark    = "downstream find ConfigMap cattle-fleet-system/fleet-agent"
	dialled     = "downstream dial kubeconfig system-store"
	asked       = "downstream version"
	removedID   = "downstream remove Secret cattle-fleet-system/fleet-agent"
	// removedMeans is what an agent gets its identity with.
	removedMeans = removedID + "-bootstrap"
	removedOld   = "downstream remove StatefulSet cattle-fleet-system/fleet-agent"
	foundID      = "downstream find Secret cattle-fleet-system/fleet-agent"
	foundMeans   = foundID + "-bootstrap"
	replacedID   = "downstream replace Secret cattle-fleet-system/fleet-agent"
	applied      = "downstream apply Deployment cattle-fleet-system/fleet-agent"
	written      = "update Cluster/status ws/c1"
)

var errServer = errors.New("the server is upset")

// downstream is another cluster that does what it is told and tells the hub's test what that was.
type downstream struct {
	hub *hubtest.Hub
	uid types.UID

	mu      sync.Mutex
	applied []runtime.Object
	closed  int
	// there is what Find and List find.
	there []hubtest.Object
}

func (d *downstream) dial(_ context.Context, kubeconfig []byte, tlsMode string, _ bool) (hub.Downstream, error) {
	if err := d.hub.Note("downstream", "dial "+string(kubeconfig)+" "+tlsMode); err != nil {
		return nil, err
	}
	return d, nil
}

func (d *downstream) ServerVersion(context.Context) (version.Info, error) {
	return version.Info{}, d.hub.Note("downstream", "version")
}

func (d *downstream) NamespaceUID(_ context.Context, name string) (types.UID, error) {
	return d.uid, d.hub.Note("downstream", "uid "+name)
}

func (d *downstream) Find(_ context.Context, into runtime.Object) (bool, error) {
	if err := d.each("find", []runtime.Object{into}); err != nil {
		return false, err
	}
	wanted := describe(into)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, object := range d.there {
		if describe(object) == wanted {
			reflect.ValueOf(into).Elem().Set(reflect.ValueOf(object.DeepCopyObject()).Elem())
			return true, nil
		}
	}
	return false, nil
}

func (d *downstream) List(_ context.Context, namespace, selector string, into runtime.Object) error {
	if err := d.hub.Note("downstream", "list "+kindOf(into)+" "+namespace+" "+selector); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var found []runtime.Object
	for _, object := range d.there {
		if object.GetNamespace() == namespace && kindOf(object)+"List" == kindOf(into) {
			found = append(found, object)
		}
	}
	return meta.SetList(into, found)
}

func (d *downstream) Apply(_ context.Context, objects ...runtime.Object) error {
	d.mu.Lock()
	if len(objects) > 0 {
		d.applied = objects
	}
	d.mu.Unlock()
	return d.each("apply", objects)
}

func (d *downstream) Remove(_ context.Context, objects ...runtime.Object) error {
	return d.each("remove", objects)
}

func (d *downstream) each(verb string, objects []runtime.Object) error {
	for _, object := range objects {
		if err := d.hub.Note("downstream", verb+" "+describe(object)); err != nil {
			return err
		}
	}
	return nil
}

// describe is "Secret ns/name".
func describe(object runtime.Object) string {
	m, err := meta.Accessor(object)
	if err != nil {
		return kindOf(object)
	}
	return kindOf(object) + " " + strings.TrimPrefix(m.GetNamespace()+"/"+m.GetName(), "/")
}

func kindOf(object runtime.Object) string { return reflect.TypeOf(object).Elem().Name() }

func (d *downstream) Replace(_ context.Context, object runtime.Object) error {
	if err := d.each("replace", []runtime.Object{object}); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, before := range d.there {
		if describe(before) == describe(object) {
			d.there[i] = object.DeepCopyObject().(hubtest.Object)
		}
	}
	return nil
}

func (d *downstream) RemovePods(_ context.Context, namespace, selector string) error {
	return d.hub.Note("downstream", "remove pods "+namespace+" "+selector)
}

func (d *downstream) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed++
}

// ownNamespace is what the hub is known by.
func ownNamespace() *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "u-hub"}}
}

func hubConfig() config.Config {
	return config.Config{
		AgentImage: "fleet-agent:dev", APIServerURL: "https://hub", APIServerCA: []byte(rulestest.HubCA), AgentTLSMode: config.TLSModeSystemStore,
		AgentCheckinInterval: metav1.Duration{Duration: 15 * time.Minute},
	}
}

func cluster(modifiers ...func(*fleet.Cluster)) *fleet.Cluster {
	c := &fleet.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "c1", UID: "u-c1", Generation: 1, Labels: map[string]string{"env": "dev"}},
		Spec:       fleet.ClusterSpec{ClientID: "client", KubeConfigSecret: "kc"},
	}
	for _, modify := range modifiers {
		modify(c)
	}
	return c
}

func kubeconfig() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "kc"}, Data: map[string][]byte{"value": []byte("kubeconfig")}}
}

// importToken is the Cluster's, made and filled.
func importToken() *fleet.ClusterRegistrationToken {
	expires := metav1.NewTime(time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC))
	return &fleet.ClusterRegistrationToken{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: tokenName, UID: "u-t"},
		Status:     fleet.ClusterRegistrationTokenStatus{SecretName: tokenName, Expires: &expires},
	}
}

func values(t *testing.T) *corev1.Secret {
	t.Helper()
	secret, err := token.ValuesSecret(importToken(), protocol.Values{ClusterNamespace: "ws", Token: "bearer", TokenName: tokenName})
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// start registers the controller on a hub with these objects and a cluster behind every kubeconfig.
func start(t *testing.T, objects ...hubtest.Object) (*hubtest.Hub, *downstream) {
	t.Helper()
	hub := hubtest.New(t)
	behind := &downstream{hub: hub, uid: "u-downstream"}
	hub.App.Dial = behind.dial
	hub.App.Config.Set(hubConfig())
	if err := Register(t.Context(), hub.App); err != nil {
		t.Fatal(err)
	}
	go hub.App.Remote.Run(t.Context())
	hub.Have(ownNamespace())
	hub.Put(objects...)
	return hub, behind
}

// ready is start with all that the import of a Cluster needs.
func ready(t *testing.T, c *fleet.Cluster, more ...hubtest.Object) (*hubtest.Hub, *downstream) {
	t.Helper()
	return start(t, append([]hubtest.Object{c, kubeconfig(), importToken(), values(t)}, more...)...)
}

func handle(t *testing.T, hub *hubtest.Hub) {
	t.Helper()
	if err := hub.Handle("Cluster", "ws/c1"); err != nil {
		t.Fatal(err)
	}
}

// work lets the controller begin a job and waits for its end, which wakes the Cluster.
func work(t *testing.T, hub *hubtest.Hub) {
	t.Helper()
	handle(t, hub)
	if diff := cmp.Diff([]string{"Cluster ws/c1"}, hub.AwaitWoken()); diff != "" {
		t.Errorf("woken at the end of the job (-want +got):\n%s", diff)
	}
}

// askForToken lets the controller probe the cluster, and then create a token if it has answered.
func askForToken(t *testing.T, hub *hubtest.Hub) {
	t.Helper()
	handle(t, hub)
	hub.AwaitWoken()
	hub.Sync()
	handle(t, hub)
}

// imported is a hub on which ws/c1 was imported and its agent seen, and the caches show it.
func imported(t *testing.T, modifiers ...func(*fleet.Cluster)) (*hubtest.Hub, *downstream) {
	t.Helper()
	hub, behind := ready(t, cluster())
	work(t, hub)
	behind.there = append(behind.there, identityOf("ws", "c1"))
	c := current(t, hub)
	c.Status.Agent = fleet.AgentStatus{LastSeen: metav1.NewTime(hub.Now()), Namespace: "cattle-fleet-system"}
	for _, modify := range modifiers {
		modify(c)
	}
	hub.Put(c)
	hub.Sync()
	hub.Requests()
	hub.App.Liveness.Stale(reconcile.KeyOf(c))
	hub.Woken() // by its heartbeat
	return hub, behind
}

// identityOf is what an agent of ours keeps of a Cluster's identity.
func identityOf(namespace, name string, modifiers ...func(*corev1.Secret)) *corev1.Secret {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "cattle-fleet-system", Name: "fleet-agent", Annotations: map[string]string{annotation.Watched: "true"}},
		Data: protocol.Identity{
			Kubeconfig: []byte(storedKubeconfig("https://hub", rulestest.HubCA)), DeploymentNamespace: "cluster-ns", ClusterNamespace: namespace, ClusterName: name,
		}.Encode(),
	}
	for _, modify := range modifiers {
		modify(secret)
	}
	return secret
}

// storedKubeconfig leads to a hub with a token.
func storedKubeconfig(server, ca string) string {
	entry := "    server: " + server + "\n"
	if ca != "" {
		entry = "    certificate-authority-data: " + base64.StdEncoding.EncodeToString([]byte(ca)) + "\n" + entry
	}
	return "apiVersion: v1\nclusters:\n- cluster:\n" + entry + "  name: cluster\ncontexts:\n- context:\n    cluster: cluster\n" +
		"    namespace: cluster-ns\n    user: user\n  name: default\ncurrent-context: default\nkind: Config\n" +
		"users:\n- name: user\n  user:\n    token: bearer\n"
}

func current(t *testing.T, hub *hubtest.Hub) *fleet.Cluster {
	t.Helper()
	return hubtest.MustGet[*fleet.Cluster](t, hub, "ws", "c1")
}

// expectSome fails unless the requests are these, leaving out what is looked for and what else is applied downstream, and that a job
// reads its Cluster.
func expectSome(t *testing.T, hub *hubtest.Hub, want ...string) {
	t.Helper()
	var got []string
	for _, line := range hub.Requests() {
		if !strings.HasPrefix(line, "downstream apply ") && !strings.HasPrefix(line, "downstream find ") && line != readOwn && line != readCluster && line != readTarget || line == applied {
			got = append(got, line)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// expectImported compares the condition; an empty reason is success.
func expectImported(t *testing.T, hub *hubtest.Hub, reason string) {
	t.Helper()
	got := conditions.Get(current(t, hub).Status.Conditions, conditions.Imported)
	if got == nil {
		t.Fatal("no condition Imported")
	}
	want := genericcondition.GenericCondition{Type: conditions.Imported, Status: "True", LastUpdateTime: got.LastUpdateTime}
	if reason != "" {
		want.Status, want.Reason, want.Message = "False", reason, got.Message
		if got.Message == "" {
			t.Error("the condition does not say what to do")
		}
	}
	if diff := cmp.Diff(want, *got); diff != "" {
		t.Errorf("condition (-want +got):\n%s", diff)
	}
}

// expectNoWork fails if the Cluster is woken for anything but a look for its agent, if that is not heard of.
func expectNoWork(t *testing.T, hub *hubtest.Hub) {
	t.Helper()
	if c := current(t, hub); supervisionrule.Supervised(c, false) {
		expectRetry(t, hub, supervisionrule.FirstInspection)
		return
	}
	hubtest.ExpectWoken(t, hub)
}

// expectRetry fails unless the Cluster is looked at again after least, or up to a quarter later.
func expectRetry(t *testing.T, hub *hubtest.Hub, least time.Duration) time.Duration {
	t.Helper()
	woken := hub.Woken()
	if len(woken) != 1 {
		t.Fatalf("woken %v", woken)
	}
	after, err := time.ParseDuration(strings.TrimPrefix(woken[0], "Cluster ws/c1 in "))
	if err != nil || after < least || after > least+least/4 {
		t.Errorf("%s; want after %s, up to a quarter later", woken[0], least)
	}
	return after
}
