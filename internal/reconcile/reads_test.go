package reconcile

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// namedCache returns names as objects, the error of a name that has one, and counts the reads.
type namedCache struct {
	errs  map[string]error
	reads int
}

func (c *namedCache) Get(_, name string) (string, error) {
	c.reads++
	return name, c.errs[name]
}

func (c *namedCache) GetByIndex(_, key string) ([]string, error) {
	c.reads++
	return []string{key}, c.errs[key]
}

func TestReads_StopAtTheFirstError(t *testing.T) {
	broken := errors.New("broken")
	cache := &namedCache{errs: map[string]error{"missing": apierrors.NewNotFound(schema.GroupResource{}, "missing"), "broken": broken}}
	r := &Reads{}
	if got := Get(r, cache, "ws", "a") + Get(r, cache, "ws", "missing") + Get(r, cache, "ws", ""); got != "a" || r.Err != nil || cache.reads != 2 {
		t.Errorf("read %q with error %v in %d reads", got, r.Err, cache.reads)
	}
	if got := ByIndex(r, cache, "index", "b"); len(got) != 1 || got[0] != "b" {
		t.Errorf("read %q", got)
	}
	ByIndex(r, cache, "index", "broken")
	if got := Get(r, cache, "ws", "a"); got != "" || ByIndex(r, cache, "index", "b") != nil || !errors.Is(r.Err, broken) || cache.reads != 4 {
		t.Errorf("read %q with error %v in %d reads", got, r.Err, cache.reads)
	}
}
