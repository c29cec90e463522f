package manageagent

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/fleet-hub/fleet/internal/agentchart"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/importing"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

var errServer = errors.New("the server is busy")

const (
	creates  = "create Bundle ws/fleet-agent-east"
	patches  = "patch Bundle ws/fleet-agent-east"
	deletes  = "delete Bundle ws/fleet-agent-east"
	reports  = "update Cluster/status ws/east"
	setLabel = fleet.LabelSetHash
)

// newHub is a hub with the controller on it and nothing else.
func newHub(t *testing.T, objects ...hubtest.Object) *hubtest.Hub {
	t.Helper()
	hub := hubtest.New(t)
	if err := Register(context.Background(), hub.App); err != nil {
		t.Fatal(err)
	}
	hub.Put(objects...)
	return hub
}

func handle(t *testing.T, hub *hubtest.Hub, key string) {
	t.Helper()
	if err := hub.Handle("Cluster", key); err != nil {
		t.Fatal(err)
	}
}

// joined is a hub with the Clusters east and west and their agents' Bundles.
func joined(t *testing.T) *hubtest.Hub {
	t.Helper()
	hub := newHub(t, workspace("ws"), east(), east(func(c *fleet.Cluster) { c.Name = "west" }))
	handle(t, hub, "ws/east")
	handle(t, hub, "ws/west")
	hub.Sync()
	hub.Requests()
	return hub
}

func TestAgentBundle_IsCreatedOnce(t *testing.T) {
	hub := newHub(t, workspace("ws"), east(), east(func(c *fleet.Cluster) { c.Name = "west" }))
	handle(t, hub, "ws/east")
	hubtest.ExpectRequests(t, hub, creates)
	got := hubtest.MustGet[*fleet.Bundle](t, hub, "ws", "fleet-agent-east")
	manifest, err := agentchart.Manifest(importing.AgentSettings(east(), hub.App.Config.Get(), hub.App.AgentDefaults(), hub.App.Namespaces))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(bundle(east(), system, manifest).Spec, got.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}

	handle(t, hub, "ws/east") // the caches lag
	hubtest.ExpectRequests(t, hub)
	hub.Sync()
	handle(t, hub, "ws/east")
	hubtest.ExpectRequests(t, hub)
	hubtest.ExpectWoken(t, hub)
}

func TestBeforeTheFirstHeartbeat_CreatesNoBundle(t *testing.T) {
	hub := newHub(t, workspace("ws"), east(silent))
	handle(t, hub, "ws/east")
	hubtest.ExpectRequests(t, hub)
	hub.Put(east())
	handle(t, hub, "ws/east")
	hubtest.ExpectRequests(t, hub, creates)
}

func TestChangedCluster_PatchesOnlyItsBundle(t *testing.T) {
	hub := joined(t)
	hub.Put(east(func(c *fleet.Cluster) { c.Spec.PrivateRepoURL = "registry.example.com" }))
	handle(t, hub, "ws/east")
	handle(t, hub, "ws/west")
	hubtest.ExpectRequests(t, hub, patches)
}

func TestChangedConfiguration_PatchesEveryBundle(t *testing.T) {
	hub := joined(t)
	next := hub.App.Config.Get()
	next.AgentImage = "fleet-agent:2"
	hub.App.Config.Set(next)
	if diff := cmp.Diff(map[string]bool{"Cluster ws/east": true, "Cluster ws/west": true}, set(hub.Woken())); diff != "" {
		t.Errorf("woken (-want +got):\n%s", diff)
	}
	handle(t, hub, "ws/east")
	handle(t, hub, "ws/west")
	hubtest.ExpectRequests(t, hub, patches, "patch Bundle ws/fleet-agent-west")
}

func set(list []string) map[string]bool {
	found := map[string]bool{}
	for _, entry := range list {
		found[entry] = true
	}
	return found
}

