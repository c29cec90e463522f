package rules_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/rules/contentreaders"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
)

// object is any object of the API.
type object interface {
	runtime.Object
	metav1.Object
}

// place is the location of an object: on the hub or on a downstream cluster.
type place struct{ cluster, kind, namespace, name string }

const onHub = "hub"

func (p place) String() string {
	text := p.kind + " "
	if p.cluster != onHub {
		text = p.cluster + ": " + text
	}
	if p.namespace != "" {
		text += p.namespace + "/"
	}
	return text + p.name
}

func kindOf(o object) string { return reflect.TypeOf(o).Elem().Name() }

func placeOf(cluster string, o object) place {
	return place{cluster: cluster, kind: kindOf(o), namespace: o.GetNamespace(), name: o.GetName()}
}

// world is a hub, its downstream clusters and all their controllers, in memory. All writes are recorded. With chance,
// the controllers act in random order and may be interrupted between two writes.
type world struct {
	t       *testing.T
	now     time.Time
	config  config.Config
	objects map[place]object
	// made counts the objects created under a name, for UIDs that do not depend on the order of actions.
	made map[place]int
	// sets is the owner of each object that is a child of one.
	sets   map[place]place
	agents []*agent
	asleep bool // whether the agents are asleep
	// speakers are the accounts of the Clusters' last heartbeats.
	speakers map[string]string
	// keeps means that the hub and its agents have keys. blocked are the times at which Clusters were deleted.
	keeps   bool
	blocked map[place]time.Time
	// steps counts the actions so far, and last is the latest one. After stopAfter actions, playUntil interrupts.
	steps, stopAfter int
	last             string
	// afterStep is called after each action, if it is not nil.
	afterStep func()

	chance *rand.Rand
	ops    []string
	story  strings.Builder
}

func newWorld(t *testing.T, chance *rand.Rand) *world {
	return &world{
		t: t, now: rulestest.Noon(), config: rulestest.HubConfig(), chance: chance,
		objects: map[place]object{}, made: map[place]int{}, sets: map[place]place{}, speakers: map[string]string{}, blocked: map[place]time.Time{},
	}
}

// fork returns a copy of the world, which goes on independently.
func (w *world) fork() *world {
	other := newWorld(w.t, w.chance)
	other.now, other.config, other.asleep, other.keeps, other.steps, other.last = w.now, w.config, w.asleep, w.keeps, w.steps, w.last
	// Objects are replaced and never changed.
	other.objects, other.made, other.sets = maps.Clone(w.objects), maps.Clone(w.made), maps.Clone(w.sets)
	other.speakers, other.blocked = maps.Clone(w.speakers), maps.Clone(w.blocked)
	other.story.WriteString(w.story.String())
	for _, a := range w.agents {
		copied := *a
		copied.w = other
		other.agents = append(other.agents, &copied)
	}
	return other
}

// find returns a copy of the object as its type, or nil if it does not exist.
func find[T any, P interface {
	*T
	object
}](w *world, cluster, namespace, name string) P {
	kind := reflect.TypeFor[T]().Name()
	found, isThere := w.objects[place{cluster, kind, namespace, name}]
	if !isThere {
		return nil
	}
	return found.DeepCopyObject().(P)
}

// list returns all objects of a type on a cluster, by place.
func list[T any, P interface {
	*T
	object
}](w *world, cluster string) (found []P) {
	kind := reflect.TypeFor[T]().Name()
	those := map[place]P{}
	for at, o := range w.objects {
		if at.cluster == cluster && at.kind == kind {
			those[at] = o.DeepCopyObject().(P)
		}
	}
	for _, at := range sortedPlaces(those) {
		found = append(found, those[at])
	}
	return found
}

func (w *world) places() []place { return sortedPlaces(w.objects) }

