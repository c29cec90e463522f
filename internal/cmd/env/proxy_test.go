package env

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOwnDirectly(t *testing.T) {
	const own = "KUBERNETES_SERVICE_HOST"
	tests := map[string]struct{ has, want map[string]string }{
		"outside a cluster: unchanged": {map[string]string{"NO_PROXY": ".svc"}, map[string]string{}},
		"NO_PROXY is not set":          {map[string]string{own: "100.64.0.1"}, map[string]string{"NO_PROXY": "100.64.0.1"}},
		"NO_PROXY is kept": {
			map[string]string{own: "fd00::1", "NO_PROXY": "127.0.0.0/8,.svc"},
			map[string]string{"NO_PROXY": "127.0.0.0/8,.svc,fd00::1"},
		},
		"only no_proxy is set": {
			map[string]string{own: "34.118.224.1", "no_proxy": ".svc"},
			map[string]string{"no_proxy": ".svc,34.118.224.1"},
		},
		"both variables are set": {
			map[string]string{own: "34.118.224.1", "no_proxy": "a", "NO_PROXY": "b"},
			map[string]string{"no_proxy": "a,34.118.224.1", "NO_PROXY": "b,34.118.224.1"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := map[string]string{}
			err := OwnDirectly(func(name string) string { return test.has[name] }, func(name, value string) error {
				got[name] = value
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("set (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOwnDirectly_ReturnsTheErrorOfSetenv(t *testing.T) {
	failure := errors.New("read-only")
	if err := OwnDirectly(func(string) string { return "a" }, func(string, string) error { return failure }); !errors.Is(err, failure) {
		t.Errorf("it is %v", err)
	}
}