func TestChangedBundle_OwnFieldsAreRestored(t *testing.T) {
	tests := map[string]struct {
		change func(*fleet.Bundle)
		want   []string
	}{
		"paused by a user: stays":          {change: func(b *fleet.Bundle) { b.Spec.Paused = true }},
		"default set by the server: stays": {change: func(b *fleet.Bundle) { b.Spec.TargetCustomizationMode = fleet.TargetCustomizationFirstMatch }},
		"finalizer of the delivery: stays": {change: func(b *fleet.Bundle) { b.Finalizers = []string{fleet.FinalizerBundle} }},
		"other labels: stay":               {change: func(b *fleet.Bundle) { b.Labels["theirs"] = "x" }},
		"targets: restored":                {change: func(b *fleet.Bundle) { b.Spec.Targets = nil }, want: []string{patches}},
		"resources: restored":              {change: func(b *fleet.Bundle) { b.Spec.Resources[0].Content += "\n" }, want: []string{patches}},
		"helm options: restored":           {change: func(b *fleet.Bundle) { b.Spec.Helm = nil }, want: []string{patches}},
		"default namespace: restored":      {change: func(b *fleet.Bundle) { b.Spec.DefaultNamespace = "kube-system" }, want: []string{patches}},
		"annotation of the set: restored":  {change: func(b *fleet.Bundle) { delete(b.Annotations, fleet.AnnotationSetID) }, want: []string{patches}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub := joined(t)
			made := hubtest.MustGet[*fleet.Bundle](t, hub, "ws", "fleet-agent-east")
			changed := made.DeepCopy()
			test.change(changed)
			hub.Put(changed)
			handle(t, hub, "ws/east")
			hubtest.ExpectRequests(t, hub, test.want...)
			if test.want == nil {
				return
			}
			healed := hubtest.MustGet[*fleet.Bundle](t, hub, "ws", "fleet-agent-east")
			healed.ResourceVersion, made.ResourceVersion = "", ""
			if diff := cmp.Diff(made, healed); diff != "" {
				t.Errorf("healed (-want +got):\n%s", diff)
			}
		})
	}
}

// A user's Bundle can have the name of an agent's. It stays as it is, and the Cluster says why its agent is not managed.
func TestUsersBundleOfTheAgentsName_IsLeftAsItIs(t *testing.T) {
	hub := joined(t)
	theirs := hubtest.MustGet[*fleet.Bundle](t, hub, "ws", "fleet-agent-east").DeepCopy()
	delete(theirs.Labels, fleet.LabelSetHash)
	theirs.Spec.Resources = []fleet.BundleResource{{Name: "theirs.yaml", Content: "x"}}
	hub.Put(theirs)
	handle(t, hub, "ws/east")
	hubtest.ExpectRequests(t, hub, reports)
	condition := conditions.Get(hubtest.MustGet[*fleet.Cluster](t, hub, "ws", "east").Status.Conditions, conditions.AgentManaged)
	if condition == nil || condition.Status != "False" || condition.Reason != "NameTaken" || !strings.Contains(condition.Message, "kubectl -n ws label bundle.fleet.cattle.io fleet-agent-east") {
		t.Errorf("condition %+v", condition)
	}
	if woken := hub.Woken(); !slices.Contains(woken, "Cluster ws/east in 15s") {
		t.Errorf("woken: %v", woken)
	}
	left := hubtest.MustGet[*fleet.Bundle](t, hub, "ws", "fleet-agent-east")
	if left.Spec.Resources[0].Name != "theirs.yaml" {
		t.Errorf("it was changed: %+v", left.Spec)
	}
}