func sortedPlaces[V any](of map[place]V) []place {
	return slices.SortedFunc(maps.Keys(of), func(a, b place) int {
		return cmp.Or(cmp.Compare(a.cluster, b.cluster), cmp.Compare(a.kind, b.kind), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
}

// put creates or updates an object. It does nothing if the object does not change.
func (w *world) put(cluster string, o object) {
	w.t.Helper()
	o = o.DeepCopyObject().(object)
	at := placeOf(cluster, o)
	old := w.objects[at]
	if old == nil {
		if !contentreaders.IsBinding(at.name) { // whether a binding is recreated or updated depends on the order of actions
			w.made[at]++
			o.SetUID(w.uid(at))
			o.SetCreationTimestamp(metav1.Time{Time: w.now})
		}
		w.objects[at] = o
		w.ops = append(w.ops, "+ "+at.String())
		return
	}
	o.SetUID(old.GetUID())
	o.SetCreationTimestamp(old.GetCreationTimestamp())
	if reflect.DeepEqual(old, o) {
		return
	}
	if changed := changes(w.t, old, o); len(changed) > 0 {
		w.objects[at] = o
		w.ops = append(w.ops, "~ "+at.String()+": "+strings.Join(changed, ", "))
	}
}

// uid returns a short UID where names are derived from it.
func (w *world) uid(at place) types.UID {
	if strings.HasPrefix(at.kind, "ClusterRegistration") {
		return types.UID(fmt.Sprintf("u%d", w.made[at]))
	}
	return types.UID(fmt.Sprintf("%s %s-u%d", at.kind, at.name, w.made[at]))
}

func (w *world) remove(at place) {
	if w.objects[at] == nil {
		return
	}
	delete(w.objects, at)
	delete(w.sets, at)
	w.ops = append(w.ops, "- "+at.String())
}

// deleteAt stands in for DELETE: an object with a finalizer only gets a deletion timestamp.
func (w *world) deleteAt(at place) {
	found := w.objects[at]
	if found == nil || len(found.GetFinalizers()) == 0 {
		w.remove(at)
		return
	}
	if found.GetDeletionTimestamp() == nil {
		going := found.DeepCopyObject().(object)
		going.SetDeletionTimestamp(&metav1.Time{Time: w.now})
		w.put(at.cluster, going)
	}
}

// apply makes objects the set of an owner. It deletes other objects of the set.
func (w *world) apply(owner place, objects []runtime.Object) {
	wanted := map[place]bool{}
	for _, o := range objects {
		child := o.(object)
		at := placeOf(onHub, child)
		wanted[at] = true
		w.put(onHub, child)
		w.sets[at] = owner
	}
	for _, at := range w.places() {
		if w.sets[at] == owner && !wanted[at] {
			w.remove(at)
		}
	}
}

// ask calls a rule. In recorded flows it also checks what must hold for all rules.
func ask[In, Out any](w *world, rule func(In) Out, in In) Out {
	w.t.Helper()
	if w.chance != nil {
		return rule(in)
	}
	return rulestest.Pure(w.t, rule, in)
}

// do carries out and records writes, one after the other. It reports whether anything changed.
func (w *world) do(who, stage string, writes ...func()) bool {
	w.ops = nil
	complete := len(writes)
	if w.chance != nil && who != "import" && who != "admin" && !strings.HasPrefix(who, "agent") && w.chance.IntN(3) == 0 {
		complete = w.chance.IntN(len(writes) + 1) // interrupted between two writes
	}
	for _, write := range writes[:complete] {
		write()
	}
	w.tell(who, stage, w.ops)
	if len(w.ops) > 0 {
		w.steps, w.last = w.steps+1, who+" "+stage
		if w.afterStep != nil {
			w.afterStep()
		}
		if w.steps == w.stopAfter {
			panic(interrupted{})
		}
	}
	return len(w.ops) > 0 || complete < len(writes)
}

// interrupted ends a flow after a step. See playUntil.
type interrupted struct{}

// playUntil plays a flow up to a step. It reports whether the flow is longer.
func (w *world) playUntil(step int, flow func(*world)) (longer bool) {
	w.stopAfter = step
	defer func() {
		w.stopAfter = 0
		if thrown := recover(); thrown != nil {
			if _, expected := thrown.(interrupted); !expected {
				panic(thrown)
			}
			longer = true
		}
	}()
	flow(w)
	return false
}

func (w *world) tell(who, stage string, lines []string) {
	head := fmt.Sprintf("%-12s %-17s", "["+who+"]", stage)
	for _, line := range lines {
		fmt.Fprintf(&w.story, "%s %s\n", head, line)
		head = strings.Repeat(" ", len(head))
	}
}

// settle lets all controllers act until none has anything to do.
func (w *world) settle() {
	w.t.Helper()
	for range 1000 {
		items := w.work()
		if w.chance != nil {
			w.chance.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
		}
		news := false
		for _, item := range items {
			news = item() || news
		}
		if !news {
			return
		}
	}
	w.t.Fatalf("the world does not come to rest:\n%s", w.story.String())
}

// admin carries out the action of a person. Then all controllers react.
func (w *world) admin(what string, writes ...func()) {
	w.t.Helper()
	if w.story.Len() > 0 {
		w.story.WriteString("\n")
	}
	w.do("admin", what, writes...)
	w.settle()
}

// later advances the time. Then all controllers react.
func (w *world) later(d time.Duration) {
	w.t.Helper()
	w.now = w.now.Add(d)
	fmt.Fprintf(&w.story, "\n... %s later\n", d)
	w.settle()
}

// state returns all objects in full.
func (w *world) state() string {
	var text strings.Builder
	for _, at := range w.places() {
		fmt.Fprintf(&text, "--- %s: %s\n%s", at.cluster, at, rulestest.FullYAML(w.t, w.objects[at]))
	}
	return text.String()
}

// changes returns the fields in which two objects differ, two levels deep.
func changes(t *testing.T, a, b object) []string {
	t.Helper()
	var changed []string
	before, after := fields(t, a), fields(t, b)
	for _, section := range slices.Sorted(maps.Keys(union(before, after))) {
		x, isMap := before[section].(map[string]any)
		y, isMapToo := after[section].(map[string]any)
		if !isMap || !isMapToo {
			if !reflect.DeepEqual(before[section], after[section]) {
				changed = append(changed, section)
			}
			continue
		}
		for _, field := range slices.Sorted(maps.Keys(union(x, y))) {
			if !reflect.DeepEqual(x[field], y[field]) {
				changed = append(changed, section+"."+field)
			}
		}
	}
	return changed
}

func fields(t *testing.T, o object) map[string]any {
	t.Helper()
	encoded, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	plain := map[string]any{}
	if err := json.Unmarshal(encoded, &plain); err != nil {
		t.Fatal(err)
	}
	return plain
}

func union(a, b map[string]any) map[string]any {
	all := map[string]any{}
	for _, m := range []map[string]any{a, b} {
		for key := range m {
			all[key] = nil
		}
	}
	return all
}
