package stored

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

func TestWatchedVersions_DifferFromWhatIsKnown(t *testing.T) {
	secret := func(name, uid, version string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid), ResourceVersion: version}}
	}
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u", ResourceVersion: "7"}}
	for name, test := range map[string]struct {
		known  []metav1.Object
		see    func(*WatchedVersions)
		differ bool
	}{
		"no event":                          {known: []metav1.Object{secret("a", "u", "7")}, see: func(*WatchedVersions) {}},
		"the known version":                 {known: []metav1.Object{secret("a", "u", "7")}, see: func(s *WatchedVersions) { s.note(secret("a", "u", "7"), false) }},
		"older version, then the known one": {known: []metav1.Object{secret("a", "u", "7")}, see: func(s *WatchedVersions) { s.note(secret("a", "u", "6"), false); s.note(secret("a", "u", "7"), false) }},
		"another version":                   {known: []metav1.Object{secret("a", "u", "7")}, see: func(s *WatchedVersions) { s.note(secret("a", "u", "8"), false) }, differ: true},
		"another object of the name":        {known: []metav1.Object{secret("a", "u", "7")}, see: func(s *WatchedVersions) { s.note(secret("a", "v", "7"), false) }, differ: true},
		"a new object":                      {known: []metav1.Object{secret("a", "u", "7")}, see: func(s *WatchedVersions) { s.note(secret("b", "u", "7"), false) }, differ: true},
		"an object of another kind":         {known: []metav1.Object{secret("a", "u", "7")}, see: func(s *WatchedVersions) { s.note(settings, false) }, differ: true},
		"two known objects":                 {known: []metav1.Object{secret("a", "u", "7"), settings}, see: func(s *WatchedVersions) { s.note(settings, false); s.note(secret("a", "u", "7"), false) }},
		"a deletion":                        {known: []metav1.Object{secret("a", "u", "7")}, see: func(s *WatchedVersions) { s.note(secret("a", "u", "7"), true) }, differ: true},
		"known deletion":                    {see: func(s *WatchedVersions) { s.note(secret("a", "u", "7"), true) }},
		"missed deletion": {known: []metav1.Object{secret("a", "u", "7")}, see: func(s *WatchedVersions) {
			s.note(cache.DeletedFinalStateUnknown{Key: "n/a", Obj: secret("a", "u", "7")}, true)
		}, differ: true},
		"an object without a version": {known: []metav1.Object{secret("a", "u", "")}, see: func(s *WatchedVersions) { s.note(secret("a", "u", ""), false) }, differ: true},
	} {
		t.Run(name, func(t *testing.T) {
			known, seen := versions{}, NewWatchedVersions()
			for _, object := range test.known {
				known.add(object)
			}
			test.see(seen)
			if got := seen.differ(known); got != test.differ {
				t.Errorf("differ %t", got)
			}
		})
	}
}