func TestAgentBundle_IsDeleted(t *testing.T) {
	tests := map[string]struct {
		prepare func(*hubtest.Hub)
		fails   bool
		want    []string
	}{
		"Cluster is deleted: deleted":                        {prepare: func(h *hubtest.Hub) { h.Remove(east()) }, want: []string{deletes}},
		"Cluster is being deleted: deleted":                  {prepare: func(h *hubtest.Hub) { h.Put(east(leaving)) }, want: []string{deletes}},
		"another manager: deleted":                           {prepare: func(h *hubtest.Hub) { h.Put(east(external)) }, want: []string{deletes}},
		"agent moves: deleted":                               {prepare: func(h *hubtest.Hub) { h.Put(east(belongsIn("a"))) }, want: []string{deletes, reports}},
		"Cluster is deleted, deletion fails: an error":       {prepare: func(h *hubtest.Hub) { h.Remove(east()); h.Fail(deletes, errServer) }, fails: true, want: []string{deletes}},
		"Cluster is being deleted, deletion fails: an error": {prepare: func(h *hubtest.Hub) { h.Put(east(leaving)); h.Fail(deletes, errServer) }, fails: true, want: []string{deletes}},
		"manageAgent false: stays":                           {prepare: func(h *hubtest.Hub) { h.App.Config.Set(off(h)) }},
		"Bundle of a user: stays":                            {prepare: func(h *hubtest.Hub) { h.Remove(east()); h.Put(foreign(h)) }},
		"no Bundle: no request":                              {prepare: func(h *hubtest.Hub) { h.Remove(east()); h.Remove(foreign(h)) }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub := joined(t)
			test.prepare(hub)
			if err := hub.Handle("Cluster", "ws/east"); errors.Is(err, errServer) != test.fails || !test.fails && err != nil {
				t.Errorf("error %v", err)
			}
			hubtest.ExpectRequests(t, hub, test.want...)
			hubtest.MustGet[*fleet.Bundle](t, hub, "ws", "fleet-agent-west")
		})
	}
}

func off(h *hubtest.Hub) config.Config {
	conf, no := h.App.Config.Get(), false
	conf.ManageAgent = &no
	return conf
}

func foreign(h *hubtest.Hub) *fleet.Bundle {
	theirs := hubtest.Get[*fleet.Bundle](h, "ws", "fleet-agent-east")
	theirs.Labels = map[string]string{setLabel: "theirs"}
	return theirs
}

func TestInvalidSettings_AreReported(t *testing.T) {
	hub := joined(t)
	broken := func(c *fleet.Cluster) {
		c.Spec.AgentEnvVars = []corev1.EnvVar{{Name: "", Value: "a variable without a name"}}
	}
	hub.Put(east(broken))
	handle(t, hub, "ws/east")
	hubtest.ExpectRequests(t, hub, reports) // the Bundle stays as it is
	expectCondition(t, hub, corev1.ConditionFalse, conditions.ReasonSettingsInvalid)
	if told := hub.Told(); len(told) != 1 {
		t.Errorf("events %q", told)
	}
	hub.Sync()
	handle(t, hub, "ws/east")
	hubtest.ExpectRequests(t, hub)
	if told := hub.Told(); len(told) != 0 {
		t.Errorf("told again: %q", told)
	}

	mended := hubtest.MustGet[*fleet.Cluster](t, hub, "ws", "east")
	mended.Spec.AgentEnvVars = nil
	hub.Put(mended)
	handle(t, hub, "ws/east")
	hubtest.ExpectRequests(t, hub, reports)
	expectCondition(t, hub, corev1.ConditionTrue, "")
}

func TestAgentElsewhere_IsReported(t *testing.T) {
	hub := joined(t)
	hub.Put(east(belongsIn("a"), runsIn(system)))
	handle(t, hub, "ws/east")
	hubtest.ExpectRequests(t, hub, deletes, reports)
	expectCondition(t, hub, corev1.ConditionFalse, conditions.ReasonAgentElsewhere)

	arrived := hubtest.MustGet[*fleet.Cluster](t, hub, "ws", "east")
	arrived.Status.Agent.Namespace = "a"
	hub.Sync()
	hub.Put(arrived)
	handle(t, hub, "ws/east")
	hubtest.ExpectRequests(t, hub, creates, reports)
	expectCondition(t, hub, corev1.ConditionTrue, "")
	if got := hubtest.MustGet[*fleet.Bundle](t, hub, "ws", "fleet-agent-east").Spec.DefaultNamespace; got != "a" {
		t.Errorf("the Bundle goes to %s", got)
	}
}

