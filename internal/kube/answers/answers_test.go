package answers

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestIsTooLarge(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"no error":                 {nil, false},
		"the API server":           {apierrors.NewRequestEntityTooLargeError("limit is 3145728"), true},
		"etcd":                     {errors.New("etcdserver: request is too large"), true},
		"the client of etcd":       {errors.New("rpc error: trying to send message larger than max (3 vs. 2)"), true},
		"something else of a type": {apierrors.NewBadRequest("no"), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := IsTooLarge(test.err); got != test.want {
				t.Errorf("too large = %v, want %v", got, test.want)
			}
		})
	}
}

func TestIsForObject(t *testing.T) {
	bundles := schema.GroupResource{Group: "fleet.cattle.io", Resource: "bundles"}
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"invalid":        {apierrors.NewInvalid(schema.GroupKind{Kind: "Bundle"}, "b", nil), true},
		"forbidden":      {apierrors.NewForbidden(bundles, "b", errors.New("no")), true},
		"a bad request":  {apierrors.NewBadRequest("no"), true},
		"too large":      {apierrors.NewRequestEntityTooLargeError("3"), true},
		"a conflict":     {apierrors.NewConflict(bundles, "b", errors.New("no")), false},
		"internal error": {apierrors.NewInternalError(errors.New("no")), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := IsForObject(fmt.Errorf("writing: %w", test.err)); got != test.want {
				t.Errorf("about the object = %v, want %v", got, test.want)
			}
		})
	}
}

func TestIsDeleted(t *testing.T) {
	secrets := schema.GroupResource{Resource: "secrets"}
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"no error":                          {nil, false},
		"the API server does not have it":   {fmt.Errorf("reading: %w", apierrors.NewNotFound(secrets, "s")), true},
		"a proxy answers with a page":       {fmt.Errorf("reading: %w", apierrors.NewGenericServerResponse(404, "get", secrets, "s", "404 page not found", 0, true)), false},
		"the API server forbids to read it": {apierrors.NewForbidden(secrets, "s", errors.New("no")), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := IsDeleted(test.err); got != test.want {
				t.Errorf("deleted = %v, want %v", got, test.want)
			}
		})
	}
}

func TestMessage(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"the API server's":      {fmt.Errorf("writing: %w", apierrors.NewBadRequest("no")), "no"},
		"another port":          {errors.New("read tcp 127.0.0.1:4711->127.0.0.1:6443: reset"), "read tcp 127.0.0.1->127.0.0.1:6443: reset"},
		"any other error stays": {errors.New("write error"), "write error"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Message(test.err); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
	if got := len(Message(errors.New(strings.Repeat("x", 1<<20)))); got > maxMessage {
		t.Errorf("a long message has %d bytes, want at most %d", got, maxMessage)
	}
}
