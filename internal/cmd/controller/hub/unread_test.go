package hub

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// telling is an unread that records its reports.
type telling struct {
	*unread
	now    time.Time
	log    bytes.Buffer
	events []string
}

func newTelling() *telling {
	told := &telling{now: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}
	plain := &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
			return slog.Attr{}
		}
		return a
	}}
	told.unread = &unread{
		log: slog.New(slog.NewTextHandler(&told.log, plain)), clock: func() time.Time { return told.now },
		event: func(object runtime.Object, message string) { told.events = append(told.events, message) },
	}
	return told
}

// take returns the reports since the last call.
func (f *telling) take() (log []string, events []string) {
	log, events = strings.Split(strings.TrimSuffix(f.log.String(), "\n"), "\n"), f.events
	f.log.Reset()
	f.events = nil
	if log[0] == "" {
		log = nil
	}
	return log, events
}

func (f *telling) expect(t *testing.T, log, events []string) {
	t.Helper()
	gotLog, gotEvents := f.take()
	if diff := cmp.Diff(log, gotLog); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(events, gotEvents); diff != "" {
		t.Errorf("Events (-want +got):\n%s", diff)
	}
}

// versioned returns Cluster ws/c with this version.
func versioned(version string) *fleet.Cluster {
	return &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "c", UID: "u", ResourceVersion: version}}
}

func TestUndecodableField_IsReportedOnce(t *testing.T) {
	told := newTelling()
	seen, ttl := lost{"status.agent.lastSeen", "Time"}, lost{"spec.ttl", "Duration"}
	told.note("Cluster", versioned("1"), []lost{seen})
	told.expect(t, []string{`msg="object cannot be decoded completely" object="Cluster ws/c" error="status.agent.lastSeen is not a valid Time"`},
		[]string{"status.agent.lastSeen is not a valid Time: the stored value is kept, and treated as absent"})
	told.note("Cluster", versioned("1"), []lost{seen})
	told.note("Cluster", versioned("2"), []lost{seen})
	told.expect(t, nil, nil)
	told.note("Cluster", versioned("3"), []lost{seen, ttl})
	told.expect(t, []string{`msg="object cannot be decoded completely" object="Cluster ws/c" error="spec.ttl is not a valid Duration"`},
		[]string{"spec.ttl is not a valid Duration: the object is not reconciled until this is corrected"})

	var many []lost
	for i := range 100 {
		many = append(many, lost{fmt.Sprintf("status.resources[%d].createdAt", i), "Time"})
	}
	told.note("Cluster", versioned("4"), many)
	log, events := told.take()
	if want := []string{"status.resources[0].createdAt is not a valid Time, status.resources[1].createdAt is not a valid Time, status.resources[2].createdAt is not a valid Time " +
		"and 15 more: the stored value is kept, and treated as absent"}; len(log) != mostTold-2 || cmp.Diff(want, events) != "" {
		t.Errorf("%d lines, Events %q", len(log), events)
	}
	told.note("Cluster", versioned("5"), []lost{{"status.new", "Time"}})
	told.expect(t, nil, nil)
}

// informer stores its handlers, so that tests can call them.
type informer struct {
	cache.SharedIndexInformer
	handler cache.ResourceEventHandler
}

func (i *informer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	i.handler = handler
	return nil, nil
}

func TestCorrectedField_IsReportedAgain(t *testing.T) {
	told, objects := newTelling(), &informer{}
	if err := told.follow(objects); err != nil {
		t.Fatal(err)
	}
	missing := []lost{{"spec.ttl", "Duration"}}
	line := []string{`msg="object cannot be decoded completely" object="Cluster ws/c" error="spec.ttl is not a valid Duration"`}
	event := []string{"spec.ttl is not a valid Duration: the object is not reconciled until this is corrected"}
	told.note("Cluster", versioned("1"), missing)
	told.expect(t, line, event)

	objects.handler.OnUpdate(versioned("1"), versioned("2"))
	told.note("Cluster", versioned("3"), missing)
	told.expect(t, nil, nil) // reported a moment ago

	told.now = told.now.Add(tellAgain + time.Second)
	objects.handler.OnUpdate(versioned("2"), versioned("3")) // still incomplete
	told.note("Cluster", versioned("4"), missing)
	told.expect(t, nil, nil)
	objects.handler.OnUpdate(versioned("4"), versioned("5"))
	told.note("Cluster", versioned("6"), missing)
	told.expect(t, line, event)

	for name, gone := range map[string]any{"deleted": versioned("6"), "found to be deleted": cache.DeletedFinalStateUnknown{Obj: versioned("6")}} {
		told.note("Cluster", versioned("6"), missing)
		objects.handler.OnDelete(gone)
		if len(told.objects) > 0 {
			t.Errorf("%s: it is remembered", name)
		}
	}
}

func TestUnread_KnowsTheVersionsThatAreIncomplete(t *testing.T) {
	told := newTelling()
	first, second := []lost{{"spec.a", "T"}}, []lost{{"spec.b", "T"}}
	told.note("Cluster", versioned("8"), first)
	told.note("Cluster", versioned("9"), second)
	told.note("Cluster", versioned("8"), first) // from a stale cache
	for version, want := range map[string][]lost{"7": nil, "8": first, "9": second, "10": nil} {
		if diff := cmp.Diff(want, told.of(versioned(version)), cmp.AllowUnexported(lost{})); diff != "" {
			t.Errorf("of version %s (-want +got):\n%s", version, diff)
		}
	}
	if missing := (*unread)(nil).of(versioned("8")); missing != nil {
		t.Errorf("nobody knows of %v", missing)
	}
	for i := range 100 {
		told.note("Cluster", versioned(fmt.Sprint(100+i)), first)
	}
	if kept := len(told.objects["u"].versions); kept != mostVersions {
		t.Errorf("%d versions are kept", kept)
	}
}

func TestHolds(t *testing.T) {
	deleted := versioned("1")
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	tests := map[string]struct {
		missing []string
		of      *fleet.Cluster
		want    bool
	}{
		"what is whole is not":                                   {of: versioned("1")},
		"what its owner wants is not known":                      {missing: []string{"status.a", "spec.a"}, of: versioned("1"), want: true},
		"nothing is known of it":                                 {missing: []string{"metadata.name"}, of: versioned("1"), want: true},
		"how far it is, is not known":                            {missing: []string{"status"}, of: versioned("1"), want: true},
		"a part of its status is what somebody has to say of it": {missing: []string{"status.a"}, of: versioned("1")},
		"what is deleted goes":                                   {missing: []string{"spec.a"}, of: deleted},
		"another version of it may be whole":                     {missing: []string{"spec.a"}, of: versioned("2")},
		"a field whose name begins with status is not a status":  {missing: []string{"statusOf.a"}, of: versioned("1"), want: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			told := newTelling()
			var missing []lost
			for _, path := range test.missing {
				missing = append(missing, lost{path, "T"})
			}
			told.note("Cluster", versioned("1"), missing)
			if got := told.holds(test.of); got != test.want {
				t.Errorf("held: %t", got)
			}
			a := &Context{unread: told.unread}
			if !a.Owns(test.of) {
				t.Error("a Cluster's status is not told")
			}
			if bundle := (&fleet.Bundle{ObjectMeta: test.of.ObjectMeta}); a.Owns(bundle) == test.want {
				t.Errorf("a Bundle is looked after: %t", !test.want)
			}
		})
	}
}