// The condition AgentManaged is removed when the agent is no longer to be managed.
func TestAgentNoLongerManaged_ConditionIsRemoved(t *testing.T) {
	tests := map[string]struct {
		prepare func(*hubtest.Hub, *fleet.Cluster)
		want    []string
		stays   bool
	}{
		"agents are not managed":                   {prepare: func(h *hubtest.Hub, _ *fleet.Cluster) { h.App.Config.Set(off(h)) }, want: []string{reports}},
		"it is to be deployed again":               {prepare: func(_ *hubtest.Hub, c *fleet.Cluster) { c.Status.Agent = fleet.AgentStatus{} }, want: []string{reports}},
		"another manager":                          {prepare: func(_ *hubtest.Hub, c *fleet.Cluster) { external(c) }, stays: true},
		"its Cluster is being deleted":             {prepare: func(_ *hubtest.Hub, c *fleet.Cluster) { leaving(c) }, stays: true},
		"agent still runs in the former namespace": {prepare: func(*hubtest.Hub, *fleet.Cluster) {}, stays: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub := joined(t)
			hub.Put(east(belongsIn("a"), runsIn(system)))
			handle(t, hub, "ws/east")
			expectCondition(t, hub, corev1.ConditionFalse, conditions.ReasonAgentElsewhere)
			hub.Sync()
			hub.Requests()
			cluster := hubtest.MustGet[*fleet.Cluster](t, hub, "ws", "east")
			test.prepare(hub, cluster)
			hub.Put(cluster)
			handle(t, hub, "ws/east")
			hubtest.ExpectRequests(t, hub, test.want...)
			left := conditions.Get(hubtest.MustGet[*fleet.Cluster](t, hub, "ws", "east").Status.Conditions, conditions.AgentManaged)
			if (left != nil) != test.stays {
				t.Errorf("what is left: %+v", left)
			}
		})
	}
}

func expectCondition(t *testing.T, hub *hubtest.Hub, status corev1.ConditionStatus, reason string) {
	t.Helper()
	found := conditions.Get(hubtest.MustGet[*fleet.Cluster](t, hub, "ws", "east").Status.Conditions, conditions.AgentManaged)
	if found == nil {
		t.Fatal("there is no condition")
	}
	want := genericcondition.GenericCondition{Type: conditions.AgentManaged, Status: status, Reason: reason}
	got := *found
	got.Message, got.LastUpdateTime = "", ""
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("condition (-want +got):\n%s", diff)
	}
}

func TestUnreadableCache_ReturnsAnError(t *testing.T) {
	for name, spoil := range map[string]hubtest.Object{"the workspace": workspace("ws"), "the Bundle": bundle(east(), system, nil)} {
		hub := newHub(t, workspace("ws"), east())
		hub.Spoil(spoil)
		if err := hub.Handle("Cluster", "ws/east"); err == nil {
			t.Errorf("%s: no error", name)
		}
		hubtest.ExpectRequests(t, hub)
	}
}

func TestUnknownWorkspace_ReturnsAnError(t *testing.T) {
	hub := newHub(t, east())
	if err := hub.Handle("Cluster", "ws/east"); !errors.Is(err, errNoWorkspace) {
		t.Errorf("error %v", err)
	}
	hubtest.ExpectRequests(t, hub)
}

func TestFailedRequest_IsRetried(t *testing.T) {
	hub := newHub(t, workspace("ws"), east())
	hub.Fail(creates, errServer)
	if err := hub.Handle("Cluster", "ws/east"); !errors.Is(err, errServer) {
		t.Errorf("error %v", err)
	}
	hub.Fail(creates, nil)
	handle(t, hub, "ws/east")
	hubtest.ExpectRequests(t, hub, creates, creates)
}

