package heartbeat

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

func TestAHeartbeatSaysWhoseItIs(t *testing.T) {
	part := base64.RawURLEncoding.EncodeToString
	token := part([]byte(`{}`)) + "." + part([]byte(`{"kubernetes.io":{"serviceaccount":{"uid":"uid-1"}}}`)) + ".c"
	tests := map[string]struct{ token, want string }{
		"by the account of its token":                   {token, "fieldManager=fleet-agent:uid-1"},
		"unless the token does not say whose it is":     {"letmein", "fieldManager="},
		"or there is none, as with client certificates": {"", "fieldManager="},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			var got string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				got = "fieldManager=" + r.URL.Query().Get("fieldManager")
				_, _ = w.Write([]byte("{}")) // whoever hung up needs no answer
			}))
			defer server.Close()
			err := Run(ctx, Options{
				Hub: &rest.Config{Host: server.URL, BearerToken: test.token}, ClusterNamespace: "ws", ClusterName: "east",
				Clock: func() time.Time { return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) }, OnFirst: cancel,
			})
			if err != nil {
				t.Fatal(err)
			}
			if got != test.want {
				t.Errorf("asked with %s, want %s", got, test.want)
			}
		})
	}
}
