package undecodable

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"

	"github.com/fleet-hub/fleet/internal/cut"
	"github.com/fleet-hub/fleet/internal/reconcile"
)

// reportEvery is the minimum time between two reports about one object.
const reportEvery = 10 * time.Minute

// mostNamed is how many fields a report names.
const mostNamed = 3

// Objects tracks the objects with values that their CRD allows but their Go type cannot hold. A nil Objects is empty.
type Objects struct {
	log   *slog.Logger
	clock func() time.Time
	// event records an Event for users.
	event func(object runtime.Object, message string)

	mu      sync.Mutex
	objects map[types.UID]incomplete
}

// New returns an empty Objects, which reports to the log and, for users, with event.
func New(log *slog.Logger, clock func() time.Time, event func(object runtime.Object, message string)) *Objects {
	return &Objects{log: log, clock: clock, event: event, objects: map[types.UID]incomplete{}}
}

// incomplete is the newest version of an object that could not be decoded completely.
type incomplete struct {
	version  string
	fields   []string
	reported time.Time
}

// note records the undecodable fields of an object and reports them. An object that is being deleted counts as
// complete: its finalizers must be removed, and its content no longer matters.
func (u *Objects) note(kind string, object runtime.Object, fields []string) {
	item, err := meta.Accessor(object)
	if u == nil || err != nil || len(fields) == 0 || item.GetDeletionTimestamp() != nil {
		return
	}
	u.mu.Lock()
	known := u.objects[item.GetUID()]
	due := u.clock().Sub(known.reported) >= reportEvery
	if due {
		known.reported = u.clock()
	}
	if !isOlder(item.GetResourceVersion(), known.version) {
		known.version, known.fields = item.GetResourceVersion(), fields
	}
	u.objects[item.GetUID()] = known
	u.mu.Unlock()
	if due {
		name, named := cache.MetaObjectToName(item), cut.Names(fields, mostNamed)
		command := fmt.Sprintf("kubectl edit %ss.fleet.cattle.io %s%s", strings.ToLower(kind), name.Name, editFlags(name.Namespace, fields))
		u.log.Warn("object cannot be decoded completely", "object", kind+" "+name.String(), "error", "undecodable: "+named+"; correct it with: "+command)
		u.event(object, fmt.Sprintf("%s cannot be decoded, so the object is not reconciled. Correct it with: %s", named, command))
	}
}

// editFlags returns the flags with which kubectl edit reaches the fields.
func editFlags(namespace string, fields []string) (flags string) {
	if namespace != "" {
		flags += " --namespace " + namespace
	}
	if slices.ContainsFunc(fields, isStatus) {
		flags += " --subresource status"
	}
	return flags
}

// isOlder reports whether a version precedes another one. Versions that are not numbers are never older.
func isOlder(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order < 0
}

// Fields returns the undecodable fields of an object. Versions older than the newest incomplete one count as incomplete,
// too: they come from a stale cache.
func (u *Objects) Fields(object metav1.Object) []string {
	if u == nil {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	known := u.objects[object.GetUID()]
	if object.GetDeletionTimestamp() == nil && (object.GetResourceVersion() == known.version || isOlder(object.GetResourceVersion(), known.version)) {
		return known.fields
	}
	return nil
}

// ForgetDeleted forgets the objects of an informer when they are deleted.
func (u *Objects) ForgetDeleted(informer cache.SharedIndexInformer) error {
	return reconcile.WatchChanges(informer, func(change reconcile.Change[metav1.Object]) {
		if change.New == nil {
			u.mu.Lock()
			defer u.mu.Unlock()
			delete(u.objects, change.Old.GetUID())
		}
	})
}
