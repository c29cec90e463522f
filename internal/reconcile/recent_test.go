package reconcile

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func accountAt(version string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a", ResourceVersion: version}}
}

func TestRecent(t *testing.T) {
	key := types.NamespacedName{Namespace: "n", Name: "a"}
	tests := map[string]struct {
		written []string
		over    string // what the cache had when it was written; empty: nothing
		cached  string // empty: it is not there
		synced  string
		want    string
		// forgotten is for what is known from the cache from then on.
		forgotten bool
	}{
		"nothing was written, nothing is there":                   {synced: "9"},
		"nothing was written":                                     {cached: "5", synced: "9", want: "5"},
		"it was made, the cache is not there yet":                 {written: []string{"10"}, synced: "9", want: "10"},
		"it was made, the cache came past it: it is gone":         {written: []string{"10"}, synced: "12", forgotten: true},
		"it was changed, the cache is not there yet":              {written: []string{"10"}, cached: "8", synced: "9", want: "10"},
		"it was changed twice":                                    {written: []string{"10", "11"}, cached: "8", synced: "10", want: "11"},
		"it was changed, and the cache has that":                  {written: []string{"10"}, cached: "10", synced: "10", want: "10", forgotten: true},
		"it was changed, and by somebody else after that":         {written: []string{"10"}, cached: "11", synced: "11", want: "11", forgotten: true},
		"it was changed, the informer is ahead of its cache":      {written: []string{"10"}, cached: "8", synced: "12", want: "10"},
		"it was changed, nobody says how far the cache has come":  {written: []string{"10"}, cached: "8", want: "10"},
		"it was changed, and is in the cache no more: it is gone": {written: []string{"10"}, over: "8", synced: "9", forgotten: true},
		"it was changed while another one was in the cache":       {written: []string{"10"}, over: "other", synced: "9", want: "10"},
		"versions that nobody can compare: the cache is believed": {written: []string{"x"}, cached: "8", synced: "9", want: "8", forgotten: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := recent{clock: func() time.Time { return time.Unix(1000, 0) }}
			var over Object
			if test.over != "" {
				account := accountAt(test.over)
				if test.over == "other" {
					account.UID = "other"
				}
				over = account
			}
			for _, version := range test.written {
				r.note(accountAt(version), over)
			}
			var cached Object
			if test.cached != "" {
				cached = accountAt(test.cached)
			}
			got := ""
			if found := r.newest(key, cached, test.synced); found != nil {
				got = found.GetResourceVersion()
			}
			if got != test.want {
				t.Errorf("version %q, want %q", got, test.want)
			}
			if _, known := r.objects[key]; known != (len(test.written) > 0 && !test.forgotten) {
				t.Errorf("remembered: %v", known)
			}
		})
	}
}

// After a restore from an older state, the cache stays older than the writes before the restore.
func TestRecentEnds(t *testing.T) {
	now := time.Unix(1000, 0)
	r := recent{clock: func() time.Time { return now }}
	r.note(accountAt("10"), nil)
	key := types.NamespacedName{Namespace: "n", Name: "a"}
	now = now.Add(writtenLife)
	if r.newest(key, nil, "9") == nil {
		t.Error("it is forgotten while a cache may lag")
	}
	now = now.Add(1)
	if r.newest(key, nil, "9") != nil {
		t.Error("it is remembered for longer than a cache lags")
	}
}

func TestRecentIsBounded(t *testing.T) {
	r := recent{clock: func() time.Time { return time.Unix(1000, 0) }}
	for i := range 3*mostRecent + 1 {
		object := accountAt(fmt.Sprint(i + 1))
		object.Name = fmt.Sprint(i)
		r.note(object, nil)
	}
	if n := len(r.objects); n > mostRecent {
		t.Errorf("%d are remembered, want at most %d", n, mostRecent)
	}
	last := types.NamespacedName{Namespace: "n", Name: fmt.Sprint(3 * mostRecent)}
	if r.newest(last, nil, "1") == nil {
		t.Error("the last one is forgotten")
	}
	if r.forget(last); r.newest(last, nil, "1") != nil {
		t.Error("what was deleted is remembered")
	}
}
