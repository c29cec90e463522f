package reconcile

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func written(uid, version string) *fleet.Cluster {
	return &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), ResourceVersion: version}}
}

func TestWritten(t *testing.T) {
	tests := map[string]struct {
		noted  []*fleet.Cluster
		cached *fleet.Cluster
		want   string
	}{
		"nothing was written":                 {nil, written("a", "5"), "5"},
		"the cache does not have it yet":      {[]*fleet.Cluster{written("a", "10")}, written("a", "9"), "10"},
		"the cache has it":                    {[]*fleet.Cluster{written("a", "10")}, written("a", "10"), "10"},
		"the cache has what came after it":    {[]*fleet.Cluster{written("a", "10")}, written("a", "11"), "11"},
		"of two writes the later one counts":  {[]*fleet.Cluster{written("a", "10"), written("a", "12")}, written("a", "9"), "12"},
		"in whatever order they are told":     {[]*fleet.Cluster{written("a", "12"), written("a", "10")}, written("a", "9"), "12"},
		"another object was written":          {[]*fleet.Cluster{written("b", "10")}, written("a", "9"), "9"},
		"versions that nobody can compare":    {[]*fleet.Cluster{written("a", "x")}, written("a", "9"), "9"},
		"a number is not compared as letters": {[]*fleet.Cluster{written("a", "100")}, written("a", "99"), "100"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var w Written
			for _, c := range test.noted {
				w.Note(c, time.Unix(0, 0))
			}
			if got := Newest(&w, test.cached, time.Unix(0, 0).Add(writtenLife)); got.ResourceVersion != test.want {
				t.Errorf("version %s, want %s", got.ResourceVersion, test.want)
			}
		})
	}
}

func TestWritten_ForgetsOldWrites(t *testing.T) {
	var w Written
	began := time.Unix(1000, 0)
	w.Note(written("a", "1"), began)
	w.Note(written("b", "1"), began.Add(writtenLife))
	if len(w.objects) != 2 {
		t.Errorf("%d are remembered, want both", len(w.objects))
	}
	w.Note(written("c", "1"), began.Add(writtenLife+time.Second))
	if _, there := w.objects["a"]; there || len(w.objects) != 2 {
		t.Errorf("the oldest is remembered beside %d others", len(w.objects)-1)
	}
	// A handler may have read the object before the cache had the write, and others after that.
	w.Note(written("c", "7"), began.Add(writtenLife+time.Second))
	for _, read := range []string{"7", "5"} {
		if got := Newest(&w, written("c", read), began.Add(writtenLife+time.Second)); got.ResourceVersion != "7" {
			t.Errorf("version %s for a reader of %s", got.ResourceVersion, read)
		}
	}
}

// An older object after writtenLife means that the server was restored: earlier writes are lost.
func TestWritten_RestoredServerWins(t *testing.T) {
	var w Written
	began := time.Unix(1000, 0)
	later := began.Add(writtenLife + time.Second)
	w.Note(written("b", "1"), began.Add(writtenLife)) // which forgets what is too old by then
	w.Note(written("a", "90"), began)
	if got := Newest(&w, written("a", "10"), later); got.ResourceVersion != "10" {
		t.Errorf("version %s, want the one that is there", got.ResourceVersion)
	}
	w.Note(written("a", "11"), later)
	if got := Newest(&w, written("a", "10"), later); got.ResourceVersion != "11" {
		t.Errorf("version %s, want the one written after the restore", got.ResourceVersion)
	}
}
