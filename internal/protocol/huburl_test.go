package protocol_test

import (
	"errors"
	"testing"

	"github.com/fleet-hub/fleet/internal/protocol"
)

func TestCheckHubURL(t *testing.T) {
	for _, good := range []string{"https://hub.example.com:6443/k8s/clusters/local", "https://hub", "HTTPS://hub", "https://10.0.0.1:6443", "https://[fd00::1]:6443"} {
		if err := protocol.CheckHubURL(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{"", "hub.example.com", "hub.example.com:6443", "10.0.0.1:6443", "[fd00::1]:6443", "http://hub", "ftp://hub", "https://", "https:hub", "/hub", "https://%zz"} {
		if err := protocol.CheckHubURL(bad); !errors.Is(err, protocol.ErrHubURL) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
