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

func TestHeartbeat_NamesItsAccountAsFieldManager(t *testing.T) {
	part := base64.RawURLEncoding.EncodeToString
	token := part([]byte(`{}`)) + "." + part([]byte(`{"kubernetes.io":{"serviceaccount":{"uid":"uid-1"}}}`)) + ".c"
	tests := map[string]struct{ token, want string }{
		"token of an account":                   {token, "fieldManager=fleet-agent:uid-1"},
		"token without an account":              {"letmein", "fieldManager="},
		"no token, as with client certificates": {"", "fieldManager="},
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