func TestWatchBundles_EnqueuesTheCluster(t *testing.T) {
	ours := bundle(east(), system, nil)
	ours.Annotations = map[string]string{fleet.AnnotationSetID: names.AgentBundleSet}
	other := func(modify func(*fleet.Bundle)) *fleet.Bundle {
		b := ours.DeepCopy()
		modify(b)
		return b
	}
	tests := map[string]struct {
		before, after any
		want          bool
	}{
		"new Bundle":     {after: ours, want: true},
		"deleted Bundle": {before: ours, want: true},
		"Bundle deleted during an outage of the watch": {before: cache.DeletedFinalStateUnknown{Obj: ours}, want: true},
		"a changed spec":                      {before: ours, after: other(func(b *fleet.Bundle) { b.Generation++ }), want: true},
		"a changed label":                     {before: ours, after: other(func(b *fleet.Bundle) { b.Labels = map[string]string{"a": "b"} }), want: true},
		"a lost annotation":                   {before: ours, after: other(func(b *fleet.Bundle) { b.Annotations = nil }), want: true},
		"removed target":                      {before: ours, after: other(func(b *fleet.Bundle) { b.Spec.Targets = nil; b.Generation++ }), want: true},
		"a changed status":                    {before: ours, after: other(func(b *fleet.Bundle) { b.Status.Unavailable++ })},
		"Bundle of a user":                    {after: other(func(b *fleet.Bundle) { b.Annotations = nil })},
		"Bundle of the set with another name": {after: other(func(b *fleet.Bundle) { b.Name = "fleet-agent-west" })},
		"other object":                        {after: "spoiled"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			informer := &tellingInformer{}
			woken := map[types.NamespacedName]bool{}
			if err := watchBundles(informer, func(key types.NamespacedName) { woken[key] = true }); err != nil {
				t.Fatal(err)
			}
			switch {
			case test.before == nil:
				informer.handler.OnAdd(test.after, false)
			case test.after == nil:
				informer.handler.OnDelete(test.before)
			default:
				informer.handler.OnUpdate(test.before, test.after)
			}
			want := map[types.NamespacedName]bool{}
			if test.want {
				want[types.NamespacedName{Namespace: "ws", Name: "east"}] = true
			}
			if diff := cmp.Diff(want, woken); diff != "" {
				t.Errorf("woken (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStoppedInformer_ReturnsItsError(t *testing.T) {
	if err := watchBundles(&tellingInformer{err: errServer}, nil); !errors.Is(err, errServer) {
		t.Errorf("error %v", err)
	}
}

// tellingInformer keeps the handler.
type tellingInformer struct {
	cache.SharedIndexInformer

	handler cache.ResourceEventHandler
	err     error
}

func (i *tellingInformer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	i.handler = handler
	return nil, i.err
}

func TestManifests_AreRenderedOnceAndBounded(t *testing.T) {
	var rendered []string
	m := newManifests()
	m.render = func(v importing.AgentValues) ([]byte, error) {
		rendered = append(rendered, v.Image)
		if v.Image == "" {
			return nil, errServer
		}
		return []byte(v.Image), nil
	}
	get := func(image string) string {
		got, err := m.of(importing.AgentValues{Image: image})
		if (err != nil) != (image == "") {
			t.Fatalf("%q: error %v", image, err)
		}
		return string(got)
	}
	for _, image := range []string{"a", "b", "a", "b", "", ""} {
		if got := get(image); got != image {
			t.Errorf("manifest %q of %q", got, image)
		}
	}
	if diff := cmp.Diff([]string{"a", "b", "", ""}, rendered); diff != "" { // an error may be another time's
		t.Errorf("rendered (-want +got):\n%s", diff)
	}
	for i := range 2 * mostManifests {
		get(string(rune('ⴰ' + i)))
		if len(m.rendered) > mostManifests {
			t.Fatalf("%d manifests are kept", len(m.rendered))
		}
	}
}

func TestSchedulingWithoutKubeconfig_ComesWithTheBundle(t *testing.T) {
	hub := joined(t)
	kinds := func() (found []string) {
		for _, line := range strings.Split(hubtest.MustGet[*fleet.Bundle](t, hub, "ws", "fleet-agent-east").Spec.Resources[0].Content, "\n") {
			if kind, is := strings.CutPrefix(line, "kind: "); is {
				found = append(found, kind)
			}
		}
		return found
	}
	put := func(changes ...func(*fleet.Cluster)) {
		hub.Put(east(changes...))
		handle(t, hub, "ws/east")
		hub.Sync()
	}
	before := kinds()
	put(prioritised)
	if diff := cmp.Diff(append([]string{"PriorityClass"}, before...), kinds()); diff != "" {
		t.Errorf("with a class (-want +got):\n%s", diff)
	}
	put(limited)
	if diff := cmp.Diff(append([]string{"PodDisruptionBudget"}, before...), kinds()); diff != "" {
		t.Errorf("with a budget (-want +got):\n%s", diff)
	}
	put(limited, func(c *fleet.Cluster) { c.Spec.AgentSchedulingCustomization.PodDisruptionBudget.MinAvailable = "1" })
	expectCondition(t, hub, corev1.ConditionFalse, conditions.ReasonSettingsInvalid)
	put(prioritised, imported, broughtBy(""), func(c *fleet.Cluster) { c.Status.AgentDeployedGeneration = new(int64) })
	if diff := cmp.Diff(before, kinds()); diff != "" {
		t.Errorf("imported (-want +got):\n%s", diff)
	}
}

func TestInheritedBundleWithoutAgent_IsDeletedUntilAnAgentReports(t *testing.T) {
	const theirAgent = "their agent"
	inherit := func(requests ...hubtest.Object) *hubtest.Hub {
		hub := joined(t)
		theirs := hubtest.MustGet[*fleet.Bundle](t, hub, "ws", "fleet-agent-east")
		theirs.Annotations[fleet.AnnotationSetApplied] = "H4sIAAAA"
		theirs.Spec.Resources[0].Content = theirAgent
		hub.Put(append(requests, theirs, east(silent))...)
		handle(t, hub, "ws/east")
		return hub
	}
	request := func(granted bool) *fleet.ClusterRegistration {
		return &fleet.ClusterRegistration{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "request"},
			Status:     fleet.ClusterRegistrationStatus{ClusterName: "east", Granted: granted},
		}
	}
	hubtest.ExpectRequests(t, inherit(request(true)), reports)

	hub := inherit(request(false))
	hubtest.ExpectRequests(t, hub, deletes)
	hub.Sync()
	hub.Put(request(true), east())
	handle(t, hub, "ws/east")
	hubtest.ExpectRequests(t, hub, creates)
	if got := hubtest.MustGet[*fleet.Bundle](t, hub, "ws", "fleet-agent-east"); got.Spec.Resources[0].Content == theirAgent {
		t.Error("the Bundle still contains the agent of Rancher Fleet")
	}
}

func TestInheritedAgent_IsTakenOverOnOrder(t *testing.T) {
	hub := joined(t)
	theirs := hubtest.MustGet[*fleet.Bundle](t, hub, "ws", "fleet-agent-east")
	theirs.Annotations[fleet.AnnotationSetApplied] = "H4sIAAAA"
	theirs.Spec.Resources[0].Content = "their agent"
	hub.Put(theirs)
	handle(t, hub, "ws/east")
	hubtest.ExpectRequests(t, hub, reports)
	expectCondition(t, hub, corev1.ConditionFalse, conditions.ReasonAgentInherited)
	if told := hub.Told(); len(told) != 0 {
		t.Errorf("a thousand Clusters would tell %q", told)
	}
	hub.Sync()
	handle(t, hub, "ws/east")
	hubtest.ExpectRequests(t, hub)

	ordered := hubtest.MustGet[*fleet.Cluster](t, hub, "ws", "east")
	takeOver(ordered)
	hub.Put(ordered)
	handle(t, hub, "ws/east")
	hubtest.ExpectRequests(t, hub, patches, reports)
	expectCondition(t, hub, corev1.ConditionTrue, "")
	taken := hubtest.MustGet[*fleet.Bundle](t, hub, "ws", "fleet-agent-east")
	if importing.AppliedElsewhere(taken) || taken.UID != theirs.UID {
		t.Errorf("annotations %v, UID %s", taken.Annotations, taken.UID)
	}
	if diff := cmp.Diff(hubtest.MustGet[*fleet.Bundle](t, hub, "ws", "fleet-agent-west").Spec.Resources, taken.Spec.Resources); diff != "" {
		t.Errorf("resources (-west +east):\n%s", diff)
	}
	hub.Sync()
	handle(t, hub, "ws/east")
	hubtest.ExpectRequests(t, hub)
}
